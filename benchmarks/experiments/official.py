"""The data sets of the paper as their authors publish them, or as one JSON or CSV file each; in a directory."""

from __future__ import annotations

import csv
import gzip
import hashlib
import html
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

BODY = re.compile(r"<BODY>(.*?)</BODY>", re.DOTALL)


@dataclass(frozen=True)
class Official:
    """archive : the file as its authors publish it, where : who does; file : the same as text lines, if that is there
    instead, and form : how they look; rows : how many the complete data set has
    """

    archive: str
    where: str
    file: str
    form: str
    rows: int


def _read() -> dict[str, Official]:
    with Path(__file__).with_suffix(".csv").open(newline="", encoding="utf-8") as file:
        lines = [*csv.reader(file)][1:]
    return {name: Official(archive, where, text, form, int(rows)) for name, archive, where, text, form, rows in lines}


OFFICIAL = _read()
EVERYWHERE = Path("*")  # a directory that has everything: for grids as they would be, of which nothing is read


def find(directory: Path, name: str) -> Path | None:
    """The file of a data set, if it is there."""
    official = OFFICIAL[name]
    return next((p for p in (directory / official.file, directory / official.archive) if p.is_file()), None)


def has(directory: Path, name: str) -> bool:
    return directory == EVERYWHERE or find(directory, name) is not None


def version(directory: Path, name: str) -> str:
    """Names this file of a data set, for what is kept of it: another one has another place, size or time."""
    path = _found(directory, name).resolve()
    found = path.stat()
    return hashlib.sha256(repr((str(path), found.st_size, found.st_mtime_ns)).encode()).hexdigest()[:12]


def missing(directory: Path) -> list[str]:
    """What is not there, what to fetch for it and where to put it."""
    return [
        f"{name}: put {o.archive} ({o.where}) into {directory}, or {o.file}: {o.form}"
        for name, o in OFFICIAL.items()
        if not has(directory, name)
    ]


def texts(directory: Path, name: str) -> Iterator[str]:
    """Posts, mails or stories, without the headers of mail and news."""
    path = _found(directory, name)
    for text in _json_texts(path) if path.name.endswith(".jsonl.gz") else _archived(path, name):
        # Mail and news have headers, which are not what a document is about.
        head, blank, body = text.replace("\r\n", "\n").partition("\n\n")
        yield body if blank and ":" in head.split("\n")[0] else text


def table(directory: Path, name: str) -> list[list[str]]:
    """All lines of a table, split into columns; with the header, if the file has one."""
    path = _found(directory, name)
    separator = "::" if path.name == "ml-1m.zip" else ","
    return [line.rstrip("\n").split(separator) for line in _lines(path) if line.strip()]


def rows_found(directory: Path, name: str) -> int:
    """How many rows, posts, mails, stories or ratings the file has."""
    path = _found(directory, name)
    if name in ("20NG", "Enron", "Reuters"):
        return sum(1 for _ in texts(directory, name))
    headers = 0 if name == "Blogs" or (path.suffix == ".zip" and name != "News") else 1
    return sum(1 for line in _lines(path) if line.strip()) - headers


def _found(directory: Path, name: str) -> Path:
    path = find(directory, name)
    if path is None:
        raise FileNotFoundError(f"{name} is not in {directory}")
    return path


def _json_texts(path: Path) -> Iterator[str]:
    for line in _lines(path):
        record = json.loads(line)
        yield str(record.get("text") or record.get("body") or "")


def _archived(path: Path, name: str) -> Iterator[str]:
    with tarfile.open(path, "r:gz") as archive:
        for member in archive:
            if not member.isfile() or (name == "Reuters" and not member.name.endswith(".sgm")):
                continue
            content = archive.extractfile(member)
            assert content is not None
            text = content.read().decode("latin-1")
            yield from (html.unescape(b) for b in BODY.findall(text)) if name == "Reuters" else [text]


def _lines(path: Path) -> Iterator[str]:
    if path.suffix == ".gz":
        with gzip.open(path, "rt", encoding="utf-8", errors="replace") as lines:
            yield from lines
        return
    endings = {"ml-1m.zip": "ratings.dat", "BlogFeedback.zip": "blogData_train.csv", "OnlineNewsPopularity.zip": ".csv"}
    with zipfile.ZipFile(path) as archive:
        ending = endings.get(path.name, ".txt")
        member = next(n for n in archive.namelist() if n.endswith(ending) and "__MACOSX" not in n)
        with archive.open(member) as raw:
            yield from io.TextIOWrapper(raw, encoding="latin-1")
