"""Frames that wait for the party's one thread: bounded for each sender, and fair among them.

The transport's threads put, the party's thread takes. A sender that fills its own share loses further frames, which
are counted; the others' shares are not touched, and their frames wait behind at most one of its.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Iterable
from time import monotonic


class Inbox:
    """A share of `count` frames and `size` bytes for each of `senders`; frames of others are dropped."""

    def __init__(self, senders: Iterable[str], *, count: int, size: int) -> None:
        self._queues: dict[str, deque[bytes]] = {sender: deque() for sender in senders}
        self._bytes = dict.fromkeys(self._queues, 0)
        self._turns: deque[str] = deque()  # senders with something waiting, the next one first
        self._count, self._size = count, size
        self._changed = threading.Condition(threading.Lock())
        self._woken = False
        self._dropped: Counter[str] = Counter()

    def put(self, sender: str, frame: bytes) -> None:
        """Keep a frame, or drop and count it where the sender's share is full."""
        with self._changed:
            queue = self._queues[sender]
            if len(queue) >= self._count or self._bytes[sender] + len(frame) > self._size:
                self._dropped[sender] += 1
                return
            if not queue:
                self._turns.append(sender)
            queue.append(frame)
            self._bytes[sender] += len(frame)
            self._changed.notify()

    def take(self, timeout: float) -> tuple[str, bytes] | None:
        """The next frame; None after `timeout` seconds or a `wake`."""
        until = monotonic() + timeout
        with self._changed:
            while not self._turns:
                left = until - monotonic()
                if self._woken or left <= 0:
                    self._woken = False
                    return None
                self._changed.wait(left)
            return self._next()

    def wake(self) -> None:
        """Let a waiting `take` return at once. For other threads, never for a signal's handler."""
        with self._changed:
            self._woken = True
            self._changed.notify()

    @property
    def dropped(self) -> dict[str, int]:
        """How many frames of each sender were dropped because its share was full."""
        with self._changed:
            return dict(self._dropped)

    def _next(self) -> tuple[str, bytes]:
        sender = self._turns.popleft()
        queue = self._queues[sender]
        frame = queue.popleft()
        self._bytes[sender] -= len(frame)
        if queue:
            self._turns.append(sender)
        return sender, frame
