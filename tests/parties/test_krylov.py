"""The solver krylov between processes: cut off and resumed, by a stock, and what studies and reports say of it."""

from __future__ import annotations

import hashlib
import json
import os
import signal
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdml_spdz.engines.embedded.products import Scaling, TripleProduct
from pdml_spdz.errors import PeerAborted, PeerError, ResumeError, StockError
from pdml_spdz.offline.status import status
from tests.opened import off
from tests.parties.helpers import Parties, close_rows, command, run
from tests.parties.test_offline import make_stock

D, K = 40, 3
EMBEDDED: dict[str, Any] = {"engine": "embedded", "reveal": "normed", "bound": "1e4"}


def checked(V: np.ndarray, report: dict[str, Any], M: int = 2) -> None:
    """As exact as the report says, and as was asked for."""
    columns, span = off(V, np.linalg.svd(np.vstack([close_rows(m, D) for m in range(M)]))[2].T)
    bound = report["sine_bound"]
    assert (report["solver"], report["converged"]) == ("krylov", True)
    assert span <= bound["span"] < 1e-7
    assert np.all(columns <= bound["columns"])


def given(site: Parties) -> Parties:
    for m in range(site.M):
        site.give(m, close_rows(m, D))
    return site


def outcome(site: Parties) -> tuple[np.ndarray, dict[str, Any]]:
    V = [np.load(site.results(m) / "V.npy") for m in range(site.M)]
    np.testing.assert_array_equal(V[0], V[1])
    return V[0], json.loads((site.results(0) / "report.json").read_text())


@pytest.mark.parametrize("settings", [{}, EMBEDDED], ids=["secsum", "embedded"])
def test_resumed_from_all_that_was_shown(parties: Callable[..., Parties], settings: dict[str, Any]) -> None:
    site = given(parties(rank=K, tol=1e-7, iterations=4, **settings))
    for end in site.run():
        end.well()
    _, cut = outcome(site)
    assert (cut["iterations"], cut["converged"]) == (4, False)
    assert any("not converged: after 4 iterations" in w for w in cut["warnings"])
    site.change_studies(iterations=60)
    for end in site.run("--resume"):
        end.well()
    assert "resuming after iteration 4" in site.processes[0].out
    V, report = outcome(site)
    checked(V, report)
    # Blocks from anew, without what was shown before, would be as many as in one run.
    whole = given(parties(rank=K, tol=1e-7, iterations=60, **settings))
    for end in whole.run():
        end.well()
    assert report["iterations"] <= outcome(whole)[1]["iterations"] + 2


def spoilt(parties: Callable[..., Parties], party: int, name: str, change: Callable[[Any], Any]) -> Parties:
    """A run of four iterations that is to go on, with an array of a party's last checkpoint changed."""
    site = given(parties(rank=K, tol=1e-7, iterations=4))
    for end in site.run():
        end.well()
    newest = site.checkpoints(party)[-1]
    with np.load(newest) as archive:
        numbers = dict(archive)
    np.savez(newest, **numbers | {f"public/{name}": change(numbers[f"public/{name}"])})
    site.change_studies(iterations=60)
    return site


@pytest.mark.parametrize("name", ["Q", "C", "N"])
def test_resumed_with_a_checkpoint_that_one_party_has_changed_is_refused(
    parties: Callable[..., Parties], name: str
) -> None:
    told, ended = spoilt(parties, 1, name, lambda x: x * (1 + 1e-6)).run("--resume")
    ended.failed(
        ResumeError, "the checkpoint of iteration 4 is another one at P0 than at this party", "put the checkpoint"
    )
    told.failed(PeerAborted, "P1 ended the run")


def test_checkpoint_of_party_0_that_does_not_fit_together_is_refused_in_words(parties: Callable[..., Parties]) -> None:
    ended, told = spoilt(parties, 0, "C", lambda C: C[:, :-1]).run("--resume")
    ended.failed(ResumeError, "the checkpoint of iteration 4 lacks what the solver krylov goes on from")
    told.failed(PeerAborted, "P0 ended the run")


DELTAS, PADS, LAST = "deltas", "pads", "last"


