"""A run's log for MLflow, TensorBoard or a file of JSON lines: what may be shown to anybody, unless more is asked for.

Guarantee: without `oracles`, a log holds facts that are public without charge and functions of messages: what the
model's file holds, the owners' disagreement, what was spent so far, and metrics on test rows that are public. No seed,
no path, no time of training. `tests/model/test_logs.py` changes a record under fixed messages and compares logs.
"""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from coterie import _check
from coterie.accounting.plans import certificates_of
from coterie.errors import InputError
from coterie.experiments.oracle import is_oracle
from coterie.model.format import FILE, check_new, write

if TYPE_CHECKING:
    from coterie.experiments.result import Result
    from coterie.program import Program

_NEEDS = {"jsonl": None, "tensorboard": "tensorboardX", "mlflow": "mlflow"}
_PLACES = {"jsonl": "log.jsonl", "tensorboard": "tensorboard"}  # in a run's folder


class LogTarget(NamedTuple):
    """A log's destination: a file of JSON lines, a folder of TensorBoard's, or MLflow's tracking address."""

    kind: str
    place: str  # empty: in the run's folder; of MLflow what its own settings say


class Wanted(NamedTuple):
    """Which logs a run leaves, and whether they hold what no owner released."""

    targets: tuple[LogTarget, ...] = ()
    oracles: bool = False


class Log(NamedTuple):
    """A run as loggers take it."""

    about: dict[str, Any]  # facts of the whole run
    points: list[tuple[int, dict[str, float]]]  # step, and values by name
    statement: str
    model: bytes


def wanted(texts: Sequence[str], oracles: bool = False, in_folder: bool = False) -> Wanted:
    """What `--log KIND[:PLACE]` asks for; InputError, before any work, where that could not be written.

    `in_folder`: whether there will be a run's folder, for logs that no place is given for.
    """
    targets = []
    for text in texts:
        kind, _, place = text.partition(":")
        needs = _NEEDS[_check.one_of("log", kind, _NEEDS)]
        if needs is not None and find_spec(needs) is None:
            raise InputError(f"log={kind!r}: needs a package. Install it: pip install 'coterie[{kind}]'.")
        if kind in _PLACES and not place and not in_folder:
            raise InputError(f"log={kind!r}: needs a place here. Give log='{kind}:PATH'.")
        if kind == "jsonl" and place:
            check_new("log", Path(place))
        targets.append(LogTarget(kind, place))
    if oracles and not targets:
        raise InputError("log_oracles: says what a log holds, and no log is asked for. Add --log.")
    return Wanted(tuple(targets), oracles)


def log_of(result: Result, oracles: bool = False) -> Log:
    """The log of a run."""
    model = result.model
    training, privacy = model.description.training, model.description.privacy
    names = ("coterie", "protocol", "calibration", "penalty", "topology", "data", "engine", "step", "steps")
    about = {name: training[name] for name in names} | {
        "loss": model.description.loss,
        "features": ",".join(step.name for step in model.steps),
        "owners": len(training["owners"]),
        "budget_epsilon": max(privacy["budget_epsilon"]),
        "claimed_epsilon": privacy["claim"]["epsilon"],
        **{name: privacy[name] for name in ("delta", "relation", "unit", "view", "accountant")},
        **{f"settings.{name}": value for name, value in training["settings"].items()},
    }
    points = _points(result, privacy["certified_epsilon"]["max"])
    if oracles:
        points[-1][1].update(_oracles(result))
    shown = [
        (step, {name: value for name, value in values.items() if oracles or not name.startswith("oracle/")})
        for step, values in points
    ]
    return Log(about, shown, "\n".join(privacy["statement"]), model.to_bytes())


def _points(result: Result, certified: float | str) -> list[tuple[int, dict[str, float]]]:
    """One for each look: messages sent, disagreement, ε spent so far and the joint model's metric."""
    last, mark = int(result.steps[-1]), "oracle/" if is_oracle(result.curve) else ""
    sizes, public = (
        result.prepared.task.sizes,
        result.program.plan.relation.sizes_are_public,
    )  # else they are private
    several = result.curve.shape[1] == len(sizes)
    joint = np.average(result.curve, axis=1, weights=sizes if several and public else None)
    found = []
    for step, apart, value in zip(result.steps.tolist(), result.disagreement.tolist(), joint.tolist()):
        values = {
            "messages": round(result.messages * step / last),
            "disagreement": apart,
            f"{mark}{result.prepared.judge.metric}": value,
        }
        spent = [float(certified)] if step == last else None
        if spent is None and public:
            spent = spent_after(result.program, result.prepared.task.delta, step)
        found.append((step, values if spent is None else values | {"certified_epsilon": max(spent)}))
    return found


