"""Programs on MP-SPDZ's virtual machines, as the algorithms see them."""

from __future__ import annotations

import secrets
import shutil
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from types import MappingProxyType
from typing import Any

import numpy as np

from pdml_spdz.engines.embedded.backend import Truncation
from pdml_spdz.engines.embedded.machine import truncations
from pdml_spdz.engines.mp_spdz import directory
from pdml_spdz.engines.mp_spdz.compiler import SECURITY, Compiled
from pdml_spdz.engines.mp_spdz.place import Place
from pdml_spdz.engines.mp_spdz.preprocessing import Preprocessing, take
from pdml_spdz.engines.mp_spdz.vm import Usage, VirtualMachine
from pdml_spdz.engines.mp_spdz.watch import naming
from pdml_spdz.engines.openings.base import Execution, Runner, decode
from pdml_spdz.errors import PdmlError, StockError
from pdml_spdz.numerics import ring
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.primitives.agree import check_heard
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import Program

LOG = "vm.log"
STOP = 1  # before an iteration: there is none


class MpSpdzRunner(Runner):
    """Starts a virtual machine at every party for each execution; remembers them, so that none is left behind.

    offline : "auto", "stock" or "on-demand"; run : the run's public identity; compiled : by the programs' digests
    d : of the fit, for messages
    """

    def __init__(
        self,
        place: Place,
        precision: Precision,
        bound: float,
        offline: str,
        run: bytes,
        compiled: Mapping[str, Compiled] = MappingProxyType({}),
        d: int = 0,
    ) -> None:
        super().__init__(precision, bound)
        self.place, self.offline, self.run, self.d = place, offline, run, d
        self.usage: list[Usage] = []
        self.stocks: list[str] = []
        self.claimed: dict[str, Any] = {}  # what the last of them had
        self._compiled = dict(compiled)
        self._running: list[MpSpdzExecution] = []

    def compiled(self, program: Program) -> Compiled:
        if program.digest not in self._compiled:
            self._compiled[program.digest] = self.place.compile(program, self.precision)
        return self._compiled[program.digest]

    def start(self, program: Program) -> MpSpdzExecution:
        masks = truncations(program.twin) if program.twin else []
        execution = MpSpdzExecution(self, self.compiled(program), masks)
        self._running.append(execution)
        return execution

    def stocks_for(self, compiled: Compiled) -> list[Preprocessing]:
        """This party's stocks of which the next execution will burn one; none to make the material in the run.

        There are some at every party or at none.
        """
        place = self.place
        if self.offline == "on-demand":
            return []
        try:
            return place.stocks_for(compiled, self.run, self.d)
        except StockError as error:
            if self.offline == "stock" or not error.common:
                raise
            place.note("no unused stock for this program: MP-SPDZ makes the material in the run")
            self.offline = "on-demand"  # for the rest of the run, at all parties
            return []

    def finish(self) -> None:
        """Every virtual machine ends, and well, at every party."""
        for execution in list(self._running):
            execution.finish()

    def ended(self, execution: MpSpdzExecution, usage: Usage) -> None:
        """What its machine has cost is this party's cost, of the phase that it belongs to."""
        self._running.remove(execution)
        self.usage.append(usage)
        link = self.place.link
        offline_bytes = round(1e6 * usage.offline_megabytes)
        link.offline_traffic.add_machine(offline_bytes, usage.offline_rounds)
        link.traffic.add_machine(max(0, round(1e6 * usage.megabytes) - offline_bytes), usage.online_rounds)
        link.clock.move(usage.offline_seconds, "crypto", "offline")

    def close(self) -> None:
        """After a failure: no virtual machine and no material stays."""
        while self._running:
            self._running.pop().close()


