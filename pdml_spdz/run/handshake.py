"""Before any number: the parties find out whether they mean the same thing, and have the same code."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz import __version__
from pdml_spdz.errors import EngineError, MismatchError, StudyError
from pdml_spdz.rows import names
from pdml_spdz.rows.data import Data
from pdml_spdz.study.fields import shown
from pdml_spdz.study.model import Study
from pdml_spdz.transport.base import Link, read_object

PROTOCOL = 2
MOST = 4096  # bytes of a greeting
NONCE = re.compile("[0-9a-f]{32}")
RELEASE = "install one release at all parties"
# What a greeting holds: how a person calls it, and what to do where it differs.
COMPARED = {
    "protocol": ("protocol version", RELEASE),
    "version": ("version", RELEASE),
    "build": ("build (its sources differ)", f"{RELEASE}, built from the same source"),
    "study": ("study", "send the same study.toml to all parties"),
    "certificates": (
        "list of pinned certificates",
        "compare `pdml-spdz certs show` at all parties, by telephone: somebody has another certificate of some party",
    ),
    "resume": ("--resume setting", "pass --resume at every party or at none"),
}


def required_fingerprints(study: Study) -> dict[int, str]:
    """Every party's, as the study states it: without them two parties could have pinned different keys of a third."""
    missing = [f"P{i}" for i, party in enumerate(study.parties) if not party.fingerprint]
    if missing:
        raise StudyError(
            f"the study has no fingerprint of the certificate of {', '.join(missing)}.",
            "the fingerprint of every party's certificate, in its [[parties]] table",
            "pin all certificates (`pdml-spdz certs add`), run `pdml-spdz certs fingerprints STUDY` at one party, and "
            "send that study to all",
        )
    return {i: party.fingerprint for i, party in enumerate(study.parties)}


def meet(link: Link, study: Study, fingerprints: Sequence[str], *, resume: bool) -> bytes:
    """Compare what was agreed beforehand; returns the identity of this run, fresh from every party's nonce.

    1. each party sends protocol and package version, digests of the build, of the study and of all M
       certificates' fingerprints as it has pinned them (its own included), whether it resumes, and a nonce
    2. all must be equal but the nonces; run = H(all digests, nonces)

    fingerprints : in the parties' order; none where there are no certificates (threads of one process)

    Reveals: that studies, builds and pinned certificates are equal or not. Cost: one round, about 400 bytes a peer.
    Ref: -
    """
    own: dict[str, Any] = {
        "protocol": PROTOCOL,
        "version": __version__,
        "build": build_digest(),
        "study": study.digest,
        "certificates": hashlib.sha256("|".join(fingerprints).encode()).hexdigest(),
        "resume": resume,
    }
    nonce = secrets.token_hex(16)
    nonces = {link.me: nonce}
    for peer, theirs in _exchange(link, "hello", own | {"nonce": nonce}).items():
        nonces[peer] = _nonce(theirs.get("nonce"), peer)
        for name, (what, do) in COMPARED.items():
            _compare(peer, what, own[name], theirs.get(name), do)
    parts = [own["build"], own["study"], own["certificates"], *(nonces[p] for p in range(link.M))]
    return hashlib.sha256("|".join(parts).encode()).digest()


def compare_features(link: Link, data: Data, study: Study, run: bytes) -> Data:
    """Compare number and names of the features; the rows with their columns in the order that all parties have.

    1. each party sends d and, where its rows have names, digests of the list and of the sorted list, keyed with the run
    2. d and the digests of sorted lists must be equal; all parties have names, or none has
    3. if the lists' digests are not equal: party 0 sends where each of its names is in the sorted list, and everyone
       puts its columns into that order

    With `columns = "position"` names are not compared: the rows have those of the study, if any (`prepare.fitting`).

    Reveals: d, whether a party has names, whether they are the same as one's own or as any list that one can guess, the
    order of party 0's columns; never a name, never the number of rows.
    Cost: one round, about 200 bytes a peer; a second one of 4 d bytes from party 0 if the orders differ. Ref: -
    """
    own = data.features if study.columns == "name" else None
    digests = None if own is None else [names.digest(own, run), names.digest(sorted(own), run)]
    lists = {link.me: digests}
    for peer, theirs in _exchange(link, "features", {"d": data.d, "names": digests}).items():
        _compare(peer, "number of features", data.d, theirs.get("d"), "give all parties the same columns")
        lists[peer] = _digests(theirs.get("names"), peer)
        _compare_names(peer, digests, lists[peer])
    if own is None or len({str(found) for found in lists.values()}) == 1:
        return data
    return _as_party_0(link, data, own, str((lists[0] or [""])[0]), run)


