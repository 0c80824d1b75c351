"""Keys and certificates that are missing, expired, readable by others, not pinned, or somebody else's."""

from __future__ import annotations

import datetime as dt
import os
import ssl
import stat
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from pdml_spdz.errors import CertificateError, PeerError, StudyError
from pdml_spdz.study import file as study_file
from pdml_spdz.transport import certs
from tests.parties.helpers import EMBEDDED, HASTE, Parties, Process, run

NO_AUTHORITY = x509.BasicConstraints(ca=False, path_length=None)


def expire(directory: Path, party: int) -> str:
    """Sign the party's certificate anew, for the day before yesterday; returns its fingerprint."""
    key = serialization.load_pem_private_key((directory / f"P{party}.key").read_bytes(), None)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"P{party}")])
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - dt.timedelta(days=2)).not_valid_after(now - dt.timedelta(days=1))
    builder = builder.add_extension(NO_AUTHORITY, critical=True)
    certificate = builder.sign(key, hashes.SHA256())
    (directory / f"P{party}.pem").write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    return certificate.fingerprint(hashes.SHA256()).hex()


def another(site: Parties, m: int, party: int, *, in_its_study: bool = False) -> None:
    """At m another certificate is pinned for `party` than the one it has; perhaps its study says so, too."""
    made = certs.make(site.directory / "elsewhere", party)
    certs.add(site.certs(m), made.path, force=True)
    if in_its_study:
        entries = list(site.study.parties)
        entries[party] = replace(entries[party], fingerprint=made.fingerprint)
        site.change_study(m, parties=tuple(entries))


def missing_key(site: Parties) -> None:
    (site.certs(1) / "P1.key").unlink()


def open_key(site: Parties) -> None:
    (site.certs(1) / "P1.key").chmod(0o644)


def other_key(site: Parties) -> None:
    made = certs.make(site.directory / "elsewhere", 1)
    made.path.with_suffix(".key").replace(site.certs(1) / "P1.key")


def not_pinned(site: Parties) -> None:
    (site.certs(1) / "P0.pem").unlink()


def not_the_studys(site: Parties) -> None:
    another(site, 1, 0)


def not_its_own(site: Parties) -> None:
    """P1's file for P0 holds P1's certificate."""
    (site.certs(1) / "P0.pem").write_bytes((site.certs(1) / "P1.pem").read_bytes())


@pytest.mark.parametrize(
    ("spoil", "phrases"),
    [
        (missing_key, ["P1.key is missing", "Do this: make it here: `pdml-spdz certs make --id 1`"]),
        (open_key, ["P1.key can be read by other users", "Wanted: mode 0600", "Do this: chmod 600"]),
        (other_key, ["P1.key does not belong to certs/P1.pem", "Do this: `pdml-spdz certs make --id 1 --force`"]),
        (not_pinned, ["P0.pem cannot be read", "Do this: make your own", "`pdml-spdz certs add FILE`"]),
        (not_the_studys, ["is not the one that the study names", "Do this: get P0.pem again"]),
        (not_its_own, ["P0.pem is the certificate of P1", "Wanted: one with the common name P0"]),
    ],
)
def test_certificates_are_wrong_at_one_party(
    parties: Callable[..., Parties], spoil: Callable[[Parties], None], phrases: list[str]
) -> None:
    site = parties(timeouts=HASTE)
    spoil(site)
    waiting, ended = site.run()
    ended.failed(CertificateError, *phrases)
    waiting.failed(PeerError, "P1 did not connect within 2 s", "Do this: start P1")


def test_certificate_expired(parties: Callable[..., Parties]) -> None:
    site = parties(3)
    fingerprint = expire(site.certs(1), 1)
    for m in (0, 2):
        (site.certs(m) / "P1.pem").write_bytes((site.certs(1) / "P1.pem").read_bytes())
    entries = list(site.study.parties)
    entries[1] = replace(entries[1], fingerprint=fingerprint)
    site.change_studies(parties=tuple(entries))
    for end in site.run():
        end.failed(
            CertificateError, "P1's certificate", "Wanted: a certificate that is valid now", "make a new one at P1"
        )


def test_certificate_of_the_caller_is_not_the_pinned_one(parties: Callable[..., Parties]) -> None:
    site = parties(timeouts=HASTE)
    another(site, 0, 1, in_its_study=True)
    called, caller = site.run()
    caller.failed(CertificateError, "P0 does not accept this party's certificate", "Do this: send P1.pem to P0")
    called.failed(
        PeerError, "P1 did not connect within 2 s", "Refused meanwhile: 127.0.0.1", "with its pinned certificate"
    )


