"""Owners in memory who release sums of their features before they train, made as `node.run` makes real ones."""

from __future__ import annotations

import csv
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from in_memory import Network
from joined import joined

from coterie import topologies
from coterie.accounting.ledger import Ledger, terms_of
from coterie.engines.simulate import simulate
from coterie.experiments import centring
from coterie.experiments.experiment import Experiment
from coterie.federation import network, owner, records
from coterie.federation.agreement import Agreement, Masking
from coterie.federation.collaboration import Collaboration, collaboration
from coterie.federation.forgetting import without
from coterie.federation.party import Party
from coterie.federation.releases.journal import Journal
from coterie.federation.shapes.tables import NONE
from coterie.federation.training import Start, hub
from coterie.federation.transport.machine import Machine, Patience
from coterie.federation.transport.wire import Kind
from coterie.mechanisms import masks
from coterie.problems.datasets.schema import Schema
from coterie.problems.holdings import to_shards

SIZES, DIM, SEED, EPSILON = (60, 80, 70, 90), 3, 5, 8.0
QUICK = Patience(wait=3.0, retry=0.3)
SHAPES: dict[str, dict[str, Any]] = {
    "rounds": {"protocol": "dual_averaging", "settings": {"rounds": 4}, "topology": "ring"},
    "hub": {"protocol": "weighted_erm", "settings": {"steps": 4}},
    "learner": {"protocol": "async_learner", "settings": {"ticks": 8}},
    "walk": {"protocol": "wor_sgd", "settings": {"batch": 30}},
    "masked hub": {"protocol": "weighted_erm", "settings": {"view": "masked", "steps": 4}},
    "masked tree": {
        "protocol": "weighted_erm",
        "settings": {"view": "masked", "steps": 4},
        "topology": "complete",
        "aggregator": False,
    },
}
_READ: dict[Path, Any] = {}  # files are read by processes of their own: each once
_PLANNED: dict[bytes, Collaboration] = {}


