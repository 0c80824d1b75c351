"""Options that several commands share, and the settings of a study that they make."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource
from click.shell_completion import CompletionItem

from pdml_spdz.registry import Registry
from pdml_spdz.study.algorithm import Algorithm
from pdml_spdz.study.checks import CENTRES, LAST_PORT, is_host
from pdml_spdz.study.engines import ENGINES
from pdml_spdz.study.fields import usual_value
from pdml_spdz.study.levels import LEVELS, SUM
from pdml_spdz.study.model import (
    COLUMNS,
    INITS,
    NORMALISE,
    OFFLINE,
    ONLINE,
    PROGRAMS,
    RATIOS,
    VOLE,
    W_STARTS,
    PrecisionSettings,
    Study,
    Timeouts,
)
from pdml_spdz.study.solvers import ANY, FEWEST, SOLVERS

F = TypeVar("F", bound=Callable[..., Any])
Option = Callable[[Any], Any]


def _default(name: str) -> Any:
    return usual_value(Study.__dataclass_fields__[name])


def shown(name: str, default: Any, text: str, *more: str, **settings: Any) -> Option:
    """An option whose default the help shows."""
    return click.option(name, *more, default=default, show_default=True, help=text, **settings)


def _choice(name: str, choices: tuple[str, ...], text: str, *more: str) -> Option:
    return shown(name, choices[0], text, *more, type=click.Choice(choices))


class NamedOption(click.Option):
    """An option whose values are the names of a registry: which there are is found out when somebody names one, or asks
    for help.

    usual : for whoever names none; fits : only those that fit
    """

    def __init__(
        self,
        *declarations: Any,
        registry: Registry[Any],
        usual: str,
        fits: Callable[[Any], bool] = lambda thing: True,
        **settings: Any,
    ) -> None:
        super().__init__(*declarations, **settings)
        self.registry, self.usual, self.fits = registry, usual, fits

    def _choice(self) -> click.Choice[str]:
        return click.Choice([name for name in self.registry.names() if self.fits(self.registry[name])])

    def type_cast_value(self, ctx: click.Context, value: Any) -> Any:
        return None if value is None else self._choice()(value, self, ctx)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        return self._choice().shell_complete(ctx, self, incomplete)

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        self.type = choice = self._choice()
        texts = " ".join(f"{name}: {self.registry[name].help}" for name in choice.choices)
        self.help = f"{texts}  [default: {self.usual}]"
        return super().get_help_record(ctx)


_seconds = click.FloatRange(0, min_open=True)

PRECISION: list[Option] = [
    click.option("--bits", type=int, default=31, show_default=True, help="Fraction bits of what is opened."),
    click.option(
        "--range",
        "range_",
        type=int,
        default=0,
        metavar="R",
        help="Sums may be as small as B/2^R.  [default: 96 in the window, 40 below a bound that is agreed or found]",
    ),
]
COMMON: list[Option] = [
    _choice("--columns-by", COLUMNS, "Match columns by name, in any order, or by position, ignoring names.", "columns"),
    shown(
        "--bound",
        _default("bound"),
        "B: agreed maximum of any party's ||X_m^T X_m||_F (nmf: ||X_m||_F^2, normed-sum: ||x_m||). "
        "rows:R,N: the same from at most N rows a party, none longer than R. window: no bound is needed for sums "
        "between 2^-32 and 2^64, and none is shown. exponent: shows the size of the rows to a factor of 2^16. "
        "secsum: shows the sum of the parties' norms. auto: window; exponent on mp-spdz; secsum where the sums are "
        "shown anyway.",
        metavar="B|rows:R,N|auto|window|exponent|secsum",
    ),
    shown("--aggregator", "auto", "Adds up the sums; auto: party 0 if there are more than 5.", metavar="auto|none|ID"),
    click.option(
        "--connect-timeout",
        type=_seconds,
        metavar="S",
        help="How long parties wait until all have met.  [default: 60 on one machine, 4 hours in a study's file]",
    ),
    shown("--timeout", 300.0, "Give up on a party that is silent for S seconds.", type=_seconds, metavar="S"),
]
ENGINE: list[Option] = [
    click.option("--engine", cls=NamedOption, registry=ENGINES, usual=_default("engine")),
    click.option(
        "--protocol",
        default="",
        metavar="NAME",
        help="MP-SPDZ protocol: hemi (the default), semi, mascot (malicious), ...",
    ),
    _choice("--program", PROGRAMS, "NormedSecSum by projection, or the paper's own program (mp-spdz, for comparison)."),
    click.option("--insecure-benchmark", is_flag=True, help="Accept a timing build of MP-SPDZ. INSECURE."),
    click.option("--reveal", cls=NamedOption, registry=LEVELS, usual="what the engine does"),
    click.option(
        "--accuracy-goal",
        type=float,
        default=_default("accuracy_goal"),
        show_default=True,
        help="--reveal sealed: sine of V's error that its gate lets pass; V is opened no finer.",
    ),
    click.option(
        "--decay",
        type=float,
        default=_default("decay"),
        show_default=True,
        help="--reveal sealed: lambda_(b+1) / lambda_k that the number of iterations is meant for; the run goes on to "
        "twice and four times as many where that is not enough.",
    ),
    click.option(
        "--block",
        type=click.IntRange(0),
        default=0,
        metavar="B",
        help="--reveal sealed: columns that are iterated.  [default: twice the rank]",
    ),
    _choice("--ratios", RATIOS, "--reveal sealed: of b Ritz values; hidden: 1.5 times the rounds, twice the bytes."),
    *PRECISION,
    _choice("--offline", OFFLINE, "Material from a stock if one fits, from a stock only, or made in the run."),
    _choice("--vole", VOLE, "lpn: expand correlations under the LPN assumption (embedded). ot: OT only, slower."),
    *COMMON,
]


class OfSolver(click.Option):
    """An option whose default is the solver's: which that is, is found out when somebody asks for help."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        if self.default is None:
            usual = ", ".join(f"{getattr(SOLVERS[name], str(self.name))} ({name})" for name in SOLVERS.lines)
            self.help = f"{str(self.help).partition('  [')[0]}  [default: {usual}]"
        return super().get_help_record(ctx)


