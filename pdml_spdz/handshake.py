"""Before any number: the parties find out whether they mean the same thing."""

from __future__ import annotations

import hashlib
import json
import secrets
from dataclasses import dataclass
from typing import Any

from pdml_spdz import __version__
from pdml_spdz.data import Data, feature_digest
from pdml_spdz.errors import MismatchError
from pdml_spdz.study import Study
from pdml_spdz.transport.base import Link

PROTOCOL = 1


@dataclass(frozen=True)
class Agreed:
    """run : the identity of this run, fresh from every party's nonce."""

    run: bytes


def meet(link: Link, study: Study, *, resume: bool) -> Agreed:
    """Compare what was agreed beforehand.

    1. each party sends protocol version, study digest, whether it resumes, and a nonce
    2. all must be equal but the nonces; run = H(study digest, nonces)

    Reveals: that the studies are equal or not. Cost: one round, about 200 bytes a peer.
    """
    own = {"protocol": PROTOCOL, "study": study.digest, "resume": resume, "version": __version__}
    nonce = secrets.token_hex(16)
    nonces = {link.me: nonce}
    for peer, theirs in _exchange(link, "hello", own | {"nonce": nonce}).items():
        nonces[peer] = str(theirs.get("nonce"))
        _compare(peer, "protocol version", PROTOCOL, theirs.get("protocol"), "install one release at all parties")
        _compare(peer, "version", __version__, theirs.get("version"), "install one release at all parties")
        _compare(peer, "study", study.digest, theirs.get("study"), "send the same study.toml to all parties")
        _compare(peer, "--resume setting", resume, theirs.get("resume"), "pass --resume at every party or at none")
    parts = [study.digest, *(nonces[p] for p in range(link.M))]
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
