"""Real parties for tests: a network's folders, files of records, and one process for each party.

Processes are forked from a server that has imported what a node needs and has done nothing with it yet: an
interpreter that imports JAX for itself takes seconds, and these tests start hundreds.
"""

from __future__ import annotations

import csv
import fcntl
import multiprocessing as mp
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import compiling
import numpy as np
import worlds
from ports import ports
from wired import LONG

from coterie import topologies
from coterie.accounting.ledger import Ledger
from coterie.engines.simulate import simulate
from coterie.evaluation.held import divided
from coterie.evaluation.held import simulated as draw
from coterie.experiments.experiment import Experiment
from coterie.federation import network, party
from coterie.federation.agreement import Agreement
from coterie.federation.collaboration import Collaboration
from coterie.federation.transport.machine import Patience
from coterie.mechanisms import masks
from coterie.model import load
from coterie.problems.datasets.frames import read_frame
from coterie.problems.datasets.identity import identity
from coterie.problems.datasets.schema import Schema
from coterie.program import Shards

DIM = 3
_CONTEXT = mp.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "compiling",
        "coterie.cli._cache",
        "coterie.federation.node",
        "coterie.federation.outcome",
        "coterie.federation.shapes.rounds",
        "coterie.federation.transport.zenoh",
        "coterie.reports.node",
        "coterie.reports.published",
        "cryptography.hazmat.primitives.serialization.ssh",
        "cryptography.x509",
        "dp_accounting",
        "jax",
        "jaxlib.mlir.dialects.mhlo",
        "jinja2",
        "networkx",
        "pandas",
        "pyarrow.pandas_compat",
        "scipy.optimize",
        "scipy.stats",
        "zenoh",
    ]
)


class Trial:
    """A network of real processes under a folder."""

    def __init__(self, folder: Path, sizes: Sequence[int], **terms: Any) -> None:
        """`terms` are the experiment's, but for `patience`, `clock` and `aggregator`, which are the agreement's, and
        `host`, at which all parties are."""
        self.folder, self.seed = folder, 5
        names = [f"owner-{at}" for at in range(len(sizes))]
        patience, clock = terms.pop("patience", Patience(wait=120.0)), terms.pop("clock", 50.0)
        aggregator, host = terms.pop("aggregator", True), terms.pop("host", "127.0.0.1")
        agreement = Agreement(
            name="trial",
            experiment=Experiment(delta=1e-4, penalty="l2", strength=0.01, **terms),
            schema=Schema(
                target="y", columns={f"x{at}": (-1.0, 1.0) for at in range(DIM)}, classes=("no", "yes")
            ),
            sizes=dict(zip(names, sizes)),
            patience=patience,
            clock=clock,
            aggregator=aggregator,
        )
        addresses = {
            name: f"{host}:{port}"
            for name, port in zip([*names, "learner", "aggregator"], ports(len(names) + 2))
        }
        hub = network.settled(agreement).hub
        wanted = {name: where for name, where in addresses.items() if name in names or name == hub}
        self.planned: Collaboration = network.found(folder / "net", agreement, wanted, None)
        if self.planned.program.plan.quorum:
            for name in names:
                own = party.read(self.place(name))
                (self.place(name) / party.NAME).write_text(replace(own, trusts_aggregator=True).to_toml())
        if self.planned.program.plan.masked:
            self._enter_keys(names)
        self.write_records(sizes)
        self.processes: dict[str, BaseProcess] = {}

    def _enter_keys(self, names: Sequence[str]) -> None:
        """Every owner makes its key, the founder enters them, and everybody knows everybody."""
        keys = {name: masks.make_key(self.place(name) / "mask.key") for name in names}
        self.planned = network.enter_keys(
            self.folder / "net", {name: key.hex() for name, key in keys.items()}
        )
        for name in names:
            own = party.read(self.place(name))
            honest = {other: masks.fingerprint(key) for other, key in keys.items() if other != name}
            own = replace(own, trusts_aggregator=False, honest=honest)
            (self.place(name) / party.NAME).write_text(own.to_toml())

    @property
    def names(self) -> tuple[str, ...]:
        return self.planned.parties

    def place(self, name: str) -> Path:
        return self.folder / "net" / "parties" / name

    def start(
        self, name: str, injected: bool = True, place: Path | None = None, skew: float = 0.0
    ) -> BaseProcess:
        """`place`: another folder than the party's own, such as a copy of it; `skew`: how wrong its clock is."""
        data = None if name == self.planned.hub else self.folder / f"{name}.csv"
        process = _CONTEXT.Process(
            target=_party, args=(place or self.place(name), data, self.seed if injected else None, skew)
        )
        self.processes[name if place is None else str(place)] = process
        process.start()
        return process

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        process = self.processes[name]
        assert process.pid is not None
        os.kill(process.pid, number)
        if number == signal.SIGKILL:
            process.join()

    def finish(self, seconds: float = 2 * LONG) -> None:
        """Wait for all; every party must end well."""
        deadline = time.monotonic() + seconds
        for name, process in self.processes.items():
            process.join(max(0.1, deadline - time.monotonic()))
            assert process.exitcode == 0, f"{name}: {process.exitcode}\n{self.log(name)}"

    def stop(self) -> None:
        """End whatever still runs."""
        for process in self.processes.values():
            if process.pid is not None:
                process.kill()
                process.join()

    def log(self, name: str) -> str:
        path = self.place(name) / "test.log"
        return path.read_text() if path.exists() else ""

    def model(self, name: str) -> np.ndarray:
        params = load(self.place(name) / "result").params
        return np.concatenate([params[key].ravel() for key in sorted(params)])

    def ledger(self, name: str) -> Ledger:
        at = self.planned.agreement.owners.index(name)
        return Ledger.open(
            self.place(name) / "ledger.sqlite",
            data_hash=identity(read_frame(self.folder / f"{name}.csv")).content,
            epsilon=party.read(self.place(name)).epsilon or self.planned.task.epsilon[at],
            delta=self.planned.task.delta,
            relation=self.planned.program.plan.relation,
        )

    def simulated(self):
        """What `simulate` makes of the same records and keys."""
        planned = self.planned
        program, read = planned.program, planned.agreement.schema.read
        rows = [read(self.folder / f"{name}.csv") for name in planned.agreement.owners]
        share = planned.agreement.experiment.hold_out
        kept = [divided(len(one.y), share, draw(self.seed, at)).trained for at, one in enumerate(rows)]
        rows = [one._replace(x=one.x[own], y=one.y[own]) for one, own in zip(rows, kept, strict=True)]
        longest = max(len(one.y) for one in rows)
        x = np.stack([_padded(planned.features.apply(one.x), longest) for one in rows])
        y = np.stack([_padded(one.y, longest) for one in rows])
        counts = np.array([len(one.y) for one in rows], np.int32)
        mixer = topologies.mixer(planned.task.topology, planned.gossip_steps)
        if program.aggregate is not None:
            mixer = topologies.aggregate(program.aggregate)
        import jax.numpy as jnp

        shards = Shards(jnp.asarray(x), jnp.asarray(y), jnp.asarray(counts))
        return simulate(program, shards, mixer, seed=self.seed, transcript=True)

    def undisturbed(self) -> list[np.ndarray]:
        """Each owner's model, had nothing gone wrong; the noise is the simulator's."""
        import jax

        leaves = [np.asarray(leaf) for leaf in jax.tree.leaves(self.simulated().model)]
        rows = [at if len(leaves[0]) > 1 else 0 for at in range(len(self.planned.agreement.owners))]
        return [np.concatenate([leaf[row].ravel() for leaf in leaves]) for row in rows]

    def allow(self, epsilon: float) -> None:
        """Every owner's own budget over all runs."""
        for name in self.planned.agreement.owners:
            own = party.read(self.place(name))
            (self.place(name) / party.NAME).write_text(replace(own, epsilon=epsilon).to_toml())

    def add(self, name: str, size: int) -> None:
        """One more owner, under a new agreement."""
        where = f"127.0.0.1:{ports(1)[0]}"
        self.planned = network.add(self.folder / "net", name, size, 1.0, where)

    def revoke(self, name: str) -> None:
        """One owner less, under a new agreement."""
        self.planned = network.revoke(self.folder / "net", name)

    def write_records(self, sizes: Sequence[int]) -> None:
        everyone = worlds.shards(tuple(sizes), DIM)
        for at, size in enumerate(sizes):
            name = f"owner-{at}"
            with (self.folder / f"{name}.csv").open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow([*(f"x{one}" for one in range(DIM)), "y"])
                for x, y in zip(
                    np.asarray(everyone.x[at, :size]).tolist(), np.asarray(everyone.y[at, :size])
                ):
                    writer.writerow([*(f"{value:.7g}" for value in x), "yes" if y > 0 else "no"])


