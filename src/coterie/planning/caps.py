"""What caps and clips cost where persons are protected, beside protecting one record: forecasts from public numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from coterie.planning.candidates import candidates
from coterie.planning.constants import Constants
from coterie.planning.search import Forecast, Plan, forecast
from coterie.protocols import Task
from coterie.topologies import contraction
from coterie.units import RECORD

CAPS = (1, 2, 5, 20)  # compared, and the one that is asked for


@dataclass(frozen=True, kw_only=True)
class Cap:
    """The best forecast with each clip, under one cap."""

    cap: int | None  # None: one record is protected, not a person
    kept: float  # share of the records
    clips: tuple[Forecast, ...]

    @property
    def best(self) -> Forecast:
        """The forecast with the best clip."""
        return min(self.clips, key=lambda clip: clip.predicted)


def compare(
    task: Task, plan: Plan, rounds_at_most: int, constants: Constants, colluding: int | None = None
) -> tuple[Cap, ...]:
    """Caps in the plan's protocol, with rounds near its own; last, one record protected and all records kept.

    `task` is of persons, as the plan was; `constants.persons` says how many records they have.
    Guarantee: no record is read.
    """
    persons, rounds = constants.persons, plan.best.rounds
    near = tuple(sorted({max(1, rounds // 2), rounds, min(2 * rounds, rounds_at_most)}))
    left = 0.0 if task.owners == 1 else contraction(task.topology, plan.gossip_steps)

    def clips(asked: Task) -> tuple[Forecast, ...]:
        tried = candidates(asked, plan.best.protocol, near, colluding, persons)
        shares = sorted({contender.clip for contender in tried})
        forecasts = (
            forecast(asked, [contender for contender in tried if contender.clip == clip], constants, left)
            for clip in shares
        )
        return tuple(choice for choice in forecasts if choice is not None)

    caps = [
        Cap(
            cap=cap,
            kept=persons.kept(cap) / persons.mean,
            clips=clips(replace(task, unit=replace(task.unit, records=cap))),
        )
        for cap in sorted({*CAPS, task.unit.records})
    ]
    records = tuple(max(1, round(size * persons.mean)) for size in task.sizes)
    return *caps, Cap(cap=None, kept=1.0, clips=clips(replace(task, unit=RECORD, sizes=records)))
