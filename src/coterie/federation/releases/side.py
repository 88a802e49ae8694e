"""An owner's program on its own records: the only code of this engine that sees them.

The functions are those that `simulate` maps over all owners; here one owner runs them on what it has. Trees of
arrays go in and come out as numpy's, ready for the wire.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import Array, PyTree
from coterie.errors import InputError
from coterie.evaluation.sheet import UNIT
from coterie.federation.releases.randomness import NoiseSource
from coterie.federation.transport import wire
from coterie.mechanisms import Sampler
from coterie.mechanisms.plan import TableNoise
from coterie.mechanisms.sampling import Draw, Drawing
from coterie.problems.holdings import laid_out
from coterie.program import Batch, Context, Program, Rounds, State, Visits, Within
from coterie.units import counted

_FAR = 64.0  # standard deviations of noise that no draw ever reaches


class OwnRecords(NamedTuple):
    """One owner's records, as the program's problem takes them. They never leave this process."""

    x: np.ndarray  # (rows, ...), or of units (units, places, ...)
    y: np.ndarray  # (rows,), or (units, places)
    within: np.ndarray | None = None  # (units,) how many places hold a record; None: rows are records

    @property
    def laid_out(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """One record a row, and which unit each is of."""
        return (self.x, self.y, None) if self.within is None else laid_out(self.x, self.y, self.within)


class Judged(NamedTuple):
    """The records that a model is evaluated on. They never leave this process, either."""

    x: np.ndarray  # (rows, ...)
    y: np.ndarray  # (rows,)
    codes: np.ndarray | None  # (rows,) which group each is in, where there are groups
    unit: np.ndarray | None = None  # (rows,) which unit each is of, where several may be of one


_ATTEMPT = 2**20  # steps between a test's draws for two attempts at one round; others' are never the same


class _Static(NamedTuple):
    emit: Callable[..., tuple[PyTree, PyTree]]
    sampler: Sampler


def _static(program: Program) -> _Static:
    return _Static(program.functions.emit, program.plan.sampler)


class _OwnSide:
    """One owner's records and numbers on the device, and its randomness."""

    def __init__(self, program: Program, owner: int, records: OwnRecords, source: NoiseSource) -> None:
        self._static, self._source = _static(program), source
        self._init, self._params = program.functions.init, program.params
        self._context, self._held = _context(program, owner), _held(program, owner, records)
        self._shapes = _shapes(program, self._held, *self._drawn(1), _at(self._context, 1, 0))
        self.layout = wire.foreign(self._shapes.message, program.bounds)

    def _drawn(self, step: int) -> tuple[PyTree, Draw | None]:
        """Noise and sample of a release, drawn anew at every call."""
        sample = self._source.sample(self._static.sampler, self._held.x.shape[0], step)
        return self._source.noise(step), sample

    def start(self) -> PyTree:
        """The owner before its first release: in rounds its state, at visits its private one."""
        with jax.threefry_partitionable(False):
            ctx = self._context._replace(key=self._source.coin_key(0))
            return _host(_made(self._init, ctx, self._params))

    def _emitted(
        self, before: tuple[PyTree, ...], step: int, turn: int, attempt: int = 0
    ) -> tuple[PyTree, PyTree]:
        draw = step + attempt * _ATTEMPT
        noise, sample = self._drawn(draw)
        with jax.threefry_partitionable(False):
            ctx = _at(self._context, step, turn)._replace(key=self._source.coin_key(draw))
            return _host(_said(self._static, before, self._held, noise, ctx, sample))


class RoundsSide(_OwnSide):
    """One owner of a protocol of rounds."""

    def __init__(self, program: Program, owner: int, records: OwnRecords, source: NoiseSource) -> None:
        assert isinstance(program.functions, Rounds)
        super().__init__(program, owner, records, source)
        self._functions = program.functions
        self.private_layout = wire.layout(self._shapes.start.private)
        self.public_layout = wire.layout(self._shapes.start.public)

    def emit(self, state: State, step: int, turn: int, attempt: int = 0) -> tuple[PyTree, PyTree]:
        """The message of a round and the private state after it. Draws noise anew at every call.

        Guarantee: the message may leave only through an `Outlet`, which charges it first.
        """
        return self._emitted((state,), step, turn, attempt)

    def idle(self, public: PyTree, step: int) -> PyTree | None:
        """The message, made of public values, of an owner that releases nothing any more; None: it stays silent."""
        if self._functions.idle is None:
            return None
        return _host(_made(self._functions.idle, _at(self._context, step, 0), public))

    def absorb(self, public: PyTree, own: PyTree, mixed: PyTree, step: int) -> PyTree:
        """The public state after a round."""
        now = _at(self._context, step, step - 1)
        return _host(_updated(self._functions.absorb, now, public, own, mixed))

    def model(self, public: PyTree) -> PyTree:
        """The owner's model."""
        return _host(self._functions.model(public))


