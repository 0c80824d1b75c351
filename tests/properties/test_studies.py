"""Studies: one that validates is read back as it was written; one that is wrong is a StudyError, and nothing else."""

from __future__ import annotations

import tempfile
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml_spdz.engines.spec import precision_of
from pdml_spdz.errors import StudyError
from pdml_spdz.programs.precision import MAX_BITS, MAX_RANGE, MIN_BITS, MIN_RANGE
from pdml_spdz.study import file as study_file
from pdml_spdz.study import model as studies
from pdml_spdz.study.checks import (
    LARGEST,
    MAX_COLUMNS,
    MAX_FEATURES,
    MAX_ITERATIONS,
    MAX_SECONDS,
    SMALLEST,
    SMALLEST_SCALE,
)
from pdml_spdz.study.engines import ENGINES
from pdml_spdz.study.levels import LEVELS
from pdml_spdz.study.model import NmfSettings, PartyEntry, PrecisionSettings, Study, Timeouts

HEX = "0123456789abcdefABCDEF"
names = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8).filter(str.strip)
whole = st.integers(1, 1000)
positive = st.floats(1e-200, 1e200)
scale = st.floats(SMALLEST_SCALE, 1.0 / SMALLEST_SCALE)
seconds = st.floats(0.0, MAX_SECONDS, exclude_min=True)
entries = st.builds(
    PartyEntry,
    host=st.sampled_from(["a.example", "127.0.0.1", "::1", "münchen.example"]),
    port=st.just(0),
    fingerprint=st.just("") | st.text(HEX, min_size=64, max_size=64),
    quota=st.just(0.0),
    mp_spdz_port=st.just(0),
)
nmf = st.builds(
    NmfSettings,
    init=st.sampled_from(studies.INITS),
    init_iterations=whole,
    w_start=st.sampled_from(studies.W_STARTS),
    weighted=st.booleans(),
    alpha=st.floats(0, 1e9),
    delta=st.floats(0, 1e9),
)


@st.composite
def valid(draw: st.DrawFn) -> dict[str, Any]:
    """The settings of a study that is as it should be, of any algorithm."""
    algorithm = draw(st.sampled_from(studies.ALGORITHMS.names()))
    levels = [name for name in LEVELS.names() if algorithm != "normed-sum" or not LEVELS[name].sealed]
    reveal = "sum" if algorithm == "nmf" else draw(st.sampled_from(levels))
    engine = draw(st.sampled_from([name for name in ENGINES.names() if reveal in ENGINES[name].levels]))
    d = draw(st.integers(0, 5))
    rank = 1 if algorithm == "normed-sum" else draw(st.integers(1, d or 9))
    found: dict[str, Any] = {
        "parties": tuple(draw(st.lists(entries, min_size=2, max_size=4))),
        "algorithm": algorithm,
        "engine": engine,
        "reveal": reveal,
        "rank": rank,
        "d": d,
        "features": draw(st.just(()) | st.lists(names, min_size=d, max_size=d, unique=True).map(tuple)),
        "columns": draw(st.sampled_from(studies.COLUMNS)),
        "iterations": draw(whole),
        "tol": draw(st.floats(0, 1, exclude_max=True)),
        "vole": draw(st.sampled_from(studies.VOLE)),
        "offline": draw(st.sampled_from(["auto", "on-demand"])),
        "bound": draw(st.sampled_from(["auto", "exponent", "secsum"]) | positive.map(str)),
        "aggregator": draw(st.sampled_from(["auto", "none", "1"])),
        "precision": PrecisionSettings(draw(st.integers(4, 31)), draw(st.just(0) | st.integers(30, 40))),
        "timeouts": Timeouts(draw(seconds), draw(seconds), draw(seconds), draw(st.floats(1, 1e12))),
    }
    if LEVELS[reveal].sealed:
        wider = d + 1 if d else 0
        bound = draw(st.sampled_from(["auto", "exponent"]))
        goal, decay = draw(st.floats(1e-7, 0.05)), draw(st.floats(0.01, 0.99))
        found |= {"d": wider, "features": (), "bound": bound, "accuracy_goal": goal, "decay": decay}
        found["ratios"] = draw(st.sampled_from(studies.RATIOS)) if engine == "embedded" else "open"
        d = wider
    if draw(st.booleans()):
        found |= {"start": "seed", "seed": draw(st.integers(0, 2**63 - 1))}
    if reveal == "normed" and draw(st.booleans()):
        found |= {"normalise": "per-column", "online": draw(st.sampled_from(studies.ONLINE))}
    if algorithm in ("svd", "pca") and d:
        found["offsets"] = draw(st.just(()) | st.tuples(*[st.floats(-1e9, 1e9)] * d))
    if algorithm != "normed-sum" and d:
        found["scales"] = draw(st.just(()) | st.tuples(*[scale] * d))
    if algorithm == "nmf":
        found["nmf"] = draw(nmf)
    if algorithm == "pca":
        found["centre"] = draw(st.sampled_from(["open", "none"]))
        found["variance"] = not LEVELS[reveal].sealed and draw(st.booleans())
    return found


