"""The program of a sealed fit on real MP-SPDZ: the same text, the same openings up to units of their last place."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from pdml_spdz.engines import sealed_program
from pdml_spdz.engines.embedded.sealed_run import SealedRun, sealed_plan
from pdml_spdz.engines.mp_spdz import home
from pdml_spdz.programs.sealed_precision import SealedPrecision
from tests.sealed_fits import of_spectrum, sealed_fit, split_psd, start
from tests.spdz.helpers import need

FOUND = home.find()
HOME = FOUND.path if FOUND else None
pytestmark = [
    pytest.mark.spdz_long,
    pytest.mark.skipif(HOME is None, reason="MP-SPDZ was not found (MP_SPDZ_HOME, or the user's data directory)"),
]
P = SealedPrecision(2, 4, 1, 2, goal_bits=10, iterations=9)
FIELD = P.most_bits + 1
HALF = P.columns * (P.columns + 1) // 2  # numbers of H, which is symmetric


@pytest.mark.parametrize("protocol", ["semi", "hemi"])  # mascot agrees, too, and takes minutes
def test_same_openings(protocol: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    need(protocol)
    # With rotations that are the identity H is the same in both runs, and so are the public numbers made of it.
    one = np.array([[int(i == j) << P.f_a for j in range(P.columns)] for i in range(P.columns)], object)
    monkeypatch.setattr(sealed_program, "haar", lambda n, f: one)
    opened: list[list[int]] = []
    publics: list[int] = []
    original = SealedRun._eigenvectors

    def recording(this: SealedRun, H: Sequence[int]) -> tuple[np.ndarray, list[int]]:
        ritz, numbers = original(this, H)
        if this.link.me == 0:
            opened.append([int(x) for x in H])
            publics.extend(numbers)
        return ritz, numbers

    monkeypatch.setattr(SealedRun, "_eigenvectors", recording)
    S, _ = of_spectrum([1.0, 0.2, 0.05, 0.02])
    parts, V = split_psd(S, [0.3, 0.7]), start(P.d, P.columns)
    fit = sealed_fit(parts, P, V=V)
    assert fit.last.V is not None

    (tmp_path / "Programs" / "Public-Input").mkdir(parents=True)
    (tmp_path / "Player-Data").mkdir()
    (tmp_path / "sealed_svd.mpc").write_text(sealed_plan(P)[0].text)
    first = [int(x) for x in sealed_program.integers(V.T.reshape(-1), P.f_v)]
    (tmp_path / "Programs" / "Public-Input" / "sealed_svd").write_text(" ".join(map(str, first + publics)))
    for m, part in enumerate(parts):
        own = [*sealed_program.integers(part.reshape(-1) / np.trace(S), P.f_s)] + [*one.reshape(-1)] * len(
            P.checkpoints
        )
        (tmp_path / "Player-Data" / f"Input-P{m}-0").write_text(" ".join(map(str, own)))
    command = [sys.executable, f"{HOME}/compile.py", "-F", str(FIELD), "sealed_svd.mpc"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [f"{HOME}/{protocol}-party.x", "-N", "2", "-h", "localhost", "-pn", str(port), "sealed_svd", "-p"]
    parties = [subprocess.Popen([*command, str(m)], cwd=tmp_path, stdout=subprocess.DEVNULL) for m in range(2)]
    assert [party.wait(timeout=600) for party in parties] == [0, 0]

    numbers = np.frombuffer((tmp_path / "Player-Data" / "Binary-Output-P0-0").read_bytes(), "<i8")
    # After each output there is a zero, with which MP-SPDZ hands over what it keeps back.
    (normal, passed), V_k = numbers[[0, HALF + 3]], numbers[HALF + 5 : -1]
    assert (normal, passed) == (1, 1)
    H = numbers[2 : HALF + 2]
    assert np.abs(H - np.array(opened[0])).max() <= P.M + 1  # carries that are lost, and a last place that is random
    ulp = np.ldexp(fit.last.V.reshape(-1), P.f_out) - V_k
    assert np.abs(ulp).max() <= P.M + 1
