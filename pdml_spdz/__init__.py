"""pdml-spdz: private distributed SVD, PCA and NMF.

M organisations, each with its own rows, compute one factorisation of the union of their data, without a trusted third
party.

    import pdml_spdz
    result = pdml_spdz.svd([X_0, X_1, X_2], rank=7)     # arrays or paths; one process for each party
    result.V                                            # (d, 7), the same as the SVD of the pooled rows
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.5.0"
__all__ = [
    "NMFResult",
    "NmfSettings",
    "NormedSumResult",
    "PCAResult",
    "PartyEntry",
    "PrecisionSettings",
    "Reading",
    "RowSettings",
    "SVDResult",
    "Study",
    "Timeouts",
    "__version__",
    "errors",
    "nmf",
    "normed_sum",
    "pca",
    "run_party",
    "svd",
]

if TYPE_CHECKING:
    from pdml_spdz import errors
    from pdml_spdz.api import (
        NMFResult,
        NmfSettings,
        NormedSumResult,
        PartyEntry,
        PCAResult,
        PrecisionSettings,
        Reading,
        RowSettings,
        Study,
        SVDResult,
        Timeouts,
        nmf,
        normed_sum,
        pca,
        run_party,
        svd,
    )


def __getattr__(name: str) -> Any:
    # Parties are processes of their own: what starts them is imported only where it is used.
    import importlib

    if name == "errors":
        return importlib.import_module("pdml_spdz.errors")
    if name in __all__:
        return getattr(importlib.import_module("pdml_spdz.api"), name)
    raise AttributeError(f"module 'pdml_spdz' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
