"""Models without training: tables of every kind of column, every feature step, every task."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from typer.testing import CliRunner

from coterie.accounting.plans import certificates_of
from coterie.cli import app
from coterie.experiments import training
from coterie.experiments.experiment import Experiment
from coterie.experiments.oracle import oracle
from coterie.experiments.result import Result
from coterie.model import TrainedModel
from coterie.model.description import Description, inputs_of
from coterie.problems import losses
from coterie.problems.datasets import encode
from coterie.problems.feature_steps import FeatureOptions, constants, pipeline
from coterie.problems.features import EVEN, FeatureMap, PublicRows
from coterie.problems.fields import Binned, Category, Field, Numeric, Plain
from coterie.problems.models import Model, linear, two_layer
from coterie.problems.table import Table

ROWS = 40
FIELDS: tuple[Field, ...] = (
    Numeric("age", 0, 120, unit="years"),
    Numeric("charges", 0, 1e7, log=True, unit="dollars"),
    Numeric("year", 1962, 2014),
    Plain("score", -1, 1),
    Binned("stay", (0, 3, 10, 60), unit="days"),
    Category("ward", ("A|B", "intensive care", "été")),
    Category("grade", ("1", "2", "10")),
)
TABLES = (
    "none",
    "scale",
    "ball",
    "scale,ball",
    "fourier:6",
    "ball,fourier:6",
    "piecewise:4,ball",
    "pca:3,ball",
)
IMAGES = (
    "none",
    "gradients:4,ball",
    "gradients:2,fourier:6",
    "pool:2,ball",
    "scale,pool:4",
    "piecewise:3",
    "pca:3",
)
LOSSES = {
    "binary": ("logistic", "hinge"),
    "multiclass": ("softmax", "one_vs_all"),
    "regression": ("huber", "squared"),
}
TRAINING = {
    "coterie": "0.1.0",
    "protocol": "dual_averaging",
    "calibration": "certified",
    "settings": {"rounds": 3},
    "penalty": "l2",
    "step": "round",
    "topology": "ring",
    "owners": ["north", "south"],
    "sizes": [300, 5000],
    "data": "visits",
    "source": "two hospitals",
    "note": "",
    "caveat": "",
    "engine": "real owners",
    "where": "by the owners themselves",
    "which": "the model of north after the last round",
    "steps": 3,
}
PRIVACY = {
    "relation": "replace_one",
    "unit": "record",
    "view": "public transcript",
    "delta": 1e-6,
    "budget_epsilon": [0.5, 2.0],
    "certified_epsilon": {"max": 1.75, "per_owner": [0.5, 1.75]},
    "certificates": [],
    "claim": {"epsilon": None, "source": "nobody"},
    "accountant": "exact Gaussian",
    "reason": "",
    "warnings": [],
    "facts": {"clip_norm": 0.5},
    "statement": ["Guarantee: a sentence of the statement."],
    "promise": ["In short: a suspicion of 1 in 10 can at most become 1 in 2.5.", "What is done: sums leave."],
}


class Made(NamedTuple):
    """A model, the rows it could predict, and how training's own code scores them."""

    model: TrainedModel
    raw: Any  # a mapping of columns, or images
    scored: np.ndarray


def columns(rows: int = ROWS, seed: int = 0) -> dict[str, np.ndarray]:
    """Rows as people have them, some values at the ends of their ranges."""
    rng = np.random.default_rng(seed)
    return {
        "age": rng.integers(0, 121, rows),
        "charges": rng.uniform(0, 1e7, rows) ** rng.uniform(0, 1, rows),
        "year": rng.integers(1962, 2015, rows),
        "score": rng.uniform(-1, 1, rows),
        "stay": rng.integers(0, 60, rows),
        "ward": rng.choice(["A|B", "intensive care", "été"], rows),
        "grade": rng.choice([1, 2, 10], rows),
    }


