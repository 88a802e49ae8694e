"""A small consortium's file, and the command as a user calls it."""

import json
from pathlib import Path
from typing import NamedTuple

import numpy as np
from typer.testing import CliRunner

from coterie.cli import app

HOSPITALS = ("Eastside", "Lakeview", "Northgate", "Riverside")


class Ran(NamedTuple):
    """A finished command with its folder."""

    status: int
    stdout: str
    stderr: str
    out: Path

    @property
    def json(self) -> dict:
        return json.loads(self.stdout)


def write_visits(path: Path, rows: int = 200) -> Path:
    """Rows of four hospitals; `readmitted` can be learnt from the two features, both within [-1, 1]."""
    rng = np.random.default_rng(7)
    x = rng.uniform(-1, 1, (rows, 2))
    yes = x @ [2.0, -1.0] + rng.normal(0, 0.3, rows) > 0
    lines = ["hospital,age,stay,readmitted"]
    for at in range(rows):
        label = "yes" if yes[at] else "no"
        lines.append(f"{HOSPITALS[at % 4]},{x[at, 0]:.3f},{x[at, 1]:.3f},{label}")
    path.write_text("\n".join(lines) + "\n")
    return path


def coterie(*arguments: object, out: Path = Path("unused")) -> Ran:
    """The command as a user calls it; an exception that is not an exit is a bug and shows."""
    result = CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)
    return Ran(result.exit_code, result.stdout, result.stderr, out)


def on(path: Path) -> tuple[object, ...]:
    """Arguments of a quick run on a file of `write_visits`."""
    return (
        "run",
        "--data",
        path,
        "--target",
        "readmitted",
        "--owner-column",
        "hospital",
        "--set",
        "rounds=5",
    )
