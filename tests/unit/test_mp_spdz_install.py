"""Installing a release of MP-SPDZ, from archives in its layout that hold shell scripts as programs."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from pdml_spdz.cli.app import cli
from pdml_spdz.engines.mp_spdz import home
from pdml_spdz.engines.mp_spdz import install as installing
from pdml_spdz.engines.mp_spdz.install import install
from pdml_spdz.errors import EngineError, StorageError

USAGE = f"""#!/bin/sh
# {home.REFUSES.decode()}
# {home.PURGES.decode()}
echo
echo "USAGE: $0 [OPTIONS] [<playerno>] <progname>"
echo "ERROR: incorrect number of arguments to $0"
exit 1
"""
ROOT = "mp-spdz-0.4.2"
RELEASE = {
    f"{ROOT}/compile.py": "print('compile')\n",
    f"{ROOT}/Compiler/types.py": "sint = None\n",
    f"{ROOT}/CHANGELOG.md": "## 0.4.2 (Dec 24, 2025)\n",
    f"{ROOT}/bin/Linux-amd64/semi-party.x": USAGE,
    f"{ROOT}/bin/Linux-amd64/mascot-party.x": USAGE,
}


def make_archive(path: Path, files: dict[str, str] = RELEASE, extra: tarfile.TarInfo | None = None) -> Path:
    with tarfile.open(path, "w:xz") as tar:
        for name, text in files.items():
            member = tarfile.TarInfo(name)
            member.size, member.mode = len(text.encode()), 0o755 if name.endswith(".x") else 0o644
            tar.addfile(member, io.BytesIO(text.encode()))
        if extra is not None:
            tar.addfile(extra, io.BytesIO(b"x" * extra.size))
    return path


@pytest.fixture(autouse=True)
def linux(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that the archive is for, with an empty data directory."""
    monkeypatch.delenv(home.VARIABLE, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setattr(home.platformdirs, "user_data_dir", lambda name: str(tmp_path / "data" / name))
    monkeypatch.setattr(home.platform, "system", lambda: "Linux")
    monkeypatch.setattr(home.platform, "machine", lambda: "x86_64")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return make_archive(tmp_path / f"{ROOT}.tar.xz")


def command(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["mp-spdz", "install", *map(str, arguments)])


def nothing_left(directory: Path) -> bool:
    return not directory.exists() or not any(directory.iterdir())


# From a file


def test_command_installs_where_it_is_found(archive: Path) -> None:
    done = command("--archive", archive)
    assert done.exit_code == 0, done.output
    assert hashlib.sha256(archive.read_bytes()).hexdigest() in done.output
    assert "mascot, semi" in done.output
    found = home.require()
    assert found.path == home.data_home()
    assert found.version().startswith("0.4.2")
    party = found.binary("semi-party.x")
    assert party == found.path / "bin" / "Linux-amd64" / "semi-party.x"
    assert not found.is_insecure(party)
    assert [path.name for path in found.path.parent.iterdir()] == ["mp-spdz"]


def test_progress_ends_at_the_archives_size(tmp_path: Path, archive: Path) -> None:
    said: list[tuple[str, int, int | None]] = []
    install(tmp_path / "to", archive=archive, progress=lambda *event: said.append(event))
    assert said[-1] == ("unpack", archive.stat().st_size, archive.stat().st_size)


def test_installation_is_replaced_only_with_force(tmp_path: Path, archive: Path) -> None:
    to = tmp_path / "to"
    assert command("--archive", archive, "--to", to).exit_code == 0
    (to / "mine").write_text("x")
    again = command("--archive", archive, "--to", to)
    assert isinstance(again.exception, EngineError)
    assert "--force" in str(again.exception)
    assert (to / "mine").exists()
    assert command("--archive", archive, "--to", to, "--force").exit_code == 0
    assert not (to / "mine").exists()
    assert home.is_home(to)


def test_force_does_not_delete_what_is_not_mp_spdz(tmp_path: Path, archive: Path) -> None:
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "thesis.tex").write_text("x")
    with pytest.raises(EngineError, match="is not MP-SPDZ"):
        install(tmp_path / "to", archive=archive, force=True)
    assert (tmp_path / "to" / "thesis.tex").exists()


