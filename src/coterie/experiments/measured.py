"""What a run is judged by: the metric shown first, the constant predictor that a model has to beat, the ceiling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from coterie import _check
from coterie.errors import InputError
from coterie.experiments.decisions import decision_of
from coterie.experiments.oracle import oracle
from coterie.problems.holdings import records_of
from coterie.problems.metrics import METRICS, Judge, suits
from coterie.problems.reference import central_optimum, trained
from coterie.reports.constant import says

if TYPE_CHECKING:
    from coterie._types import PyTree
    from coterie.experiments.experiment import Experiment
    from coterie.experiments.prepare import Prepared
    from coterie.problems.table import Table

RARE = 0.2  # share of the rarer class below which accuracy praises a model that never finds it


def judge_of(experiment: Experiment, table: Table, loss: str) -> Judge:
    """The judge of an experiment; a metric that suits neither task, loss nor test rows is an error, before any work."""
    task = table.task
    judge = Judge(
        task=task,
        loss=loss,
        classes=2 if task == "binary" else len(table.classes) if task == "multiclass" else 0,
        bounds=table.target_bounds,
        metric=shown_first(experiment, table)[0],
        decision=decision_of(experiment, table, loss),
    )
    _check.one_of("metric", judge.metric, METRICS)
    if not suits(METRICS[judge.metric], task, loss):
        what = f"a {task} target with loss {loss!r}"
        raise InputError(
            f"metric={judge.metric!r}: says nothing of {what}. Choose one of: {', '.join(judge.names)}."
        )
    if len(table.y_test) and not np.isfinite(judge.plain(judge.constant(table.y_test), table.y_test)):
        raise InputError(
            f"metric={judge.metric!r}: cannot be taken on these test rows, which lack a class or all have one value. "
            f"Choose another of: {', '.join(judge.names)}."
        )
    return judge


def shown_first(experiment: Experiment, table: Table) -> tuple[str, str]:
    """The metric that is shown first, and why, where that needs saying.

    Guarantee: no private row has a part in the choice, which would tell of it: a share of classes is declared, or
    that of test rows which are public.
    """
    if experiment.metric is not None:
        return experiment.metric, ""
    if table.task != "binary":
        return ("mse" if table.task == "regression" else "accuracy"), ""
    rate, whose = experiment.base_rate, "as declared"
    if rate is None and table.test_is_public and len(table.y_test):
        positive = float(np.mean(np.asarray(table.y_test) > 0))
        rate, whose = min(positive, 1 - positive), "in the public test rows"
    if rate is None:
        return "accuracy", (
            "accuracy is shown first, as nobody declared how common the rarer class is and the test rows are owners' "
            "records; where it is known publicly, give --base-rate, or choose with --metric"
        )
    if not 0 < rate < RARE:
        return "accuracy", ""
    return "auc", (
        f"AUC is shown first, as {rate:.1%} of rows are of the rarer class ({whose}): accuracy would praise a model "
        "that never finds it; --metric chooses another"
    )


def metric_words(name: str, table: Table) -> str:
    """The metric's name as people say it, with its unit where it has one."""
    words = METRICS[name].words
    if name not in ("mse", "mae"):
        return words
    unit = table.target_unit or f"the unit of {table.target!r}"
    return f"{words} (in {unit}{', squared' * (name == 'mse')})"


def measured(prepared: Prepared, params: PyTree) -> dict[str, Any]:
    """Fields of a Result: the constant predictor's score, what it says, and all metrics of the joint model.

    The constant is that of the test rows themselves, the best there is for them: public where they are, and marked as
    an oracle's where they are owners' records. No training row has a part in it.
    """
    judge, table, y = prepared.judge, prepared.table, np.asarray(prepared.y_test)
    constant = judge.constant(y)
    scores = np.asarray(prepared.task.problem.model.scores(params, jnp.asarray(prepared.x_test)))
    found: dict[str, Any] = {
        "constant": judge.plain(constant, y),
        "constant_says": (says(judge, table, constant),),
        "measures": np.stack([judge.all(scores, y), judge.plain.all(constant, y)], axis=1),
        "confusion": judge.confusion(scores, y),
    }
    return found if table.test_is_public else {key: oracle(value) for key, value in found.items()}


def central_of(prepared: Prepared) -> float:
    """Oracle: the non-private optimum over everyone's records."""
    shards, problem = prepared.shards, prepared.task.problem
    owned = [records_of(shards, owner)[:2] for owner in range(prepared.task.owners)]
    x, y = (np.concatenate(each) for each in zip(*owned))
    if problem.model.is_linear:
        params = central_optimum(problem, x, y)
    else:
        params = trained(problem, prepared.task.params, x, y)
    scores = problem.model.scores(params, jnp.asarray(prepared.x_test))
    return prepared.judge(np.asarray(scores), np.asarray(prepared.y_test))
