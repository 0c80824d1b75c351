"""NormedSecSum by MPyC's fixed-point numbers: run by its path, by `peers.py`, with any Python that has MPyC.

    python mpyc_program.py D F REPEATS -M3

MPyC takes its own options (-M, -B, ...) from the command line and starts the other parties. Party 0 prints one line of
JSON for each repetition. Secure arrays (MPyC's fastest way), f fraction bits of 2 f in all, its own square root:

    s = sum_m x_m;  n = sqrt(s.s);  u = s * (1/n)
"""

import json
import sys
import time

import numpy as np
from mpyc import statistics
from mpyc.runtime import mpc


async def main() -> None:
    d, f, repeats = (int(a) for a in sys.argv[1:4])
    number = mpc.SecFxp(2 * f, f)
    await mpc.start()
    u = np.random.default_rng(0).standard_normal(d)
    u /= np.linalg.norm(u)
    sent = 0
    for _ in range(repeats):
        await mpc.output(mpc.input(number(0), senders=0))  # a round: all begin together
        began = time.perf_counter()
        s = sum(mpc.input(number.array(0.9 / len(mpc.parties) * u)))
        norm = statistics._fsqrt(mpc.np_matmul(s, s))
        found = await mpc.output(s * (1 / norm))
        seconds = time.perf_counter() - began
        before, sent = sent, sum(p.protocol.nbytes_sent for p in mpc.parties if p.pid != mpc.pid)
        if mpc.pid == 0:
            error = float(np.max(np.abs(np.array([float(a) for a in found]) - u))) * 2.0**f
            print(json.dumps({"seconds": seconds, "sent": sent - before, "error": error}), flush=True)
    await mpc.shutdown()


if __name__ == "__main__":
    mpc.run(main())
