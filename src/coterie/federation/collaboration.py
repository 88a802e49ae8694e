"""From an agreement to the protocol: what every party builds for itself, without any record."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256

import jax
import numpy as np

from coterie import topologies
from coterie.errors import InputError
from coterie.evaluation.budget import sheet_of
from coterie.evaluation.centre import Centred
from coterie.evaluation.groups import RecordGroups, groups_of
from coterie.evaluation.held import held_of, trained_sizes
from coterie.evaluation.selection import Ballot, Selected, ballot_of, offering, selected
from coterie.evaluation.sheet import Sheet
from coterie.evaluation.told import Published, published
from coterie.experiments import centring, evaluating
from coterie.experiments.prepare import feature_map, problem_of, task_of
from coterie.experiments.settings import typed
from coterie.federation.agreement import Agreement
from coterie.federation.releases.side import message_layout
from coterie.federation.shapes.rolls import SumTerms
from coterie.federation.shapes.tree import Graph, graph_of
from coterie.federation.transport.wire import Layout
from coterie.mechanisms import ReleasePlan
from coterie.mechanisms.noise import largest_sum, rounding_slack
from coterie.problems.features import FeatureMap
from coterie.program import Program, Rounds
from coterie.protocols import Task
from coterie.relations import REPLACE_ONE
from coterie.topologies.neighbourhood import Neighbourhood, neighbourhood, refuse_averaging
from coterie.units import RECORD


@dataclass(frozen=True)
class Collaboration:
    """A run that could begin: everything here is public."""

    agreement: Agreement
    task: Task
    program: Program
    features: FeatureMap
    forgotten: frozenset[str] = frozenset()  # owners whom those present go on without for good
    around: Centred | None = None  # what was taken off the features, once owners' sums have told it

    @property
    def hub(self) -> str | None:
        """The party beside the owners that this protocol needs, if it needs one."""
        if self.program.learner:
            return "learner"
        return "aggregator" if self.program.aggregate is not None and self.agreement.aggregator else None

    @property
    def parties(self) -> tuple[str, ...]:
        """Names of all parties, owners first."""
        return (*self.agreement.owners, *((self.hub,) if self.hub else ()))

    @property
    def plain(self) -> FeatureMap:
        """Features that nothing was taken off."""
        return feature_map(self.agreement.experiment, self.agreement.table)

    def centred(self, sums: dict[int, np.ndarray]) -> Collaboration:
        """The same with features around what these owners' sums say: until then they are around zero."""
        experiment, table = self.agreement.experiment, self.agreement.table
        mapped, told = centring.found(experiment, table, self.program.plan, self.plain, sums)
        return replace(self, features=mapped, around=told)

    @property
    def sheet(self) -> Sheet:
        """The form of owners' tables of scores."""
        return sheet_of(
            self.agreement.table, self.task.problem, self.program.plan.relation, self.groups, self.task.unit
        )

    @property
    def groups(self) -> RecordGroups | None:
        """Groups of records that are evaluated by themselves, too."""
        return groups_of(self.agreement.table, self.agreement.experiment.evaluate_by)

    @property
    def bound(self) -> bytes:
        """What masks are bound to: the agreement, and the sums that features are centred by, so that messages of owners
        who have different ones never add up."""
        if self.around is None:
            return self.agreement.digest
        return sha256(self.agreement.digest + bytes.fromhex(self.around.sums)).digest()

    @property
    def steps(self) -> int:
        """How many rounds, ticks or visits training has."""
        return self.program.steps

    @property
    def last_step(self) -> int:
        """The last step at which training can release anything: of masked sums, the largest ticket."""
        return self.steps if self.program.plan.masked is None else self.sums.tickets

    @property
    def ballot(self) -> Ballot:
        """The form of owners' sums of losses."""
        return ballot_of(self.program, self.sheet)

    @property
    def table_steps(self) -> tuple[int, ...]:
        """The steps at which the plan's tables are released, which training has not."""
        return tuple(self.last_step + 1 + at for at in range(len(self.program.plan.tables)))

    def selected(self, sums: dict[int, np.ndarray], choice: int) -> Selected | None:
        """The model chosen by the sums of losses; None where there is nothing to choose."""
        plan = self.program.plan
        if plan.selection is None:
            return None
        share, delta = self.agreement.experiment.select, self.task.delta
        return selected(self.ballot, plan, sums, choice, share=share, delta=delta)

    def published(self, tables: dict[int, np.ndarray]) -> Published | None:
        """The metrics computed from tables of scores; None where there are none."""
        if self.program.plan.evaluation is None or not tables:
            return None
        return published(
            self.sheet,
            self.program.plan,
            tables,
            share=self.agreement.experiment.evaluate,
            delta=self.task.delta,
            bounds=self.agreement.table.target_bounds,
            groups=self.groups,
            held_out=self.agreement.experiment.hold_out > 0,
        )

    @cached_property
    def layout(self) -> Layout:
        """What an owner's message looks like on the wire."""
        table = self.agreement.table
        rows: tuple[int, ...] = (max(self.task.sizes),)
        within = None
        if self.task.unit != RECORD:
            within, rows = jax.ShapeDtypeStruct(rows, np.int32), (*rows, self.task.unit.records)
        x = jax.ShapeDtypeStruct((*rows, *self.features.apply(table.x).shape[1:]), np.float32)
        return message_layout(self.program, x, jax.ShapeDtypeStruct(rows, table.y.dtype), within)

    @cached_property
    def gossip_steps(self) -> int:
        """How many gossip steps a round has."""
        given = self.agreement.experiment.gossip_steps
        return topologies.gossip_steps_for(self.task.topology) if given is None else given

    def view(self, owner: int) -> Neighbourhood:
        """Whom an owner hears and tells, in a protocol of rounds over the topology."""
        whole = neighbourhood(self.task.topology, owner, self.gossip_steps)
        return whole.without([self.agreement.owners.index(name) for name in self.forgotten])

    @property
    def digest(self) -> bytes:
        """The hash that a party shows its peers: of the agreement and of the forgotten owners. So nobody mixes with a
        party that still sends shares to the forgotten, where their weight would be lost."""
        if not self.forgotten:
            return self.agreement.digest
        return sha256(self.agreement.digest + "\n".join(sorted(self.forgotten)).encode()).digest()

    def peers(self, party: str) -> tuple[str, ...]:
        """The parties that a party talks to."""
        owners = self.agreement.owners
        if party == self.hub:
            return owners
        if self.hub:
            return (self.hub,)
        if self.program.plan.masked is not None:
            return tuple(owners[at] for at in self.graph[owners.index(party)])
        if isinstance(self.program.functions, Rounds):
            return tuple(owners[at] for at in self.view(owners.index(party)).peers)
        return tuple(name for name in owners if name != party)  # walks: everybody hears who acts next

    @cached_property
    def graph(self) -> Graph:
        """Who may talk to whom, where masked sums go up and down trees of the topology."""
        topology = self.task.topology
        refuse_averaging(topology)
        _ = topology.window  # an error if it is not connected
        return graph_of(topology.links.tolist(), topology.owners)

    def messages(self, owner: int) -> int:
        """How many messages the owner sends in the run, at most."""
        if isinstance(self.program.functions, Rounds) and self.program.plan.masked is None:
            return int(self.program.schedule)
        return self.program.plan.releases[owner]

    @cached_property
    def sums(self) -> SumTerms:
        """The public terms of masked sums."""
        plan, layout = self.program.plan, self.layout
        assert plan.masked is not None
        assert plan.lattice is not None
        limit = plan.lattice[0] * largest_sum(plan) * (1 + rounding_slack(plan, 0))
        return SumTerms(
            names=self.agreement.owners,
            rounds=int(self.program.schedule),
            spare=plan.masked.spare,
            quorum=plan.quorum,
            degree=plan.masked.degree,
            weights=plan.parts,
            limit=limit,
            count=sum(math.prod(shape) for _, shape in layout.leaves),
            agreement=self.bound,
        )


