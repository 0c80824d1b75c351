"""The program sealed_svd on this party's shares: what it reads, what it opens, and what everyone makes of that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any

from pdml_spdz.engines.embedded import machine
from pdml_spdz.engines.embedded.matrices import Planner, matrix_names
from pdml_spdz.engines.embedded.matrix_party import MatrixParty
from pdml_spdz.engines.embedded.runner import Session
from pdml_spdz.engines.sealed_program import SealedProgram
from pdml_spdz.offline.mask_products import Integers, Maker, MaskProducts, Segment, SegmentMaterial
from pdml_spdz.primitives.sec_sum import MaskedSum
from pdml_spdz.programs.render import Program, render_sealed
from pdml_spdz.programs.sealed_precision import RING, SealedPrecision

OPEN_BITS = 6  # sign, and room above 1, of what is opened


@lru_cache(maxsize=4)
def sealed_plan(precision: SealedPrecision) -> tuple[Program, tuple[Segment, ...]]:
    """The program, and the masks and products that it takes up to each of its gates."""
    program = render_sealed(precision)
    planner = Planner(precision.most_bits)
    machine.execute_with(program, matrix_names(planner))
    bits = planner.segments  # up to the bit of the scale and on to that of the gate, at each checkpoint
    return program, tuple(scale + gate for scale, gate in zip(bits[::2], bits[1::2], strict=False))


def inputs_of(p: SealedPrecision) -> list[tuple[int, int]]:
    """(numbers, bits of each) of what the program inputs or adds up of inputs, in its order: S_m of all parties and
    M - 1 sums of them, the same of t_m for a hidden mean, and for each checkpoint a rotation of each party.
    """
    rows = [(p.d**2, p.f_s + 1)] * (2 * p.M - 1)
    means = [(p.d, p.f_s + 1)] * (2 * p.M - 1) if p.hidden_mean else []
    return rows + means + [(p.columns**2, p.f_a + 1)] * (p.M * len(p.checkpoints))


@dataclass(frozen=True)
class StoredMasks:
    """What a run has claimed of a stock for its first segment; no other run ever has it."""

    stock: str
    material: SegmentMaterial


class SealedRun(SealedProgram):
    """On shares and masks of this package."""

    def __init__(
        self,
        sec_sum: MaskedSum,
        precision: SealedPrecision,
        make: Maker,
        bits: int = RING,
        *,
        stored: StoredMasks | None = None,
    ) -> None:
        super().__init__(sec_sum.link, precision)
        # A number that was rounded has lost half a unit, and gained as much from the mask of each party.
        self.bias, self._stored = (precision.M - 1) / 2, stored
        self.program, segments = sealed_plan(precision)
        self._ahead = segments[0].ahead
        self._session = Session()
        self.backend = MatrixParty(
            sec_sum,
            MaskProducts(segments, make, first=stored.material if stored else None),
            self._session,
            bits=bits,
            input_bits=[bits for _, bits in inputs_of(precision)],
            most_bits=precision.most_bits,
            open_bits=max(precision.f_open, precision.f_out) + OPEN_BITS,
        )
        self._session.start(lambda: machine.execute_with(self.program, matrix_names(self.backend)))

    def facts(self) -> dict[str, Any]:
        """What the report says of it."""
        p = self.precision
        derived = {
            "iterations_at_checkpoints": [p.iterations_at(i) for i in range(len(p.checkpoints))],
            "f_out": p.f_out,
            "ring": RING,
            "steps_of_an_inverse_root": len(p.steps_of_rows),
        }
        return {
            "precision": asdict(p) | derived,
            "protocol": "additive shares, products by ring-LWE",
            "program": self.program.name,
            "program_digest": self.program.digest,
            "stock": {
                "id": self._stored.stock if self._stored else None,
                "claimed": {"products": len(self._ahead)},
                "mode": "stock" if self._stored else "on-demand",
            },
        }

    def _opened(self, inputs: list[Integers], publics: list[int], n: int) -> Sequence[int]:
        found = self._session.call(inputs, publics)
        return [found] if isinstance(found, int) else found
