"""The public number B that fixes the format of a run: no sum of the parties' S_m v is longer.

Where it comes from decides what it shows (docs/security.md): a window that suits ordinary data, or quotas that the
parties agreed on, show nothing; a blurred exponent shows the size of the rows to a factor of 2^16; SecSum shows the sum
of the parties' norms. [PDML App., numerical precision]
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from pdml_spdz.errors import SCALE, InputError, QuotaError
from pdml_spdz.primitives.largest import largest
from pdml_spdz.primitives.sec_sum import EngineSum, positive_tolerance
from pdml_spdz.transport.base import Link

SMALLEST_FOUND, LARGEST_FOUND = 2.0**-470, 2.0**480  # products of sums are neither lost nor infinite
WINDOW = 2.0**64  # with a range of 96 bits sums from 2^-32 to 2^64 have their place below it
SHOWN_BITS = 20  # of a bound by SecSum: as many as a number format needs, and more
LESS_OF_COLUMN = "leave that column out (--drop), or take off a number near its mean (--offset)"
LESS_OF_ROWS = "scale the data, or leave out the rows that are too long"
LARGER_BOUND = "agree on a larger --bound (in Python bound=) or quota"
BLUR = 16  # an exponent is moved up by a common secret number below this: it says a norm to a factor of 2^16
LEAST, MOST = -128, 128  # exponents; a smaller norm counts as 2^-128


@dataclass(frozen=True)
class Bound:
    """addend : no party's S_m v has a larger entry (or norm);
    total : no sum has;
    source : "window", "agreed", "exponent", "secsum", or "public" if it follows from what the run has shown
    exponent : what was opened, with "exponent"
    norm : what it was found from, in letters
    """

    addend: float
    total: float
    source: str
    exponent: int | None = None
    norm: str = ""

    @property
    def observable(self) -> str | None:
        """What finding it has shown to every party."""
        if self.source == "secsum":
            return f"the bound B, the sum of the parties' norms ({self.norm}), to every party"
        if self.source == "exponent":
            return f"the bound's exponent, up to {BLUR - 1} above that of the largest {self.norm}, to every party"
        return None


def agreed_bound(norm: float, me: int, quotas: list[float], what: str = "norm", made: Callable[[], str] = str) -> Bound:
    """The bound that the parties' agreed quotas B_m make, once this party has seen that it keeps to its own.

    ||S_m||_F <= B_m is found out locally, before anything that depends on it is sent.
    """
    _check_norm(norm, quotas[me], what, made)
    return Bound(max(quotas), sum(quotas), "agreed")


def window(norm: float, M: int, what: str = "norm", made: Callable[[], str] = str) -> Bound:
    """The bound that suits ordinary data, unless this party's rows are extraordinary."""
    _check_norm(norm, WINDOW / M, what, made, f"{SCALE}, ")
    return Bound(WINDOW / M, WINDOW, "window")


def _check_norm(norm: float, most: float, what: str, made: Callable[[], str], first: str = "") -> None:
    """what : the norm, as a message calls it; made : the column that makes most of it, "" if there is none"""
    if not norm <= most:  # NaN must not pass
        found, do = f"this party's {what} is {norm:.6g}; it was not sent.", f"{LARGER_BOUND}, {LESS_OF_ROWS}"
        if column := made():
            found, do = f"{found} Nearly all of it is {column}.", f"{first}{LARGER_BOUND}, {LESS_OF_COLUMN}"
        raise QuotaError(found, f"at most {most:.6g}", do)


def nothing_there() -> InputError:
    return InputError(
        "the rows of all parties together are zero, or too small for the agreed bound or for float64.",
        f"rows that are not all zero, and whose squares sum to {SMALLEST_FOUND:.0e} or more",
        "agree on a smaller --bound, or scale the data at all parties alike",
    )


def bound_by_sec_sum(norm: float, sec_sum: EngineSum, what: str = "norm") -> Bound:
    """A bound from the data, as the paper has it.

    1. B <- SecSum(||S_m||_F), to SHOWN_BITS bits, and as much more as it may be too small

    Reveals: sum_m ||S_m||_F to SHOWN_BITS bits; with c S, which NormedSecSum opens, every singular value to some per
    cent. Cost: that of `positive`. Ref: [PDML App. NormedSecSum, numerical precision], whose s lacks the sum over m.
    """
    total = float(sec_sum.positive(np.array([norm]), "bound", SHOWN_BITS)[0])
    if not total >= SMALLEST_FOUND:
        raise nothing_there()
    if total >= LARGEST_FOUND:
        raise QuotaError(
            f"the sum of the parties' norms is {total:.6g}.",
            f"at most {LARGEST_FOUND:.0e}: products of sums are to stay finite",
            "scale the data; or some party has not followed the protocol",
        )
    total *= 1.0 + positive_tolerance(sec_sum.link.M, SHOWN_BITS)
    return Bound(total, total, "secsum", norm=what)


def bound_by_exponent(norm: float, link: Link, shift: int, what: str, width: int = BLUR) -> Bound:
    """A bound within 2^(width + 1) of the largest party's norm.

    1. e_m <- ceil(log2 norm_m)
    2. E <- max_m e_m + (sum_m shift_m mod width), by `largest`; addends are at most 2^E

    shift : this party's part of the blur, the same in every run (`shift_of`)

    Reveals: E. The blur is uniform for whoever does not know all parties' shifts, and repeats show the same E, so that
    nothing averages out. Cost: that of `largest`. Ref: -
    """
    own = max(exponent_of(norm), LEAST)
    if own >= MOST:
        raise QuotaError(
            f"this party's {what} is {norm:.6g}; it was not sent.",
            f"numbers far below 2^{MOST}",
            "scale the data, or agree on a --bound (in Python bound=)",
        )
    E = largest(link, own, LEAST, MOST, shift=shift, width=width)
    return Bound(math.ldexp(1.0, E), math.ldexp(link.M, E), "exponent", E, what)


def exponent_of(norm: float) -> int:
    """ceil(log2 norm), exactly; of zero the least there is."""
    mantissa, exponent = math.frexp(norm)  # norm = mantissa 2^exponent, 1/2 <= mantissa < 1
    return LEAST if not norm > 0 else exponent - 1 if mantissa == 0.5 else exponent


def shift_of(secret: bytes, width: int, *lineage: object) -> int:
    """A number below `width`, a pseudorandom function of a party's own secret and of what the run is about.

    The same rows with other settings have the same: then the exponents of all runs together say what one says.
    """
    words = "|".join(map(str, lineage)).encode()
    digest = hmac.new(secret, b"pdml-spdz blur|" + words, hashlib.sha256).digest()
    return int.from_bytes(digest, "big") % width  # of 256 bits: uniform


def power_of_two(x: float) -> float:
    """The smallest power of two that is not below x: scaling by it is exact, and rounds nothing."""
    mantissa, exponent = math.frexp(x)
    return math.ldexp(1.0, exponent - 1 if mantissa == 0.5 else exponent)


def power_of_four(x: float) -> float:
    """The same for a number whose root is wanted, too."""
    exponent = math.frexp(power_of_two(x))[1] - 1
    return math.ldexp(1.0, exponent + exponent % 2)