class VisitSide(_OwnSide):
    """One owner of a protocol of visits."""

    def __init__(self, program: Program, owner: int, records: OwnRecords, source: NoiseSource) -> None:
        super().__init__(program, owner, records, source)
        self.query_layout = wire.foreign(self._shapes.query)
        self.model_layout = wire.foreign(jax.eval_shape(program.functions.model, self._shapes.register))
        self.private_layout = wire.layout(self._shapes.start)

    def emit(self, private: PyTree, query: PyTree, step: int, turn: int) -> tuple[PyTree, PyTree]:
        """The message of a visit and the private state after it. Draws noise anew at every call.

        Guarantee: the message may leave only through an `Outlet`, which charges it first.
        """
        return self._emitted((private, query), step, turn)


class RegisterSide:
    """The public side of a protocol of visits, run on messages alone by the party that holds the register."""

    def __init__(self, program: Program) -> None:
        assert isinstance(program.functions, Visits)
        self.program, self._functions = program, program.functions
        self.schedule: list[int] = np.asarray(program.schedule).tolist()
        self._everyone = [_context(program, owner) for owner in range(len(program.plan.sizes))]
        opened = _opened(program)
        self.layout = wire.foreign(opened)
        self.model_layout = wire.foreign(jax.eval_shape(program.functions.model, opened))

    def open(self) -> PyTree:
        """The register before the first visit."""
        return _host(jax.jit(self._functions.open)(self.program.params, self.program.numbers))

    def ask(self, register: PyTree, owner: int, step: int, turn: int) -> PyTree:
        """The query that the visitor gets."""
        return _host(_made(self._functions.ask, _at(self._everyone[owner], step, turn), register))

    def settle(self, register: PyTree, message: PyTree, owner: int, step: int, turn: int) -> PyTree:
        """The register after the visit."""
        now = _at(self._everyone[owner], step, turn)
        return _host(_updated(self._functions.settle, now, register, message))

    def settled(self, register: PyTree, message: PyTree, owner: int, step: int, turn: int) -> bytes:
        """The same as bytes; Refused where nobody would accept it, as it is not finite."""
        body = wire.pack(self.settle(register, message, owner, step, turn))
        wire.unpack(body, self.layout)
        return body

    def model(self, register: PyTree) -> PyTree:
        """The model in the register."""
        return _host(self._functions.model(register))


def noisy_table(
    tally: Callable[..., np.ndarray],
    records: tuple[np.ndarray | None, ...],
    noise: Callable[[], np.ndarray],
    model: PyTree,
) -> bytes:
    """An owner's table, before training or after it: the only code that computes it from records.

    `tally`: (model, *records) -> whole numbers; `noise`: of the scale that the plan charges, drawn anew.
    Guarantee: what is returned may leave only through an `Outlet`, which charges it first.
    """
    return wire.pack(tally(jax.device_put(model), *records) + noise())


def table_layout(table: TableNoise) -> wire.Layout:
    """A table's layout on the wire: whole numbers, bounded by the sum of an owner's records and some noise."""
    each = max(UNIT, table.reach)
    far = max(each * size + _FAR * table.scale(owner) for owner, size in enumerate(table.sizes))
    plain = wire.layout(np.zeros(table.width, np.int64))
    return plain._replace(bounds=(Within(-far, far),))


def message_layout(
    program: Program,
    x: jax.ShapeDtypeStruct,
    y: jax.ShapeDtypeStruct,
    within: jax.ShapeDtypeStruct | None = None,
) -> wire.Layout:
    """The layout of an owner's message, for parties without records. `x`, `y`: shapes of a few, as in `OwnRecords`."""
    held, now = OwnRecords(x, y, within), _at(_context(program, 0), 1, 0)  # type: ignore[arg-type]
    noise, sample = program.plan.noise_like, _sample_like(program.plan.sampler, x.shape[0])
    return wire.foreign(_shapes(program, held, noise, sample, now).message, program.bounds)


class _Shapes(NamedTuple):
    """Of what an owner's functions return."""

    start: PyTree
    register: PyTree  # at visits
    query: PyTree
    message: PyTree


