"""Keys and certificates: made where they are used, pinned by fingerprint, never copied.

Party i has `P<i>.key` (mode 0600) and the self-signed `P<i>.pem` (CN=P<i>, as MP-SPDZ wants it) in its own directory,
and there it pins the other parties' `P<j>.pem`. There is no authority: a certificate is trusted because its
fingerprint was compared by people, over another channel.
"""

from __future__ import annotations

import datetime as dt
import os
import re
import urllib.parse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed448, ed25519, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from pdml_spdz.errors import LONGEST_NAME, CertificateError

VALID_DAYS = 365
SCHEME = "pdml-spdz"  # of the address that a certificate may state
Address = tuple[str, int]


@dataclass(frozen=True)
class Certificate:
    """What people and the transport need to know of one certificate.

    name, address : of the organisation, and where its party listens, if it says so; for people who put a study
    together, not for the transport
    """

    party: int
    fingerprint: str
    not_before: dt.datetime
    not_after: dt.datetime
    path: Path
    name: str = ""
    address: Address | None = None

    def check_valid_now(self) -> None:
        now = dt.datetime.now(dt.UTC)
        if not self.not_before <= now <= self.not_after:
            raise CertificateError(
                f"P{self.party}'s certificate ({self.path}) is valid from {self.not_before:%Y-%m-%d %H:%M} "
                f"to {self.not_after:%Y-%m-%d %H:%M} UTC; this machine's clock says {now:%Y-%m-%d %H:%M} UTC.",
                "a certificate that is valid now",
                f"set the clock, or make a new one at P{self.party} (`pdml-spdz certs make --id {self.party} --force`) "
                "and `certs add` it at the others",
                culprit=self.party,
            )


@dataclass(frozen=True)
class Identity:
    """Party `me`'s own key and the certificates it trusts, by party."""

    me: int
    key_path: Path
    certificates: Mapping[int, Certificate]

    @property
    def cert_path(self) -> Path:
        return self.certificates[self.me].path

    @property
    def fingerprints(self) -> list[str]:
        """Of all parties, in their order."""
        return [self.certificates[party].fingerprint for party in sorted(self.certificates)]


def make(
    directory: Path,
    party: int,
    *,
    days: int = VALID_DAYS,
    force: bool = False,
    name: str = "",
    address: Address | None = None,
) -> Certificate:
    """Make party's key and self-signed certificate in `directory`."""
    if len(name) > LONGEST_NAME or not name.isprintable():
        raise CertificateError(f"the name {name[:100]!r} does not fit.", f"at most {LONGEST_NAME} printable characters")
    key_path, cert_path = directory / f"P{party}.key", directory / f"P{party}.pem"
    if not force and (key_path.exists() or cert_path.exists()):
        raise CertificateError(
            f"{key_path if key_path.exists() else cert_path} is already there.",
            do="keep it, or pass --force to replace key and certificate (then every peer must `certs add` the new one)",
        )
    directory.mkdir(parents=True, exist_ok=True)
    key = ec.generate_private_key(ec.SECP256R1())
    # MP-SPDZ looks for a subject with this and nothing else.
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"P{party}")])
    now = dt.datetime.now(dt.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))  # clocks differ a little
        .not_valid_after(now + dt.timedelta(days=days))
        # No authority: MP-SPDZ takes whatever an authority among the pinned certificates has issued in a peer's name.
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(_alternatives(party, name, address)), critical=False)
        .add_extension(
            x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False
        )
        .sign(key, hashes.SHA256())
    )
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    key_path.unlink(missing_ok=True)
    # Created with its final mode: the key is at no moment readable by others.
    descriptor = os.open(key_path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(pem)
    cert_path.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return read(cert_path)


def _alternatives(party: int, name: str, address: Address | None) -> list[x509.GeneralName]:
    found: list[x509.GeneralName] = [x509.DNSName(f"P{party}")]
    if name:
        found.append(x509.DirectoryName(x509.Name([x509.NameAttribute(NameOID.ORGANIZATION_NAME, name)])))
    if address is not None:
        host = address[0].encode("idna").decode() if ":" not in address[0] else f"[{address[0]}]"
        found.append(x509.UniformResourceIdentifier(f"{SCHEME}://{host}:{address[1]}"))
    return found


def _said(certificate: x509.Certificate) -> tuple[str, Address | None]:
    """The organisation's name and the party's address, as far as the certificate says them."""
    try:
        names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        told = names.get_values_for_type(x509.DirectoryName)
        organisations = [a for n in told for a in n.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)]
        name = str(organisations[0].value)[:LONGEST_NAME] if organisations else ""
        name = name if name.isprintable() else ""
        for uri in names.get_values_for_type(x509.UniformResourceIdentifier):
            parts = urllib.parse.urlsplit(uri)
            if parts.scheme == SCHEME and parts.hostname and parts.port:
                return name, (parts.hostname, parts.port)
    except (x509.ExtensionNotFound, x509.DuplicateExtension, x509.UnsupportedGeneralNameType, ValueError):
        return "", None
    return name, None


