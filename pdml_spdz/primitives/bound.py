"""The public bound B with ||sum_m S_m||_F <= B that fixes the number format of a run.
[PDML App., numerical precision]
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pdml_spdz.errors import InputError, QuotaError

EXPONENT_WIDTH = 16  # a blurred exponent may be so much too large


@dataclass(frozen=True)
class Bound:
    """addend : no party's S_m v has a larger entry (or norm);
    total : no sum has. `source` says where they come from.
    """

    addend: float
    total: float
    source: str


def find_bound(norm: float, me: int, quotas: list[float] | None, exact_sum: Callable[[float, str], float]) -> Bound:
    """The bound that the study states, or one from the data if it states none."""
    return bound_by_sec_sum(norm, exact_sum) if quotas is None else bound_by_quotas(norm, me, quotas)


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


def bound_by_sec_sum(norm: float, exact_sum: Callable[[float, str], float]) -> Bound:
    """A bound from the data.

    1. b_m <- ||S_m||_F, rounded up to 20 bits
    2. B <- SecSum(b_m)

    Reveals: B, the sum of the parties' norms to 20 bits, and with it the scale that NormedSecSum hides
    (`privacy.scale`). Cost: one round, 280 bytes a peer.
    Ref: [PDML App. NormedSecSum, numerical precision], whose s lacks the sum over m.
    """
    mantissa, exponent = math.frexp(norm)
    total = exact_sum(math.ldexp(math.ceil(mantissa * (1 << 20)), exponent - 20), "bound")
    if not total > 0:
        raise InputError("the rows of all parties together are zero.", "rows that are not all zero")
    return Bound(total, total, "secsum")


def blurred_exponent(norm: float, u: float, width: int) -> int:
    """ceil(log2(norm) + width u), exact where norm is a power of two and u = 0; norm is at most two to it."""
    mantissa, exponent = math.frexp(norm)
    return exponent - 1 + math.ceil(math.log2(2.0 * mantissa) + width * u)
