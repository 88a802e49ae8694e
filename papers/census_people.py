"""A table of persons with several records each, made of the embedded census extract: for studies of units of privacy.

    python -m papers.census_people people.csv      writes it, with people.toml, its columns file, beside it

Rows are real, persons are made up: records are laid in a line by sex, schooling, marital status, age and occupation, so
that neighbours are alike, and the line is cut into persons of 1 + Geometric records, five on average and at most 40, by
a fixed seed. So a person's records resemble each other, as visits of one patient do, and some persons have many.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from coterie.problems.datasets import load

SEED, MEAN, MOST = 20_261_116, 5, 40
PERSON, TARGET = "person", "income"
_LINE = ("sex", "education", "marital", "age", "occupation")


def people() -> np.ndarray:
    """(rows,) the person of each row of the census extract's training rows."""
    table = load("census")
    keys = [
        table.x[:, [at for at, name in enumerate(table.columns) if name.startswith(field)]].argmax(axis=1)
        for field in _LINE
    ]
    line = np.lexsort(keys[::-1])
    rng = np.random.default_rng(SEED)
    lengths = np.minimum(rng.geometric(1 / MEAN, len(line)), MOST)
    persons = np.repeat(np.arange(len(line)), lengths)[: len(line)]
    found = np.empty(len(line), int)
    found[line] = persons
    return found


def frame() -> Any:
    """One row a record: the person, the encoded columns, the income."""
    import pandas as pd

    table = load("census")
    columns = {f"x{at}": column for at, column in enumerate(table.x.T.astype(np.float32))}
    income = np.where(table.y > 0, table.classes[1], table.classes[0])
    return pd.DataFrame({PERSON: people(), **columns, TARGET: income})


def said() -> dict[str, Any]:
    """What is public about it, as a columns file has it."""
    table = load("census")
    return {
        "target": TARGET,
        "classes": list(table.classes),
        "privacy_unit": PERSON,
        "columns": {f"x{at}": [0.0, 1.0] for at in range(table.x.shape[1])},
    }


if __name__ == "__main__":
    import tomli_w

    path = Path(sys.argv[1])
    frame().to_csv(path, index=False)
    path.with_suffix(".toml").write_text(tomli_w.dumps(said()), encoding="utf-8")
