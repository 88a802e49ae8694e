"""What travels between parties: typed, versioned, bounded in size, and checked before anything is computed.

A frame is one msgpack array: [version, kind, agreement, step, sub, body]. `agreement` is the start of the run's
agreement hash, so that a frame of another run is refused at once; `body` is the leaves of a tree of arrays, one
after the other in little-endian bytes, whose types and shapes both ends know from the program. No frame can carry
code, and none says who sent it: that is the transport's word, which knows the sender's certificate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import IntEnum
from typing import Any, NamedTuple, cast

import msgpack
import numpy as np

from coterie._types import PyTree

VERSION = 1
TAG = 8  # bytes of the agreement's hash in each frame
OVERHEAD = 64  # the most bytes that a frame has beside its body
_LAST = 2**53  # steps are counted with whole numbers that every language holds exactly


class Kind(IntEnum):
    """What a frame is."""

    HELLO = 0  # body: the agreement's whole hash; the first frame on every connection
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
        raise Refused("another agreement")
    if not isinstance(body, bytes):
        raise Refused("malformed")
    return Message(Kind(kind), step, sub, body)


def _whole(value: Any) -> bool:
    return type(value) is int and 0 <= value <= _LAST


class Layout(NamedTuple):
    """Types and shapes of a tree's leaves, which both ends know from the program: what a body must be."""

    tree: Any  # jax.tree_util.PyTreeDef
    leaves: tuple[tuple[str, tuple[int, ...]], ...]  # numpy's name of the type, the shape

    @property
    def size(self) -> int:
        """Bytes of a body."""
        return sum(np.dtype(kind).itemsize * math.prod(shape) for kind, shape in self.leaves)


def layout(tree: PyTree) -> Layout:
    """The layout of a tree of arrays, or of their `jax.ShapeDtypeStruct`s."""
    import jax

    leaves, structure = jax.tree.flatten(tree)
    return Layout(structure, tuple((str(np.dtype(leaf.dtype)), tuple(leaf.shape)) for leaf in leaves))


def pack(tree: PyTree) -> bytes:
    """A tree's leaves as one body."""
    import jax

    return b"".join(_little(np.asarray(leaf)).tobytes() for leaf in jax.tree.leaves(tree))


def unpack(body: bytes, like: Layout) -> PyTree:
    """The tree of numpy arrays that a body holds; Refused unless its length fits and every number is finite."""
    import jax

    if len(body) != like.size:
        raise Refused(f"wrong shape: {len(body)} bytes, must be {like.size}")
    leaves: list[np.ndarray] = []
    start = 0
    for kind, shape in like.leaves:
        dtype = np.dtype(kind)
        count = math.prod(shape)
        leaf = np.frombuffer(body, dtype.newbyteorder("<"), count, start).reshape(shape)
        leaves.append(leaf.astype(dtype, copy=False))
        start += dtype.itemsize * count
    _finite(leaves)
    return jax.tree.unflatten(like.tree, leaves)


def _finite(leaves: Sequence[np.ndarray]) -> None:
    for leaf in leaves:
        if leaf.dtype.kind not in "biu" and not np.isfinite(leaf).all():
            raise Refused("not finite")


def _little(leaf: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(leaf, leaf.dtype.newbyteorder("<"))
