"""What a run writes and prints, on two data sets that are neighbours, with everything that was charged held fixed.

`test_leaks` empties what a result marks as oracle values and compares the rest. Here nothing is emptied: files and
words are compared as people get them, and what differs must be marked there, where they read it. Sums and tables are
charged, too: the second run computes its own, and releases the first one's.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest
from leak_hunt import Replay, run_folder
from typer.testing import CliRunner

from coterie.cli import app
from coterie.engines import simulate as engine
from coterie.evaluation.centre import Sums
from coterie.evaluation.selection import Ballot
from coterie.experiments import evaluating, training
from coterie.experiments import run as runs

OWNERS, PEOPLE, CHANGED = 3, 60, 7
ALL: dict[str, Any] = {"centre": 0.1, "select": 0.2, "evaluate": 0.4, "set": ("rounds=4",)}
PRIVATE_SIZES: dict[str, Any] = {
    "target": "label",
    "protocol": "weighted_erm",
    "set": ("steps=4", "relation=add_or_remove_one", "step_size=0.5"),
    "centre": 0,
}
MARK = re.compile(r"(?<!no )\boracle\b")
SIZES = {"trained": 61, "tested": 60}  # people where a row more is trained on, or tested on
KINDS: dict[str, dict[str, Any]] = {
    "classes": {**ALL, "target": "label", "hold-out": 0.45, "evaluate-by": "ward"},
    "quantity": {**ALL, "target": "amount"},
    "units": {**ALL, "target": "label", "unit": "column:who", "records-per-unit": 3},
    "trained": {**ALL, **PRIVATE_SIZES},
    "tested": {**ALL, **PRIVATE_SIZES},
}


class Said(NamedTuple):
    """All that a run leaves."""

    files: dict[str, bytes]
    out: str
    err: str


def write_records(path: Path, changed: bool, kind: str) -> Path:
    """One person's record is another in every column when `changed`; of units there is one more, of sizes a row more.

    Features and target of it lie outside what is declared, which loading counts.
    """
    rng = np.random.default_rng(5)
    lines = ["owner,who,a,b,ward,label,amount"]
    for who in range(SIZES.get(kind, PEOPLE)):
        a, b = rng.uniform(-0.9, 0.9, 2)
        other = changed and who == CHANGED
        many = 1 + who % 2 * (kind == "units") + other * (kind in ("units", *SIZES))
        for row in range(many):
            x, y = (1.95 - a, -b) if other else (a + row / 50, b)
            label = "yes" if (a + b + row / 10 > 0) != other else "no"
            where = f"o{who % OWNERS},p{who}"
            ward = "south" if (who % 4 == 0) != other else "north"
            lines.append(f"{where},{x:.3f},{y:.3f},{ward},{label},{3 * a - b + 30 * other:.3f}")
    path.write_text("\n".join(lines) + "\n")
    target = "range = [-10, 10]" if kind == "quantity" else 'classes = ["no", "yes"]'
    columns = 'a = [-1, 1]\nb = [-0.9, 0.9]\nward = ["north", "south"]\n'
    path.with_suffix(".toml").write_text(f"{target}\n[columns]\n{columns}")
    return path


def arguments(kind: str, data: Path) -> list[str]:
    given = KINDS[kind] | {"data": data, "columns": data.with_suffix(".toml"), "out": data.with_name("run")}
    given |= {"owner-column": "owner", "delta": 1e-3, "epsilon": 60}
    settings = [part for one in given.pop("set") for part in ("--set", one)]
    return ["run", *(part for name, value in given.items() for part in (f"--{name}", str(value))), *settings]


class Charged:
    """What is tallied of records as the first run had it, whatever records say the next time."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.kept: list[np.ndarray] = []
        self.own: list[np.ndarray] = []
        self.again = False
        for place, name in ((Sums, "tally"), (Ballot, "tally"), (evaluating, "tallied")):
            patch.setattr(place, name, self._fixed(getattr(place, name)))

    def _fixed(self, tally: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
        def fixed(*given: Any, **named: Any) -> np.ndarray:
            (self.own if self.again else self.kept).append(tally(*given, **named))
            return self.kept[len(self.own) - 1 if self.again else -1]

        return fixed


def both(kind: str, folder: Path) -> tuple[Said, Said, Charged]:
    """The command on either of two neighbours, with the first one's messages and tables."""
    traces, build, data = [], evaluating.build, folder / "records.csv"

    def keeping(*given: Any, **named: Any) -> Any:
        traces.append(engine.simulate(*given, **named, transcript=not traces))
        return traces[-1]

    def said(changed: bool) -> Said:
        done = CliRunner().invoke(app, arguments(kind, write_records(data, changed, kind)))
        assert done.exit_code == 0, done.output
        return Said(run_folder(folder / "run"), done.stdout, done.stderr)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "simulate", keeping)
        patch.setattr(runs.time, "perf_counter", lambda: 0.0)  # anyone's own clock measures that
        charged = Charged(patch)
        first = said(changed=False)
        replay, charged.again = Replay(jax.tree.map(jax.numpy.asarray, traces[0].messages)), True
        patch.setattr(evaluating, "build", lambda *given: replay(build(*given)))
        return first, said(changed=True), charged


