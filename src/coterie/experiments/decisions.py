"""How common the rarer class is, from what is public, and what follows: class weights and a threshold."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from coterie.errors import InputError
from coterie.problems.metrics import PROBABLE, Decision

if TYPE_CHECKING:
    from coterie.experiments.experiment import Experiment
    from coterie.problems.table import Table

WEIGHTED = ("logistic", "hinge")  # losses that class weights are for


def decision_of(experiment: Experiment, table: Table, loss: str) -> Decision:
    """The experiment's class weights, threshold and offset; InputError where nothing public decides them.

    Guarantee: no private row has a part in it. Weights take the rarer class as 1 and the other as what makes both count
    alike, so that none is above 1 (`losses.weighted`). A model of them takes classes for equally common: the offset
    gives its log odds the base rate back.
    """
    weight, threshold = experiment.class_weight, experiment.threshold
    if weight is None and threshold is None:
        return Decision()
    if table.task != "binary":
        name = "class_weight" if weight else "threshold"
        raise InputError(
            f"{name}={weight or threshold!r}: is for a target of two classes, not for a {table.task} one. Leave it out."
        )
    if weight is not None and loss not in WEIGHTED:
        raise InputError(
            f"class_weight={weight!r}: is for the losses {', '.join(WEIGHTED)}, not for {loss!r}."
        )
    if threshold is not None and loss not in PROBABLE:
        raise InputError(
            f"threshold={threshold!r}: loss {loss!r} gives no probabilities to compare with it. Use logistic."
        )
    if weight is None and isinstance(threshold, float):
        return Decision(threshold=threshold)
    rate = second_rate(experiment, table)
    odds = rate / (1 - rate)
    chosen = threshold if isinstance(threshold, float) else rate
    if weight is None:
        return Decision(threshold=chosen)
    weights = (min(1.0, odds), min(1.0, 1 / odds))
    if loss not in PROBABLE:
        return Decision(weights=weights)
    return Decision(math.log(odds), chosen, weights)


def second_rate(experiment: Experiment, table: Table) -> float:
    """The share of the second of two classes, as declared or in public test rows."""
    name = "class_weight='balanced'" if experiment.class_weight else "threshold='base_rate'"
    if experiment.base_rate is not None:
        if not table.classes_declared:
            raise InputError(
                f"{name}: which class is the rarer one? Declare classes in a columns file, the rarer one second."
            )
        return experiment.base_rate
    positive = (
        float(np.mean(np.asarray(table.y_test) > 0)) if table.test_is_public and len(table.y_test) else 0.0
    )
    if not 0 < positive < 1:
        raise InputError(
            f"{name}: nobody declared how common the rarer class is, and it is not read off owners' records. Give "
            "--base-rate, as it is publicly known."
        )
    return positive


def in_words(decision: Decision, table: Table) -> str:
    """What differs from the usual decision, in words; empty where nothing does."""
    sentences = []
    first, second = table.classes if len(table.classes) == 2 else ("-1", "+1")
    if decision.threshold is not None:
        sentences.append(f"{second!r} is predicted where its probability is above {decision.threshold:.4g}")
    if decision.weights != (1.0, 1.0):
        low, high = decision.weights
        sentences.append(f"class weights {low:.4g} for {first!r}, {high:.4g} for {second!r}")
    return "; ".join(sentences)
