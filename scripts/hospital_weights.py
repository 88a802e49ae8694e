"""What class weights and thresholds do to a rare outcome under privacy: the table of docs/running.md.

    python scripts/hospital_weights.py FOLDER

takes visits.csv of `hospital_csv.py` in that folder and the walk's columns.toml, and prints AUC, balanced accuracy and
recall of the joint model, mean and standard deviation over five seeds at ε = 2: oracle values, all of them.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

import coterie

WAYS: dict[str, dict[str, Any]] = {
    "neither": {},
    "`threshold = base_rate`": {"threshold": "base_rate"},
    "`class_weight = balanced`": {"class_weight": "balanced"},
}
SHOWN = ("auc", "balanced_accuracy", "recall")


def measured(folder: Path, way: dict[str, Any], seed: int) -> list[float]:
    """The metrics of one run."""
    files = {"data": str(folder / "visits.csv"), "columns": str(folder / "columns.toml")}
    experiment = coterie.Experiment(
        **files, owner_column="hospital", epsilon=(2.0,), base_rate=0.03, seed=seed, **way
    )
    result = coterie.run(experiment)
    return [float(result.measures[result.prepared.judge.names.index(name), 0]) for name in SHOWN]


def main(folder: Path) -> None:
    """Print the table."""
    print(f"| | {' | '.join(SHOWN)} |\n|---|{'---|' * len(SHOWN)}")
    for name, way in WAYS.items():
        found = np.array([measured(folder, way, seed) for seed in range(5)])
        cells = [f"{mean:.2f} ± {spread:.2f}" for mean, spread in zip(found.mean(0), found.std(0))]
        print(f"| {name} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
