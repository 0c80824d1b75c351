"""pdml-spdz offline: material that depends on no data, made ahead of a run."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource
from rich.console import Console
from rich.table import Table

from pdml_spdz.cli.options import CENTRE, FACTORISATION, STOCK, Option, options, study_settings
from pdml_spdz.cli.party import address, listening_socket, supervised_run
from pdml_spdz.cli.show import Watcher
from pdml_spdz.engines.mp_spdz import home as homes
from pdml_spdz.engines.mp_spdz import offline as mp_spdz_offline
from pdml_spdz.engines.mp_spdz.compiler import Compiled
from pdml_spdz.engines.mp_spdz.pool import Manifest, list_stocks
from pdml_spdz.engines.mp_spdz.protocols import protocol
from pdml_spdz.local.joint import local_study
from pdml_spdz.local.supervisor import PartyCommands, supervise
from pdml_spdz.offline.make import forecast
from pdml_spdz.offline.material import Plan
from pdml_spdz.offline.status import Row, status
from pdml_spdz.offline.stock import Kind
from pdml_spdz.run.context import PartyRun, stock_root
from pdml_spdz.run.engine_setup import DEFAULT_PROTOCOL, mp_spdz_plan, stock_plan
from pdml_spdz.run.party import make_stock
from pdml_spdz.study.file import load
from pdml_spdz.study.model import ALGORITHMS, MAX_PARTIES, Study

_json: Option = click.option("--json", "as_json", is_flag=True, help="Machine-readable output.")
# The study's own options, less those that only a run needs.
PROBLEM: list[Option] = [
    click.option("--algorithm", type=click.Choice(ALGORITHMS), default="svd", show_default=True),
    click.option("--parties", "-M", type=click.IntRange(2, MAX_PARTIES), default=3, show_default=True),
    click.option("--dim", "-d", type=click.IntRange(0), default=0, help="Number of features."),
    click.option("--rank", "-k", type=click.IntRange(1), default=1, show_default=True),
    *FACTORISATION[1:],
    *CENTRE,
    click.option("--mp-spdz", type=click.Path(path_type=Path), help="Where MP-SPDZ is [default: MP_SPDZ_HOME]."),
]


@click.group()
def offline() -> None:
    """The offline phase: make a stock before any data exists, use it once.

    \b
    Examples:
      pdml-spdz offline plan --parties 3 --dim 64 --rank 7 --iterations 300
      pdml-spdz offline make --parties 3 --dim 64 --rank 7 --iterations 300    all parties on this machine
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
    """What one run takes from the offline phase, and what making it will cost."""
    home = given.pop("mp_spdz")
    agreed = _study(study_file, given)
    if agreed.engine == "mp-spdz":
        compiled, executions = mp_spdz_plan(agreed, homes.require(home))
        facts = {"counts": asdict(compiled.counts), "domain": compiled.domain, "executions": executions}
        click.echo(json.dumps(facts) if as_json else _mp_spdz_forecast(agreed, compiled, executions))
        return
    wanted, kind = stock_plan(agreed)
    if as_json:
        expected = asdict(forecast(wanted, kind))
        click.echo(json.dumps({"plan": asdict(wanted), "kind": asdict(kind), "forecast": expected}))
    else:
        click.echo(_forecast(wanted, kind))


def _forecast(wanted: Plan, kind: Kind) -> str:
    expected = forecast(wanted, kind)
    return (
        f"material for one run of {kind.M} parties: {wanted.triples:,} triples in Z_2^{kind.scalar_bits}, "
        f"{wanted.numbers:,} VOLE numbers in Z_2^{kind.vector_bits} under {len(wanted.vectors):,} secret scalar(s)\n"
        f"forecast for each party: {expected.disk / 1e6:,.1f} MB on disk, {expected.sent / 1e6:,.1f} MB sent, "
        f"about {expected.seconds:,.0f} s of one core"
    )


def _mp_spdz_forecast(agreed: Study, compiled: Compiled, executions: int) -> str:
    chosen = protocol(agreed.protocol or DEFAULT_PROTOCOL)
    disk = executions * mp_spdz_offline.forecast(compiled, malicious=chosen.malicious)
    return (
        f"material for one run of {agreed.M} parties with {chosen.name}, over {compiled.domain}: "
        f"{compiled.counts.in_words}, {executions} time(s), by MP-SPDZ's own count\n"
        f"forecast for each party: about {disk / 1e6:,.1f} MB on disk"
    )


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
    """Make a stock for one run, by all parties together: on this machine, or one party of STUDY."""
    home = given.pop("mp_spdz")
    agreed = _study(study_file, given)
    root = stock_root(stock).absolute()

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
            )
        )

    if supervised:
        supervised_run(party)
        return
    console = Console(stderr=as_json)
    if agreed.engine == "mp-spdz":
        console.print(_mp_spdz_forecast(agreed, *mp_spdz_plan(agreed, homes.require(home))), highlight=False)
    else:
        console.print(_forecast(*stock_plan(agreed)), highlight=False)
    with Watcher(console) as watcher:
        if me is None:
            reports = _make_here(agreed, root, home, watcher)
        else:
            reports = [party(lambda event: watcher(me if event["event"] != "offline" else 0, event))]
    if as_json:
        click.echo(json.dumps(reports))
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
    """What stocks there are, what is left of them, and which runs claimed the rest."""
    root = stock_root(stock)
    rows, others = status(root), list_stocks(root)
    if as_json:
        click.echo(json.dumps([*map(asdict, rows), *map(asdict, others)], default=str))
        return
    if others:
        Console().print(_mp_spdz_table(others))
    if not rows and not others:
        click.echo(f"no stock in {root}; make one with `pdml-spdz offline make`")
    if not rows:
        return
    table = Table()
    for column in ("stock", "party", "of", "rings", "triples left", "scalars left", "MB", "made", "claimed by"):
        table.add_column(column)
    for row in rows:
        table.add_row(*_cells(row))
    Console().print(table)


def _mp_spdz_table(stocks: list[Manifest]) -> Table:
    table = Table(title="MP-SPDZ, one execution each")
    for column in ("stock", "party", "of", "protocol", "program", "triples", "MB", "made"):
        table.add_column(column)
    for s in stocks:
        triples, size = f"{s.counts['triples']:,}", f"{s.bytes / 1e6:.1f}"
        table.add_row(s.id, f"P{s.party}", str(s.parties), s.protocol, s.program, triples, size, s.created)
    return table


def _cells(row: Row) -> list[str]:
    if row.kind is None:
        return [row.stock, f"P{row.party}", "?", "?", "?", "?", f"{row.bytes / 1e6:.1f}", "?", row.problem]
    claims = ", ".join(f"{claim.run[:12]} ({claim.time})" for claim in row.claims) or "nobody"
    return [
        row.stock,
        f"P{row.party}",
        str(row.kind.M),
        f"{row.kind.vector_bits}/{row.kind.scalar_bits}",
        f"{row.triples_left:,} of {row.triples:,}",
        f"{len(row.scalars_left)} of {row.scalars}",
        f"{row.bytes / 1e6:.1f}",
        row.created,
        claims,
    ]
