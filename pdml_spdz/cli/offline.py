"""pdml-spdz offline: material that depends on no data, made ahead of a run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.table import Table

from pdml_spdz.cli import sections
from pdml_spdz.cli.options import (
    CENTRE,
    FACTORISATION,
    HOME,
    STOCK,
    Option,
    address,
    options,
    stopping,
    study_settings,
)
from pdml_spdz.cli.party import listening_socket, supervised_run
from pdml_spdz.cli.show import Screen, Watcher
from pdml_spdz.cli.words import echo
from pdml_spdz.engines.spec import OfflinePlan, Stocks
from pdml_spdz.local.joint import local_study
from pdml_spdz.local.supervisor import PartyCommands, supervise
from pdml_spdz.run.context import PartyRun, stock_root
from pdml_spdz.run.party import make_stock, offline_phase, offline_plan
from pdml_spdz.study.algorithm import ALGORITHMS, DEFAULT
from pdml_spdz.study.engines import ENGINES
from pdml_spdz.study.file import load
from pdml_spdz.study.model import MAX_PARTIES, Study

_json: Option = click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
# The study's own options, less those that only a run needs.
PROBLEM: list[Option] = [
    click.option("--algorithm", type=click.Choice(ALGORITHMS.names()), default=DEFAULT, show_default=True),
    click.option("--parties", "-M", type=click.IntRange(2, MAX_PARTIES), default=3, show_default=True),
    click.option("--dim", "-d", type=click.IntRange(0), default=0, help="Number of features."),
    click.option("--rank", "-k", type=click.IntRange(1), default=1, show_default=True),
    *stopping(ALGORITHMS[DEFAULT]),
    *FACTORISATION,
    *CENTRE,
    HOME,
]


@sections.group()
def offline() -> None:
    """The offline phase: make a stock before any data exists, use it once.

    \b
    Examples:
      pdml-spdz offline plan --parties 3 --dim 64 --rank 7
      pdml-spdz offline make --parties 2 --dim 8 --rank 1                      all parties on this machine
      pdml-spdz offline plan --algorithm pca --centre hidden --dim 64 --rank 7
      pdml-spdz offline make study.toml --id 0                                 one party; all run it together
      pdml-spdz offline status
    """


def _study(study_file: Path | None, given: dict[str, Any]) -> Study:
    if study_file is not None:
        context = click.get_current_context()
        twice = [name for name in given if context.get_parameter_source(name) == ParameterSource.COMMANDLINE]
        if twice:
            raise click.UsageError(f"{', '.join(twice)}: the study says it; give either STUDY or these options")
        return load(study_file)
    parties, d = given.pop("parties"), given.pop("dim")
    return local_study(parties, d=d, **study_settings(given))


@offline.command()
@click.argument("study_file", metavar="[STUDY]", required=False, type=click.Path(path_type=Path))
@options(PROBLEM)
@_json
def plan(study_file: Path | None, as_json: bool, **given: Any) -> None:
    """What one run takes from the offline phase, and what making it will cost.

    \b
    Example:
      pdml-spdz offline plan --parties 3 --dim 64 --rank 7
    """
    home = given.pop("mp_spdz")
    agreed = _study(study_file, given)
    wanted = offline_plan(agreed, home)
    echo(json.dumps(wanted.facts) if as_json else wanted.text)


@offline.command("make")
@click.argument("study_file", metavar="[STUDY]", required=False, type=click.Path(path_type=Path))
@options(PROBLEM)
@click.option("--id", "me", type=click.IntRange(0), help="Which party of STUDY this is; without it all run here.")
@click.option("--certs", type=click.Path(path_type=Path), help="Key and certificates [default: certs/ beside STUDY].")
@click.option("--listen", callback=address, metavar="HOST:PORT", help="Listen here instead of the study's address.")
@STOCK
@_json
@click.option("--listen-fd", type=int, hidden=True)
@click.option("--supervised", is_flag=True, hidden=True)
def make_command(
    study_file: Path | None,
    me: int | None,
    certs: Path | None,
    listen: tuple[str, int] | None,
    stock: Path | None,
    as_json: bool,
    listen_fd: int | None,
    supervised: bool,
    **given: Any,
) -> None:
    """Make a stock for one run, by all parties together: on this machine, or one party of STUDY.

    \b
    Examples:
      pdml-spdz offline make --parties 2 --dim 8 --rank 1
      pdml-spdz offline make study.toml --id 0
    """
    home = given.pop("mp_spdz")
    agreed = _study(study_file, given)
    root = stock_root(stock).absolute()
    console = Screen(stderr=as_json)

    def show(plan: OfflinePlan) -> None:
        if not supervised:
            console.print(plan.text, highlight=False)

    def party(notify: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
        assert me is not None
        where = certs or (study_file or Path()).parent / "certs"
        listener = listening_socket(listen_fd)
        return make_stock(
            PartyRun(
                agreed,
                me,
                Path(),
                where,
                root,
                listener=listener,
                listen=listen,
                notify=notify,
                stock=root,
                mp_spdz=home,
            ),
            show,
        )

    if supervised:
        supervised_run(party)
        return
    if me is None:  # one party of several tells the others if it is not
        offline_phase(agreed).ready(agreed, home)
        show(offline_plan(agreed, home))
    with Watcher(console) as watcher:
        if me is None:
            reports = _make_here(agreed, root, home, watcher)
        else:
            reports = [party(lambda event: watcher(me if event["event"] != "offline" else 0, event))]
    if as_json:
        echo(json.dumps(reports))
        return
    slowest = max(report["seconds"] for report in reports)
    sent = reports[0]["bytes_sent"]
    traffic = "" if sent is None else f", {sent / 1e6:,.1f} MB sent by each party"
    console.print(f"made stock [bold]{reports[0]['stock']}[/bold] in {slowest:.1f} s{traffic}; single use, in {root}")


def _make_here(agreed: Study, root: Path, home: Path | None, watcher: Watcher) -> list[dict[str, Any]]:
    """All parties on this machine, one process each."""
    with tempfile.TemporaryDirectory(prefix="pdml-spdz-") as logs:

        def command(m: int, study: Path) -> list[str]:
            place = ["--mp-spdz", str(home)] if home else []
            return ["offline", "make", str(study), "--id", str(m), "--stock", str(root), *place]

        return supervise(PartyCommands(agreed, Path(logs), command, watcher))


@offline.command("status")
@STOCK
@_json
def status_command(stock: Path | None, as_json: bool) -> None:
    """What stocks there are, what is left of them, and which runs claimed the rest.

    \b
    Example:
      pdml-spdz offline status
    """
    root = stock_root(stock)
    phases = (ENGINES[name].offline for name in ENGINES.names())
    found = [phase.status(root) for phase in phases if phase is not None]
    if as_json:
        echo(json.dumps([fact for stocks in found for fact in stocks.facts], default=str))
        return
    if not any(stocks.rows for stocks in found):
        echo(f"no stock in {root}; make one with `pdml-spdz offline make`")
    for stocks in found:
        if stocks.rows:
            Screen().print(_table(stocks))


def _table(stocks: Stocks) -> Table:
    table = Table(*stocks.columns, title=stocks.title)
    for row in stocks.rows:
        table.add_row(*row)
    return table
