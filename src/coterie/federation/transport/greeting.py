"""The first frame on every connection: which agreement its sender follows, its clock, and its version of coterie.

The clock is for people: so that two logs can be compared, and a machine whose date is wrong is named before its
certificates are. No protocol reads it. The version is for people too: nodes talk as long as `wire.VERSION` is the same,
and an answer without one is taken as it is.
"""

from __future__ import annotations

import coterie
from coterie.federation.transport.wire import Kind, Message

_MILLI = 1_000
APART = 60.0  # seconds between two clocks that are reported


def hello(agreement: bytes, now: float, *, answer: bool = False) -> Message:
    """A greeting, or the answer to one, which has the version beside; `now` in seconds since 1970."""
    sub = 1 + _code(coterie.__version__) if answer else 0
    return Message(Kind.HELLO, step=max(0, int(now * _MILLI)), sub=sub, body=agreement)


def version(message: Message) -> str | None:
    """The version that an answer has; None where it has none.

    >>> version(Message(Kind.HELLO, sub=1 + _code("1.20.3.dev1")))
    '1.20.3'
    """
    code = message.sub - 1
    return ".".join(str(code >> shift & 255) for shift in (16, 8, 0)) if code > 0 else None


def differs(name: str, message: Message) -> str | None:
    """The words for a peer of another version; None where it has this one or says none."""
    theirs, own = version(message), ".".join(str(_code(coterie.__version__) >> at & 255) for at in (16, 8, 0))
    if theirs in (None, own):
        return None
    return f"{name} runs coterie {theirs}, this is {own}: they understand each other, but update the older one soon"


def _code(words: str) -> int:
    """A version in 24 bits: its first three numbers."""
    first = [int(part) if part.isdigit() else 0 for part in words.split(".")[:3]]
    major, minor, patch = (min(part, 255) for part in (*first, 0, 0, 0)[:3])
    return major << 16 | minor << 8 | patch


def ahead(message: Message, now: float) -> float | None:
    """By how many seconds the clock of a greeting's sender is ahead of this one, less the time that it travelled.

    None where the greeting has no clock.
    """
    return message.step / _MILLI - now if message.step else None


def apart(name: str, seconds: float) -> str:
    """Two clocks that differ, in words."""
    way = "ahead of" if seconds > 0 else "behind"
    return (
        f"the clock of {name} is {abs(seconds):,.0f} seconds {way} this one: logs cannot be compared, and new "
        "certificates may not be valid yet. Set both by NTP"
    )
