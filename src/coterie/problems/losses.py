"""Losses of one record as functions of its scores, with the constants that theorems and step sizes need.

Scores are (rows, outputs) and targets (rows,), coded as in `Table`: binary -1.0 / +1.0, multiclass 0 … K-1,
regression any float. The constants are suprema over all scores and over targets in that coding.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from coterie import _check
from coterie._types import Array
from coterie.errors import InputError
from coterie.problems.table import Task
from coterie.registry import Registry


class Loss(NamedTuple):
    """One record's loss. Equal settings give the same object, so a loss is static under `jit`."""

    name: str
    outputs: int  # scores of a record: 1 for binary and regression, K for K classes
    value: Callable[[Array, Array], Array]  # scores (rows, outputs), y (rows,) -> (rows,)
    slope: Callable[[Array, Array], Array]  # d value / d scores, (rows, outputs); a subgradient at a kink
    lipschitz: float  # sup ‖slope‖₂
    smoothness: float  # Lipschitz constant of the slope; inf where it jumps
    strong_convexity: float
    length: Callable[[int], float]  # (parameters) -> a guess of how long the optimum is
    tasks: tuple[Task, ...] = ()  # which targets of a table its scores say something of
    classes: int = 0  # of the target; 0: a quantity
    residual: bool = False  # whether its slope is s - y, so that second moments say all that gradients need
    models: int = 1  # of how many separate losses, each of one score, it is the sum
    bend: float | None = None  # curvature in the scores at score 0; None: `smoothness`, attained there
    directions: int | None = None  # in how many directions it bends there; None: all `outputs`
    clip: float = 1.0  # share of a gradient's bound that certified training clips at; see `HALF` and `EIGHTH`
    weights: tuple[float, float] = (1.0, 1.0)  # of records of the first and of the second of two classes


# Half the bound halves the noise. Only badly misclassified records are clipped, and for a linear model the clipped
# gradient is that of a convex loss that grows linearly there. The best of five powers of two on both halves of 120
# tables, which had no part in its choice (docs/radius.md).
HALF = 0.5

# Records of a quantity on [-1, 1] are off by more than an eighth mostly at the beginning: clipped there, they pull no
# harder, beside an eighth of the noise. For a linear model it is Huber's loss with that threshold. Compared on made-up
# problems and two sets; the sets that judge it had no part in that (docs/radius.md).
EIGHTH = 0.125


def length_for_classes(parameters: int) -> float:
    """A guess of how long a classifier is: noise as long as it gives a record of norm one 2.5 units of log-odds.

    That is a useful score (e^2.5 is 12 to 1), and a class needs its sign alone. The 2.5 was compared on bank, a9a,
    covtype7 and subsets of them; the sets that judge it had no part in that (docs/radius.md).
    """
    return 2.5 * math.sqrt(parameters)


def length_for_quantities(parameters: int) -> float:
    """A guess of how long a model of a quantity is, whose targets are scaled onto [-1, 1].

    Noise in a score is an error in itself, so that many parameters cannot each be as long as few may be. Compared on
    one half of 220 tables that a hash divides; the other half judged it (docs/radius.md).
    """
    return 0.85 * parameters**0.25


@lru_cache
def logistic() -> Loss:
    """log(1 + exp(-y s)). Slope within (-1, 1); second derivative σ(1-σ) <= 1/4, attained at s = 0."""
    return Loss(
        name="logistic",
        outputs=1,
        value=lambda scores, y: jax.nn.softplus(-y * scores[:, 0]),
        slope=lambda scores, y: (-y * jax.nn.sigmoid(-y * scores[:, 0]))[:, None],
        lipschitz=1.0,
        smoothness=0.25,
        strong_convexity=0.0,
        length=length_for_classes,
        tasks=("binary",),
        classes=2,
        clip=HALF,
    )