def read(path: Path) -> Certificate:
    """Read one PEM certificate whose common name says which party it is."""
    try:
        pem = path.read_bytes()
    except OSError as error:
        raise CertificateError(
            f"{path} cannot be read ({error.strerror}).",
            "a party's certificate, P<i>.pem",
            "make your own with `pdml-spdz certs make --id I`, pin a peer's with `pdml-spdz certs add FILE`",
        ) from None
    return parse(pem, path)


def parse(pem: bytes, path: Path) -> Certificate:
    """path : where it is, for messages"""
    if b"PRIVATE KEY" in pem:
        raise CertificateError(
            f"{path} holds a private key.",
            "a certificate alone",
            "send only P<i>.pem to the other parties; a key that has travelled must be replaced (`certs make --force`)",
        )
    if pem.count(b"-----BEGIN") > 1:  # whatever else is in a pinned file is trusted by programs that read it, too
        raise CertificateError(f"{path} holds more than one certificate.", "the one certificate of a party")
    try:
        certificate = x509.load_pem_x509_certificate(pem)
    except ValueError:
        raise CertificateError(f"{path} is not a PEM certificate.", "the P<i>.pem of a party") from None
    names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    match = re.fullmatch(r"P(0|[1-9][0-9]{0,3})", str(names[0].value)) if names else None
    if match is None:
        raise CertificateError(
            f"{path} is not a party's certificate (its common name is {names[0].value if names else 'missing'!r}).",
            "the common name P<i>",
            "make it with `pdml-spdz certs make --id I`",
        )
    if not _is_alone(certificate, name := match[0]):
        raise CertificateError(
            f"{path} has other names than {name}.",
            f"the common name {name}, once, and no DNS name or address but it",
            "make it with `pdml-spdz certs make --id I`: MP-SPDZ takes a party for each name of its certificate",
        )
    if not _is_strong(certificate):
        raise CertificateError(
            f"{path} has a key that is too weak, or of an unknown kind.",
            "an elliptic curve of NIST or Edwards, or RSA of 2048 bits or more",
            "make it with `pdml-spdz certs make --id I`",
        )
    if _may_issue(certificate):
        raise CertificateError(
            f"{path} could issue certificates in the names of other parties (pdml-spdz made them so up to 0.5).",
            "a certificate that is no authority (CA:FALSE)",
            "its owner makes a new one (`pdml-spdz certs make --id I --force`), and the study is packed again with it",
        )
    digest = certificate.fingerprint(hashes.SHA256()).hex()
    valid = certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return Certificate(int(match[1]), digest, *valid, path, *_said(certificate))


def _is_alone(certificate: x509.Certificate, name: str) -> bool:
    """Whether nobody could take this certificate for that of another party."""
    if [a.value for a in certificate.subject if a.oid == NameOID.COMMON_NAME] != [name]:
        return False
    try:
        more = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return True
    except (x509.DuplicateExtension, x509.UnsupportedGeneralNameType, ValueError):
        return False
    return more.get_values_for_type(x509.DNSName) == [name] and not more.get_values_for_type(x509.IPAddress)


def _may_issue(certificate: x509.Certificate) -> bool:
    """Without the extension an old OpenSSL takes a self-signed certificate for an authority."""
    try:
        return certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca
    except (x509.ExtensionNotFound, x509.DuplicateExtension, ValueError):
        return True


