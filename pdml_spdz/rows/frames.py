"""Rows out of tables of other libraries: pandas, Arrow, and whatever speaks Arrow's C interface (polars, ...).

They are known by what they offer: none is imported for them. Only columns of integers, floating-point numbers, booleans
and decimals are numbers; dates and texts would turn into some.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.rows.base import RowsLike
from pdml_spdz.rows.choosing import ColumnPlan, plan
from pdml_spdz.rows.names import Names, listed, refuse_index
from pdml_spdz.rows.reading import RowsWanted

# null: nothing is there, as in a file of many in which a column happens to have no values
ARROW_NUMBER = re.compile(r"u?int\d+|halffloat|float|double|bool|null|decimal\d+\(.*\)")
CONVERT = "drop these columns, or make numbers of them first"
LEAVE_OUT = (
    "leave such columns out (--drop), keep one aside (--id-column), list their categories (--encode NAME=A,B,...), or "
    "make numbers of them first"
)
NUMBERS = "integers, floating-point numbers, booleans or decimals in every column"


class Loaded(NamedTuple):
    """Rows as they are there and names of their columns; `data` checks them.

    aside : (n, a) texts of the columns that are kept aside
    """

    X: RowsLike
    features: Names | None
    aside: NDArray[Any] | None = None


def is_table(value: Any) -> bool:
    """A data frame, or anything that hands out its columns by Arrow's C interface."""
    arrow = hasattr(value, "__arrow_c_stream__") and (hasattr(value, "columns") or hasattr(value, "schema"))
    return _is_frame(value) or hasattr(value, "column_names") or arrow


def is_series(value: Any) -> bool:
    """One column of pandas, whose labels name a vector's numbers."""
    return hasattr(value, "iloc") and hasattr(value, "index") and not hasattr(value, "columns")


def _is_frame(value: Any) -> bool:
    return all(hasattr(value, name) for name in ("iloc", "columns", "dtypes"))


def read_table(value: Any, where: str, wanted: RowsWanted | None = None) -> Loaded:
    """The numbers and names of a table (`is_table`), or of a vector (`is_series`)."""
    if is_series(value):
        table = check_table(value, where)
        return Loaded(table.to_numpy(dtype=np.float64, na_value=np.nan), _labels(table.index, where))
    wanted = wanted or RowsWanted()
    table = value if _is_frame(value) else as_arrow(value, where)
    names = column_names(table, where)
    if _asks_nothing(wanted):
        table = check_table(table, where)
        X = frame_numbers(table) if _is_frame(table) else arrow_numbers(table)
        return Loaded(X, names)
    if _is_frame(table):
        made = plan(column_texts(table, where), wanted, where)
        check_types(made, column_types(table), where)
    else:
        made = table_plan(table.schema, wanted, where)
    X, aside = block_of(table, made)
    return Loaded(X, made.features, aside)


def table_plan(schema: Any, wanted: RowsWanted, where: str) -> ColumnPlan:
    """What is made of the columns of an Arrow table."""
    made = plan(tuple(schema.names), wanted, where)
    refuse_index(_index_of(schema, made), where)
    check_types(made, arrow_types(schema), where)
    return made


def _asks_nothing(wanted: RowsWanted) -> bool:
    return wanted.agreed.plain and not (wanted.reading.id_column or wanted.reading.triplets or wanted.ids)


def column_types(table: Any) -> list[str | None]:
    """Of each column its type in words, None if it is a number's."""
    if _is_frame(table):
        kinds = enumerate(table.dtypes)
        return [None if _is_number_type(k) or _are_decimals(table.iloc[:, j]) else str(k) for j, k in kinds]
    return arrow_types(table.schema)


def arrow_types(schema: Any) -> list[str | None]:
    kinds = [str(kind) for kind in schema.types]
    return [None if ARROW_NUMBER.fullmatch(kind) else kind for kind in kinds]


