"""What travels between parties: typed, versioned, bounded in size, and checked before anything is computed.

A frame is one msgpack array: [version, kind, agreement, step, sub, body]. `agreement` is the start of the run's
agreement hash, so that a frame of another run is refused at once; `body` is the leaves of a tree of arrays, one
after the other in little-endian bytes, whose types and shapes both ends know from the program. No frame can carry
code, and none says who sent it: that is the transport's word, which knows the sender's certificate.
"""

from __future__ import annotations

import math
from enum import IntEnum
from functools import lru_cache
from typing import Any, NamedTuple, cast

import jax
import msgpack
import numpy as np

from coterie._types import PyTree
from coterie.program import ANYTHING, Within

# 1 had real numbers for a trusted aggregator, where there are whole ones of a lattice now: bytes of equal length.
VERSION = 2
TAG = 8  # bytes of the agreement's hash in each frame
OVERHEAD = 64  # the most bytes that a frame has beside its body
_MODEST = 1e-3  # times the root of the largest number, so that sums of squares stay finite
_LAST = 2**53  # steps: whole numbers up to here are exact in every language


class Kind(IntEnum):
    """What a frame is."""

    HELLO = 0  # the first frame on every connection; body: the agreement's hash; `step`: the sender's clock
    VALUE = 1  # rounds: the sender's value of gossip step `sub` of round `step`; sub 0 is its release
    WANT = 2  # rounds: please send your VALUE (or SUM) of this step and sub
    SUM = 3  # aggregate: the weighted sum of the releases of round `step`; learner: the model, after the last tick
    ANNOUNCE = 4  # walk: the sender holds the register after `step`, in epoch `sub`
    HANDOVER = 5  # walk: the register after `step`, in epoch `sub`
    ACK = 6  # walk: HANDOVER of (step, epoch) is on my disk
    PREPARE = 7  # walk: promise to follow epoch `sub`, which resumes after `step` or later
    PROMISE = 8  # walk: promised; the highest step whose register I hold is `step`
    AWAKE = 9  # learner: my clock ticked for the `step`-th time
    QUERY = 10  # learner: at tick `step`, for your turn `sub`: body is what you are shown
    ANSWER = 11  # learner: the release for tick `step`, turn `sub`
    SETTLED = 12  # learner: the answer of turn `sub` is on the learner's disk
    REFUSAL = 13  # what was asked is not to be had; body: the reason in a few words
    BYE = 14  # the sender has finished or leaves; body: why
    JOIN = 15  # which process speaks under a name: asking to be heard, and who is there (`witness`)
    WITNESS = 16  # the last release of yours here: `step`, attempt `sub`; body: for and from whom, the mark
    RELEASED = 17  # the sender's release of `step`, attempt `sub`, is in its ledger; body: the mark
    TABLE = 18  # the table of owner `sub`, released at `step`; an empty body: it has none
    HAVE = 19  # which owners' tables the sender has, as bits; it lacks the others. `sub` 1 or 2: `centring`
    ROLL = 20  # masked sums: who is asked for a message by the ticket `step` (`masked_hub`); body: the roll


class Message(NamedTuple):
    """One frame's content."""

    kind: Kind
    step: int = 0
    sub: int = 0
    body: bytes = b""


class Refused(Exception):
    """A frame, or what it carries, is not acceptable: it is dropped and counted, and nothing else happens."""


def encode(message: Message, agreement: bytes) -> bytes:
    """The frame of a message."""
    fields = [VERSION, int(message.kind), agreement[:TAG], message.step, message.sub, message.body]
    return cast("bytes", msgpack.packb(fields))


def decode(frame: bytes, agreement: bytes, longest: int) -> Message:
    """Read a frame of at most `longest` bytes; Refused, with the reason, unless it is well-formed and of this run."""
    if len(frame) > longest:
        raise Refused(f"oversized: {len(frame)} bytes, at most {longest}")
    try:
        fields = msgpack.unpackb(frame, max_bin_len=longest, max_array_len=6, max_str_len=0, max_map_len=0)
    except (ValueError, msgpack.UnpackException) as error:
        raise Refused("malformed") from error
    if not (isinstance(fields, list) and len(fields) == 6):
        raise Refused("malformed")
    version, kind, tag, step, sub, body = fields
    if version != VERSION:
        raise Refused(f"version {version!r:.20}, this is {VERSION}")
    if not (_whole(kind) and kind < len(Kind) and _whole(step) and _whole(sub)):
        raise Refused("malformed")
    if tag != agreement[:TAG]:
        raise another(tag if isinstance(tag, bytes) else b"", agreement[:TAG])
    if not isinstance(body, bytes):
        raise Refused("malformed")
    return Message(Kind(kind), step, sub, body)


def another(theirs: bytes, ours: bytes) -> Refused:
    """The refusal of a sender that follows another agreement, with the beginnings of both hashes."""
    return Refused(f"another agreement: its hash is {theirs[:32].hex() or 'none'}, this node's {ours.hex()}")


