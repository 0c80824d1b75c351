r"""What a sealed fit takes, and how right it is.

    PDML_DATA=DIR python -m benchmarks.bench_sealed [--dealt | --curves | --measured-curves | --engines] [--hidden] \
        [name ...]

Three parties on this machine, processes with TLS between them, k = 7, the default goal: seconds, bytes that a party
sends, rounds, the sine of V's error against the pooled SVD; and what was forecast from public numbers. --dealt: threads
that take the products of their masks from a dealer of the tests, to see V alone. --curves: forecasts over d, b, T, M.
--measured-curves: runs beside them, where they are short. --engines: embedded and MP-SPDZ on the same few
features, with what each trusts (SPU, beside them: sealed_peers.py). --hidden: without the ratios of Ritz values. Names
after an option choose among its lines.
"""

from __future__ import annotations

import argparse
import os
import resource
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits

import pdml_spdz
from benchmarks.experiments import datasets
from benchmarks.parties import save
from pdml_spdz.engines.embedded.sealed_forecast import forecast
from pdml_spdz.engines.mp_spdz import home
from pdml_spdz.engines.mp_spdz.compiler import compile_program
from pdml_spdz.engines.mp_spdz.protocols import protocol
from pdml_spdz.numerics.linalg import sine
from pdml_spdz.programs.render import render_sealed
from pdml_spdz.programs.sealed_precision import SealedPrecision, iterations_for

K, M = 7, 3


@dataclass(frozen=True)
class Asked:
    """names : of lines; all, where none is named. ratios : of Ritz values, open or hidden"""

    names: list[str]
    ratios: str

    def wants(self, name: str) -> bool:
        return not self.names or name in self.names


def standardised(X: np.ndarray) -> np.ndarray:
    X = X[:, X.std(axis=0) > 0]
    return np.asarray((X - X.mean(axis=0)) / X.std(axis=0))


def spectrum(d: int = 64) -> np.ndarray:
    """Rows with lambda_(k+1) = 0.98 lambda_k and lambda_(b+1) = 0.5 lambda_k."""
    top = np.linspace(1.0, 0.5, K)
    values = np.concatenate([top, [0.49], np.linspace(0.45, 0.26, K - 1), 0.25 * np.linspace(1.0, 0.01, d - 2 * K)])
    rng = np.random.default_rng(1)
    Q = np.linalg.qr(rng.normal(size=(d, d)))[0]
    left = np.linalg.qr(rng.normal(size=(4 * d, d)))[0]
    return np.asarray(left * np.sqrt(values) @ Q.T)


def tables(directory: Path) -> Iterator[tuple[str, np.ndarray]]:
    yield "digits", load_digits().data
    yield "breast cancer", standardised(load_breast_cancer().data)
    yield "spectrum", spectrum()
    yield "spectrum 256", spectrum(256)
    for name in ("Songs", "News"):
        if directory.is_dir():
            yield name.lower(), standardised(datasets.regression_table(directory, name)[0])


def dealt(X: np.ndarray) -> dict[str, Any]:
    from tests.sealed_fits import sealed_fit  # the dealer is part of the tests

    p = SealedPrecision(M, X.shape[1], K, 2 * K, iterations=iterations_for(1e-6, 0.6))
    began = time.perf_counter()
    fit = sealed_fit([part.T @ part for part in np.array_split(X, M)], p)
    V = None if fit.last.V is None else np.linalg.qr(fit.last.V)[0]
    error = float("nan") if V is None else sine(V, np.linalg.svd(X, full_matrices=False)[2][:K].T)
    return {"checkpoints": len(fit.seen[0]), "sine": error, "rounds": fit.rounds[0], "s": time.perf_counter() - began}


def measured(X: np.ndarray, M: int = M, **settings: Any) -> dict[str, Any]:
    usual: dict[str, Any] = {"decay": 0.6, "block": 2 * K, "ratios": "open"}
    chosen = usual | settings
    load, began, before = os.getloadavg()[0], time.perf_counter(), _cpu_of_parties()
    result = pdml_spdz.svd(np.array_split(X, M), rank=K, reveal="sealed", seed=1, offline="on-demand", **chosen)
    wall, report = time.perf_counter() - began, result.report
    T = iterations_for(1e-6, chosen["decay"])
    expected = forecast(
        SealedPrecision(
            M,
            X.shape[1],
            K,
            chosen["block"],
            iterations=T,
            decay=chosen["decay"],
            hidden_ratios=chosen["ratios"] == "hidden",
        )
    )
    return {
        "s": wall,
        "load before": load,
        "s of CPU a party": (_cpu_of_parties() - before) / M,
        "MB sent by a party": (report["bytes_sent"] + report["offline"]["bytes_sent"]) / M / 1e6,
        "rounds": report["rounds"] + report["offline"]["rounds"],
        "checkpoints": report["gate"]["reached"],
        "sine": sine(result.V, np.linalg.svd(X, full_matrices=False)[2][:K].T),
        "forecast MB": expected.sent / 1e6,
        "forecast s of one core": expected.seconds,
        "forecast rounds": expected.rounds,
    }


