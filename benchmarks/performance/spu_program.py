"""NormedSecSum by SPU's protocol ABY3: run by its path, by `peers.py`, with a Python that has SPU and three parties.

    python spu_program.py D F REPEATS -M3 -BPORT

A process for each party, links by its own brpc, no TLS; FM128 with f fraction bits. Party 0 prints one line of JSON for
each repetition. Each party shares its vector and hands the shares out; the program, compiled beforehand, is

    s = sum_m x_m;  u = s * rsqrt(s.s)
"""

import json
import multiprocessing as mp
import os
import pickle  # shares between processes that this program itself started
import sys
import time
from typing import Any

import numpy as np


def party(rank: int, M: int, port: int, d: int, f: int, repeats: int) -> None:
    import jax
    import jax.numpy as jnp
    import spu
    from spu import libspu
    from spu.utils import frontend

    jax.config.update("jax_enable_x64", True)
    config = libspu.RuntimeConfig(protocol=libspu.ABY3, field=libspu.FM128, fxp_fraction_bits=f)
    ends = libspu.link.Desc()
    ends.connect_retry_times, ends.connect_retry_interval_ms = 60, 500  # on a loaded machine parties start far apart
    for m in range(M):
        ends.add_party(f"P{m}", f"127.0.0.1:{port + m}")
    link = libspu.link.create_brpc(ends, rank)
    io, runtime = spu.Io(M, config), spu.Runtime(link, config)

    def exchange(shares: list[Any]) -> list[Any]:
        """One share to each party, in the order of the parties, and one from each."""
        for m in range(M):
            if m != rank:
                link.send(m, pickle.dumps((shares[m].meta, shares[m].share_chunks)))
        received = []
        for m in range(M):
            share = libspu.Share()
            meta, chunks = (shares[m].meta, shares[m].share_chunks) if m == rank else pickle.loads(link.recv(m))
            share.meta, share.share_chunks = meta, chunks
            received.append(share)
        return received

    def normed_sum(*x: Any) -> Any:
        s = sum(x)
        return s * jax.lax.rsqrt(jnp.dot(s, s))

    names = [f"x{m}" for m in range(M)]
    example = [np.zeros(d)] * M
    secret = [libspu.Visibility.VIS_SECRET] * M
    program, _ = frontend.compile(frontend.Kind.JAX, normed_sum, example, {}, names, secret, lambda out: ["u"])
    u = np.random.default_rng(0).standard_normal(d)
    u /= np.linalg.norm(u)
    for _ in range(repeats):
        link.barrier()
        began = time.perf_counter()
        for name, share in zip(names, exchange(io.make_shares(0.9 / M * u, libspu.Visibility.VIS_SECRET)), strict=True):
            runtime.set_var(name, share)
        runtime.run(program)
        shares = exchange([runtime.get_var("u")] * M)
        found = io.reconstruct(shares)
        seconds = time.perf_counter() - began
        if rank == 0:
            error = float(np.max(np.abs(found - u))) * 2.0**f
            print(json.dumps({"seconds": seconds, "sent": None, "error": error}), flush=True)
    link.stop_link()  # waits for what is on its way
    os._exit(0)  # the links' own threads may crash when the interpreter ends


if __name__ == "__main__":
    d, f, repeats = (int(a) for a in sys.argv[1:4])
    M, port = (int(a[2:]) for a in sys.argv[4:6])
    context = mp.get_context("spawn")
    parties = [context.Process(target=party, args=(m, M, port, d, f, repeats)) for m in range(M)]
    for process in parties:
        process.start()
    for process in parties:
        process.join()
    sys.exit(max(abs(process.exitcode or 0) for process in parties))
