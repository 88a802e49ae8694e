"""An owner's program on its own records: the only code of this engine that sees them.

The functions are those that `simulate` maps over all owners; here one owner runs them on what it has. Trees of
arrays go in and come out as numpy's, ready for the wire.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

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


_ATTEMPT = 2**20  # steps between a test's draws for two attempts at one round; others' are never the same


class _Static(NamedTuple):
    functions: Rounds | Visits
    sampler: Sampler


class _Fixed(NamedTuple):
    """Numbers of one owner that stay the same for the whole run."""

    owner: Array
    size: Array
    clip_norm: Array
    noise_scale: Array
    numbers: PyTree


class _Held(NamedTuple):
    """An owner's records on the device."""

    x: Array
    y: Array
    within: Array | None


class _OwnSide:
    """One owner's records and numbers on the device, and its randomness."""

    def __init__(self, program: Program, owner: int, records: OwnRecords, source: NoiseSource) -> None:
        self._static = _Static(program.functions, program.plan.sampler)
        self._params, self._source = program.params, source
        self._fixed, self._held = _fixed(program, owner), _held(program, owner, records)

    def start(self) -> PyTree:
        """The owner before its first release: in rounds its state, at visits its private one."""
        key = self._source.coin_key(0)
        with jax.threefry_partitionable(False):
            return _host(_start(self._static, self._params, _context(self._fixed, 0, 0, key)))


class RoundsSide(_OwnSide):
    """One owner of a protocol of rounds."""

    def __init__(self, program: Program, owner: int, records: OwnRecords, source: NoiseSource) -> None:
        super().__init__(program, owner, records, source)
        now = _context(self._fixed, 1, 0, source.coin_key(1))
        state = _shapes(_start, self._static, self._params, now)
        message, _ = _shapes(_emit_round, self._static, state, self._held, source.noise(1), now, now.key)
        self.layout = wire.foreign(message, program.bounds)
        self.private_layout = wire.layout(state.private)
        self.public_layout = wire.layout(state.public)

    def emit(self, state: State, step: int, turn: int, attempt: int = 0) -> tuple[PyTree, PyTree]:
        """The message of a round and the private state after it. Draws noise anew at every call.

        Guarantee: the message may leave only through an `Outlet`, which charges it first.
        """
        draw = step + attempt * _ATTEMPT
        noise, sampling = self._source.noise(draw), self._source.sampling_key(draw)
        with jax.threefry_partitionable(False):
            ctx = _context(self._fixed, step, turn, self._source.coin_key(draw))
            return _host(_emit_round(self._static, state, self._held, noise, ctx, sampling))

    def idle(self, public: PyTree, step: int) -> PyTree | None:
        """The message, made of public values, of an owner that releases nothing any more; None: it stays silent."""
        functions = self._static.functions
        assert isinstance(functions, Rounds)
        if functions.idle is None:
            return None
        return _host(_idle(self._static, public, _context(self._fixed, step, 0, _no_key())))

    def absorb(self, public: PyTree, own: PyTree, mixed: PyTree, step: int) -> PyTree:
        """The public state after a round."""
        return _host(
            _absorb(self._static, public, own, mixed, _context(self._fixed, step, step - 1, _no_key()))
        )

    def model(self, public: PyTree) -> PyTree:
        """The owner's model."""
        return _host(self._static.functions.model(public))


class VisitSide(_OwnSide):
    """One owner of a protocol of visits."""

    def __init__(self, program: Program, owner: int, records: OwnRecords, source: NoiseSource) -> None:
        super().__init__(program, owner, records, source)
        now = _context(self._fixed, 1, 0, source.coin_key(1))
        register = jax.eval_shape(partial(_open, self._static), self._params, program.numbers)
        query = jax.eval_shape(partial(_ask, self._static), register, now)
        private = _shapes(_start, self._static, self._params, now)
        message, _ = _shapes(
            _emit_visit, self._static, private, query, self._held, source.noise(1), now, now.key
        )
        self.layout, self.query_layout = wire.foreign(message, program.bounds), wire.foreign(query)
        self.model_layout = wire.foreign(jax.eval_shape(program.functions.model, register))
        self.private_layout = wire.layout(private)

    def emit(self, private: PyTree, query: PyTree, step: int, turn: int) -> tuple[PyTree, PyTree]:
        """The message of a visit and the private state after it. Draws noise anew at every call.

        Guarantee: the message may leave only through an `Outlet`, which charges it first.
        """
        noise, sampling = self._source.noise(step), self._source.sampling_key(step)
        with jax.threefry_partitionable(False):
            ctx = _context(self._fixed, step, turn, self._source.coin_key(step))
            return _host(_emit_visit(self._static, private, query, self._held, noise, ctx, sampling))


