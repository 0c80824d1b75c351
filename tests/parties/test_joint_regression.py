"""Principal component regression of all parties, over the network."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd

from pdml_spdz.errors import MismatchError, QuotaError, StudyError
from tests.parties.helpers import Ended, Parties, Process, rows

AGREED = {"--longest-row": "50", "--largest-target": "50", "--most-rows": "100"}


def table(m: int) -> pd.DataFrame:
    X = rows(m, n=20 + 5 * m)
    noise = 0.1 * np.random.default_rng(50 + m).standard_normal(len(X))
    return pd.DataFrame(X, columns=list("abcdef")).assign(y=X[:, :3] @ [1.0, -2.0, 3.0] + 4.0 + noise)


def joint(site: Parties, **differing: dict[str, str]) -> list[Ended]:
    started = []
    for m in range(site.M):
        agreed = AGREED | differing.get(f"P{m}", {})
        options = [word for option in agreed.items() for word in option]
        words = ["regress", "out", "target.csv", "--target", "y", "--joint", "study.toml", "--id", str(m), *options]
        started.append(Process(*words, "--out", "coefficients.csv", cwd=site.home(m)))
    try:
        return [process.end(60.0) for process in started]
    finally:
        for process in started:
            process.clear_away()


def tolerance(pooled: pd.DataFrame, M: int) -> float:
    """Of a coefficient: moments of unit size are opened to 44 bits below it, and solved for."""
    row, target, most = (float(value) for value in AGREED.values())
    X = pooled[list("abcdef")].to_numpy()
    A = np.column_stack([(X - X.mean(axis=0)) / row, np.ones(len(X))])
    G, b = A.T @ A / most, A.T @ pooled["y"].to_numpy() / target / most
    off = M * 2.0**-44 * A.shape[1]
    solution = np.linalg.solve(G, b)
    largest = max(target, target / row * (1.0 + np.abs(X.mean(axis=0)).sum()))  # what a coefficient makes of it
    return float(off * (1.0 + np.linalg.norm(solution)) / np.linalg.eigvalsh(G)[0] * largest)


def test_joint_regression_is_that_of_the_pooled_rows(parties: Callable[..., Parties]) -> None:
    site = parties(3, algorithm="pca", rank=6, tol=1e-7)
    for m in range(3):
        table(m).to_csv(site.home(m) / "target.csv", index=False)
        table(m).drop(columns="y").to_csv(site.home(m) / "rows.csv", index=False)
        site.start(m, data="rows.csv")
    for end in site.end(60.0):
        end.well()
    for end in joint(site):
        end.well()
        assert "every party will see: the second moments of all rows' coordinates" in end.out
        assert "the coefficients are known to 3 digits" in end.out
    pooled = pd.concat([table(m) for m in range(3)])
    design = np.column_stack([np.ones(len(pooled)), pooled[list("abcdef")]])
    exact = np.linalg.lstsq(design, pooled["y"], rcond=None)[0]
    found = [pd.read_csv(site.home(m) / "coefficients.csv")["coefficient"].to_numpy() for m in range(3)]
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])
    np.testing.assert_allclose(found[0], exact, atol=tolerance(pooled, site.M))
    for end in joint(site, P1={"--most-rows": "99"}):
        end.failed(MismatchError, "with other scales")
    for loose in ({"--longest-row": "50e4"}, {"--largest-target": "50e6"}):
        for end in joint(site, **{f"P{m}": loose for m in range(3)}):
            end.failed(StudyError, "digits of the coefficients", "agree on smaller limits")
    first, *others = joint(site, **{f"P{m}": {"--longest-row": "0.001"} for m in range(3)})
    first.failed(QuotaError, "nothing was sent")
    assert all(end.code in (QuotaError.code, 8) for end in others)
