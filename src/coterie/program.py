"""The contract: one owner's side of a protocol, written once as pure functions, run by any engine.

Two shapes cover all protocols. **Rounds**: every owner emits, messages are mixed over the topology, every
owner absorbs. **Visits**: one owner at a time meets a public register, emits, and the register settles.

Rules that the signatures enforce:

* Only `emit` receives private records and private state, and only its message leaves the owner.
* `absorb`, `settle`, `model` and every `Info` see messages and public state alone: post-processing.
* `emit` is handed its unit noise and never draws privacy noise itself. It clips records to `ctx.clip_norm` and scales
  the noise by `ctx.noise_scale`; engines fill both from the program's `ReleasePlan`, as they do the event that is
  charged. A program has no clip norm of its own.
* The functions are static under `jit` and hold no numbers that depend on a seed or a budget: those travel
  in `Context`. So a new seed, epsilon or data set of the same shape never compiles again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np

from coterie._types import Array, PyTree

if TYPE_CHECKING:
    from coterie.accounting.statements import Claim
    from coterie.mechanisms.plan import ReleasePlan


class Shards(NamedTuple):
    """Owners' private records in one array, padded to the largest of them.

    x: (owners, rows, ...) features; y: (owners, rows) targets; counts: (owners,) int32, how many rows are real.

    Where whoever has several records is protected as one (`coterie.units`), a row is a unit: x (owners, units, k, ...),
    y (owners, units, k), `counts` says how many units are real and `within` how many of a unit's k places hold a
    record, the first ones. So whatever draws, masks or counts rows does it to units, and knows nothing of them.
    """

    x: Array
    y: Array
    counts: Array
    # (owners, units) int32, as private as the records; None: every row is a record.
    within: Array | None = None

    def of(self, owner: int) -> tuple[np.ndarray, np.ndarray]:
        """One owner's features and targets, without padding."""
        x, y, *_ = self.rows(owner)
        return x, y

    def rows(self, owner: int) -> tuple[np.ndarray, ...]:
        """One owner's features and targets, without padding; of units also how many records each has."""
        count = int(self.counts[owner])
        held = (self.x, self.y) if self.within is None else (self.x, self.y, self.within)
        return tuple(np.asarray(part[owner, :count]) for part in held)

    def __repr__(self) -> str:
        return f"<Shards: records of shape {np.shape(self.x)}, private>"


class Groups(NamedTuple):
    """Private records of owners whose sizes differ much: those of like size share an array, so little is padding."""

    shards: tuple[Shards, ...]
    owners: tuple[Array, ...]  # (owners there,) int32 for each of the shards: whose records they are
    place: Array  # (owners,) int32, where an owner is when the shards are laid one after the other

    def of(self, owner: int) -> tuple[np.ndarray, np.ndarray]:
        """One owner's features and targets, without padding."""
        x, y, *_ = self.rows(owner)
        return x, y

    def rows(self, owner: int) -> tuple[np.ndarray, ...]:
        """One owner's features and targets, without padding; of units also how many records each has."""
        at = int(self.place[owner])
        for shard in self.shards:
            if at < len(shard.counts):
                return shard.rows(at)
            at -= len(shard.counts)
        raise IndexError(owner)

    def __repr__(self) -> str:
        return f"<Groups: {', '.join(map(repr, self.shards))}>"


Holdings: TypeAlias = Shards | Groups  # everyone's private records; only engines hold them


class Batch(NamedTuple):
    """The records of one owner that enter one release. mask: (rows,) 1.0 for a record, 0.0 for padding.

    Of units, as in `Shards`: x (units, k, ...), y (units, k), mask (units,).
    """

    x: Array
    y: Array
    mask: Array
    within: Array | None = None  # (units,) int32, how many of a unit's places hold a record


class Context(NamedTuple):
    """What a program may know beside its state. Everything here is public but the key."""

    owner: Array  # () int32
    step: Array  # () int32, the round or tick, from 1
    turn: Array  # () int32, how many releases this owner has made before this one
    size: Array  # () float32, the owner's public number of records (public under replace-one adjacency)
    clip_norm: Array  # () float32, the plan's bound on one record's contribution to the released sum
    noise_scale: Array  # () float32, what unit noise is multiplied with on the released sum
    numbers: PyTree  # the protocol's own numeric settings for this owner: its row of Program.numbers
    key: Array  # coin flips that are not privacy noise (exploration, for instance)


class State(NamedTuple):
    """An owner between two rounds. `public` is a function of messages alone; `private` never leaves `emit`."""

    public: PyTree
    private: PyTree


