"""Rows out of text files with one line for each row and the names of the columns in the first (.csv, .tsv).

pyarrow reads them, block by block, into one array. Without it there is a plain reader for what most files are: commas,
decimal points, UTF-8. Both give the same numbers, and both leave it to `complaint` to say what is wrong.
"""

from __future__ import annotations

import csv
import gzip
import io
import itertools
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.choosing import ColumnPlan, plan
from pdml_spdz.rows.frames import LEAVE_OUT, Loaded, block_of, needs_pyarrow
from pdml_spdz.rows.names import Names, listed
from pdml_spdz.rows.reading import DECIMALS, ENCODINGS, SEPARATORS, Reading, RowsWanted

NONE = ("", "na", "n/a", "#n/a", "#na", "<na>", "n.a.", "nan", "null", "none", "?", "-", "--", ".")  # in lower case
NOTHING = sorted({form(text) for text in NONE for form in (str.lower, str.upper)} | {"NaN", "None", "Null", "-nan"})
TRUE, FALSE = ("true", "True", "TRUE"), ("false", "False", "FALSE")
BLOCK_BYTES = 1 << 20
WIDE = 10_000  # columns, beyond which pyarrow takes longer to begin than the plain reader for most files
BYTES_A_NUMBER = 64  # at most, or nearly: a row has to fit into a block
SNIFFED = 4096  # bytes
SAMPLED = 1 << 16  # cells, in which true and false are looked for
ARROW_PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd", ".lz4": "lz4"}
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
OTHER_SEPARATORS = ("|", " ", ":", ",", ";", "\t")
csv.field_size_limit(1 << 30)

DATE = re.compile(r"\d{4}-\d{1,2}-\d{1,2}.*|\d{1,2}[./]\d{1,2}[./]\d{2,4}.*|\d{1,2}:\d{2}(:\d{2})?")
DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+([eE][+-]?\d+)?")
THOUSANDS = re.compile(r"[+-]?\d{1,3}([,.'\u2019\u202f\u00a0 ]\d{3})+([.,]\d+)?")


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


def read_delimited(path: Path, wanted: RowsWanted) -> Loaded:
    """The rows of a .csv or .tsv file, which may be compressed."""
    with _opened(path) as file:
        start = file.read(SNIFFED)
    encoding = ENCODINGS.get(wanted.reading.encoding) or _encoding(start)
    _refuse_other_kinds(path, start, encoding)
    with _not_utf8(path, encoding):
        form = _form(path, encoding, wanted.reading)
        made = plan(form.names, wanted, str(path))
        odd = _beyond_plain(form, made)
        if len(form.names) > WIDE and not odd:
            return _plain(form, made)
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            if odd:
                raise needs_pyarrow(str(path), odd) from None
            return _plain(form, made)
        return _by_arrow(form, made)


@contextmanager
def _not_utf8(path: Path, encoding: str) -> Iterator[None]:
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


def _encoding(start: bytes) -> str:
    if start[:2] in (b"\xff\xfe", b"\xfe\xff"):
        return "utf-16"
    even, odd = start[0::2].count(0), start[1::2].count(0)
    if 4 * odd > len(start) > 8 * even:  # Latin letters and digits without a mark
        return "utf-16-le"
    return "utf-16-be" if 4 * even > len(start) > 8 * odd else "utf-8-sig"


