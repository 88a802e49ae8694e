"""The wire format: what goes in comes out, and nothing else gets in."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coterie.federation.transport import wire
from coterie.federation.transport.wire import Kind, Message, Refused

AGREEMENT = bytes(range(32))
LONGEST = 4_096
WHOLE = st.integers(0, 2**53)
MESSAGES = st.builds(Message, st.sampled_from(Kind), WHOLE, WHOLE, st.binary(max_size=200))
TREE = {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "b": (np.float64(1.5), np.array([True, False]))}


@given(MESSAGES)
def test_a_message_survives_the_wire(message: Message):
    assert wire.decode(wire.encode(message, AGREEMENT), AGREEMENT, LONGEST) == message


@given(MESSAGES)
def test_a_frame_costs_little_beside_its_body(message: Message):
    assert len(wire.encode(message, AGREEMENT)) <= len(message.body) + wire.OVERHEAD


def test_a_model_of_a_thousand_numbers_travels_within_a_tenth():
    body = wire.pack({"x": np.zeros(1_000, np.float32)})
    assert len(wire.encode(Message(Kind.VALUE, 10**6, 40, body), AGREEMENT)) <= 1.1 * len(body)


@settings(max_examples=500)
@given(st.binary(max_size=300))
def test_no_bytes_do_more_than_be_refused(frame: bytes):
    with pytest.raises(Refused):
        wire.decode(frame, AGREEMENT, LONGEST)


def packed(*fields: object) -> bytes:
    frame = msgpack.packb(list(fields))
    assert isinstance(frame, bytes)
    return frame


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.binary(max_size=9)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=500)
@given(st.lists(ANYTHING, min_size=6, max_size=6))
def test_well_formed_fields_of_wrong_types_are_refused(fields: list[object]):
    with pytest.raises(Refused):
        wire.decode(packed(*fields), AGREEMENT, LONGEST)


@given(MESSAGES, st.data())
def test_a_truncated_frame_is_refused(message: Message, data: st.DataObject):
    frame = wire.encode(message, AGREEMENT)
    with pytest.raises(Refused, match="malformed"):
        wire.decode(frame[: data.draw(st.integers(0, len(frame) - 1))], AGREEMENT, LONGEST)


@given(MESSAGES, st.binary(min_size=1, max_size=8))
def test_a_frame_with_something_behind_it_is_refused(message: Message, more: bytes):
    with pytest.raises(Refused, match="malformed"):
        wire.decode(wire.encode(message, AGREEMENT) + more, AGREEMENT, LONGEST)


TAG = AGREEMENT[: wire.TAG]


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (packed(1, 2, TAG, 0, 0, b""), "version 1, this is 2"),
        (packed("2" * 10, 1, TAG, 0, 0, b""), "malformed"),
        (packed(2, len(Kind), TAG, 0, 0, b""), "malformed"),
        (packed(2, -1, TAG, 0, 0, b""), "malformed"),
        (packed(2, True, TAG, 0, 0, b""), "malformed"),
        (packed(2, 1, TAG, -1, 0, b""), "malformed"),
        (packed(2, 1, TAG, 2**53 + 1, 0, b""), "malformed"),
        (packed(2, 1, TAG, 0, 1.5, b""), "malformed"),
        (packed(2, 1, TAG, 0, 0, None), "malformed"),
        (packed(2, 1, TAG, 0, 0, [1]), "malformed"),
        (packed(2, 1, TAG, 0, 0), "malformed"),
        (packed(2, 1, b"", 0, 0, b""), "another agreement"),
        (packed(2, 1, AGREEMENT, 0, 0, b""), "another agreement"),
        (packed(2, 1, TAG[::-1], 0, 0, b""), "another agreement"),
        (msgpack.packb({"kind": 1}), "malformed"),
        (b"\xdd\xff\xff\xff\xff", "malformed"),  # an array of four thousand million entries
        (b"\xc6\xff\xff\xff\xff", "malformed"),  # four gigabytes
        (b"\x91" * 4_000, "malformed"),  # arrays in arrays
        (b"\xc7\x0c\xff" + b"\xff" * 12, "malformed"),  # a time with too many nanoseconds
        (bytes(LONGEST + 1), "oversized: 4097 bytes, at most 4096"),
    ],
)
def test_each_defect_has_its_reason(frame: bytes, reason: str):
    with pytest.raises(Refused, match=reason):
        wire.decode(frame, AGREEMENT, LONGEST)


def test_a_frame_of_another_agreement_is_refused():
    frame = wire.encode(Message(Kind.VALUE, 1, 0, b"x"), bytes(32))
    with pytest.raises(Refused, match="another agreement"):
        wire.decode(frame, AGREEMENT, LONGEST)


def test_a_tree_survives_the_wire():
    back = wire.unpack(wire.pack(TREE), wire.layout(jax.tree.map(np.asarray, TREE)))
    assert jax.tree.structure(back) == jax.tree.structure(TREE)
    for one, two in zip(jax.tree.leaves(back), jax.tree.leaves(TREE), strict=True):
        assert one.dtype == np.asarray(two).dtype
        np.testing.assert_array_equal(one, two)


def test_a_layout_needs_shapes_alone():
    shapes = jax.eval_shape(lambda: {"x": jnp.zeros((3, 2), jnp.float32)})
    assert wire.layout(shapes) == wire.layout({"x": np.zeros((3, 2), np.float32)})
    assert wire.layout(shapes).size == 24


def test_numbers_travel_in_one_byte_order():
    assert wire.pack(np.array([1], ">u4")) == wire.pack(np.array([1], "<u4")) == b"\x01\0\0\0"


@pytest.mark.parametrize("extra", [-24, -1, 1, 24])
def test_a_body_of_another_shape_is_refused(extra: int):
    like = wire.layout({"x": np.zeros(6, np.float32)})
    with pytest.raises(Refused, match=f"wrong shape: {24 + extra} bytes, must be 24"):
        wire.unpack(bytes(24 + extra), like)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, jnp.bfloat16, np.complex64])
def test_a_number_that_is_not_finite_is_refused(value: float, dtype: type):
    leaf = np.array([0.0, value, 1.0]).astype(dtype)
    with pytest.raises(Refused, match="not finite"):
        wire.unpack(wire.pack([np.zeros(2, np.int32), leaf]), wire.layout([np.zeros(2, np.int32), leaf]))
