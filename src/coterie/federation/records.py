"""An owner's records: read, checked against the agreement, and found in the ledger that they belong to."""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path

import numpy as np

from coterie.accounting.ledger import terms_of
from coterie.errors import InputError, RecordsError
from coterie.evaluation.held import Division, divided, secret, simulated
from coterie.evaluation.tables import Judged
from coterie.federation import party as parties
from coterie.federation.collaboration import Collaboration
from coterie.federation.party import Party
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.side import OwnRecords
from coterie.federation.transport.lines import Log, private
from coterie.problems.datasets import apart
from coterie.problems.datasets.identity import TableIdentity
from coterie.problems.datasets.schema import Rows
from coterie.problems.holdings import laid_out, placed
from coterie.problems.whose import units_of
from coterie.units import RECORD, Unit, counted

_DIVISION, _UNITS = "division", "units"  # the journal's keys


def read(party: Party, planned: Collaboration, data: Path) -> tuple[Rows, TableIdentity]:
    """The records with the agreement's columns, and their identity, which covers all columns of the file.

    RecordsError where they do not fit.
    """
    agreement = planned.agreement
    try:
        rows, known = apart.read(agreement.schema, data, agreement.unit)
    except InputError as error:
        if not data.exists() or data.is_dir():  # a pipe, such as a decrypting program's, has records too
            raise
        raise RecordsError(str(error)) from error
    held, expected = number_of(rows, agreement.unit), agreement.sizes[party.name]
    if held != expected:
        raise RecordsError(
            f"data={str(data)!r}: has {counted(held, agreement.unit.words)}, the agreement says {expected} for "
            f"{party.name!r}. Bring exactly these, or ask for a new agreement."
        )
    return rows, known


def number_of(rows: Rows, unit: Unit) -> int:
    """The number of units among the rows, as an agreement states it."""
    if unit.kind == "column":
        assert rows.whose is not None
        return len(np.unique(rows.whose.codes))
    return len(rows.y) if unit.kind == "record" else 1


def known_to(party: Party, content: str, data: Path, log: Log) -> str:
    """The hash with which to open the owner's ledger: of these records, or of an earlier version of them.

    RecordsError where the ledger belongs to other records, unless the owner says that they are of the same people:
    whether a record was changed since is for nobody but the owner.
    """
    if not party.ledger.exists():
        log(
            f"new ledger {party.ledger}: counts as if these records had never taken part in anything. It knows them "
            "by their content, in whatever order rows and columns are. If they, or an earlier version of them, have "
            f'taken part, stop, and name the ledger they have in {parties.NAME}: ledger = "FILE".'
        )
        return content
    stored = terms_of(party.ledger).data_hash
    if stored == content:
        return content
    if not party.same_people:
        raise RecordsError(
            f"data={str(data)!r}: other records than those that the ledger {str(party.ledger)!r} belongs to (the order "
            "of rows and columns does not count). If they are a corrected or newer version of them, set "
            f"same_people = true in {parties.NAME}: whoever is in both has spent in this ledger, and goes on spending "
            "there. If they are other people's, name another ledger."
        )
    log(
        private(f"ledger {party.ledger}: begun with other records, of the same people as {parties.NAME} says")
    )
    return stored


def division(
    planned: Collaboration, owner: int, journal: Journal, injected_seed: int | None
) -> Division | None:
    """Which rows or units the owner keeps out of training; None where it keeps none out.

    Drawn once for a run, with a key that stays in the owner's journal, so that a restart finds the same division; in
    tests, the simulator's key.
    """
    share, size = planned.agreement.experiment.hold_out, list(planned.agreement.sizes.values())[owner]
    if not share:
        return None
    if injected_seed is not None:
        return divided(size, share, simulated(injected_seed, owner))
    key = journal.get(_DIVISION)
    if key is None:
        key = secrets.token_bytes(32)
        journal.put({_DIVISION: key})
    return divided(size, share, secret(key))


def seed_of(journal: Journal, injected_seed: int | None) -> int:
    """What orders an owner's units, and chooses among the records of one that has too many.

    Drawn once for a run and kept as the division is; in tests, the simulator's.
    """
    if injected_seed is not None:
        return injected_seed
    key = journal.get(_UNITS)
    if key is None:
        key = secrets.token_bytes(16)
        journal.put({_UNITS: key})
    return int.from_bytes(key)


def order(digest: str, division: Division | None, unit: Unit = RECORD, seed: int = 0) -> str:
    """A hash of the records that are trained on, in their order: positions depend on the draws, too."""
    if unit.kind == "column":
        digest = hashlib.sha256(f"{digest} {seed}".encode()).hexdigest()
    if division is None:
        return digest
    return hashlib.sha256(digest.encode() + division.trained.astype("<i8").tobytes()).hexdigest()


def divided_by(
    rows: Rows, planned: Collaboration, division: Division | None, seed: tuple[int, ...]
) -> tuple[OwnRecords, Judged]:
    """Records for training and for evaluation; `seed`: of the order of units, and of the records that stay of one."""
    unit, groups = planned.agreement.unit, planned.groups
    if unit != RECORD:
        return _by_unit(rows, planned, division, units_of(np.arange(len(rows.y)), rows.whose, unit, seed))
    everything, x = np.arange(len(rows.y)), planned.features.apply(rows.x)
    trained, held = division or (everything, everything)
    codes = None if groups is None else groups.codes(rows.x[held])
    return OwnRecords(x[trained], rows.y[trained]), Judged(x[held], rows.y[held], codes)


def _by_unit(
    rows: Rows, planned: Collaboration, division: Division | None, units: list[np.ndarray]
) -> tuple[OwnRecords, Judged]:
    """The same unit by unit, each record's features computed in a place that no other unit can move it from.

    Guarantee: shapes and places follow from the agreement alone, so that nothing is compiled for how many records a
    unit has, and no last bit of another unit's features or scores, which products round by place, depends on it.
    """
    groups, places = planned.groups, placed(units, len(units), planned.agreement.unit.records)
    at, within = places
    # large, so not copied without need
    x = np.require(planned.features.apply(rows.x[at.ravel()]), requirements="W")
    x = x.reshape(*at.shape, *x.shape[1:])
    x[~places.real] = 0
    y = np.where(places.real, rows.y[at], 0).astype(rows.y.dtype)
    trained, held = division or (slice(None), slice(None))
    codes = None if groups is None else groups.codes(rows.x[at[held][places.real[held]]])
    some, targets, whose = laid_out(x[held], y[held], within[held])
    return OwnRecords(x[trained], y[trained], within[trained]), Judged(some, targets, codes, whose)
