"""Gradient tracking (DIGing; Nedić, Olshevsky & Shi 2017) with private gradients: a protocol in a file of one's own.

    s_i = y_i + g̃_i(x_i) − g̃_i(its last x),   x_i ← Σ_j w_ij (x_j − γ s_j),   y_i ← Σ_j w_ij s_j

Every owner follows an estimate y of everybody's mean gradient, not its own gradient alone, so that owners whose
records differ do not pull apart. Released: s and x − γ s, once a round; all that is private in them is g̃, one noisy
sum of clipped gradients.

    python examples/gradient_tracking.py          20 industries of census, at ε = 1

Departures: noise on g̃; owners count by their numbers of records; the model is the average of x over the second half.
"""

import sys
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

import coterie
from coterie.mechanisms.noise import noised
from coterie.problems.problem import clipped_sum
from coterie.program import Program, Rounds, State
from coterie.protocols.task import calibrated, full_batch_plan, per_owner, stated


@dataclass(frozen=True)
class Settings:
    """What `--set` may set."""

    rounds: int = 60
    step: float = 4.0  # γ


class Numbers(NamedTuple):
    """One row for each owner; public."""

    step: Any
    weight: Any  # what a sum of gradients is multiplied with, so that the owners' mean is that of all records
    rounds: Any


class Public(NamedTuple):
    """An owner between rounds. All of it is made of messages."""

    x: Any
    y: Any
    gradient: Any  # the owner's last g̃, which its own messages show
    average: Any


class Message(NamedTuple):
    """What leaves an owner in a round."""

    x: Any
    s: Any


def build(task, settings, calibration):
    """The protocol for this task.

    Guarantee: every owner's whole transcript meets its own (ε, δ): a round releases one sum of gradients, each
    clipped to `clip_norm`, with Gaussian noise; a replaced record moves it by 2 clip_norm at most.
    """
    if calibration != "certified":
        raise coterie.InputError(f"calibration={calibration!r}: gradient_tracking has 'certified' only.")
    plan = calibrated(full_batch_plan(task, settings.rounds), task)
    weight = np.full(task.owners, task.owners / sum(task.sizes))
    numbers = per_owner(task.owners, Numbers(settings.step, weight, float(settings.rounds)))
    claim = stated(task, None, "Nedić, Olshevsky & Shi 2017", "the paper is not about privacy")
    return Program(functions(task.problem), plan, numbers, task.params, settings.rounds, claim)


def tree(function, *trees):
    """The function on every array of the trees."""
    return jax.tree.map(function, *trees)


@lru_cache  # the same functions for the same problem, so that nothing is compiled twice
def functions(problem):
    """An owner's side."""

    def init(params, ctx):
        zero = tree(jnp.zeros_like, params)
        return State(Public(params, zero, zero, params), ())

    def emit(state, batch, noise, ctx):
        # One record moves the sum by clip_norm at most, 2 clip_norm when replaced: the plan's event. Everything
        # else in the message is public before it is sent.
        public = state.public
        total = noised(clipped_sum(problem, public.x, batch, ctx.clip_norm), noise, ctx.noise_scale)
        penalty = problem.penalty.gradient(public.x)
        gradient = tree(lambda g, h: ctx.numbers.weight * g + h, total, penalty)
        return say(
            public, tree(lambda y, new, old: y + new - old, public.y, gradient, public.gradient), ctx
        ), ()

    def say(public, s, ctx):
        return Message(tree(lambda x, s: x - ctx.numbers.step * s, public.x, s), s)

    def absorb(public, own, mixed, ctx):
        gradient = tree(lambda s, y, old: s - y + old, own.s, public.y, public.gradient)
        half = ctx.numbers.rounds / 2
        new = 1.0 / jnp.maximum(ctx.step.astype(jnp.float32) - half, 1.0)
        average = tree(lambda old, x: (1.0 - new) * old + new * x, public.average, mixed.x)
        return Public(mixed.x, mixed.s, gradient, average), ()

    def idle(public, ctx):  # whose budget is spent goes on mixing, with the gradient it had
        return say(public, public.y, ctx)

    return Rounds(init, emit, absorb, lambda public: public.average, idle)


if __name__ == "__main__":
    coterie.register("protocol", "gradient_tracking", sys.modules[__name__])
    result = coterie.run(coterie.Experiment(protocol="gradient_tracking"))
    print(f"accuracy {result.joint:.4f}, at ε ≤ {max(one.epsilon for one in result.certificates):.4g}")
