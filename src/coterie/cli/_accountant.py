"""`coterie certify` for mechanisms in words: options or a plan's file in, lines or one JSON object out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

from coterie.cli._common import print_json
from coterie.cli._progress import progress
from coterie.errors import InputError
from coterie.relations import REPLACE_ONE


class AccountantOptions(NamedTuple):
    """The options as they were given; None where one was not."""

    plan: Path | None
    epsilon: float | None
    delta: float | None
    relation: str | None
    mechanism: dict[str, Any]

    @property
    def given(self) -> list[str]:
        """Those that were given, as a user writes them."""
        named = self._asdict() | self.mechanism
        del named["mechanism"]
        return [f"--{name}" for name, value in named.items() if value is not None]


def account(asked: AccountantOptions, as_json: bool) -> None:
    """Print what the mechanisms cost together, or the least noise for a budget and what that costs."""
    from coterie.experiments.accountant import answer, from_words, read_plan

    own = {name: value for name, value in asked.mechanism.items() if value is not None}
    if asked.plan is not None and own:
        raise InputError(
            f"--plan: does not go with {', '.join(f'--{name}' for name in own)}. Put it into the file."
        )
    mechanisms = [from_words(own)] if asked.plan is None else read_plan(asked.plan)
    if asked.delta is None:
        raise InputError("delta: missing. Give one far below 1/records, such as --delta 1e-5.")
    with progress() as tell:
        tell("certifying", 0, 0)
        relation = asked.relation or REPLACE_ONE
        found = answer(mechanisms, delta=asked.delta, relation=relation, epsilon=asked.epsilon)
    if as_json:
        return print_json(found.to_json())
    for line in found.lines():
        print(line)
