"""All commands, and the one place where an error becomes a message and an exit code."""

from __future__ import annotations

import errno
import importlib
import io
import os
import sys
from contextlib import suppress
from typing import Any, NoReturn

import click

from pdml_spdz import __version__
from pdml_spdz.errors import INTERRUPTED, PdmlError, exit_codes, printable
from pdml_spdz.study.algorithm import ALGORITHMS

# By what people want: name, where it is (module of this package : attribute), the first sentence of its help. The first
# group also has a command for each algorithm.
COMPUTE = "Compute, with all parties on this machine"
GROUPS: dict[str, tuple[tuple[str, str, str], ...]] = {
    COMPUTE: (
        (
            "documents",
            "documents:documents",
            "Count the words of this party's documents in SOURCE: a directory, .txt or .jsonl file (also .gz).",
        ),
    ),
    "Use a result": (
        (
            "project",
            "project:project",
            "Write the coordinates of ROWS in the components of a finished RUN, one line for each row.",
        ),
        (
            "reconstruct",
            "project:reconstruct",
            "Write ROWS as the components of a finished RUN have them, in their own units, and how far that is off.",
        ),
        ("topics", "read_topics:topics", "The words of each topic of a finished RUN of nmf, and the own rows of each."),
        ("recommend", "read_topics:recommend", "What a user would rate highest, by a finished RUN of nmf."),
        ("regress", "regress:regress", "Predict a column from the components of a finished RUN (pca, svd)."),
        (
            "page",
            "project:page",
            "Write the page of a finished RUN, result.html, again; with --rows, with a biplot of one's own rows.",
        ),
    ),
    "One party on each machine": (
        ("certs", "certs:certs", "Keys and certificates: made where they are used, pinned by fingerprint."),
        ("study", "study:study", "What M organisations agree on, as one file, with one code to compare by telephone."),
        ("join", "join:join", "Look at a BUNDLE, compare its code by telephone, and take part in its study."),
        ("party", "party:party", "Run one party of STUDY, with this party's rows."),
        (
            "init",
            "init:init",
            "Write a commented study.toml, to be edited and then packed with all certificates (`study pack`).",
        ),
    ),
    "Look before you run": (
        ("check", "check:check", "Read FILES as a run would, without a network: what is in them, and what is wrong."),
        ("privacy", "privacy:privacy", "What do the others learn about any one of my records?"),
        (
            "doctor",
            "doctor:doctor",
            "Check this machine and, with STUDY, all that this party needs for it: engine, key, port, peers.",
        ),
        ("completion", "completion:completion", "Completion of commands and options, for your shell."),
    ),
    "Expert": (
        ("offline", "offline:offline", "The offline phase: make a stock before any data exists, use it once."),
        (
            "mp-spdz",
            "mp_spdz:mp_spdz",
            "MP-SPDZ, the program behind the engine for malicious parties: what is here of it.",
        ),
        ("render", "programs:render", "Render the MP-SPDZ program NAME from its template."),
        ("precision", "programs:precision", "Explain the bit budget: what is computed with how many bits, and why."),
        ("bench", "bench:bench", "What things cost on this machine, with where every number comes from."),
    ),
}
UNWRITABLE = {errno.ENOSPC, errno.EDQUOT, errno.EPIPE, errno.EIO}
COMMANDS = tuple(line for lines in GROUPS.values() for line in lines)


class Listed(click.Command):
    """What a list of commands says of one of them; the command itself is imported when somebody calls it."""

    def __init__(self, name: str, where: str, text: str) -> None:
        super().__init__(name, help=text)
        self.where = where

    def load(self) -> click.Command:
        module, _, attribute = self.where.partition(":")
        command: click.Command = getattr(importlib.import_module(f"pdml_spdz.cli.{module}"), attribute)
        return command


