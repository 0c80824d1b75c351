"""What does MP-SPDZ send, and compute, for one triple, random bit or input of its offline phase?

    python -m benchmarks.bench_material [--protocol semi,hemi] [--parties 2,3] [--primes 192,256] [--numbers 2000,12000]

For each protocol that is installed, programs that take so many numbers of one kind and nothing else, without a stock:
bytes that a party sends to each other party (the mean of all), and processor time of a party's virtual machine, for a
number. From the difference of the two programs, so that what happens once does not count. The forecasts of `pdml-spdz
offline plan` are made of these (`pdml_spdz/engines/mp_spdz/forecast.py`).
"""

from __future__ import annotations

import argparse
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean

from pdml_spdz.engines.mp_spdz.home import Installation, require
from pdml_spdz.engines.mp_spdz.protocols import PROTOCOLS
from pdml_spdz.engines.mp_spdz.vm import parse_usage

PROGRAMS = {
    "triple": "sint.get_random_triple(size={n})",
    "bit": "sint.get_random_bit(size={n})",
    "input": "sint.get_input_from(0, size={n})",
}
SECURITY = 41  # of a prime, beyond the numbers that it is compiled for


def cost(home: Installation, name: str, M: int, prime: int, kind: str, n: int) -> tuple[float, float]:
    """Bytes that a party sends to each other, and its seconds."""
    with tempfile.TemporaryDirectory(prefix="pdml-spdz-") as path:
        where = Path(path)
        (where / "one.mpc").write_text(PROGRAMS[kind].format(n=n))
        command = [sys.executable, str(home.compiler), "-F", str(prime - SECURITY), "one.mpc"]
        subprocess.run(command, cwd=where, check=True, capture_output=True)
        (where / "in-P0-0").write_text("0\n" * n)
        held = [socket.create_server(("127.0.0.1", 0)) for _ in range(M)]
        (where / "hosts").write_text("".join(f"127.0.0.1:{s.getsockname()[1]}\n" for s in held))
        for s in held:
            s.close()
        program = home.binary(PROTOCOLS[name].party)
        parties = []
        for m in range(M):
            words = [program, "-N", M, "-p", m, "-ip", "hosts", "-lgp", prime, "-IF", "in", "-v", "one"]
            log = (where / f"log-{m}").open("w")
            parties.append(subprocess.Popen([*map(str, words)], cwd=where, stdout=log, stderr=subprocess.STDOUT))
        codes = [party.wait() for party in parties]
        said = [(where / f"log-{m}").read_text() for m in range(M)]
        if any(codes):
            raise SystemExit(f"{name}, {kind}: {said[0]}")
        used = [parse_usage(text) for text in said]
        return 1e6 * fmean(u.megabytes for u in used) / (M - 1), fmean(u.cpu for u in used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--protocol", default=",".join(PROTOCOLS))
    parser.add_argument("--parties", default="2,3")
    parser.add_argument("--primes", default="192,256")
    parser.add_argument("--kinds", default=",".join(PROGRAMS))
    parser.add_argument("--numbers", default="2000,12000")
    given = parser.parse_args()
    home, (few, many) = require(), map(int, given.numbers.split(","))
    print("| protocol | M | prime | for one | bytes to each party | processor µs |\n|" + " --- |" * 6)
    for name in given.protocol.split(","):
        chosen = PROTOCOLS[name]
        if home.binary(chosen.party) is None or chosen.domain != "prime":
            continue
        for M, prime, kind in (
            (int(M), int(prime), kind)
            for M in given.parties.split(",")
            for prime in given.primes.split(",")
            for kind in given.kinds.split(",")
        ):
            a, b = (cost(home, name, M, prime, kind, n) for n in (few, many))
            sent, cpu = ((y - x) / (many - few) for x, y in zip(a, b, strict=True))
            print(f"| {name} | {M} | {prime} | {kind} | {sent:,.0f} | {1e6 * cpu:,.1f} |")


if __name__ == "__main__":
    main()