def stopping(spec: Algorithm) -> list[Option]:
    """By the algorithm's defaults, where it has its own; else by those of its solver."""
    of = {"cls": OfSolver}
    most, tol = (spec.defaults.get(name) for name in ("iterations", "tol"))
    return [
        shown("--iterations", most, "Maximum number of iterations.", type=click.IntRange(1), **of),
        shown("--tol", tol, f"Stop when {spec.change}.", type=click.FloatRange(0), **of),
    ]


FACTORISATION: list[Option] = [
    click.option("--solver", cls=NamedOption, registry=SOLVERS, usual=f"{FEWEST}; {ANY} with --normalise per-column"),
    click.option(
        "--memory",
        type=click.FloatRange(0, min_open=True),
        default=_default("memory"),
        show_default=True,
        metavar="GB",
        help=f"What {FEWEST} may keep of what was opened; beyond that it restarts from the best of it.",
    ),
    _choice("--normalise", NORMALISE, "One secret scale for the fit, or one for each column and iteration."),
    _choice(
        "--online", ONLINE, "All columns of an iteration in one call, or one each (and so --normalise per-column)."
    ),
    click.option("--seed", type=int, help="Start from a public seed instead of one drawn by all parties."),
    *ENGINE,
]
CENTRE: list[Option] = [
    _choice("--centre", CENTRES, "pca: around a mean that every party sees, or that nobody sees, or around zero.")
]
VARIANCE: Option = click.option(
    "--variance", is_flag=True, help="Reveal the explained variance of each component (--centre open, none)."
)
SCALING: list[Option] = [
    click.option(
        "--offset",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="One number per feature, subtracted from every row first; public. Matched by name if the file has names.",
    ),
    click.option(
        "--scale",
        metavar="FILE|secsum",
        help="One number per feature to divide by, matched in the same way; public. secsum: deviations (pca) or root "
        "mean squares, computed by SecSum and seen by every party.",
    ),
]
_penalty = click.FloatRange(0)
NMF: list[Option] = [
    _choice("--init", INITS, "By PD-NMF-Init, at random, from singular vectors (PD-SVD). best_of_M: NOT PRIVATE."),
    shown("--init-iterations", 20, "Iterations of --init.", type=click.IntRange(1)),
    _choice("--w-start", W_STARTS, "Coefficients are zero at first, or fitted to the first topics."),
    click.option(
        "--weighted",
        is_flag=True,
        help="What is not stored, or zero in a dense file, is missing. Without --gamma and --delta W is capped.",
    ),
    click.option("--paper-order", is_flag=True, help="Clip, then project, in the order the paper prints."),
    click.option("--objective", is_flag=True, help="Reveal ||X - W T||_F^2 at the end."),
    click.option("--alpha", type=_penalty, default=0.0, help="Penalty on ||T||_1."),
    click.option("--beta", type=_penalty, default=0.0, help="Penalty on ||T||_F^2 / 2."),
    click.option("--gamma", type=_penalty, default=0.0, help="Penalty on ||W||_1."),
    click.option("--delta", type=_penalty, default=0.0, help="Penalty on ||W||_F^2 / 2."),
    click.option("--seed", type=int, help="Start from a public seed instead of --init."),
    click.option("--engine", cls=NamedOption, registry=ENGINES, usual=SUM.engine, fits=lambda e: SUM.name in e.levels),
]
RECORD: Option = click.option(
    "--record-transcript", is_flag=True, help="Keep all that a party sees (transcript.npz), for `privacy attack`."
)
STOCK: Option = click.option(
    "--stock",
    type=click.Path(path_type=Path),
    help="Where offline stocks are [default: offline/ in a checkout, else in the user's data directory].",
)
HOME: Option = click.option(
    "--mp-spdz", type=click.Path(path_type=Path), help="Where MP-SPDZ is [default: MP_SPDZ_HOME, or installed]."
)
LOCAL: list[Option] = [
    RECORD,
    click.option("--force", is_flag=True, help="Replace a finished run in --out."),
    click.option("--json", "as_json", is_flag=True, help="Print report.json, and nothing else, on standard output."),
]


