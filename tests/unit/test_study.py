"""Studies: written and read back, compared by content."""

from __future__ import annotations

import inspect
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from pdml_spdz.cli.app import cli
from pdml_spdz.errors import StudyError
from pdml_spdz.estimators import PDNMF
from pdml_spdz.study import file as study_file
from pdml_spdz.study.model import NmfSettings, PartyEntry, PrecisionSettings, Study, Timeouts

PCA = {"algorithm": "pca", "centre": "hidden"}
NMF = {"algorithm": "nmf", "engine": "secsum", "reveal": "sum"}
SPDZ = {"engine": "mp-spdz"}
TWO = (PartyEntry("a.example", 7000, "ab" * 32, 2.5), PartyEntry("b.example", 7001, "", 1e-3))


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
    moved = replace(
        base, parties=tuple(replace(p, host=f"other-{p.host}", port=1) for p in TWO), iterations=999, tol=1e-3
    )
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
        ({"engine": "secsum"}, "`engine` is 'secsum', which has no opening 'one-scale': reveal 'normed'"),
        (SPDZ | {"reveal": "sum"}, "`engine` is 'mp-spdz', which has no opening 'sum'"),
        ({"reveal": "sum", "offline": "stock"}, "`offline` is stock with engine 'embedded' and reveal 'sum'"),
        ({"reveal": "sum", "program": "paper"}, "`program` is 'paper' with reveal = 'sum'"),
        (
            {"reveal": "sum", "bound": "window", "parties": (PartyEntry(),) * 2},
            "`bound` is window with engine 'embedded'",
        ),
        ({"solver": "magic"}, "`solver` is 'magic'"),
        ({"engine": "secsum", "reveal": "sum", "offline": "stock"}, "`offline` is stock with engine 'secsum'"),
        (
            {"engine": "secsum", "reveal": "sum", "normalise": "per-column"},
            "`normalise` is 'per-column' with reveal = 'sum'",
        ),
        ({"bound": "rows:1"}, "`bound` is 'rows:1'"),
        ({"bound": "-1"}, "`bound` is '-1'"),
        ({"bound": "nan"}, "`bound` is 'nan'"),
        ({"d": 2}, "a rank of at most d"),
        ({"seed": 3}, "`start` and `seed` disagree"),
        ({"aggregator": "2"}, "`aggregator` is '2'"),
        ({"timeouts": Timeouts(connect=0)}, "`timeouts.connect` is 0"),
        ({"timeouts": Timeouts(work=-1)}, "`timeouts.work` is -1"),
        ({"timeouts": Timeouts(least_rate=0.5)}, "`timeouts.least_rate` is 0.5"),
        ({"timeouts": Timeouts(least_rate=float("inf"))}, "`timeouts.least_rate` is inf"),
        ({"parties": TWO[:1]}, "the study has 1 parties"),
        ({"centre": "hidden"}, "`centre` is 'hidden' for svd"),
        ({"centre": "around"}, "`centre` is 'around'"),
        (PCA | {"engine": "secsum", "reveal": "sum"}, "`centre` is hidden with engine 'secsum'"),
        (
            PCA | {"normalise": "per-column"},
            "`centre` is hidden with engine 'embedded', reveal 'normed', normalise 'per-",
        ),
        (SPDZ | {"parties": (PartyEntry(),) * 2, "precision": PrecisionSettings(range=20)}, "a blurred exponent finds"),
        (SPDZ | {"precision": PrecisionSettings(range=45)}, "`precision.range` is 45 with engine 'mp-spdz'"),
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
        ({"program": "paper"}, "`program` is 'paper' with normalise = 'fit'"),
        ({"program": "paper", "normalise": "per-column"}, "`engine` is 'embedded', which has no opening 'paper'"),
        (SPDZ | {"program": "paper"}, "`program` is 'paper' with normalise = 'fit'"),
        (SPDZ | {"program": "paper", "algorithm": "pca"}, "`program` is 'paper' with normalise = 'fit'"),
        ({"program": "paper", "algorithm": "normed-sum", "rank": 1}, "which has no opening 'paper'"),
        ({"precision": PrecisionSettings(bits=99)}, "`precision.bits` is 99"),
        ({"precision": PrecisionSettings(range=99)}, "`precision.range` is 99"),
        ({"iterations": 10**30}, "`iterations` is 10000"),
        ({"rank": 10**5}, "`rank` is 100000"),
        ({"bound": "rows:1e200,5"}, "`bound` is 'rows:1e200,5'"),
        ({"bound": "rows:1e-200,5"}, "`bound` is 'rows:1e-200,5'"),
        ({"algorithm": "normed-sum"}, "`rank` is 3 for a normed-sum"),
        ({"nmf": NmfSettings(weighted=True)}, "settings of [nmf] are given for svd"),
        ({"parties": (PartyEntry(port=7), PartyEntry(port=7))}, "two parties have the same host and port"),
        ({"parties": (PartyEntry(fingerprint="ab"), PartyEntry())}, "P0's fingerprint is 'ab'"),
        ({"rank": 2.5}, "`rank` in the study is 2.5"),
    ],
)
def test_bad_setting_is_refused_by_name(settings: dict[str, object], message: str) -> None:
    with pytest.raises(StudyError, match=re.escape(message)):
        Study(**({"parties": (*TWO[:1], PartyEntry("b", 1, "", 2.0)), "rank": 3} | settings))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "meant"),
    [({"engine": "secsumm"}, "did you mean `secsum`?"), ({"engine": "mp-spdz", "protocol": "mascott"}, "`mascot`")],
)
def test_misspelt_names_are_refused_with_what_was_meant(settings: dict[str, str], meant: str) -> None:
    with pytest.raises(StudyError) as error:
        Study((PartyEntry(), PartyEntry()), 1, **settings)
    assert meant in str(error.value)


