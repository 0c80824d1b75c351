"""What a run of a study will show, known before it begins: for people who decide whether to take part."""

from __future__ import annotations

from pdml_spdz.fits.fill import announced_filling
from pdml_spdz.fits.limits import announced_bound
from pdml_spdz.fits.prepare import announced_view
from pdml_spdz.study.model import Study


def announced(study: Study) -> list[str]:
    """What every party will have seen besides the result when a run of the study has ended, in words."""
    bound = announced_bound(study) if study.scale != "secsum" else None
    fit = [*announced_view(study), *study.spec.reveals(study)]
    return [*announced_filling(study), *fit, *([bound] if bound else [])]