def test_certificate_of_the_called_is_not_the_pinned_one(parties: Callable[..., Parties]) -> None:
    site = parties(timeouts=HASTE)
    another(site, 1, 0, in_its_study=True)
    called, caller = site.run()
    caller.failed(CertificateError, "what answers at P0's address shows a certificate that is not pinned", "get P0.pem")
    called.failed(PeerError, "P1 did not connect within 2 s", "Refused meanwhile: 127.0.0.1")


@pytest.mark.parametrize("command", [["party", "--data", "rows.npy"], ["offline", "make"]], ids=["party", "offline"])
def test_study_without_fingerprints_is_refused(parties: Callable[..., Parties], command: list[str]) -> None:
    site = parties(3, d=6, **EMBEDDED)
    entries = list(site.study.parties)
    entries[1] = replace(entries[1], fingerprint="")
    site.change_studies(parties=tuple(entries))
    process = Process(*command, "study.toml", "--id", "0", cwd=site.home(0))
    try:
        process.end().failed(
            StudyError,
            "the study has no fingerprint of the certificate of P1.",
            "Wanted: the fingerprint of every party's certificate",
            "pdml-spdz certs fingerprints STUDY",
        )
    finally:
        process.clear_away()


def test_certs_fingerprints_keeps_what_people_wrote(parties: Callable[..., Parties]) -> None:
    site = parties(3)
    wanted, path = site.study, site.home(0) / "study.toml"
    text = path.read_text().replace(wanted.parties[1].fingerprint, "") + "# agreed on the telephone\n"
    path.write_text(text)
    run("certs", "fingerprints", "study.toml", cwd=site.home(0)).well()
    assert study_file.load(path) == wanted
    assert path.read_text() == text.replace('fingerprint = ""', f'fingerprint = "{wanted.parties[1].fingerprint}"')
    path.write_text(study_file.render(wanted).replace("fingerprint = ", "'fingerprint' = "))  # another way to write it
    run("certs", "fingerprints", "study.toml", cwd=site.home(0)).well()
    assert study_file.load(path) == wanted


def test_certs_fingerprints_does_not_replace_another_one(parties: Callable[..., Parties]) -> None:
    site = parties()
    another(site, 0, 1)
    before = (path := site.home(0) / "study.toml").read_text()
    arguments = ("certs", "fingerprints", "study.toml")
    run(*arguments, cwd=site.home(0)).failed(
        CertificateError, "states another fingerprint of P1", "Do this: ask P1, by telephone"
    )
    assert path.read_text() == before
    run(*arguments, "--force", cwd=site.home(0)).well()
    assert study_file.load(path).parties[1].fingerprint == certs.read(site.certs(0) / "P1.pem").fingerprint


def test_key_has_mode_0600_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        made = certs.make(tmp_path, 0)
    finally:
        os.umask(before)
    assert stat.S_IMODE(made.path.with_suffix(".key").stat().st_mode) == 0o600


def test_certs_make_does_not_replace_a_key(tmp_path: Path) -> None:
    certs.make(tmp_path / "certs", 0)
    key = (tmp_path / "certs" / "P0.key").read_bytes()
    run("certs", "make", "--id", "0", cwd=tmp_path).failed(CertificateError, "P0.key is already there", "pass --force")
    assert (tmp_path / "certs" / "P0.key").read_bytes() == key


def test_certs_add_refuses_a_private_key(tmp_path: Path) -> None:
    certs.make(tmp_path / "P1", 1)
    run("certs", "add", "P1/P1.key", cwd=tmp_path).failed(
        CertificateError, "P1.key holds a private key", "Do this: send only P<i>.pem", "must be replaced"
    )
    assert not (tmp_path / "certs").exists()


def test_certs_add_refuses_another_certificate_of_a_party(tmp_path: Path) -> None:
    old, new = certs.make(tmp_path / "old", 1), certs.make(tmp_path / "new", 1)
    pinned = certs.add(tmp_path / "certs", old.path)
    run("certs", "add", new.path, cwd=tmp_path).failed(
        CertificateError, "another certificate is pinned for P1", old.fingerprint[:16], new.fingerprint[:16], "--force"
    )
    assert certs.read(pinned.path).fingerprint == old.fingerprint
    run("certs", "add", new.path, "--force", cwd=tmp_path).well()
    assert certs.read(pinned.path).fingerprint == new.fingerprint


def test_second_certificate_in_a_file_is_refused(tmp_path: Path) -> None:
    """Programs that read pinned files by their names would trust it, whatever the fingerprint of the first is."""
    for directory in ("own", "other"):
        certs.make(tmp_path / directory, 1)
    both = (tmp_path / "own" / "P1.pem").read_bytes() + (tmp_path / "other" / "P1.pem").read_bytes()
    (tmp_path / "P1.pem").write_bytes(both)
    with pytest.raises(CertificateError, match="more than one certificate"):
        certs.add(tmp_path / "pinned", tmp_path / "P1.pem")
    own = (tmp_path / "own" / "P1.pem").read_bytes()
    (tmp_path / "P1.pem").write_bytes(b"words before it\n" + own + b"and behind it\n")
    pinned = certs.add(tmp_path / "pinned", tmp_path / "P1.pem")
    assert pinned.path.read_bytes() == own


