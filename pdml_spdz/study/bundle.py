"""One file for all that M organisations need to begin: the study, with names and addresses, and their certificates;
and one code of twelve words that they compare by telephone.

The code is of everything that the study says, and the study states the fingerprint of every certificate: another key,
host or setting makes another code. It has 128 bits, so that nobody finds a second bundle for a code that others have
read out. Whoever makes two bundles at once, to show them to different parties, needs 2^64 attempts, and each of them
takes the memory-hard scrypt.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from pdml_spdz.errors import CertificateError, StudyError, printable
from pdml_spdz.study import file as study_file
from pdml_spdz.study.model import Study
from pdml_spdz.system.files import parse_json, save_text
from pdml_spdz.transport import certs
from pdml_spdz.transport.certs import Certificate

FORMAT = "pdml-spdz bundle 1"
MOST_BYTES = 64 << 20  # names and offsets of many features
BITS = 128
FEW = 12  # names that are shown one by one
COST = {"n": 1 << 14, "r": 8, "p": 1}  # of scrypt: 16 MB and some hundredths of a second


def code(study: Study) -> str:
    """Twelve words, of the list of BIP-39, for everything that the study says."""
    from mnemonic import Mnemonic  # whose check bits fill the twelfth word

    entropy = hashlib.scrypt(study.digest.encode(), salt=FORMAT.encode(), dklen=BITS // 8, **COST)
    return str(Mnemonic("english").to_mnemonic(entropy))


def same_code(given: str, wanted: str) -> bool:
    """Whether words that somebody has typed are the code, however they are spaced and capitalised."""
    return given.lower().replace(",", " ").split() == wanted.split()


@dataclass(frozen=True)
class Bundle:
    """certificates : PEM, by party"""

    study: Study
    certificates: tuple[bytes, ...]

    def save(self, path: Path) -> None:
        content = {
            "format": FORMAT,
            "study": study_file.render(self.study),
            "certificates": [pem.decode() for pem in self.certificates],
        }
        save_text(path, json.dumps(content, indent=1) + "\n")

    def checked(self, source: Path) -> list[Certificate]:
        """Every party's certificate: its own, the one that the study names, and valid now."""
        found = []
        for party, (entry, pem) in enumerate(zip(self.study.parties, self.certificates, strict=True)):
            certificate = certs.parse(pem, source)
            certificate.check_valid_now()
            if certificate.party != party or certificate.fingerprint != entry.fingerprint:
                raise CertificateError(
                    f"the certificate of P{party} in {source} is not the one that its study names.",
                    f"the fingerprint {entry.fingerprint or 'of that certificate'}",
                    "ask whoever made the bundle for another one",
                )
            found.append(certificate)
        return found


def load(path: Path) -> Bundle:
    """Read a bundle, and check that it is whole."""
    try:
        if path.stat().st_size > MOST_BYTES:
            raise ValueError("it is too large")
        content = parse_json(path.read_text(encoding="utf-8"))
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise ValueError("it has another format")
        pems = [str(pem).encode() for pem in content["certificates"]]
        study = study_file.parse(tomllib.loads(str(content["study"])))
    except OSError as error:
        raise StudyError(
            f"{path} cannot be read ({error.strerror}).", "a bundle that `pdml-spdz study pack` made"
        ) from None
    except StudyError:
        raise
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StudyError(f"{path} is no bundle: {error}.", "the file that `pdml-spdz study pack` made") from None
    if len(pems) != study.M:
        raise StudyError(f"{path} has {len(pems)} certificates for {study.M} parties.", "one for each party")
    bundle = Bundle(study, tuple(pems))
    bundle.checked(path)
    return bundle


def pack(study: Study, directory: Path) -> Bundle:
    """The study with the parties' names, addresses and fingerprints, as their pinned certificates have them.

    directory : where all certificates are pinned
    """
    found = [certs.pinned(directory, party) for party in range(study.M)]
    entries = []
    for entry, certificate in zip(study.parties, found, strict=True):
        host, port = certificate.address or (entry.host, entry.port)
        name = certificate.name or entry.name
        entries.append(replace(entry, name=name, host=host, port=port, fingerprint=certificate.fingerprint))
    agreed = replace(study, parties=tuple(entries))
    return Bundle(agreed, tuple(certificate.path.read_bytes() for certificate in found))


def own_party(directory: Path, bundle: Bundle, me: int | None) -> int:
    """Which party of the bundle has its key in `directory`; me : which it says it is, if it does"""
    found = [me] if me is not None else certs.keys(directory)
    if len(found) != 1:
        what = "no private key" if not found else f"the keys of {', '.join(f'P{i}' for i in found)}"
        raise CertificateError(
            f"{directory} has {what}.",
            "this party's own key, and no other",
            "make it here, `pdml-spdz certs make --id I`, and send P<I>.pem to whoever packs; or pass --id",
        )
    certs.check_key(directory, found[0])
    own, stated = certs.pinned(directory, found[0]), _fingerprint(bundle, found[0])
    if own.fingerprint != stated:
        raise CertificateError(
            f"the bundle has another certificate for P{found[0]} than {own.path}.",
            f"the fingerprint {certs.spoken(own.fingerprint)}",
            f"send P{found[0]}.pem again to whoever made the bundle; if they have it, it was replaced on its way",
        )
    return found[0]


def _fingerprint(bundle: Bundle, party: int) -> str:
    if party >= bundle.study.M:
        raise StudyError(f"the bundle has {bundle.study.M} parties, and this is P{party}.", "a party of the study")
    return bundle.study.parties[party].fingerprint


def unpack(bundle: Bundle, directory: Path, source: Path, *, force: bool = False) -> None:
    """Pin the certificates of a bundle whose code was compared."""
    for certificate, pem in zip(bundle.checked(source), bundle.certificates, strict=True):
        certs.pin(directory, certificate, pem, force=force)


def settings(study: Study) -> Mapping[str, Any]:
    """What a study says that is not as it usually is, for people to look at."""
    shown: dict[str, Any] = {"algorithm": study.algorithm, "rank": study.rank, "engine": study.engine}
    hidden = {"parties", "timeouts", *shown}
    for name in type(study).__dataclass_fields__:
        value = getattr(study, name)
        if name in hidden or name in study.spec.idle or value == study.usual(name):
            continue
        if is_dataclass(value):  # settings of its own, of which only those are shown that somebody chose
            chosen = {f.name: getattr(value, f.name) for f in fields(value)}
            usual = study.usual(name)
            shown |= {f"{name}.{n}": _briefly(v) for n, v in chosen.items() if v != getattr(usual, n)}
        else:
            shown[name] = _briefly(value)
    return shown


def _briefly(value: Any) -> Any:
    """A list by its names where these are few, else by its length. What another party wrote stays on its line."""
    match value:
        case [(str(), (*_,)), *_]:  # categories by column
            said = " ".join(f"{column}={'|'.join(names)}" for column, names in value)
        case [str(), *_] if len(value) <= FEW:
            said = " ".join(value)
        case [*_]:
            said = f"{len(value)} numbers or names"
        case _:
            return value
    return printable(said).replace("\n", "\\n")