def _cpu_of_parties() -> float:
    """Seconds of all child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured_curves(asked: Asked) -> dict[str, Any]:
    """Runs around d = 64, b = 14, T = 17, M = 3."""
    cases: dict[str, tuple[int, int, dict[str, Any]]] = {
        "d = 16": (16, M, {}),
        "d = 32": (32, M, {}),
        "d = 128": (128, M, {}),
        "M = 2": (64, 2, {}),
        "M = 5": (64, 5, {}),
        "b = 10": (64, M, {"block": 10}),
        "b = 21": (64, M, {"block": 21}),
        "T = 33": (64, M, {"decay": 0.85}),
    }
    found = {}
    for name, (d, parties, settings) in cases.items():
        if not asked.wants(name):
            continue
        found[name] = row = measured(spectrum(d), parties, ratios=asked.ratios, **settings)
        print(f"{name}: {row}", flush=True)
    return found


def engines(asked: Asked, d: int = 4, k: int = 1) -> dict[str, Any]:
    """The same rows and the same program; the default goal."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(90, d)) * 0.5 ** np.arange(d)
    wanted, found = np.linalg.svd(X)[2][:k].T, {}
    ways: dict[str, dict[str, Any]] = {
        "embedded": {},
        "mp-spdz, hemi": {"engine": "mp-spdz", "protocol": "hemi"},
        "mp-spdz, semi": {"engine": "mp-spdz", "protocol": "semi"},
    }
    for name, settings in ways.items():
        if not asked.wants(name):
            continue
        if "protocol" in settings:  # compiled before, as it is kept
            p = SealedPrecision(M, d, k, min(2 * k, d), iterations=iterations_for(1e-6, 0.6))
            compile_program(render_sealed(p), p, protocol(settings["protocol"]), home.require())
        load, began, before = os.getloadavg()[0], time.perf_counter(), _cpu_of_parties()
        result = pdml_spdz.svd(np.array_split(X, M), rank=k, reveal="sealed", seed=1, offline="on-demand", **settings)
        wall, report = time.perf_counter() - began, result.report
        found[name] = row = {
            "d": d,
            "s": wall,
            "load before": load,
            "s of CPU a party": (_cpu_of_parties() - before) / M,
            "MB sent by a party": (report["bytes_sent"] + report["offline"]["bytes_sent"]) / M / 1e6,
            "rounds": report["rounds"] + report["offline"]["rounds"],
            "sine": sine(result.V, wanted),
            "trust": f"{report['security']['model']}; {report['security']['corruptions']}",
        }
        print(f"{name}: {row}", flush=True)
    return found


def curves() -> dict[str, Any]:
    """Forecasts up to the first checkpoint, around d = 64, b = 14, T = 17, M = 3."""
    usual: dict[str, Any] = {"M": M, "d": 64, "columns": 2 * K, "iterations": iterations_for(1e-6, 0.6)}
    over = {
        "d": (16, 32, 64, 128, 256),
        "columns": (8, 10, 14, 21, 28),
        "iterations": (9, 17, 33, 65),
        "M": (2, 3, 5, 8),
    }
    found: dict[str, Any] = {}
    for name, values in over.items():
        for value in values:
            chosen = usual | {name: value}
            chosen["columns"] = min(chosen["columns"], chosen["d"])
            plan = forecast(SealedPrecision(rank=K, **chosen))
            waits = {f"{ms} ms": round(plan.rounds * ms / 1e3) for ms in (20, 100)}
            found[f"{name} = {value}"] = row = {"MB": plan.sent / 1e6, "rounds": plan.rounds, "s": plan.seconds} | waits
            print(f"{name} = {value}: {row}", flush=True)
    return found


def whole_tables(asked: Asked, *, masks_dealt: bool) -> dict[str, Any]:
    found = {}
    for name, X in tables(Path(os.environ.get("PDML_DATA", "data"))):
        if asked.wants(name):
            found[name] = row = dealt(X) if masks_dealt else measured(X, ratios=asked.ratios)
            print(f"{name} (d = {X.shape[1]}): {row}", flush=True)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group()
    for option in ("--dealt", "--curves", "--measured-curves", "--engines"):
        what.add_argument(option, dest="what", action="store_const", const=option[2:])
    parser.add_argument("--hidden", action="store_true")
    parser.add_argument("name", nargs="*")
    options = parser.parse_args()
    asked = Asked(options.name, "hidden" if options.hidden else "open")
    if options.what == "curves":
        save("sealed-curves", curves())
    elif options.what == "measured-curves":
        save("sealed-measured-curves", measured_curves(asked))
    elif options.what == "engines":
        save("sealed-engines", engines(asked))
    elif options.what == "dealt":
        save("sealed-dealt", whole_tables(asked, masks_dealt=True))
    else:
        save("sealed", whole_tables(asked, masks_dealt=False))


if __name__ == "__main__":
    main()