@pytest.mark.parametrize(
    ("name", "size", "phrase"),
    [("P3", 1024, "too weak"), ("P٣", 2048, "not a party's"), ("P03", 2048, "not a party's"), ("P3", 2048, None)],
)
def test_weak_keys_and_names_that_are_not_as_they_look_are_refused(
    tmp_path: Path, name: str, size: int, phrase: str | None
) -> None:
    key, now = rsa.generate_private_key(65537, size), dt.datetime.now(dt.UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=1))
    builder = builder.add_extension(NO_AUTHORITY, critical=True)
    pem = builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    (tmp_path / "P3.pem").write_bytes(pem)
    with nullcontext() if phrase is None else pytest.raises(CertificateError, match=phrase):
        assert certs.add(tmp_path / "pinned", tmp_path / "P3.pem").party == 3


def signed(key: ec.EllipticCurvePrivateKey, name: str, by: ec.EllipticCurvePrivateKey, issuer: str, ca: bool) -> bytes:
    subject, above = (x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, one)]) for one in (name, issuer))
    now = dt.datetime.now(dt.UTC)
    builder = x509.CertificateBuilder(above, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=1))
    builder = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=ca, path_length=0 if ca else None), critical=True)
    return builder.sign(by, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)


def accepted(pinned: Sequence[Path], chain: Path, key: Path, name: str) -> bool:
    """As MP-SPDZ verifies a peer: by a store of all pinned certificates, and by name."""
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.load_cert_chain(chain, key)
    for path in pinned:
        client.load_verify_locations(path)
    hears, says, comes, goes = (ssl.MemoryBIO() for _ in range(4))
    here, there = client.wrap_bio(hears, says, server_hostname=name), server.wrap_bio(comes, goes, server_side=True)
    for _ in range(10):
        for end in (here, there):
            with suppress(ssl.SSLWantReadError):
                try:
                    end.do_handshake()
                except ssl.SSLError as error:
                    if isinstance(error, ssl.SSLWantReadError):
                        raise
                    return False
            comes.write(says.read())
            hears.write(goes.read())
    return here.version() is not None


def test_no_party_can_issue_a_certificate_in_the_name_of_another(tmp_path: Path) -> None:
    """A certificate that is an authority could: MP-SPDZ took it."""
    made = [certs.make(tmp_path / "own", m).path for m in range(3)]
    own = serialization.load_pem_private_key((tmp_path / "own" / "P2.key").read_bytes(), None)
    assert isinstance(own, ec.EllipticCurvePrivateKey)
    key = ec.generate_private_key(ec.SECP256R1())
    encoding = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    (tmp_path / "forged.key").write_bytes(key.private_bytes(*encoding))
    forged = signed(key, "P1", own, "P2", ca=False)
    (tmp_path / "forged.pem").write_bytes(forged)
    assert accepted(made, made[1], tmp_path / "own" / "P1.key", "P1")
    assert not accepted(made, tmp_path / "forged.pem", tmp_path / "forged.key", "P1")
    # With an authority, as they were made before, it was: so they are refused.
    authority = tmp_path / "P2.pem"
    authority.write_bytes(signed(own, "P2", own, "P2", ca=True))
    assert accepted([*made[:2], authority], tmp_path / "forged.pem", tmp_path / "forged.key", "P1")
    with pytest.raises(CertificateError, match=r"could issue certificates(.|\n)*certs make --id I"):
        certs.add(tmp_path / "pinned", authority)


@pytest.mark.parametrize(
    ("names", "more", "fits"),
    [(["P2"], ["P2"], True), (["P2"], ["P2", "P1"], False), (["P2"], ["P*"], False), (["P2", "P1"], ["P2"], False)],
)
def test_certificate_has_the_name_of_one_party_alone(
    tmp_path: Path, names: list[str], more: list[str], fits: bool
) -> None:
    """With a second name its owner stood for another party at MP-SPDZ, which goes by names."""
    key, now = ec.generate_private_key(ec.SECP256R1()), dt.datetime.now(dt.UTC)
    subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, name) for name in names])
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - dt.timedelta(days=1)).not_valid_after(now + dt.timedelta(days=1))
    builder = builder.add_extension(NO_AUTHORITY, critical=True)
    builder = builder.add_extension(x509.SubjectAlternativeName(list(map(x509.DNSName, more))), critical=False)
    (tmp_path / "P2.pem").write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    with nullcontext() if fits else pytest.raises(CertificateError, match=r"has other names than P2(.|\n)*certs make"):
        assert certs.add(tmp_path / "pinned", tmp_path / "P2.pem").party == 2