def _whole(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LAST


class Layout(NamedTuple):
    """Types and shapes of a tree's leaves, which both ends know from the program; a body must fit them."""

    tree: Any  # jax.tree_util.PyTreeDef
    leaves: tuple[tuple[str, tuple[int, ...]], ...]  # numpy's name of the type, the shape
    bounds: tuple[Within, ...] = ()  # of each leaf, where others send it; empty: any finite number

    @property
    def size(self) -> int:
        """Bytes of a body."""
        return _places(self.leaves)[1]


class _Place(NamedTuple):
    """Where a leaf is in a body."""

    start: int
    numbers: int
    shape: tuple[int, ...]
    little: np.dtype
    native: np.dtype


@lru_cache(maxsize=64)
def _places(leaves: tuple[tuple[str, tuple[int, ...]], ...]) -> tuple[tuple[_Place, ...], int]:
    """Each leaf's place in a body, and the body's length; cached, as every frame needs it."""
    places, start = [], 0
    for kind, shape in leaves:
        native, count = np.dtype(kind), math.prod(shape)
        places.append(_Place(start, count, shape, native.newbyteorder("<"), native))
        start += native.itemsize * count
    return tuple(places), start


def layout(tree: PyTree) -> Layout:
    """The layout of a tree of arrays, or of their `jax.ShapeDtypeStruct`s."""
    leaves, structure = jax.tree.flatten(tree)
    return Layout(structure, tuple((str(np.dtype(leaf.dtype)), tuple(leaf.shape)) for leaf in leaves))


def foreign(tree: PyTree, bounds: PyTree = None) -> Layout:
    """The layout of others' messages: limited numbers, and within `bounds` (`Program.bounds`) where there are any."""
    plain = layout(tree)
    given = [ANYTHING] * len(plain.leaves)
    if bounds is not None:
        spread = jax.tree.map(lambda within, part: jax.tree.map(lambda _: within, part), bounds, tree)
        given = jax.tree.leaves(spread)
    return plain._replace(
        bounds=tuple(
            Within(max(bound.low, -_limit(kind)), min(bound.high, _limit(kind)))
            for bound, (kind, _) in zip(given, plain.leaves, strict=True)
        )
    )


def _limit(kind: str) -> float:
    dtype = np.dtype(kind)
    return _MODEST * math.sqrt(float(np.finfo(dtype).max)) if dtype.kind == "f" else np.inf


@lru_cache(maxsize=16)
def ends(like: Layout) -> tuple[np.ndarray, np.ndarray]:
    """The least and the largest that each number of a body may be, the leaves one after the other."""
    bounds = like.bounds or (ANYTHING,) * len(like.leaves)
    low, high = (
        [np.full(math.prod(shape), end, kind) for end, (kind, shape) in zip(limits, like.leaves, strict=True)]
        for limits in ([bound.low for bound in bounds], [bound.high for bound in bounds])
    )
    return np.concatenate(low), np.concatenate(high)


def fitted(tree: PyTree, like: Layout) -> tuple[bytes, bool]:
    """An own message as a body within others' limits, and whether it was unchanged; NaN becomes zero.

    This is post-processing after the noise, so it costs nothing. Withholding the message instead would tell something
    about the records that was not charged.
    """
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    bounds = like.bounds or (ANYTHING,) * len(leaves)
    cleaned = [_fit(leaf, within) for leaf, within in zip(leaves, bounds, strict=True)]
    same = all(np.array_equal(new, old) for new, old in zip(cleaned, leaves, strict=True))
    return pack(cleaned), same


def _fit(leaf: np.ndarray, within: Within) -> np.ndarray:
    if leaf.dtype.kind != "f":
        return leaf
    most = float(np.finfo(leaf.dtype).max)
    low, high = max(within.low, -most), min(within.high, most)
    return np.clip(np.nan_to_num(leaf, posinf=high, neginf=low), low, high).astype(leaf.dtype)


def pack(tree: PyTree) -> bytes:
    """A tree's leaves as one body."""
    leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(tree)]
    return b"".join(np.ascontiguousarray(leaf, leaf.dtype.newbyteorder("<")).tobytes() for leaf in leaves)


def unpack(body: bytes, like: Layout) -> PyTree:
    """The tree of numpy arrays that a body holds; Refused unless its length fits and every number may be there."""
    places, size = _places(like.leaves)
    if len(body) != size:
        raise Refused(f"wrong shape: {len(body)} bytes, must be {size}")
    leaves = [
        np.frombuffer(body, place.little, place.numbers, place.start)
        .reshape(place.shape)
        .astype(place.native, copy=False)
        for place in places
    ]
    for leaf in leaves:
        if leaf.dtype.kind not in "biu" and not np.isfinite(leaf).all():
            raise Refused("not finite")
    for leaf, within in zip(leaves, like.bounds):
        _refuse_beyond(leaf, within)
    return jax.tree.unflatten(like.tree, leaves)


def _refuse_beyond(leaf: np.ndarray, within: Within) -> None:
    if ((leaf < within.low) | (leaf > within.high)).any():
        if (np.abs(leaf) > _limit(str(leaf.dtype))).any():
            raise Refused("too large")
        raise Refused(f"beyond what the protocol allows: must be within [{within.low:g}, {within.high:g}]")
