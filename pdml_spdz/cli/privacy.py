"""pdml-spdz privacy: what do the others learn about any one of my records?"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.table import Table

from pdml_spdz.cli import sections
from pdml_spdz.cli.options import Option, options, shown
from pdml_spdz.cli.row_options import READING, ROWS, reading_of, row_settings
from pdml_spdz.cli.show import Screen, Watcher
from pdml_spdz.cli.words import echo
from pdml_spdz.engines import transcript as transcripts
from pdml_spdz.errors import InputError
from pdml_spdz.numerics.fixedpoint import Reals
from pdml_spdz.privacy import page
from pdml_spdz.privacy.assess import (
    ALGORITHMS,
    EVERY_VIEW,
    LEVELS_UP_TO,
    EffectiveSize,
    Question,
    by_subtraction,
    effective_sizes,
    experiment,
    own_risks,
    share_closed,
    to_exclude,
)
from pdml_spdz.privacy.attack_run import attack
from pdml_spdz.privacy.known import Known
from pdml_spdz.privacy.ksdp import Experiment, run
from pdml_spdz.privacy.nmf_mechanism import STARTS
from pdml_spdz.privacy.verdict import Observer, judge
from pdml_spdz.rows import data as data_files
from pdml_spdz.rows.base import Rows, RowsLike
from pdml_spdz.rows.data import Data
from pdml_spdz.rows.reading import MEAN, RowsWanted
from pdml_spdz.system.files import save_text, writing

_path = click.Path(path_type=Path)
_positive = click.IntRange(1)
_json: Option = click.option("--json", "as_json", is_flag=True, help="Machine-readable output on standard output.")
MEASURE: list[Option] = [
    click.option("--algorithm", type=click.Choice(ALGORITHMS), default="svd", show_default=True),
    click.option("--rank", "-k", type=_positive, required=True, help="Rank of the factorisation."),
    click.option("--others", type=_path, help="Rows that stand for the other parties' [default: drawn from FILE]."),
    click.option(
        "--size", type=click.IntRange(0), default=0, help="Rows of a sampled database [default: half of FILE]."
    ),
    click.option("--documents", default="50", show_default=True, metavar="N|all|@FILE", help="Which records."),
    click.option("--samples", type=click.IntRange(4), default=100, show_default=True, help="Databases in each arm."),
    click.option(
        "--view",
        "views",
        type=click.Choice(EVERY_VIEW),
        multiple=True,
        help=f"Observers; the first 8 are of svd and pca [default: assess: one of each level, up to {LEVELS_UP_TO} "
        "features; else those of the paper].",
    ),
    click.option("--sweeps", type=_positive, default=20, show_default=True, help="Number of NMF sweeps."),
    click.option("--start", type=click.Choice(STARTS), default="random", show_default=True, help="Start of NMF."),
    click.option(
        "--weighted",
        is_flag=True,
        help="NMF: what a sparse file does not store, and zeros of a dense one, are missing.",
    ),
    click.option(
        "--statistic", "statistics", multiple=True, metavar="FILE.py:NAME", help="One more: f(seen, x) -> number."
    ),
    click.option("--pi", type=click.FloatRange(0, 1), default=0.05, show_default=True, help="The p that is wanted."),
    click.option("--level", type=click.FloatRange(0, 1, min_open=True), default=0.05, show_default=True),
    click.option(
        "--delta", type=click.FloatRange(0, 1), default=0.0, show_default=True, help="delta of (epsilon, delta)."
    ),
    click.option("--seed", type=click.IntRange(0), help="Seed of the samples [default: drawn, and kept in --out]."),
    click.option("--jobs", type=_positive, default=os.cpu_count() or 1, help="Processes [default: all cores]."),
    *ROWS,
    click.option(
        "--scale",
        type=click.Choice(["secsum"]),
        help="As the run would: features over their deviations (pca) or root mean squares, here those of FILE.",
    ),
    *READING,
    _json,
]
CONSTANT = 1e-10  # of a feature's size: what is left of one that does not vary
SCALED = "Every feature is divided by its deviation, or root mean square, in this party's rows."
FILLED = "Missing values have the mean of this party's values."


@sections.group()
def privacy() -> None:
    """What do the others learn about any one of my records?

    \b
    Examples:
      pdml-spdz privacy assess rows.csv --algorithm pca --rank 5             before joining: measure, write a report
      pdml-spdz svd a.csv b.csv --rank 5 --record-transcript --out runs/x    a run that keeps what a party sees
      pdml-spdz privacy attack runs/x --own b.csv                            what a coalition makes of it
      pdml-spdz privacy report runs/x                                        one page, privacy.html
      pdml-spdz privacy exclude runs/assess --out leave-out.txt              the records to leave out
    """


def _ksdp(
    file: Path, out: Path, as_json: bool, jobs: int, given: dict[str, Any]
) -> tuple[dict[str, Any], list[Observer], Experiment]:
    judged = {name: given.pop(name) for name in ("pi", "level", "delta")}
    reading = reading_of(given)
    agreed = row_settings(given, reading)
    wanted = RowsWanted(reading, agreed["rows"], tuple(agreed.get("features", ())))
    own, others, scaled = _load(file, wanted), given.pop("others"), given.pop("scale") is not None
    unit = _deviations(own.rows, centred=given["algorithm"] == "pca") if scaled else None
    rows = _over(own, unit)
    aside = replace(wanted, reading=replace(reading, exclude=()))  # which is about the records of FILE
    given["others"] = None if others is None else _over(_load(others, aside).in_order(own.features, file.name), unit)
    given["documents"] = _documents(given["documents"], own)
    if given["seed"] is None:
        given["seed"] = _kept_seed(out)
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        out.chmod(0o700)  # it names single records
    question = Question(**given)
    planned, assumptions = experiment(rows, question, out / "samples")
    assumptions += [*([FILLED] if wanted.agreed.missing == MEAN else []), *([SCALED] if scaled else [])]
    with Watcher(Screen(stderr=as_json)) as watcher:
        samples = run(planned, jobs=jobs, progress=_progress(watcher))
    views = judge(samples, planned.plan.documents, **judged)
    settings = {
        "file": file.name,
        "algorithm": question.algorithm,
        "rows": rows.shape[0],
        "chosen": "random" if isinstance(question.documents, int) else "named",
        "closed": share_closed(samples, planned.mechanism),
        "assumptions": assumptions,
        "plan": asdict(planned.plan),
        "mechanism": planned.mechanism.settings(),
    }
    if own.ids is not None or own.kept is not None:
        names = own.names()
        settings["names"] = {str(i): names[i] for i in planned.plan.documents}
    return page.save_ksdp(out, settings, views), views, planned


def _load(path: Path, wanted: RowsWanted) -> Data:
    data = data_files.load(path, wanted=wanted).looked_at(wanted.agreed.missing)
    there = np.maximum(data.n - data.missing(), 1)
    rows = data.rows.filled(data.known.column_sums() / there) if data.holes else data.rows
    return replace(data, rows=rows, holes=False)


def _deviations(rows: Rows, *, centred: bool) -> Reals:
    """As `--scale secsum` has them of all rows; 1 for a feature that does not vary, but for rounding."""
    n = rows.shape[0]
    mu = rows.column_sums() / n if centred else None
    found, size = (np.sqrt(rows.column_squares(centre) / n) for centre in (mu, None))
    return np.where(found > CONSTANT * size, found, 1.0)


def _over(data: Data, unit: Reals | None) -> RowsLike:
    return data.X if unit is None else data.rows.over(unit).unwrapped()


def _progress(watcher: Watcher) -> Callable[[int, int], None]:
    return lambda done, of: watcher(0, {"event": "samples", "done": done, "of": of, "detail": "databases"})


def _kept_seed(out: Path) -> int:
    """The seed of the samples that an earlier run has begun, or a new one."""
    begun = page.read(out / "samples", "plan.json")
    return secrets.randbits(62) if begun is None else int(begun["plan"]["seed"])


def _documents(text: str, own: Data) -> int | list[int]:
    if text == "all":
        return 0
    try:
        if text.startswith("@"):
            place = {name: i for i, name in enumerate(own.names())}
            return [place[name] for name in data_files.read_names(Path(text[1:]))]
        return int(text)
    except (KeyError, ValueError):
        wanted = "a number, all, or @FILE with ids of records, or row numbers from 0, one a line"
        raise InputError(f"--documents is {text!r}.", wanted) from None


def _show(console: Console, views: list[Observer]) -> None:
    table = Table("observer", "distinguishable", "pi", "mean min p", "by chance", "mean AUC", "epsilon >=")
    for v in views:
        table.add_row(
            v.name,
            f"{len(v.flagged)} of {len(v.records)}",
            f"{v.pi:.2g}",
            f"{v.mean_min_p:.3f} ± {v.sd_min_p:.3f}",
            f"{v.by_chance:.3f}",
            f"{sum(r.auc for r in v.records) / len(v.records):.3f}",
            f"{proven:.2f}" if (proven := max(r.epsilon_family for r in v.records)) > 0 else "not proven",
        )
    console.print(table)


@privacy.command()
@click.argument("file", type=_path)
@options(MEASURE)
@click.option("--out", type=_path, default=Path("runs/ksdp"), show_default=True, help="Samples and results.")
def ksdp(file: Path, out: Path, as_json: bool, jobs: int, **given: Any) -> None:
    """KS distributional privacy of the rows of FILE: can one tell whether a record is there?

    Interrupted, the same command goes on with the samples that are missing; with another --statistic it serves itself
    from those that are there.

    \b
    Examples:
      pdml-spdz privacy ksdp rows.npz --algorithm nmf --rank 7 --documents 50 --samples 200
      pdml-spdz privacy ksdp rows.csv --rank 7 --statistic mine.py:largest --out runs/ksdp
    """
    content, views, _ = _ksdp(file, out, as_json, jobs, given)
    if as_json:
        echo(json.dumps(content))
        return
    console = Screen()
    _show(console, views)
    console.print(f"in {out / page.KSDP}; `pdml-spdz privacy report {out}` makes a page of it", highlight=False)


@privacy.command()
@click.argument("file", type=_path)
@options(MEASURE)
@click.option("--rows", "sizes", metavar="N,N,...", help="How many rows each party has, this one first, if known.")
@click.option("--out", type=_path, default=Path("runs/assess"), show_default=True, help="Samples, results, page.")
def assess(file: Path, out: Path, as_json: bool, jobs: int, sizes: str | None, **given: Any) -> None:
    """Before joining: measure what each level would show of the records of FILE, with a guess of the others' rows; look
    at the rows; write a page for those who decide (privacy.html).

    \b
    Examples:
      pdml-spdz privacy assess rows.csv --algorithm pca --rank 5 --scale secsum
      pdml-spdz privacy assess rows.npz --algorithm nmf --rank 20 --others public.npz --rows 1000,5000
    """
    known = _sizes(sizes)
    content, views, planned = _ksdp(file, out, as_json, jobs, given | {"levels": True})
    rows = planned.X
    page.save_own(out, own_risks(rows), known, by_subtraction(rows, planned))
    written = page.write(out)
    if as_json:
        echo(json.dumps(content))
        return
    console = Screen()
    _show(console, views)
    console.print(f"report: {written}", highlight=False)


def _sizes(text: str | None) -> list[EffectiveSize]:
    if text is None:
        return []
    try:
        rows = [int(part) for part in text.split(",")]
    except ValueError:
        rows = []
    if len(rows) < 2 or min(rows) < 1:
        raise InputError(f"--rows is {text!r}.", "two or more numbers of rows, this party's first: 1000,5000,800")
    return effective_sizes(rows, 0)


@privacy.command("attack")
@click.argument("directory", type=_path)
@click.option("--own", type=_path, multiple=True, help="Rows of a colluding party (again for each of them).")
@click.option("--honest", type=_path, multiple=True, help="Rows of an honest party, to compare with (demonstration).")
@click.option("--repeat", type=_path, multiple=True, help="Another recorded run on the same rows (again for each).")
@click.option("--id", "me", type=click.IntRange(0), default=0, show_default=True, help="Whose transcript.")
@_json
def attack_command(
    directory: Path, own: tuple[Path, ...], honest: tuple[Path, ...], repeat: tuple[Path, ...], me: int, as_json: bool
) -> None:
    """What one party, or a coalition, makes of a recorded run: DIRECTORY is the --out of one with --record-transcript.

    \b
    Examples:
      pdml-spdz privacy attack runs/x
      pdml-spdz privacy attack runs/x --own b.csv                               P1 alone: scale, mean of the others
      pdml-spdz privacy attack runs/x --own b.csv --own c.csv --honest a.csv    P1 and P2; and how far off they are
      pdml-spdz privacy attack runs/x --own b.csv --repeat runs/y               with another run on the same rows
    """
    seen, *repeats = (transcripts.load(d / f"party-{me}" / transcripts.FILE) for d in (directory, *repeat))
    rows_of = [[data_files.load(f).as_in(seen.facts).X for f in files] for files in (own, honest)]
    known = Known(*rows_of)
    findings = attack(seen, known, repeats)
    rows = [page.read(path, "report.json") for path in sorted(directory.glob("party-*"))]
    sizes = [int(r["rows_own"]) for r in rows if r is not None and r.get("rows_own")]
    known_sizes = effective_sizes(sizes, min(range(len(sizes)), key=lambda m: sizes[m])) if len(sizes) > 1 else []
    content = page.save_attack(directory, seen.facts, findings, known_sizes)
    if as_json:
        echo(json.dumps(content))
        return
    table = Table("attack", "needed", "got", "succeeded")
    for f in findings:
        table.add_row(f.attack, f.needed, f.got, "yes" if f.success else "no")
    console = Screen()
    console.print(table)
    if known_sizes:
        words = ", ".join(f"{s.rows:,} ({s.colluding} colluding)" for s in known_sizes)
        console.print(f"effective size of the smallest party: {words}", highlight=False)


@privacy.command()
@click.argument("directory", type=_path)
def report(directory: Path) -> None:
    """One page of all that was measured in DIRECTORY: privacy.html, which needs nothing else, and privacy.json.

    \b
    Example:
      pdml-spdz privacy report runs/x
    """
    echo(str(page.write(directory)))


@privacy.command()
@click.argument("directory", type=_path)
@shown("--level", 0.05, "Largest adjusted p of a record that is left out.", type=click.FloatRange(0, 1))
@click.option("--epsilon", type=click.FloatRange(0), help="And records whose epsilon certainly exceeds this.")
@click.option("--view", "views", multiple=True, help="Only by these observers [default: any].")
@click.option("--out", type=_path, help="File to write [default: DIRECTORY/exclude.txt].")
def exclude(directory: Path, level: float, epsilon: float | None, views: tuple[str, ...], out: Path | None) -> None:
    """The records to leave out: those that are distinguishable, one id (or row number, from 0) a line.

    A run takes the file: pdml-spdz party study.toml --id 0 --data rows.csv --exclude leave-out.txt

    \b
    Example:
      pdml-spdz privacy exclude runs/assess --epsilon 1 --out leave-out.txt
    """
    measured = page.read(directory, page.KSDP)
    if measured is None:
        raise InputError(f"{directory} holds no measurement.", page.KSDP, "run `pdml-spdz privacy assess` first")
    found = to_exclude(measured, level=level, epsilon=epsilon, views=views)
    path = out or directory / "exclude.txt"
    names = measured["settings"].get("names", {})
    save_text(path, "".join(f"{names.get(str(i), i)}\n" for i in found), private=True)
    echo(f"{len(found)} records in {path}")