def table(task: str = "binary", image: tuple[int, ...] = ()) -> tuple[Table, Any]:
    """A table of made-up rows, and the rows before they were encoded."""
    classes = {"binary": ("no", "yes"), "multiclass": ("low", "middle", "high"), "regression": ()}[task]
    spare: Any = {
        "y": np.zeros(0),
        "x_test": np.zeros((0, 1)),
        "y_test": np.zeros(0),
        "test_is_public": False,
    }
    more: Any = {"name": "visits", "task": task, "classes": classes, "target": "readmitted", **spare}
    if task == "regression":
        more |= {"target_bounds": (0.0, 120.0), "target_unit": "days"}
    if image:
        x = np.random.default_rng(1).integers(0, 256, (ROWS, *image)).astype(np.float32) / np.float32(255)
        return Table(x=x, columns=("pixel",), bounds=np.array([[0.0, 1.0]]), **more), x
    raw = columns()
    words = raw | {"grade": raw["grade"].astype(str)}
    encoded = encode(words, FIELDS)
    return Table(x=encoded.x, columns=encoded.columns, bounds=encoded.bounds, fields=FIELDS, **more), raw


def made(
    steps: str = "ball",
    task: str = "binary",
    *,
    loss: str | None = None,
    kind: str = "linear",
    image: Any = (),
) -> Made:
    """A model with drawn weights."""
    given, raw = table(task, image)
    public = PublicRows(given.x, declared_by="a test")
    options = FeatureOptions(public_rows=public, bandwidth=0.7)
    if given.task == "regression":
        options = replace(options, intercept=EVEN, steady=True)
    mapped = pipeline(steps, given, options)
    x = mapped.apply(given.x)
    chosen = losses.LOSSES.find(loss or LOSSES[task][0])(len(given.classes))
    model = (
        linear(x.shape[1], chosen.outputs) if kind == "linear" else two_layer(x.shape[1], 5, chosen.outputs)
    )
    params = _drawn(model)
    scored = np.asarray(model.scores(params, jax.numpy.asarray(x)))
    return Made(_trained(given, mapped, model, chosen.name, params), raw, scored)


def _drawn(model: Model) -> Any:
    rng = np.random.default_rng(5)
    like = jax.eval_shape(model.init, jax.random.key(0))
    return jax.tree.map(lambda leaf: jax.numpy.asarray(rng.normal(size=leaf.shape).astype(np.float32)), like)


def _trained(given: Table, mapped: FeatureMap, model: Model, loss: str, params: Any) -> TrainedModel:
    leaves = params if isinstance(params, dict) else {"weights": params}
    return TrainedModel(
        description=Description(
            **inputs_of(given),
            kind=model.name,
            activation=model.activation,
            loss=loss,
            training=TRAINING,
            privacy=PRIVACY,
            metrics={},
        ),
        steps=constants(mapped, given.x.shape[1:]),
        params={name: np.asarray(leaf) for name, leaf in leaves.items()},
    )


def ended(chosen: Experiment, params: Any) -> Result:
    """The end of a run of that experiment with these parameters, as if its messages had led there."""
    made = training.ready(chosen, None, lambda what, done, of: None)
    owners = made.prepared.task.owners
    nothing = oracle(np.zeros(owners))
    return Result(
        experiment=chosen,
        prepared=made.prepared,
        program=made.program,
        gossip_steps=made.gossip_steps,
        steps=np.array([2]),
        curve=oracle(np.zeros((1, owners))),
        disagreement=np.zeros(1),
        joint=oracle(0.5),
        local_only=nothing,
        own=nothing,
        central=oracle(0.5),
        constant=oracle(0.5),
        constant_says=oracle(("a constant",)),
        measures=oracle(np.zeros((len(made.prepared.judge.names), 2))),
        confusion=oracle(np.zeros((2, 2), int)),
        certificates=certificates_of(made.program.plan, made.prepared.task.delta),
        turns=np.zeros(owners, int),
        over_epsilon=oracle(np.zeros((0, 3))),
        params=params,
        class_counts=oracle(np.zeros((owners, 2))),
        centred=None,
        selected=None,
        published=None,
        findings=oracle(()),
        seconds=0.0,
    )


class Ran(NamedTuple):
    """A finished command."""

    status: int
    stdout: str
    stderr: str


def coterie(*arguments: object) -> Ran:
    """The command as a user calls it; an exception that is not an exit is a bug and shows."""
    result = CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)
    return Ran(result.exit_code, result.stdout, result.stderr)


def write_csv(path: Path, columns: dict[str, Any]) -> Path:
    """A file of columns."""
    import pandas as pd

    pd.DataFrame(columns).to_csv(path, index=False)
    return path
