"""One party that deviates, and that may wait for the others' messages of a round before it sends its own: the run ends
with words, or what it reads is as small as docs/security.md says.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import pdml_spdz
from pdml_spdz.algorithms import krylov
from pdml_spdz.engines.embedded import matrix_party, runner
from pdml_spdz.engines.openings import one_scale
from pdml_spdz.engines.openings.base import decode
from pdml_spdz.errors import ProtocolError
from pdml_spdz.numerics import ring
from pdml_spdz.offline.mask_products import Pair
from pdml_spdz.ot import group
from pdml_spdz.primitives import proof, zero_test
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.primitives.largest import CommonKey, largest
from pdml_spdz.primitives.masks import Keys
from pdml_spdz.primitives.sec_sum import MaskedSum
from pdml_spdz.programs.precision import SIGMA
from pdml_spdz.programs.sealed_precision import RING, SealedPrecision
from pdml_spdz.transport.base import Link, view
from pdml_spdz.transport.inprocess import between_threads, mesh
from tests.mask_dealer import MaskDealer
from tests.sealed_fits import of_spectrum, sealed_fit

M, EVIL, D = 3, 1, 20
TABLES = [np.random.default_rng(m).normal(size=(200, D)) * np.linspace(3, 0.3, D) for m in range(M)]
SIGMAS = np.linalg.svd(np.vstack(TABLES), compute_uv=False)


def rushing(link: Link, step: str, size: int, own: Callable[[dict[int, memoryview]], bytes]) -> dict[int, memoryview]:
    """`all_to_all` of a party that makes its own message of the others'."""
    link._sequence += 1
    received = link._round(step, link._sequence, {}, link.each(size))
    made = view(own(received))
    link._round(step, link._sequence, dict.fromkeys(link.peers, made), {})
    link._hear(step, received | {link.me: made})
    return received


def points(data: memoryview, count: int) -> list[bytes]:
    return [bytes(data[i : i + group.SIZE]) for i in range(0, count * group.SIZE, group.SIZE)]


# ---- other inputs, from one call to the next


class OtherInput:
    """Party EVIL adds `size` of its block to the first column of one call, along a column that was opened before."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, size: float, at: int = 2) -> None:
        self.calls, self.added, honest = 0, 0.0, one_scale.FixedScale.__call__
        self.seen: list[tuple[np.ndarray, np.ndarray]] = []
        self.scale: Any = None

        def call(scale: Any, x: np.ndarray, g: np.ndarray, lengths: Any = None) -> Any:
            if scale.runner.sec_sum.link.me != EVIL:
                return honest(scale, x, g, lengths)
            self.scale, self.calls = scale, self.calls + 1
            if self.calls == at:
                x, self.added = x.copy(), size * float(np.linalg.norm(x[:, 0]))
                x[:, 0] += self.added * self.seen[0][0][:, 0]
            found = honest(scale, x, g, lengths)
            self.seen.append((g.copy(), found.scaled.copy()))
            return found

        monkeypatch.setattr(one_scale.FixedScale, "__call__", call)


@pytest.mark.parametrize("size", [1e-7, 1e-3, 10.0])
@pytest.mark.parametrize("algorithm", ["svd", "pca"])
def test_another_input_in_one_iteration_ends_the_run(
    algorithm: str, size: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gives c times what was added, and with c every singular value: that it may pass for a wrap was silent."""
    OtherInput(monkeypatch, size)
    with pytest.raises(ProtocolError, match=r"do not fit together(.|\n)*a party has changed its input"):
        getattr(pdml_spdz, algorithm)(TABLES, rank=3, transport="threads")


@pytest.mark.parametrize("size", [1e-6, 1e-2])
def test_another_input_in_one_iteration_of_power_ends_the_run(size: float, monkeypatch: pytest.MonkeyPatch) -> None:
    OtherInput(monkeypatch, size)
    with pytest.raises(ProtocolError, match=r"c S is not symmetric(.|\n)*a party has changed its input"):
        pdml_spdz.svd(TABLES, rank=3, solver="power", iterations=10, transport="threads")


