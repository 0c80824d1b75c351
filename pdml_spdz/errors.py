"""Every error a user can meet: what was found, what was wanted, what to do, and an exit code for its class.

The classes are the one table of exit codes (`exit_codes()` prints it, docs/troubleshooting.md explains it).
`public` is the sentence that the other parties read. Only its code travels, and that never depends on a party's data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

LONGEST_NAME = 64  # characters of an organisation's name
INTERRUPTED = 130
SCALE = "scale the features (--scale secsum; in Python scale='secsum')"
LONG = re.compile(r"((?<![\w/.])['`](?!pdml-spdz )[^\n'`]{200})[^\n'`]+")  # a value that is quoted, but no command
RESUME = "`--resume` at all parties goes on from the last finished iteration"


def printable(text: str) -> str:
    """Text of a file or a peer as it may reach a terminal: line ends stay, every other control character is escaped."""
    return "".join(c if c.isprintable() or c == "\n" else ascii(c)[1:-1] for c in text)


class PdmlError(Exception):
    """An unexpected error; of `doctor`: a problem was found.

    The root of all others; `code` is the process's exit code, `public` is what the other parties are told.
    """

    code = 1
    public = "it met an unexpected error"
    quiet = False  # nobody is there who would read it

    def __init__(self, found: str, wanted: str = "", do: str = "", *, culprit: int | None = None) -> None:
        self.found, self.wanted, self.do = (printable(LONG.sub(r"\1...", text)) for text in (found, wanted, do))
        self.culprit = culprit
        lines = [self.found, wanted and f"Wanted: {self.wanted}", do and f"Do this: {self.do}"]
        super().__init__("\n".join(line for line in lines if line))

    def after(self, opened: Sequence[str]) -> None:
        """Say what every party had seen before the run ended."""
        if opened:
            self.args = (f"{self.args[0]}\nEvery party has seen by now: {'; '.join(opened)}.",)


class InputError(PdmlError, ValueError):
    """A party's own rows cannot be used: shape, NaN, format, an empty file."""

    code, public = 3, "it could not use its own input file"


class StudyError(PdmlError, ValueError):
    """The study file or a parameter is wrong."""

    code, public = 4, "its study file or a parameter is wrong"


class MismatchError(PdmlError, ValueError):
    """Two parties hold different studies, features, programs or versions."""

    code, public = 5, "it holds a different study, feature list or version"


class CertificateError(PdmlError):
    """A key or certificate is missing, expired, not pinned or not the pinned one."""

    code, public = 6, "it has a problem with a certificate"


class PeerError(PdmlError, ConnectionError):
    """A peer is unreachable, died or stalled."""

    code, public = 7, "it lost another party"


class PeerAborted(PdmlError):
    """Another party ended the run and said so."""

    code, public = 8, "it was told that another party ended the run"
    farewell = b""  # what it said, to be passed on as it is


class ProtocolError(PdmlError):
    """The parties are out of step, or a check of the protocol failed."""

    code, public = 9, "a check of the protocol failed"


class QuotaError(PdmlError, ValueError):
    """A number does not fit the agreed bound; nothing that depends on it was sent."""

    code, public = 10, "its rows exceed the agreed bound"


class RangeExceeded(QuotaError):
    """A sum is too small for the agreed bound and range; nothing that depends on it was opened."""

    code, public = 14, "a sum is too small for the agreed bound and range"


class EngineError(PdmlError):
    """The engine is unknown, missing, or does not offer what was asked."""

    code, public = 11, "its engine is missing or failed"


class ResumeError(PdmlError):
    """The run cannot be resumed: no common checkpoint, other data, other study."""

    code, public = 12, "it cannot resume from its checkpoint"


class StorageError(PdmlError, OSError):
    """A file could not be written or read: full disk, permissions."""

    code, public = 13, "it could not write to its disk"

    def __str__(self) -> str:  # OSError's own would print the arguments as a tuple
        return "\n".join(self.args)


class StockError(PdmlError):
    """The offline stock is missing, spent, damaged, or not the same as the others'."""

    code, public = 15, "its offline stock is missing, spent, or not the same as the others'"
    common = False  # True: all parties found out together and nothing was claimed, so the run may go on without it


class ClusterError(PdmlError, ConnectionError):
    """The cluster that holds a party's rows cannot be reached, or was lost."""

    code, public = 16, "it lost the cluster that holds its rows"


CLASSES: tuple[type[PdmlError], ...] = (
    PdmlError,
    InputError,
    StudyError,
    MismatchError,
    CertificateError,
    PeerError,
    PeerAborted,
    ProtocolError,
    QuotaError,
    RangeExceeded,
    EngineError,
    ResumeError,
    StorageError,
    StockError,
    ClusterError,
)

# Consequences of someone else's failure: never the reason of a run's end when another error is known.
# Who saw it comes before who was told.
SECONDARY: tuple[type[PdmlError], ...] = (PeerError, PeerAborted)


# What a party may say of its end, by the code that it sends.
PUBLIC = {c.code: c.public for c in CLASSES} | {INTERRUPTED: "it was stopped by hand"}


def by_name(name: str) -> type[PdmlError]:
    """The error class called `name`; the root class for a name from a newer version."""
    return {c.__name__: c for c in CLASSES}.get(name, PdmlError)


def did_you_mean(given: object, known: Iterable[str]) -> str:
    """A hint for a name that is misspelt, or nothing."""
    import difflib  # only where something is wrong

    near = difflib.get_close_matches(str(given), list(known), 1)
    return f"did you mean `{near[0]}`?" if near else ""


def exit_codes() -> list[tuple[int, str, str]]:
    """(exit code, class, meaning): the table of the docs and of `pdml-spdz --help`."""
    rows = [(0, "-", "the run ended well"), (2, "usage", "an option or argument of the command is wrong")]
    rows += [(c.code, c.__name__, (c.__doc__ or "").splitlines()[0]) for c in CLASSES]
    rows += [(INTERRUPTED, "interrupted", "stopped from the keyboard or by a signal")]
    return sorted(rows)