def _is_strong(certificate: x509.Certificate) -> bool:
    try:
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        return False
    if isinstance(key, rsa.RSAPublicKey | ec.EllipticCurvePublicKey):
        return key.key_size >= (2048 if isinstance(key, rsa.RSAPublicKey) else 256)
    return isinstance(key, ed25519.Ed25519PublicKey | ed448.Ed448PublicKey)


def add(directory: Path, file: Path, *, force: bool = False) -> Certificate:
    """Pin a peer's certificate; a different one that is pinned already is not replaced unless forced."""
    new = read(file)
    new.check_valid_now()
    return pin(directory, new, file.read_bytes(), force=force)  # read before it is opened: it may be the same file


def add_all(directory: Path, files: Sequence[Path], *, force: bool = False) -> list[Certificate]:
    """The same for several; all of them are read, and found to be valid, before one is pinned."""
    for file in files:
        read(file).check_valid_now()
    return [add(directory, file, force=force) for file in files]


def pin(directory: Path, new: Certificate, pem: bytes, *, force: bool = False) -> Certificate:
    """A certificate that was read, as `add` pins it: what was checked, and nothing else of the file."""
    target = directory / f"P{new.party}.pem"
    if target.exists() and not force:
        old = read(target)
        if old.fingerprint != new.fingerprint:
            raise CertificateError(
                f"another certificate is pinned for P{new.party} (fingerprint {old.fingerprint[:16]}..., the new "
                f"one's {new.fingerprint[:16]}).",
                do=f"ask P{new.party}, by telephone, whether it made a new one; then add it with --force",
            )
    directory.mkdir(parents=True, exist_ok=True)
    target.write_bytes(x509.load_pem_x509_certificate(pem).public_bytes(serialization.Encoding.PEM))
    return read(target)


def pinned(directory: Path, party: int) -> Certificate:
    """The certificate of `party` that is pinned here; it is that party's, and valid now."""
    certificate = read(directory / f"P{party}.pem")
    if certificate.party != party:
        raise CertificateError(
            f"{certificate.path} is the certificate of P{certificate.party}.", f"one with the common name P{party}"
        )
    certificate.check_valid_now()
    return certificate


def load_identity(directory: Path, me: int, fingerprints: Mapping[int, str]) -> Identity:
    """Party me's key and all parties' certificates, checked.

    fingerprints : for every party the fingerprint that the study states
    """
    check_key(directory, me)
    certificates = {}
    for party, stated in fingerprints.items():
        certificate = pinned(directory, party)
        if stated != certificate.fingerprint:
            raise CertificateError(
                f"the certificate pinned for P{party} ({certificate.path}) is not the one that the study names.",
                f"the fingerprint {stated}",
                f"get P{party}.pem again and compare the fingerprint (`pdml-spdz certs show`)",
                culprit=party,
            )
        certificates[party] = certificate
    return Identity(me, directory / f"P{me}.key", certificates)


def keys(directory: Path) -> list[int]:
    """The parties whose private keys are in a directory: on a host of its own, one."""
    found = (re.fullmatch(r"P(\d{1,4})\.key", path.name) for path in directory.glob("P*.key"))
    return sorted(int(match[1]) for match in found if match)


def check_key(directory: Path, me: int) -> None:
    """Party me's own key is here, and nobody else's to read."""
    key_path = directory / f"P{me}.key"
    if not key_path.is_file():
        others = keys(directory)
        do = f"make it here: `pdml-spdz certs make --id {me}`"
        if others:
            do = f"this directory has {' and '.join(f'P{i}.key' for i in others)}: did you mean --id {others[0]}?"
        raise CertificateError(f"{key_path} is missing.", "this party's own key", do)
    if key_path.stat().st_mode & 0o077:
        raise CertificateError(
            f"{key_path} can be read by other users of this machine.", "mode 0600", f"chmod 600 {key_path}"
        )


def spoken(fingerprint: str) -> str:
    """A fingerprint in groups of four, to be read out."""
    return " ".join(fingerprint[i : i + 4] for i in range(0, len(fingerprint), 4))