def test_a_party_that_takes_its_change_back_before_it_is_opened_knows_the_scale(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Level normed is for parties that follow the protocol (docs/security.md): shares have no MACs here."""
    other, honest, found = OtherInput(monkeypatch, 10.0), runner.Shares.open_vector, {}

    def open_vector(shares: Any, a: Any, n: int, drop: int) -> Any:
        if shares.link.me != EVIL or other.calls != 2:
            return honest(shares, a, n, drop)
        p, link, kappa = shares.precision, shares.link, other.scale._kappa[0]
        own = shares.products.share(a).above(drop, p.open_bits)
        masked = shares.sec_sum.masks.words("open", shares.sec_sum._next_call(), own.size, link.heard, p.open_bits)
        masked += own.reshape(-1)
        total, taken = masked.copy(), np.zeros_like(masked)

        def after(received: dict[int, memoryview]) -> bytes:
            for data in received.values():
                total[:] += ring.unpack_words(data, own.size, p.open_bits)
            v, opened = other.seen[0]
            y = decode(total & ring.low(p.open_bits), p, D)[:, 0]
            known = kappa * (opened[:, 0] @ x_now[0])
            found["c"] = (v[:, 0] @ y - known) / (kappa * other.added)
            units = np.rint(np.ldexp(kappa * found["c"] * other.added * v[:, 0], p.f_out)).astype(np.int64)
            taken[:D] = units.view(np.uint64)
            return bytes(view(ring.pack_words((masked - taken) & ring.low(p.open_bits), p.open_bits)))

        rushing(link, "sum:open", ring.pack_words(masked, p.open_bits).nbytes, after)
        return (total - taken) & ring.low(p.open_bits)

    x_now: list[np.ndarray] = []
    patched = one_scale.FixedScale.__call__

    def call(scale: Any, x: np.ndarray, g: np.ndarray, lengths: Any = None) -> Any:
        if scale.runner.sec_sum.link.me == EVIL:
            x_now[:] = [g[:, 0].copy()]
        return patched(scale, x, g, lengths)

    monkeypatch.setattr(one_scale.FixedScale, "__call__", call)
    monkeypatch.setattr(runner.Shares, "open_vector", open_vector)
    result = pdml_spdz.svd(TABLES, rank=3, transport="threads")
    Q, C = (np.hstack(part) for part in zip(*other.seen, strict=True))
    theta = np.linalg.eigvalsh((Q.T @ C + C.T @ Q) / 2)[::-1][:3]
    assert np.allclose(np.sqrt(theta / found["c"]), SIGMAS[:3], rtol=1e-6)
    assert result.report["singular_values"] is None


@pytest.mark.parametrize("centre", ["none", "open"])
def test_another_input_for_vectors_that_are_opened_again_ends_the_run(
    centre: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """S_m + a V V^T is symmetric, and zero on all else that was opened: only what was known of V shows it."""
    honest, seen, again = one_scale.FixedScale.__call__, [], []

    def call(scale: Any, x: np.ndarray, g: np.ndarray, lengths: Any = None) -> Any:
        if scale.runner.sec_sum.link.me != EVIL:
            return honest(scale, x, g, lengths)
        Q = np.hstack([np.zeros((D, 0)), *seen])
        if seen and np.linalg.norm(g - Q @ (np.linalg.pinv(Q) @ g)) < 1e-6:
            again.append(1)
            x = x + np.linalg.norm(x, axis=0).max() * g
        seen.append(g.copy())
        return honest(scale, x, g, lengths)

    monkeypatch.setattr(one_scale.FixedScale, "__call__", call)
    settings: dict[str, Any] = {"rank": 3, "tol": 1e-10, "transport": "threads"}
    with pytest.raises(ProtocolError, match=r"do not fit together(.|\n)*a party has changed its input"):
        pdml_spdz.svd(TABLES, **settings) if centre == "none" else pdml_spdz.pca(TABLES, **settings)
    assert again


# ---- different things to different parties


@pytest.mark.parametrize("engine", ["secsum", "embedded"])
def test_party_0_that_hands_out_two_v_learns_nothing_of_a_partys_own_part(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Q^T S_2 (V' - V) was in the next sum: now that is a random number."""
    found: dict[str, Any] = {}
    block_of, offered, step = krylov.block_of, Agreement.offered, krylov.step

    def first() -> bool:
        return threading.current_thread().name == "P0"

    def block(shown: Any, Y: Any, w: Any, pivots: list[int]) -> Any:
        if first():
            found["last"] = shown, Y, w, list(pivots)
        return block_of(shown, Y, w, pivots)

    def offer(agree: Agreement, V: Any, choice: Any, right: Any, *, columns: int = 0) -> Any:
        if not first() or columns == 0 or "V" in found:
            return offered(agree, V, choice, right, columns=columns)
        shown, Y, w, pivots = found["last"]
        stop, plan, bits, *_ = choice
        other = block_of(shown, Y, w, pivots[::-1])[0]
        found["V"], found["other"] = V.copy(), other

        def packed(V: np.ndarray, said: Sequence[int]) -> bytes:
            return np.array([len(said), *V.shape, *said], "<i8").tobytes() + np.ascontiguousarray(V).tobytes()

        link, own = agree.link, packed(V, choice)
        link.exchange("offer", {1: own, 2: packed(other, (stop, plan, bits, *pivots[::-1]))}, {})
        link._hear("offer", {0: view(own)})
        return V, choice

    def stepped(state: Any, columns: Any, settings: Any) -> Any:
        if first() and "V" in found and "Y" not in found:
            found["Y"], found["Q"], found["C"] = columns.scaled, state.shown.Q, state.shown.C
        return step(state, columns, settings)

    monkeypatch.setattr(krylov, "block_of", block)
    monkeypatch.setattr(Agreement, "offered", offer)
    monkeypatch.setattr(krylov, "step", stepped)
    with pytest.raises(ProtocolError):
        pdml_spdz.svd(TABLES, rank=3, transport="threads", engine=engine)
    seen = found["Q"].T @ found["Y"] - found["C"].T @ found["V"]
    true = found["Q"].T @ (TABLES[2].T @ TABLES[2]) @ (found["other"] - found["V"])
    fit = float(np.sum(seen * true) / np.sum(true**2))  # at level normed, as if c were known
    assert np.linalg.norm(seen - fit * true) > 0.5 * np.linalg.norm(seen)


@pytest.mark.parametrize("aggregator", [None, 0], ids=["all to all", "aggregator"])
def test_parties_that_were_told_different_things_open_random_numbers_and_say_so(aggregator: int | None) -> None:
    def party(link: Link) -> tuple[float, str]:
        sec_sum = MaskedSum(link, Keys.agree(link, b"run"), aggregator=aggregator)
        assert np.isclose(sec_sum(np.ones(8), 8.0, "first")[0], M)
        if link.me == 0:
            link.exchange("V", {1: b"one", 2: b"two"}, {})
            link._hear("V", {0: view(b"one")})
        else:
            link.broadcast("V", None, most=3)
        off = np.abs(sec_sum(np.ones(8), 8.0, "second") - M).max()
        try:
            Agreement(link).digest("result", b"the same")
        except ProtocolError as error:
            return off, str(error)
        return off, ""

    found = between_threads(M, party)
    assert all(off > 1e-3 for off, _ in found)
    assert "P2 and P0 have not heard the same" in found[2][1]
    assert "P0 and P2 have not heard the same" in found[0][1]


# ---- sealed


def test_what_is_added_above_the_masks_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Masks of c with 2^K added put 2^K S above all masks of an opening; 43 bits a number and run were read there."""
    p = SealedPrecision(2, 6, 1, 2, goal_bits=10, iterations=9, decay=0.5)
    opened, wide, maker = [], MaskedSum.wide, MaskDealer.maker

    def evil(dealer: MaskDealer, m: int) -> Any:
        make = maker(dealer, m)

        def changed(pairs: Sequence[Pair]) -> Any:
            return make(
                [
                    Pair(x.left, x.right + (1 << p.f_s + p.f_p + SIGMA + 3), x.left_bits, RING, x.input)
                    if x.input and x.right.shape == (1, 1)
                    else x
                    for x in pairs
                ]
            )

        return changed if m == EVIL else make

    def listening(sec_sum: MaskedSum, z: list[int], purpose: str, bits: int, **more: Any) -> list[int]:
        sums = wide(sec_sum, z, purpose, bits, **more)
        opened.extend((bits, s) for s in sums if purpose == "matrix")
        return sums

    S, _ = of_spectrum(np.r_[1, 0.5 ** np.arange(1, 6)])
    monkeypatch.setattr(MaskDealer, "maker", evil)
    monkeypatch.setattr(MaskedSum, "wide", listening)
    fit = sealed_fit([S / 2, S / 2], p)
    assert fit.seen  # the run goes on: what was added is gone
    masks = {matrix_party.opened_bits(bits, 2) - 1 for bits in range(RING)}  # two masks are below 2^(w - 1)
    assert all(bits - 1 in masks and s < 1 << bits for bits, s in opened)  # one bit above them, not 43


def test_party_0_does_not_choose_which_vectors_are_the_result(monkeypatch: pytest.MonkeyPatch) -> None:
    S, _ = of_spectrum([1, 0.7, 0.45, 0.2, 0.01, 0.008, 0.005, 0.003])
    offered = Agreement.offered

    def turned(agree: Agreement, array: np.ndarray, choice: Any, right: Any, **more: Any) -> Any:
        return offered(agree, array[:, [1, 2, 3, 0]] if agree.link.me == 0 else array, choice, right, **more)

    monkeypatch.setattr(Agreement, "offered", turned)
    with pytest.raises(ProtocolError, match="P0 chose another basis"):
        sealed_fit([S / 3] * 3, SealedPrecision(3, 8, 2, 4, goal_bits=12, iterations=17, decay=0.5))


def test_products_with_own_rows_multiply_numbers_of_one_length() -> None:
    """The time of Python's products depends on lengths: zeros and small numbers of S_m must have the same as large."""
    lengths: set[int] = set()

    class Seen(int):
        def __mul__(self, other: int) -> int:
            lengths.add(int(other).bit_length())
            return int(self) * int(other)

    most = (1 << 84) - 1
    own = np.array([0, 0, 1, -1, 5, most, -most, 1 << 83, None], object)[:-1].reshape(-1, 1)
    public = np.array([[Seen(3)] * 8, [Seen(-7)] * 8], object)
    assert matrix_party._even_dot(public, own, 84).tolist() == [[3 * sum(own[:, 0])], [-7 * sum(own[:, 0])]]
    assert len(lengths) == 1


# ---- the blurred exponent, the zero tests, gates


def test_key_chosen_by_the_others_keys_has_no_proof() -> None:
    """y G less the others' keys made the common key y G: all exponents and the blur were read."""
    y = group.random_scalar()

    def party(link: Link) -> Any:
        if link.me != EVIL:
            return largest(link, 17 + link.me, 0, 64, shift=3, width=16)

        def after(received: dict[int, memoryview]) -> bytes:
            key = group.base_times(y)
            for data in received.values():
                key = group.sub(key, points(data, 1)[0])
            return key + proof.prove(y, [(group.base_times(group.scalar(1)), key)], b"")

        return rushing(link, "largest:key", group.SIZE + proof.SIZE, after)

    with pytest.raises(ProtocolError, match=r"P1 has no proof of what it sent at step 'largest:key'"):
        between_threads(M, party)


def test_decryption_share_chosen_by_the_others_shares_has_no_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    """It forced every gate: whatever is encrypted decrypts to zero."""
    honest = CommonKey.nonzero

    def nonzero(keys: CommonKey, masked: Any) -> list[bool]:
        link, n = keys._link, len(masked)
        if link.me != EVIL:
            return honest(keys, masked)

        def after(received: dict[int, memoryview]) -> bytes:
            own = [group.times(keys._x, A) for A, _ in masked]
            own[0] = masked[0][1]
            for data in received.values():
                own[0] = group.sub(own[0], points(data, n)[0])
            pairs = [(keys._one, keys._keys[EVIL]), *((A, X) for (A, _), X in zip(masked, own, strict=True))]
            return b"".join(own) + proof.prove(keys._x, pairs, link.heard + b"zero:shares 1")

        rushing(link, "zero:shares", n * group.SIZE + proof.SIZE, after)
        return [False] + [True] * (n - 1)

    monkeypatch.setattr(CommonKey, "nonzero", nonzero)
    with pytest.raises(ProtocolError, match=r"P1 has no proof of what it sent at step 'zero:shares'"):
        between_threads(M, lambda link: zero_test.is_one_of(link, 123456 * (link.me == 0), range(4)), mesh(M))


@pytest.mark.parametrize("bits", [64, 300])
def test_gate_commits_before_it_opens(bits: int) -> None:
    """A party that sends last made the opened number what it liked."""

    def party(link: Link) -> Any:
        sec_sum = MaskedSum(link, Keys.agree(link, b"run"))
        if link.me != EVIL:
            return sec_sum.wide([12345], "gate", bits, committed=True)
        size = -(-bits // 8)
        link.all_to_all("commit:gate", hashlib.sha256(b"P1 " + bytes(size)).digest())

        def after(received: dict[int, memoryview]) -> bytes:
            others = sum(int.from_bytes(data[:size], "little") for data in received.values())
            return (-others % (1 << bits)).to_bytes(size, "little") + bytes(32)

        return rushing(link, "sum:gate", size + 32, after)

    with pytest.raises(ProtocolError, match="P1 opened other numbers than it had committed itself to"):
        between_threads(M, party)
