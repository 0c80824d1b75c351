"""The engines by name. A line says where an engine's `EngineSpec` is; another package may bring more (`registry`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from pdml_spdz.registry import Line, Registry

if TYPE_CHECKING:
    from pdml_spdz.engines.spec import EngineSpec

ENGINES: Registry[EngineSpec] = Registry(
    "engine",
    {
        "embedded": Line("pdml_spdz.engines.embedded.spec:EMBEDDED"),
        "mp-spdz": Line("pdml_spdz.engines.mp_spdz.spec:MP_SPDZ"),
        "secsum": Line("pdml_spdz.engines.secsum:SECSUM"),
        "plain": Line("pdml_spdz.engines.plain:PLAIN"),
    },
)


def engines_that(fit: Callable[[EngineSpec], bool]) -> str:
    """The names of those that fit, for a message. All engines are loaded for it."""
    return " or ".join(name for name in ENGINES.names() if fit(ENGINES[name]))
