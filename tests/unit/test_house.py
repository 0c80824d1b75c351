"""The picture of the house and the walks through it are those of the code (`make house`)."""

from __future__ import annotations

import ast
import importlib
from pathlib import Path

import pytest

from benchmarks import house, walks
from benchmarks.house import Line

PAGE = (walks.ROOT / "docs" / "architecture.md").read_text()
WRITTEN_DOWN = {name: steps for name in walks.WALKS if (steps := walks.steps(PAGE, name))}


def test_the_picture_is_that_of_the_imports() -> None:
    assert house.PICTURE.read_text(encoding="utf-8") == house.draw(), "draw it again: make house"


def test_lines_that_others_imply_are_not_drawn() -> None:
    places = house.boxes()

    def line(source: str, target: str) -> Line:
        return Line(places[source], places[target], 1, True)

    chain = [line("fits", "run"), line("run", "engines"), line("engines", "numerics")]
    back = line("run", "fits")
    drawn = house.direct([*chain, back, line("fits", "engines"), line("fits", "numerics")])
    assert set(drawn) == {*chain, back}


def test_imports_in_functions_and_registries_are_not_at_once(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(
        "from pdml_spdz.errors import StudyError\nfrom pdml_spdz import api\nimport numpy\n"
        "KNOWN = {'svd': 'pdml_spdz.fits.svd:SVD', 'text': 'see pdml_spdz.ot:here'}\n"
        "def late():\n    import pdml_spdz.run.party\n    from pdml_spdz.errors import InputError\n"
    )
    assert house.imported(path) == {
        "pdml_spdz.errors": True,
        "pdml_spdz.api": True,
        "pdml_spdz.fits.svd": False,
        "pdml_spdz.run.party": False,
    }


def test_blank_lines_and_comments_are_no_code() -> None:
    text = '"""What\n\nit is."""\n\n# why\nx = """a\n\nb"""  # why\n\n\nclass P:\n    def f(self) -> int: ...\n'
    assert walks.code_lines(text) == (5, 8)


def test_three_walks_are_written_down_in_a_dozen_steps_each() -> None:
    assert len(WRITTEN_DOWN) == 3
    assert all(2 < len(steps) <= 12 for steps in WRITTEN_DOWN.values())


@pytest.mark.parametrize("name", WRITTEN_DOWN)
def test_steps_of_a_walk_are_functions_of_the_package(name: str) -> None:
    for module, function in WRITTEN_DOWN[name]:
        source = importlib.util.find_spec(module)
        assert source is not None, module
        assert source.origin is not None
        place: list[ast.stmt] = ast.parse(Path(source.origin).read_text()).body
        for part in function.split("."):
            named = [n for n in place if isinstance(n, ast.FunctionDef | ast.ClassDef) and n.name == part]
            assert named, f"{module}: {function}"
            place = named[0].body


def test_party_0_takes_the_steps_of_a_walk_in_their_order() -> None:
    name = "A file to V.npy (secsum)"
    hops, functions = walks.walk(walks.WALKS[name], walks.ROOT)
    assert walks.not_taken(WRITTEN_DOWN[name], functions) == []
    assert len({(caller, callee) for caller, callee, *_ in hops}) == len(hops) > 20
    assert not any(caller == callee for caller, callee, *_ in hops)


def test_steps_that_are_not_taken_in_their_order_are_named() -> None:
    a, b, c = ["m", "a"], ["m", "b"], ["m", "c"]
    assert walks.not_taken([a, c], [a, b, c]) == []
    assert walks.not_taken([b, a], [a, b, c]) == ["m: a"]
