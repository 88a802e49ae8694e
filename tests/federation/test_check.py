"""Dry runs: everything is tried, every trouble has its words, and nothing of the records leaves."""

from __future__ import annotations

import csv
import json
import shutil
import struct
import threading
import time
from pathlib import Path

import pytest
from parties import Trial, until
from typer.testing import CliRunner
from wired import LONG

from coterie.cli import app
from coterie.federation import check as dry
from coterie.federation import local, node, party
from coterie.federation.transport import greeting, wire
from coterie.federation.transport.wire import Kind
from coterie.federation.transport.zenoh import ZenohTransport


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is there has the time that it needs, whatever else this machine does."""
    monkeypatch.setattr(dry, "PATIENCE", LONG)


@pytest.fixture
def alone(patient: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody is expected to answer."""
    monkeypatch.setattr(dry, "PATIENCE", 0.2)


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(tmp_path, (7, 8), protocol="dual_averaging", settings={"rounds": 4}, gossip_steps=1)


def ask(trial: Trial, *names: str) -> list[dict]:
    pairs = [(party.read(trial.place(name)), trial.folder / f"{name}.csv") for name in names]
    return [dry.summary(one) for one in dry.check(pairs, lambda line: None)]


def files(trial: Trial) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in trial.folder.rglob("*") if path.is_file()}


def test_all_parties_reach_each_other_and_learn_what_the_run_costs(trial):
    before = files(trial)
    for told, other in zip(ask(trial, "owner-0", "owner-1"), ("owner-1", "owner-0")):
        assert (told["ready"], told["troubles"], told["warnings"]) == (True, [], [])
        (peer,) = told["peers"]
        assert (peer["name"], peer["reached"], abs(peer["clock_ahead_seconds"]) < 60) == (other, True, True)
        assert told["spent"] == told["charged"] == 0
        assert told["releases"] == 4
        assert 0 < told["cost"] <= told["budget"]
        assert told["left"] == pytest.approx(told["budget"] - told["cost"], abs=1e-9)
    assert files(trial) == before  # no ledger, no journal, no status, and no file has changed


def test_tables_that_are_published_count_as_releases(tmp_path, alone):
    trial = Trial(
        tmp_path, (260, 300), protocol="dual_averaging", settings={"rounds": 4}, epsilon=(8.0,), evaluate=0.3
    )
    (told,) = ask(trial, "owner-0")
    assert told["releases"] == 5


def spied(trial: Trial, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bytes]]:
    """Every frame that leaves in a dry run of all."""
    sent: list[tuple[str, bytes]] = []
    send = ZenohTransport.send

    def noted(self: ZenohTransport, peer: str, frame: bytes) -> None:
        sent.append((peer, frame))
        send(self, peer, frame)

    with monkeypatch.context() as patched:
        patched.setattr(ZenohTransport, "send", noted)
        assert all(told["ready"] for told in ask(trial, "owner-0", "owner-1"))
    return sent


def test_nothing_of_the_records_leaves(trial, monkeypatch):
    """A leak hunt: frames are greetings alone, and the same for any records but for the clock in them."""
    records = trial.folder / "owner-0.csv"
    rows = list(csv.reader(records.read_text().splitlines()))
    digest = trial.planned.agreement.digest
    said: list[set] = []
    for _ in range(2):
        began, sent = time.time(), spied(trial, monkeypatch)
        messages = [(peer, wire.decode(frame, digest, 10_000)) for peer, frame in sent]
        assert {message.kind for _, message in messages} == {Kind.HELLO}
        assert all(began - 1 < message.step / 1000 < time.time() + 1 for _, message in messages)
        said.append({(peer, message.body) for peer, message in messages})
        everything = b"".join(frame for _, frame in sent)
        for cell in {cell for row in rows[1:] for cell in row[:-1]}:
            for form in ("<f", ">f", "<d", ">d"):
                assert struct.pack(form, float(cell)) not in everything
            assert len(cell) > 5
            assert cell.encode() not in everything
        rows[1][0] = "0.987654"  # a neighbouring data set
        with records.open("w", newline="") as file:
            csv.writer(file).writerows(rows)
    assert said[0] == said[1] == {("owner-0", digest), ("owner-1", digest)}