def check_types(made: ColumnPlan, types: list[str | None], where: str) -> None:
    """Columns that become features by themselves are numbers."""
    odd = [f"{made.names[j]!r} ({types[j]})" for j in made.numbers if types[j] is not None]
    if odd:
        raise InputError(f"{where} has columns that are not numbers: {listed(odd)}.", NUMBERS, LEAVE_OUT)


def block_of(table: Any, made: ColumnPlan) -> tuple[Reals, NDArray[Any] | None]:
    """Some rows of a table, or all: as numbers, NaN where one is missing; and what is kept aside."""
    frame = _is_frame(table)
    take = frame_column if frame else arrow_column
    aside = aside_of(table, made) if made.aside else None
    if not any(source.categories is not None for source in made.sources):
        order = [source.j for source in made.sources]
        chosen = table.iloc[:, order] if frame else table.select(order)
        return (frame_numbers(chosen) if frame else arrow_numbers(chosen)), aside
    X, at = np.empty((len(table) if frame else table.num_rows, made.d)), 0
    for source in made.sources:
        column, name = take(table, source.j), made.names[source.j]
        if source.categories is None:
            X[:, at] = frame_numbers(column) if frame else arrow_numbers(column)
        else:
            values = texts_of(column)
            X[:, at : at + len(source.categories)] = indicators(values, source.categories, name, made.where)
        at += len(source.categories or ("",))
    return X, aside


def aside_of(table: Any, made: ColumnPlan) -> NDArray[Any]:
    """(n, a): the columns that are kept aside, as texts."""
    take = frame_column if _is_frame(table) else arrow_column
    return np.column_stack([texts_of(take(table, j)) for j in made.aside])


def indicators(values: NDArray[Any], categories: Names, name: str, where: str) -> Reals:
    """(n, c): which category each text is; NaN in the rows where it is None. A text that is none of them is refused."""
    place = {category: i for i, category in enumerate(categories)}
    X = np.zeros((len(values), len(categories)))
    unknown: dict[str, int] = {}
    for row, value in enumerate(values):
        if value is None:
            X[row] = np.nan
        elif value in place:
            X[row, place[value]] = 1.0
        else:
            unknown[value] = unknown.get(value, 0) + 1
    if unknown:
        said = listed(f"{value!r} ({count} rows)" for value, count in unknown.items())
        raise InputError(
            f"{where}: column {name!r} has {sum(unknown.values())} values that are none of its categories: {said}.",
            f"one of {listed(categories)}",
            "correct them, or agree on a longer list (`encode` in the study, --encode)",
        )
    return X


def texts_of(column: Any) -> NDArray[Any]:
    """A column as texts, None where it has none: numbers that are whole as integers."""
    return np.array([_text(x) for x in _objects(column)], dtype=object)


def _objects(column: Any) -> Iterable[Any]:
    if hasattr(column, "to_pylist"):
        return column.to_pylist()  # type: ignore[no-any-return]
    return column.tolist()  # type: ignore[no-any-return]


def _text(value: Any) -> str | None:
    if value is None or str(value) == "<NA>" or value != value:
        return None
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value).strip() or None


def frame_numbers(frame: Any) -> Reals:
    numbers: Reals = frame.to_numpy(dtype=np.float64, na_value=np.nan)
    return numbers


def frame_column(frame: Any, j: int) -> Any:
    return frame.iloc[:, j]


def arrow_column(table: Any, j: int) -> Any:
    return table.column(j)


def arrow_numbers(table: Any) -> Reals:
    """A column, a batch or a table of Arrow: (n,) or (n, d), C order, NaN where nothing is."""
    if not hasattr(table, "num_columns"):
        return _arrow_floats(table).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
    X = np.empty((table.num_rows, table.num_columns))
    at = 0
    for batch in table.to_batches() if hasattr(table, "to_batches") else [table]:
        if batch.num_rows:
            X[at : at + batch.num_rows] = _batch_numbers(batch)
        at += batch.num_rows
    return X