def _shapes(program: Program, held: OwnRecords, noise: PyTree, sample: Draw | None, now: Context) -> _Shapes:
    """Traced in the setting of a run's own calls, so that everything is traced once."""
    functions, register, query = program.functions, None, None
    with jax.threefry_partitionable(False):
        start = jax.eval_shape(partial(_made, functions.init), now, program.params)
        before: tuple[PyTree, ...] = (start,)
        if isinstance(functions, Visits):
            register = _opened(program)
            query = jax.eval_shape(partial(_made, functions.ask), now, register)
            before = (start, query)
        message, _ = jax.eval_shape(partial(_said, _static(program)), before, held, noise, now, sample)
    return _Shapes(start, register, query, message)


def _opened(program: Program) -> PyTree:
    """The register's shapes."""
    assert isinstance(program.functions, Visits)
    return jax.eval_shape(program.functions.open, program.params, program.numbers)


def _context(program: Program, owner: int) -> Context:
    """What stays the same for the whole run, and no key: public functions flip no coins."""
    as_it_is = jax.device_put  # jax.numpy would compile a program for each of these
    return Context(
        owner=as_it_is(np.int32(owner)),
        step=np.int32(0),  # type: ignore[arg-type]
        turn=np.int32(0),  # type: ignore[arg-type]
        size=as_it_is(np.float32(program.plan.sizes[owner])),
        clip_norm=as_it_is(program.plan.clip_norms[owner]),
        noise_scale=as_it_is(program.plan.noise_scale[owner]),
        numbers=jax.tree.map(lambda leaf: as_it_is(np.asarray(leaf)[owner]), program.numbers),
        key=np.zeros(2, np.uint32),  # type: ignore[arg-type]
    )


def _held(program: Program, owner: int, records: OwnRecords) -> OwnRecords:
    """The records on the device."""
    size = program.plan.sizes[owner]
    if len(records.x) != size or len(records.y) != size:
        brought = counted(len(records.x), program.plan.unit.words)
        raise InputError(f"data: {brought}, the agreement says {size}. Bring exactly that many.")
    return jax.device_put(records)


def _at(context: Context, step: int, turn: int) -> Context:
    # numpy's scalars: an array would be a transfer to the device in every round
    return context._replace(step=np.int32(step), turn=np.int32(turn))  # type: ignore[arg-type]


def _key(words: Array) -> Array:
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def _keyed(ctx: Context) -> Context:
    """The context with its key made inside the compiled program: outside, that takes as long as a small step."""
    return ctx._replace(key=_key(ctx.key))


def _sample_like(sampler: Sampler, rows: int) -> Draw | None:
    """Shapes of the sample that an owner of so many rows hands over."""
    if not isinstance(sampler, Drawing):
        return None
    return jax.eval_shape(lambda: sampler.draw(jax.random.key(0), rows, jnp.int32(rows), jnp.int32(0)))


def _batch(sampler: Sampler, held: PyTree, turn: Array, sample: Draw | None) -> Batch:
    """The records of a release: those of the sample or, where nothing is left to chance, those whose turn it is."""
    x, y, within = held
    rows = x.shape[0]
    assert (sample is not None) == isinstance(sampler, Drawing)
    if sample is None:
        sample = sampler.draw(jax.random.key(0), rows, jnp.int32(rows), turn)  # draws nothing
    if sample is None:
        return Batch(x, y, jnp.ones(rows, jnp.float32), within)
    x, y, within = jax.tree.map(lambda leaf: leaf[sample.positions], (x, y, within))
    return Batch(x, y, sample.mask, within)


@partial(jax.jit, static_argnums=0)
def _said(
    static: _Static,
    before: tuple[PyTree, ...],
    held: OwnRecords,
    noise: PyTree,
    ctx: Context,
    sample: Draw | None,
) -> tuple[PyTree, PyTree]:
    """Message and private state; `before`: what `emit` takes ahead of the records."""
    batch = _batch(static.sampler, held, ctx.turn, sample)
    return static.emit(*before, batch, noise, _keyed(ctx))


@partial(jax.jit, static_argnums=0)
def _made(function: Callable[..., PyTree], ctx: Context, *public: PyTree) -> PyTree:
    """What one of the program's functions makes of public values."""
    return function(*public, _keyed(ctx))


@partial(jax.jit, static_argnums=0)
def _updated(function: Callable[..., tuple[PyTree, PyTree]], ctx: Context, *public: PyTree) -> PyTree:
    """The state that `absorb` or `settle` makes, without what they report of it."""
    return function(*public, _keyed(ctx))[0]


def _host(tree: PyTree) -> PyTree:
    return jax.tree.map(np.asarray, tree)