class Rounds(NamedTuple):
    """All owners speak in every round."""

    init: Callable[[PyTree, Context], State]  # (params, ctx)
    emit: Callable[[State, Batch, PyTree, Context], tuple[PyTree, PyTree]]  # -> message, private
    absorb: Callable[[PyTree, PyTree, PyTree, Context], tuple[PyTree, PyTree]]
    # (public, own message, mixed messages, ctx) -> public, info
    model: Callable[[PyTree], PyTree]  # (public) -> params
    idle: Callable[[PyTree, Context], PyTree] | None = None
    # (public, ctx) -> message of an owner that has made all its releases, from public values alone; None: it sends none
    latest: Callable[[PyTree], PyTree] | None = None
    # (public) -> the last iterate, where the model is a mean of many

    def begin(self, params: PyTree, numbers: PyTree, ctx: Context) -> tuple[PyTree, PyTree]:
        """What is public before an owner's first step, and what it keeps to itself."""
        del numbers
        return self.init(params, ctx)

    def shown(self, public: PyTree, ctx: Context) -> PyTree:
        """What `say` reads of what is public."""
        del ctx
        return public

    def say(
        self, private: PyTree, shown: PyTree, batch: Batch, noise: PyTree, ctx: Context
    ) -> tuple[PyTree, PyTree]:
        """`emit`, with the same arguments in either shape."""
        return self.emit(State(shown, private), batch, noise, ctx)

    def heard(self, public: PyTree, message: PyTree, ctx: Context) -> PyTree:
        """What is public after everybody said the same, which mixing leaves as it is."""
        return self.absorb(public, message, message, ctx)[0]


class Visits(NamedTuple):
    """One owner at a time meets the register (a walking model, or a learner's state)."""

    open: Callable[[PyTree, PyTree], PyTree]  # (params, numbers) -> register; called once, before any visit
    init: Callable[[PyTree, Context], PyTree]  # (params, ctx) -> the owner's private state
    ask: Callable[[PyTree, Context], PyTree]  # (register, ctx) -> what the visitor is shown
    emit: Callable[[PyTree, PyTree, Batch, PyTree, Context], tuple[PyTree, PyTree]]
    # (private, query, batch, noise, ctx) -> message, private
    settle: Callable[[PyTree, PyTree, Context], tuple[PyTree, PyTree]]
    # (register, message, ctx) -> register, info
    model: Callable[[PyTree], PyTree]  # (register) -> params
    condense: Callable[[Batch, Context], PyTree] | None = None
    # (all records, ctx) -> what an engine may hand to emit in place of a full batch, computed once: private as they are
    latest: Callable[[PyTree], PyTree] | None = None  # (register) -> the last iterate, as in Rounds

    def begin(self, params: PyTree, numbers: PyTree, ctx: Context) -> tuple[PyTree, PyTree]:
        """As in Rounds; what is public is the register."""
        return self.open(params, numbers), self.init(params, ctx)

    def shown(self, public: PyTree, ctx: Context) -> PyTree:
        """As in Rounds."""
        return self.ask(public, ctx)

    def say(
        self, private: PyTree, shown: PyTree, batch: Batch, noise: PyTree, ctx: Context
    ) -> tuple[PyTree, PyTree]:
        """As in Rounds."""
        return self.emit(private, shown, batch, noise, ctx)

    def heard(self, public: PyTree, message: PyTree, ctx: Context) -> PyTree:
        """As in Rounds."""
        return self.settle(public, message, ctx)[0]


@dataclass(frozen=True)
class Within:
    """What every number of an array may be, the ends included."""

    low: float
    high: float


ANYTHING = Within(-np.inf, np.inf)


HUBS = ("shared model", "aggregator")


class Program(NamedTuple):
    """A protocol ready to run: functions, and the plan that says what they release. Neither has a default."""

    functions: Rounds | Visits
    plan: ReleasePlan
    numbers: PyTree  # (owners, ...) arrays, traced: no number that depends on a seed or budget is compiled in
    params: PyTree  # the starting point, public
    schedule: int | np.ndarray  # Rounds: how many; Visits: which owner at each tick, public
    claim: Claim  # what the paper's theorem says of these settings
    aggregate: np.ndarray | None = None  # (owners,) weights of one sum that replaces the topology
    # Visits: the register stays with a learner whom owners visit; else it walks among them.
    learner: bool = False
    debiased: bool = False  # Rounds: messages carry their own weight, so that a share may arrive late
    bounds: PyTree = None
    # What a message can hold where everyone follows the protocol: a tree of `Within`, a message's or a prefix of it.
    # Real owners take nothing else from others; whatever `absorb` or `settle` divides by belongs in it.

    @property
    def steps(self) -> int:
        """How many rounds, or visits."""
        return self.schedule if isinstance(self.schedule, int) else len(self.schedule)

    @property
    def step(self) -> str:
        """What one step is called."""
        return "round" if isinstance(self.functions, Rounds) else "visit"

    @property
    def hub(self) -> str | None:
        """Where all owners meet, in a topology's place; None: neighbours talk to each other."""
        if not isinstance(self.functions, Rounds):
            return HUBS[0]
        return None if self.aggregate is None else HUBS[1]

    def __repr__(self) -> str:
        return f"<Program of {self.steps} {type(self.functions).__name__.lower()}, {self.plan!r}>"


class Trace(NamedTuple):
    """What a run leaves behind. Everything in it is a function of messages; what a probe adds is the caller's."""

    step: np.ndarray  # (points,) the round or tick after which the probe looked
    probes: PyTree  # (points, ...) what the probe returned
    model: PyTree  # (owners, ...) after the last round of Rounds, (1, ...) after the last visit of Visits
    info: PyTree  # (steps, ...) what absorb or settle reported
    messages: PyTree | None  # (steps, [owners,] ...) the transcript, when it was asked for
    turns: np.ndarray  # (owners,) how many releases each owner really made

    def __repr__(self) -> str:
        return f"<Trace of {len(self.turns)} owners, looked at after {len(self.step)} steps>"
