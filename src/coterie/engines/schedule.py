"""Who acts when: a run's public schedule, step by step."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from coterie._types import Array
from coterie.errors import InputError
from coterie.program import Program, Rounds

MOST = 10_000_000  # steps whose schedule is held in memory


class Tick(NamedTuple):
    """One step's public schedule; Rounds use only `step` and `turn`."""

    step: Array
    turn: Array
    owner: Array
    live: Array


def ticks_of(program: Program) -> tuple[Tick, np.ndarray]:
    """The public schedule. An owner that has made all its releases stays silent for the rest of the visits."""
    releases = np.asarray(program.plan.releases)
    if program.steps > MOST:
        raise InputError(
            f"steps={program.steps}: must be at most {MOST:,}. Ask for fewer rounds, visits or passes."
        )
    if isinstance(program.functions, Rounds):
        rounds = int(program.schedule)
        if rounds < 1 or rounds > releases.min():
            raise InputError(
                f"rounds={rounds}: must be between 1 and the plan's {releases.min()} releases an owner."
            )
        step = jnp.arange(1, rounds + 1, dtype=jnp.int32)
        return Tick(step, step - 1, step - 1, jnp.ones(rounds, bool)), np.full(len(releases), rounds)
    owner = np.asarray(program.schedule, np.int32)
    turn = np.zeros(len(owner), np.int32)
    for visitor in np.unique(owner):
        turn[owner == visitor] = np.arange((owner == visitor).sum())
    live = turn < releases[owner]
    step = jnp.arange(1, len(owner) + 1, dtype=jnp.int32)
    turns = np.bincount(owner[live], minlength=len(releases))
    return Tick(step, jnp.asarray(turn), jnp.asarray(owner), jnp.asarray(live)), turns
