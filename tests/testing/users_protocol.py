"""A protocol as a user might write it, right or with one mistake; nothing of it is known to coterie."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from coterie.accounting import Claim
from coterie.mechanisms import FullBatch, Gaussian, OnePass, ReleasePlan
from coterie.mechanisms.noise import noised
from coterie.problems.problem import Problem, clipped_sum
from coterie.program import Program, Rounds, State, Visits
from coterie.protocols.task import Task, calibrated, params_like

CLAIM = Claim(
    epsilon=None,
    delta=0.0,
    relation="replace_one",
    unit="record",
    view="public transcript",
    source="",
    note="",
)
CALLS: list[int] = []  # what an impure program remembers
HEARD: list[float] = [0.0]


@dataclass(frozen=True)
class Settings:
    """What may be set. `mistake`: what is wrong."""

    mistake: str = ""
    rounds: int = 3
    visits: bool = False


def build(task: Task, settings: Settings, calibration: str) -> Program:
    """Noisy gradient steps from what all owners say, or from one owner after the other."""
    del calibration
    make = _functions.__wrapped__ if settings.mistake == "new functions" else _functions
    plan = ReleasePlan(
        sampler=OnePass(4) if settings.visits else FullBatch(),
        clip_norm=task.clip_norm,
        noise=Gaussian(),
        noise_multiplier=(1.0,) * task.owners,
        releases=(settings.rounds,) * task.owners,
        sizes=task.sizes,
        noise_like=params_like(task.params),
    )
    plan = calibrated(plan, task)
    if settings.mistake == "quieter plan":
        plan = replace(plan, noise_multiplier=tuple(0.5 * z for z in plan.noise_multiplier))
    baked = task.epsilon[0] if settings.mistake == "compiled number" else 0.0
    return Program(
        functions=make(task.problem, settings.mistake, settings.visits, baked),
        plan=plan,
        numbers=jnp.full(task.owners, 0.1 / min(task.sizes), jnp.float32),
        params=task.params,
        schedule=np.arange(task.owners * settings.rounds) % task.owners
        if settings.visits
        else settings.rounds,
        claim=CLAIM,
    )


@lru_cache(maxsize=64)
def _functions(problem: Problem, mistake: str, visits: bool, baked: float) -> Rounds | Visits:
    def say(params: Any, private: Any, batch: Any, noise: Any, ctx: Any) -> tuple:
        clip = {"clips at five times": 5.0 * ctx.clip_norm, "own clip norm": 5.0}.get(mistake, ctx.clip_norm)
        if mistake == "forgets the mask":
            batch = batch._replace(mask=jnp.ones_like(batch.mask))
        total = clipped_sum(problem, params, batch, clip)
        if mistake == "counts in Python":
            CALLS.append(1)
            total = total * len(CALLS)
        if mistake in ("remembers outside", "hears others"):
            total = total + 1e-3 * _asked(jnp.sum(batch.mask * batch.x[:, 0]), mistake)
        if mistake == "prints":
            jax.debug.print("{}", jnp.sum(batch.x))
        carried = total if mistake == "carries over" else private
        scale = ctx.noise_scale * (0.5 if mistake == "half the noise" else 1.0 + 0.0 * baked)
        message = {"sum": noised(total + private if mistake == "carries over" else total, noise, scale)}
        if mistake == "norm without noise":
            message["norm"] = jnp.linalg.norm(total)
        return message, carried

    def private(params: Any) -> Any:
        return jax.tree.map(jnp.zeros_like, params) if mistake == "carries over" else ()

    def moved(params: Any, message: Any, ctx: Any) -> Any:
        return jax.tree.map(lambda x, g: x - (ctx.numbers + baked) * g, params, message["sum"])

    if visits:
        return Visits(
            open=lambda params, numbers: params,
            init=lambda params, ctx: private(params),
            ask=lambda register, ctx: register,
            emit=lambda kept, query, batch, noise, ctx: say(query, kept, batch, noise, ctx),
            settle=lambda register, message, ctx: (moved(register, message, ctx), ()),
            model=lambda register: register,
        )
    return Rounds(
        init=lambda params, ctx: State(params, private(params)),
        emit=lambda state, batch, noise, ctx: say(state.public, state.private, batch, noise, ctx),
        absorb=lambda public, own, mixed, ctx: (moved(public, mixed, ctx), ()),
        model=lambda public: public,
    )


def _asked(value: Any, mistake: str) -> Any:
    """Asks Python: for how often it was asked, or for what it was told last."""

    def answer(told: np.ndarray) -> np.ndarray:
        CALLS.append(1)
        last, HEARD[0] = HEARD[0], float(np.ravel(told)[0])
        return np.full(np.shape(told), len(CALLS) if mistake == "remembers outside" else last, np.float32)

    like = jax.ShapeDtypeStruct((), jnp.float32)
    return jax.pure_callback(answer, like, value, vmap_method="sequential")
