"""What a party brings to runs of MP-SPDZ, and how the parties' virtual machines find each other."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pdml_spdz.engines.mp_spdz.compiler import Compiled, compile_program
from pdml_spdz.engines.mp_spdz.home import Installation
from pdml_spdz.engines.mp_spdz.protocols import Protocol
from pdml_spdz.errors import EngineError
from pdml_spdz.primitives.agree import Agreement
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import Program
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.certs import Identity

Address = tuple[str, int]
MATERIAL = "mp-spdz"  # the folder of stocks for MP-SPDZ


@dataclass(frozen=True)
class Place:
    """hosts, ports : of the parties' virtual machines, port 0 for any; stocks : where this party's stocks are;
    logs : this party's directory of results; insecure : a timing build may be used
    """

    link: Link
    identity: Identity
    home: Installation
    protocol: Protocol
    hosts: Sequence[str]
    ports: Sequence[int]
    stocks: Path
    logs: Path
    timeout: float
    insecure: bool = False
    note: Callable[[str], None] = lambda text: None

    @property
    def material(self) -> Path:
        """Where this party's stocks for MP-SPDZ are."""
        return self.stocks / MATERIAL

    def compile(self, program: Program, precision: Precision) -> Compiled:
        """The program's bytecode, the same at all parties."""
        compiled = compile_program(program, precision, self.protocol, self.home, note=self.note)
        Agreement(self.link).digest("bytecode", compiled.digest.encode())
        return compiled

    def binary(self, *, offline: bool = False) -> Path:
        """The protocol's program, built for secrets."""
        name = self.protocol.offline if offline else self.protocol.party
        if name is None:
            raise EngineError(
                f"MP-SPDZ has no offline program for {self.protocol.name}: its material is made in the run.",
                "a protocol that has one (semi, hemi, mascot, ...)",
                "run without a stock: --offline on-demand",
            )
        found = self.home.binary(name)
        if found is None:
            raise EngineError(
                f"{name} of the protocol {self.protocol.name} is not in {self.home.path}.",
                "MP-SPDZ with this protocol's programs",
                "`pdml-spdz mp-spdz list` shows what is there; docs/mp-spdz.md says how to get the rest",
            )
        if self.home.is_insecure(found) and not self.insecure:
            raise EngineError(
                f"{found} was built with -DINSECURE: it reuses offline material.",
                "a build for secrets",
                "build it without -DINSECURE, or pass --insecure-benchmark to measure times on made-up data",
            )
        return found

    def command(self, program: Path, compiled: Compiled, *options: str) -> list[str]:
        """MP-SPDZ's arguments: TLS always, no copy of the memory left behind, a prime as long as the numbers need.

        (The compiler asks for a long one only where it truncates itself.)
        """
        me, M = self.link.me, self.link.M
        common = ["-N", str(M), "-p", str(me), "-ip", "parties", "-e", "-IF", "in", "-o", "no_memory_output"]
        field = ["-lgp", str(compiled.prime)] if compiled.prime else []
        return [str(program), *common, *field, *options, compiled.name]

    @contextmanager
    def meeting_point(self) -> Iterator[list[Address]]:
        """Where the parties' virtual machines listen, for as long as the block lasts.

        1. each party binds a port and does not listen on it: no other program can get it, while MP-SPDZ, which binds
           with SO_REUSEADDR as well, can
        2. all tell each other their ports

        Reveals: port numbers. Cost: one round.
        """
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as held:
            held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            port = self.ports[self.link.me]
            try:
                held.bind(("", port))
            except OSError as error:
                raise EngineError(
                    f"port {port} for MP-SPDZ cannot be used ({error.strerror}).", "a free port", "choose another"
                ) from None
            own = int(held.getsockname()[1])
            ports = {self.link.me: own}
            outgoing = dict.fromkeys(self.link.peers, own.to_bytes(2, "little"))
            for peer, data in self.link.exchange_all("vm:port", outgoing, 2).items():
                ports[peer] = int.from_bytes(data, "little")
            yield [(self.hosts[m], ports[m]) for m in range(self.link.M)]
