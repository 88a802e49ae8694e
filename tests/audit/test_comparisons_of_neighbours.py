"""What a comparison writes and prints, on two data sets that are neighbours, with all models held fixed.

As in `test_files_of_neighbours`, nothing is emptied: what differs must be marked where it is read.
"""

from __future__ import annotations

import csv
import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from test_files_of_neighbours import lines
from typer.testing import CliRunner

from coterie.cli import app
from coterie.experiments.comparing import compare, jobs
from coterie.experiments.prepare import Prepared, prepare

OWNERS, RECORDS, CHANGED = 3, 61, 2  # a test row
KINDS = {  # another record in a test row; or one more, where how many there are is private, and test rows are not
    "replaced": ("weighted_erm.steps=[2, 3]",),
    "added": (
        "weighted_erm.steps=[2, 3]",
        "weighted_erm.relation=add_or_remove_one",
        "weighted_erm.step_size=0.5",
    ),
}


class Said(NamedTuple):
    """All that a comparison leaves."""

    found: dict[str, Any]
    table: str
    page: str
    out: str


def write_records(path: Path, kind: str, changed: bool) -> Path:
    """Some owners' records, or a neighbour of these."""
    rng = np.random.default_rng(4)
    rows = [(f"o{at % OWNERS}", *rng.uniform(-0.9, 0.9, 2), False) for at in range(RECORDS)]
    if changed and kind == "replaced":
        rows[CHANGED] = (rows[CHANGED][0], 0.8, -0.1, True)
    if changed and kind == "added":
        rows.append(("o1", -0.3, -0.4, False))
    written = [
        f"{who},{a:.3f},{b:.3f},{'yes' if (a + b > 0) != other else 'no'}" for who, a, b, other in rows
    ]
    path.write_text("\n".join(["owner,a,b,label", *written]) + "\n")
    path.with_suffix(".toml").write_text('classes = ["no", "yes"]\n[columns]\na = [-1, 1]\nb = [-1, 1]\n')
    return path


def fixed(lanes: list[Any], shards: Any, *, probe: Any, **given: Any) -> tuple[None, list[Any]]:
    """In place of training: owners' models that differ, whatever the records are; worse ones with other seeds."""
    del shards, given
    angle = np.linspace(0.0, 2.0, OWNERS) + np.arange(len(lanes))[:, None]
    models = np.stack([np.cos(angle), np.sin(angle), 0 * angle], axis=2)[..., None].astype(np.float32)
    return None, [probe(jax.tree.map(lambda leaf: models, lanes[0].program.params))]


def with_public_rows(*given: Any) -> Prepared:
    """An experiment's values with test rows that nobody owns."""
    made, rows = prepare(*given), np.random.default_rng(9).uniform(-0.9, 0.9, (24, 2)).astype(np.float32)
    y = np.where(rows.sum(axis=1) > 0, 1, -1).astype(made.table.y.dtype)
    table = replace(made.table, x_test=rows, y_test=y, test_is_public=True)
    return made._replace(table=table, x_test=made.features.apply(rows), y_test=y)


def said(folder: Path, kind: str, changed: bool) -> Said:
    """The command on either neighbour."""
    data, out = write_records(folder / "records.csv", kind, changed), folder / f"found-{changed}"
    given = {"data": data, "columns": data.with_suffix(".toml"), "target": "label", "owner-column": "owner"}
    given |= {"protocols": "weighted_erm", "epsilon": 4, "seeds": 2, "delta": 1e-3, "out": out}
    asked = [part for name, value in given.items() for part in (f"--{name}", str(value))]
    asked += [part for one in KINDS[kind] for part in ("--set", one)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jobs, "sweep", fixed)
        if kind == "added":
            patch.setattr(compare, "prepare", with_public_rows)
        done = CliRunner().invoke(app, ["compare", *asked])
    assert done.exit_code == 0, done.output
    found, table, page = (
        (out / name).read_text() for name in ("comparison.json", "comparison.csv", "report.html")
    )
    return Said(json.loads(found), table, page, done.stdout.partition("\nwritten:")[0])


def unmarked(found: dict[str, Any]) -> Any:
    """What is left of comparison.json without what it lists as oracle values, wherever these stand; and the time."""
    gone = {*found["oracle"], "seconds"}

    def left(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: left(one) for key, one in value.items() if key not in gone}
        return [left(one) for one in value] if isinstance(value, list) else value

    return left(found)


def columns(table: str) -> list[tuple[str, ...]]:
    """Those whose names do not say that they are oracle values."""
    return [one for one in zip(*csv.reader(io.StringIO(table))) if not one[0].endswith("(oracle)")]


def sentences(page: str) -> set[str]:
    """What the page says before its pictures and tables, by paragraph."""
    return set(re.findall("<p.*?</p>", page.partition("<section")[0], re.DOTALL))


@pytest.mark.parametrize("kind", KINDS)
def test_what_differs_between_neighbours_is_marked_where_it_is_read(kind, tmp_path):
    first, second = (said(tmp_path, kind, changed) for changed in (False, True))
    assert first.found != second.found  # oracle values are of records, so that the comparison can fail
    assert first.table != second.table
    assert unmarked(first.found) == unmarked(second.found)
    assert columns(first.table) == columns(second.table)
    assert lines(first.out) == lines(second.out)
    differ = sentences(first.page) ^ sentences(second.page)
    assert differ
    assert all('class="oracle"' in one or "(oracle)" in one for one in differ)
