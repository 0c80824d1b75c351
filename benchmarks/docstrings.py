"""How `make docs` reads the package's docstrings: the house's way of writing them, in the words of NumPy's.

A parameter or attribute is one entry `name : what it is`, with what does not fit on its line indented below; its type
is in the signature. NumPy's style would take the text after the colon for the type. The comment beside a field of a
class is its description. mkdocs.yml names this module as an extension of griffe.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

ENTRY = re.compile(r"(\w+(?:, \w+)*) : (\S.*)")
HEADINGS = ("Parameters", "Attributes")


def numpy_style(text: str, heading: str) -> str:
    """The same docstring with entries as NumPy's style has them, under a heading (`heading`, if there is none yet).

    >>> print(numpy_style("Vectors.\\n\\nV : (d, k)", "Attributes"))
    Vectors.
    <BLANKLINE>
    Attributes
    ----------
    V
        (d, k)
    """
    lines, found = [], any(line in HEADINGS for line in text.splitlines())
    for line in text.splitlines():
        entry = ENTRY.fullmatch(line)
        if entry is None:
            lines.append(line)
            continue
        if not found:
            lines += ["", heading, "-" * len(heading)]
            found = True
        lines += [entry[1], f"    {entry[2]}"]
    return "\n".join(lines)


def comment(line: str) -> str:
    """What a comment says to people: the last one of a line, if it is not for a linter.

    >>> comment("tol: float = None  # type: ignore[assignment]  # None: as suits the others")
    'None: as suits the others'
    """
    said = line.rpartition("  # ")[2] if "  # " in line else ""
    return "" if said.startswith(("type:", "noqa")) else said


class HouseStyle(griffe.Extension):
    """Rewrites docstrings as they are read; nothing of the package is imported."""

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            heading = "Attributes" if obj.is_class else "Parameters"
            obj.docstring.value = numpy_style(obj.docstring.value, heading)
        elif obj.is_attribute and obj.lines and (said := comment(obj.lines[0])):
            obj.docstring = griffe.Docstring(said, parent=obj)
