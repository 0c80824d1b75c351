"""What the last digits of an opened sum say of how it splits, to a guesser who is given the real sum.

M = 3. The guesser is party 2, and wants to know how the sum of the other two splits into their addends. What it sees of
them are two vectors without their low bits: one is uniform, and together they are the sum of the two encoded addends,
less 1 if their low bits have made a carry. With the guesser's own masks known, the chance of that depends on the low
bits of the encoded sum alone, and so on the split only by the rounding of each addend in float64.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from pdml_spdz.numerics import ring
from pdml_spdz.numerics.fixedpoint import WORD, Format, Ring
from pdml_spdz.primitives.masks import Keys
from pdml_spdz.primitives.sec_sum import MaskedSum
from pdml_spdz.transport.inprocess import mesh
from tests.embedded.helpers import Wire
from tests.threads import run_threads

M, GUESSER, SPLITS = 3, 2, 1024
GAIN = 0.01  # bits a number that the guesser may gain


def entropy(p: np.ndarray) -> np.ndarray:
    """In bits, over the first axis."""
    return -np.sum(p * np.log2(np.where(p > 0, p, 1.0)), axis=0)


def gained(encoded: np.ndarray, drop: int) -> np.ndarray:
    """What two vectors without their low bits say of which of these sums it is, all as likely: mutual information in
    bits, for every 64th value of the low bits of the guesser's own mask.
    """
    values, counts = np.unique(encoded - encoded.min(), return_counts=True)
    weights = counts / counts.sum()
    masked = values[:, None] + np.arange(0, 1 << drop, 64)
    whole, low = masked >> drop, masked % (1 << drop)
    # y_0 is uniform and so are the low bits it lacks: they are at most `low` in low + 1 of 2^drop cases.
    no_carry = (low + 1) / 2.0**drop
    P = np.zeros((int(whole.max()) + 2, *masked.shape))  # of whole - 1, whole for whole = 0, 1, ...
    for y in range(len(P) - 1):
        P[y + 1] += np.where(whole == y, no_carry, 0.0)
        P[y] += np.where(whole == y, 1.0 - no_carry, 0.0)
    return entropy(np.einsum("ysk,s->yk", P, weights)) - np.einsum("sk,s->k", entropy(P), weights)


def told_apart(sums: Sequence[object]) -> float:
    """What a sum that is opened to the last digit says of the split, in bits."""
    _, counts = np.unique([str(s) for s in sums], return_counts=True)
    return float(entropy(counts / counts.sum()))


def cents(rng: np.random.Generator, size: int) -> np.ndarray:
    """(2, SPLITS): two parties' sums, c and C - c cents for one C."""
    total = 100 * size + 37
    c = rng.integers(0, total, SPLITS)
    return np.stack([c, total - c]) / 100


def products(rng: np.random.Generator, *, positive: bool) -> np.ndarray:
    """(2, SPLITS): 10^3 rounded products, each given to one of two parties, which add them up one by one."""
    x, w = rng.normal(size=(2, 1000))
    p = np.abs(x * w) if positive else x * w
    mine = rng.random((SPLITS, 1000)) < 0.5
    return np.stack([np.cumsum(np.where(own, p, 0.0), axis=1)[:, -1] for own in (mine, ~mine)])


SUMS = {
    "100 in cents": lambda rng: cents(rng, 100),
    "10^4 in cents": lambda rng: cents(rng, 10**4),
    "10^6 in cents": lambda rng: cents(rng, 10**6),
    "positive products": lambda rng: products(rng, positive=True),
    "products": lambda rng: products(rng, positive=False),
}


@pytest.mark.parametrize("kind", SUMS)
def test_an_optimal_guesser_who_knows_the_sum_learns_nothing_of_the_split(kind: str) -> None:
    """With the tightest bound there is; on average over its masks, and for the luckiest of them."""
    found, before = [], []
    for seed in range(5):
        x = SUMS[kind](np.random.default_rng(seed))
        bound = float(np.abs(x).max())
        form = Format.for_bound(bound, M)
        found.append(gained(form.encode(x).view(np.int64).sum(axis=0), form.drop))
        # Sums that are opened to 60 bits below the bound, and to the last bit of float64: the test would see them.
        before.append(told_apart(np.rint(np.ldexp(x, 60 - math.frexp(bound)[1])).astype(np.int64).sum(axis=0)))
        before.append(told_apart([Fraction(a) + Fraction(b) for a, b in x.T]))
    assert np.max(found) < GAIN
    assert min(before) > 2.5