def test_failed_replacement_leaves_the_old_one(tmp_path: Path, archive: Path) -> None:
    to = tmp_path / "to"
    install(to, archive=archive)
    (to / "mine").write_text("x")
    wrong = make_archive(tmp_path / "wrong.tar.xz", {"readme": "x"})
    with pytest.raises(EngineError):
        install(to, archive=wrong, force=True)
    assert (to / "mine").exists()


def test_other_sha256_is_refused(tmp_path: Path, archive: Path) -> None:
    right = hashlib.sha256(archive.read_bytes()).hexdigest()
    with pytest.raises(EngineError, match=right):
        install(tmp_path / "to" / "h", archive=archive, sha256="0" * 64)
    assert nothing_left(tmp_path / "to")
    install(tmp_path / "to" / "h", archive=archive, sha256=right.upper())
    assert command("--archive", archive, "--sha256", "12").exit_code == 2


# Archives that are not a release


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.size = kind, link, 1 if kind == tarfile.REGTYPE else 0
    return info


@pytest.mark.parametrize(
    "extra",
    [
        member("../../escaped"),
        member(f"{ROOT}/../../../escaped"),
        member(f"{ROOT}/link", tarfile.SYMTYPE, "/etc"),
        member(f"{ROOT}/link", tarfile.SYMTYPE, "../../.."),
        member(f"{ROOT}/device", tarfile.CHRTYPE),
    ],
    ids=["parent", "parent inside", "absolute link", "link outside", "device"],
)
def test_archive_that_leads_outside_is_refused(tmp_path: Path, extra: tarfile.TarInfo) -> None:
    archive = make_archive(tmp_path / "a.tar.xz", RELEASE, extra)
    with pytest.raises(EngineError, match="not safe to unpack"):
        install(tmp_path / "to" / "h", archive=archive)
    assert nothing_left(tmp_path / "to")
    assert not list(tmp_path.rglob("escaped"))


def test_wrong_archives_are_refused_in_words(tmp_path: Path, archive: Path) -> None:
    without = {name: text for name, text in RELEASE.items() if not name.endswith(".x")}
    cases = {
        "is not MP-SPDZ": make_archive(tmp_path / "other.tar.xz", {"x/readme": "x"}),
        "no program of a known protocol": make_archive(tmp_path / "source.tar.xz", without),
    }
    (tmp_path / "text.tar.xz").write_text("Not Found")
    (tmp_path / "short.tar.xz").write_bytes(archive.read_bytes()[:-200])
    cases["text.tar.xz cannot be unpacked"] = tmp_path / "text.tar.xz"
    cases["short.tar.xz cannot be unpacked"] = tmp_path / "short.tar.xz"
    cases["is not a file"] = tmp_path / "missing.tar.xz"
    for words, path in cases.items():
        with pytest.raises(EngineError, match=words) as caught:
            install(tmp_path / "to" / "h", archive=path)
        assert "docs/mp-spdz.md" in str(caught.value)
        assert nothing_left(tmp_path / "to")


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("#!/bin/sh\necho libssl.so.3: cannot open shared object file\nexit 127\n", "exit code 127, libssl"),
        ("#!/bin/sh\nkill -ILL $$\n", "SIGILL"),
        ("#!/bin/sh\nexec sleep 30\n", "no usage within"),
        ("#!/no/such/interpreter\n", "No such file"),
        ("#!/bin/sh\necho hello\n", "hello"),
    ],
    ids=["library", "processor", "hangs", "interpreter", "other program"],
)
def test_programs_that_do_not_start_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, words: str
) -> None:
    monkeypatch.setattr(installing, "START", 0.3)
    files = {name: script if name.endswith(".x") else text for name, text in RELEASE.items()}
    with pytest.raises(EngineError, match=words):
        install(tmp_path / "to" / "h", archive=make_archive(tmp_path / "a.tar.xz", files))
    assert nothing_left(tmp_path / "to")


