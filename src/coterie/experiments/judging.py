"""By which metric a run is judged, and why by that one: from what is declared or public, never from private rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from coterie import _check
from coterie.errors import InputError
from coterie.experiments.decisions import decision_of
from coterie.problems.metrics import METRICS, Judge
from coterie.reports.constant import with_unit

if TYPE_CHECKING:
    from coterie.experiments.experiment import Experiment
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
    if judge.metric not in judge.names:
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
    return with_unit(name, table.target_unit or f"the unit of {table.target!r}")
