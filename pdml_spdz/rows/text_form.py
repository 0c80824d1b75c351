"""How a text file with one line for each row is written (.csv, .tsv): its encoding, its separator, its header.

Found in its first bytes, or said by its party. Files of another kind, and first lines that are no names, are refused.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from pdml_spdz.errors import InputError
from pdml_spdz.rows.names import Names, listed
from pdml_spdz.rows.reading import DECIMALS, SEPARATORS, Reading

# What stands where a number is missing, in lower case; \N is what MySQL and PostgreSQL write.
NONE = ("", "na", "n/a", "#n/a", "#na", "<na>", "n.a.", "nan", "null", "none", "?", "-", "--", ".", "\\n")
NOTHING = sorted({form(text) for text in NONE for form in (str.lower, str.upper)} | {"NaN", "None", "Null", "-nan"})
LONGEST_LINE = 1 << 27
ARROW_PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
SNIFFED = 4096  # bytes
MARKS = {
    b"PK\x03\x04": "a ZIP archive, such as a workbook of Excel",
    b"\xd0\xcf\x11\xe0": "an old document of Excel or Word",
    b"\x1f\x8b": "compressed by gzip (.csv.gz)",
    b"BZh": "compressed by bzip2 (.csv.bz2)",
    b"\x28\xb5\x2f\xfd": "compressed by zstd (.csv.zst)",
    b"PAR1": "a Parquet file",
    b"ARROW1": "an Arrow file",
    b"%PDF": "a PDF",
}
TEXTS = {"<!doctype": "a page of HTML", "<html": "a page of HTML", "<?xml": "XML", '{"': "JSON", "[{": "JSON"}
UTF_32 = (b"\xff\xfe\x00\x00", b"\x00\x00\xfe\xff")
csv.field_size_limit(1 << 30)


@dataclass(frozen=True)
class Form:
    """How a file is written: found in its first bytes, or said by its party.

    skipped : lines of the file, as pyarrow counts them, before the first row
    """

    path: Path
    encoding: str
    sep: str
    decimal: str
    names: Names
    skipped: int = 1


@contextmanager
def in_encoding(path: Path, encoding: str) -> Iterator[None]:
    try:
        yield
    except UnicodeError as error:
        byte = error.object[error.start] if isinstance(error, UnicodeDecodeError) else None
        why = str(error) if byte is None else f"byte {byte:#x} is no part of a character"
        raise InputError(
            f"{path} is not {encoding.removesuffix('-sig').upper()}: {why}.",
            "a file in the encoding that is said, UTF-8 by default",
            "pass --encoding latin-1 (older Windows programs) or --encoding utf-16, or save the file as UTF-8",
        ) from None


def encoding_of(start: bytes) -> str:
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    even, odd = start[0::2].count(0), start[1::2].count(0)
    if 4 * odd > len(start) > 8 * even:  # Latin letters and digits without a mark
        return "utf-16-le"
    return "utf-16-be" if 4 * even > len(start) > 8 * odd else "utf-8-sig"


def refuse_other_kinds(path: Path, start: bytes, encoding: str) -> None:
    """Files that are no text, or in another encoding than is said, by their first bytes."""
    kind = next((words for mark, words in MARKS.items() if start.startswith(mark)), None)
    if kind is not None:
        raise InputError(f"{path} is no text: it is {kind}.", "what its ending says", "save it as CSV, or rename it")
    if start.startswith(UTF_32):
        raise InputError(f"{path} is in UTF-32.", "UTF-8, UTF-16 or Latin-1", "save the file as UTF-8")
    text = start.decode(encoding, errors="replace").lstrip("\ufeff \t\r\n").lower()
    kind = next((words for mark, words in TEXTS.items() if text.startswith(mark)), None)
    if kind is not None:
        raise InputError(
            f"{path} is no table: it is {kind}.",
            "a header line and one line for each row",
            "look at the file: a page that asks for a password is sometimes saved instead of a table",
        )
    marks = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
    marked = next((name for mark, name in marks.items() if start.startswith(mark)), None)
    if marked is not None and not encoding.startswith(marked):
        found = f"{path} begins with the mark of {marked.upper()}, and --encoding says {encoding.upper()}."
        raise InputError(found, "the encoding that the file has", f"leave --encoding out, or pass --encoding {marked}")


def opened(path: Path) -> Any:
    """The file's bytes, unpacked."""
    ending = path.suffix.lower()
    if ending == ".gz":
        return gzip.open(path, "rb")
    if ending in (".csv", ".tsv", ".txt"):
        return path.open("rb")
    import pyarrow as pa

    return pa.input_stream(str(path), compression=ARROW_PACKED[ending])


