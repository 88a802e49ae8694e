"""Refusals, counted by sender and reason, with a log that cannot be flooded."""

from __future__ import annotations

import threading
from collections import Counter

from coterie.federation.transport.lines import Log, warning

ANOTHER = "another agreement"  # then a colon, its hash and this party's
_SECOND = 1.0  # between two lines about one sender and reason
_REASONS = 32  # reasons counted separately for one sender; further ones are "other"


class Refusals:
    """Counts, and at most one line a second for each sender and reason. May be used from any thread."""

    def __init__(self, log: Log) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self._log = log
        self._lock = threading.Lock()
        # When the last line was written, and at which count.
        self._logged: dict[tuple[str, str], tuple[float, int]] = {}

    def add(self, sender: str, reason: str, now: float) -> None:
        """Count a refusal; details after the reason's colon appear in the log alone."""
        with self._lock:
            what = self._counted_as(sender, reason.partition(":")[0][:60])
            self.counts[what] += 1
            when, before = self._logged.get(what, (-_SECOND, 0))
            once = what[1] == ANOTHER and before > 0
            if not once and now - when >= _SECOND:
                self._logged[what] = now, self.counts[what]
                self._log(warning(_line(sender, reason, self.counts[what] - before)))

    def shown(self) -> dict[str, int]:
        """The counts, for a status."""
        with self._lock:
            return {f"{sender}: {reason}": count for (sender, reason), count in self.counts.items()}

    def _counted_as(self, sender: str, reason: str) -> tuple[str, str]:
        known = (sender, reason) in self.counts
        if not known and sum(name == sender for name, _ in self.counts) >= _REASONS:
            return sender, "other"
        return sender, reason


def _line(sender: str, reason: str, count: int) -> str:
    what, _, hashes = reason.partition(": ")
    if what == ANOTHER:
        return (
            f"{sender} follows another agreement and is not listened to: {hashes}. Compare the files' hashes, and give "
            "both the same one"
        )
    return f"refused from {sender}: {reason[:120]}" + (f" ({count} of this kind)" if count > 1 else "")
