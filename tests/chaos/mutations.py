"""Files as accidents and strangers leave them."""

from __future__ import annotations

import random

ODD_VALUES = [
    *('"²"', "inf", "nan", "-1", "0", "1e400", "9" * 30, "9" * 5000, '""', "[]", "{}", "true", "1979-05-27", "0.5"),
    *("[" * 3000 + "]" * 3000, '"\\u0000"', '"\\u001b[2J"', '"' + "a" * 300 + '"', '"xn--\\u00fc"', "1e10", '"auto"'),
]


def bytes_changed(data: bytes, chance: random.Random) -> bytes:
    """Flipped, cut off, doubled, overwritten or emptied somewhere."""
    at, length = chance.randrange(len(data) + 1), chance.choice([1, 1, 4, 16, 200])
    kind = chance.choice(["flip", "flip", "cut", "insert", "overwrite", "delete", "double", "empty", "zero"])
    match kind:
        case "flip" if at < len(data):
            return data[:at] + bytes([data[at] ^ 1 << chance.randrange(8)]) + data[at + 1 :]
        case "cut":
            return data[:at]
        case "insert":
            return data[:at] + chance.randbytes(length) + data[at:]
        case "overwrite":
            return data[:at] + chance.randbytes(length) + data[at + length :]
        case "delete":
            return data[:at] + data[at + length :]
        case "double":
            return data + data
        case "zero":
            return data[:at] + bytes(len(data) - at)
        case _:
            return b""


def study_changed(text: str, chance: random.Random) -> str:
    """One to three lines of a study are not what they were."""
    lines = text.split("\n")
    for _ in range(chance.randint(1, 3)):
        places = [i for i, line in enumerate(lines) if "=" in line and not line.startswith("#")]
        i = chance.choice(places or [0])
        match chance.choice(["value", "value", "value", "drop", "double", "swap", "rename", "bytes"]):
            case "value":
                lines[i] = f"{lines[i].partition('=')[0]}= {chance.choice(ODD_VALUES)}"
            case "drop":
                del lines[i]
            case "double":
                lines.insert(i, lines[i])
            case "swap":
                j = chance.choice(places or [0])
                lines[i], lines[j] = lines[j], lines[i]
            case "rename":
                lines[i] = f"x{lines[i]}"
            case "bytes":
                changed = bytes_changed("\n".join(lines).encode(), chance)
                lines = changed.decode("utf-8", "replace").split("\n")
    return "\n".join(lines)