class _Lines(io.TextIOWrapper):
    """Of a file that is small when it is packed, a line may be larger than memory."""

    def __next__(self) -> str:  # type: ignore[override]
        if len(line := self.readline(LONGEST_LINE)) == LONGEST_LINE:
            found = f"{getattr(self, 'name', 'the file')} has a line of more than {LONGEST_LINE:,} characters."
            raise InputError(found, "a line for each row")
        if not line:
            raise StopIteration
        return line


@contextmanager
def opened_text(path: Path, encoding: str) -> Iterator[IO[str]]:
    with opened(path) as raw, _Lines(raw, encoding=encoding, newline="") as text:
        yield text


def lines_of(text: IO[str], form: Form) -> tuple[list[str], Any]:
    """The header, and a reader of what follows, which says of each line where it is (`line_num`)."""
    lines = csv.reader(text, delimiter=form.sep)
    return next((line for line in lines if line), []), lines


def form_of(path: Path, encoding: str, reading: Reading) -> Form:
    sep = SEPARATORS.get(reading.sep, "")
    first, skipped = _first_line(path, encoding)
    if not sep:
        counts = {sign: first.count(sign) for sign in SEPARATORS.values()}
        only = ";" if reading.decimal == "comma" else ","  # of a single column
        sep = max(counts, key=lambda sign: counts[sign]) if any(counts.values()) else only
        if _is_tsv(path):
            sep = "\t"
    form = Form(path, encoding, sep, DECIMALS[reading.decimal], (), skipped)
    if form.decimal == sep:
        raise InputError(
            f"{path} has commas between its columns, and --decimal says that they stand before decimals.",
            "two different signs",
            "pass --sep semicolon or --sep tab if the columns are separated so, or leave --decimal out",
        )
    with opened_text(path, encoding) as text:
        names = tuple(name.strip() for name in lines_of(text, form)[0])
    _check_header(names, path)
    return Form(path, encoding, sep, form.decimal, names, skipped)


def _is_tsv(path: Path) -> bool:
    endings = [ending.lower() for ending in path.suffixes]
    return [ending for ending in endings[-2:] if ending not in ARROW_PACKED][-1:] == [".tsv"]


def _first_line(path: Path, encoding: str) -> tuple[str, int]:
    """What stands outside of quotes in the header, and how many lines there are up to its end."""
    kept: list[str] = []
    with opened_text(path, encoding) as text:
        blank, quoted = 0, False
        for line in text:
            if not line.strip("\r\n") and not kept:
                blank += 1
                continue
            parts = line.split('"')
            kept += [part for i, part in enumerate(parts) if (i % 2 == 0) != quoted]
            quoted ^= len(parts) % 2 == 0
            if not quoted:
                break
    return "".join(kept), blank + 1


def _check_header(names: Names, path: Path) -> None:
    """A line that could be a row is not taken for the header: that row would be lost."""
    if not names:
        raise InputError(f"{path} is empty.", "a header line and one line for each row")
    if names[0].startswith("#"):
        raise InputError(
            f"{path} begins with a comment: {names[0][:40]!r}.",
            "the names of the features in the first line",
            "take comment lines out, or the sign # in front of the names",
        )
    if names[0].lower().startswith("sep="):
        raise InputError(
            f"{path} begins with the line {names[0]!r}, by which Excel knows a separator.",
            "the names of the features in the first line",
            "take that line out; separators are found without it, or said by --sep",
        )
    numbers = [name for name in names if is_number(name)]
    if numbers or {name.lower() for name in names} <= set(NONE):
        found = f"there are numbers in its first line ({listed(numbers)})" if numbers else "its first line has no names"
        do = "put the same header line into every party's file"
        if len(numbers) < len(names):
            do += "; if these are names, such as years, write them so that they are no numbers (y2024)"
        raise InputError(
            f"{path} has no header: {found}.", "the names of the features in the first line, none of them a number", do
        )


def is_number(text: str) -> bool:
    """In Latin digits; Python would take others, too."""
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii()
