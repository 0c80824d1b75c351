"""The list of features that a file has, for a study to agree on."""

from __future__ import annotations

from pathlib import Path

from pdml_spdz.errors import InputError
from pdml_spdz.rows import names
from pdml_spdz.rows.data import ending_of, in_pieces, load
from pdml_spdz.rows.names import Names
from pdml_spdz.rows.reading import DROP_ROWS, Reading, RowSettings, RowsWanted
from pdml_spdz.rows.triplets import items_of


def features_of(path: Path, reading: Reading, agreed: RowSettings) -> Names:
    """Names of the columns as a run would have them; of triplets, their features; of a .txt file, its lines."""
    if not path.is_file() and not in_pieces(path, reading):
        raise InputError(f"{path} is not there.", "a file whose columns, or lines, are the features")
    if path.suffix == ".txt":
        listed = tuple(line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip())
        names.check(listed, len(listed), str(path))
        return listed
    if reading.triplets:
        return items_of(path, ending_of(path), reading)
    lenient = RowSettings(agreed.columns, agreed.drop, agreed.encode, DROP_ROWS)
    found = load(path, wanted=RowsWanted(reading, lenient)).features
    if found is None:
        raise InputError(f"{path} has no names for its columns.", "names", "list them in a .txt file, one a line")
    return found
