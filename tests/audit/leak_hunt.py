"""The hunt for leaks: everything a run emits, with one private record changed and all released messages held fixed.

The messages of an honest run are recorded once. Then the same experiment runs twice on files that differ in one
record, with an `emit` that computes on the records as ever (private state goes on as it would) but says what was
recorded. Whatever differs between the two runs came from the record by another way than a charged message.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
import pytest

from coterie.engines import simulate as engine
from coterie.experiments import evaluating, training
from coterie.experiments import run as runs
from coterie.experiments.experiment import Experiment
from coterie.experiments.oracle import is_oracle, oracle
from coterie.testing.leaks import Replay, overheard

OWNERS, ROWS, CHANGED = 3, 30, 4  # CHANGED is no test row; the hunt checks that it is trained on
SETTINGS: dict[str, dict[str, Any]] = {
    "async_learner": {"ticks": 9},
    "average_erm": {"steps": 3},
    "central_erm": {"steps": 3},
    "deep_q": {"batch": 2},
    "dual_averaging": {"rounds": 3},
    "push_sum": {"rounds": 3},
    "random_walk": {"batch": 4, "passes": 2},
    "weighted_erm": {"steps": 3},
    "wor_sgd": {"batch": 2},
}


class Emitted(NamedTuple):
    """All that left a run."""

    trace: dict[str, np.ndarray]
    values: dict[str, Any]  # result.json, before it is text
    words: dict[str, Any]  # files, standard output and error
    logs: list[str]


def write_records(path: Path, changed: bool) -> Path:
    """A small consortium's file; one row has another feature and another label when `changed`.

    The changed feature lies outside its declared range, which loading counts: that count must not leave either.
    """
    rng = np.random.default_rng(3)
    lines = ["owner,a,b,label"]
    for row in range(ROWS):
        a, b = rng.uniform(-0.9, 0.9, 2)
        if changed and row == CHANGED:
            a, b = -a, 0.95
        label = (a + b > 0) != (changed and row == CHANGED)
        lines.append(f"o{row % OWNERS},{a:.3f},{b:.3f},{'yes' if label else 'no'}")
    path.parent.mkdir(exist_ok=True)
    path.with_suffix(".toml").write_text('classes = ["no", "yes"]\n[columns]\na = [-1, 1]\nb = [-0.9, 0.9]\n')
    path.write_text("\n".join(lines) + "\n")
    return path


def experiment(protocol: str, data: Path, **more: Any) -> Experiment:
    """A quick run of a protocol on such a file."""
    return Experiment(
        protocol=protocol,
        data=str(data),
        target="label",
        owner_column="owner",
        columns=str(data.with_suffix(".toml")),
        delta=1e-3,
        settings=SETTINGS[protocol],
        **more,
    )


def recorded(protocol: str, data: Path) -> Any:
    """The messages of an honest run, as arrays on the device."""
    found = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(training, "simulate", _keeping(found, transcript=True))
        runs.run(experiment(protocol, data))
    return jax.tree.map(jax.numpy.asarray, found[0].messages)


def emitted(
    protocol: str, data: Path, replay: Replay, act: Callable[[Experiment], dict[str, Any]]
) -> Emitted:
    """Run with the messages held fixed; `act` runs the experiment and gives back the words that left it."""
    traces, results = [], []
    build, run = evaluating.build, runs.run
    with pytest.MonkeyPatch.context() as patch, overheard() as logs:
        patch.setattr(evaluating, "build", lambda *given: replay(build(*given)))
        patch.setattr(training, "simulate", _keeping(traces))
        patch.setattr(
            runs.time, "perf_counter", lambda: 0.0
        )  # how long it took is measured by anyone's own clock

        def shown(*given: Any, **more: Any) -> Any:
            results.append(without_oracles(run(*given, **more)))
            return results[-1]

        patch.setattr(runs, "run", shown)
        words = act(experiment(protocol, data))
    leaves, _ = jax.tree_util.tree_flatten_with_path(traces[0]._replace(probes=None))
    trace = {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}
    return Emitted(trace, results[0].to_json(None), words, logs)


def without_oracles(result: Any) -> Any:
    """A result with every marked field zero or empty: what is left, and what follows from it, all may see."""
    values = {field.name: getattr(result, field.name) for field in fields(result)}
    return replace(result, **{name: oracle(value * 0) for name, value in values.items() if is_oracle(value)})


def differences(one: Emitted, other: Emitted) -> list[str]:
    """What differs, by name; NaN equals NaN."""
    assert one.trace.keys() == other.trace.keys()
    found = [f"trace{name}" for name in one.trace if not _same(one.trace[name], other.trace[name])]
    for name in ("values", "words"):
        first, second = getattr(one, name), getattr(other, name)
        assert first.keys() == second.keys()
        found += [f"{name}.{key}" for key in first if first[key] != second[key]]
    return found + (["logs"] if one.logs != other.logs else [])


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    return np.array_equal(one, other, equal_nan=one.dtype.kind == "f")


def hunt(protocol: str, folder: Path, act: Callable[[Experiment], dict[str, Any]]) -> list[str]:
    """Everything that a change of one record changed beside the messages."""
    data = write_records(folder / "records.csv", changed=False)
    replay = Replay(recorded(protocol, data))
    first = emitted(protocol, data, replay, act)
    write_records(data, changed=True)
    second = emitted(protocol, data, replay, act)
    return differences(first, second)


def run_folder(out: Path) -> dict[str, Any]:
    """A run's files, read and removed."""
    files = {path.name: path.read_bytes() for path in sorted(out.iterdir())}
    shutil.rmtree(out)
    return files


def _keeping(traces: list, **more: Any) -> Callable:
    """`simulate`, with each trace put aside: first the protocol's, then the baseline's."""

    def simulate(*given: Any, **named: Any) -> Any:
        traces.append(engine.simulate(*given, **named, **(more if not traces else {})))
        return traces[-1]

    return simulate