def _nonce(received: object, peer: int) -> str:
    if isinstance(received, str) and NONCE.fullmatch(received):
        return received
    raise _unreadable(peer)


def _digests(received: object, peer: int) -> list[str] | None:
    if received is None:
        return None
    if isinstance(received, list) and len(received) == 2 and all(isinstance(digest, str) for digest in received):
        return received
    raise _unreadable(peer)


def _unreadable(peer: int) -> MismatchError:
    return MismatchError(f"P{peer} sent a greeting that cannot be read.", culprit=peer)


def _compare_names(peer: int, own: list[str] | None, theirs: list[str] | None) -> None:
    if (own is None) != (theirs is None):
        found = ("names", "none") if own is None else ("no names", "some")
        raise MismatchError(
            f"P{peer} has {found[0]} for its features, and this party has {found[1]}.",
            "names at every party, or at none",
            'give all files the same names; or agree on `columns = "position"` (--columns-by position)',
            culprit=peer,
        )
    if own is not None and theirs is not None and own[1] != theirs[1]:
        raise MismatchError(
            f"P{peer} has another set of feature names than this party.",
            "the same names at every party, in any order",
            "list the names in the study (`features`): each party then sees which of its own differ, and no other does",
            culprit=peer,
        )


def _as_party_0(link: Link, data: Data, own: names.Names, wanted: str, run: bytes) -> Data:
    """Step 3: the columns in party 0's order, of which `wanted` is the digest."""
    by_rank = np.array(sorted(range(data.d), key=own.__getitem__))  # own columns in the order of the sorted list
    rank = np.empty(data.d, "<u4")
    rank[by_rank] = np.arange(data.d)
    received = link.broadcast("order", rank if link.me == 0 else None, most=rank.nbytes)
    ranks = np.frombuffer(received, "<u4") if received.nbytes == 4 * data.d else np.zeros(0, "<u4")
    if not np.array_equal(np.sort(ranks), np.arange(data.d)):
        raise MismatchError("P0 sent an order of the features that is none.", culprit=0)
    ordered = data.permuted(by_rank[ranks])
    if names.digest(ordered.features or (), run) != wanted:
        raise MismatchError("P0 sent an order of the features that is not its own.", culprit=0)
    return ordered


def _exchange(link: Link, step: str, content: dict[str, Any]) -> dict[int, dict[str, Any]]:
    answers = {}
    for peer, raw in link.all_to_all(step, json.dumps(content).encode(), MOST).items():
        try:
            answers[peer] = read_object(raw)
        except ValueError:
            raise _unreadable(peer) from None
    return answers


def _compare(peer: int, what: str, own: object, theirs: object, do: str) -> None:
    if type(own) is not type(theirs):
        raise _unreadable(peer)
    if own != theirs:
        raise MismatchError(
            f"P{peer} has another {what} than this party (there {shown(theirs)}, here {shown(own)}).",
            f"the same {what} at every party",
            do,
            culprit=peer,
        )


PACKAGE = Path(__file__).parents[1]
# What people use, and what starts parties: nothing here sends a word or decides how long it is. All else counts.
OUTSIDE = ("__main__.py", "api.py", "applications", "bench", "cli", "estimators", "local", "privacy", "results")


@cache  # modules that are loaded stay as they are, whatever becomes of their files
def build_digest() -> str:
    """Of this build: of the sources that a run goes through, to be compared between parties.

    Nobody keeps a list of constants of wire format, sharing, OT, LPN and precision: a digest of the text knows them
    all, wherever they are, and also the code that uses them. Code that differs was never tried together, even if it
    only makes one party faster. To read the text takes milliseconds; to import every module in order to look at its
    constants took more than a small run does.
    """
    return digest_of(PACKAGE)


def digest_of(package: Path) -> str:
    """Of the text of all sources, wherever they are."""
    whole = hashlib.sha256()
    for path in sources(package):
        text = path.read_text(encoding="utf-8")  # with \n for every line end, as Python reads it
        whole.update(f"{path.relative_to(package).as_posix()} {len(text)}\n{text}".encode())
    return whole.hexdigest()


def sources(package: Path) -> Iterator[Path]:
    """Every module that a run may go through, in the order of their names."""
    found = sorted(path for path in package.rglob("*.py") if path.relative_to(package).parts[0] not in OUTSIDE)
    if not found:
        raise EngineError(
            f"there are no sources in {package}: parties compare them before they compute.",
            "the package as it was released, with its .py files",
        )
    yield from found