def noting(arguments: list[str], cwd: Path, *streams: Path) -> None:
    """A party that writes down, before they hide anything, digests of every delta and of every number's pad.

    It is killed at the block whose number is in a file, if there is one.
    """
    begin, take, blocks = Scaling.__init__, TripleProduct._take, list[int]()

    def note(name: str, secrets: Iterable[bytes]) -> None:
        with (cwd / name).open("a") as file:
            file.writelines(f"{hashlib.sha256(secret).hexdigest()}\n" for secret in secrets)

    def begun(self: Scaling, c: Any, me: int, materials: list[Any]) -> None:
        note(DELTAS, (m.delta.to_bytes(32, "little") for m in materials))
        begin(self, c, me, materials)

    def taken(self: TripleProduct) -> Any:
        given = take(self)
        note(PADS, (row.tobytes() for row in given.pad))
        blocks.append(len(given))
        if (cwd / LAST).exists() and len(blocks) == int((cwd / LAST).read_text()):
            (cwd / LAST).unlink()
            os.kill(os.getpid(), signal.SIGKILL)
        return given

    Scaling.__init__, TripleProduct._take = begun, taken  # type: ignore[method-assign]
    command(arguments, cwd, *streams)


def test_killed_resumed_and_run_again_with_no_delta_twice(parties: Callable[..., Parties], tmp_path: Path) -> None:
    """Lots of four blocks each: a run that is killed in its second lot, one that goes on from there, and another."""
    root = tmp_path / "stocks"
    plan: dict[str, Any] = {"rank": K, "d": D, "solver": "krylov", "iterations": 60, "bound": EMBEDDED["bound"]}
    made = {make_stock(root, **plan) for _ in range(2)}
    settings = EMBEDDED | {"offline": "stock"}
    site = given(parties(rank=K, tol=1e-7, iterations=60, **settings))
    site.target = noting

    def left() -> int:
        """Lots that no run has claimed, the same at both parties."""
        (lots,) = {sum(len(row.scalars_left) for row in status(root) if row.party == m) for m in range(2)}
        return lots

    def noted(name: str, m: int) -> list[str]:
        return (site.home(m) / name).read_text().split()

    assert left() == 8
    (site.home(1) / LAST).write_text("6")
    assert [end.code for end in site.run("--stock", str(root))] == [PeerError.code, -signal.SIGKILL]
    assert left() == 6
    for end in site.run("--resume", "--stock", str(root)):
        end.well()
    V, report = outcome(site)
    checked(V, report)
    assert {report["stock"]["id"]} < made
    assert (spared := left()) >= 4
    # The lots that are left have no triples with them: the next run makes its material, or has none.
    for end in site.run("--force", "--stock", str(root)):
        end.failed(StockError, "triples", "offline make")
    site.change_studies(offline="auto")
    for end in site.run("--force", "--stock", str(root)):
        end.well()
    assert outcome(site)[1]["stock"]["mode"] == "on-demand"
    for m in range(2):
        deltas, pads = noted(DELTAS, m), noted(PADS, m)
        assert len(set(deltas)) == len(deltas) == (8 - spared) + 1
        assert len(set(pads)) == len(pads) > 10 * D
        kept = [path.read_bytes()[:24] for path in root.glob(f"stock-*/party-{m}/scalar-*.bin")]
        assert len(kept) == spared
        assert not {hashlib.sha256(delta.ljust(32, b"\0")).hexdigest() for delta in kept} & set(deltas)
    assert left() == spared


def test_study_and_commands_say_which_solver(tmp_path: Path) -> None:
    run("init", "--parties", "2", "--rank", "3", "--dim", "40", cwd=tmp_path).well()
    text = (tmp_path / "study.toml").read_text()
    assert 'solver = "krylov"' in text
    assert "iterations = 60" in text
    assert "tol = 1e-07" in text
    run("init", "--parties", "2", "--rank", "3", "--normalise", "per-column", "--out", "p.toml", cwd=tmp_path).well()
    text = (tmp_path / "p.toml").read_text()
    assert 'solver = "power"' in text
    assert "iterations = 300" in text
    assert "tol = 1e-09" in text
    for m in range(2):
        np.save(tmp_path / f"{m}.npy", close_rows(m, D))
    shown = run("svd", "0.npy", "1.npy", "--rank", "3", "--engine", "secsum", "--seed", "1", cwd=tmp_path)
    shown.well()
    assert "error at most (sines): span" in shown.out
    refused = run(
        "svd", "0.npy", "1.npy", "--rank", "3", "--solver", "krylov", "--normalise", "per-column", cwd=tmp_path
    )
    assert refused.code != 0
    assert "it needs one scale for all columns of a fit" in refused.err + refused.out
