"""One bundle, one code: what changes it, and what is refused."""

from __future__ import annotations

import json
import socket
import threading
from dataclasses import replace
from pathlib import Path

import mnemonic
import pytest
from click.testing import CliRunner

from pdml_spdz.cli.app import cli
from pdml_spdz.errors import CertificateError, StudyError
from pdml_spdz.rows.reading import RowSettings
from pdml_spdz.study import bundle as bundles
from pdml_spdz.study import file as study_file
from pdml_spdz.study.model import PartyEntry, Study
from pdml_spdz.transport import certs
from pdml_spdz.transport.certs import Identity, load_identity
from pdml_spdz.transport.reach import attempt, try_all
from tests.parties.helpers import free_ports


@pytest.fixture
def sites(tmp_path: Path) -> list[Path]:
    """Three parties' own directories of certificates; party 0 has pinned all."""
    homes = [tmp_path / f"P{m}" / "certs" for m in range(3)]
    ports = free_ports(3)
    for m, home in enumerate(homes):
        certs.make(home, m, days=1, name=f"Org {m}", address=("127.0.0.1", ports[m]))
    certs.add_all(homes[0], [homes[m] / f"P{m}.pem" for m in (1, 2)])
    return homes


@pytest.fixture
def bundle(sites: list[Path]) -> bundles.Bundle:
    return bundles.pack(Study(tuple([PartyEntry(host=f"h{m}") for m in range(3)]), 2), sites[0])


def test_names_and_addresses_come_from_the_certificates(bundle: bundles.Bundle) -> None:
    assert [party.name for party in bundle.study.parties] == ["Org 0", "Org 1", "Org 2"]
    assert all(party.host == "127.0.0.1" and party.port for party in bundle.study.parties)
    assert all(len(party.fingerprint) == 64 for party in bundle.study.parties)


@pytest.mark.parametrize("name", ["Klinik Süd", "", "x" * 64])
@pytest.mark.parametrize("address", [None, ("host.example", 7000), ("::1", 7001)])
def test_certificate_says_who_and_where(tmp_path: Path, name: str, address: tuple[str, int] | None) -> None:
    made = certs.make(tmp_path, 3, name=name, address=address)
    assert (made.name, made.address) == (name, address)
    with pytest.raises(CertificateError, match="does not fit"):
        certs.make(tmp_path, 4, name="x" * 65)


def test_code_is_twelve_words_of_the_published_list_with_128_bits(bundle: bundles.Bundle) -> None:
    words = mnemonic.Mnemonic("english")
    found = bundles.code(bundle.study)
    assert len(found.split()) == 12
    assert words.check(found)  # and its check bits
    assert 8 * len(words.to_entropy(found)) == bundles.BITS == 128
    assert bundles.same_code(found.upper().replace(" ", ",  "), found)
    assert not bundles.same_code(" ".join(found.split()[:11]), found)


def test_anything_that_parties_agree_on_changes_the_code(bundle: bundles.Bundle, tmp_path: Path) -> None:
    study = bundle.study
    other = certs.make(tmp_path / "other", 1).fingerprint
    parties = [
        replace(study.parties[1], **change)
        for change in ({"fingerprint": other}, {"host": "10.0.0.9"}, {"port": 7777}, {"name": "Org 9"})
    ]
    changed = [replace(study, parties=(study.parties[0], party, study.parties[2])) for party in parties]
    changed += [replace(study, rank=3), replace(study, bound="7"), replace(study, parties=study.parties[::-1])]
    codes = {bundles.code(one) for one in [study, *changed]}
    assert len(codes) == 1 + len(changed)


def test_bundle_is_read_as_it_was_written(bundle: bundles.Bundle, sites: list[Path], tmp_path: Path) -> None:
    bundle.save(path := tmp_path / "study.bundle")
    read = bundles.load(path)
    assert read == bundle
    assert bundles.code(read.study) == bundles.code(bundle.study)
    bundles.unpack(read, sites[1], path)
    for m in range(3):
        assert certs.pinned(sites[1], m).fingerprint == bundle.study.parties[m].fingerprint


