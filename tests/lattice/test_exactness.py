"""Shares add up to (sum S_m)(sum R_l) exactly, for every shape, size and sparsity."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdml_spdz.errors import QuotaError, StudyError
from pdml_spdz.lattice.exact import multiply
from pdml_spdz.lattice.matrix_triples import MatrixTriples, digit_bits, layout, matrix_triples, transfers_pay
from pdml_spdz.lattice.parameters import InsecureParameters, Parameters
from pdml_spdz.lattice.product import share_product
from pdml_spdz.lattice.two_steps import TwoSteps, cheaper, share_product_of_rows
from pdml_spdz.numerics import ring
from pdml_spdz.transport.inprocess import between_threads, mesh
from tests.lattice.parties import assert_shares, integers, numbers, products
from tests.ot.ot_pairs import ot_ends
from tests.transport import meshes

KINDS = ("uniform", "largest", "smallest", "mixed", "sparse", "zero")


def left(rng: np.random.Generator, kind: str, n: int, i: int, bits: int) -> np.ndarray:
    most = (1 << bits) - 1
    if kind == "zero":
        return np.zeros((n, i), np.int64)
    if kind in ("largest", "smallest"):
        return np.full((n, i), most if kind == "largest" else -most, np.int64)
    if kind == "mixed":
        return rng.choice(np.array([-most, -1, 0, 1, most]), (n, i))
    values = rng.integers(-most, most, (n, i), endpoint=True)
    return values * (rng.random((n, i)) < 0.05) if kind == "sparse" else values


def right(rng: np.random.Generator, i: int, c: int, w: int, extreme: bool) -> np.ndarray:
    if not extreme:
        return ring.random(i * c, w).reshape(i, c, -1)
    return numbers(rng.choice(np.array([0, 1, (1 << w) - 1, 1 << (w - 1), (1 << (w - 1)) - 1], object), (i, c)), w)


@settings(max_examples=30, deadline=None)
@given(
    M=st.sampled_from((2, 3, 5)),
    n=st.integers(1, 12),
    i=st.integers(1, 12),
    c=st.integers(1, 12),
    w=st.sampled_from((32, 64, 96, 192, 256)),
    bits=st.integers(1, 62),
    kind=st.sampled_from(KINDS),
    extreme=st.booleans(),
    seed=st.integers(0, 2**32),
)
def test_shares_add_up_to_the_product(M, n, i, c, w, bits, kind, extreme, seed) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(seed)
    p = InsecureParameters.choose(M=M, n=n, i=i, c=c, w=w, bits=bits)
    S = [left(rng, kind, n, i, bits) for _ in range(M)]
    R = [right(rng, i, c, w, extreme) for _ in range(M)]
    assert_shares(products(S, R, p), S, R, w)


@settings(max_examples=10, deadline=None)
@given(d=st.integers(13, 300), c=st.integers(1, 3), kind=st.sampled_from(KINDS), seed=st.integers(0, 2**32))
def test_shares_add_up_for_larger_matrices(d, c, kind, seed) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(seed)
    p = InsecureParameters.choose(M=2, n=d, i=d, c=c, w=192, bits=54)
    S = [left(rng, kind, d, d, 54) for _ in range(2)]
    R = [right(rng, d, c, 192, False) for _ in range(2)]
    assert_shares(products(S, R, p), S, R, 192)


@settings(max_examples=10, deadline=None)
@given(
    M=st.sampled_from((2, 3)),
    shape=st.tuples(st.integers(1, 5), st.integers(1, 5), st.integers(1, 5)),
    count=st.integers(2, 30),
    seed=st.integers(0, 2**32),
)
def test_many_products_share_polynomials(M, shape, count, seed) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(seed)
    n, i, c = shape
    p = InsecureParameters.choose(M=M, n=n, i=i, c=c, w=96, bits=30, count=count)
    S = [np.stack([left(rng, "uniform", n, i, 30) for _ in range(count)]) for _ in range(M)]
    R = [np.stack([right(rng, i, c, 96, False) for _ in range(count)]) for _ in range(M)]
    assert_shares(products(S, R, p), S, R, 96)


@pytest.mark.parametrize(("M", "n", "i", "c", "w", "bits"), [(2, 4, 4, 840, 192, 54), (3, 20, 30, 40, 256, 62)])
def test_secure_parameters_are_exact_too_over_tls(M: int, n: int, i: int, c: int, w: int, bits: int) -> None:
    rng = np.random.default_rng(7)
    p = Parameters.choose(M=M, n=n, i=i, c=c, w=w, bits=bits)
    S = [left(rng, "largest" if m == 0 else "uniform", n, i, bits) for m in range(M)]
    R = [right(rng, i, c, w, m == 0) for m in range(M)]
    assert_shares(products(S, R, p, meshes.mesh(M)), S, R, w)


@pytest.mark.parametrize(("w", "digits"), [(192, 1), (192, 2), (160, 3), (96, 4)])
def test_triples_of_uniform_matrices(w: int, digits: int) -> None:
    n, i, c, count = 3, 4, 2, 7
    p = InsecureParameters.choose(M=3, n=n, i=digits * i, c=c, w=w, bits=digit_bits(w, digits), count=count)
    made: list[MatrixTriples] = between_threads(
        3, lambda link: matrix_triples(link, n=n, i=i, c=c, count=count, w=w, parameters=p), mesh(3)
    )
    A, B, C = (sum(integers(getattr(share, name)) for share in made) for name in ("a", "b", "c"))
    assert not np.any((np.stack([a @ b for a, b in zip(A, B, strict=True)]) - C) % (1 << w))


def test_a_few_small_triples_are_made_by_oblivious_transfers() -> None:
    n, i, c, w, count = 2, 3, 2, 160, 2
    p = layout(2, n, i, c, count, w)
    assert transfers_pay(p, n * i * c * count)
    assert not transfers_pay(layout(2, 14, 14, 14, 20, 192), 14**3 * 20)
    ends, links = ot_ends(), mesh(2)
    made: list[MatrixTriples] = between_threads(
        2, lambda link: matrix_triples(link, n=n, i=i, c=c, count=count, w=w, ots=ends[link.me]), links
    )
    A, B, C = (sum(integers(getattr(share, name)) for share in made) for name in ("a", "b", "c"))
    assert not np.any((np.stack([a @ b for a, b in zip(A, B, strict=True)]) - C) % (1 << w))
    assert sum(links[0].traffic.sent.values()) < p.sent / 10


def test_layout_of_triples_is_the_cheapest_of_all_digits() -> None:
    chosen = layout(3, 14, 14, 14, 100, 192)
    assert (chosen.packing.i // 14, chosen.secure) == (2, True)
    whole = Parameters.choose(M=3, n=14, i=14, c=14, w=192, bits=191, count=100)
    assert whole.N == 32768
    assert chosen.sent < whole.sent


@pytest.mark.parametrize("limbs", [False, True])
def test_exact_product_is_that_of_integers(limbs: bool) -> None:
    rng = np.random.default_rng(5)
    S = rng.integers(-(2**62), 2**62, (2, 7, 9))
    R = ring.random(2 * 9 * 5, 192).reshape(2, 9, 5, 3)
    given = numbers(S.astype(object), 192) if limbs else S
    assert not np.any((integers(multiply(given, R, 192)) - S.astype(object) @ integers(R)) % (1 << 192))


def test_what_does_not_fit_is_refused_before_anything_is_sent() -> None:
    p = InsecureParameters.choose(M=2, n=2, i=2, c=2, w=64, bits=10)
    R = ring.random(4, 64).reshape(2, 2, 1)
    large = np.full((2, 2), 1 << 10)
    links = mesh(2, timeout=5.0)
    with pytest.raises(QuotaError, match=r"not below 2\^10"):
        products([large, large], [R, R], p, links)
    with pytest.raises(StudyError, match="left matrix of shape"):
        products([large[:1], large[:1]], [R, R], p, links2 := mesh(2, timeout=5.0))
    with pytest.raises(StudyError, match="right matrix"):
        products([large[:, :] // 2] * 2, [R[:1]] * 2, p, mesh(2, timeout=5.0))
    assert all(link.traffic.sent == {} for link in [*links, *links2])


def test_progress_reaches_its_end() -> None:
    p = InsecureParameters.choose(M=2, n=20, i=20, c=5, w=64, bits=10)
    R, steps = ring.random(100, 64).reshape(20, 5, 1), []
    S = np.ones((20, 20), np.int64)
    between_threads(2, lambda link: share_product(link, S, R, p, progress=lambda *at: steps.append(at)), mesh(2))
    done, total = steps[-1]
    assert done == total
    assert [d for d, _ in steps[::2]] == sorted(d for d, _ in steps[::2])


@pytest.mark.parametrize("M", [2, 3])
def test_two_steps_are_the_same_product(M: int) -> None:
    rng, d, c, rows, w = np.random.default_rng(M), 20, 3, 5, 192
    steps = TwoSteps.choose(M=M, rows=rows, d=d, c=c, w=w, bits=27, kind=InsecureParameters)
    X = [rng.integers(-(2**27) + 1, 2**27, (rows - m, d)) * (rng.random((rows - m, d)) < 0.5) for m in range(M)]
    R = [ring.random(d * c, w).reshape(d, c, -1) for _ in range(M)]
    shares = between_threads(M, lambda link: share_product_of_rows(link, X[link.me], R[link.me], steps), mesh(M))
    assert_shares(shares, [x.T.astype(object) @ x.astype(object) for x in X], R, w)


def test_two_steps_are_chosen_for_few_rows() -> None:
    dense = Parameters.choose(M=3, n=1000, i=1000, c=140, w=192, bits=54)
    few, many = (TwoSteps.choose(M=3, rows=rows, d=1000, c=140, w=192, bits=27) for rows in (50, 2000))
    assert cheaper(dense, few) is few
    assert few.sent < dense.sent
    assert cheaper(dense, many) is dense
    with pytest.raises(StudyError, match="at most 50 rows"):
        between_threads(2, lambda link: share_product_of_rows(link, np.ones((51, 1000), int), None, few), mesh(2))
