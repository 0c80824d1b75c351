"""PD-SVD, PD-PCA and PD-NMF as scikit-learn transformers: the rows of one X are split among local parties.

For trying out, for pipelines and for comparison with scikit-learn's own; parties on hosts of their own use the command
`pdml-spdz party`. Needs scikit-learn: pip install 'scikit-learn>=1.6'.
"""

from __future__ import annotations

try:
    from sklearn.base import BaseEstimator as BaseEstimator
    from sklearn.utils.validation import validate_data as validate_data  # which came with 1.6
except ImportError as error:
    raise ImportError(
        "pdml_spdz.estimators needs scikit-learn 1.6 or newer: pip install 'scikit-learn>=1.6'"
    ) from error

from pdml_spdz.estimators.base import split
from pdml_spdz.estimators.components import PDNMF, PDPCA, PDSVD

__all__ = ["PDNMF", "PDPCA", "PDSVD", "split"]
