"""Results for people: what a run did, found and cost, when it is over."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from pdml_spdz.local.progress import Screen as Screen  # for the commands
from pdml_spdz.local.progress import Watcher as Watcher
from pdml_spdz.study.algorithm import ALGORITHMS, PAGE


def show_result(console: Console, report: dict[str, Any], party_reports: list[dict[str, Any]], out: Path) -> None:
    """What a person wants to know after a run."""
    console.print(f"\n[bold]{report['algorithm']}[/bold]: {report['parties']} parties, d = {report['d']}{_svd(report)}")
    security = report["security"]
    console.print(
        f"engine {report['engine']}, reveals {report['reveal']}; {security['model']}; "
        f"collusion: {security['corruptions']}"
    )
    if report.get("stock"):
        console.print(f"program {report['program']}, offline material: {_material(report['stock'])}")
    console.print(_cost_table(party_reports))
    accuracy = report.get("accuracy")
    if accuracy and "relative_error" in accuracy:
        console.print(
            f"accuracy: ||X - W T||_F / ||X||_F = {accuracy['relative_error']:.5f}; largest difference to "
            f"{accuracy['reference']} [bold]{accuracy['largest_difference']:.2e}[/bold]"
        )
    elif accuracy:
        console.print(
            f"accuracy: sine of the largest angle to {accuracy['reference']} "
            f"[bold]{accuracy['largest_angle_sine']:.2e}[/bold]{_single_vectors(accuracy)}"
        )
    if report.get("singular_values"):
        values = ", ".join(f"{s:.5g}" for s in report["singular_values"][:10])
        console.print(f"singular values (revealed): {values}")
    if report.get("explained_variance"):
        values = ", ".join(f"{s:.5g}" for s in report["explained_variance"][:10])
        console.print(f"explained variance (revealed): {values}")
    for warning in report["warnings"]:
        console.print(f"[yellow]note:[/yellow] {escape(warning)}", highlight=False)
    spec = ALGORITHMS[report["algorithm"]]
    if spec.note:
        console.print(f"[yellow]note:[/yellow] {escape(spec.note)}", highlight=False)
    files = [
        PAGE,
        spec.table,
        spec.result,
        "report.json",
        *(["party-*/"] if report["party_id"] is None else []),
    ]
    console.print(f"files: {', '.join(f'{out}/{name}' for name in files)}", highlight=False, markup=False)


def _material(stock: dict[str, Any]) -> str:
    """Where it came from."""
    if not stock["id"]:
        return "made in the run"
    if stock["mode"] != "mixed":
        return f"stock {stock['id']}"
    taken, made = (stock["executions"][name] for name in ("from stock", "on demand"))
    return f"{taken} of {taken + made} executions from stocks, the others' made in the run"


def _single_vectors(accuracy: dict[str, Any]) -> str:
    if "largest_column_sine" not in accuracy:
        return ""
    return f" (worst single vector {accuracy['largest_column_sine']:.2e}, relative gap {accuracy['relative_gap']:.3g})"


def _svd(report: dict[str, Any]) -> str:
    if "iterations" not in report:
        return ""
    state = "converged" if report["converged"] else "NOT converged"
    found = f", rank {report['rank_found']}, {report['iterations']} iterations, {state} ({report['stop_reason']})"
    bound = report.get("sine_bound")
    if bound is None:
        return found
    return f"{found}\nerror at most (sines): span {bound['span']:.1e}, worst vector {max(bound['columns']):.1e}"


def _cost_table(reports: list[dict[str, Any]]) -> Table:
    table = Table(title="cost by party: seconds, and megabytes sent", title_justify="left", box=None, pad_edge=False)
    columns = ("party", "rows", "local", "wait", "net", "crypto", "offline", "total", "MB", "offline MB", "rounds")
    for column in columns:
        table.add_column(column, justify="right")
    for report in reports:
        seconds = report["seconds"]
        online = seconds["online"]
        spent = (seconds["local"], online["wait"], online["transport"], online["crypto"], seconds["offline"])
        table.add_row(
            f"P{report['party_id']}",
            f"{report['rows_own']:,}",
            *(f"{s:.3f}" for s in spent),
            f"{seconds['total']:.3f}",
            f"{report['bytes_sent'] / 1e6:.3f}",
            f"{report['offline']['bytes_sent'] / 1e6:.3f}",
            str(report["rounds"]),
        )
    return table