class Running:
    """A real node beside the dry run, until the block ends."""

    def __init__(self, trial: Trial, name: str) -> None:
        self.over, self.lines = False, []
        self.outcome: node.Outcome | None = None
        self._thread = threading.Thread(target=self._run, args=(trial, name))

    def _run(self, trial: Trial, name: str) -> None:
        self.outcome = node.run(
            party.read(trial.place(name)),
            trial.folder / f"{name}.csv",
            node.Host(log=self.lines.append, stop=lambda: self.over),
        )

    def __enter__(self) -> Running:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over = True
        self._thread.join()


def test_a_waiting_node_is_reached_and_not_moved(trial, monkeypatch):
    with Running(trial, "owner-0") as running:
        until((trial.place("owner-0") / "status.json").exists)
        (told,) = ask(trial, "owner-1")
        assert told["ready"], told["troubles"]
        assert told["peers"][0]["certificate_ends"]
        monkeypatch.setattr(dry, "PATIENCE", 0.2)
        (own,) = ask(trial, "owner-0")  # beside its own node, which has port and journal
    assert "Perhaps this party's own node runs" in own["warnings"][0]
    assert running.outcome is not None
    assert (running.outcome.charged, running.outcome.status["alive"]) == (0, [])
    assert not any("another process" in line for line in running.lines)


def test_after_the_run_the_forecast_is_what_was_spent(trial):
    first = ask(trial, "owner-0", "owner-1")[0]
    with Running(trial, "owner-0") as one, Running(trial, "owner-1") as other:
        until(lambda: one.outcome is not None and other.outcome is not None)
    told = ask(trial, "owner-0", "owner-1")[0]
    assert (told["charged"], told["ready"]) == (4, True)
    assert told["spent"] == pytest.approx(first["after"], rel=1e-6)
    assert told["after"] == pytest.approx(first["after"], rel=1e-6)


def test_a_run_that_the_budget_does_not_allow_ends_with_status_3(trial):
    import dp_accounting

    with trial.ledger("owner-1") as ledger:
        ledger.charge("an earlier run", 1, dp_accounting.GaussianDpEvent(8.0), b"said")
    place, data = trial.place("owner-1"), trial.folder / "owner-1.csv"
    before = (place / "ledger.sqlite").read_bytes()
    pairs = [(party.read(place), data), (party.read(trial.place("owner-0")), trial.folder / "owner-0.csv")]
    found = dry.check(pairs, lambda line: None)
    told = dry.summary(found[0])
    assert 0 < told["spent"] < told["budget"] < told["after"]
    assert told["left"] == 0
    with pytest.raises(Exception, match="owner-1: not ready: epsilon=1: .* is spent") as raised:
        dry.refuse_troubles(found)
    assert raised.value.exit_status == 3
    assert (place / "ledger.sqlite").read_bytes() == before


def test_every_trouble_of_a_lonely_party_is_named_at_once(trial, alone):
    place = trial.place("owner-1")
    (place / "private.key").chmod(0o644)
    rows = (trial.folder / "owner-1.csv").read_text().splitlines()
    (trial.folder / "owner-1.csv").write_text("\n".join(rows[:-1]) + "\n")
    (told,) = ask(trial, "owner-1")
    said = " ".join(told["troubles"])
    for words in ("chmod 600", "has 7 records, the agreement says 8", "not tried, for what is said above"):
        assert words in said
    (place / "private.key").chmod(0o600)
    (told,) = ask(trial, "owner-1")
    assert "nobody listens at this port" in told["peers"][0]["says"]
    (told,) = ask(trial, "owner-0")
    assert "has not come; it dials this party, at 127.0.0.1" in told["peers"][0]["says"]