@lru_cache
def hinge() -> Loss:
    """max(0, 1 - y s); the slope at the kink is taken as 0."""
    return Loss(
        name="hinge",
        outputs=1,
        value=lambda scores, y: jnp.maximum(1.0 - y * scores[:, 0], 0.0),
        slope=lambda scores, y: jnp.where(y * scores[:, 0] < 1.0, -y, jnp.zeros_like(y))[:, None],
        lipschitz=1.0,
        smoothness=math.inf,
        strong_convexity=0.0,
        length=length_for_classes,
        tasks=("binary",),
        classes=2,
    )


@lru_cache
def squared() -> Loss:
    """(s - y)² / 2. Not Lipschitz: a release of its gradients needs clipping."""
    return Loss(
        name="squared",
        outputs=1,
        value=lambda scores, y: 0.5 * jnp.square(scores[:, 0] - y),
        slope=lambda scores, y: scores - y[:, None],
        lipschitz=math.inf,
        smoothness=1.0,
        strong_convexity=1.0,
        length=length_for_quantities,
        tasks=("regression", "binary"),
        residual=True,
        clip=EIGHTH,
    )


@lru_cache
def huber(threshold: float = 1.0) -> Loss:
    """(s - y)² / 2 up to `threshold`, linear beyond it."""
    _check.positive("threshold", threshold)

    def value(scores: Array, y: Array) -> Array:
        size = jnp.abs(scores[:, 0] - y)
        return jnp.where(size <= threshold, 0.5 * size * size, threshold * (size - 0.5 * threshold))

    return Loss(
        name="huber",
        outputs=1,
        value=value,
        slope=lambda scores, y: jnp.clip(scores - y[:, None], -threshold, threshold),
        lipschitz=threshold,
        smoothness=1.0,
        strong_convexity=0.0,
        length=length_for_quantities,
        tasks=("regression", "binary"),
        clip=EIGHTH,
    )


@lru_cache
def softmax(classes: int) -> Loss:
    """Cross-entropy. Slope p - e_y, norm below √2; second derivative diag(p) - ppᵀ, norm ½ at p = (½, ½)."""
    _check.count("classes", classes, least=2)

    def value(scores: Array, y: Array) -> Array:
        own = jnp.take_along_axis(scores, y[:, None], axis=1)[:, 0]
        return jax.nn.logsumexp(scores, axis=1) - own

    return Loss(
        name="softmax",
        outputs=classes,
        value=value,
        slope=lambda scores, y: (
            jax.nn.softmax(scores, axis=1) - jax.nn.one_hot(y, classes, dtype=scores.dtype)
        ),
        lipschitz=math.sqrt(2.0),
        smoothness=0.5,
        strong_convexity=0.0,
        length=length_for_classes,
        tasks=("multiclass",),
        classes=classes,
        bend=1 / classes,
        directions=classes - 1,
        clip=HALF,
    )


@lru_cache
def one_vs_all(classes: int) -> Loss:
    """Sum of one logistic loss for each class. One record acts on all of them: slope norm below √classes."""
    _check.count("classes", classes, least=2)

    def signs(scores: Array, y: Array) -> Array:
        return 2.0 * jax.nn.one_hot(y, classes, dtype=scores.dtype) - 1.0

    def slope(scores: Array, y: Array) -> Array:
        sign = signs(scores, y)
        return -sign * jax.nn.sigmoid(-sign * scores)

    return Loss(
        name="one_vs_all",
        outputs=classes,
        value=lambda scores, y: jnp.sum(jax.nn.softplus(-signs(scores, y) * scores), axis=1),
        slope=slope,
        lipschitz=math.sqrt(classes),
        smoothness=0.25,
        strong_convexity=0.0,
        length=length_for_classes,
        tasks=("multiclass",),
        classes=classes,
        models=classes,
        clip=HALF,
    )


