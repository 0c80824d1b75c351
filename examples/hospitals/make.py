"""Three hospitals' tables of patients, made up, in the shapes in which such tables come.

    python examples/hospitals/make.py DIRECTORY

The patients are drawn from a small model (age, a metabolic and an inflammatory factor), with a fixed seed: nobody's
data, and the same files on every machine. They differ as files of different organisations do: north.csv has commas,
lake.csv semicolons, decimal commas and another order of columns, valley.csv spells missing values differently. All have
an identifier, a date, a text, a category and a yes or no beside the numbers, and a few gaps.
"""

from __future__ import annotations

import sys
from pathlib import Path
from random import Random

SEED = 20261117
SIZES = {"north": 420, "lake": 180, "valley": 260}
# Mean, spread, and how much of the spread is due to age, to the metabolic factor and to inflammation; decimals.
MEASURED = {
    "bmi": (26.8, 4.6, (0.05, 0.70, 0.05), 1),
    "systolic": (131.0, 17.0, (0.50, 0.45, 0.05), 0),
    "diastolic": (79.0, 10.5, (0.10, 0.55, 0.05), 0),
    "heart_rate": (76.0, 11.5, (-0.10, 0.15, 0.55), 0),
    "glucose": (6.1, 1.5, (0.20, 0.75, 0.10), 1),
    "hba1c": (41.0, 9.0, (0.25, 0.75, 0.05), 0),
    "cholesterol": (5.1, 1.0, (0.15, 0.35, -0.20), 1),
    "creatinine": (84.0, 20.0, (0.50, 0.25, 0.10), 0),
    "crp": (12.0, 9.0, (0.05, 0.10, 0.80), 1),
    "leucocytes": (8.2, 2.4, (-0.05, 0.05, 0.75), 1),
    "haemoglobin": (13.6, 1.6, (-0.35, 0.05, -0.45), 1),
    "stay_days": (6.5, 3.5, (0.35, 0.15, 0.55), 0),
}
LEAST = {"crp": 0.3, "leucocytes": 1.0, "stay_days": 1.0, "glucose": 3.0, "creatinine": 30.0, "hba1c": 20.0}
WARDS = ("cardiology", "surgery", "general medicine", "pneumology")
GAPS = {"north": ("", 0.010), "lake": ("", 0.015), "valley": ("NA", 0.012)}


def admission(rng: Random, inflammation: float) -> str:
    if rng.gauss(0, 1) < inflammation - 0.1:
        return "emergency"
    return "planned" if rng.random() < 0.8 else "transfer"


def patient(rng: Random, hospital: str, number: int) -> dict[str, str]:
    """One admission; hospitals differ a little in whom they treat."""
    age = min(96.0, max(18.0, rng.gauss({"north": 61, "lake": 68, "valley": 56}[hospital], 15)))
    factors = ((age - 61) / 15, rng.gauss(0, 1), rng.gauss(0.2 if hospital == "valley" else 0, 1))
    row = {
        "patient": f"{hospital[0].upper()}{number:04d}",
        "admitted": f"2025-{rng.randint(1, 12):02d}-{rng.randint(1, 28):02d}",
        "ward": rng.choice(WARDS),
        "admission": admission(rng, factors[2]),
        "smoker": str(rng.random() < 0.22).lower(),
        "age": f"{age:.0f}",
    }
    for name, (mean, spread, weights, decimals) in MEASURED.items():
        rest = max(0.05, 1 - sum(w * w for w in weights)) ** 0.5
        value = mean + spread * (sum(w * f for w, f in zip(weights, factors, strict=True)) + rest * rng.gauss(0, 1))
        row[name] = f"{max(value, LEAST.get(name, 0.0)):.{decimals}f}"
        if rng.random() < GAPS[hospital][1]:
            row[name] = GAPS[hospital][0]
    return row


def table(hospital: str) -> str:
    """The file of one hospital."""
    rng = Random(f"{SEED} {hospital}")
    rows = [patient(rng, hospital, i) for i in range(SIZES[hospital])]
    names, separator = list(rows[0]), ","
    if hospital == "lake":
        names, separator = [names[0], *reversed(names[1:])], ";"
        rows = [{name: text if name == "patient" else text.replace(".", ",") for name, text in r.items()} for r in rows]
    lines = [separator.join(names), *(separator.join(row[name] for name in names) for row in rows)]
    return "\n".join(lines) + "\n"


def write(directory: Path) -> list[Path]:
    """All three files."""
    directory.mkdir(parents=True, exist_ok=True)
    files = {directory / f"{hospital}.csv": table(hospital) for hospital in SIZES}
    for path, text in files.items():
        path.write_text(text, encoding="utf-8")
    return list(files)


if __name__ == "__main__":
    for path in write(Path(sys.argv[1] if len(sys.argv) > 1 else ".")):
        print(path)