def collaboration(agreement: Agreement) -> Collaboration:
    """Build and check everything that the agreement implies."""
    experiment, table, sizes = agreement.experiment, agreement.table, tuple(agreement.sizes.values())
    mapped = feature_map(experiment, table, centred=True)
    problem = problem_of(experiment, table, mapped.apply(table.x).shape[1])._replace(careful=True)
    trained = trained_sizes(sizes, experiment.hold_out, agreement.unit.words)
    task = task_of(experiment, problem, mapped.norm_bound, agreement.owners, trained, agreement.unit)
    settings = typed(experiment.protocol, experiment.settings)
    held = tuple(held_of(size, experiment.hold_out) for size in sizes) if experiment.hold_out else None
    program = evaluating.built(experiment, table, task, settings, held)
    _refuse_plan(agreement, program.plan)
    planned = Collaboration(agreement, task, offering(program, problem), mapped)
    if not agreement.aggregator:
        _ = planned.graph  # an error where owners cannot each talk to their neighbours
    return planned


def _refuse_plan(agreement: Agreement, plan: ReleasePlan) -> None:
    """InputError for what a simulation can do, and real owners cannot."""
    if plan.masked is None and not agreement.aggregator:
        raise InputError(
            "aggregator=false: only masked sums can do without one, and this run of "
            f"{agreement.experiment.protocol} has none. Set view=masked, or leave it out."
        )
    if not plan.relation.sizes_are_public:
        raise InputError(
            f"relation={plan.relation!r}: an agreement states everybody's number of records, which only "
            f"{REPLACE_ONE} takes for public. Use relation={REPLACE_ONE}."
        )
    if plan.quorum and plan.lattice is None:
        raise InputError(
            f"view={plan.view!r}: rests on several owners' noise, and messages are real numbers, whose sum is "
            "rounded by what each of them sent: it tells more than a sum. Use view=masked, or view=untrusted."
        )
    if plan.shared is not None:
        raise InputError(
            "view='shared': real owners cannot draw the same noise to the last bit. Use view=masked, or view=untrusted."
        )
