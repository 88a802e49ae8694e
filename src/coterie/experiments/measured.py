"""What a run is measured against: the constant predictor that a model has to beat, and the ceiling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from coterie.experiments.oracle import oracle
from coterie.problems.holdings import records_of
from coterie.problems.reference import central_optimum, trained
from coterie.reports.constant import says

if TYPE_CHECKING:
    from coterie._types import PyTree
    from coterie.experiments.prepare import Prepared


def measured(prepared: Prepared, params: PyTree) -> dict[str, Any]:
    """Fields of a Result: the constant predictor's score, what it says, and all metrics of the joint model.

    The constant is that of the test rows themselves, the best there is for them. Where these are owners' records, all
    fields are marked as oracle values, which no owner would release. No training row has a part in any.
    """
    judge, table, y = prepared.judge, prepared.table, np.asarray(prepared.y_test)
    constant = judge.constant(y)
    scores = np.asarray(prepared.task.problem.model.scores(params, jnp.asarray(prepared.x_test)))
    fields: dict[str, Any] = {
        "constant": judge.plain(constant, y),
        "constant_says": (says(judge, table, constant),),
        "measures": np.stack([judge.all(scores, y), judge.plain.all(constant, y)], axis=1),
        "confusion": judge.confusion(scores, y),
    }
    return fields if table.test_is_public else {key: oracle(value) for key, value in fields.items()}


def central_of(prepared: Prepared) -> float:
    """Oracle: the non-private optimum over everyone's records."""
    shards, problem = prepared.shards, prepared.task.problem
    owned = [records_of(shards, owner)[:2] for owner in range(prepared.task.owners)]
    x, y = (np.concatenate(arrays) for arrays in zip(*owned))
    if problem.model.is_linear:
        params = central_optimum(problem, x, y)
    else:
        params = trained(problem, prepared.task.params, x, y)
    scores = problem.model.scores(params, jnp.asarray(prepared.x_test))
    return prepared.judge(np.asarray(scores), np.asarray(prepared.y_test))
