"""The way to a cluster of dask.distributed: its address, its certificates, and whether its workers can be used."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pdml_spdz.errors import ClusterError, StudyError
from pdml_spdz.rows.reading import Reading
from pdml_spdz.rows.workers import ClusterWorkers

CONNECT_SECONDS = 20.0
LOOPBACK = ("127.0.0.1", "localhost", "[::1]", "::1")


def connected(reading: Reading) -> ClusterWorkers:
    """To the scheduler that a party names: by TLS, or on this machine."""
    from dask import config
    from distributed import Client

    where = reading.dask
    as_file = "://" not in where
    given: dict[str, Any] = {"scheduler_file": where} if as_file else {"address": where}
    if as_file:
        where = _address_in(Path(where))
    _refuse_plaintext(where, reading)
    security = _security(reading.dask_certs) if where.startswith("tls://") else None
    try:
        with config.set({"distributed.comm.retry.count": 2}):
            client = Client(
                **given,
                timeout=CONNECT_SECONDS,
                set_as_default=False,
                security=security,
            )
    except (OSError, TimeoutError, ValueError) as error:
        raise ClusterError(
            f"the scheduler at {where} cannot be reached ({error or type(error).__name__}).",
            "a running scheduler with workers that have pdml-spdz",
            "check --dask and --dask-certs",
        ) from None
    workers = ClusterWorkers(client, where)
    try:
        client.wait_for_workers(1, timeout=CONNECT_SECONDS)  # one that is not there yet cannot be asked for its version
    except TimeoutError:
        workers.close()
        raise ClusterError(
            f"the scheduler at {where} had no workers for {CONNECT_SECONDS:g} s.",
            "workers that have pdml-spdz",
            "start workers for it, or look at their logs",
        ) from None
    _same_version(workers)
    return workers


def _same_version(workers: ClusterWorkers) -> None:
    """Workers of another version may add up something else, and nobody would see it in the result."""

    def installed() -> str:  # of no module, so that a worker without this package can be asked, too
        import importlib.metadata

        try:
            return importlib.metadata.version("pdml-spdz")
        except importlib.metadata.PackageNotFoundError:
            return ""

    own = installed()
    other = {name: found for name, found in workers.everywhere(installed).items() if found != own}
    if other:
        name, found = min(other.items())
        has = f"pdml-spdz {found}" if found else "no pdml-spdz"
        workers.close()
        raise ClusterError(
            f"{len(other)} workers at {workers.where} have another version: {name} has {has}, and this machine has "
            f"{own}.",
            "the same version everywhere",
            f"install version {own} where the workers are, and start them again",
        )


def _address_in(path: Path) -> str:
    try:
        return str(json.loads(path.read_text(encoding="utf-8"))["address"])
    except (OSError, ValueError, KeyError, TypeError):
        found = f"--dask is {str(path)!r}, which is no scheduler's address or file."
        raise StudyError(found, "tls://HOST:PORT, or the file that dask-scheduler wrote") from None


def _refuse_plaintext(where: str, reading: Reading) -> None:
    scheme, _, rest = where.partition("://")
    host = rest.rpartition(":")[0]
    if scheme not in ("tls", "tcp"):
        raise StudyError(f"--dask is {where!r}.", "tls://HOST:PORT")
    if scheme == "tcp" and host not in LOOPBACK and not reading.dask_plaintext:
        raise StudyError(
            f"--dask is {where!r}: rows would travel in the clear.",
            "tls://HOST:PORT and --dask-certs",
            "start the scheduler and its workers with certificates, or pass --dask-plaintext on a network of your own",
        )


def _security(certs: str) -> Any:
    from distributed import Security

    place = Path(certs)
    if not certs or not all((place / name).is_file() for name in ("ca.pem", "cert.pem", "key.pem")):
        raise StudyError(
            f"--dask-certs is {certs!r}.", "a directory with ca.pem, cert.pem and key.pem for a scheduler with TLS"
        )
    return Security(
        tls_ca_file=str(place / "ca.pem"),
        tls_client_cert=str(place / "cert.pem"),
        tls_client_key=str(place / "key.pem"),
        require_encryption=True,
    )