def check_written(study: Study) -> None:
    read = study_file.parse(tomllib.loads(study_file.render(study)))
    assert read == study
    assert read.digest == study.digest


@settings(max_examples=80)
@given(valid())
def test_study_is_read_back_as_it_was_written(given: dict[str, Any]) -> None:
    check_written(Study(**given))


@settings(max_examples=50)
@given(valid())
def test_precision_of_a_study_can_be_used(given: dict[str, Any]) -> None:
    """What Study lets pass, the number format takes."""
    assert precision_of(Study(**given)).f_out == given["precision"].bits


huge = st.integers(2**64, 10**400) | st.just(10**5000) | st.integers(-(10**400), -1)
not_numbers = st.sampled_from([float("nan"), float("inf"), float("-inf"), 1e300, 5e-324, -1.0, -0.0])
junk: st.SearchStrategy[Any] = st.one_of(
    huge,
    not_numbers,
    st.none(),
    st.booleans(),
    st.binary(max_size=4),
    st.text(max_size=6),  # with half characters
    st.sampled_from(["²", "1" * 5000, "rows:", "rows:1,2,3", "rows:1e200,5", "rows:1e-200,1", "nan", "-1"]),
    st.lists(st.integers() | st.floats() | st.text(max_size=3), max_size=3),
    st.builds(dict),
)


@settings(max_examples=300)
@given(valid(), st.dictionaries(st.sampled_from(sorted(Study.__dataclass_fields__)), junk, min_size=1, max_size=3))
def test_any_other_value_is_a_study_error_or_a_study(given: dict[str, Any], wrong: dict[str, Any]) -> None:
    try:
        study = Study(**(given | wrong))
    except StudyError:
        pass
    else:
        check_written(study)
        _ = study.quotas, study.problem_digest


@settings(max_examples=150)
@given(
    st.sampled_from([PartyEntry, Timeouts, PrecisionSettings, NmfSettings]),
    st.data(),
)
def test_any_other_value_in_a_table_is_a_study_error_or_a_study(table: type[Any], data: st.DataObject) -> None:
    wrong = data.draw(st.dictionaries(st.sampled_from(sorted(table.__dataclass_fields__)), junk, min_size=1))
    base: dict[str, Any] = {"algorithm": "nmf", "engine": "secsum", "reveal": "sum"}
    try:
        changed = table(**wrong)
        name = {"Timeouts": "timeouts", "PrecisionSettings": "precision", "NmfSettings": "nmf"}.get(table.__name__)
        first = changed if name is None else PartyEntry()
        study = Study((first, PartyEntry("b.example")), 2, **base, **({name: changed} if name else {}))
    except StudyError:
        pass
    else:
        check_written(study)


