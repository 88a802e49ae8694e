"""Networks of real owners in four shapes under faults, on lines that take their time. `traces.py` reads what is left.

    cd tests/federation; PYTHONPATH=..:../../src python -m chaos FOLDER [SHAPE [SEED …]]

Without shape and seeds, all 200 faults: four shapes, five seeds of each, ten faults in a run, each with a line of its
own at the end. The shapes may run beside each other.
"""

from __future__ import annotations

import json
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import traces
from links import Links
from parties import Trial, until
from ports import ports

from coterie.federation import party
from coterie.federation.transport.machine import Patience

SEEDS, FAULTS = (1, 2, 3, 4, 5), 10  # of each shape
PATIENT = (4, 5)  # seeds of runs that wait for everybody: their models must be the undisturbed run's
REFUSED = 3  # the exit status of a ledger that is not the whole truth
ROOM = 65_536  # bytes that a file may still have on a full disk
SIZES = (40, 30, 35, 25)
DELAY = 0.02  # seconds on a line, one way, while faults are made: so the run is not over before them
LONG = 400.0  # seconds for what takes a few, on a machine that has other things to do


# Experiments that take two minutes on such lines, and a quarter of that without the delay.
SHAPES: dict[str, dict[str, Any]] = {
    "rounds": {
        "protocol": "dual_averaging",
        "settings": {"rounds": 3_000},
        "topology": "ring",
        "gossip_steps": 1,
    },
    "hub": {"protocol": "weighted_erm", "settings": {"steps": 3_000, "step_size": 0.5}},
    "learner": {"protocol": "async_learner", "settings": {"ticks": 800}, "clock": 2.0},
    "walk": {"protocol": "random_walk", "settings": {"batch": 1, "passes": 14}},
}