@pytest.mark.parametrize("damage", ["certificate", "key", "count", "format", "text", "study"])
def test_damaged_bundles_are_refused(bundle: bundles.Bundle, sites: list[Path], tmp_path: Path, damage: str) -> None:
    bundle.save(path := tmp_path / "study.bundle")
    content = json.loads(path.read_text())
    if damage == "certificate":  # another key for P1, in a study that names the old one
        content["certificates"][1] = certs.make(tmp_path / "other", 1).path.read_text()
    elif damage == "key":
        content["certificates"][1] = (sites[1] / "P1.key").read_text()
    elif damage == "count":
        content["certificates"].pop()
    elif damage == "format":
        content["format"] = "another"
    elif damage == "study":
        content["study"] = "rank = -1"
    path.write_text("{" if damage == "text" else json.dumps(content))
    with pytest.raises((CertificateError, StudyError)):
        bundles.load(path)


def test_replaced_certificate_of_ones_own_is_noticed(bundle: bundles.Bundle, sites: list[Path], tmp_path: Path) -> None:
    """Whoever carries certificates replaces P1's by one of its own, before the study is packed."""
    forged = certs.make(tmp_path / "forger", 1, address=("127.0.0.1", 1))
    certs.add(sites[0], forged.path, force=True)
    packed = bundles.pack(bundle.study, sites[0])
    with pytest.raises(CertificateError, match="another certificate for P1"):
        bundles.own_party(sites[1], packed, None)
    assert bundles.own_party(sites[2], packed, None) == 2
    assert bundles.code(packed.study) != bundles.code(bundle.study)


def test_party_without_a_key_or_with_several_has_to_say_who_it_is(
    bundle: bundles.Bundle, sites: list[Path], tmp_path: Path
) -> None:
    with pytest.raises(CertificateError, match="no private key"):
        bundles.own_party(tmp_path / "empty", bundle, None)
    certs.make(sites[0], 7)
    with pytest.raises(CertificateError, match="the keys of P0, P7"):
        bundles.own_party(sites[0], bundle, None)
    assert bundles.own_party(sites[0], bundle, 0) == 0


def test_no_certificate_is_pinned_if_one_of_several_is_wrong(sites: list[Path], tmp_path: Path) -> None:
    (wrong := tmp_path / "wrong.pem").write_text("nothing")
    with pytest.raises(CertificateError, match="not a PEM certificate"):
        certs.add_all(tmp_path / "here", [sites[1] / "P1.pem", wrong])
    assert not (tmp_path / "here" / "P1.pem").exists()


