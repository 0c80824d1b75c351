"""Rows out of text files with one line for each row and the names of the columns in the first (.csv, .tsv).

pyarrow reads them, block by block, into one array. Of very many columns a plain reader is quicker: commas, decimal
points, UTF-8. Both give the same numbers, and both leave it to `complaint` to say what is wrong.
"""

from __future__ import annotations

import csv
import itertools
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.choosing import ColumnPlan, plan
from pdml_spdz.rows.complaints import FALSE, TRUE, complaint, no_rows
from pdml_spdz.rows.frames import Loaded, block_of
from pdml_spdz.rows.names import Names
from pdml_spdz.rows.reading import ENCODINGS, RowsWanted
from pdml_spdz.rows.text_form import (
    ARROW_PACKED,
    NONE,
    NOTHING,
    SNIFFED,
    Form,
    encoding_of,
    form_of,
    in_encoding,
    lines_of,
    opened,
    opened_text,
    refuse_other_kinds,
)

BLOCK_BYTES = 1 << 20
WIDE = 10_000  # columns, beyond which pyarrow takes longer to begin than the plain reader for most files
BYTES_A_NUMBER = 64  # at most, or nearly: a row has to fit into a block
SAMPLED = 1 << 16  # cells, in which true and false are looked for


def read_delimited(path: Path, wanted: RowsWanted) -> Loaded:
    """The rows of a .csv or .tsv file, which may be compressed."""
    with opened(path) as file:
        start = file.read(SNIFFED)
    encoding = ENCODINGS.get(wanted.reading.encoding) or encoding_of(start)
    refuse_other_kinds(path, start, encoding)
    with in_encoding(path, encoding):
        form = form_of(path, encoding, wanted.reading)
        made = plan(form.names, wanted, str(path))
        usual = form.sep == "," and form.decimal == "." and form.encoding == "utf-8-sig" and not made.texts
        return _plain(form, made) if usual and len(form.names) > WIDE else _by_arrow(form, made)


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
        raise no_rows(form)
    _check_lost(form, len(X))
    return Loaded(X, made.features, aside)


def _check_lost(form: Form, rows: int) -> None:
    """No row may be lost without a word."""
    _check_quotes(form, rows)
    if len(form.names) == 1:
        _check_empty_lines(form)


def _check_empty_lines(form: Form) -> None:
    """Of a single column an empty line is a row whose number is missing, unless it is at the end."""
    with opened_text(form.path, form.encoding) as text:
        empty, seen = 0, False
        for number, line in enumerate(text, 1):
            full = bool(line.strip("\r\n"))
            if full and empty:
                raise InputError(
                    f"{form.path} has a single column, and line {empty} is empty.",
                    "a number in every line, or NA where it is missing",
                    "write NA into that line, or take it out if it is no row",
                )
            seen |= full
            empty = empty or (number if seen and not full else 0)


def _check_quotes(form: Form, rows: int) -> None:
    """A quotation mark that is not closed, or too late, takes the rows after it into its text: none may be lost so."""
    quotes = lines = 0
    last = b""
    with opened(form.path) as raw:
        while block := raw.read(BLOCK_BYTES):
            last = block[-1:]
            quotes += block.count(b'"')
            lines += block.count(b"\n") + block.count(b"\r") - block.count(b"\r\n")
    if not quotes or lines + (last not in b"\r\n") <= rows + form.skipped:
        return
    with opened_text(form.path, form.encoding) as text:
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


TRUTHS = frozenset(TRUE + FALSE)


def _truths(form: Form, made: ColumnPlan, cells: int | None) -> set[int]:
    """Columns of true and false: of the first rows, as many as have so many cells."""
    found: set[int] = set()
    with opened_text(form.path, form.encoding) as text:
        _, lines = lines_of(text, form)
        most = None if cells is None else max(1, cells // len(form.names))
        for line in itertools.islice((line for line in lines if len(line) == len(form.names)), most):
            found |= {j for j in made.numbers if line[j].strip() in TRUTHS}
    return found


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
    with opened_text(form.path, form.encoding) as text:
        _, lines = lines_of(text, form)
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
    if not texts:
        return batch
    import pyarrow as pa
    import pyarrow.compute as pc  # takes longer than to read a small file

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


def _plain(form: Form, made: ColumnPlan) -> Loaded:
    """Commas, points and UTF-8; entries that are missing are found on a second try, which is slow."""
    settings: dict[str, Any] = {"delimiter": ",", "ndmin": 2, "dtype": np.float64, "quotechar": '"', "comments": None}
    if made.read != tuple(range(len(form.names))):
        settings["usecols"] = [source.j for source in made.sources]
    attempts: tuple[dict[str, Any], ...] = ({}, {"converters": _float_or_nan})
    for converters in attempts:
        if converters and (wrong := complaint(form, made)):
            raise wrong
        with opened_text(form.path, form.encoding) as text, warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that there is nothing to read
            lines_of(text, form)
            try:
                X = np.loadtxt(text, **settings, **converters)
            except (ValueError, TypeError):
                continue
        if not X.size:
            raise no_rows(form)
        _check_lost(form, len(X))
        return Loaded(X, made.features)
    raise complaint(form, made) or InputError(f"{form.path} cannot be read as .csv.", "a table of numbers")


def _float_or_nan(text: str) -> float:
    text = text.strip()
    if text.lower() in NONE:
        return np.nan
    return float(text in TRUE) if text in TRUE + FALSE else float(text)
