"""Real parties for tests: a network's folders, files of records, and one process for each party.

Processes are forked from a server that has imported what a node needs and has done nothing with it yet: an
interpreter that imports JAX for itself takes seconds, and these tests start hundreds.
"""

from __future__ import annotations

import csv
import multiprocessing as mp
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
import worlds

from coterie import topologies
from coterie.accounting.ledger import Ledger
from coterie.engines.federate.machine import Patience
from coterie.engines.simulate import simulate
from coterie.experiments.experiment import Experiment
from coterie.experiments.federation import network, party
from coterie.experiments.federation.agreement import Agreement
from coterie.experiments.federation.collaboration import Collaboration
from coterie.experiments.federation.node import identity_of
from coterie.problems.datasets.schema import Schema
from coterie.program import Shards

DIM = 3
_CONTEXT = mp.get_context("forkserver")
_CONTEXT.set_forkserver_preload(
    [
        "coterie.engines.federate.zenoh",
        "coterie.experiments.federation.outcome",
        "cryptography.x509",
        "dp_accounting",
        "jax",
        "networkx",
        "pandas",
        "scipy.optimize",
        "scipy.stats",
        "zenoh",
    ]
)


class Trial:
    """A network of real processes under a folder."""

    def __init__(self, folder: Path, sizes: Sequence[int], **terms: Any) -> None:
        """`terms` are the experiment's, but for `patience` and `clock`, which are the agreement's."""
        self.folder, self.seed = folder, 5
        names = [f"owner-{at}" for at in range(len(sizes))]
        patience, clock = terms.pop("patience", Patience(wait=30.0)), terms.pop("clock", 50.0)
        agreement = Agreement(
            name="trial",
            experiment=Experiment(delta=1e-4, penalty="l2", strength=0.01, **terms),
            schema=Schema(
                target="y", columns={f"x{at}": (-1.0, 1.0) for at in range(DIM)}, classes=("no", "yes")
            ),
            sizes=dict(zip(names, sizes)),
            patience=patience,
            clock=clock,
        )
        addresses = {
            name: f"127.0.0.1:{port}"
            for name, port in zip([*names, "learner", "aggregator"], ports(len(names) + 2))
        }
        hub = network.settled(agreement).hub
        wanted = {name: where for name, where in addresses.items() if name in names or name == hub}
        self.planned: Collaboration = network.found(folder / "net", agreement, wanted, None)
        if self.planned.program.plan.quorum:
            for name in names:
                own = party.read(self.place(name))
                (self.place(name) / party.NAME).write_text(replace(own, trusts_aggregator=True).to_toml())
        self._write_records(sizes, names)
        self.processes: dict[str, BaseProcess] = {}

    @property
    def names(self) -> tuple[str, ...]:
        return self.planned.parties

    def place(self, name: str) -> Path:
        return self.folder / "net" / "parties" / name

    def start(self, name: str, injected: bool = True) -> BaseProcess:
        data = None if name == self.planned.hub else self.folder / f"{name}.csv"
        process = _CONTEXT.Process(
            target=_party, args=(self.place(name), data, self.seed if injected else None)
        )
        process.start()
        self.processes[name] = process
        return process

    def kill(self, name: str, number: int = signal.SIGKILL) -> None:
        process = self.processes[name]
        assert process.pid is not None
        os.kill(process.pid, number)
        if number == signal.SIGKILL:
            process.join()

    def finish(self, seconds: float = 400.0) -> None:
        """Wait for all; every party must end well."""
        deadline = time.monotonic() + seconds
        for name, process in self.processes.items():
            process.join(max(0.1, deadline - time.monotonic()))
            assert process.exitcode == 0, f"{name}: {process.exitcode}\n{self.log(name)}"

    def stop(self) -> None:
        """End whatever still runs."""
        for process in self.processes.values():
            if process.is_alive():
                process.kill()
            process.join()

    def log(self, name: str) -> str:
        path = self.place(name) / "test.log"
        return path.read_text() if path.exists() else ""

    def model(self, name: str) -> np.ndarray:
        with np.load(self.place(name) / "result" / "model.npz") as stored:
            return np.concatenate([stored[key].ravel() for key in stored.files])

    def ledger(self, name: str) -> Ledger:
        at = self.planned.agreement.owners.index(name)
        return Ledger.open(
            self.place(name) / "ledger.sqlite",
            data_hash=identity_of(self.folder / f"{name}.csv"),
            epsilon=self.planned.task.epsilon[at],
            delta=self.planned.task.delta,
            relation=self.planned.program.plan.relation,
        )

    def simulated(self):
        """What `simulate` makes of the same records and keys."""
        planned = self.planned
        program, read = planned.program, planned.agreement.schema.read
        rows = [read(self.folder / f"{name}.csv") for name in planned.agreement.owners]
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

    def _write_records(self, sizes: Sequence[int], names: Sequence[str]) -> None:
        everyone = worlds.shards(tuple(sizes), DIM)
        for at, (name, size) in enumerate(zip(names, sizes)):
            with (self.folder / f"{name}.csv").open("w", newline="") as file:
                writer = csv.writer(file)
                writer.writerow([*(f"x{one}" for one in range(DIM)), "y"])
                for x, y in zip(
                    np.asarray(everyone.x[at, :size]).tolist(), np.asarray(everyone.y[at, :size])
                ):
                    writer.writerow([*(f"{value:.7g}" for value in x), "yes" if y > 0 else "no"])


def ports(count: int) -> list[int]:
    """Free ports: held all at once, so that they differ, and then let go."""
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    found = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return found


def until(condition: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for it."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.02)


def _padded(rows: np.ndarray, longest: int) -> np.ndarray:
    return np.concatenate([rows, np.zeros((longest - len(rows), *rows.shape[1:]), rows.dtype)])


def _party(place: Path, data: Path | None, injected_seed: int | None) -> None:
    """The body of one process: what `coterie node` does."""
    from coterie.engines.federate.drive import stopping
    from coterie.errors import CoterieError
    from coterie.experiments.federation import node, outcome

    log = (place / "test.log").open("a", buffering=1)
    try:
        with stopping() as stop:
            found = node.run(
                party.read(place), data, log=lambda line: print(line, file=log), stop=stop,
                injected_seed=injected_seed, linger=20.0,
            )  # fmt: skip
    except CoterieError as error:
        print(f"error: {error}", file=log)
        sys.exit(error.exit_status)
    if not found.finished:
        sys.exit(9)
    outcome.write(found, place / "result")