class World:
    """An agreement with a centre, every party's folder, and what was sent."""

    def __init__(self, folder: Path, shape: str, monkeypatch: Any, **terms: Any) -> None:
        self.folder = folder
        self.names = [f"owner-{at}" for at in range(len(SIZES))]
        given = {"centre": 0.1, **SHAPES[shape], **terms}
        self.keys = {name: masks.public_key(_secret(at)) for at, name in enumerate(self.names)}
        aggregator = given.pop("aggregator", True)
        masked = given["settings"].get("view") == "masked"
        agreement = Agreement(
            name="trial",
            experiment=Experiment(delta=1e-4, epsilon=(EPSILON,), penalty="l2", strength=0.01, **given),
            schema=Schema(
                target="y", columns={f"x{at}": (-1.0, 1.0) for at in range(DIM)}, classes=("no", "yes")
            ),
            sizes=dict(zip(self.names, SIZES)),
            patience=QUICK,
            clock=20.0,
            masks=Masking("0" * 64, {name: key.hex() for name, key in self.keys.items()}) if masked else None,
            aggregator=aggregator,
        )
        self.agreement = network.settled(agreement).agreement
        self.budgets = dict.fromkeys(self.names, EPSILON)
        self.trip: Callable[[str], None] = lambda name: None
        self.drawn: dict[str, int] = defaultdict(int)  # how often an owner drew sums
        self.injected: int | None = SEED
        self.witnessed = False
        self.planned = _PLANNED.setdefault(self.agreement.digest, collaboration(self.agreement))
        for at, name in enumerate(self.names):
            self._written(at, name)
        monkeypatch.setattr(records, "read", self._read)
        monkeypatch.setattr(records, "known_to", lambda party, content, data, log: content)

    @property
    def parties(self) -> tuple[str, ...]:
        return self.planned.parties

    @property
    def step(self) -> int:
        """At which sums are released."""
        return self.planned.table_steps[0]

    def party(self, name: str) -> Party:
        known = {other: masks.fingerprint(key) for other, key in self.keys.items() if other != name}
        honest = known if self.agreement.masks else {}
        epsilon = self.budgets.get(name)
        return Party(
            name=name,
            folder=self.folder / name,
            honest=honest,
            trusts_aggregator=not honest,
            epsilon=None if epsilon == EPSILON else epsilon,
        )

    @contextmanager
    def process(self, name: str) -> Iterator[Machine]:
        party = self.party(name)
        party.folder.mkdir(exist_ok=True)
        planned, own = without(party, self.planned), None
        with ExitStack() as held:
            journal = held.enter_context(Journal.open(party.journal(self.agreement.run)))
            journal._connection.execute("PRAGMA synchronous = OFF")  # no power is cut here: quicker
            if name in self.names:
                data = self.folder / f"{name}.csv"
                making = owner.owner(party, planned, data, journal, self.injected, lambda line: None)
                own = held.enter_context(making)
                own.outlet.release = self._around(name, own.outlet.release)  # type: ignore[method-assign]
            journal.put = self._around(name, journal.put)  # type: ignore[method-assign]
            begin = Start(party, planned, own.machine if own else hub(party, journal, self.injected))
            sums = own and own.sums(planned)
            machine = begin.machine(sums and sums._replace(emit=self._counted(name, sums.emit)), journal)
            if self.witnessed:
                peers, steps = planned.peers(name), planned.last_step + len(planned.table_steps)
                terms: Any = {"steps": steps, "first": 1, "again": 1, "patience": QUICK}
                machine = joined(
                    machine, name, peers, journal, own and own.outlet, opening=self.step, **terms
                )
            yield machine

    def network(self, **options: Any) -> Network:
        return Network({name: lambda name=name: self.process(name) for name in self.parties}, **options)

    def check(self, network: Network) -> None:
        """One version of every owner's sums, which its ledger holds, charged once, before anything else of it."""
        versions: dict[int, set[bytes]] = defaultdict(set)
        for frame in network.sent:
            if frame.message.kind == Kind.TABLE and frame.message.step == self.step:
                versions[frame.message.sub].add(frame.message.body)
        for at, name in enumerate(self.names):
            with self.ledger(name) as ledger:
                stored = ledger.stored(self.agreement.run, self.step)
                assert versions[at] <= {stored or NONE}
                assert ledger.spent().epsilon <= self.budgets[name] + 1e-9

    @contextmanager
    def ledger(self, name: str) -> Iterator[Ledger]:
        path = self.party(name).ledger
        terms = terms_of(path)
        with Ledger.open(
            path, data_hash=terms.data_hash, epsilon=terms.epsilon, delta=terms.delta, relation=terms.relation
        ) as ledger:
            yield ledger

    @cached_property
    def simulated(self) -> tuple[Any, Any]:
        """Every owner's model, and what was taken off, as a simulation of the same records has them."""
        planned, program = self.planned, self.planned.program
        rows = [_READ[self.folder / f"{name}.csv"][0] for name in self.names]
        ends = np.cumsum([0, *(len(one.y) for one in rows)])
        table = replace(
            self.agreement.table,
            x=np.concatenate([one.x for one in rows]),
            y=np.concatenate([one.y for one in rows]),
        )
        trained = [np.arange(last - len(one.y), last) for one, last in zip(rows, ends[1:])]
        experiment = replace(self.agreement.experiment, seed=SEED)
        mapped, told = centring.release(experiment, table, trained, program, planned.plain)
        shards = to_shards(mapped.apply(table.x), table.y, trained)
        mixer = topologies.mixer(planned.task.topology, planned.gossip_steps)
        if program.aggregate is not None:
            mixer = topologies.aggregate(program.aggregate)
        model = simulate(program, jax.tree.map(jnp.asarray, shards), mixer, seed=SEED).model
        return jax.tree.map(np.asarray, model), told

    def _counted(self, name: str, emit: Callable[[Any], bytes]) -> Callable[[Any], bytes]:
        def counted(model: Any) -> bytes:
            self.drawn[name] += 1
            return emit(model)

        return counted

    def _around(self, name: str, action: Any) -> Any:
        def call(*given: Any) -> Any:
            self.trip(name)
            result = action(*given)
            self.trip(name)
            return result

        return call

    def _read(self, party: Party, planned: Collaboration, data: Path) -> Any:
        if data not in _READ:
            from coterie.problems.datasets.frames import read_frame
            from coterie.problems.datasets.identity import identity

            _READ[data] = planned.agreement.schema.read(data), identity(read_frame(data))
        return _READ[data]

    def _written(self, at: int, name: str) -> None:
        """Records that lie together, far from the middle of their ranges."""
        draw = np.random.default_rng(at)
        x = np.clip(0.7 + 0.15 * draw.standard_normal((SIZES[at], DIM)), -1, 1)
        x[:, 1] *= -1
        y = (x - [0.7, -0.7, 0.7]) @ [1.0, 1.0, -1.0] + 0.05 * draw.standard_normal(SIZES[at]) > 0
        with (self.folder / f"{name}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*(f"x{one}" for one in range(DIM)), "y"])
            writer.writerows([*map("{:.7g}".format, row), "yes" if one else "no"] for row, one in zip(x, y))
        folder = self.folder / name
        folder.mkdir()
        (folder / "mask.key").write_bytes(_secret(at))
        (folder / "mask.key").chmod(0o600)


def trained(network: Network, names: Sequence[str]) -> list[Any]:
    """The models of those who have one."""
    return [network.machines[name].model() for name in names]


def _secret(at: int) -> bytes:
    return bytes([at + 1]) * 32
