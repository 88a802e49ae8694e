"""From an agreement to the protocol: what every party builds for itself, without any record."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import jax
import numpy as np

from coterie import _check, topologies
from coterie.engines.federate.side import message_layout
from coterie.engines.federate.wire import Layout
from coterie.errors import InputError
from coterie.experiments.federation.agreement import Agreement
from coterie.experiments.prepare import budgets, clip_norm, feature_map, problem_of
from coterie.experiments.settings import typed
from coterie.problems.features import FeatureMap
from coterie.program import Program, Rounds
from coterie.protocols import PROTOCOLS, Task, build
from coterie.topologies.neighbourhood import Neighbourhood, neighbourhood


@dataclass(frozen=True)
class Collaboration:
    """A run that could begin: everything here is public."""

    agreement: Agreement
    task: Task
    program: Program
    features: FeatureMap

    @property
    def hub(self) -> str | None:
        """The party beside the owners that this protocol needs, if it needs one."""
        if self.program.learner:
            return "learner"
        return "aggregator" if self.program.aggregate is not None else None

    @property
    def parties(self) -> tuple[str, ...]:
        """Everybody, owners first."""
        return (*self.agreement.owners, *((self.hub,) if self.hub else ()))

    @cached_property
    def layout(self) -> Layout:
        """What an owner's message looks like on the wire."""
        table = self.agreement.schema.empty(self.agreement.name)
        rows = max(self.task.sizes)
        x = jax.ShapeDtypeStruct((rows, *self.features.apply(table.x).shape[1:]), np.float32)
        return message_layout(self.program, x, jax.ShapeDtypeStruct((rows,), table.y.dtype))

    @cached_property
    def gossip_steps(self) -> int:
        """Gossip steps in a round."""
        given = self.agreement.experiment.gossip_steps
        return topologies.gossip_steps_for(self.task.topology) if given is None else given

    def view(self, owner: int) -> Neighbourhood:
        """Whom an owner hears and tells, in a protocol of rounds over the topology."""
        return neighbourhood(self.task.topology, owner, self.gossip_steps)

    def peers(self, party: str) -> tuple[str, ...]:
        """Whom a party talks to, and nobody else."""
        owners = self.agreement.owners
        if party == self.hub:
            return owners
        if self.hub:
            return (self.hub,)
        if isinstance(self.program.functions, Rounds):
            return tuple(owners[at] for at in self.view(owners.index(party)).peers)
        return tuple(one for one in owners if one != party)  # a walking model: who acts next is told to all

    def messages(self, owner: int) -> int:
        """How many messages the owner sends in the run, at most."""
        if isinstance(self.program.functions, Rounds):
            return int(self.program.schedule)
        return self.program.plan.releases[owner]


def collaboration(agreement: Agreement) -> Collaboration:
    """Build and check everything that the agreement implies."""
    experiment, owners = agreement.experiment, agreement.owners
    table = agreement.schema.empty(agreement.name)
    mapped = feature_map(experiment, table)
    problem = problem_of(experiment, table, mapped.apply(table.x).shape[1])._replace(careful=True)
    task = Task(
        problem=problem,
        sizes=tuple(agreement.sizes.values()),
        clip_norm=clip_norm(problem, mapped),
        epsilon=budgets(experiment.epsilon, owners),
        delta=experiment.delta,
        topology=topologies.build(experiment.topology, len(owners), experiment.seed),
        params=problem.model.init(jax.random.key(experiment.seed)),
    )
    known = PROTOCOLS[_check.one_of("protocol", experiment.protocol, PROTOCOLS)].settings
    settings = typed(experiment.protocol, known, experiment.settings)
    program = build(experiment.protocol, task, settings, experiment.calibration)
    if program.plan.relation != "replace_one":
        raise InputError(
            f"relation={program.plan.relation!r}: an agreement states everybody's number of records, which only "
            "replace_one takes for public. Use relation=replace_one."
        )
    return Collaboration(agreement, task, program, mapped)
