"""One process of a group that runs protocols with the engine over devices; the first one writes what came out.

python spmd_group.py OUT.npz PROCESS PROCESSES PORT ROW …
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import NamedTuple

import compiling
import jax
import numpy as np
import worlds

from coterie import topologies
from coterie.cli._cache import keep_compiled
from coterie.engines.processes import Place, join
from coterie.engines.spmd import spmd
from coterie.problems import holdings
from coterie.program import Holdings, Program, Trace
from coterie.protocols import build
from coterie.units import RECORD, Unit

PERSON = Unit("column", column="person", records=3)
SIZES, DIM = (9, 12, 7, 10, 8, 11, 6, 13), 32
UNEVEN = (9, 500, 7, 60, 8, 300, 6)  # held in several arrays where every number of padding counts
_WORTH = holdings._WORTH


class Row(NamedTuple):
    """How a case joins: small settings, a topology, and whether it agrees to the bit (circulant graphs do)."""

    protocol: str
    settings: dict
    topology: str = "ring"
    exact: bool = False
    gossip: int = 1
    sizes: tuple[int, ...] = SIZES
    every: int | None = None
    unit: Unit = RECORD


PROTOCOLS = {
    "async_learner": Row("async_learner", {"ticks": 12}),
    "average_erm": Row("average_erm", {}),
    "central_erm": Row("central_erm", {}),
    "deep_q": Row("deep_q", {"policy": "coin"}),
    "dual_averaging": Row("dual_averaging", {"rounds": 6}, exact=True, every=3),
    "push_sum": Row("push_sum", {"rounds": 6, "policy": "clipped"}, "exponential", exact=True),
    "random_walk": Row("random_walk", {"passes": 2}),
    "weighted_erm": Row("weighted_erm", {}),
    "wor_sgd": Row("wor_sgd", {}),
}
# Beside the protocols: owners that do not divide, several gossip steps, schedules, links and sums over everyone.
LAYOUTS = {
    "five owners": Row("dual_averaging", {"rounds": 6}, exact=True, sizes=SIZES[:5]),
    "chebyshev": Row("dual_averaging", {"rounds": 6}, exact=True, gossip=4),
    "schedule": Row(
        "push_sum", {"rounds": 6, "policy": "clipped"}, "one_peer_exponential", exact=True, gossip=2
    ),
    "star": Row("dual_averaging", {"rounds": 6}, "star"),
    "uneven rounds": Row("dual_averaging", {"rounds": 6}, sizes=UNEVEN),
    "uneven visits": Row("async_learner", {"ticks": 12}, sizes=UNEVEN),
    "masked": Row("weighted_erm", {"view": "masked", "steps": 5, "step_size": 1.0}, sizes=SIZES[:5]),
    "shared": Row("dual_averaging", {"rounds": 6, "view": "shared"}, sizes=SIZES[:5]),
    "shared in a ring": Row(
        "push_sum", {"rounds": 6, "view": "shared", "degree": 2}, "exponential", exact=True, sizes=SIZES[:5]
    ),
    "complete": Row("dual_averaging", {"rounds": 6}, "complete", sizes=SIZES[:5]),
    "units in rounds": Row("dual_averaging", {"rounds": 4, "rate": 0.5}, sizes=UNEVEN, unit=PERSON),
    "units in visits": Row("async_learner", {"ticks": 9}, sizes=SIZES[:5], unit=PERSON),
}
ROWS = PROTOCOLS | LAYOUTS


def case(row: Row) -> tuple[Program, Holdings, topologies.Mixer]:
    """What an engine takes."""
    holdings._WORTH = 1 if row.sizes is UNEVEN else _WORTH
    task = worlds.task(row.sizes, DIM, delta=1e-4, topology=row.topology, unit=row.unit)
    program = build(row.protocol, task, row.settings, "certified")
    mixer = topologies.mixer(task.topology, row.gossip)
    if program.aggregate is not None:
        mixer = topologies.aggregate(program.aggregate)
    if row.unit != RECORD:
        return program, worlds.units_held(row.sizes, DIM, row.unit.records), mixer
    return program, worlds.holdings(row.sizes, DIM), mixer


def play(engine: Callable[..., Trace], row: Row) -> Trace:
    """A run with its transcript, looked at along the way; compiled as users have it where its bits are compared."""
    with compiling.as_users_do() if row.exact else nullcontext():
        return engine(*case(row), seed=3, every=row.every, probe=lambda models: models, transcript=True)


def main(out: str, process: int, processes: int, port: int, names: list[str]) -> None:
    """Join, run, write."""
    keep_compiled()  # as `coterie run` does; and what is quick to compile, too: eight processes do much of the same
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)
    compiling.share_contexts()
    if processes > 1:
        join(Place(f"127.0.0.1:{port}", process, processes, 600.0))
    found = {
        f"{name}.{at}": np.asarray(leaf)
        for name in names
        for at, leaf in enumerate(jax.tree.leaves(play(spmd, ROWS[name])))
    }
    if process == 0:
        np.savez(out, allow_pickle=False, **found)


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:5]), sys.argv[5:])