def _refuse_other_kinds(path: Path, start: bytes, encoding: str) -> None:
    """Files that are no text, or in another encoding than is said, by their first bytes."""
    kind = next((words for mark, words in MARKS.items() if start.startswith(mark)), None)
    if kind is not None:
        raise InputError(f"{path} is no text: it is {kind}.", "what its ending says", "save it as CSV, or rename it")
    marks = {b"\xef\xbb\xbf": "utf-8", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
    marked = next((name for mark, name in marks.items() if start.startswith(mark)), None)
    if marked is not None and not encoding.startswith(marked):
        found = f"{path} begins with the mark of {marked.upper()}, and --encoding says {encoding.upper()}."
        raise InputError(found, "the encoding that the file has", f"leave --encoding out, or pass --encoding {marked}")


def _opened(path: Path) -> Any:
    """The file's bytes, unpacked."""
    ending = path.suffix.lower()
    if ending == ".gz":
        return gzip.open(path, "rb")
    if ending in (".csv", ".tsv", ".txt"):
        return path.open("rb")
    try:
        import pyarrow as pa
    except ImportError:
        raise needs_pyarrow(str(path), f" (to unpack {ending})") from None
    return pa.input_stream(str(path), compression=ARROW_PACKED[ending])


@contextmanager
def _text(path: Path, encoding: str) -> Iterator[IO[str]]:
    with _opened(path) as raw, io.TextIOWrapper(raw, encoding=encoding, newline="") as text:
        yield text


def _lines(text: IO[str], form: Form) -> tuple[list[str], Any]:
    """The header, and a reader of what follows, which says of each line where it is (`line_num`)."""
    lines = csv.reader(text, delimiter=form.sep)
    return next((line for line in lines if line), []), lines


def _form(path: Path, encoding: str, reading: Reading) -> Form:
    sep = SEPARATORS.get(reading.sep, "")
    first, skipped = _first_line(path, encoding)
    if not sep:
        counts = {sign: first.count(sign) for sign in SEPARATORS.values()}
        only = ";" if reading.decimal == "comma" else ","  # of a single column
        sep = max(counts, key=lambda sign: counts[sign]) if any(counts.values()) else only
        if path.name.lower().partition(".")[2].startswith("tsv"):
            sep = "\t"
    form = Form(path, encoding, sep, DECIMALS[reading.decimal], (), skipped)
    if form.decimal == sep:
        raise InputError(
            f"{path} has commas between its columns, and --decimal says that they stand before decimals.",
            "two different signs",
            "pass --sep semicolon or --sep tab if the columns are separated so, or leave --decimal out",
        )
    with _text(path, encoding) as text:
        names = tuple(name.strip() for name in _lines(text, form)[0])
    _check_header(names, path)
    return Form(path, encoding, sep, form.decimal, names, skipped)


def _first_line(path: Path, encoding: str) -> tuple[str, int]:
    """What stands outside of quotes in the header, and how many lines there are up to its end."""
    kept: list[str] = []
    with _text(path, encoding) as text:
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
    numbers = [name for name in names if _is_number(name)]
    if numbers or {name.lower() for name in names} <= set(NONE):
        found = f"there are numbers in its first line ({listed(numbers)})" if numbers else "its first line has no names"
        raise InputError(
            f"{path} has no header: {found}.",
            "the names of the features in the first line, none of them a number",
            "put the same header line into every party's file",
        )


def _is_number(text: str) -> bool:
    """In Latin digits; Python would take others, too."""
    try:
        float(text)
    except ValueError:
        return False
    return text.isascii()


# ---- pyarrow


def _by_arrow(form: Form, made: ColumnPlan) -> Loaded:
    import pyarrow as pa

    truths = _truths(form, made, SAMPLED)
    try:
        X, aside = _gathered(made, _batches(form, made, truths))
    except (pa.ArrowInvalid, pa.ArrowKeyError):
        if wrong := complaint(form, made):
            raise wrong from None
        # Spaces around a word for nothing, true and false that begin further down: slowly, as `complaint` reads.
        X, aside = _gathered(made, _batches_by_cell(form, made))
    if not len(X):
        raise _no_rows(form)
    _check_quotes(form, len(X))
    return Loaded(X, made.features, aside)


def _check_quotes(form: Form, rows: int) -> None:
    """A quotation mark that is not closed, or too late, takes the rows after it into its text: none may be lost so."""
    quotes = lines = 0
    last = b""
    with _opened(form.path) as raw:
        while block := raw.read(BLOCK_BYTES):
            last = block[-1:]
            quotes += block.count(b'"')
            lines += block.count(b"\n") + block.count(b"\r") - block.count(b"\r\n")
    if not quotes or lines + (last not in b"\r\n") <= rows + form.skipped:
        return
    with _text(form.path, form.encoding) as text:
        strict = csv.reader(text, delimiter=form.sep, strict=True)
        while True:
            begins = strict.line_num + 1
            try:
                next(strict)
            except StopIteration:
                return
            except csv.Error as error:
                ends = strict.line_num
                if ends > begins or "end of data" in str(error):
                    raise InputError(
                        f"{form.path} has a text that begins with a quotation mark in line {begins} and does not end "
                        f"with one (read up to line {ends}): the rows in between would be lost.",
                        'a second " at the end of the text, before the separator',
                        "close it, or take the sign out of that line",
                    ) from None


def _truths(form: Form, made: ColumnPlan, cells: int | None) -> set[int]:
    """Columns of true and false: of the first rows, as many as have so many cells."""
    found: set[int] = set()
    with _text(form.path, form.encoding) as text:
        _, lines = _lines(text, form)
        most = None if cells is None else max(1, cells // len(form.names))
        for line in itertools.islice((line for line in lines if len(line) == len(form.names)), most):
            found |= {j for j in made.numbers if line[j].strip() in TRUE + FALSE}
    return found


def _no_rows(form: Form) -> InputError:
    return InputError(f"{form.path} has a header and no rows.", "at least one row", "leave this party out")


def _batches(form: Form, made: ColumnPlan, truths: set[int]) -> Iterator[Any]:
    import pyarrow as pa
    from pyarrow import csv as arrow_csv

    labels = [str(j) for j in range(len(form.names))]  # names may be there twice
    options: dict[str, Any] = {
        "read_options": arrow_csv.ReadOptions(
            column_names=labels,
            skip_rows_after_names=form.skipped,
            encoding=form.encoding.removesuffix("-sig"),
            block_size=max(BLOCK_BYTES, BYTES_A_NUMBER * len(labels)),
        ),
        "parse_options": arrow_csv.ParseOptions(delimiter=form.sep, newlines_in_values=True),
    }
    convert: dict[str, Any] = {
        "include_columns": [labels[j] for j in made.read],
        "null_values": NOTHING,
        "strings_can_be_null": False,  # see `_without_nothing`
        "decimal_point": form.decimal,
        "true_values": TRUE,
        "false_values": FALSE,
    }
    types = {labels[j]: pa.string() for j in made.texts}
    types |= {labels[j]: pa.bool_() if j in truths else pa.float64() for j in made.numbers}
    packed = ARROW_PACKED.get(form.path.suffix.lower())
    source = pa.input_stream(str(form.path), compression=packed) if packed else str(form.path)
    convert_options = arrow_csv.ConvertOptions(**convert, column_types=types)
    found = arrow_csv.open_csv(source, **options, convert_options=convert_options)
    return (_without_nothing(batch, _text_columns(made, labels)) for batch in found)


def _batches_by_cell(form: Form, made: ColumnPlan) -> Iterator[Any]:
    import pyarrow as pa

    labels = [str(j) for j in range(len(form.names))]
    texts = _text_columns(made, labels)
    with _text(form.path, form.encoding) as text:
        _, lines = _lines(text, form)
        full = (line for line in lines if line)
        while some := list(itertools.islice(full, max(1, SAMPLED // len(labels)))):
            columns = [[line[j].strip() for line in some] for j in made.read]
            arrays = [
                pa.array(column, pa.string()) if labels[j] in texts else pa.array([_number(x, form) for x in column])
                for j, column in zip(made.read, columns, strict=True)
            ]
            yield _without_nothing(pa.RecordBatch.from_arrays(arrays, [labels[j] for j in made.read]), texts)


def _number(cell: str, form: Form) -> float:
    return _float_or_nan(cell.replace(",", ".") if form.decimal == "," else cell)


def _text_columns(made: ColumnPlan, labels: list[str]) -> dict[str, Names]:
    """Of each column that is no number, the categories that the parties agreed on."""
    lists = {source.j: source.categories or () for source in made.sources}
    return {labels[j]: lists.get(j, ()) for j in made.texts}


def _without_nothing(batch: Any, texts: dict[str, Names]) -> Any:
    """Words for nothing are null in columns of texts, unless they are categories that the parties agreed on."""
    import pyarrow as pa
    import pyarrow.compute as pc

    for label, categories in texts.items():
        place, column = batch.schema.get_field_index(label), batch.column(label)
        words = pa.array([word for word in NOTHING if word not in categories])
        column = pc.if_else(pc.is_in(column, value_set=words), pa.scalar(None, pa.string()), column)
        batch = batch.set_column(place, label, column)
    return batch


def _gathered(made: ColumnPlan, batches: Iterator[Any]) -> tuple[Reals, NDArray[Any] | None]:
    """One array, which grows as it is filled: there is no second copy of the rows."""
    inner = made.within()
    X, n, aside = np.empty((0, made.d)), 0, []
    for batch in batches:
        block, texts = block_of(batch, inner)
        if n + len(block) > len(X):
            X.resize((max(n + len(block), len(X) + len(X) // 8), made.d), refcheck=False)
        X[n : n + len(block)] = block
        n += len(block)
        aside += [] if texts is None else [texts]
    X.resize((n, made.d), refcheck=False)
    return X, np.concatenate(aside) if aside else None


# ---- without pyarrow


def _beyond_plain(form: Form, made: ColumnPlan) -> str:
    """What the plain reader cannot do about this file, in words; nothing if it can read it."""
    if form.sep != ",":
        return f" ({form.sep!r} between its columns)"
    if form.decimal != ".":
        return " (decimal commas)"
    if form.encoding != "utf-8-sig":
        return f" ({form.encoding.upper()})"
    return " (identifiers and categories)" if made.texts else ""


def _plain(form: Form, made: ColumnPlan) -> Loaded:
    """Commas, points and UTF-8; entries that are missing are found on a second try, which is slow."""
    settings: dict[str, Any] = {"delimiter": ",", "ndmin": 2, "dtype": np.float64, "quotechar": '"', "comments": None}
    if made.read != tuple(range(len(form.names))):
        settings["usecols"] = [source.j for source in made.sources]
    attempts: tuple[dict[str, Any], ...] = ({}, {"converters": _float_or_nan})
    for converters in attempts:
        if converters and (wrong := complaint(form, made)):
            raise wrong
        with _text(form.path, form.encoding) as text, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that there is nothing to read
            _lines(text, form)
            try:
                X = np.loadtxt(text, **settings, **converters)
            except (ValueError, TypeError):
                continue
        if not X.size:
            raise _no_rows(form)
        _check_quotes(form, len(X))
        return Loaded(X, made.features)
    raise complaint(form, made) or InputError(f"{form.path} cannot be read as .csv.", "a table of numbers")


def _float_or_nan(text: str) -> float:
    text = text.strip()
    if text.lower() in NONE:
        return np.nan
    return float(text in TRUE) if text in TRUE + FALSE else float(text)


# ---- what is wrong


def complaint(form: Form, made: ColumnPlan) -> InputError | None:
    """The first cell that is no number or the first line of another length: where it is, and what to do about it."""
    d, numbers, row = len(form.names), made.numbers, 0
    truths: dict[int, bool] = {}  # whether the first cell that is not empty is true or false
    with _text(form.path, form.encoding) as text:
        _, lines = _lines(text, form)
        for line in lines:
            if not line:
                continue
            row += 1
            if len(line) != d:
                return _odd_line(form, line, row, lines.line_num)
            odd = [j for j in numbers if not _readable(line[j], form.decimal)]
            if odd:
                break
            mixed = [j for j in numbers if not _goes_with(truths, j, line[j].strip())]
            if mixed:
                return InputError(
                    f"{form.path}: column {form.names[mixed[0]]!r} has {line[mixed[0]][:60]!r} in row {row} (line "
                    f"{lines.line_num}), and {'true and false' if truths[mixed[0]] else 'numbers'} before it.",
                    "numbers, or true and false, not both in one column",
                )
        else:
            return None if row else _no_rows(form)
        j, more = odd[0], ""
        if odd[1:]:
            more = f" Other columns that are not numbers there: {listed(repr(form.names[o]) for o in odd[1:])}."
        return InputError(
            f"{form.path}: column {form.names[j]!r} has {line[j][:60]!r} in row {row} (line {lines.line_num}).{more}",
            "a number, or nothing where it is missing",
            _advice(line[j], form),
        )


def _odd_line(form: Form, line: list[str], row: int, number: int) -> InputError:
    if line[0].lstrip().startswith("#"):
        found = f"{form.path} has a comment in line {number} (row {row}): {line[0][:40]!r}."
        return InputError(found, "rows of numbers", "take comment lines out")
    advice = f"look at that line for a {form.sep!r} too many or too few; a text with one in it has to be in quotes"
    if row == 1:
        advice += "; a title above the names has to be taken out; pass --sep if columns are separated otherwise"
    return InputError(
        f"{form.path} has {len(line)} columns in row {row} (line {number}), and its header has {len(form.names)}.",
        "as many as there are names",
        advice,
    )


def _goes_with(truths: dict[int, bool], j: int, cell: str) -> bool:
    return cell.lower() in NONE or truths.setdefault(j, cell in TRUE + FALSE) == (cell in TRUE + FALSE)


def _readable(cell: str, decimal: str) -> bool:
    text = cell.strip()
    if text.lower() in NONE or text in TRUE + FALSE:
        return True
    if "_" in text or (decimal == "," and "." in text):
        return False
    return _is_number(text.replace(",", ".") if decimal == "," else text)


def _advice(cell: str, form: Form) -> str:
    text, advice = cell.strip(), []
    if DECIMAL_COMMA.fullmatch(text) and form.decimal == ".":
        advice.append("pass --decimal comma if the comma stands before decimals")
    if THOUSANDS.fullmatch(text):
        advice.append("write numbers without thousands separators")
    if advice:
        return "; ".join(advice)
    if len(form.names) == 1 and any(sign in form.names[0] for sign in OTHER_SEPARATORS):
        return "separate columns by commas, semicolons or tabs, and pass --sep if these are not found"
    if DATE.fullmatch(text):
        return "leave columns of dates out (--drop), or make numbers of them first, such as days since a day"
    return LEAVE_OUT
