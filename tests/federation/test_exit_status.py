"""What a node's end means to who started it: `docs/federation.md` has the table."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from parties import Trial, until
from wired import LONG


class Node:
    """`coterie node` as a process of its own."""

    def __init__(self, trial: Trial, name: str) -> None:
        self.said = trial.folder / f"{name}.err"
        command = [sys.executable, "-m", "coterie", "node", str(trial.place(name)), "--json"]
        with self.said.open("w") as err:
            self.child = subprocess.Popen(
                [*command, "--data", str(trial.folder / f"{name}.csv")],
                stdout=subprocess.PIPE,
                stderr=err,
                text=True,
            )

    def ended(self) -> tuple[int, dict]:
        out, _ = self.child.communicate(timeout=LONG)
        return self.child.returncode, json.loads(out)


@pytest.fixture
def nodes(tmp_path: Path, interruptible: None) -> Iterator[dict[str, Node]]:
    trial = Trial(tmp_path, (7, 8), protocol="dual_averaging", settings={"rounds": 100_000}, gossip_steps=1)
    with ExitStack() as held:
        found = {name: Node(trial, name) for name in trial.names}
        for one in found.values():
            held.callback(one.child.communicate)
            held.callback(one.child.kill)
        yield found


def test_a_node_that_was_told_to_stop_ends_well_and_says_that_it_is_not_done(nodes):
    until(lambda: all("joins" in one.said.read_text() for one in nodes.values()))
    for one, number in zip(nodes.values(), (signal.SIGTERM, signal.SIGINT), strict=True):
        one.child.send_signal(number)
    for one in nodes.values():
        status, summary = one.ended()
        assert (status, summary["finished"]) == (0, False)
        assert one.said.read_text().splitlines()[-1].endswith("Start it again to go on; nothing is lost.")