class FitCommand(Listed):
    """The command of an algorithm."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name, "fit:command", text)

    def load(self) -> click.Command:
        from pdml_spdz.cli.fit import command

        return command(str(self.name))


class ByName(click.Group):
    """Help and completion are content with the list; to call a command is to import it, and no other one."""

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        found = super().get_command(ctx, cmd_name)
        # An algorithm of another package has a command, too, and is looked for only if somebody asks for it.
        return FitCommand(cmd_name, "") if found is None and cmd_name in ALGORITHMS else found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, lines in GROUPS.items():
            names = [name for name, *_ in lines]
            names = [*ALGORITHMS.lines, *names] if title == COMPUTE else names
            with formatter.section(title):
                formatter.write_dl([(name, self.commands[name].get_short_help_str(100)) for name in names])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, Listed) else command, rest


def _exit_codes() -> str:
    return "\n".join(f"  {code:>3}  {name:<17} {meaning}" for code, name, meaning in exit_codes())


@click.group(
    cls=ByName,
    commands=[
        *(FitCommand(name, line.about) for name, line in ALGORITHMS.lines.items()),
        *(Listed(*c) for c in COMMANDS),
    ],
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="\b\nExit codes:\n" + _exit_codes(),
)
@click.version_option(__version__, prog_name="pdml-spdz")
def cli() -> None:
    """Private distributed SVD, PCA and NMF: M parties, each with its own rows, compute one factorisation of them all.

    \b
    Examples:
      pdml-spdz check a.csv b.csv c.csv                           what is in these files, and what is wrong
      pdml-spdz pca a.csv b.csv c.csv --rank 2 --out runs/mine    three local parties, one process each
      pdml-spdz project runs/mine a.csv --out scores.csv          where one's own rows lie
      pdml-spdz certs make --id 0 --name "Clinic A" --address 127.0.0.1:7000    a party on a machine of its own
      pdml-spdz privacy assess a.csv --rank 2                     what would the others learn of my records?
      pdml-spdz doctor                                            what is installed, what is missing

    Every command has examples: pdml-spdz COMMAND --help. A run writes a page, result.html, into its --out.
    """
    from pdml_spdz.system import process, signals  # not to show a list or a version

    signals.stop_on_signals()
    process.keep_freed()


def main() -> NoReturn:
    """The entry point: errors in words on standard error, and their class as exit code."""
    _open_streams()
    try:
        code: Any = cli.main(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except (click.exceptions.Abort, KeyboardInterrupt) as stopped:
        said = stopped.args or getattr(stopped.__cause__, "args", ())  # click has made an Abort of it
        _complain(" ".join(["pdml-spdz: stopped.", *map(str, said)]))
        sys.exit(INTERRUPTED)
    except click.ClickException as error:
        error.show(words := io.StringIO())
        _complain(words.getvalue().removesuffix("\n"))
        sys.exit(error.exit_code)
    except PdmlError as error:
        if not error.quiet:
            _say(error)
        sys.exit(error.code)
    except Exception as error:  # noqa: BLE001 - the last resort
        if isinstance(error, OSError) and (failed := _of_files(error)):
            if not failed.quiet:
                _say(failed)
            sys.exit(failed.code)
        import traceback  # and json, below: not to show a list or a version

        _complain(traceback.format_exc())
        sys.exit(PdmlError.code)
    finally:
        if signals := sys.modules.get("pdml_spdz.system.signals"):  # a command has begun
            signals.ignore_signals()


def _of_files(error: OSError) -> PdmlError | None:
    """What the system says of a file that has a name, or of standard output when click itself writes to it: a version,
    a help text. Commands write by `words.echo`, and links know what happened to them."""
    from pdml_spdz.system.files import not_usable, printing

    if error.filename is not None:
        return not_usable(error)
    if error.errno in UNWRITABLE:
        try:
            with printing(sys.stdout):
                raise error
        except PdmlError as failed:
            return failed
    return None


def _open_streams() -> None:
    """Whoever started this without standard streams wants no output; no file or socket may take their numbers."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115, PTH123 - until the end
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.encoding.lower() not in ("utf-8", "utf8"):
        sys.stdout.reconfigure(errors="backslashreplace")  # as standard error says what has no place in its encoding


def _say(error: PdmlError) -> None:
    if "--json" in sys.argv:
        import json

        content = {"class": type(error).__name__, "code": error.code, "message": str(error)}
        from pdml_spdz.cli.words import echo

        with suppress(PdmlError):
            echo(json.dumps({"error": content}))
    _complain(f"pdml-spdz: {error}")


def _complain(text: str) -> None:
    """On standard error; if that has no room either, the exit code is what is left to say."""
    with suppress(OSError):
        click.echo(printable(text), err=True)