@lru_cache
def weighted(loss: Loss, first: float, second: float) -> Loss:
    """The loss of two classes, a record's value and slope times the weight of its class, at most 1.

    Guarantee: a record's gradient is as bounded as it was, so that clip norm, noise and certificate stay.
    Argument: a weight is public and multiplies the slope before clipping; it is at most 1, so that no slope is longer
    than it was, whatever the record's class: also where a neighbour's record is of the other one.
    """
    for name, weight in (("first", first), ("second", second)):
        if not 0 < weight <= 1:
            raise InputError(
                f"{name}={weight}: a weight must be above 0 and at most 1. Divide both by the larger."
            )

    def weight_of(y: Array) -> Array:
        return jnp.where(y > 0, second, first).astype(y.dtype)

    return loss._replace(
        value=lambda scores, y: weight_of(y) * loss.value(scores, y),
        slope=lambda scores, y: weight_of(y)[:, None] * loss.slope(scores, y),
        strong_convexity=loss.strong_convexity * min(first, second),
        lipschitz=loss.lipschitz * max(first, second),
        smoothness=loss.smoothness * max(first, second),
        residual=False,
        weights=(first, second),
    )


def own(
    name: str,
    value: Callable[[Array, Array], Array],
    *,
    task: Task,
    outputs: int = 1,
    lipschitz: float = math.inf,
    smoothness: float = math.inf,
    strong_convexity: float = 0.0,
) -> Loss:
    """A loss of one's own from its value, (scores (rows, outputs), y (rows,)) -> (rows,); the slope is derived.

    The constants are suprema, as in `Loss`: `inf` where none is known. Too small a `lipschitz` costs accuracy, as more
    is clipped than need be, and never privacy.

    >>> cosh = own("log_cosh", lambda s, y: jnp.log(jnp.cosh(s[:, 0] - y)), task="regression", lipschitz=1.0)
    >>> cosh.slope(jnp.zeros((1, 1)), jnp.zeros(1)).tolist()
    [[0.0]]
    """  # fmt: skip
    made = Loss(
        name=name,
        outputs=_check.count("outputs", outputs),
        value=value,
        slope=jax.grad(lambda scores, y: jnp.sum(value(scores, y))),
        lipschitz=lipschitz,
        smoothness=smoothness,
        strong_convexity=strong_convexity,
        length=length_for_quantities if task == "regression" else length_for_classes,
        tasks=(task,),
    )
    return _one_by_one(made, name)


def _one_by_one(loss: Loss, name: str) -> Loss:
    """Somebody else's loss, of every record by itself.

    Sensitivity: a record's slope is clipped after this, so it must not depend on other records; here it cannot.
    """

    def alone(function: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
        return jax.vmap(lambda scores, y: function(scores[None], y[None])[0])

    return loss._replace(name=name, value=alone(loss.value), slope=alone(loss.slope))


def _factory(name: str, thing: Any) -> Callable[[int], Loss]:
    """(classes) -> loss, of a loss, or of a function that makes one, given the number of classes if it asks for it."""
    if not callable(thing) and not isinstance(thing, Loss):
        raise InputError(
            f"loss={name!r}: is a {type(thing).__name__}; must be a Loss, such as losses.own(…) makes, or a function "
            "(classes) that makes one."
        )

    @lru_cache
    def make(classes: int) -> Loss:
        made = thing
        if callable(thing):
            asks = any(p.default is p.empty for p in inspect.signature(thing).parameters.values())
            made = thing(classes) if asks else thing()
        if not isinstance(made, Loss):
            raise InputError(f"loss={name!r}: gave a {type(made).__name__}, where a Loss is due.")
        return made if thing in _OWN else _one_by_one(made, name)

    return make


_OWN = (logistic, hinge, squared, huber, softmax, one_vs_all)
# A row makes the loss with its default options; of how many classes, the multiclass ones alone read.
LOSSES: Registry[Callable[[int], Loss]] = Registry(
    "loss", "coterie.losses", _factory, {make.__name__: make for make in _OWN}
)
DEFAULTS: dict[Task, str] = {"binary": "logistic", "multiclass": "softmax", "regression": "huber"}


def suiting(task: Task) -> list[str]:
    """Coterie's own losses for such a target, the default first.

    >>> suiting("regression")
    ['huber', 'squared']
    """
    names = [make.__name__ for make in _OWN if task in LOSSES.find(make.__name__)(3).tasks]
    return sorted(names, key=lambda name: name != DEFAULTS[task])
