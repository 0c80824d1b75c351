"""One party of a study from Python, beside one that is a command."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pdml_spdz
from pdml_spdz.errors import InputError, PeerAborted
from tests.parties.helpers import Parties, rows, run


@pytest.mark.parametrize("given", ["array", "path"])
def test_a_party_from_python_has_what_its_files_have(parties: Callable[..., Parties], given: str) -> None:
    site = parties(2, start="seed", seed=1)
    other, events = site.start(1), list[tuple[int, dict[str, Any]]]()
    found = pdml_spdz.run_party(
        site.home(0) / "study.toml",
        0,
        rows(0) if given == "array" else site.home(0) / "rows.npy",
        out=site.home(0) / "out",
        progress=lambda party, event: events.append((party, event)),
    )
    other.end().well()
    assert isinstance(found, pdml_spdz.SVDResult)
    for m in range(2):
        np.testing.assert_array_equal(np.load(site.results(m) / "V.npy"), found.V)
    assert found.report["party_id"] == 0
    assert {party for party, _ in events} == {0}
    assert "iteration" in {event["event"] for _, event in events}


def test_a_party_from_python_that_cannot_take_part_says_so_to_the_others(parties: Callable[..., Parties]) -> None:
    site = parties(2)
    other = site.start(1)
    study, certs = site.study, site.certs(0)
    with pytest.raises(InputError, match=r"no\.npy is not there"):
        pdml_spdz.run_party(study, 0, site.home(0) / "no.npy", certs=certs, out=site.home(0) / "out")
    other.end().failed(PeerAborted, "P0 ended the run")


def test_the_command_needs_rows(parties: Callable[..., Parties]) -> None:
    site = parties(2)
    ended = run("party", "study.toml", "--id", "0", cwd=site.home(0))
    assert ended.code == 2
    assert "Missing option '--data'" in ended.err
