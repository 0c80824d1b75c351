"""The same product by MP-SPDZ's hemi: shares of both matrices, one matrix product with what is made for it offline.

Fewer columns than asked for may be measured, and the figures scaled: hemi's cost is proportional to them. Its parties
are processes on this machine without TLS, in a prime field of w bits.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from pdml_spdz.engines.mp_spdz.home import require

PROGRAM = """A = sint.Matrix({d}, {d})
B = sint.Matrix({d}, {c})
A.assign_all(sint(3))
B.assign_all(sint(5))
print_ln('%s', A.dot(B)[0][0].reveal())
"""
PORT = 21500


@dataclass(frozen=True)
class Hemi:
    seconds: float
    cpu: float
    megabytes: float


def run_hemi(M: int, d: int, c: int, w: int, port: int = PORT) -> Hemi:
    """What one product costs: the slowest party's seconds, a party's CPU time and what it sends, on average."""
    home = require()
    with tempfile.TemporaryDirectory(prefix="pdml-spdz-") as name:
        directory = Path(name)
        (directory / "product.mpc").write_text(PROGRAM.format(d=d, c=c))
        compile_ = [sys.executable, str(home.compiler), "-F", str(w - 2), "product.mpc"]
        subprocess.run(compile_, cwd=directory, check=True, capture_output=True)
        binary = Path(home.compiler).with_name("hemi-party.x")
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        parties = [
            subprocess.Popen(
                [str(binary), "-p", str(m), "-N", str(M), "-lgp", str(w), "-pn", str(port), "product"],
                cwd=directory,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for m in range(M)
        ]
        said = [party.communicate()[0] for party in parties]
        seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if any(party.returncode for party in parties) or str(15 * d) not in said[0]:
        raise SystemExit(f"hemi failed: {said[0]}")
    sent = re.search(r"Global data sent = ([\d.]+) MB", said[0])
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return Hemi(seconds, cpu / M, float(sent[1]) / M if sent else float("nan"))


def hemi(M: int, d: int, c: int, w: int, measured: int) -> Hemi:
    """For c columns, from a run with `measured` of them."""
    found, more = run_hemi(M, d, min(c, measured), w), c / min(c, measured)
    return Hemi(found.seconds * more, found.cpu * more, found.megabytes * more)