class Drill:
    """A run, its lines, and what can happen to it."""

    def __init__(self, folder: Path, shape: str, seed: int, patient: bool) -> None:
        """`patient`: everybody waits for everybody, and the noise is the simulation's."""
        patience = Patience(wait=LONG if patient else 3.0, retry=0.2)
        self.trial = Trial(folder, SIZES, patience=patience, **SHAPES[shape])
        self.links = Links(self.trial, DELAY)
        self.shape, self.patient, self.chance = shape, patient, random.Random(f"{shape} {seed}")
        self.folder, self.owners = folder, self.trial.planned.agreement.owners
        self._moments = count()
        schedule = self.trial.planned.program.schedule
        self.last = int(schedule) if np.ndim(schedule) == 0 else len(np.asarray(schedule))

    def disturb(self, faults: list[str]) -> None:
        """One fault after the other, each when the run goes on after the one before; then wait for its end."""
        for name in self.trial.names:
            self.start(name)
        for fault in faults:
            until(lambda due=self.step + self.last // 100: self.step >= due, LONG)
            self.moment()
            assert self.step < self.last, f"the run was over before {fault}"
            FAULT[fault](self)
        self.links.delay = 0.0
        self.trial.finish(LONG)

    def start(self, name: str, **how: Any):
        return self.trial.start(name, injected=self.patient, **how)

    @property
    def step(self) -> int:
        """How far anybody is."""
        return max(self._step(name) for name in self.trial.names)

    def _step(self, name: str) -> int:
        path = self.trial.place(name) / "status.json"
        return json.loads(path.read_text())["step"] if path.exists() else 0

    def anybody(self) -> str:
        return self.chance.choice(self.trial.names)

    def pause(self) -> None:
        time.sleep(5 * self.chance.random())  # shorter and longer than the owners' patience

    # What can happen.

    def killed(self) -> None:
        """`kill -9`, and again."""
        name = self.anybody()
        self.trial.kill(name)
        self.start(name)

    def frozen(self) -> None:
        """A machine that sleeps for a while."""
        name = self.anybody()
        self.trial.kill(name, signal.SIGSTOP)
        self.pause()
        self.trial.kill(name, signal.SIGCONT)

    def held(self) -> None:
        """A line on which nothing passes for a while."""
        line = self.chance.choice(self.links.lines)
        self.links.hold(line)
        self.pause()
        self.links.mend(line)

    def cut(self) -> None:
        """A partition: all lines of a party break, and are there again after a while."""
        lines = self.links.of(self.anybody())
        for line in lines:
            self.links.cut(line)
        self.pause()
        for line in lines:
            self.links.mend(line)

    def disk(self) -> None:
        """No room for what an owner must write down: it stops, and goes on when there is."""
        name = self.chance.choice(self.owners)
        process = self.trial.processes[name]
        assert process.pid is not None
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (ROOM, resource.RLIM_INFINITY))
        process.join(LONG)
        assert process.exitcode == 2, f"{name} on a full disk: {process.exitcode}\n{self.trial.log(name)}"
        self.start(name)

    def clock(self) -> None:
        """A machine that starts again with another time of day, minutes away."""
        name = self.anybody()
        self.trial.kill(name)
        self.start(name, skew=self.chance.choice((-600.0, 600.0)))

    def restored(self) -> None:
        """An owner's files as they were a while ago: refused before anything leaves, and the newest go on."""
        name = self.chance.choice(self.owners)
        self.trial.kill(name)
        older = self._kept(name)
        before = max(traces.steps(older / "ledger.sqlite"), default=0)
        self.start(name)
        until(lambda: self._known(name) > before, LONG)  # what has reached nobody may be drawn again
        self.trial.kill(name)
        newest = self._kept(name)
        self._put(name, older)
        process = self.start(name)
        process.join(LONG)
        assert process.exitcode == REFUSED, (process.exitcode, self.trial.log(name)[-2_000:])
        self._kept(name)  # nothing may be in it that the newest lacks
        self._put(name, newest)
        self.start(name)

    def copied(self) -> None:
        """A second machine with the same certificate: refused, and the first goes on."""
        name = self.owners[-1]  # who dials the others
        self.trial.kill(name, signal.SIGSTOP)
        copy = self._moment() / name
        shutil.copytree(self.trial.place(name), copy)
        self.trial.kill(name, signal.SIGCONT)
        own = replace(party.read(copy), listen=f"127.0.0.1:{ports(1)[0]}")
        (copy / party.NAME).write_text(own.to_toml())
        process = self.start(name, place=copy)
        process.join(LONG)
        assert process.exitcode == REFUSED, (process.exitcode, (copy / "test.log").read_text()[-2_000:])
        del self.trial.processes[str(copy)]

    # What is kept for the reader of traces.

    def moment(self) -> Path:
        """All ledgers and journals while everybody stands still."""
        place = self._moment()
        with self._still():
            for name in self.trial.names:
                self._copy(name, place / name)
        return place

    def _known(self, name: str) -> int:
        """The last of an owner's releases that all of its peers know of."""
        time.sleep(0.5)
        place = self.moment()
        return min(self._last_mark(place / peer, name) for peer in self.trial.planned.peers(name))

    def _last_mark(self, place: Path, of: str) -> int:
        (journal,) = place.glob("journal-*.sqlite")
        return max((step for owner, step, _ in traces.told(journal) if owner == of), default=0)

    @contextmanager
    def _still(self) -> Iterator[None]:
        running = [name for name, one in self.trial.processes.items() if one.is_alive()]
        for name in running:
            self.trial.kill(name, signal.SIGSTOP)
        try:
            yield
        finally:
            for name in running:
                self.trial.kill(name, signal.SIGCONT)

    def _moment(self) -> Path:
        return self.folder / "earlier" / f"{next(self._moments):03d}" / "parties"

    def _kept(self, name: str) -> Path:
        """A copy of the files of one who is down."""
        place = self._moment() / name
        self._copy(name, place)
        return place

    def _copy(self, name: str, place: Path) -> None:
        place.mkdir(parents=True)
        for file in self._files(name):
            shutil.copy(file, place / file.name)

    def _put(self, name: str, content: Path) -> None:
        for file in self._files(name):
            file.unlink()
        for file in content.iterdir():
            shutil.copy(file, self.trial.place(name) / file.name)

    def _files(self, name: str) -> list[Path]:
        place = self.trial.place(name)
        return [file for kind in ("ledger", "journal") for file in place.glob(f"{kind}*")]

    def undisturbed(self) -> None:
        """Write down the models of a run without faults and with the same noise."""
        (self.folder / "undisturbed").mkdir()
        for name, model in zip(self.owners, self.trial.undisturbed(), strict=True):
            np.save(self.folder / "undisturbed" / f"{name}.npy", model)

    def check(self) -> traces.Found:
        """What another program finds in the files."""
        for name in self.trial.names:
            assert "Traceback" not in self.trial.log(name), self.trial.log(name)
        if self.patient:
            self.undisturbed()
        return traces.read(self.folder, alike=self.shape != "rounds")  # gossip promises nearness alone

    def close(self) -> None:
        self.trial.stop()
        self.links.close()


FAULT: dict[str, Callable[[Drill], None]] = {
    "killed": Drill.killed,
    "frozen": Drill.frozen,
    "held": Drill.held,
    "cut": Drill.cut,
    "disk": Drill.disk,
    "clock": Drill.clock,
    "restored": Drill.restored,
    "copied": Drill.copied,
}


def faults_of(shape: str, seed: int) -> list[str]:
    """Every kind once, in any order, and then more of the usual ones."""
    chance = random.Random(f"faults {shape} {seed}")
    kinds = chance.sample(list(FAULT), len(FAULT))
    return [*kinds, *chance.choices(["killed", "frozen", "held", "cut"], k=FAULTS - len(kinds))]


def play(folder: Path, shape: str, seed: int, faults: list[str], patient: bool) -> traces.Found:
    """One run under faults."""
    folder.mkdir(parents=True, exist_ok=True)
    drill = Drill(folder, shape, seed, patient)
    try:
        drill.disturb(faults)
        return drill.check()
    finally:
        drill.close()


def main(folder: Path, shapes: list[str], seeds: list[int]) -> None:
    for shape in shapes:
        for seed in seeds:
            began, faults = time.monotonic(), faults_of(shape, seed)
            found = play(folder / f"{shape}-{seed}", shape, seed, faults, patient=seed in PATIENT)
            took = time.monotonic() - began
            print(f"{shape}, seed {seed}, {took:.0f} s: {', '.join(faults)}: {found}", flush=True)


if __name__ == "__main__":
    words = sys.argv[2:]
    main(Path(sys.argv[1]), words[:1] or list(SHAPES), [int(one) for one in words[1:]] or list(SEEDS))