def spent_after(program: Program, delta: float, step: int) -> list[float] | None:
    """Each owner's ε after that many rounds; None where messages do not come once a round.

    Argument: messages up to a round are those of a run that ends there, with the same sampler and noise.
    """
    plan = program.plan
    if not isinstance(program.schedule, int) or set(plan.releases) != {program.schedule}:
        return None
    until = replace(plan, releases=(step,) * len(plan.releases))
    return [float(certificate.to_json()["epsilon"]) for certificate in certificates_of(until, delta)]


def _oracles(result: Result) -> dict[str, float]:
    """What the end of a run knows from private records."""
    names = result.prepared.judge.names
    ends = {"local_only": result.local_mean, "central": result.central, "constant": result.constant}
    return {f"oracle/{name}": float(value) for name, value in ends.items()} | {
        f"oracle/all/{name}": float(value) for name, value in zip(names, result.measures[:, 0].tolist())
    }


def send(result: Result, asked: Wanted, folder: Path | None = None) -> list[str]:
    """Write every log that is asked for, and say where each is; `folder` holds those without a place of their own."""
    log, written = log_of(result, asked.oracles), []
    for target in asked.targets:
        place = target.place
        if not place and folder is not None and target.kind in _PLACES:
            place = str(folder / _PLACES[target.kind])
        try:
            _SEND[target.kind](log, place)
        except Exception as error:  # of a library, a disk or a server; the run itself is kept
            reason = (str(error).splitlines() or [type(error).__name__])[0]
            raise InputError(
                f"log='{target.kind}:{place}': cannot be written ({reason:.300}) The run itself is whole."
            ) from error
        written.append(f"{target.kind} {place}".strip())
    return written


def _jsonl(log: Log, place: str) -> None:
    """One object a line: about the run, each point, and the statement."""
    values = [
        {"about": log.about},
        *(
            {"step": step} | {name: _plain(value) for name, value in point.items()}
            for step, point in log.points
        ),
        {"statement": log.statement},
    ]
    lines = (json.dumps(value, ensure_ascii=False, allow_nan=False) for value in values)
    write(check_new("log", Path(place)), ("\n".join(lines) + "\n").encode(), "log")


def _plain(value: float) -> float | str:
    return value if math.isfinite(value) else str(value)


def _tensorboard(log: Log, place: str) -> None:
    from tensorboardX import SummaryWriter

    with SummaryWriter(place) as writer:
        about = "\n".join(f"{name}: {value}  " for name, value in log.about.items())
        writer.add_text("about", about, 0)
        writer.add_text("statement", log.statement, 0)
        for step, values in log.points:
            for name, value in values.items():
                writer.add_scalar(name, value, step)


def _mlflow(log: Log, place: str) -> None:
    """Log by MLflow's client: the fluent interface would add who ran which file where."""
    from mlflow import MlflowClient  # pyright: ignore[reportMissingImports]
    from mlflow.entities import Metric, Param  # pyright: ignore[reportMissingImports]

    client = MlflowClient(tracking_uri=place or None)
    known = client.get_experiment_by_name("coterie")
    experiment = client.create_experiment("coterie") if known is None else known.experiment_id
    name = f"{log.about['data']} {log.about['protocol']}"
    run = client.create_run(experiment, run_name=name).info.run_id
    now = int(time.time() * 1000)
    metrics = [
        Metric(key, value, now, step)
        for step, values in log.points
        for key, value in values.items()
        if math.isfinite(value)  # a server takes no other
    ]
    client.log_batch(run, metrics, [Param(key, str(value)) for key, value in log.about.items()])
    client.set_tag(run, "privacy statement", log.statement)
    with tempfile.TemporaryDirectory() as folder:
        client.log_artifact(run, str(write(Path(folder) / FILE, log.model)))
    client.set_terminated(run)


_SEND = {"jsonl": _jsonl, "tensorboard": _tensorboard, "mlflow": _mlflow}
