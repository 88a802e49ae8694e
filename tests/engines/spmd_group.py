"""One process of a group that runs every protocol with the engine over devices; the first writes what came out.

python spmd_group.py OUT.npz PROCESS PROCESSES PORT
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import jax
import numpy as np
import worlds

from coterie import topologies
from coterie.program import Program, Shards, Trace
from coterie.protocols import build

SIZES, DIM, EVERY = (9, 12, 7, 10, 8, 11, 6, 13), 5, 3


class Row(NamedTuple):
    """A case: small settings, the topology, gossip steps, how many owners, and whether it must agree to the bit."""

    protocol: str
    settings: dict
    topology: str = "ring"
    gossip: int = 1
    owners: int = 8
    exact: bool = True


ROWS = {
    "async_learner": Row("async_learner", {"ticks": 12}, exact=False),
    "average_erm": Row("average_erm", {}, exact=False),
    "central_erm": Row("central_erm", {}, exact=False),
    "deep_q": Row("deep_q", {"policy": "q"}, exact=False),
    "dual_averaging": Row("dual_averaging", {"rounds": 7}),
    "push_sum": Row("push_sum", {"rounds": 7}, "exponential"),
    "random_walk": Row("random_walk", {"passes": 2}, exact=False),
    "weighted_erm": Row("weighted_erm", {}, exact=False),
    "wor_sgd": Row("wor_sgd", {}, exact=False),
    # beside the protocols themselves: owners that do not divide, gossip, schedules, stars and complete graphs
    "five owners on a ring": Row("dual_averaging", {"rounds": 7}, owners=5),
    "gossip": Row("dual_averaging", {"rounds": 7}, "ring", gossip=4),
    "schedule": Row("push_sum", {"rounds": 7}, "one_peer_exponential", gossip=2),
    "star": Row("dual_averaging", {"rounds": 7}, "star", exact=False),
    "complete": Row("dual_averaging", {"rounds": 7}, "complete", owners=5, exact=False),
}


def case(row: Row) -> tuple[Program, Shards, topologies.Mixer]:
    """What an engine takes."""
    sizes = SIZES[: row.owners]
    task = worlds.task(sizes, DIM, delta=1e-4, topology=row.topology)
    program = build(row.protocol, task, row.settings, "certified")
    mixer = topologies.mixer(task.topology, row.gossip)
    if program.aggregate is not None:
        mixer = topologies.aggregate(program.aggregate)
    return program, worlds.shards(sizes, DIM), mixer


def play(engine, row: Row) -> Trace:
    """A run with a transcript, looked at along the way."""
    program, records, mixer = case(row)
    return engine(program, records, mixer, seed=3, every=EVERY, probe=lambda models: models, transcript=True)


def main(out: str, process: int, processes: int, port: int) -> None:
    from coterie.engines.spmd import spmd

    if processes > 1:
        jax.distributed.initialize(f"127.0.0.1:{port}", processes, process)
    found = {}
    for name, row in ROWS.items():
        for at, leaf in enumerate(jax.tree.leaves(play(spmd, row))):
            found[f"{name}.{at}"] = np.asarray(leaf)
    if process == 0:
        np.savez(out, allow_pickle=False, **found)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:]))
