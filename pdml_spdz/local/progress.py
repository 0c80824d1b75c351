"""A run in progress, for people: notes while the parties meet, a bar while they iterate."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from types import TracebackType
from typing import Any

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.segment import Segment

from pdml_spdz.errors import printable
from pdml_spdz.run.context import Event
from pdml_spdz.system.files import printing


class Screen(Console):
    """A console on which control characters of what is shown are escaped; rich's own are kept apart from text.

    An output that cannot be written is an error, once.
    """

    def print(self, *objects: Any, **settings: Any) -> None:
        with printing(self.file):
            super().print(*objects, **settings)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


class Watcher:
    """Shows what the parties say of themselves: notes while they meet, a bar while they iterate."""

    def __init__(self, console: Console) -> None:
        self.progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            MofNCompleteColumn(),
            TextColumn("{task.fields[detail]}"),
            TimeElapsedColumn(),
            console=console,
        )
        self._task: TaskID | None = None
        self._waiting: TaskID | None = None

    def __enter__(self) -> Watcher:
        self.progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with printing(self.progress.console.file):
            self.progress.stop()

    def __call__(self, party: int, event: Event) -> None:
        if event["event"] == "note":
            self.progress.console.print(f"[dim]P{party}: {escape(event['text'])}[/dim]", highlight=False)
        elif event["event"] == "failing":
            self.progress.console.print(f"[red]P{party}: {escape(event['message'])}[/red]", highlight=False)
        elif event["event"] == "waiting":
            self._wait(party, event)
        elif event["event"] == "iteration" and party == 0:
            change = event["change"]  # of a sealed fit nobody knows it
            self._bar("iterations", event["t"], event["of"], "" if change is None else f"change {change:.1e}")
        elif event["event"] == "offline" and party == 0:
            self._bar("offline phase", event["done"], event["of"], event["detail"])
        elif event["event"] == "rows" and event["of"] > 1:
            self._bar("rows", event["done"], event["of"], f"P{party}")
        elif event["event"] == "samples":
            self._bar("samples", event["done"], event["of"], event["detail"])

    def _wait(self, party: int, event: Event) -> None:
        """Who is missing, as a note, and on a terminal with how long this party has waited."""
        missing, of = event["missing"], event["of"]
        if self._waiting is not None:
            self.progress.remove_task(self._waiting)
            self._waiting = None
        if missing:
            text = f"waiting for {', '.join(missing)}"
            self.progress.console.print(f"[dim]P{party}: {escape(text)}[/dim]", highlight=False)
            self._waiting = self.progress.add_task(
                escape(text), total=of, completed=of - len(missing), detail="parties are here"
            )

    def _bar(self, name: str, done: int, total: int, detail: str) -> None:
        if self._task is None:
            self._task = self.progress.add_task(name, total=total, detail="")
        self.progress.update(self._task, description=name, total=total, completed=done, detail=detail)
