"""Sealed fits on MP-SPDZ: the program `sealed_svd` on its virtual machines, for few features."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from pdml_spdz.engines.mp_spdz.execution import MpSpdzExecution
from pdml_spdz.engines.mp_spdz.protocols import PROTOCOLS, protocol_of
from pdml_spdz.engines.sealed_program import SealedProgram
from pdml_spdz.errors import StudyError
from pdml_spdz.offline.mask_products import Integers
from pdml_spdz.programs.sealed_precision import SealedPrecision

if TYPE_CHECKING:
    from pdml_spdz.study.algorithm import Want
    from pdml_spdz.study.model import Study

MOST_FEATURES = 16


class SealedExecution(SealedProgram):
    """One fit on one virtual machine a party. Its truncation rounds to either side, by chance: no bias."""

    def __init__(self, execution: MpSpdzExecution, precision: SealedPrecision) -> None:
        super().__init__(execution.runner.place.link, precision)
        self._execution = execution

    def _opened(self, inputs: list[Integers], publics: list[int], n: int) -> Sequence[int]:
        own = [int(x) for numbers in inputs for x in numbers]
        opened = np.frombuffer(self._execution.exchange(publics, own, n + 1), "<i8")[:-1]  # and a zero
        return [int(x) for x in opened]


def check(study: Study, want: Want) -> None:
    """StudyError if there is no such protocol, or if it has no sealed fits."""
    chosen = protocol_of(study)
    if not study.level.sealed:
        return
    fields = ", ".join(name for name, p in PROTOCOLS.items() if p.domain == "prime")
    found = f"`reveal` is {study.reveal!r} and `protocol` is {chosen.name!r}."
    want(chosen.domain == "prime", found, f"a protocol over a prime field with it: {fields}")
    if d := study.d or len(study.features):
        check_size(d)


def check_size(d: int) -> None:
    """d beyond what is practical is refused, not tried."""
    if d > MOST_FEATURES:
        raise StudyError(
            f"d is {d} with a sealed fit on the engine mp-spdz, of whose random bits 16 features take gigabytes with "
            "malicious protocols.",
            f"at most {MOST_FEATURES} features",
            "leave out features, or take --engine embedded, whose parties are trusted to follow the protocol",
        )
