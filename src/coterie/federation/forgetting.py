"""Owners who will not come back: those present decide to go on without them, each on its own machine.

A protocol of rounds then keeps the share of each step that would have gone to such an owner. All must decide alike:
greetings compare it (`Collaboration.digest`). There is no way back: a forgotten owner has missed what others shared.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from coterie.errors import InputError
from coterie.federation import agreement as agreements
from coterie.federation.collaboration import Collaboration, collaboration
from coterie.federation.party import Party
from coterie.federation.transport import keeping
from coterie.program import Rounds


def forget(party: Party, owner: str) -> Collaboration:
    """Write down that this party goes on without an owner, under its present agreement."""
    planned = without(party, collaboration(agreements.read(party.agreement)))
    plan, rounds = planned.program.plan, isinstance(planned.program.functions, Rounds)
    if planned.hub is not None or not rounds or plan.masked is not None:
        raise InputError(
            f"owner={owner!r}: {planned.agreement.experiment.protocol} waits for no owner for good, so none has to be "
            "forgotten."
        )
    if owner not in planned.agreement.owners or owner == party.name:
        fellows = ", ".join(name for name in planned.agreement.owners if name != party.name)
        raise InputError(f"owner={owner!r}: is no other owner of this agreement. Others: {fellows}.")
    planned = replace(planned, forgotten=planned.forgotten | {owner})
    if not planned.peers(party.name):
        raise InputError(
            f"owner={owner!r}: without it you have no neighbour left. Agree on another topology: a new network."
        )
    path = _file(party, planned)
    try:
        path.write_text(json.dumps(sorted(planned.forgotten)) + "\n", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}).") from error
    return planned


def without(party: Party, planned: Collaboration) -> Collaboration:
    """The collaboration as this party has decided to go on with it."""
    path = _file(party, planned)
    if not path.exists():
        return planned
    fault = "must list other owners. Write it again: coterie network forget."
    names = keeping.read_json(path, list[str], fault)
    if not set(names) <= set(planned.agreement.owners) - {party.name}:
        raise InputError(f"{path}: {fault}")
    return replace(planned, forgotten=frozenset(names))


def _file(party: Party, planned: Collaboration) -> Path:
    """Where the decision is stored, for this agreement alone."""
    return party.folder / f"forgotten-{planned.agreement.run}.json"
