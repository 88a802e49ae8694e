"""What stands between parties is named in words: another agreement, a certificate's end, an unknown host."""

from __future__ import annotations

import datetime as dt
import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from parties import Trial
from typer.testing import CliRunner
from wired import LONG

from coterie.cli import app
from coterie.errors import InputError
from coterie.federation import node, party, troubles
from coterie.federation.transport import trust

NOW = dt.datetime(2027, 1, 1, 12, tzinfo=dt.UTC)


class Nodes:
    """Some parties of a trial, for at most some seconds or until a line was said by each."""

    def __init__(self, trial: Trial, names: tuple[str, ...], words: str, seconds: float = LONG) -> None:
        self.lines: dict[str, list[str]] = {name: [] for name in names}
        self.outcomes: dict[str, node.Outcome] = {}
        self._end, self._words = time.monotonic() + seconds, words
        threads = [threading.Thread(target=self._run, args=(trial, name)) for name in names]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def said(self, name: str) -> list[str]:
        return [line for line in self.lines[name] if self._words in line]

    def _stop(self) -> bool:
        return time.monotonic() > self._end or all(map(self.said, self.lines))

    def _run(self, trial: Trial, name: str) -> None:
        self.outcomes[name] = node.run(
            party.read(trial.place(name)),
            trial.folder / f"{name}.csv",
            node.Host(log=self.lines[name].append, stop=self._stop),
        )


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path, (7, 8), protocol="dual_averaging", settings={"rounds": 4}, gossip_steps=1)


def test_owners_with_two_agreements_say_so_with_both_hashes(trial):
    edited = trial.place("owner-1") / "agreement.json"
    edited.write_text(edited.read_text().replace('"clock": 50.0', '"clock": 49.0'))
    nodes = Nodes(trial, ("owner-0", "owner-1"), "follows another agreement")
    hashes = {name: node.agreements.read(trial.place(name) / "agreement.json").digest for name in trial.names}
    assert hashes["owner-0"] != hashes["owner-1"]
    for name, other in (("owner-0", "owner-1"), ("owner-1", "owner-0")):
        (said,) = nodes.said(name)
        assert said.startswith(f"{other} follows another agreement")
        assert all(one[:8].hex() in said for one in hashes.values())
        assert nodes.outcomes[name].charged == 0


def renewed(trial: Trial, monkeypatch: pytest.MonkeyPatch, name: str, days: float) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(trust, "_PARTY_DAYS", days)
        patched.setattr(trust, "_SKEW", dt.timedelta(days=5))
        assert CliRunner().invoke(app, ["network", "renew", str(trial.folder / "net"), name]).exit_code == 0


def test_a_certificate_that_has_ended_is_named_by_its_owner_and_by_who_waits_for_it(trial, monkeypatch):
    renewed(trial, monkeypatch, "owner-1", -1)
    day = f"{trust.end_of(trial.place('owner-1') / trust.CERTIFICATE):%Y-%m-%d}"
    nodes = Nodes(trial, ("owner-0",), "the certificate of owner-1")
    assert f"ended on {day}" in nodes.said("owner-0")[0]
    assert any(day in line for line in nodes.outcomes["owner-0"].status["troubles"])
    with pytest.raises(InputError, match=f"the certificate of 'owner-1' expired on {day}"):
        trust.identity(trial.place("owner-1"), "owner-1")


def test_an_end_is_told_from_thirty_days_before():
    ends = {
        "a": NOW + dt.timedelta(days=31),
        "b": NOW + dt.timedelta(days=29),
        "c": NOW - dt.timedelta(days=1),
    }
    b, c = troubles.ending(ends, NOW)
    assert b.startswith("the certificate of b ends on 2027-01-30, in 29 days")
    assert c.startswith("the certificate of c ended on 2026-12-31")


def test_a_renewed_certificate_is_of_the_same_key_and_everybody_knows_its_end(trial, monkeypatch):
    place, key = trial.place("owner-1"), (trial.place("owner-1") / trust.PRIVATE_KEY).read_bytes()
    renewed(trial, monkeypatch, "owner-1", 20)
    trust.identity(place, "owner-1")  # key, name and signature belong together
    assert (place / trust.PRIVATE_KEY).read_bytes() == key
    end = trust.end_of(place / trust.CERTIFICATE)
    for name in trial.names:
        listed = json.loads((trial.place(name) / "certificates.json").read_text())
        assert dt.datetime.fromisoformat(listed["owner-1"]) == end
    found = CliRunner().invoke(app, ["network", "renew", str(trial.folder / "net"), "nobody"])
    assert (found.exit_code, "Parties: owner-0, owner-1" in found.stderr) == (2, True)


def test_a_host_that_nobody_knows_is_named(trial, monkeypatch):
    asked = socket.getaddrinfo

    def lookup(host: Any, *rest: Any, **more: Any) -> Any:
        if host == "ml.nowhere.example":
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return asked(host, *rest, **more)

    monkeypatch.setattr(socket, "getaddrinfo", lookup)
    own = party.read(trial.place("owner-1"))
    text = (trial.place("owner-1") / party.NAME).read_text()
    wrong = text.replace(own.peers["owner-0"], "ml.nowhere.example:17471")
    (trial.place("owner-1") / party.NAME).write_text(wrong)
    nodes = Nodes(trial, ("owner-1",), "does not resolve")
    assert nodes.said("owner-1")[0].startswith("the address of owner-0, ml.nowhere.example:17471")