def test_one_program_that_starts_is_enough(tmp_path: Path) -> None:
    files = RELEASE | {f"{ROOT}/bin/Linux-amd64/mascot-party.x": "#!/bin/sh\nexit 1\n"}
    done = install(tmp_path / "to", archive=make_archive(tmp_path / "a.tar.xz", files))
    assert done.started == tmp_path / "to" / "bin" / "Linux-amd64" / "semi-party.x"


def test_directory_that_cannot_be_written_is_a_storage_error(tmp_path: Path, archive: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StorageError, match="cannot be written"):
        install(tmp_path / "file" / "h", archive=archive)


# From the network


class Server(HTTPServer):
    """Gives `content` at /ok, less than it promised at /short, and moves /moved to /ok."""

    content = b""


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        if self.path.startswith("/moved"):
            self.send_response(302)
            self.send_header("Location", "/ok/mp-spdz-0.4.2.tar.xz")
            self.end_headers()
        elif self.path.startswith(("/ok", "/short")):
            self.send_response(200)
            self.send_header("Content-Length", str(len(self.server.content)))
            self.end_headers()
            self.wfile.write(self.server.content[: None if self.path.startswith("/ok") else -100])
        else:
            self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass


@pytest.fixture
def server(archive: Path) -> Iterator[str]:
    with Server(("127.0.0.1", 0), Handler) as running:
        running.content = archive.read_bytes()
        thread = threading.Thread(target=running.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


@pytest.mark.parametrize("path", ["ok", "moved"])
def test_command_downloads(tmp_path: Path, archive: Path, server: str, path: str) -> None:
    digest = hashlib.sha256(archive.read_bytes()).hexdigest()
    done = command("--url", f"{server}/{path}/{ROOT}.tar.xz", "--sha256", digest, "--to", tmp_path / "to")
    assert done.exit_code == 0, done.output
    assert digest in done.output
    assert f"{home.VARIABLE}={tmp_path / 'to'}" in done.output
    assert home.is_home(tmp_path / "to")


@pytest.mark.parametrize(("path", "why"), [("none", "HTTP status 404"), ("short", "100 bytes are missing")])
def test_failed_download_says_what_to_fetch_and_how_to_go_on(tmp_path: Path, server: str, path: str, why: str) -> None:
    url = f"{server}/{path}/{ROOT}.tar.xz"
    done = command("--url", url, "--sha256", "0" * 64, "--to", tmp_path / "to" / "h")
    assert isinstance(done.exception, EngineError)
    for part in (why, f"from {url}", f"pdml-spdz mp-spdz install --archive {ROOT}.tar.xz"):
        assert part in str(done.exception)
    assert nothing_left(tmp_path / "to")


def test_unreachable_server_and_default_address(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise installing.urllib.error.URLError(ConnectionRefusedError(111, "Connection refused"))

    monkeypatch.setattr(installing.urllib.request, "urlopen", refuse)
    done = command("--to", tmp_path / "to")
    assert isinstance(done.exception, EngineError)
    assert "Connection refused" in str(done.exception)
    assert f"{installing.URL} by other means" in str(done.exception)


@pytest.mark.parametrize("url", ["http://127.0.0.1:9/a.tar.xz", "file:///etc/passwd", "nonsense"])
def test_only_sources_that_are_sure_are_taken(tmp_path: Path, url: str) -> None:
    with pytest.raises(EngineError, match="only https:// is taken"):
        install(tmp_path / "to", url=url)


def test_archive_and_url_exclude_each_other(archive: Path) -> None:
    assert command("--archive", archive, "--url", "https://example.org/a").exit_code == 2