def unmarked(value: Any) -> Any:
    """What is left of JSON without what it lists as oracle values."""
    if isinstance(value, dict):
        return {key: unmarked(one) for key, one in value.items() if key not in value.get("oracle", ())}
    return [unmarked(one) for one in value] if isinstance(value, list) else value


def columns(table: bytes) -> list[tuple[str, ...]]:
    """Those of a trace whose names do not say that they are oracle values."""
    whole = zip(*csv.reader(io.StringIO(table.decode())))
    return [column for column in whole if not column[0].endswith("(oracle)")]


def lines(text: str) -> list[str]:
    """Of a run's summary, without those that are marked, and what stands moved in below one that is not moved in."""
    kept, block = [], False
    for line in text.splitlines():
        marked = line.startswith("the joint model also:") or bool(MARK.search(line))
        block = block if line.startswith("  ") else marked
        kept += [] if marked or block else [line]
    return kept


@pytest.mark.parametrize("kind", KINDS)
def test_what_differs_between_neighbours_is_marked_where_it_is_read(kind, tmp_path):
    first, second, charged = both(kind, tmp_path)
    assert any(not np.array_equal(one, other) for one, other in zip(charged.kept, charged.own))
    assert (
        len(charged.kept)
        == len(charged.own)
        == OWNERS * sum(KINDS[kind][name] > 0 for name in ("centre", "select", "evaluate"))
    )
    whole = [json.loads(said.files["result.json"]) for said in (first, second)]
    assert whole[0] != whole[1]  # oracle values are of records, so that the comparison can fail
    assert unmarked(whole[0]) == unmarked(whole[1])
    assert columns(first.files["trace.csv"]) == columns(second.files["trace.csv"])
    for name in ("model.safetensors", "experiment.toml", "epsilon.png"):
        assert first.files[name] == second.files[name], name
    assert first.out != second.out
    assert lines(first.out) == lines(second.out)
    assert first.err == second.err
    assert differing_facts(first, second) == {"SHA-256 of result.json", "SHA-256 of trace.csv"} - {
        f"SHA-256 of {name}" for name in first.files if first.files[name] == second.files[name]
    }


def differing_facts(first: Said, second: Said) -> set[str]:
    """Names of settings and provenance that differ on the two pages; each has to be marked there."""
    both = [
        re.findall("<dt>(.*?)</dt><dd>(.*?)</dd>", said.files["report.html"].decode())
        for said in (first, second)
    ]
    differ = [(one, other) for one, other in zip(*both, strict=True) if one != other]
    assert all('class="oracle"' in value for pair in differ for _, value in pair)
    return {name for (name, _), _ in differ}
