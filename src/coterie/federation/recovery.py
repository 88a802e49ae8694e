"""An owner's ledger after a disaster: restored from a copy for the runs of its parties' folders, or written off."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from coterie.accounting.ledger import Ledger, recovery
from coterie.accounting.ledger.recovery import Owed, Restored
from coterie.accounting.plans import charges_of
from coterie.accounting.statements import Certificate
from coterie.errors import InputError
from coterie.federation import agreement as agreements
from coterie.federation import party as parties
from coterie.federation.collaboration import collaboration
from coterie.federation.honest import charged_plan
from coterie.federation.node import takes_part
from coterie.mechanisms import ReleasePlan


def restore(copy: Path, folders: Sequence[Path]) -> tuple[Path, Restored]:
    """Put a copy in place of the ledger that these folders share; return the ledger's file and what was restored."""
    owners = [parties.read(folder) for folder in folders]
    files = {owner.ledger.resolve() for owner in owners}
    if len(files) > 1:
        raise InputError(
            f"folders: have {len(files)} ledgers ({', '.join(map(str, sorted(files)))}). Restore one after the other."
        )
    runs = [agreements.read(owner.agreement).run for owner in owners]
    (file,) = files
    return file, recovery.restore(copy, file, list(dict.fromkeys(runs)))


def write_off(folder: Path, agreement: Path | None = None) -> tuple[str, Certificate]:
    """Give up a run, charging all that it could have released; return its name and the ledger's spending then.

    The run is that of the folder's agreement, or of an earlier one, `agreement`.
    """
    party = parties.read(folder)
    planned = collaboration(agreements.read(agreement or party.agreement))
    takes_part(party, planned)
    if party.name == planned.hub:
        raise InputError(f"name={party.name!r}: has no records and no ledger. Write off an owner's run.")
    run, at = planned.agreement.run, planned.agreement.owners.index(party.name)
    with recovery.opened(party.ledger) as ledger:
        if not ledger.given_up(run):
            plan = charged_plan(party, planned)
            recovery.write_off(
                ledger, run, owed(ledger, run, plan, at, planned.messages(at), planned.table_steps)
            )
        return run, ledger.spent()


def owed(
    ledger: Ledger, run: str, plan: ReleasePlan, at: int, messages: int, tables: Sequence[int]
) -> list[Owed]:
    """What an owner's run could still have released, beyond what the ledger has; `tables`: the steps of its tables.

    Sound: a run has at most `messages`, each of its own turn, and the ledger has `done` of them; and each table beside
    them. Where turn t reads part t % parts alone, a part's turns less those charged to it are left; where the division
    is not known, for there was none or another one since, every record is charged as one of the fullest part.
    """
    import dp_accounting as dp

    charges, steps = charges_of(plan, at, messages), ledger.rounds(run)
    done = sum(step not in tables for step in steps)
    debts = [Owed(dp.NoOpDpEvent())]  # a row that records the write-off, also where nothing is owed
    if charges.upfront is not None and done == 0:
        debts.append(Owed(charges.upfront))
    debts += [Owed(event) for step, event in zip(tables, charges.tables, strict=True) if step not in steps]
    left: dict[tuple[str, int] | None, int] = {None: messages - done}
    if charges.parts:
        charged = ledger.parts(run)
        rest = [
            len(range(part, messages, charges.parts)) - sum(n for (_, of), n in charged.items() if of == part)
            for part in range(charges.parts)
        ]
        names = {name for name, _ in charged}
        left = {(name, part): rest[part] for name in names for part in range(charges.parts)}
        if len(names) != 1:
            left = {None: max(rest)}
    return debts + [Owed(dp.SelfComposedDpEvent(charges.each, n), part) for part, n in left.items() if n > 0]