@pytest.mark.parametrize("kind", [kind for kind in SUMS if kind != "products"])
def test_sums_of_any_size_show_no_more_of_the_split(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All openings of one sum together, by coarser and finer units, with fresh masks: at most what each shows."""
    levels: list[tuple[float, Format]] = []

    def listening(self: MaskedSum, x: np.ndarray, form: Format, purpose: str) -> np.ndarray:
        if self.link.me == 0:
            levels.append((float(x[0]), form))
        return reals(self, x, form, purpose)

    reals = MaskedSum._reals
    monkeypatch.setattr(MaskedSum, "_reals", listening)
    xs = np.vstack([SUMS[kind](np.random.default_rng(7)), np.zeros(SPLITS)])
    run_threads(M, lambda link: MaskedSum(link, fixed_keys(link.me, kind)).positive(xs[link.me, :1], "test"))
    scaled = [(xs[:2] * (first / xs[0, 0]), form) for first, form in levels]
    assert len(scaled) > 1
    assert sum(np.max(gained(form.encode(x).view(np.int64).sum(axis=0), form.drop)) for x, form in scaled) < GAIN


# ---- the same on what parties really send

N = 20_000
FORM = Format.for_bound(1.0, M)
UNIT = FORM.unit
# Some ten tests, with masks from fixed keys: they pass always or never, and a correct implementation once in 10^5 draws
# of the keys would not have.
LEVEL = 1e-6


def fixed_keys(me: int, draw: str) -> Keys:
    """Party me's ends of pair keys that are the same in every run of the test."""
    key = {(a, b): hashlib.sha256(f"{draw} {a} {b}".encode()).digest() for a in range(M) for b in range(M)}
    others = [l for l in range(M) if l != me]
    return Keys({l: key[me, l] for l in others}, {l: key[l, me] for l in others}, b"run")


class Dithered(MaskedSum):
    """Broken: low bits are dropped at random, and the mask comes after that."""

    def words(self, z: Ring, purpose: str, bits: int = WORD, drop: int = 0) -> Ring:
        rng = np.random.default_rng(self.link.me)
        dithered = z + rng.integers(0, 1 << drop, z.shape, dtype=np.uint64)
        return super().words(dithered >> np.uint64(drop), purpose, bits - drop)


def seen(split: Sequence[float], draw: str, make: type[MaskedSum] = MaskedSum) -> dict[str, np.ndarray]:
    """What the guesser sees of N openings of one sum: two vectors and the sum, each modulo 2^(64 - drop)."""
    wire = Wire()
    xs = [np.full(N, x) for x in split]
    s = run_threads(M, lambda link: make(link, fixed_keys(link.me, draw))(xs[link.me], 1.0, "test"), wire.tap(mesh(M)))[
        GUESSER
    ]
    bits = WORD - FORM.drop
    y = {m: ring.unpack_words(*wire.payloads(m, GUESSER, "sum:test"), N, bits) for m in range(M) if m != GUESSER}
    return {"P0": y[0], "P1": y[1], "both": (y[0] + y[1]) & ring.low(bits), "sum": s / UNIT}


def p_values(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> dict[str, float]:
    found = {name: float(stats.ks_2samp(a[name].astype(float), b[name].astype(float)).pvalue) for name in a}
    # A sum takes a few values only.
    values = np.unique(np.concatenate([a["sum"], b["sum"]]))
    counts = np.array([[np.sum(side["sum"] == v) for v in values] for side in (a, b)])
    found["sum"] = float(stats.chi2_contingency(counts[:, counts.min(axis=0) >= 5])[1]) if len(values) > 1 else 1.0
    return found


# One sum in units of the last place that is opened, and fractions of it that the ring has.
SPLITTINGS = [(10.0, 20.0, 3.25), (9.5, 20.5, 3.25), (29.75, 0.25, 3.25), (-1e6 - 0.625, 1e6 + 30.625, 3.25)]


@pytest.mark.parametrize("split", SPLITTINGS[1:])
def test_what_is_opened_has_the_same_distribution_for_every_split(split: Sequence[float]) -> None:
    one, other = (seen(UNIT * np.array(xs), draw) for xs, draw in ((SPLITTINGS[0], "one"), (split, "other")))
    assert min(p_values(one, other).values()) > LEVEL


def test_noise_that_is_added_before_the_mask_shows_the_split() -> None:
    one, other = (seen(UNIT * np.array(xs), str(xs), Dithered) for xs in SPLITTINGS[:2])
    assert p_values(one, other)["sum"] < LEVEL


@pytest.mark.parametrize("split", SPLITTINGS)
def test_carries_are_as_frequent_as_the_guesser_reckons(split: Sequence[float]) -> None:
    """The enumeration above is about these vectors: given the guesser's own mask, both are whole or whole - 1."""
    draw, xs = f"reckoned {split}", UNIT * np.array(split)
    own = MaskedSum(mesh(M)[GUESSER], fixed_keys(GUESSER, draw)).masks.words("test", 1, N, bytes(32))
    masked = np.sum(FORM.encode(xs[:2]), dtype=np.uint64) - own  # three masks add up to nothing
    whole, low = masked >> np.uint64(FORM.drop), masked & ring.low(FORM.drop)
    carry = (whole - seen(xs, draw)["both"]) & ring.low(WORD - FORM.drop)
    assert set(carry) == {0, 1}
    chances = 1.0 - (low + 1.0) / 2.0**FORM.drop
    # Hoeffding, for all of them and for those that are likely and unlikely.
    for group in (chances >= 0, chances > 0.9, chances < 0.1):
        off = abs(float(np.sum(carry[group] - chances[group])))
        assert off <= math.sqrt(group.sum() * math.log(2 / LEVEL) / 2)
    assert np.ptp(chances) > 0.99  # the guesser's mask moves them over all that is possible
