"""Studies: written and read back, compared by content."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdml_spdz import study, study_file
from pdml_spdz.errors import StudyError
from pdml_spdz.study import PartyEntry, PrecisionSettings, Study, Timeouts

PCA = {"algorithm": "pca", "centre": "hidden"}
NMF = {"algorithm": "nmf", "engine": "secsum", "reveal": "sum"}
TWO = (PartyEntry("a.example", 7000, "ab" * 32, 2.5), PartyEntry("b.example", 7001, "", 1e-3))

NAMES = st.lists(
    st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1).filter(str.strip),
    max_size=5,
    min_size=5,
    unique=True,
).map(tuple)


@st.composite
def with_names(draw: st.DrawFn, studies: st.SearchStrategy[Study]) -> Study:
    """Studies whose offsets and scales may have names: those of the features, in another order, if it lists some."""
    made = draw(studies)
    names = made.features or draw(NAMES)
    named = {f"{name}_features": tuple(draw(st.permutations(names))) for name in ("offset", "scale")}
    return replace(made, **{name: n for name, n in named.items() if getattr(made, name.split("_")[0] + "s")})


studies = st.builds(
    lambda engine, **settings: Study(engine=engine[0], reveal=engine[1], normalise=engine[2], **settings),
    engine=st.sampled_from(
        [(engine, reveal, "fit") for engine, reveal in sorted(study.ENGINES.items())]
        + [("embedded", "normed", "per-column")]
    ),
    parties=st.just(TWO),
    rank=st.integers(1, 5),
    iterations=st.integers(1, 1000),
    tol=st.floats(0, 1),
    features=st.just(()) | NAMES,
    columns=st.sampled_from(study.COLUMNS),
    bound=st.sampled_from(["secsum", "12.5", "rows:1.5,100"]),
    aggregator=st.sampled_from(["auto", "none", "1"]),
    offsets=st.just(()) | st.tuples(*[st.floats(allow_nan=False, allow_infinity=False)] * 5),
    scales=st.just(()) | st.tuples(*[st.floats(0, exclude_min=True, allow_infinity=False)] * 5),
    precision=st.builds(PrecisionSettings, bits=st.integers(4, 31), range=st.integers(4, 64)),
    timeouts=st.builds(Timeouts, connect=st.floats(0.1, 1e6), round=st.floats(0.1, 1e6)),
)


@given(studies | with_names(studies))
def test_study_is_read_back_as_it_was_written(written: Study) -> None:
    import tomllib

    read = study_file.parse(tomllib.loads(study_file.render(written)))
    assert read == written
    assert read.digest == written.digest


def test_settings_of_pca_are_read_back() -> None:
    import tomllib

    for settings in (PCA, {"algorithm": "pca", "centre": "none", "variance": True, "scale": "secsum"}):
        written = Study(parties=TWO, rank=2, **settings)  # type: ignore[arg-type]
        assert study_file.parse(tomllib.loads(study_file.render(written))) == written


def test_digest_ignores_comments_and_order(tmp_path: Path) -> None:
    one, two = tmp_path / "one.toml", tmp_path / "two.toml"
    parties = '[[parties]]\nhost = "a"\n[[parties]]\nhost = "b"\n'
    one.write_text(f"rank = 3\ntol = 0.001\n{parties}")
    two.write_text(f"# another hand\ntol = 1e-3\n\nrank=3 # k\n{parties}")
    assert study_file.load(one).digest == study_file.load(two).digest


@pytest.mark.parametrize("change", [{"rank": 4}, {"tol": 1e-3}, {"bound": "1.0"}, {"features": ("a", "b", "c", "d")}])
def test_digest_knows_every_value(change: dict[str, object]) -> None:
    base = Study(parties=TWO, rank=3)
    assert replace(base, **change).digest != base.digest  # type: ignore[arg-type]


def test_problem_digest_allows_other_hosts_and_more_iterations() -> None:
    base = Study(parties=TWO, rank=3)
    moved = replace(base, parties=tuple(replace(p, host="c", port=1) for p in TWO), iterations=999, tol=1e-3)
    assert moved.problem_digest == base.problem_digest
    assert replace(base, rank=2).problem_digest != base.problem_digest


@pytest.mark.parametrize(
    ("bound", "quotas", "expected"),
    [
        ("secsum", (0.0, 0.0), None),
        ("secsum", (2.0, 3.0), [2.0, 3.0]),
        ("5", (0.0, 3.0), [5.0, 3.0]),
        ("rows:2,10", (0.0, 0.0), [40.0, 40.0]),
    ],
)
def test_quotas_come_from_bound_and_parties(
    bound: str, quotas: tuple[float, float], expected: list[float] | None
) -> None:
    parties = tuple(PartyEntry(quota=q) for q in quotas)
    assert Study(parties=parties, rank=1, bound=bound).quotas == expected


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rank": 0}, "`rank` is 0"),
        ({"engine": "magic"}, "`engine` is 'magic'"),
        ({"engine": "secsum"}, "`engine` is 'secsum' and `reveal` is 'normed'"),
        ({"reveal": "sum"}, "`engine` is 'embedded' and `reveal` is 'sum'"),
        ({"engine": "secsum", "reveal": "sum", "offline": "stock"}, "`offline` is stock with engine 'secsum'"),
        ({"engine": "secsum", "reveal": "sum", "normalise": "per-column"}, "`normalise` is 'per-column' with engine"),
        ({"bound": "rows:1"}, "`bound` is 'rows:1'"),
        ({"bound": "-1"}, "`bound` is '-1'"),
        ({"bound": "nan"}, "`bound` is 'nan'"),
        ({"d": 2}, "a rank of at most d"),
        ({"seed": 3}, "`start` and `seed` disagree"),
        ({"aggregator": "2"}, "`aggregator` is '2'"),
        ({"timeouts": Timeouts(connect=0)}, "`timeouts.connect` is 0"),
        ({"parties": TWO[:1]}, "the study has 1 parties"),
        ({"centre": "hidden"}, "`centre` is 'hidden' for svd"),
        ({"centre": "around"}, "`centre` is 'around'"),
        (PCA | {"engine": "secsum", "reveal": "sum"}, "`centre` is hidden with engine 'secsum'"),
        (PCA | {"normalise": "per-column"}, "`centre` is hidden with engine 'embedded', normalise 'per-column'"),
        (PCA | {"precision": PrecisionSettings(range=44)}, "`precision.range` is 44 and `centre` is hidden"),
        (PCA | {"variance": True}, "`variance` is true and `centre` is hidden"),
        (PCA | {"scale": "secsum"}, "`scale` is secsum and `centre` is hidden"),
        ({"scale": "secsum", "scales": (1.0, 2.0)}, "`scale` is secsum and `scales` are given"),
        ({"columns": "colour"}, "`columns` is 'colour'"),
        ({"features": ("a", "b", "a")}, "`features` has a name twice"),
        ({"features": ("a", " ", "b")}, "`features` has a name that is empty"),
        ({"offsets": (1.0, 2.0), "offset_features": ("a",)}, "`offset_features` has 1 names for 2 numbers"),
        ({"scale_features": ("a",)}, "`scale_features` has 1 names for 0 numbers"),
        (
            {"features": ("a", "b", "c"), "scales": (1.0, 2.0, 3.0), "scale_features": ("a", "c", "x")},
            "`scale_features` and `features` differ in 'b', 'x'",
        ),
        ({"d": 3, "offsets": (1.0, 2.0)}, "`offsets` are 2 for d = 3"),
        ({"offsets": (float("nan"),)}, "`offsets` are not all finite"),
        ({"scales": (1.0, 0.0)}, "`scales` are not all positive"),
        (NMF | {"offsets": (0.0, 1.0)}, "`offsets` are given for nmf"),
        ({"algorithm": "normed-sum", "scales": (2.0,)}, "scales are given for a normed-sum"),
        ({"parties": (PartyEntry(quota=1.0), PartyEntry())}, "some parties have a quota"),
    ],
)
def test_bad_setting_is_refused_by_name(settings: dict[str, object], message: str) -> None:
    with pytest.raises(StudyError, match=message.replace("(", r"\(")):
        Study(**({"parties": (*TWO[:1], PartyEntry("b", 1, "", 2.0)), "rank": 3} | settings))  # type: ignore[arg-type]


def test_unknown_key_gets_a_suggestion() -> None:
    with pytest.raises(StudyError, match="did you mean `iterations`"):
        study_file.parse({"rank": 1, "iteratons": 5, "parties": [{}, {}]})