def test_addresses_that_nobody_said_are_asked_for(
    sites: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    certs.make(sites[0], 1, force=True)  # without an address
    arguments = ["study", "pack", str(sites[2] / "P2.pem"), "--rank", "2", "--certs", str(sites[0])]
    found = CliRunner().invoke(cli, arguments)
    assert isinstance(found.exception, StudyError)
    assert "nothing says where P1 can be reached" in str(found.exception)


def test_study_and_certificate_that_name_different_hosts_are_refused(
    bundle: bundles.Bundle, sites: list[Path], tmp_path: Path
) -> None:
    moved = replace(bundle.study.parties[1], host="10.9.9.9")
    other = replace(bundle.study, parties=(bundle.study.parties[0], moved, bundle.study.parties[2]))
    study_file.write(path := tmp_path / "study.toml", other)
    arguments = ["study", "pack", str(path), "--certs", str(sites[0]), "--out", str(tmp_path / "study.bundle")]
    found = CliRunner().invoke(cli, arguments)
    assert "the study has P1 at 10.9.9.9:" in str(found.exception)
    assert CliRunner().invoke(cli, [*arguments, "--force"]).exit_code == 0
    assert study_file.load(path) == bundle.study


def test_study_file_waits_for_people_and_a_local_run_does_not(tmp_path: Path) -> None:
    (path := tmp_path / "study.toml").write_text("rank = 1\n[[parties]]\nport = 1\n[[parties]]\nport = 2\n")
    assert study_file.load(path).timeouts.connect == 4 * 3600
    assert Study((PartyEntry(port=1), PartyEntry(port=2)), 1).timeouts.connect == 60


# ---- does one get through?


@pytest.fixture
def identities(bundle: bundles.Bundle, sites: list[Path], tmp_path: Path) -> list[Identity]:
    found = []
    for m, site in enumerate(sites):
        bundles.unpack(bundle, site, tmp_path)
        found.append(load_identity(site, m, {i: p.fingerprint for i, p in enumerate(bundle.study.parties)}))
    return found


def addresses(bundle: bundles.Bundle) -> list[tuple[str, int]]:
    return [(party.host, party.port) for party in bundle.study.parties]


@pytest.fixture
def answered(bundle: bundles.Bundle, identities: list[Identity]) -> list[object]:
    """What P0 and P1 find, each of which tries the others and listens; P2 does not come."""
    found: list[object] = [None, None]

    def party(m: int) -> None:
        listener = socket.create_server(addresses(bundle)[m])
        everybody = addresses(bundle)
        found[m] = try_all(identities[m], everybody, listener=listener, seconds=2.5, reach=True, say=lambda text: None)

    threads = [threading.Thread(target=party, args=(m,)) for m in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_parties_that_try_at_once_reach_each_other_and_name_who_is_not_there(answered: list[object]) -> None:
    for m, (attempts, came) in enumerate(answered):  # type: ignore[misc]
        other = 1 - m
        by_party = {a.party: a for a in attempts}
        assert by_party[other].through
        assert came == {other}
        assert not by_party[2].through
        assert by_party[2].silent
        assert "nobody listens" in by_party[2].found


def test_stranger_at_an_address_is_told_apart(
    bundle: bundles.Bundle, identities: list[Identity], tmp_path: Path
) -> None:
    """P1's address is answered with another key; and by something that speaks no TLS."""
    stranger = certs.make(tmp_path / "stranger", 1)
    forged = Identity(1, tmp_path / "stranger" / "P1.key", dict(identities[1].certificates) | {1: stranger})
    listener = socket.create_server(addresses(bundle)[1])
    thread = threading.Thread(
        target=try_all,
        args=(forged, addresses(bundle)),
        kwargs={"listener": listener, "seconds": 1.5, "reach": False, "say": lambda text: None},
    )
    thread.start()
    found = attempt(identities[0], 1, *addresses(bundle)[1])
    thread.join()
    assert (found.through, found.silent) == (False, False)
    assert "not pinned" in found.found
    plain = socket.create_server(("127.0.0.1", 0))

    def answer() -> None:
        connection, _ = plain.accept()
        connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        connection.close()

    talker = threading.Thread(target=answer)
    talker.start()
    found = attempt(identities[0], 1, *plain.getsockname())
    talker.join()
    plain.close()
    assert (found.through, found.silent) == (False, False)


def test_settings_are_said_in_words_and_hostile_names_stay_on_their_line() -> None:
    rows = RowSettings(drop=("admitted", "a\nThe code"), encode=(("sex", ("f", "m")),), missing="mean")
    study = Study(tuple([PartyEntry(host=f"h{m}") for m in range(2)]), 2, algorithm="pca", rows=rows)
    said = bundles.settings(study)
    assert said == {
        "algorithm": "pca",
        "rank": 2,
        "engine": "embedded",
        "rows.drop": "admitted a\\nThe code",
        "rows.encode": "sex=f|m",
        "rows.missing": "mean",
    }
    many = replace(study, features=tuple(f"f{i}" for i in range(40)), rows=RowSettings())
    assert bundles.settings(many)["features"] == "40 numbers or names"
