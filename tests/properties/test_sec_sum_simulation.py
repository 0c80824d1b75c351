"""Nothing of a party's own contribution is on the wire: a simulator that has only the sum makes the same frames.

M = 3, the coalition is party 2. It sees the masked vectors z_0 and z_1 of the honest parties, knows its own input, its
own pair keys and the sum. The simulator draws z_0 (less the masks that the coalition can compute) at random and fits
z_1 to the sum. Real and simulated frames must pass two-sample tests; frames of broken variants must not.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from pdml_spdz.numerics.fixedpoint import Format
from pdml_spdz.primitives.masks import Keys, Masks
from pdml_spdz.primitives.sec_sum import MaskedSum
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.inprocess import InProcessLink, mesh
from tests.threads import run_threads

M, CALLS, D = 3, 300, 20
COALITION = 2
FORM = Format.for_bound(1.0, M)
# Twelve tests a run: a correct implementation fails one of them once in about 10^5 runs.
LEVEL = 1e-6

Make = Callable[[Link, Keys], MaskedSum]


class NoMasks(MaskedSum):
    """Broken: sends the encoded input itself."""

    def __init__(self, link: Link, keys: Keys) -> None:
        super().__init__(link, keys)
        self.masks.words = lambda purpose, call, n, heard, bits: np.zeros(n, np.uint64)  # type: ignore[method-assign]


class RepeatedCounter(MaskedSum):
    """Broken: every call has the same masks."""

    def __init__(self, link: Link, keys: Keys) -> None:
        super().__init__(link, keys)
        first, words = link.heard, self.masks.words
        self.masks.words = lambda purpose, call, n, heard, bits: words(purpose, 1, n, first, bits)  # type: ignore[method-assign]


def inputs(m: int, call: int) -> np.ndarray:
    """The honest parties' inputs are large, structured and change little from call to call."""
    return np.array([0.9, -0.9, 0.5])[m] * np.ones(D) * (1.0 + 1e-9 * call)


def captured(make: Make) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Honest frames (calls, 2, D) less what the coalition can compute of their masks; sums; their known masks."""
    links = mesh(M)
    frames: dict[int, list[np.ndarray]] = {0: [], 1: []}
    original = InProcessLink._round

    def listening(self: InProcessLink, step: str, sequence: int, payloads, expect):  # type: ignore[no-untyped-def]
        if step == "sum:test" and self.me != COALITION:
            frames[self.me].append(np.frombuffer(bytes(payloads[COALITION]), np.uint64))
        return original(self, step, sequence, payloads, expect)

    for link in links:
        link._round = listening.__get__(link)  # type: ignore[method-assign]

    def party(link: Link) -> tuple[Keys, np.ndarray, list[bytes]]:
        keys = Keys.agree(link, b"run")
        sec_sum, sums, heard = make(link, keys), [], []
        for c in range(CALLS):
            heard.append(link.heard)
            sums.append(sec_sum.words(FORM.encode(inputs(link.me, c)), "test"))
        return keys, np.array(sums), heard

    results = run_threads(M, party, links)
    keys, sums, heard = results[COALITION]
    known = np.zeros((CALLS, 2, D), np.uint64)
    for honest in (0, 1):
        # Seen from the honest party: k_h2 is its own key for the coalition, k_2h the coalition's for it.
        pair = Masks(Keys({COALITION: keys.theirs[honest]}, {COALITION: keys.mine[honest]}, b"run"))
        for c in range(CALLS):
            known[c, honest] = pair.words("test", c + 1, D, heard[c])
    real = np.stack([np.array(frames[0]), np.array(frames[1])], axis=1) - known
    return real, sums, known


def simulated(sums: np.ndarray) -> np.ndarray:
    """Frames (less the known masks) from the sums and the coalition's own input alone."""
    rng = np.random.default_rng()
    z = np.empty((CALLS, 2, D), np.uint64)
    z[:, 0] = rng.integers(0, 2**64, size=(CALLS, D), dtype=np.uint64)
    own = np.array([FORM.encode(inputs(COALITION, c)) for c in range(CALLS)])
    z[:, 1] = sums - own - z[:, 0]
    return z


def p_values(real: np.ndarray, fake: np.ndarray) -> dict[str, float]:
    """Two-sample tests of everything simple that could give an input away."""

    def views(z: np.ndarray) -> dict[str, np.ndarray]:
        return {
            "P0": z[:, 0].ravel(),
            "P1": z[:, 1].ravel(),
            "difference of the two": (z[:, 0] - z[:, 1]).ravel(),
            "change from call to call": (z[1:, 0] - z[:-1, 0]).ravel(),
            "change from entry to entry": (z[:, 0, 1:] - z[:, 0, :-1]).ravel(),
            "low bits": (z[:, 0] << np.uint64(48)).ravel(),
        }

    return {
        name: float(stats.ks_2samp(a.astype(np.float64), b.astype(np.float64)).pvalue)
        for (name, a), b in zip(views(real).items(), views(fake).values(), strict=True)
    }


def test_frames_can_be_simulated_from_the_sum() -> None:
    real, sums, _ = captured(MaskedSum)
    fake = simulated(sums)
    assert min(p_values(real, fake).values()) > LEVEL
    own = np.array([FORM.encode(inputs(COALITION, c)) for c in range(CALLS)])
    np.testing.assert_array_equal(real.sum(axis=1, dtype=np.uint64) + own, sums)


def test_frames_look_random_bit_by_bit() -> None:
    real, _, _ = captured(MaskedSum)
    bits = np.unpackbits(np.ascontiguousarray(real[:, 0]).view(np.uint8)).reshape(CALLS * D, 64)
    ones = bits.sum(axis=0)
    assert min(stats.binomtest(int(k), CALLS * D).pvalue for k in ones) > LEVEL


@pytest.mark.parametrize(
    ("broken", "shows"),
    [(NoMasks, "P0"), (RepeatedCounter, "change from call to call")],
)
def test_simulation_fails_for_broken_variant(broken: Make, shows: str) -> None:
    real, sums, known = captured(broken)
    # What the coalition knows of the masks: those of call 1 throughout, or that there are none.
    real = real + known - (known[:1] if broken is RepeatedCounter else np.uint64(0))
    assert p_values(real, simulated(sums))[shows] < LEVEL


def test_two_runs_share_no_masks() -> None:
    first, _, _ = captured(MaskedSum)
    second, _, _ = captured(MaskedSum)
    difference = (first[:, 0] - second[:, 0]).astype(np.float64).ravel()
    assert stats.kstest(difference / 2.0**64, "uniform").pvalue > LEVEL


@pytest.mark.parametrize("change", [{"purpose": "b"}, {"call": 2}, {"run": b"other"}, {"heard": b"h" * 32}])
def test_masks_differ_by_run_purpose_call_and_what_was_heard(change: dict[str, object]) -> None:
    base = {"purpose": "a", "call": 1, "run": b"run", "heard": bytes(32)}

    def mask(setting: dict[str, object]) -> np.ndarray:
        keys = Keys({1: b"k" * 32}, {1: b"l" * 32}, setting["run"])  # type: ignore[arg-type]
        return Masks(keys).words(setting["purpose"], setting["call"], 100, setting["heard"])  # type: ignore[arg-type]

    assert not np.any(mask(base) == mask(base | change))


def test_masks_differ_by_modulus() -> None:
    masks = Masks(Keys({1: b"k" * 32}, {1: b"l" * 32}, b"run"))
    words = masks.words("a", 1, 2, bytes(32))
    assert masks.wide("a", 1, 1, bytes(32), 128)[0] != int(words[0]) + (int(words[1]) << 64)