class RegisterSide:
    """The public side of a protocol of visits, run on messages alone by the party that holds the register."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self._static = _Static(program.functions, program.plan.sampler)
        self._params, self._numbers = program.params, program.numbers
        self._everyone = [_fixed(program, owner) for owner in range(len(program.plan.sizes))]
        opened = jax.eval_shape(partial(_open, self._static), self._params, self._numbers)
        self.layout = wire.foreign(opened)
        self.model_layout = wire.foreign(jax.eval_shape(program.functions.model, opened))

    def open(self) -> PyTree:
        """The register before the first visit."""
        return _host(_open(self._static, self._params, self._numbers))

    def ask(self, register: PyTree, owner: int, step: int, turn: int) -> PyTree:
        """The query that the visitor gets."""
        return _host(_ask(self._static, register, _context(self._everyone[owner], step, turn, _no_key())))

    def settle(self, register: PyTree, message: PyTree, owner: int, step: int, turn: int) -> PyTree:
        """The register after the visit."""
        now = _context(self._everyone[owner], step, turn, _no_key())
        return _host(_settle(self._static, register, message, now))

    def model(self, register: PyTree) -> PyTree:
        """The model in the register."""
        functions = self._static.functions
        return _host(functions.model(register))


class TableSide:
    """Makes one owner's table, before training or after it: the only code that computes it from records."""

    def __init__(
        self,
        tally: Callable[..., np.ndarray],
        records: tuple[Any, ...],
        noise: Callable[[], np.ndarray],
    ) -> None:
        """`tally`: (model, *records) -> whole numbers; `noise`: of the scale that the plan charges, drawn anew."""
        self._tally, self._records, self._noise = tally, records, noise

    def emit(self, model: PyTree) -> bytes:
        """The noisy table of a model. Guarantee: it may leave only through an `Outlet`, which charges it first."""
        return wire.pack(self._tally(jax.device_put(model), *self._records) + self._noise())


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
    static = _Static(program.functions, program.plan.sampler)
    now = _context(_fixed(program, 0), 1, 0, _no_key())
    held = _Held(x, y, within)  # type: ignore[arg-type]
    start = _shapes(_start, static, program.params, now)
    noise = program.plan.noise_like
    if isinstance(program.functions, Rounds):
        message, _ = _shapes(_emit_round, static, start, held, noise, now, now.key)
    else:
        register = jax.eval_shape(partial(_open, static), program.params, program.numbers)
        query = jax.eval_shape(partial(_ask, static), register, now)
        message, _ = _shapes(_emit_visit, static, start, query, held, noise, now, now.key)
    return wire.foreign(message, program.bounds)


def _shapes(function: Callable[..., PyTree], static: _Static, *arguments: PyTree) -> PyTree:
    """The shapes that an owner's function returns, traced in the setting of its runs, so that it is traced once."""
    with jax.threefry_partitionable(False):
        return jax.eval_shape(partial(function, static), *arguments)


def _fixed(program: Program, owner: int) -> _Fixed:
    as_it_is = jax.device_put  # jax.numpy would compile a program for each of these
    return _Fixed(
        owner=as_it_is(np.int32(owner)),
        size=as_it_is(np.float32(program.plan.sizes[owner])),
        clip_norm=as_it_is(program.plan.clip_norms[owner]),
        noise_scale=as_it_is(program.plan.noise_scale[owner]),
        numbers=jax.tree.map(lambda leaf: as_it_is(np.asarray(leaf)[owner]), program.numbers),
    )


