"""Masks: the published vector, that they cancel and hide, whom they are shared with, and keys that are none."""

import itertools

import numpy as np
import pytest

from coterie.accounting.exposure import circulant
from coterie.errors import InputError
from coterie.mechanisms import masks
from coterie.mechanisms.masks import Masks, Roll

AGREEMENT, NAMES = bytes(range(32)), ("a", "b", "c")
SECRETS = {name: bytes([at + 1]) * 32 for at, name in enumerate(NAMES)}
ROLL = Roll(1, 0, (0, 1, 2), (b"\x11" * 16, b"\x22" * 16, b"\x33" * 16))


def sides(names, secrets=None, agreement=AGREEMENT):
    secrets = secrets or {name: bytes([at + 1]) * 32 for at, name in enumerate(names)}
    publics = {name: masks.public_key(secrets[name]) for name in names}
    return {name: Masks(name, secrets[name], publics, agreement) for name in names}


def test_the_golden_vector():
    side = sides(NAMES)["a"]
    label = side.label(masks.START, ROLL)
    assert int(side._mask("b", label, 1)[0]) == 0x04E5CD3C14AB0670


def test_sums_of_masked_messages_are_sums_and_messages_are_not():
    numbers = {name: np.array([5 - 3 * at, -(10**9) * at], np.int64) for at, name in enumerate(NAMES)}
    found = sides(NAMES)
    label = found["a"].label(masks.START, ROLL)
    sent = {
        name: np.frombuffer(side.masked(numbers[name], label, (0, 1, 2), 0), "<u8")
        for name, side in found.items()
    }
    assert sum(sent.values()).view(np.int64).tolist() == [6, -3 * 10**9]
    assert not any(np.array_equal(sent[name].view(np.int64), numbers[name]) for name in NAMES)


@pytest.mark.parametrize("degree", [0, 2, 4, 8])
def test_masks_cancel_on_every_graph_and_are_shared_as_the_certificate_assumes(degree):
    names = [f"n{at}" for at in (10, 9, 2, 1, 0, 33, 7)]  # not in the order of names
    found, members = sides(names), (0, 1, 2, 4, 5, 6)
    present = sorted(names[one] for one in members)
    label, rng = b"x" * 32, np.random.default_rng(0)
    numbers = {name: rng.integers(-(2**30), 2**30, 5) for name in present}
    sent = [
        np.frombuffer(found[name].masked(numbers[name], label, members, degree), "<u8") for name in present
    ]
    assert np.array_equal(sum(sent).view(np.int64), sum(numbers.values()))
    for at, name in enumerate(present):
        shared = found[name]._sharing(members, degree)
        assert len(shared) == len(set(shared))
        linked = circulant(len(present), degree)[at] > 0 if degree else np.arange(len(present)) != at
        assert {present.index(other) for other in shared} == set(np.flatnonzero(linked))


def test_who_was_told_something_else_shares_no_mask():
    side, labels = sides(NAMES)["a"], set()
    others = {
        "another history": (b"\x01" * 32, ROLL),
        "another round": (masks.START, ROLL._replace(round=2)),
        "another attempt": (masks.START, ROLL._replace(attempt=1)),
        "fewer members": (masks.START, ROLL._replace(members=(0, 1), processes=ROLL.processes[:2])),
        "another process": (masks.START, ROLL._replace(processes=(b"\x44" * 16, *ROLL.processes[1:]))),
        "the same": (masks.START, ROLL),
    }
    labels = {name: side.label(*given) for name, given in others.items()}
    other_agreement = sides(NAMES, agreement=bytes(32))["a"].label(masks.START, ROLL)
    assert len({*labels.values(), other_agreement}) == len(others) + 1
    streams = [side._mask("b", label, 4).tobytes() for label in labels.values()]
    assert len(set(streams)) == len(streams)


def test_a_message_alone_is_uniform():
    """Of 64,000 numbers that are all zero: every bit is set about half the time, within five standard deviations."""
    sent = np.frombuffer(sides(NAMES)["b"].masked(np.zeros(64_000, np.int64), b"y" * 32, (0, 1, 2), 0), "<u8")
    bits = np.unpackbits(sent.view(np.uint8).reshape(-1, 8), axis=1).mean(axis=0)
    assert np.abs(bits - 0.5).max() < 5.5 * 0.5 / np.sqrt(64_000)


def test_the_sum_is_all_that_messages_tell_on_a_small_group():
    """Three owners on a path, modulo 4, every mask tried: inputs of equal sum give equal sets of messages."""

    def views(v):
        return sorted(
            ((v[0] + a) % 4, (v[1] - a + b) % 4, (v[2] - b) % 4)
            for a, b in itertools.product(range(4), repeat=2)
        )

    inputs = list(itertools.product(range(4), repeat=3))
    for total in range(4):
        found = {str(views(v)) for v in inputs if sum(v) % 4 == total}
        assert len(found) == 1


def test_bitmaps_read_back_and_spare_bits_are_refused():
    for owners in (1, 7, 8, 9, 32):
        members = tuple(range(0, owners, 3))
        assert masks.members_of(masks.bitmap(members, owners), owners) == members
    assert masks.members_of(b"\x08", 3) is None
    assert masks.members_of(b"\x01\x00", 3) is None


def test_a_key_is_its_owners_alone_and_never_replaced(tmp_path):
    file = tmp_path / "mask.key"
    public = masks.make_key(file)
    assert file.stat().st_mode & 0o777 == 0o600
    assert masks.public_key(masks.read_key(file)) == public
    with pytest.raises(InputError, match="is there already"):
        masks.make_key(file)
    with pytest.raises(InputError, match="cannot be read"):
        masks.read_key(tmp_path / "none")


@pytest.mark.parametrize(
    "public",
    [bytes(32), (1).to_bytes(32, "little"), (2**255 - 20).to_bytes(32, "little"), (2**255 - 18).to_bytes(32, "little"),
     b"\xff" * 32, bytes(31), bytes.fromhex("e0eb7a7c3b41b8ae1656e3faf19fc46ada098deb9c32b1fd866205165f49b800"),
     bytes.fromhex("5f9c95bca3508c24b1d0b1559c83ef5b04445cc4581c8e86d8224eddd09f1157")],
)  # fmt: skip
def test_what_is_no_key_is_refused(public):
    with pytest.raises(InputError, match="is no key"):
        masks.check_public("a", public)


def test_the_own_key_must_be_the_agreements():
    publics = {name: masks.public_key(SECRETS[name]) for name in NAMES}
    with pytest.raises(InputError, match="mask key of 'a': is not the one in the agreement"):
        Masks("a", SECRETS["b"], publics, AGREEMENT)
