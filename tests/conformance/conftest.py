from __future__ import annotations

from tests.parties.conftest import parties

__all__ = ["parties"]
