"""SPU's way to a PCA, beside a sealed fit: power iteration with deflation on shares, 300 iterations a component.

    peers/bin/python benchmarks/sealed_peers.py     # an environment with spu and scikit-learn (benchmarks/README.md)

Three parties of ABY3 in one process, without TLS; the digits, k = 7. **Another trust**: semi-honest with an honest
majority, no two of the three may collude; there any M - 1. What is opened is V alone, as its `sml` does it.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import numpy as np

K, ITERATIONS = 7, 300


def main() -> None:
    import jax
    import jax.numpy as jnp
    from sklearn.datasets import load_digits
    from spu import libspu
    from spu.utils import simulation

    X = load_digits().data.astype(np.float32)
    iterations = int(sys.argv[1]) if len(sys.argv) > 1 else ITERATIONS

    def components(rows: Any) -> Any:
        C = rows.T @ rows / (16.0 * len(X))  # fixed-point numbers: neither large nor small
        found = []
        for _ in range(K):
            v = jax.lax.fori_loop(0, iterations, lambda _, v, C=C: _unit(C @ v), jnp.ones(X.shape[1]) / 8.0)
            C = C - (v @ (C @ v)) * jnp.outer(v, v)
            found.append(v)
        return jnp.column_stack(found)

    def _unit(v: Any) -> Any:
        return v * jax.lax.rsqrt(jnp.sum(v * v))

    config = libspu.RuntimeConfig(protocol=libspu.ProtocolKind.ABY3, field=libspu.FieldType.FM128, fxp_fraction_bits=30)
    config.enable_hal_profile = True  # it prints bytes and messages
    began, cpu = time.perf_counter(), time.process_time()
    V = np.asarray(simulation.sim_jax(simulation.Simulator(3, config), components)(X), float)
    wall, cpu = time.perf_counter() - began, time.process_time() - cpu
    Q, wanted = np.linalg.qr(V)[0], np.linalg.svd(X.astype(float), full_matrices=False)[2][:K].T
    error = np.linalg.norm(wanted - Q @ (Q.T @ wanted), 2)
    print(f"SPU, ABY3: {wall:.1f} s, {cpu:.1f} s of CPU of all three, sine {error:.1e}")


if __name__ == "__main__":
    main()
