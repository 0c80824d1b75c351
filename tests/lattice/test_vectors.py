"""vectors.json: this implementation makes them, and they are right by the definitions, on integers of Python."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

from tests.lattice.make_vectors import FILE, vectors
from tests.lattice.plain import coefficients, crt, negacyclic


@pytest.fixture(scope="module")
def known() -> dict[str, Any]:
    return dict(json.loads(FILE.read_text(encoding="utf-8")))


def test_this_implementation_makes_the_vectors(known: dict[str, Any]) -> None:
    assert vectors() == known


def modulus(known: dict[str, Any]) -> int:
    q = 1
    for p in known["primes"]:
        q *= p
    return q


def polynomial(values: list[list[int]], known: dict[str, Any]) -> list[int]:
    """A polynomial mod q of its transforms mod every prime."""
    parts = [coefficients(v, known["exponents"], p) for v, p in zip(values, known["primes"], strict=True)]
    return [crt(residues, known["primes"]) for residues in zip(*parts, strict=True)]


def unpacked(text: str, known: dict[str, Any]) -> list[list[int]]:
    """Transforms in 25 bits a number: three bytes of all, then the highest bits, 8 in a byte."""
    raw, N = bytes.fromhex(text), known["N"]
    size = N * 25 // 8
    return [
        [int.from_bytes(row[3 * k : 3 * k + 3], "little") | (row[3 * N + k // 8] >> k % 8 & 1) << 24 for k in range(N)]
        for row in (raw[j * size : (j + 1) * size] for j in range(len(known["primes"])))
    ]


def expanded(label: int, known: dict[str, Any]) -> list[list[int]]:
    """A public polynomial: words of 25 bits of an AES stream, those below the prime."""

    def words(j: int) -> Iterator[int]:
        start = ((label << 64) + (j << 32)).to_bytes(16, "big")
        stream = Cipher(algorithms.AES(bytes.fromhex(known["seed"])), modes.CTR(start)).encryptor()
        while True:
            yield int.from_bytes(stream.update(bytes(4)), "little") & 0x1FFFFFF

    out = []
    for j, p in enumerate(known["primes"]):
        below = (x for x in words(j) if x < p)
        out.append([next(below) for _ in range(known["N"])])
    return out


def small(x: int, q: int) -> int:
    return (x + q // 2) % q - q // 2


def test_the_vectors_are_right_by_the_definitions(known: dict[str, Any]) -> None:
    q, w, s, N = modulus(known), known["w"], known["secret"], known["N"]
    n_w, i_w, c_w = (known["block"][name] for name in ("n_w", "i_w", "c_w"))
    assert set(s) == {-1, 0, 1}
    # p0 + p1 s is an error, and so is c0 + a s less the encoded numbers of R
    for label, text in ((0, known["p0"]), (1, known["ciphertext"])):
        a, c0 = polynomial(expanded(label, known), known), polynomial(unpacked(text, known), known)
        total = [x + y for x, y in zip(c0, negacyclic(a, s), strict=True)]
        if label:
            for j in range(i_w):
                for k in range(c_w):
                    total[k * n_w * i_w + j] -= (2 * q * known["R"][j][k] + (1 << w)) >> (w + 1)
        assert max(abs(small(x, q)) for x in total) <= 29
    # the response decrypts to S R + mask
    size = known["travel_bits"] // 8
    c1, c0 = (
        [int.from_bytes(raw[k : k + size], "little") for k in range(0, len(raw), size)]
        for raw in (bytes.fromhex(known["c1"]), bytes.fromhex(known["c0"]))
    )
    product, below = negacyclic(c1, s), known["travel_bits"] - w
    assert len(c1) == N
    found = [(x + product[k] + (1 << below - 1) >> below) % (1 << w) for x, k in zip(c0, known["wanted"], strict=True)]
    assert found == known["decrypted"]
    wanted = [
        [sum(x * row[k] for x, row in zip(line, known["R"], strict=True)) for k in range(c_w)] for line in known["S"]
    ]
    flat = [x % (1 << w) for line in wanted for x in line]
    assert [(x + y) % (1 << w) for x, y in zip(found, known["share"], strict=True)] == flat
    assert [x for line in known["product"] for x in line] == flat