RUN_ARGUMENT: Option = click.argument("run", type=click.Path(path_type=Path))
ROWS_ARGUMENT: Option = click.argument("rows", type=click.Path(path_type=Path))


PORT = re.compile(r"[0-9]{1,5}")


def address(context: click.Context, parameter: click.Parameter, value: str | None) -> tuple[str, int] | None:
    if value is None:
        return None
    host, _, port = value.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not is_host(host) or not PORT.fullmatch(port) or int(port) > LAST_PORT:
        raise click.BadParameter("wanted HOST:PORT, for example 0.0.0.0:7000 or [::]:7000")
    return host, int(port)


def rank(unit: str) -> Option:
    return click.option("--rank", "-k", type=click.IntRange(1), required=True, help=f"Number of {unit}.")


def options(*groups: list[Option]) -> Callable[[F], F]:
    """All options of the groups, in their order."""

    def decorate(command: F) -> F:
        for option in reversed([option for group in groups for option in group]):
            command = option(command)
        return command

    return decorate


def _given(name: str) -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and context.get_parameter_source(name) == ParameterSource.COMMANDLINE


def study_settings(given: dict[str, Any], wait: float = Timeouts().connect) -> dict[str, Any]:
    """The options above as settings of a Study. wait : for the others, in seconds, for whoever does not say"""
    settings = dict(given)
    settings["timeouts"] = Timeouts(settings.pop("connect_timeout") or wait, settings.pop("timeout"))
    if "bits" in settings:
        settings["precision"] = PrecisionSettings(settings.pop("bits"), settings.pop("range_"))
    _, by_itself = NORMALISE
    if settings.get("online") == by_itself and not _given("normalise"):
        settings["normalise"] = by_itself
    if settings.get("seed") is not None:
        settings["start"] = "seed"
    offset, scale = settings.pop("offset", None), settings.pop("scale", None)
    if offset is not None:
        settings["offsets"] = offset
    if scale is not None:
        settings |= {"scale": scale} if scale == "secsum" else {"scales": Path(scale)}
    return settings
