"""Engines by name."""

from __future__ import annotations

from pdml_spdz.engines.base import Engine
from pdml_spdz.engines.embedded.engine import EmbeddedEngine, Options
from pdml_spdz.engines.plain import PlainEngine
from pdml_spdz.engines.secsum import SecSumEngine
from pdml_spdz.errors import EngineError
from pdml_spdz.transport.base import Link


def make(name: str, link: Link, run: bytes, options: Options) -> Engine:
    """The engine called `name` on this link; `run` is the public identity of the run."""
    if name == "plain":
        return PlainEngine(link)
    if name == "secsum":
        return SecSumEngine(link, run, options.aggregator)
    if name == "embedded":
        return EmbeddedEngine(link, run, options)
    raise EngineError(f"there is no engine {name!r}.", "embedded, secsum or plain")