def until(condition: Callable[[], bool], seconds: float = LONG) -> None:
    """Wait for it."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def _padded(rows: np.ndarray, longest: int) -> np.ndarray:
    return np.concatenate([rows, np.zeros((longest - len(rows), *rows.shape[1:]), rows.dtype)])


def _end_with_the_parent() -> None:
    """However the program that started this one ends, this one does, also while it stands still: of a pipe whose other
    end is gone the kernel tells by a signal, and here that is SIGKILL."""
    parent = mp.parent_process()
    if sys.platform == "linux" and parent is not None:
        fcntl.fcntl(parent.sentinel, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(parent.sentinel, fcntl.F_SETSIG, signal.SIGKILL)
        fcntl.fcntl(parent.sentinel, fcntl.F_SETFL, os.O_ASYNC)


def _party(place: Path, data: Path | None, injected_seed: int | None, skew: float) -> None:
    """The body of one process: what `coterie node` does."""
    _end_with_the_parent()
    if skew:
        right = time.time
        time.time = lambda: right() + skew
    import jax

    from coterie.cli._cache import keep_compiled
    from coterie.errors import CoterieError
    from coterie.federation import node, outcome
    from coterie.federation.drive import stopping

    keep_compiled()
    compiling.share_contexts()
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0)  # hundreds of parties compile the same
    log = (place / "test.log").open("a", buffering=1)
    try:
        with stopping() as stop:
            host = node.Host(log=lambda line: print(line, file=log), stop=stop)
            found = node.run(
                party.read(place), data, host,
                injected_seed=injected_seed, linger=60.0,  # as nodes do; waited for where others have ended
            )  # fmt: skip
    except CoterieError as error:
        print(f"error: {error}", file=log)
        sys.exit(error.exit_status)
    if not found.finished:
        sys.exit(9)
    outcome.write(found, place / "result")
