"""Make the file of two hospitals that docs/data.md walks through: made-up visits, written as hospitals' programs write.

    python scripts/hospital_csv.py FOLDER

writes visits.csv (300 and 5,000 rows, 3 % of them readmitted: semicolons, decimal commas, Latin-1 letters, dates, empty
cells) and new.csv, 20 rows whose outcome is not known yet. The same on every machine.
"""

from __future__ import annotations

import random
import sys
from datetime import date, timedelta
from pathlib import Path

SIZES = {"Nordstadt": 300, "Südklinik": 5000}
HEADER = ("case_id", "hospital", "age", "crp", "ward", "smoker", "admitted", "readmitted")
WARDS = ("Chirurgie", "Innere", "Notaufnahme", "Pädiatrie")
POSITIVE = 0.03
_FIRST = date(2021, 1, 1)


def visits(sizes: dict[str, int], seed: int = 7) -> list[list[str]]:
    """Rows of every hospital; who is old, inflamed and smokes is readmitted, but for chance."""
    rng, rows = random.Random(seed), []
    for hospital, size in sizes.items():
        made = [_visit(rng, hospital) for _ in range(size)]
        made.sort(key=lambda one: -one[1])
        positive = round(POSITIVE * size)
        told = [[*cells, "ja" if at < positive else "nein"] for at, (cells, _) in enumerate(made)]
        rng.shuffle(told)
        rows += told
    return [[f"F{number:05d}", *cells] for number, cells in enumerate(rows, 1)]


def _visit(rng: random.Random, hospital: str) -> tuple[list[str], float]:
    """Cells without number and outcome, and how likely the outcome is."""
    age, crp = rng.randint(18, 97), min(rng.expovariate(1 / 20), 300.0)
    smokes = rng.random() < 0.3
    day = _FIRST + timedelta(days=rng.randrange(4 * 365))
    written = {
        "crp": "" if rng.random() < 0.08 else f"{crp:.1f}".replace(".", ","),
        "smoker": "" if rng.random() < 0.05 else "ja" if smokes else "nein",
    }
    cells = [hospital, str(age), written["crp"], rng.choice(WARDS), written["smoker"], f"{day:%d.%m.%Y}"]
    return cells, age / 40 + crp / 25 + smokes + rng.gauss(0, 0.5)


def write(folder: Path, sizes: dict[str, int] | None = None, new: int = 20) -> None:
    """Both files."""
    rows = visits(sizes or SIZES)
    later = visits({"Nordstadt": new}, seed=8)
    _save(folder / "visits.csv", HEADER, rows)
    _save(folder / "new.csv", HEADER[:-1], [row[:-1] for row in later])


def _save(path: Path, header: tuple[str, ...], rows: list[list[str]]) -> None:
    text = "".join(";".join(cells) + "\r\n" for cells in (header, *rows))
    path.write_bytes(text.encode("latin-1"))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
