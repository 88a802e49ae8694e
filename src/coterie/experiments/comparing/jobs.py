"""What has to be trained for a comparison, and training it: seeds, and budgets where they fit, side by side."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import numpy as np

from coterie import topologies
from coterie._types import PyTree
from coterie.accounting import warnings_of
from coterie.accounting.plans import certificates_of, pair_told, person_told
from coterie.engines.sweep import Lane, alike, sweep
from coterie.errors import CoterieError
from coterie.experiments.comparing.question import Comparison, Series
from coterie.experiments.describe import plain
from coterie.experiments.experiment import Experiment
from coterie.experiments.fitting import probe_of
from coterie.experiments.prepare import Prepared
from coterie.program import Program
from coterie.protocols import Task, build
from coterie.protocols.baselines import alone
from coterie.protocols.mixing import mixing_of

ALONE = "each owner alone"  # the series that is no protocol
_PIECE = 32  # steps that are compiled together: what they need not fill is wasted, what they do not hold costs a call
_LANES = 16  # runs side by side: enough to share every pass over the records, few enough to save often
_NUMBERS = 1 << 27  # of all owners' models in those runs

Steps = Callable[[int], None]  # how many more are done


@dataclass
class Job:
    """One cell: a series at one budget, with all seeds. `values` fills as seeds are done."""

    series: str
    epsilon: float
    program: Program
    lanes: list[Lane]
    values: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def steps(self) -> int:
        """Rounds or visits of each run."""
        return self.program.steps


def job_of(comparison: Comparison, series: Series, epsilon: float, prepared: Prepared) -> Job | str:
    """The cell to be trained, or in one line why this protocol refuses the data, the topology or the budget."""
    shared, task = comparison.shared, _at(prepared.task, epsilon)
    try:
        program = build(series.protocol, task, series.settings, shared.calibration)
        _, mixer, consensus = mixing_of(task, program, shared.gossip_steps)
    except CoterieError as error:
        return str(error)
    if consensus:
        return (
            f"gossip_steps={shared.gossip_steps}: too few for shared noise. Leave them out: enough are taken."
        )
    return Job(series.name, epsilon, program, _lanes(program, mixer, comparison.seeds_used, task))


def alone_of(comparison: Comparison, epsilon: float, prepared: Prepared) -> Job:
    """Each owner by itself at the same budget, with the seeds that `coterie run` takes for it."""
    task = _at(prepared.task, epsilon)
    program, seeds = alone(task), [seed + 1 for seed in comparison.seeds_used]
    return Job(ALONE, epsilon, program, _lanes(program, topologies.IDENTITY, seeds, task))


def _at(task: Task, epsilon: float) -> Task:
    return replace(task, epsilon=(epsilon,) * task.owners)


def _lanes(program: Program, mixer: topologies.Mixer, seeds: list[int], task: Task) -> list[Lane]:
    """A network starts elsewhere with every seed, as `coterie run` does; linear models start at zero."""
    if task.problem.model.is_linear:
        return [Lane(program, mixer, seed) for seed in seeds]
    init = task.problem.model.init
    return [Lane(program._replace(params=init(jax.random.key(seed))), mixer, seed) for seed in seeds]


def train(jobs: list[Job], prepared: Prepared, done: Steps) -> Iterator[Job]:
    """Each job as soon as all its seeds are done. All jobs are of one series.

    Budgets whose programs fit together share every pass over the records. Others run one after the other, in pieces of
    one length, so that they share the compilation though their numbers of steps differ.
    """
    fit = len({alike(job.lanes[0], prepared.shards) for job in jobs}) == 1
    look = _look(prepared, jobs[0].program.plan.relation.sizes_are_public)
    for group in [jobs] if fit else [[job] for job in jobs]:
        waiting = [(job, lane) for job in group for lane in job.lanes]
        most = int(np.clip(_NUMBERS // (prepared.task.owners * prepared.task.dimension), 1, _LANES))
        for first in range(0, len(waiting), most):
            some = waiting[first : first + most]
            started = time.perf_counter()
            values = _run([lane for _, lane in some], prepared, look, done)
            for (job, _), value in zip(some, values):
                job.values.append(value)
                job.seconds += (time.perf_counter() - started) / len(some)
                if len(job.values) == len(job.lanes):
                    yield job


def _run(
    lanes: list[Lane], prepared: Prepared, look: Callable[[PyTree], list[float]], done: Steps
) -> list[float]:
    total = lanes[0].program.steps
    before = 0

    def report_steps(steps: int, of: int) -> None:
        nonlocal before
        del of
        done(len(lanes) * (steps - before))
        before = steps

    piece = min(_PIECE, 1 << (total - 1).bit_length())
    return sweep(lanes, prepared.shards, every=total, probe=look, progress=report_steps, piece=piece)[1][-1]


def _look(prepared: Prepared, by_size: bool) -> Callable[[PyTree], list[float]]:
    """(lanes, owners, ...) models -> the metric of each lane: the mean over owners' models, by size if asked for."""
    probe, sizes = probe_of(prepared), prepared.task.sizes if by_size else ()

    def look(models: PyTree) -> list[float]:
        lanes = jax.tree.leaves(models)[0].shape[0]
        metrics = [probe(jax.tree.map(lambda leaf, at=at: leaf[at], models))[0] for at in range(lanes)]
        return [
            float(np.average(values, weights=sizes if len(values) == len(sizes) else None))
            for values in metrics
        ]

    return look


def told_of(job: Job, shared: Experiment) -> dict[str, Any]:
    """What is kept of a finished job: its metric by seed, what its paper claims and what can be certified."""
    cell: dict[str, Any] = {
        "values": [plain(value) for value in job.values],
        "steps": job.steps,
        "seconds": round(job.seconds, 3),
    }
    if job.series == ALONE:
        return cell
    certificates = certificates_of(job.program.plan, shared.delta)
    worst = max(certificates, key=lambda certificate: certificate.epsilon)
    person = person_told(job.program.plan, shared.delta, shared.owners_per_person)
    pair = pair_told(job.program.plan, shared.delta, shared.owners_per_person)
    held = person if person is not None and shared.owners_per_person > 1 else None
    claim = job.program.claim
    return cell | {
        "claimed": claim.to_json()["epsilon"],
        "claim_source": claim.source,
        "claim_note": claim.note,
        "certified": worst.to_json()["epsilon"],
        "person": None if person is None else person.to_json()["epsilon"],
        "pair": None if pair is None else pair.to_json()["epsilon"],
        "within": sum(
            (held or certificate).epsilon <= job.epsilon * (1 + 1e-9) for certificate in certificates
        ),
        "owners": len(certificates),
        "relation": worst.relation,
        "unit": worst.unit,
        "view": worst.view,
        "accountant": worst.accountant,
        "reason": worst.reason,
        "warnings": warnings_of(certificates),
    }
