"""A year of a network, by the commands that docs/administration.md names, with real processes under another date.

    cd tests/federation; PYTHONPATH=..:../../src python -m year FOLDER

Three runs; certificates renewed before they end; one owner joins, one node is of the next version, one machine is
restored from an old backup in the middle of a run, one key is rotated, one owner is lost for good and forgotten.
Every process, TLS and all, is told the date by `wallclock.c`. `traces.py` reads what is left.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import traces
from parties import until
from ports import ports

from coterie.federation import party

SIZES = {"north": 40, "south": 30, "east": 35, "west": 25}
FOUNDERS = ("north", "south", "east")
ROUNDS = 1_500
BUDGET = 4.0  # every owner's own, over all runs
NEXT = "0.2.0"
LONG = 400.0  # seconds for what takes a few, on a machine that has other things to do
_NEXT_VERSION = f"import coterie; coterie.__version__ = '{NEXT}'; from coterie.cli import main; main()"
_DAY = 86_400


class Year:
    """The founder's folder, the owners' own, and the date. Whatever happens is a command, or a file that is sent."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.founder = folder, folder / "founder"
        self.day, self.nodes = 0, dict[str, subprocess.Popen]()
        self.upgraded: set[str] = set()
        self._clock = folder / "wallclock.so"
        source = Path(__file__).with_name("wallclock.c")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self._clock, source, "-ldl"], check=True)
        for name, size in SIZES.items():
            _write_records(folder / f"{name}.csv", size, seed=name)

    def home(self, name: str) -> Path:
        return self.folder / "net" / "parties" / name

    def on(self, day: int, what: str) -> None:
        self.day = day
        print(f"day {day}: {what}", flush=True)

    def do(self, *words: object, status: int = 0) -> str:
        """One command of today, to its end. What it said."""
        done = subprocess.run(
            [sys.executable, "-m", "coterie", *map(str, words)],
            env=self._today(), cwd=self.folder, capture_output=True, text=True, timeout=LONG,
        )  # fmt: skip
        print(f"    coterie {' '.join(map(str, words))}".replace(f"{self.folder}/", ""), flush=True)
        said = done.stdout + done.stderr
        assert done.returncode == status, (done.returncode, said)
        return said

    def _today(self) -> dict[str, str]:
        return {**os.environ, "LD_PRELOAD": str(self._clock), "WALLCLOCK_AHEAD": str(self.day * _DAY)}

    def send(self, name: str, *files: str) -> None:
        """What the founder has for a party; of node.toml only the peers, for the rest is the owner's own."""
        sent = self.founder / "parties" / name
        for file in files or ("agreement.json", "certificates.json", "certificate.pem", "authority.pem"):
            shutil.copy(sent / file, self.home(name) / file)
        own = replace(party.read(self.home(name)), peers=party.read(sent).peers)
        (self.home(name) / party.NAME).write_text(own.to_toml())

    def welcome(self, name: str) -> None:
        """A whole folder for a new party, who says what it allows over all runs."""
        shutil.copytree(self.founder / "parties" / name, self.home(name))
        own = replace(party.read(self.home(name)), epsilon=BUDGET)
        (self.home(name) / party.NAME).write_text(own.to_toml())

    # Nodes.

    def start(self, *names: str) -> None:
        for name in names:
            program = ["-c", _NEXT_VERSION] if name in self.upgraded else ["-m", "coterie"]
            words = ["node", self.home(name), "--data", self.folder / f"{name}.csv", "--log-format", "json"]
            with (self.home(name) / "node.log").open("a") as log:
                self.nodes[name] = subprocess.Popen(
                    [sys.executable, *program, *map(str, words)],
                    env=self._today(), cwd=self.folder, stdout=log, stderr=log,
                )  # fmt: skip

    def log(self, name: str) -> str:
        return (self.home(name) / "node.log").read_text()

    def ends(self, name: str, status: int) -> None:
        process = self.nodes.pop(name)
        assert process.wait(LONG) == status, (name, process.returncode, self.log(name)[-3_000:])

    def kill(self, name: str) -> None:
        process = self.nodes.pop(name)
        process.kill()
        process.wait()

    def stop(self, *names: str) -> None:
        """As a service manager does."""
        for name in names:
            self.nodes[name].send_signal(signal.SIGTERM)
        for name in names:
            self.ends(name, 0)

    def state(self, name: str) -> tuple[str, int]:
        path = self.home(name) / "status.json"
        said = json.loads(path.read_text()) if path.exists() else {"state": "", "step": 0}
        return said["state"], said["step"]

    def middle(self, names: Sequence[str]) -> None:
        """Wait until the run of these is well under way."""
        begun = time.time()
        until(lambda: all(self._since(name, begun) > ROUNDS // 10 for name in names), LONG)

    def _since(self, name: str, moment: float) -> int:
        path = self.home(name) / "status.json"
        return self.state(name)[1] if path.exists() and path.stat().st_mtime > moment else 0

    def keep(self, moment: str, name: str) -> None:
        """An owner's files as they are, for the reader of traces."""
        place = self.folder / "earlier" / moment / "parties" / name
        place.mkdir(parents=True)
        for kind in ("ledger", "journal"):
            for file in self.home(name).glob(f"{kind}*"):
                shutil.copy(file, place / file.name)

    def close(self) -> None:
        for name in list(self.nodes):
            self.kill(name)


def founding(year: Year) -> None:
    """The network, and its first run."""
    year.on(0, "three owners found a network")
    addresses = [f"{name}=127.0.0.1:{port}" for name, port in zip(FOUNDERS, ports(3))]
    sizes = ",".join(str(SIZES[name]) for name in FOUNDERS)
    year.do(
        "network", "new", year.founder, "--owners", ",".join(FOUNDERS), "--sizes", sizes, "--columns", "columns.toml",
        "--topology", "complete", "--gossip-steps", 1, "--delta", 1e-4, "--evaluate", 0, "--wait", 5,
        "--set", f"rounds={ROUNDS}", *(word for one in addresses for word in ("--address", one)),
    )  # fmt: skip
    for name in FOUNDERS:
        year.welcome(name)
    year.on(1, "the first run")
    year.start(*FOUNDERS)
    for name in FOUNDERS:
        year.ends(name, 0)
        year.keep("run-1", name)
    year.do("ledger", "backup", year.home("south") / "ledger.sqlite", year.folder / "south.ledger")


def renewal(year: Year) -> None:
    """Certificates are about to end; who forgets to take the new one cannot start."""
    year.on(372, "certificates end in 25 days: their owners are told, and the founder renews them")
    node = ("node", year.home("north"), "--data", "north.csv")
    assert re.search("certificate of north ends on .*, in 2[45] days", year.do(*node, "--check", status=2))
    for name in FOUNDERS:
        year.do("network", "renew", year.founder, name)
    for name in FOUNDERS[1:]:
        year.send(name, "certificate.pem", "certificates.json")
    year.on(398, "the old certificates have ended, and north has not taken its new one")
    assert "expired on" in year.do(*node, status=2)
    year.send("north", "certificate.pem", "certificates.json")


def disaster(year: Year) -> None:
    """A fourth owner and a node of the next version; in the middle of that run a machine is lost."""
    year.on(399, "an owner joins; north installs the next version, the others stay")
    year.do(
        "network",
        "add",
        year.founder,
        "west",
        "--size",
        SIZES["west"],
        "--address",
        f"127.0.0.1:{ports(1)[0]}",
    )
    year.welcome("west")
    for name in FOUNDERS:
        year.send(name)
    year.upgraded.add("north")
    year.start(*SIZES)
    year.middle(list(SIZES))
    for name in ("south", "east", "west"):
        assert f"north runs coterie {NEXT}, this is" in year.log(name)
    assert "south runs coterie" in year.log("north")
    year.on(400, "south's machine is lost; it restores the backup of day 1 while the others go on")
    year.kill("south")
    year.keep("lost", "south")
    for kind in ("ledger", "journal", "status"):
        for file in year.home("south").glob(f"{kind}*"):
            file.unlink()
    year.do("ledger", "restore", year.folder / "south.ledger", year.home("south"))
    year.start("south")
    year.ends("south", 3)
    assert "holds this owner's release of step" in year.log("south")
    year.do("ledger", "write-off", year.home("south"))
    until(lambda: all(year.state(name) == ("lingering", ROUNDS) for name in year.nodes), LONG)
    year.stop(*list(year.nodes))


def new_key(year: Year) -> None:
    """A key is stolen; under the new agreement an owner is lost for good, and the others go on."""
    year.on(410, "east's key is stolen: it makes another")
    fresh = year.folder / "east-new"
    year.do("network", "request", fresh, "east")
    shutil.copy(fresh / "request.pem", year.folder / "east.pem")
    year.do("network", "rotate", year.founder, "east", "--request", year.folder / "east.pem")
    shutil.copy(fresh / "private.key", year.home("east") / "private.key")
    for name in SIZES:
        year.send(name)
    year.do("node", year.home("east"), "--sign")
    year.do("network", "consent", year.founder, year.home("east") / "consents" / "east.json")
    for name in SIZES:
        shutil.copytree(
            year.founder / "parties" / name / "consents", year.home(name) / "consents", dirs_exist_ok=True
        )
    year.start(*SIZES)
    year.middle(list(SIZES))
    year.on(411, "west's house burns down; the others decide to go on without it")
    year.kill("west")
    year.stop(*FOUNDERS)
    for name in FOUNDERS:
        year.do("network", "forget", year.home(name), "west")
    year.start(*FOUNDERS)
    for name in FOUNDERS:
        year.ends(name, 0)


def reckoning(year: Year) -> traces.Found:
    """Ledgers are whole, nobody spent more than it allowed, and nothing was drawn twice."""
    year.on(412, "the books are closed")
    for name in SIZES:
        ledger = year.home(name) / "ledger.sqlite"
        year.do("ledger", "verify", ledger)
        spent = json.loads(year.do("ledger", "show", ledger, "--json"))["spent"]
        assert 0 < float(spent["epsilon"]) <= BUDGET
        assert "Traceback" not in year.log(name)
    return traces.read(year.folder)


def play(folder: Path) -> traces.Found:
    """The whole year."""
    folder.mkdir(parents=True)
    year = Year(folder.resolve())
    _write_columns(folder / "columns.toml")
    try:
        for part in (founding, renewal, disaster, new_key):
            part(year)
        return reckoning(year)
    finally:
        year.close()


def _write_columns(path: Path) -> None:
    path.write_text('target = "y"\nclasses = ["no", "yes"]\n[columns]\na = [-1, 1]\nb = [-1, 1]\n')


def _write_records(path: Path, size: int, seed: str) -> None:
    chance = random.Random(seed)
    pairs = [(chance.uniform(-1, 1), chance.uniform(-1, 1)) for _ in range(size)]
    lines = [f"{a:.6f},{b:.6f},{'yes' if a + b > 0 else 'no'}" for a, b in pairs]
    path.write_text("\n".join(["a,b,y", *lines]) + "\n")


if __name__ == "__main__":
    began = time.monotonic()
    print(play(Path(sys.argv[1])), f"{time.monotonic() - began:.0f} s")
