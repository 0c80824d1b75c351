"""Before any number: the parties find out whether they mean the same thing."""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pdml_spdz import __version__, build
from pdml_spdz.data import Data, feature_digest
from pdml_spdz.errors import MismatchError, StudyError
from pdml_spdz.study import Study
from pdml_spdz.transport.base import Link

PROTOCOL = 1
RELEASE = "install one release at all parties"
# What a greeting holds: how a person calls it, and what to do where it differs.
COMPARED = {
    "protocol": ("protocol version", RELEASE),
    "version": ("version", RELEASE),
    "build": ("build (its constants differ)", f"{RELEASE}, built from the same source"),
    "study": ("study", "send the same study.toml to all parties"),
    "certificates": (
        "list of pinned certificates",
        "compare `pdml-spdz certs show` at all parties, by telephone: somebody has another certificate of some party",
    ),
    "resume": ("--resume setting", "pass --resume at every party or at none"),
}


@dataclass(frozen=True)
class Agreed:
    """run : the identity of this run, fresh from every party's nonce."""

    run: bytes


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


def meet(link: Link, study: Study, fingerprints: Sequence[str], *, resume: bool) -> Agreed:
    """Compare what was agreed beforehand.

    1. each party sends protocol and package version, digests of the build's parameters, of the study and of all M
       certificates' fingerprints as it has pinned them (its own included), whether it resumes, and a nonce
    2. all must be equal but the nonces; run = H(all digests, nonces)

    fingerprints : in the parties' order; none where there are no certificates (threads of one process)

    Reveals: that studies, builds and pinned certificates are equal or not. Cost: one round, about 400 bytes a peer.
    Ref: -
    """
    own: dict[str, Any] = {
        "protocol": PROTOCOL,
        "version": __version__,
        "build": build.digest(),
        "study": study.digest,
        "certificates": hashlib.sha256("|".join(fingerprints).encode()).hexdigest(),
        "resume": resume,
    }
    nonce = secrets.token_hex(16)
    nonces = {link.me: nonce}
    for peer, theirs in _exchange(link, "hello", own | {"nonce": nonce}).items():
        nonces[peer] = str(theirs.get("nonce"))
        for name, (what, do) in COMPARED.items():
            _compare(peer, what, own[name], theirs.get(name), do)
    parts = [own["build"], own["study"], own["certificates"], *(nonces[p] for p in range(link.M))]
    return Agreed(hashlib.sha256("|".join(parts).encode()).digest())


def compare_features(link: Link, data: Data) -> None:
    """Compare number, names and order of the features.

    1. each party sends d and, where its file has names, a digest of them
    2. d must be equal, and names wherever two parties have some

    Reveals: d and a digest of the names, which the parties must share anyway; never the number of rows.
    Cost: one round, about 100 bytes a peer.
    """
    names = feature_digest(data.d, data.features) if data.features is not None else None
    for peer, theirs in _exchange(link, "features", {"d": data.d, "names": names}).items():
        _compare(peer, "number of features", data.d, theirs.get("d"), "give all parties the same columns")
        if names is not None and theirs.get("names") is not None:
            ends = names[:16], str(theirs["names"])[:16]
            _compare(peer, "list of feature names", *ends, "give all parties the same names in the same order")


def _exchange(link: Link, step: str, content: dict[str, Any]) -> dict[int, dict[str, Any]]:
    answers = {}
    for peer, raw in link.all_to_all(step, json.dumps(content).encode()).items():
        try:
            answers[peer] = dict(json.loads(bytes(raw)))
        except (ValueError, TypeError):
            raise MismatchError(f"P{peer} sent a greeting that cannot be read.", culprit=peer) from None
    return answers


def _compare(peer: int, what: str, own: object, theirs: object, do: str) -> None:
    if own != theirs:
        raise MismatchError(
            f"P{peer} has another {what} than this party (there {theirs!r}, here {own!r}).",
            f"the same {what} at every party",
            do,
            culprit=peer,
        )
