"""What a study may say of a fit that opens V alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdml_spdz.errors import StudyError
from pdml_spdz.programs.sealed_precision import MOST_COLUMNS, MOST_FEATURES, MOST_PARTIES
from pdml_spdz.study.algorithm import SUMS
from pdml_spdz.study.fields import shown, want
from pdml_spdz.study.levels import LEVELS

if TYPE_CHECKING:
    from pdml_spdz.study.model import Study

OF_SEALED = ("accuracy_goal", "decay", "block", "ratios")
ONE_WAY = ("normalise", "online", "program")  # settings of what is opened on the way
MOST_GOAL, LEAST_GOAL = 0.05, 2.0**-24


def check_sealed(study: Study) -> None:
    if not study.level.sealed:
        for name in OF_SEALED:
            if (value := getattr(study, name)) != study.usual(name):
                levels = " or ".join(level for level in LEVELS.names() if LEVELS[level].sealed)
                raise StudyError(
                    f"`{name}` is {shown(value)} with reveal {study.reveal!r}.", f"reveal {levels} with it"
                )
        return
    found = f"`reveal` is {study.reveal!r}"
    want(study.spec.needs != SUMS and not study.spec.vector, f"{found} for {study.algorithm}.", "svd or pca")
    for name in ONE_WAY:
        value, usual = getattr(study, name), study.usual(name)
        want(value == usual, f"{found} and `{name}` is {value!r}.", f"{usual!r}: nothing is opened on the way")
    want(not study.variance, f"{found} and `variance` is true.", "no variance: with V it shows the scale of the rows")
    want(
        study.bound_kind in ("exponent", "agreed"),
        f"{found} and `bound` is {study.bound!r}.",
        "auto, exponent, or a number: a sum of norms would show the scale of the rows, and a window is too wide",
    )
    want(study.M <= MOST_PARTIES, f"{found} for {study.M} parties.", f"at most {MOST_PARTIES} parties")
    goal = f"from {LEAST_GOAL:.0e} to {MOST_GOAL}"
    want(LEAST_GOAL <= study.accuracy_goal <= MOST_GOAL, f"`accuracy_goal` is {shown(study.accuracy_goal)}.", goal)
    want(0.01 <= study.decay <= 0.99, f"`decay` is {shown(study.decay)}.", "from 0.01 to 0.99")
    want(
        study.block == 0 or study.rank < study.block <= MOST_COLUMNS,
        f"`block` is {shown(study.block)} and `rank` is {shown(study.rank)}.",
        f"more than the rank, at most {MOST_COLUMNS}, or 0 for twice the rank",
    )
    want(study.rank < MOST_COLUMNS, f"`rank` is {shown(study.rank)} and {found}.", f"at most {MOST_COLUMNS - 1}")
    if d := study.d or len(study.features):
        check_sealed_size(d, study.rank)


def _forecast(d: int) -> str:
    """Beyond what is planned number by number: at d = 1,000 (three parties, rank 7, usual goal) a forecast has 1.3 GB
    and 217 s of one core; from d = 512 on it has grown as d^1.2 and d^1.6.
    """
    gigabytes, minutes = 1.3 * (d / 1000) ** 1.2, 217 / 60 * (d / 1000) ** 1.6
    return (
        f"each of three parties would send at least {gigabytes:,.0f} GB and compute for {minutes:,.0f} minutes (rank 7)"
    )


def check_sealed_size(d: int, rank: int) -> None:
    """d beyond what is practical is refused, not tried."""
    if d > MOST_FEATURES:
        raise StudyError(
            f"d is {shown(d)} with a sealed fit: {_forecast(d)}.",
            f"at most {MOST_FEATURES} features",
            "leave out features, or reveal more (reveal normed)",
        )
    if rank >= d:
        raise StudyError(
            f"`rank` is {shown(rank)} and d is {shown(d)}.",
            "a rank below d: the gate of a sealed fit looks at the gap beyond V",
        )