@pytest.mark.parametrize("path", ["engine", "protocol", "rows.missing", "rows.encode", "rows.x", "precision.x", "x"])
def test_a_value_is_not_quoted_whole_where_it_is_long(tmp_path: Path, path: str) -> None:
    content, long = tomllib.loads(study_file.render(Study(TWO, rank=1))), "no such thing" * 9999
    section, _, name = path.rpartition(".")
    at = content.setdefault(section, {}) if section else content
    at[long if name == "x" else name] = long
    with pytest.raises(StudyError) as caught:
        study_file.parse(content)
    assert len(str(caught.value)) < 1500


def test_program_of_the_paper_where_it_exists() -> None:
    assert Study(TWO, 3, engine="mp-spdz", program="paper", normalise="per-column").program == "paper"
    assert Study(TWO, 1, "normed-sum", engine="mp-spdz", program="paper").program == "paper"


def test_numbers_of_numpy_are_numbers() -> None:
    given = {"rank": np.int64(3), "tol": np.float32(0.5), "bound": np.float64(2.0), "offsets": np.array([1, 2, 3])}
    study = Study(TWO, **given)  # type: ignore[arg-type]
    assert study == Study(TWO, rank=3, tol=0.5, bound="2.0", offsets=(1.0, 2.0, 3.0))
    assert study.digest == Study(TWO, rank=3, tol=0.5, bound="2.0", offsets=(1.0, 2.0, 3.0)).digest


def init(tmp_path: Path, *arguments: str) -> tuple[Study, str]:
    """The study that `pdml-spdz init` writes, and its text."""
    path = tmp_path / "study.toml"
    done = CliRunner().invoke(cli, ["init", "--parties", "2", "--out", str(path), *arguments])
    assert done.exit_code == 0, done.output
    return study_file.load(path), path.read_text()


def test_init_writes_the_defaults_of_nmf(tmp_path: Path) -> None:
    study, text = init(tmp_path, "--algorithm", "nmf", "--rank", "4")
    assert (study.engine, study.reveal, study.nmf) == ("secsum", "sum", NmfSettings())
    own = inspect.signature(PDNMF).parameters
    assert (study.iterations, study.tol) == (own["max_iter"].default, own["tol"].default) == (200, 1e-6)
    assert study_file.render(study) == text
    assert "[nmf]" in text
    for words in (
        "singular vectors\n",
        "subspace",
        "S V_t",
        "embedded",
        "mp_spdz",
        "normalise",
        "[precision]",
        "offset",
    ):
        assert words not in text, words


def test_init_of_nmf_keeps_what_was_asked_for(tmp_path: Path) -> None:
    study, _ = init(tmp_path, "--algorithm", "nmf", "--rank", "4", "--iterations", "300", "--vole", "ot")
    assert (study.iterations, study.vole) == (300, "ot")


def test_init_of_a_normed_sum_needs_no_rank(tmp_path: Path) -> None:
    study, text = init(tmp_path, "--algorithm", "normed-sum")
    assert (study.rank, study.engine) == (1, "embedded")
    for words in ("singular", "subspace", "iterations", "offsets", "[nmf]"):
        assert words not in text, words
    done = CliRunner().invoke(cli, ["init", "--parties", "2", "--out", str(tmp_path / "other.toml")])
    assert done.exit_code == 2
    assert "--rank" in done.output


def test_unknown_key_gets_a_suggestion() -> None:
    with pytest.raises(StudyError, match="did you mean `iterations`"):
        study_file.parse({"rank": 1, "iteratons": 5, "parties": [{}, {}]})
