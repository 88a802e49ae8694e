"""What version 0.1.0 sends, byte for byte: a change of the format that nobody meant, or nobody announced, is seen here.

`recorded/` holds frames of every kind, bodies, a mark, a sealed frame and an agreement as that version writes them.
Nodes of two versions talk while these are read and written as they are. Who changes the format raises `wire.VERSION`,
records the new one beside the old, and keeps what the old one sent readable, or refused in words: both are asked below.

2: messages to a trusted aggregator are whole numbers of a lattice (`whole`), where 1 had real ones of as many bytes.
The keys in the recording were made for it.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import load_der_private_key

from coterie.federation import agreement as agreements
from coterie.federation.releases.marks import Hand, mark_of
from coterie.federation.transport import greeting, wire
from coterie.federation.transport.sealing import Seal
from coterie.federation.transport.wire import Kind, Message, Refused

HERE = Path(__file__).parent / "recorded"
BEFORE, WIRE = (json.loads((HERE / f"wire-{version}.json").read_text()) for version in (1, 2))
AGREEMENT = bytes.fromhex(WIRE["agreement_sha256"])
LONGEST = 4_096


def message(one: dict) -> Message:
    return Message(Kind[one["kind"]], one["step"], one["sub"], bytes.fromhex(one["body"]))


@pytest.mark.parametrize("one", WIRE["frames"], ids=lambda one: f"{one['kind']}-{one['step']}")
def test_frames_are_read_and_written_as_recorded(one):
    frame = bytes.fromhex(one["frame"])
    assert wire.decode(frame, AGREEMENT, LONGEST) == message(one)
    assert wire.encode(message(one), AGREEMENT) == frame


@pytest.mark.parametrize("one", BEFORE["frames"], ids=lambda one: f"{one['kind']}-{one['step']}")
def test_frames_of_the_version_before_are_refused_in_words(one):
    """Already its greeting: an aggregator would take the bits of its real numbers for whole ones, or the other way."""
    with pytest.raises(Refused, match="version 1, this is 2"):
        wire.decode(bytes.fromhex(one["frame"]), AGREEMENT, LONGEST)


def test_every_kind_was_recorded_under_its_number():
    assert {(one["kind"], bytes.fromhex(one["frame"])[2]) for one in WIRE["frames"]} == {
        (kind.name, int(kind)) for kind in Kind
    }


def test_greetings_say_version_and_clock_as_recorded():
    hello, answer = (
        wire.decode(bytes.fromhex(one["frame"]), AGREEMENT, LONGEST)
        for one in sorted(
            (one for one in WIRE["frames"] if one["kind"] == "HELLO"), key=lambda one: one["sub"]
        )
    )
    assert (greeting.version(hello), greeting.version(answer)) == (None, "0.1.0")
    assert greeting.ahead(answer, 1_800_000_000.0) == 0.5
    assert greeting.hello(AGREEMENT, 1_800_000_000.5) == hello


@pytest.mark.parametrize("version", [0, 1, 3, 255, "2", None])
def test_a_frame_of_another_format_is_refused_in_words(version):
    """As a node of version 0.1.0 does with what comes after it, and as this one must, whatever else the frame has."""
    import msgpack

    frame = msgpack.packb([version, 99, AGREEMENT[: wire.TAG], 0, 0, b"something new"], use_bin_type=True)
    words = "malformed" if isinstance(version, str) else f"version {version!r}, this is {wire.VERSION}"
    with pytest.raises(Refused, match=words):
        wire.decode(frame, AGREEMENT, LONGEST)


@pytest.mark.parametrize(("body", "kind"), [("body", np.float32), ("whole", np.int32)])
def test_bodies_are_packed_as_recorded(body, kind):
    tree = {key: np.array(value, kind) for key, value in WIRE[body]["leaves"].items()}
    packed = bytes.fromhex(WIRE[body]["bytes"])
    assert wire.pack(tree) == packed
    found = wire.unpack(packed, wire.layout(tree))
    assert all(np.array_equal(found[key], tree[key]) for key in tree)


def test_marks_are_sealed_as_recorded():
    """A node that was updated must know its own releases again when a peer shows them."""
    one = WIRE["mark"]
    hand = Hand(bytes.fromhex(one["private_key"]), AGREEMENT)
    mark = mark_of(one["step"], bytes.fromhex(one["body"]))
    assert hand.made(mark)
    assert hand.mark(one["step"], bytes.fromhex(one["message"])) == mark


def test_sealed_frames_are_opened_as_recorded():
    one = WIRE["sealed"]
    north, south = (load_der_private_key(bytes.fromhex(one[name]), None) for name in ("north", "south"))
    seal = Seal(south, north.public_key(), "south", "north")
    assert seal.opened(bytes.fromhex(one["north_to_south"])) == bytes.fromhex(one["frame"])


def test_an_agreement_has_the_hash_that_was_recorded():
    """Nodes compare it. A term that is new must be left out of agreements that do not use it, or versions part here."""
    path = HERE / "agreement.json"
    agreement = agreements.read(path)
    assert agreement.text() == path.read_text(encoding="utf-8")
    assert agreement.digest == AGREEMENT
