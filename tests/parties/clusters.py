"""A real cluster of dask.distributed on this machine: a scheduler and worker processes, over TLS."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from distributed import Security

from pdml_spdz import Reading

QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


class Cluster:
    """place : where its certificates, its scheduler's file and what workers spill are"""

    def __init__(self, place: Path, workers: int = 2) -> None:
        self.place, self.file = place, place / "scheduler.json"
        made = Security.temporary()
        for name, content in (("ca", made.tls_ca_file), ("cert", made.tls_client_cert), ("key", made.tls_client_key)):
            (place / f"{name}.pem").write_text(content)
        self.start(workers)

    def start(self, workers: int) -> None:
        self.file.unlink(missing_ok=True)
        port = ["--host", "tls://127.0.0.1", "--port", "0", "--no-dashboard"]
        self.scheduler = self._program("dask_scheduler", *port, "--scheduler-file", str(self.file))
        _until(lambda: self.file.exists() and self.file.stat().st_size > 0)
        self.workers = [self._worker() for _ in range(workers)]

    def _worker(self) -> subprocess.Popen[bytes]:
        limits = ["--nthreads", "1", "--memory-limit", "500MB", "--no-nanny", "--no-dashboard", "--death-timeout", "60"]
        return self._program(
            "dask_worker", "--scheduler-file", str(self.file), *limits, "--local-directory", str(self.place)
        )

    def _program(self, name: str, *words: str) -> subprocess.Popen[bytes]:
        keys = [f"--tls-{option}={self.place / file}.pem" for option, file in (("ca-file", "ca"), ("cert", "cert"))]
        command = [sys.executable, "-m", f"distributed.cli.{name}", *words, *keys, f"--tls-key={self.place}/key.pem"]
        return subprocess.Popen(command, env=os.environ | {"OMP_NUM_THREADS": "1"}, **QUIET)  # type: ignore[call-overload, no-any-return]

    @property
    def reading(self) -> Reading:
        return Reading(dask=json.loads(self.file.read_text())["address"], dask_certs=str(self.place))

    def kill_worker(self) -> None:
        self.workers[0].send_signal(signal.SIGKILL)

    def kill(self) -> None:
        for process in (self.scheduler, *self.workers):
            process.kill()
            process.wait()


def _until(condition: object, within: float = 60.0) -> None:
    deadline = time.monotonic() + within
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)