def _held(program: Program, owner: int, records: OwnRecords) -> _Held:
    size = program.plan.sizes[owner]
    if len(records.x) != size or len(records.y) != size:
        brought = counted(len(records.x), program.plan.unit.words)
        raise InputError(f"data: {brought}, the agreement says {size}. Bring exactly that many.")
    return _Held(*jax.device_put((records.x, records.y, records.within)))


def _context(fixed: _Fixed, step: int, turn: int, key: np.ndarray) -> Context:
    """`key` as words, which `_keyed` makes a key of."""
    # numpy's scalars: an array would be a transfer to the device in every round
    return Context(fixed.owner, np.int32(step), np.int32(turn), *fixed[1:], key)  # type: ignore[arg-type]


def _no_key() -> np.ndarray:
    """Public functions flip no coins."""
    return np.zeros(2, np.uint32)


def _key(words: Array) -> Array:
    return jax.random.wrap_key_data(words, impl="threefry2x32")


def _keyed(ctx: Context) -> Context:
    """The context with its key made inside the compiled program: outside, that takes as long as a small step."""
    return ctx._replace(key=_key(ctx.key))


def _batch(sampler: Sampler, held: _Held, turn: Array, key: Array) -> Batch:
    rows = held.x.shape[0]
    sample = sampler.draw(key, rows, jnp.int32(rows), turn)
    if sample is None:
        return Batch(held.x, held.y, jnp.ones(rows, jnp.float32), held.within)
    x, y, within = jax.tree.map(lambda leaf: leaf[sample.positions], held)
    return Batch(x, y, sample.mask, within)


@partial(jax.jit, static_argnums=0)
def _start(static: _Static, params: PyTree, ctx: Context) -> PyTree:
    return static.functions.init(params, _keyed(ctx))


@partial(jax.jit, static_argnums=0)
def _emit_round(
    static: _Static, state: State, held: _Held, noise: PyTree, ctx: Context, sampling: Array
) -> tuple[PyTree, PyTree]:
    assert isinstance(static.functions, Rounds)
    batch = _batch(static.sampler, held, ctx.turn, _key(sampling))
    return static.functions.emit(state, batch, noise, _keyed(ctx))


@partial(jax.jit, static_argnums=0)
def _absorb(static: _Static, public: PyTree, own: PyTree, mixed: PyTree, ctx: Context) -> PyTree:
    assert isinstance(static.functions, Rounds)
    return static.functions.absorb(public, own, mixed, _keyed(ctx))[0]


@partial(jax.jit, static_argnums=0)
def _idle(static: _Static, public: PyTree, ctx: Context) -> PyTree:
    assert isinstance(static.functions, Rounds)
    assert static.functions.idle is not None
    return static.functions.idle(public, _keyed(ctx))


@partial(jax.jit, static_argnums=0)
def _open(static: _Static, params: PyTree, numbers: PyTree) -> PyTree:
    assert isinstance(static.functions, Visits)
    return static.functions.open(params, numbers)


@partial(jax.jit, static_argnums=0)
def _ask(static: _Static, register: PyTree, ctx: Context) -> PyTree:
    assert isinstance(static.functions, Visits)
    return static.functions.ask(register, _keyed(ctx))


@partial(jax.jit, static_argnums=0)
def _emit_visit(
    static: _Static,
    private: PyTree,
    query: PyTree,
    held: _Held,
    noise: PyTree,
    ctx: Context,
    sampling: Array,
) -> tuple[PyTree, PyTree]:
    assert isinstance(static.functions, Visits)
    batch = _batch(static.sampler, held, ctx.turn, _key(sampling))
    return static.functions.emit(private, query, batch, noise, _keyed(ctx))


@partial(jax.jit, static_argnums=0)
def _settle(static: _Static, register: PyTree, message: PyTree, ctx: Context) -> PyTree:
    assert isinstance(static.functions, Visits)
    return static.functions.settle(register, message, _keyed(ctx))[0]


def _host(tree: PyTree) -> PyTree:
    return jax.tree.map(np.asarray, tree)
