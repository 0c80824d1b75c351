"""The public bound B with ||sum_m S_m||_F <= B that fixes the number format of a run.
[PDML App., numerical precision]
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdml_spdz.errors import InputError, QuotaError
from pdml_spdz.primitives.sec_sum import ClearSum, MaskedSum, positive_tolerance

SHOWN_BITS = 20  # of a bound from the data: as many as a number format needs, and more


@dataclass(frozen=True)
class Bound:
    """addend : no party's S_m v has a larger entry (or norm);
    total : no sum has. `source` says where they come from.
    """

    addend: float
    total: float
    source: str


def find_bound(norm: float, me: int, quotas: list[float] | None, sec_sum: MaskedSum | ClearSum) -> Bound:
    """The bound that the study states, or one from the data if it states none."""
    return bound_by_sec_sum(norm, sec_sum) if quotas is None else bound_by_quotas(norm, me, quotas)


def bound_by_quotas(norm: float, me: int, quotas: list[float]) -> Bound:
    """The bound that the parties' agreed quotas B_m make, once this party has seen that it keeps to its own.

    ||S_m||_F <= B_m is found out locally, before anything is sent.
    """
    quota = quotas[me]
    if norm > quota:
        raise QuotaError(
            f"this party's ||X^T X||_F (or its upper bound ||X||_F^2) is {norm:.6g}; nothing was sent.",
            f"at most the agreed {quota:.6g}",
            "agree on a larger --bound or quota, scale the data, or leave out the rows that are too long",
        )
    return Bound(max(quotas), sum(quotas), "agreed")


def bound_by_sec_sum(norm: float, sec_sum: MaskedSum | ClearSum) -> Bound:
    """A bound from the data.

    1. B <- SecSum(||S_m||_F), to SHOWN_BITS bits, and as much more as it may be too small

    Reveals: sum_m ||S_m||_F to SHOWN_BITS bits, and with it the scale of the data. Cost: that of `positive`.
    Ref: [PDML App. NormedSecSum, numerical precision], whose s lacks the sum over m.
    """
    total = float(sec_sum.positive(np.array([norm]), "bound", SHOWN_BITS)[0])
    if not total > 0:
        raise InputError("the rows of all parties together are zero.", "rows that are not all zero")
    total *= 1.0 + positive_tolerance(sec_sum.link.M, SHOWN_BITS)
    return Bound(total, total, "secsum")