above = st.floats(LARGEST, exclude_min=True) | st.just(float("nan"))
OUT_OF_RANGE: dict[str, st.SearchStrategy[Any]] = {
    "rank": st.integers(max_value=0) | st.integers(min_value=MAX_COLUMNS + 1),
    "iterations": st.integers(max_value=0) | st.integers(min_value=MAX_ITERATIONS + 1) | st.just(10**30),
    "d": st.integers(max_value=-1) | st.integers(min_value=MAX_FEATURES + 1),
    "tol": st.floats(max_value=0, exclude_max=True)
    | st.floats(1)
    | st.sampled_from([float("nan"), float("inf"), 10**400]),
    "seed": st.integers(max_value=-1) | st.integers(min_value=2**63),
    "bits": st.integers(max_value=MIN_BITS - 1) | st.integers(min_value=MAX_BITS + 1),
    "range": st.integers(max_value=-1) | st.integers(1, MIN_RANGE - 1) | st.integers(min_value=MAX_RANGE + 1),
    "connect": st.floats(max_value=0) | st.floats(MAX_SECONDS, exclude_min=True) | st.just(float("nan")),
    "round": st.floats(max_value=0) | st.floats(MAX_SECONDS, exclude_min=True) | st.just(float("nan")),
    "port": st.integers(max_value=-1) | st.integers(min_value=65536),
    "mp_spdz_port": st.integers(max_value=-1) | st.integers(min_value=65536),
    "quota": st.floats(max_value=0, exclude_max=True)
    | above
    | st.floats(0, SMALLEST, exclude_min=True, exclude_max=True),
    "bound": st.builds("rows:{},{}".format, st.floats(1e140), st.floats(1))
    | st.builds("rows:{},{}".format, st.floats(0, 1e-140), st.floats(0, 1))
    | st.floats(max_value=0).map(str)
    | above.map(str),
    "aggregator": st.integers(2).map(str) | st.sampled_from(["²", "-1", "P0", "1" * 5000]),
    "init_iterations": st.integers(max_value=0) | st.integers(min_value=MAX_ITERATIONS + 1),
    "alpha": st.floats(max_value=0, exclude_max=True) | above,
    "scales": st.tuples(
        st.floats(max_value=SMALLEST_SCALE, exclude_max=True)
        | st.floats(1.0 / SMALLEST_SCALE, exclude_min=True)
        | st.just(float("nan"))
    ),
    "offsets": st.tuples(above),
    "fingerprint": st.text(HEX, min_size=1, max_size=63) | st.just("gg" * 32),
    "host": st.sampled_from(["", "a b", "a\0b", "a..b", "x" * 70 + ".example", "a\n"]),
}


def study_with(name: str, value: Any) -> Study:
    """A study that is as it should be but for one value, wherever that belongs."""
    found: dict[str, Any] = {"parties": (PartyEntry(), PartyEntry()), "rank": 1}
    if name == "seed":
        found["start"] = "seed"
    if name in NmfSettings.__dataclass_fields__:
        found |= {"algorithm": "nmf", "engine": "secsum", "reveal": "sum"}
    for table, kind in study_file.TABLES.items():
        if name in kind.__dataclass_fields__:
            return Study(**found, **{table: kind(**{name: value})})
    if name in PartyEntry.__dataclass_fields__:
        return Study(**found | {"parties": (PartyEntry(**{name: value}), PartyEntry("other.example"))})
    return Study(**found | {name: value})


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_setting_out_of_its_range_is_refused(name: str) -> None:
    @settings(max_examples=15)
    @given(OUT_OF_RANGE[name])
    def check(value: Any) -> None:
        with pytest.raises(StudyError):
            study_with(name, value)

    check()


GOOD = study_file.render(Study((PartyEntry("a", 1), PartyEntry("b", 2)), 2, engine="secsum", reveal="sum")).splitlines()
SETTINGS = [i for i, line in enumerate(GOOD) if " = " in line and not line.startswith("#")]
words = st.sampled_from(
    [
        "nan",
        "-inf",
        "1e999",
        "1" * 5000,
        "10" * 300,
        "true",
        '"\\ud800"',
        "[" * 9000,
        "{}",
        "[1.5, 1e400]",
        "1979-05-27",
    ]
) | st.text(max_size=12)


@settings(max_examples=150)
@given(st.sampled_from(SETTINGS), words)
def test_any_other_word_in_a_file_is_a_study_error_or_a_study(line: int, word: str) -> None:
    changed = [*GOOD]
    changed[line] = f"{GOOD[line].partition(' = ')[0]} = {word}"
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "study.toml"
        path.write_bytes("\n".join(changed).encode("utf-8", "surrogatepass"))
        try:
            study = study_file.load(path)
        except StudyError:
            return
    check_written(study)
