"""The hunt for leaks: one private record changed, all released messages held fixed. What else differs has leaked.

The messages of an honest run are recorded once. Then the program runs twice, on records that differ in one, with an
`emit` that computes on them as ever (private state goes on as it would) but says what was recorded.
"""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
import jax.numpy as jnp

from coterie._types import PyTree
from coterie.engines.simulate import simulate
from coterie.program import Program, Rounds, Shards
from coterie.testing.failure import ContractError
from coterie.testing.world import differing
from coterie.topologies.mixing import Mixer


class Replay:
    """Makes programs say what was recorded; messages have leading axes (steps, owners) or (steps,)."""

    def __init__(self, messages: PyTree) -> None:
        self.messages = jax.tree.map(jnp.asarray, messages)
        self.made: dict[Any, Any] = {}  # equal functions give one replay, which compiles once

    def __call__(self, program: Program) -> Program:
        functions = program.functions
        if functions not in self.made:
            self.made[functions] = functions._replace(emit=self._emit(functions))
        return program._replace(functions=self.made[functions])

    def _emit(self, functions: Any) -> Callable:
        def emit(*given: Any) -> tuple:
            ctx = given[-1]
            _, private = functions.emit(*given)
            at = (ctx.step - 1, ctx.owner) if isinstance(functions, Rounds) else (ctx.step - 1,)
            return jax.tree.map(lambda leaf: leaf[at], self.messages), private

        return emit


def hunt(
    program: Program, records: Shards, changed: Shards, mixer: Mixer, messages: PyTree, seed: int
) -> None:
    """Fails where a run says anything of the changed record beside its messages: in its trace, logs or output."""
    replayed = Replay(messages)(program)
    runs = []
    for held in (records, changed):
        with overheard() as words:
            trace = simulate(replayed, held, mixer, seed=seed)
            jax.effects_barrier()
        runs.append((trace, words))
    (first, heard), (second, heard_again) = runs
    places = [f"trace{place}" for place in differing(first, second)]
    if heard != heard_again:
        places.append("logs, warnings or output")
    if places:
        raise ContractError(
            f"leak: with all messages held fixed, one changed record changed {', '.join(places)}; allowed: nothing. "
            "Let nothing but the message of `emit` depend on records."
        )


@contextmanager
def overheard() -> Iterator[list[str]]:
    """Everything printed, every warning, and everything logged: at INFO or above by anyone, at any level by us."""
    lines: list[str] = []

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            lines.append(f"{record.name} {record.getMessage()}")

    handler, ours, printed = Keep(), logging.getLogger("coterie"), io.StringIO()
    level = ours.level
    logging.getLogger().addHandler(handler)
    ours.setLevel(logging.DEBUG)
    try:
        with (
            warnings.catch_warnings(record=True) as warned,
            contextlib.redirect_stdout(printed),
            contextlib.redirect_stderr(printed),
        ):
            yield lines
        lines += [str(warning.message) for warning in warned] + printed.getvalue().splitlines()
    finally:
        logging.getLogger().removeHandler(handler)
        ours.setLevel(level)
