"""The whole measurement: samples, resuming, statistics, bad input; on mechanisms whose leakage is known and on ours."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from scipy import optimize

from pdml_spdz.algorithms.nmf import SweepSettings
from pdml_spdz.algorithms.nmf_start import own_topics
from pdml_spdz.algorithms.rri import FullPart, Penalties, part
from pdml_spdz.applications.uplift import local_pca, local_svd
from pdml_spdz.errors import InputError, ResumeError
from pdml_spdz.privacy.ksdp import WITH, Experiment, Store, Unit, compute, database, generator, make_plan, run
from pdml_spdz.privacy.mechanism import Content, Mechanism, Observables, load_statistic
from pdml_spdz.privacy.nmf_mechanism import NMF_VIEWS, SEEN, Joined, NmfMechanism, box_coefficients
from pdml_spdz.privacy.svd_mechanism import SvdMechanism, correlation_statistics
from pdml_spdz.privacy.symmetric import LowRank, OneMore, Whole
from pdml_spdz.privacy.verdict import judge
from pdml_spdz.rows.base import RowsLike


@dataclass(frozen=True)
class Told(Mechanism):
    """Publishes noise, or the sum of a function of all rows."""

    leak: float = 0.0
    name: str = "told"

    def _see(self, X: RowsLike, rng: np.random.Generator) -> float:
        return float(rng.normal() + self.leak * np.sum(X[:, 0]))

    def sample_without(self, X: RowsLike, rng: np.random.Generator) -> Content:
        return {"y": np.array(self._see(X, rng))}

    def sample_with(self, X: RowsLike, records: RowsLike, rng: np.random.Generator) -> Content:
        return {"y": np.array([self._see(np.vstack([X, r]), rng) for r in records])}

    def observables(self, content: Content, i: int | None, x: np.ndarray) -> Observables:
        return {"y": content["y"] if i is None else content["y"][i]}

    def statistics(self, seen: Observables, x: np.ndarray) -> dict[str, float]:
        return {"told/y": float(seen["y"]), "told/y squared": float(seen["y"]) ** 2}

    def settings(self) -> dict[str, Any]:
        return {"name": "told", "leak": self.leak}


def rows(n: int = 60, d: int = 6, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).gamma(0.7, size=(n, d))


def test_mechanism_that_ignores_x_is_not_flagged_and_one_that_tells_is() -> None:
    X = np.zeros((60, 2))
    X[:5, 0] = 1.0  # the records have what no other row has
    plan = make_plan(60, range(5), 20, 60, seed=3)
    (quiet,) = judge(run(Experiment(X, plan, Told(0.0))), plan.documents)
    (loud,) = judge(run(Experiment(X, plan, Told(100.0))), plan.documents)
    assert quiet.flagged == ()
    assert loud.flagged == (0, 1, 2, 3, 4)
    assert loud.pi < 1e-15


def test_databases_have_the_size_of_the_plan_and_none_of_the_records() -> None:
    plan = make_plan(40, [3, 8, 20], 10, 5, seed=1)
    for unit in plan.units():
        group = {plan.documents[i] for i in plan.groups()[unit.g]}
        chosen = database(plan, 40, unit, generator(plan, unit))
        assert len(set(chosen.tolist())) == len(chosen) == plan.size - (unit.arm == WITH)
        assert not group & set(chosen.tolist())


def test_all_rows_can_be_measured_in_groups() -> None:
    plan = make_plan(40, range(40), 10, 4, seed=1)
    assert sorted(i for group in plan.groups() for i in group) == list(range(40))
    assert all(40 - len(group) > plan.size for group in plan.groups())


@pytest.mark.parametrize("size", [1, 19, 20, 50])
def test_too_few_rows_to_draw_from_is_an_error(size: int) -> None:
    with pytest.raises(InputError, match="too few to draw databases"):
        make_plan(20, [0], size, 10, seed=0)


@pytest.mark.parametrize("keep_all", [True, False])
def test_interrupted_run_goes_on_to_the_same_samples(tmp_path: Path, keep_all: bool) -> None:
    X, plan = rows(), make_plan(60, [1, 2], 10, 6, seed=5)
    whole = run(Experiment(X, plan, Told(1.0)))
    experiment = Experiment(X, plan, Told(1.0), store=tmp_path / "samples", whole=keep_all)
    Store(tmp_path / "samples").begin(plan, Told(1.0).settings(), "")  # as if it had been another population
    with pytest.raises(ResumeError, match="another plan"):
        run(experiment)
    (tmp_path / "samples" / "plan.json").unlink()

    class Stopped(Exception):
        pass

    def stop(done: int, of: int) -> None:
        if done == 5:
            raise Stopped

    with pytest.raises(Stopped):
        run(experiment, progress=stop)
    kept = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "samples").glob("*.npz")}
    assert len(kept) == 5
    resumed = run(experiment)
    assert np.array_equal(resumed.values, whole.values)
    assert {name: (tmp_path / "samples" / name).stat().st_mtime_ns for name in kept} == kept  # not made again
    assert len(list((tmp_path / "samples").glob("*.npz"))) == len(plan.units())


def test_order_and_processes_do_not_change_samples() -> None:
    X, plan = rows(), make_plan(60, [1, 2], 10, 4, seed=5)
    experiment = Experiment(X, plan, SvdMechanism(rows(12, seed=1), 2, 10))
    assert np.array_equal(run(experiment, jobs=2).values, run(experiment).values)


def largest(seen: Observables, x: np.ndarray) -> float:
    return float(np.max(seen["values"]))


def test_user_statistics_are_plain_functions_and_stored_samples_serve_them(tmp_path: Path) -> None:
    X, plan = rows(), make_plan(60, [1, 2], 10, 4, seed=5)
    mechanism = SvdMechanism(rows(12, seed=1), 2, 10)
    run(Experiment(X, plan, mechanism, store=tmp_path / "s"))
    made = {p.name: p.stat().st_mtime_ns for p in (tmp_path / "s").glob("*.npz")}
    (tmp_path / "mine.py").write_text("def norm(seen, x):\n    return {'V': abs(seen['V']).sum(), 'n': seen['n']}\n")
    spec = f"{tmp_path / 'mine.py'}:norm"
    samples = run(Experiment(X, plan, mechanism, (largest, spec), store=tmp_path / "s"))
    assert {p.name: p.stat().st_mtime_ns for p in (tmp_path / "s").glob("*.npz")} == made
    assert {"user/largest", "user/norm V", "user/norm n"} <= set(samples.names)
    view = next(v for v in judge(samples, plan.documents) if v.name == "user")
    assert view.constant == ("norm n",)


def test_nan_of_a_statistic_is_an_error_that_names_it() -> None:
    X, plan = rows(), make_plan(60, [7], 10, 4, seed=5)

    def broken(seen: Observables, x: np.ndarray) -> float:
        return float("nan")

    with pytest.raises(InputError, match="'user/broken' is nan for document 7, sample 0"):
        run(Experiment(X, plan, Told(), (broken,)))


@pytest.mark.parametrize("spec", ["nowhere.py:f", "json:nothing", "plain"])
def test_statistic_that_cannot_be_loaded_is_an_error(spec: str) -> None:
    with pytest.raises(InputError, match="statistic"):
        load_statistic(spec)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("centred", [False, True])
def test_updates_give_the_statistics_of_a_run_from_raw_rows(centred: bool, sparse: bool) -> None:
    """The shortcut against PD-SVD (its own code, one party) on all rows, for every record and statistic."""
    n_v, k, d = 15, 3, 8
    X, others = rows(60, d), rows(20, d, seed=1)
    kind = sp.csr_array if sparse else np.asarray
    mechanism = SvdMechanism(kind(others), k, n_v, centred)
    plan = make_plan(60, [0, 4], n_v, 4, seed=9)
    experiment = Experiment(kind(X), plan, mechanism)
    for unit in (Unit(0, 0, 1), Unit(0, 1, 2)):
        quick, _ = compute(experiment, unit)
        chosen = X[np.sort(database(plan, 60, unit, generator(plan, unit)))]
        for document, found in zip(plan.documents, quick, strict=True):
            x = X[document]
            joined = np.vstack([chosen, x, others] if unit.arm == WITH else [chosen, others])
            mean = joined.mean(axis=0) if centred else np.zeros(d)
            V = (local_pca(joined, k, tol=1e-12) if centred else (local_svd(joined, k, tol=1e-12), 0))[0]
            S = (joined - mean).T @ (joined - mean)
            values = np.array([v @ S @ v for v in V.T])
            own = others - (others.mean(axis=0) if centred else 0)
            scale = (n_v + len(others)) / len(others)
            guess = scale * np.linalg.eigvalsh(own.T @ own)[::-1][:k]
            seen = {"pd-svd": (V * guess) @ V.T, "sigma": (V * values) @ V.T}
            seen["transcript"] = S * scale * np.trace(own.T @ own) / np.trace(S)
            for view, estimate in seen.items():
                for name, value in correlation_statistics(Whole(estimate), x - mean).items():
                    # PD-SVD stops at 1e-12; statistics are at most quadratic in V and S.
                    assert found[f"{view}/{name}"] == pytest.approx(value, rel=1e-8, abs=1e-9), (view, name)
            if centred:
                assert found["sigma/mean"] == pytest.approx(float(mean @ x))


def test_correlation_statistics_are_those_of_the_definition() -> None:
    rng = np.random.default_rng(0)
    A = rng.normal(size=(9, 9))
    S, x = A @ A.T, rng.normal(size=9) * (rng.random(9) < 0.5)
    W = np.abs(S * np.outer(x, x))
    found = correlation_statistics(Whole(S), x)
    assert found["W max"] == pytest.approx(W.max())
    assert found["W sum"] == pytest.approx(W.sum())
    assert found["W squares"] == pytest.approx(np.sum(W**2))
    for name, size in (("D", np.linalg.norm(x)), ("D2", x @ x)):
        D = np.abs(S / np.linalg.norm(S) - np.outer(x, x) / size)
        assert found[f"{name} max"] == pytest.approx(D.max())
        assert found[f"{name} sum"] == pytest.approx(D.sum())
        assert found[f"{name} squares"] == pytest.approx(np.sum(D**2))


def test_warm_starts_give_what_the_eigendecomposition_gives(monkeypatch: pytest.MonkeyPatch) -> None:
    X, plan = rows(60, 30), make_plan(60, [0, 4], 15, 4, seed=9)
    experiment = Experiment(X, plan, SvdMechanism(rows(20, 30, seed=1), 3, 15))
    exact = compute(experiment, Unit(0, 0, 0))[0]
    monkeypatch.setattr("pdml_spdz.privacy.svd_mechanism.DENSE", 10)
    warm = compute(experiment, Unit(0, 0, 0))[0]
    for a, b in zip(exact, warm, strict=True):
        assert b == pytest.approx(a, rel=1e-7)  # residual 1e-10 over a relative gap above 1e-3


def test_box_coefficients_are_the_constrained_least_squares() -> None:
    rng = np.random.default_rng(2)
    for _ in range(10):
        T, x = rng.random((4, 12)), 2 * rng.random(12)
        reference = optimize.lsq_linear(T.T, x, (0, 1), tol=1e-13).x
        assert box_coefficients(T, x) == pytest.approx(reference, abs=1e-6)


@pytest.mark.parametrize("start", ["random", "pd"])
@pytest.mark.parametrize("weighted", [False, True])
def test_nmf_observables_are_the_victims_own_sums(start: str, weighted: bool) -> None:
    others, X = sp.csr_array(rows(9, seed=3)), sp.csr_array(rows(14, seed=4) * (rows(14, seed=5) > 0.5))
    mechanism = NmfMechanism(others, 3, sweeps=4, start=start, weighted=weighted)
    seen = mechanism.run(X, 1)
    assert seen["T"].shape == seen["num"].shape == (3, 6)
    assert ("init_T" in seen) == (start == "pd")
    alone = NmfMechanism(sp.csr_array((1, 6)), 3, sweeps=4, start="random", weighted=weighted).run(X, 1)
    assert np.all(alone["den"] >= 0)
    if not weighted:  # with nobody else the topics follow from the victim's num and den alone
        from pdml_spdz.algorithms.nmf import project

        assert alone["T"][2] == pytest.approx(project(alone["num"][2] / alone["den"][2]), abs=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_sweeps_on_all_rows_at_once_are_those_of_two_parties(weighted: bool) -> None:
    X, others, seed = sp.csr_array(rows(14, seed=4)), sp.csr_array(rows(9, seed=3)), 5
    penalties = Penalties(beta=0.1, delta=0.1) if weighted else Penalties()
    found = NmfMechanism(others, 3, sweeps=6, weighted=weighted, penalties=penalties).run(X, seed)
    T = np.random.default_rng(seed).uniform(size=(3, 6))
    T /= T.sum(axis=1, keepdims=True)
    parts = [part(table, 3, weighted=weighted) for table in (X, others)]
    for p in parts:
        if weighted:
            p.fit(T, penalties, sweeps=5)
    both = Joined(parts)
    T = both.iterate(T, SweepSettings(6, 0.0, 1e9, penalties, weighted))
    # Sums in another order: a few EPS in each of 6 x 3 updates, of numbers of about 10, on a problem of this condition.
    close = 1e-9
    assert found["T"] == pytest.approx(T, abs=close)
    assert found["num"] == pytest.approx(np.array([both.num[t] for t in range(3)]), abs=close)
    assert found["den"] == pytest.approx(np.array([both.den[t].sum() for t in range(3)]), abs=close)


@pytest.mark.parametrize("start", ["random", "pd"])
def test_runs_side_by_side_are_those_one_by_one(start: str, monkeypatch: pytest.MonkeyPatch) -> None:
    d, k, sweeps = 30, 3, 5
    used = np.arange(d) % 3 > 0  # a third of the columns have no entry: one stands for all of them
    X, others, records = (rows(n, d, seed=n) * used for n in (14, 9, 5))
    records[4, 0] = 2.0  # but for one of them, which is one record's alone
    X, others, records = sp.csr_array(X), sp.csr_array(others), sp.csr_array(records)
    monkeypatch.setattr("pdml_spdz.privacy.nmf_mechanism.NUMBERS", 2 * k * d)  # two runs at a time
    mechanism = NmfMechanism(others, k, sweeps=sweeps, start=start)
    found = mechanism.sample_with(X, records, np.random.default_rng(1))
    seed = int(np.random.default_rng(1).integers(2**63))
    for i in range(records.shape[0]):
        rows_i = sp.csr_array(sp.vstack([X, records[[i]]]))
        T = np.random.default_rng(seed).uniform(size=(k, d))
        T /= T.sum(axis=1, keepdims=True)
        settings = SweepSettings(sweeps, 0.0, 1e9)
        if start == "pd":
            own = [own_topics(table, k, settings) for table in (rows_i, others)]
            T = Joined([FullPart(lengths[:, None] * T_m, k) for lengths, T_m in own]).iterate(T, settings)
        both = Joined([FullPart(table, k) for table in (rows_i, others)])
        T = both.iterate(T, settings)
        close = 1e-9  # as above
        assert found["T"][i] == pytest.approx(T, abs=close)
        assert found["num"][i] == pytest.approx(np.array([both.num[t] for t in range(k)]), abs=close)
        assert found["den"][i] == pytest.approx(np.array([both.den[t][0] for t in range(k)]), abs=close)


def test_a_word_that_only_one_record_has_gives_it_away() -> None:
    X = rows(60, 6)
    X[:, 5] = 0.0
    X[0, 5] = 1.0
    plan = make_plan(60, [0], 10, 20, seed=2)
    samples = run(Experiment(X, plan, NmfMechanism(rows(10, 6, seed=1) * (np.arange(6) < 5), 2, sweeps=3)))
    (view,) = judge(samples, plan.documents)
    assert view.flagged == (0,)
    support = samples.values[0, samples.names.index("pd-nmf/num support")]
    assert support[0].min() > support[1].max()


def test_views_of_nmf_have_the_statistics_that_their_numbers_allow() -> None:
    X, others = rows(30, 6), rows(10, 6, seed=1)
    mechanism = NmfMechanism(others, 2, sweeps=3, views=tuple(NMF_VIEWS))
    seen, x = mechanism.run(X, 1), X[3]
    whole = mechanism.statistics(seen, x)
    for view, known in NMF_VIEWS.items():
        other = mechanism.statistics(
            {**seen, **{name: 2.0 * seen[name] + 1.0 for name in SEEN if name not in known}}, x
        )
        mine = [name for name in whole if name.startswith(f"{view}/")]
        assert [other[name] for name in mine] == [whole[name] for name in mine]
        assert any(other[name] != value for name, value in whole.items()) == (len(known) < len(SEEN))
    with pytest.raises(InputError, match="unknown"):
        NmfMechanism(others, 2, views=("T",))


def test_observer_by_some_statistics_is_judged_by_them_alone() -> None:
    X = rows(60, 5)
    plan = make_plan(60, [0, 1, 2], 10, 12, seed=2)
    view = judge(run(Experiment(X, plan, SvdMechanism(rows(10, 5, seed=1), 2, 10))), plan.documents)[0]
    whole = view.by(view.statistics)
    assert (whole.pi, whole.mean_min_p, whole.sd_min_p) == (view.pi, view.mean_min_p, view.sd_min_p)
    assert (whole.by_chance, whole.flagged) == (view.by_chance, view.flagged)
    one = view.by({"W max"})
    assert one.mean_min_p == pytest.approx(np.mean([r.p_by_statistic["W max"] for r in view.records]))
    assert one.by_chance == 0.5


@pytest.mark.parametrize("support", [0, 3, 9])
def test_symmetric_matrices_say_of_themselves_what_their_entries_say(
    support: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pdml_spdz.privacy.symmetric.BLOCK", 4)
    rng = np.random.default_rng(3)
    A, x, place = rng.normal(size=(9, 9)), np.zeros(9), np.arange(9)[rng.permutation(9) < support]
    x[place] = rng.normal(size=support)
    V = np.linalg.qr(rng.normal(size=(9, 2)))[0]
    one_more = OneMore(Whole(A + A.T), x, 0.5, 2.0)
    assert one_more.matrix() == pytest.approx(2.0 * (A + A.T + 0.5 * np.outer(x, x)))
    assert one_more.times(x) == pytest.approx(one_more.matrix() @ x)
    assert one_more.diagonal() == pytest.approx(np.diag(one_more.matrix()))
    values = np.array([3.0, 1.0])
    for S in (Whole(A + A.T), LowRank(V, values), LowRank(V, values, single=True), one_more):
        M = S.matrix()
        for inside in (place, np.array([0, 2])):
            outside = np.ones((9, 9), bool)
            outside[np.ix_(inside, inside)] = False
            total, largest = S.outside(inside)
            assert S.block(inside) == pytest.approx(M[np.ix_(inside, inside)])
            exact = 2.0**-20 if getattr(S, "single", False) else 1e-12
            assert total == pytest.approx(np.abs(M[outside]).sum(), rel=0, abs=exact * np.abs(M).sum())
            assert largest == pytest.approx(np.abs(M[outside]).max(initial=0.0))
        assert S.norm() == pytest.approx(np.linalg.norm(M))


@pytest.mark.parametrize("mechanism", [lambda X: SvdMechanism(X, 2, 10), lambda X: NmfMechanism(X, 2, 3)])
def test_other_rows_of_the_same_shape_are_another_plan(
    tmp_path: Path, mechanism: Callable[[RowsLike], Mechanism]
) -> None:
    X, plan = np.abs(rows()), make_plan(60, [1, 2], 10, 4, seed=5)
    for others, fits in ((X[:8], True), (X[:8], True), (X[8:16], False)):
        begin = partial(Store(tmp_path / "samples").begin, plan, mechanism(others).settings(), "population")
        if fits:
            begin()
        else:
            with pytest.raises(ResumeError, match="another plan"):
                begin()