def test_a_disk_without_room_for_the_run_is_a_trouble(trial, alone, monkeypatch):
    usage = shutil.disk_usage(trial.folder)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=16 << 20))
    (told,) = ask(trial, "owner-0")
    assert [
        line for line in told["troubles"] if "the disk has room for 16.8 MB, and this run may write" in line
    ]
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=17 << 20))
    (told,) = ask(trial, "owner-0")
    assert not [line for line in told["troubles"] if "room" in line]


def test_another_agreement_is_named_with_both_hashes(trial):
    edited = trial.place("owner-1") / "agreement.json"
    edited.write_text(edited.read_text().replace('"clock": 50.0', '"clock": 49.0'))
    for told in ask(trial, "owner-0", "owner-1"):
        says = told["peers"][0]["says"]
        assert says.startswith("another agreement: its hash is ")
        assert told["agreement_sha256"][:16] in says


def test_a_node_with_another_agreement_is_named_too(trial):
    edited = trial.place("owner-0") / "agreement.json"
    edited.write_text(edited.read_text().replace('"clock": 50.0', '"clock": 49.0'))
    with Running(trial, "owner-0"):
        until((trial.place("owner-0") / "status.json").exists)
        (told,) = ask(trial, "owner-1")
    assert told["peers"][0]["says"].startswith("another agreement: its hash is ")


def test_who_starts_first_waits_for_the_others(trial):
    """One administrator's dry run finds nobody at the port; the other one's begins a moment later."""
    found: list[dict] = []
    first = threading.Thread(target=lambda: found.extend(ask(trial, "owner-1")))  # it dials the other
    first.start()
    time.sleep(2.0)
    (other,) = ask(trial, "owner-0")
    first.join()
    assert [found[0]["ready"], other["ready"]] == [True, True], (found, other)


def test_a_clock_that_is_minutes_off_is_a_warning(trial):
    found = dry.Check(party.read(trial.place("owner-0")), None, lambda line: None, with_file=False)
    found.local({})
    digest = trial.planned.agreement.digest
    late = greeting.hello(digest, time.time() - 180.0, answer=True)
    found._heard("owner-1", wire.encode(late, digest))
    found.close()
    assert found.troubles == []
    assert found.warnings[0].startswith("the clock of owner-1 is 180 seconds behind this one")


def test_a_greeting_without_a_clock_says_nothing_about_it():
    assert greeting.ahead(wire.Message(Kind.HELLO), 1e9) is None
    assert greeting.ahead(greeting.hello(b"", 1e9), 1e9 - 2) == pytest.approx(2.0)


def test_the_commands_say_it_and_end_with_a_status(trial, monkeypatch):
    net, runner = str(trial.folder / "net"), CliRunner()
    shown = runner.invoke(app, ["network", "check", net, "--data", str(trial.folder)])
    assert shown.exit_code == 0, shown.output
    assert shown.stdout.splitlines()[0].split()[:5] == ["from", "\\", "to", "owner-0", "owner-1"]
    assert shown.stdout.count("as the agreement says") == 4  # file and budget of both
    told = json.loads(runner.invoke(app, ["network", "check", net, "--json"]).stdout)
    assert (told["ready"], "units" in told["parties"][0], "after" in told["parties"][0]) == (
        True,
        False,
        True,
    )
    monkeypatch.setattr(dry, "PATIENCE", 0.2)
    (trial.place("owner-1") / "agreement.json").unlink()
    shown = runner.invoke(app, ["network", "check", net, "--json"])
    assert shown.exit_code == 2
    assert shown.stderr.count("\n") == 1
    assert not json.loads(shown.stdout)["parties"][0]["ready"]
    assert local.status(trial.folder / "net")[0]["state"] == "not started"


def test_an_owner_without_its_file_is_told_so(trial, alone):
    shown = CliRunner().invoke(app, ["node", str(trial.place("owner-1")), "--check"])
    assert shown.exit_code == 2
    assert "name the file with this owner's records" in shown.stderr
    assert not (trial.place("owner-1") / "ledger.sqlite").exists()
