"""Nothing that leaves a run depends on a private record but through a charged message. One row for each protocol."""

from __future__ import annotations

import logging
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import leak_hunt
import numpy as np
import pytest
from leak_hunt import CHANGED, SETTINGS, experiment, hunt, run_folder, write_records
from typer.testing import CliRunner

from coterie.cli import _progress, app
from coterie.experiments import evaluating, output
from coterie.experiments import run as runs
from coterie.experiments.prepare import prepare
from coterie.program import Program
from coterie.protocols import PROTOCOLS

PICTURED = (
    "dual_averaging",
    "wor_sgd",
)  # one of each shape goes through the command, with files and pictures


def quietly(chosen: Any) -> dict[str, Any]:
    """Run as a library."""
    result = runs.run(chosen)
    return {"trace.csv": output.trace(result), "model": result.model.to_bytes()}


def by_command(folder: Path):
    """Run as a user does, in words and as JSON; give back the files and what was printed.

    Progress is told whenever it could be, by a clock that stands still: how long a step takes is anyone's own clock's.
    """
    arguments = ["run", str(folder / "experiment.toml"), "--out", str(folder / "run")]

    def act(chosen: Any) -> dict[str, Any]:
        (folder / "experiment.toml").write_text(chosen.to_toml())
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_progress, "_PATIENCE", 0.0)
            patch.setattr(_progress, "_log", partial(_progress._log, clock=lambda: 0.0))
            done = CliRunner().invoke(app, arguments)
        assert "training: " in done.stderr
        assert done.exit_code == 0, done.output
        return run_folder(folder / "run") | {"stdout": done.stdout, "stderr": done.stderr}

    return act


def test_every_protocol_has_a_row():
    assert SETTINGS.keys() == PROTOCOLS.keys()


def test_the_changed_record_is_trained_on(tmp_path):
    before, after = (
        prepare(experiment("dual_averaging", write_records(tmp_path / "data.csv", changed)))
        for changed in (False, True)
    )
    assert int(np.any(np.asarray(before.shards.x != after.shards.x), axis=2).sum()) == 1, CHANGED
    assert np.array_equal(before.x_test, after.x_test)


@pytest.mark.parametrize("protocol", sorted(SETTINGS))
def test_a_changed_record_changes_nothing_but_messages(protocol, tmp_path):
    act = by_command(tmp_path) if protocol in PICTURED else quietly
    assert hunt(protocol, tmp_path, act) == []


def test_the_hunt_finds_a_count_of_rows_that_nobody_marked(tmp_path, monkeypatch):
    hide = leak_hunt.without_oracles
    monkeypatch.setattr(
        leak_hunt, "without_oracles", lambda result: replace(hide(result), findings=result.findings)
    )
    assert hunt("dual_averaging", tmp_path, quietly) == ["values.findings"]


def leaky_log(program: Program) -> Program:
    """A program that tells a log how large its records are."""
    functions = program.functions

    def emit(state: Any, batch: Any, noise: Any, ctx: Any) -> Any:
        size = jax.numpy.sum(jax.numpy.abs(batch.x))
        jax.debug.callback(lambda size: logging.getLogger("coterie.leaky").debug("%s", size), size)
        return functions.emit(state, batch, noise, ctx)

    return program._replace(functions=functions._replace(emit=emit))


def leaky_numbers(program: Program, records: Any) -> Program:
    """A program whose public settings were chosen by looking at the records."""
    pace = program.numbers.pace
    leaky = pace._replace(gamma=pace.gamma + records.x.mean())
    return program._replace(numbers=program.numbers._replace(pace=leaky))


def test_a_leak_by_log_is_caught(tmp_path, monkeypatch):
    build = evaluating.build
    monkeypatch.setattr(evaluating, "build", lambda *given: leaky_log(build(*given)))
    assert hunt("dual_averaging", tmp_path, quietly) == ["logs"]


def test_a_leak_by_a_public_number_is_caught(tmp_path, monkeypatch):
    simulate, seen = leak_hunt.engine.simulate, []

    def looking(program: Program, shards: Any, *given: Any, **more: Any) -> Any:
        seen.append(program)
        leaky = leaky_numbers(program, shards) if hasattr(program.numbers, "pace") else program
        return simulate(leaky, shards, *given, **more)

    monkeypatch.setattr(leak_hunt.engine, "simulate", looking)
    assert any(name.startswith("trace") for name in hunt("dual_averaging", tmp_path, quietly))
    assert seen


def test_a_leak_by_the_engines_report_is_caught(tmp_path, monkeypatch):
    """An engine that adds the records' own sum to what it reports of a run."""
    simulate = leak_hunt.engine.simulate

    def telling(program: Program, shards: Any, *given: Any, **more: Any) -> Any:
        trace = simulate(program, shards, *given, **more)
        return trace._replace(info=np.asarray(shards.x).sum())

    monkeypatch.setattr(leak_hunt.engine, "simulate", telling)
    assert hunt("dual_averaging", tmp_path, quietly) == ["trace.info"]


def test_a_number_from_records_is_caught_unless_its_type_marks_it(tmp_path, monkeypatch):
    """The non-private optimum's loss, under any name, is a leak as soon as it loses its mark."""

    def rough(prepared: Any) -> float:
        return float(np.asarray(prepared.shards.x).sum())

    monkeypatch.setattr(runs, "central_of", rough)
    assert hunt("dual_averaging", tmp_path, quietly) == []
    monkeypatch.setattr(runs, "oracle", lambda value: value)
    assert "values.metric" in hunt("dual_averaging", tmp_path, quietly)