def _batch_numbers(batch: Any) -> Reals:
    import pyarrow as pa

    columns = [_arrow_floats(column) for column in batch.columns]
    doubles = pa.RecordBatch.from_arrays(columns, [str(j) for j in range(len(columns))])
    numbers: Reals = doubles.to_tensor(null_to_nan=True, row_major=True).to_numpy()
    return numbers


def _arrow_floats(column: Any) -> Any:
    import pyarrow as pa

    if column.type == pa.float64():
        return column
    if column.type == pa.float16():  # which older versions do not cast
        return pa.array(column.to_numpy(zero_copy_only=False).astype(np.float64))
    return column.cast(pa.uint8()).cast(pa.float64()) if column.type == pa.bool_() else column.cast(pa.float64(), False)


def check_table(value: Any, where: str) -> Any:
    """The table, if all of its columns are numbers and none is an index; of an unknown library, as Arrow's."""
    if is_series(value):
        found = [] if _is_number_type(value.dtype) or _are_decimals(value) else [("values", value.dtype)]
    elif _is_frame(value):
        types = column_types(value)
        found = [(repr(label), kind) for label, kind in zip(value.columns, types, strict=True) if kind is not None]
    else:
        value = as_arrow(value, where)
        refuse_index(_index_of(value.schema, None), where)
        found = [(repr(name), kind) for name, kind in zip(value.schema.names, arrow_types(value.schema), strict=True)]
        found = [(name, kind) for name, kind in found if kind is not None]
    if found:
        said = listed(f"{name} ({kind})" for name, kind in found)
        raise InputError(f"{where} has columns that are not numbers: {said}.", NUMBERS, LEAVE_OUT)
    return value


def _index_of(schema: Any, made: ColumnPlan | None) -> list[str]:
    """Columns that pandas wrote as an index and that would be features."""
    described = json.loads((schema.metadata or {}).get(b"pandas", b"{}"))
    taken = schema.names if made is None else [made.names[source.j] for source in made.sources]
    return [name for name in described.get("index_columns", []) if isinstance(name, str) and name in taken]


def as_arrow(value: Any, where: str) -> Any:
    """A table of Arrow, of a library that speaks its C interface too."""
    if hasattr(value, "to_batches"):
        return value
    import pyarrow as pa

    try:
        return pa.Table.from_batches([value]) if isinstance(value, pa.RecordBatch) else pa.table(value)
    except pa.ArrowException as error:
        found = f"{where} has a column of a type that Arrow does not know ({error})."
        raise InputError(found, NUMBERS, CONVERT) from None


def _is_number_type(dtype: Any) -> bool:
    return getattr(dtype, "kind", "O") in "iufb" or str(dtype).startswith("decimal")


def _are_decimals(column: Any) -> bool:
    """What pandas makes of decimals: objects."""
    return len(column) > 0 and all(isinstance(x, Decimal) for x in column)


def column_texts(table: Any, where: str) -> Names:
    """What a table (`check_table`) calls its columns, numbers as texts."""
    return _texts(table.columns, where) if _is_frame(table) else tuple(table.column_names)


def column_names(table: Any, where: str) -> Names | None:
    """The same where these are names."""
    return _labels(table.columns, where) if _is_frame(table) else tuple(table.column_names)


def _labels(labels: Any, where: str) -> Names | None:
    """Texts and whole numbers are names, but 0, 1, 2, ... is what pandas calls columns that have none."""
    texts = _texts(labels, where)
    return None if list(labels) == list(range(len(texts))) else texts


def _texts(labels: Any, where: str) -> Names:
    found = list(labels)
    if not all(isinstance(label, str | int | np.integer) and not isinstance(label, bool) for label in found):
        raise InputError(
            f"{where} has columns whose names are not texts: {listed(x for x in found if not isinstance(x, str))}.",
            "a text for each column",
        )
    return tuple(str(label) for label in found)
