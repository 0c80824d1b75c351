"""Writes vectors.json: one product from fixed keys, in a small insecure ring, for any other implementation to check.

    python -m tests.lattice.make_vectors

Hexadecimal strings are bytes as they travel (`encryption.to_bytes`, digits little-endian); lists are integers, matrices
by rows. Both generators are AES-256 in counter mode, under `holder_key` and `responder_key`.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from pdml_spdz.lattice import ntt
from pdml_spdz.lattice.encryption import CiphertextSet, KeyHolder, to_bytes
from pdml_spdz.lattice.packing import Packing
from pdml_spdz.lattice.parameters import InsecureParameters
from pdml_spdz.lattice.response import Ciphertexts, Responder, short_polynomials
from pdml_spdz.lattice.sampling import Sampler
from pdml_spdz.numerics import ring
from tests.lattice.parties import integers, numbers

UNIT = CiphertextSet(0, 0)
FILE = Path(__file__).with_name("vectors.json")
PARAMETERS = InsecureParameters(2, Packing(3, 4, 5, 1, 3, 4, 5), w=64, bits=20, N=64, count=8)


def vectors() -> dict[str, Any]:
    p, layout = PARAMETERS, PARAMETERS.packing
    holder_key, responder_key = bytes(range(32)), bytes(range(32, 64))
    S = np.array([[(7 * a - 11 * j + 3) * 12345 for j in range(4)] for a in range(3)])
    R = numbers(
        np.array([[0x0123456789ABCDEF * (5 * j + k + 1) % (1 << 64) for k in range(5)] for j in range(4)], object), 64
    )
    holder = KeyHolder(p, Sampler(holder_key))
    (ciphertext,) = holder.encrypt(R[None], UNIT)
    received = Ciphertexts(p, [0], 1)
    received.put(0, holder.public, ciphertext, UNIT, 0, 0)
    ((which, short),) = short_polynomials(p, S[None], 0)
    wanted = np.stack([layout.results(r).reshape(-1) for r in which])
    response = Responder(p, holder.public, Sampler(responder_key)).respond(received.multiply(short)[:, 0, 0], wanted)
    decrypted = holder.decrypt(response.c1, response.c0, wanted)
    total = ring.add(decrypted, response.share)
    secret = ntt.transform(p.N, p.primes[0]).back(holder._secret[0])
    return {
        "insecure": "a ring of dimension 64: for checking an implementation only",
        "N": p.N, "primes": list(p.primes), "w": p.w, "travel_bits": p.travel_bits, "flooding_bits": p.flooding_bits,
        "exponents": ntt.transform(p.N, p.primes[0]).exponents.tolist(),
        "block": {"n_w": layout.n_w, "i_w": layout.i_w, "c_w": layout.c_w},
        "holder_key": holder_key.hex(), "responder_key": responder_key.hex(),
        "secret": secret.astype(int).tolist(), "seed": holder.seed.hex(),
        "p0": to_bytes(holder.public.p0, p.primes).tobytes().hex(),
        "S": S.tolist(), "R": integers(R).tolist(),
        "ciphertext": ciphertext.tobytes().hex(),
        "c1": response.c1.tobytes().hex(), "c0": response.c0.tobytes().hex(),
        "wanted": wanted[0].tolist(),
        "share": integers(response.share).tolist(), "decrypted": integers(decrypted).tolist(),
        "product": (integers(total) % (1 << 64)).reshape(3, 5).tolist(),
    }  # fmt: skip


if __name__ == "__main__":
    FILE.write_text(json.dumps(vectors(), indent=1) + "\n", encoding="utf-8")