class MpSpdzExecution(Execution):
    """One program on one virtual machine a party.

    1. the parties burn a common stock (`preprocessing.take`), or agree that there is none
    2. each starts its virtual machine in a private directory; machines talk to each other over TLS
    3. every call, when all parties are ready for it, goes through pipes: numbers in, opened numbers out
    4. at the end all parties say that their machine ended well; the directory goes, with what is left of the material
    """

    def __init__(self, runner: MpSpdzRunner, compiled: Compiled, masks: Sequence[Sequence[Truncation]]) -> None:
        self.runner, place = runner, runner.place
        self._masks = deque(masks)  # by output: what this party inputs besides its vector and dither
        self._held = ExitStack()
        try:
            program = place.binary()
            stocks = runner.stocks_for(compiled)
            addresses = self._held.enter_context(place.meeting_point())
            # Beside the stocks: what is claimed is moved by renaming.
            beside = place.material if stocks else None
            self._directory = directory.create(compiled, place.identity, addresses, parent=beside)
            self._held.callback(self._directory.remove)
            if stocks:
                taken = take(place.link, stocks, runner.run, self._directory.data)
                runner.stocks.append(taken.stock)
                runner.claimed = taken.kind.counts
            command = place.command(program, compiled, *(["-F"] if stocks else []))
            self._machine = VirtualMachine(command, self._directory, place.timeout, place.work, place.link.listen)
            self._held.callback(self._keep_log)
            self._held.callback(self._machine.kill)
        except BaseException:
            self._held.close()
            raise

    def call(self, x: Reals, publics: Sequence[int], more: Sequence[Reals] = ()) -> Reals:
        """A sum of M uniform dithers, rounded down, shifts the mean by (M - 1)/2 units."""
        p = self.runner.precision
        opened = np.frombuffer(self.exchange(publics, self._encode(x, more), x.size + 1), "<u8")[:-1]  # and a zero
        return decode(opened, p, len(x), bias=(p.M - 1) / 2)

    def exchange(self, publics: Sequence[int], inputs: Sequence[int], n: int) -> bytes:
        """Machines wait for each other and cannot tell why: so it is the parties that wait, until all have something to
        give in, for as long as those who work say so; and one that is killed or stopped is known by its name. No party
        gives in anything before it knows that all have heard the same: the program's sums would be of different V.
        """
        link = self.runner.place.link
        heard = link.heard
        check_heard(link.me, heard, {l: bytes(theirs) for l, theirs in link.all_to_all("vm:ready", heard).items()})
        with link.clock("crypto"), naming(link, self._machine.works):
            return self._machine.exchange(publics, inputs, n)

    def _encode(self, x: Reals, more: Sequence[Reals]) -> list[int]:
        """What this party inputs: its vector, column after column, `more`, its masks in the order of the truncations,
        and its dither.
        """
        p = self.runner.precision
        vectors = np.concatenate([(x / self.runner.bound).T.reshape(-1), *more])
        z = ring.from_float(vectors, p.f_in, p.vector_bits)
        dither = ring.random_below(x.size, p.drop, p.vector_bits)
        masks = _draw(self._masks.popleft() if self._masks else ())
        return ring.to_ints(z, signed=True) + masks + ring.to_ints(dither)

    def finish(self) -> None:
        link = self.runner.place.link
        with naming(link, self._machine.works):
            self._machine.exchange([STOP], [], 0)
            usage = self._machine.finish()
        link.all_to_all("vm:end", b"well")
        self.runner.ended(self, usage)
        self.close()

    def close(self) -> None:
        self._held.close()

    def _keep_log(self) -> None:
        with suppress(OSError, PdmlError):
            self.runner.place.logs.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(self._directory.log, self.runner.place.logs / LOG)


def _draw(truncations: Sequence[Truncation]) -> list[int]:
    """Random numbers, SECURITY bits longer than what they hide, and then what the shift leaves of each."""
    drawn = [(secrets.randbits(t.bits + SECURITY), t.shift) for t in truncations for _ in range(t.n)]
    return [r for r, _ in drawn] + [r >> shift for r, shift in drawn]
