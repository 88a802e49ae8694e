"""What waits for the party's thread: bounded for each sender, fair among them."""

from __future__ import annotations

import threading
import time

import pytest
from wired import LONG

from coterie.federation.transport.inbox import Inbox


def taken(inbox: Inbox) -> list[tuple[str, bytes]]:
    found = []
    while (one := inbox.take(0.0)) is not None:
        found.append(one)
    return found


def test_each_sender_s_frames_keep_their_order():
    inbox = Inbox("ab", count=10, size=100)
    for frame in (b"1", b"2", b"3"):
        inbox.put("a", frame)
    assert [frame for _, frame in taken(inbox)] == [b"1", b"2", b"3"]


def test_a_flood_of_one_takes_no_place_of_another():
    inbox = Inbox("ab", count=5, size=1_000)
    for _ in range(1_000):
        inbox.put("a", b"junk")
    inbox.put("b", b"word")
    assert inbox.dropped == {"a": 995}
    assert [sender for sender, _ in taken(inbox)].index("b") <= 1


def test_a_share_is_bounded_in_bytes():
    inbox = Inbox("a", count=100, size=10)
    for size in (6, 6, 4, 1):
        inbox.put("a", bytes(size))
    assert [len(frame) for _, frame in taken(inbox)] == [6, 4]
    assert inbox.dropped == {"a": 2}
    inbox.put("a", bytes(10))
    assert len(taken(inbox)) == 1


def test_there_is_no_place_for_anybody_else():
    with pytest.raises(KeyError):
        Inbox("ab", count=5, size=100).put("c", b"")


def test_taking_waits_until_something_arrives():
    inbox = Inbox("a", count=5, size=100)
    threading.Timer(0.05, lambda: inbox.put("a", b"late")).start()
    assert inbox.take(LONG) == ("a", b"late")


def test_taking_gives_up_in_time_and_when_woken():
    inbox = Inbox("a", count=5, size=100)
    assert inbox.take(0.01) is None
    began = time.monotonic()
    threading.Timer(0.05, inbox.wake).start()
    assert inbox.take(LONG) is None
    assert time.monotonic() - began < LONG
