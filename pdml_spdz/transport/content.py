"""What a peer sends as JSON, before anybody relies on it."""

from __future__ import annotations

import json
from typing import Any

from pdml_spdz.transport.base import Buffer, view


def read_object(raw: Buffer) -> dict[str, Any]:
    """The JSON object in `raw`; ValueError for whatever else.

    Python's reader takes more than JSON has: NaN, Infinity and numbers that become it, halves of characters that no
    file or terminal takes; it gives up on deep nesting with an error of another class.
    """
    try:
        content = json.loads(bytes(view(raw)))
        json.dumps(content, ensure_ascii=False, allow_nan=False).encode()
    except RecursionError:
        raise ValueError("nested too deep") from None
    if not isinstance(content, dict):
        raise ValueError("not an object")
    return content
