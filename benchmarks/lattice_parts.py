"""The parts of a private product, and other ways to do the transform, each in one thread of this process."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from pdml_spdz.lattice import cost, ntt
from pdml_spdz.lattice.encryption import CiphertextSet, KeyHolder
from pdml_spdz.lattice.parameters import Parameters
from pdml_spdz.lattice.response import Ciphertexts, Responder, short_polynomials
from pdml_spdz.numerics import ring

UNIT = CiphertextSet(0, 0)
N, PRIMES, BATCH = 16384, 13, 8


def timed(call: Callable[[], object], repeats: int = 5) -> float:
    """The least CPU time."""
    call()
    found = []
    for _ in range(repeats):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return min(found)


def transforms() -> None:
    """13 primes and N = 16384: three matrix products on float64 (ours), butterflies in NumPy, and compiled ones."""
    moduli = ntt.primes(N, PRIMES)
    rng = np.random.default_rng(0)
    x = np.stack([rng.integers(-(p // 2), p // 2, (BATCH, N)).astype(np.float64) for p in moduli])
    print(f"transform, matrix products    {1e3 * timed(lambda: ntt.forward(x, N, moduli)) / BATCH:8.2f} ms")
    y = x.astype(np.int64)
    butterflies = [roots(p) for p in moduli]

    def in_numpy() -> None:
        for row, p, table in zip(y, moduli, butterflies, strict=True):
            numpy_butterflies(row % p, p, table)

    print(f"transform, NumPy butterflies  {1e3 * timed(in_numpy, 2) / BATCH:8.2f} ms")
    try:
        import numba
    except ImportError:
        print("transform, compiled           numba is not installed")
        return
    compiled = numba.njit(cache=False)(loop_butterflies)

    def in_numba() -> None:
        for row, p, table in zip(y, moduli, butterflies, strict=True):
            for one in row % p:
                compiled(one, p, table, (table << 32) // p)

    print(f"transform, numba {numba.__version__:12} {1e3 * timed(in_numba) / BATCH:8.2f} ms")


def roots(p: int) -> np.ndarray:
    """psi^(bit reversal of k)."""
    powers = ntt.transform(N, p).powers.astype(np.int64) % p
    bits = N.bit_length() - 1
    return np.array([powers[int(f"{k:0{bits}b}"[::-1], 2)] for k in range(N)])


def numpy_butterflies(x: np.ndarray, p: int, table: np.ndarray) -> np.ndarray:
    m, t = 1, N
    while m < N:
        t //= 2
        y = x.reshape(len(x), m, 2, t)
        low, high = y[:, :, 0].copy(), y[:, :, 1] * table[m : 2 * m, None] % p
        y[:, :, 0], y[:, :, 1] = (low + high) % p, (low - high) % p
        m *= 2
    return x


def loop_butterflies(x: np.ndarray, p: int, table: np.ndarray, quotients: np.ndarray) -> None:
    """For a compiler. Products are reduced with a quotient that is known beforehand (Shoup's way)."""
    m, t = 1, len(x)
    while m < len(x):
        t //= 2
        for k in range(m):
            root, quotient = table[m + k], quotients[m + k]
            for j in range(2 * k * t, 2 * k * t + t):
                low, high = x[j], x[j + t] * root - ((x[j + t] * quotient) >> 32) * p
                high = high - p if high >= p else high
                total, rest = low + high, low - high
                x[j] = total - p if total >= p else total
                x[j + t] = rest + p if rest < 0 else rest
        m *= 2


def steps(d: int, c: int) -> None:
    """Each step of a product with two peers, and the constants of `lattice/cost.py`."""
    p = Parameters.choose(M=3, n=d, i=d, c=c, w=192, bits=54)
    layout, whole = p.packing, p.N * p.count * 1e-9
    rng = np.random.default_rng(0)
    S, R = rng.integers(-(1 << 53), 1 << 53, (1, d, d)), ring.random(d * c, 192).reshape(1, d, c, 3)
    holder = KeyHolder(p)
    ciphertexts = list(holder.encrypt(R, UNIT))
    received = Ciphertexts(p, [1, 2], 1)

    def put() -> None:
        for k, raw in enumerate(ciphertexts):
            for peer in (1, 2):
                received.put(peer, holder.public, raw, UNIT, 0, k)

    encrypting, putting = timed(lambda: list(holder.encrypt(R, UNIT)), 2), timed(put, 2)
    which, short = next(short_polynomials(p, S, 0))
    multiplying = timed(lambda: received.multiply(short), 2)
    products = received.multiply(short)
    wanted = np.stack([layout.results(r).reshape(-1) for r in which])
    responder = Responder(p, holder.public)
    responding = timed(lambda: responder.respond(products[:, 0, 0], wanted), 2)
    response = responder.respond(products[:, 0, 0], wanted)
    decrypting = timed(lambda: holder.decrypt(response.c1, response.c0, wanted), 2)
    pairs, rows = len(which) * layout.ciphertexts, len(which)
    print(f"d = {d}, c = {c}: nanoseconds for each coefficient and prime (forecast)")
    forecast = cost.short(layout.D) + 4 * cost.MULTIPLY
    print(f"  encrypt     {encrypting / layout.ciphertexts / whole:7.2f} ({cost.ENCRYPT:g})")
    print(f"  receive     {putting / layout.ciphertexts / 2 / whole:7.2f} ({cost.RECEIVE:g})")
    print(f"  multiply    {multiplying / pairs / whole:7.2f} ({forecast:.2f})")
    print(f"  respond     {responding / rows / whole:7.2f} ({cost.RESPOND:g})")
    print(f"  decrypt     {decrypting / rows / (p.N * len(p.exact_primes) * 1e-9):7.2f} ({cost.DECRYPT:g})")


def parts() -> None:
    with threadpool_limits(1):
        transforms()
        steps(64, 840)
        steps(256, 840)
