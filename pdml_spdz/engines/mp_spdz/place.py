"""What a party brings to runs of MP-SPDZ, and how the parties' virtual machines find each other."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from pdml_spdz.engines.mp_spdz.compiler import Compiled, compile_program
from pdml_spdz.engines.mp_spdz.home import Installation, find_program
from pdml_spdz.engines.mp_spdz.preprocessing import REMEDY, Preprocessed, Preprocessing, fitting
from pdml_spdz.engines.mp_spdz.protocols import Protocol
from pdml_spdz.errors import EngineError, MismatchError
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import Program
from pdml_spdz.transport.base import Link
from pdml_spdz.transport.certs import Identity

Address = tuple[str, int]
MOST = 200  # bytes of what a party says of its MP-SPDZ
MATERIAL = "mp-spdz"  # the folder of stocks for MP-SPDZ


@dataclass(frozen=True)
class Place:
    """hosts, ports : of the parties' virtual machines, port 0 for any; stocks : where this party's stocks are;
    logs : this party's directory of results; insecure : a timing build may be used
    remedy : what to do where a stock for d features is missing
    timeout, work : of the study: seconds for which a program may be silent, and compute without an answer
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
    remedy: Callable[[int], str] = lambda d: REMEDY
    note: Callable[[str], None] = lambda text: None
    work: float = 3600.0

    @property
    def material(self) -> Path:
        """Where this party's stocks for MP-SPDZ are."""
        return self.stocks / MATERIAL

    def compile(self, program: Program, precision: Precision) -> Compiled:
        """The program's bytecode, the same at all parties: of the same compiler, which they compare first.

        Reveals: versions of MP-SPDZ. Cost: two rounds.
        """
        self.same_compiler()
        compiled = compile_program(program, precision, self.protocol, self.home, note=self.note)
        self.same_bytecode(compiled)
        return compiled

    def same_bytecode(self, compiled: Compiled) -> None:
        """Of the same compiler. Reveals: a digest of public text. Cost: one round."""
        for peer, theirs in self.link.all_to_all("digest:bytecode", compiled.digest.encode()).items():
            if bytes(theirs) != compiled.digest.encode():
                raise MismatchError(
                    f"P{peer} has another program than this party, of the same compiler.",
                    "the same bytecode at all parties",
                    "compare the versions of Python; MP-SPDZ's compiler is written in it",
                    culprit=peer,
                )

    def stocks_for(self, compiled: Compiled, run: bytes, d: int) -> list[Preprocessing]:
        """This party's stocks for the program, of which one is unused at every party; StockError at all if none is."""
        wanted = Preprocessed.of(compiled, self.link.M, self.protocol.name)
        return fitting(self.link, self.material, wanted, run, self.remedy(d))

    def same_compiler(self) -> None:
        """Reveals: versions of MP-SPDZ. Cost: one round."""
        digest, version = self.home.digest(), self.home.version()
        for peer, said in self.link.all_to_all("vm:version", version.encode(), MOST).items():
            theirs = bytes(said).decode(errors="replace")
            if f"(compiler {digest})" not in theirs:
                raise MismatchError(
                    f"P{peer} has another MP-SPDZ than this party: {theirs}, and here {version}.",
                    "one version of MP-SPDZ, and its compiler as it came, at all parties",
                    "install the same release or check out the same commit everywhere, and build its programs anew",
                    culprit=peer,
                )
            if theirs != version:
                self.note(f"P{peer} has MP-SPDZ {theirs}, and here is {version}: the same compiler")

    def binary(self, *, offline: bool = False) -> Path:
        """The protocol's program, built for secrets."""
        return find_program(self.home, self.protocol, offline=offline, insecure=self.insecure)

    def command(self, program: Path, compiled: Compiled, *options: str) -> list[str]:
        """MP-SPDZ's arguments: TLS always, no copy of the memory left behind, a prime as long as the numbers need; at
        the end it says what each phase has cost.

        (The compiler asks for a long one only where it truncates itself.)
        """
        me, M = self.link.me, self.link.M
        common = ["-N", str(M), "-p", str(me), "-ip", "parties", "-e", "-IF", "in", "-o", "no_memory_output", "-v"]
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
