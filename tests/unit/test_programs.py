"""Rendered programs: as committed, and with a clear error where the embedded engine does not follow."""

from __future__ import annotations

from pathlib import Path

import jinja2
import pytest

from pdml_spdz.engines.embedded import machine
from pdml_spdz.engines.embedded.plan import numbers_plan
from pdml_spdz.engines.embedded.values import OUTER
from pdml_spdz.errors import EngineError
from pdml_spdz.offline.material import Lots, Plan
from pdml_spdz.programs.precision import Precision
from pdml_spdz.programs.render import (
    NAMES,
    REFERENCES,
    SEALED_REFERENCES,
    Program,
    environment,
    render,
    render_sealed,
)
from pdml_spdz.study.algorithm import Shape
from pdml_spdz.study.levels import OPENINGS

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("file", REFERENCES)
def test_committed_program_is_what_the_template_gives(file: str) -> None:
    assert (ROOT / "mpc_programs" / file).read_text() == render(*REFERENCES[file]).text  # type: ignore[arg-type]


def test_every_program_has_a_committed_reference() -> None:
    assert {args[0] for args in REFERENCES.values()} == set(NAMES)
    assert {p.name for p in (ROOT / "mpc_programs").glob("*.mpc")} == {*REFERENCES, *SEALED_REFERENCES}


@pytest.mark.parametrize("file", SEALED_REFERENCES)
def test_committed_program_of_a_sealed_fit_is_what_the_template_gives(file: str) -> None:
    assert (ROOT / "mpc_programs" / file).read_text() == render_sealed(SEALED_REFERENCES[file]).text


def test_missing_value_in_a_template_is_an_error() -> None:
    with pytest.raises(jinja2.UndefinedError):
        environment().from_string("{{ nobody }}").render()


def test_expressions_stand_only_in_parameters() -> None:
    # Everything else in a template is the program itself, readable as it is.
    for path in (ROOT / "templates").glob("*.mpc.j2"):
        for line in path.read_text().splitlines():
            if "{{" in line:
                name = line.split("=")[0].strip()
                assert name.isupper(), f"{path.name}: {line}"


@pytest.mark.parametrize("d", [1, 100, 10_000])
@pytest.mark.parametrize("columns", [1, 7])
def test_plan_counts_products_and_vectors(d: int, columns: int) -> None:
    p = Precision(3)
    plan = machine.plan(render("normed_sum", p, d, columns))
    # For each column: y^2, x h and t h in each step; t^2 and x h in Newton's; rho x and its square; t^2, t r and M
    # factors in the gate.
    assert plan.triples == columns * (3 * len(p.inverse_root_steps) + 2 + 2 + 2 + p.M)
    assert plan.vectors == (d,) * columns
    scaled = machine.plan(render("scaled_sum", p, d, columns, 50))
    assert scaled.triples == 3 * len(p.reciprocal_steps) + 1 + 1 + 2 + p.M
    assert scaled.vectors == (50 * columns * d,)
    centred = machine.plan(render("scaled_sum_centred", p, d, columns, 50))
    # Besides: what the mean has in rho, for each column, and c times the mean, for each feature.
    # And the second gate: x times what rho would be around zero, then as the first.
    assert centred.triples == scaled.triples + columns + d + 1 + 2 + p.M
    # For c; and for each number of c times the mean, or, where there are many of them, for each mean.v_i.
    times = (50 * columns,) * d if d <= OUTER else (d,) * (50 * columns)
    assert centred.vectors == (50 * columns * d, *times)


@pytest.mark.parametrize("d", [3, 5])
@pytest.mark.parametrize("opening", ["one-scale", "centred"])
def test_plan_of_a_fit_is_that_of_its_program(d: int, opening: str) -> None:
    plan = numbers_plan(OPENINGS[opening], Precision(2), Shape(d, 2, 7))
    assert plan.lots == Lots.of(machine.plan(plan.layout.program))
    longest = 4  # a lot of two iterations meets four scalars: more numbers than that cost more deltas
    # By lots it is for the same iterations, each under other scalars: none of them has more than a lot's numbers.
    lots = numbers_plan(OPENINGS[opening], Precision(2), Shape(d, 2, 7, expected=5, lot=2)).lots
    assert lots.whole == machine.plan(plan.layout.program, longest)
    first, one = (machine.plan(render(OPENINGS[opening].template, Precision(2), d, 2, t), longest) for t in (2, 1))
    assert lots.awaited == (lots.first, lots.further, lots.further)
    assert lots.first == lots.piece == first
    once, each = (one.vectors, ()) if d <= longest else (one.vectors[:1], one.vectors[1:])
    assert lots.further == Plan(0, (*(2 * n for n in once), *each * 2))
    assert (lots.longest, lots.fresh) == (longest, len(each) or 1)


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("x = sfix(1.5)", "name 'sfix' is not defined"),
        ("print_ln('hello')", "name 'print_ln' is not defined"),
        ("import os", "__import__ not found"),
        ("open('/etc/passwd')", "name 'open' is not defined"),
        ("y = sint(3) / sint(4)", "unsupported operand"),
        ("y = sint(3) < sint(4)", "not supported between"),
        ("y = sint.get_input_from(0, size=4) * sint.get_input_from(1, size=4)", "not an operation of the embedded"),
        ("y = sint(5).bit_decompose()", "no attribute 'bit_decompose'"),
        ("y = = 3", "invalid syntax"),
    ],
)
def test_unknown_operation_is_an_error_with_the_line(line: str, complaint: str) -> None:
    program = Program("example", f"# a comment\na = sint(1)\n{line}\n")
    with pytest.raises(EngineError, match=r"example\.mpc, line 3: ") as caught:
        machine.plan(program)
    assert complaint in str(caught.value)
    assert "run this program on the engine mp-spdz" in str(caught.value)


def test_digest_knows_the_text() -> None:
    p = Precision(3)
    assert render("normed_sum", p, 5, 1).digest != render("normed_sum", p, 6, 1).digest


@pytest.mark.parametrize("name", ["normed_sum", "scaled_sum", "scaled_sum_centred"])
@pytest.mark.parametrize(("d", "columns"), [(5, 1), (9, 3)])
def test_parties_give_in_as_many_masks_as_there_are_truncations(name: str, d: int, columns: int) -> None:
    program = render(name, Precision(3), d, columns, 2, own_masks=True)
    constants: dict[str, int] = {}
    for line in program.text.splitlines():
        if line.split(" = ")[0].isupper():
            exec(line, constants)
    assert program.twin is not None
    first, second = machine.truncations(program.twin)
    assert sum(t.n for t in first) == constants["MASKS"]
    assert second == (first if name == "normed_sum" else [])
    assert {t.bits for t in first} == {constants["BITS"]}
