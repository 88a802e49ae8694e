"""The drill: a machine is lost and its ledger comes back from a copy. Nothing is drawn twice."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from dp_accounting import SelfComposedDpEvent
from parties import Trial, until
from typer.testing import CliRunner
from wired import LONG

from coterie.accounting import certify
from coterie.accounting.ledger.recovery import opened
from coterie.accounting.plans import charges_of
from coterie.cli import app
from coterie.errors import CoterieError, LedgerError
from coterie.federation import network, node, owner, party, recovery
from coterie.federation.honest import charged_plan
from coterie.federation.releases.journal import Journal
from coterie.federation.releases.release import Outlet, OwnRun
from coterie.federation.transport.machine import Patience

ME, ENDLESS = "owner-2", 100_000  # rounds: no test sees their end


class Node:
    """A party in a thread: started, and stopped as a service manager stops it."""

    def __init__(self, trial: Trial, name: str) -> None:
        self.lines: list[str] = []
        self.snapshots: list[dict] = []
        self.error: CoterieError | None = None
        self._trial, self._name, self._over = trial, name, False
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        try:
            node.run(
                party.read(self._trial.place(self._name)),
                self._trial.folder / f"{self._name}.csv",
                node.Host(log=self.lines.append, stop=lambda: self._over, shown=self.snapshots.append),
            )
        except CoterieError as error:
            self.error = error

    @property
    def step(self) -> int:
        return self.snapshots[-1]["step"] if self.snapshots else 0

    @property
    def releases(self) -> int:
        return self.snapshots[-1]["releases"] if self.snapshots else 0

    def stop(self) -> None:
        self._over = True
        self._thread.join(LONG)
        assert not self._thread.is_alive()

    def refused(self) -> str:
        self._thread.join(LONG)
        assert isinstance(self.error, LedgerError), self.lines
        return str(self.error)


@pytest.fixture
def trial(tmp_path: Path) -> Trial:
    return Trial(
        tmp_path, (12, 7, 9), protocol="dual_averaging", settings={"rounds": ENDLESS}, topology="complete",
        gossip_steps=1, patience=Patience(wait=3.0, retry=0.2),
    )  # fmt: skip


@pytest.fixture
def nodes(trial: Trial) -> Iterator[dict[str, Node]]:
    found = {name: Node(trial, name) for name in trial.names}
    try:
        until(lambda: found[ME].step > 5)
        yield found
    finally:
        for one in found.values():
            one.stop()


def command(*words: object) -> dict:
    found = CliRunner().invoke(app, [*map(str, words), "--json"])
    assert found.exit_code == 0, found.output
    return json.loads(found.stdout)


def lose(trial: Trial) -> dict[int, bytes | None]:
    """The disk is gone, and a new one has what the founder sent. What had been released, for the test alone."""
    place = trial.place(ME)
    with opened(place / "ledger.sqlite") as ledger:
        run = trial.planned.agreement.run
        drawn = {step: ledger.stored(run, step) for step in ledger.rounds(run)}
    for kind in ("ledger", "journal", "status"):
        for file in place.glob(f"{kind}*"):
            file.unlink()
    return drawn


def same(trial: Trial, drawn: dict[int, bytes | None]) -> None:
    """No step has two messages: not one before the disaster and another one after it."""
    with opened(trial.place(ME) / "ledger.sqlite") as ledger:
        for step in ledger.rounds(trial.planned.agreement.run):
            assert drawn.get(step) in (None, ledger.stored(trial.planned.agreement.run, step))


def test_yesterday_s_copy_stops_the_run_and_is_written_off(trial, nodes, tmp_path):
    ledger, copy = trial.place(ME) / "ledger.sqlite", tmp_path / "copy"
    yesterday = command("ledger", "backup", ledger, copy)["rows"]
    before = nodes[ME].step
    until(lambda: nodes[ME].step > before + 5)
    nodes[ME].stop()
    drawn = lose(trial)
    assert yesterday < len(drawn)
    assert command("ledger", "restore", copy, trial.place(ME))["unsettled"] == [trial.planned.agreement.run]
    nodes[ME] = Node(trial, ME)
    assert "holds this owner's release of step" in nodes[ME].refused()
    assert owner.RESTORED in nodes[ME].lines
    same(trial, drawn)
    told = command("ledger", "write-off", trial.place(ME))
    plan = trial.planned.program.plan
    whole = certify(plan.event(2), delta=1e-4, relation=plan.relation).epsilon
    assert float(told["spent"]["epsilon"]) == pytest.approx(whole, rel=1e-6)
    nodes[ME] = Node(trial, ME)
    assert "was written off after a disaster" in nodes[ME].refused()
    same(trial, drawn)


def test_the_newest_copy_goes_on_once_every_peer_was_heard(trial, nodes, tmp_path):
    ledger, copy = trial.place(ME) / "ledger.sqlite", tmp_path / "copy"
    nodes[ME].stop()
    rows = command("ledger", "backup", ledger, copy)["rows"]
    nodes["owner-0"].stop()
    drawn = lose(trial)
    command("ledger", "restore", copy, trial.place(ME))
    nodes[ME] = Node(trial, ME)
    until(lambda: bool(nodes[ME].snapshots) and "owner-1" in nodes[ME].snapshots[-1]["alive"])
    count = len(nodes[ME].snapshots)
    until(lambda: len(nodes[ME].snapshots) > count + 5)  # longer than `wait`
    assert nodes[ME].releases == rows
    assert nodes[ME].snapshots[-1]["waiting_for"] == ("owner-0",)
    nodes["owner-0"] = Node(trial, "owner-0")
    until(lambda: nodes[ME].releases > rows + 5)
    nodes[ME].stop()
    same(trial, drawn)
    with opened(ledger) as settled:
        assert settled.unsettled() == []


def test_until_it_is_settled_no_other_run_is_charged(trial, tmp_path):
    with trial.ledger(ME) as ledger:
        ledger.charge(trial.planned.agreement.run, 1, trial.planned.program.plan.event(2), b"said")
    old = tmp_path / "old.json"
    old.write_text((trial.place(ME) / "agreement.json").read_text())
    command("ledger", "backup", trial.place(ME) / "ledger.sqlite", tmp_path / "copy")
    lose(trial)
    command("ledger", "restore", tmp_path / "copy", trial.place(ME))
    network.add(trial.folder / "net", "owner-3", 5, 1.0, None)  # a new agreement: another run
    found = Node(trial, ME)
    assert "may have released more than it knows" in found.refused()
    command("ledger", "write-off", trial.place(ME), "--agreement", old)
    with opened(trial.place(ME) / "ledger.sqlite") as ledger:
        assert ledger.unsettled() == []


@pytest.mark.parametrize("evaluate", [0.0, 0.4])
@pytest.mark.parametrize("protocol", ["dual_averaging", "wor_sgd", "weighted_erm"])
@pytest.mark.parametrize("done", [0, 1, 2])
def test_a_run_that_is_written_off_costs_what_the_whole_run_costs(tmp_path, protocol, done, evaluate):
    settings = {"rounds": 6} if protocol == "dual_averaging" else {}
    trial = Trial(tmp_path, (120, 70), protocol=protocol, settings=settings, evaluate=evaluate)
    planned, own = trial.planned, party.read(trial.place("owner-0"))
    plan, messages = charged_plan(own, planned), planned.messages(0)
    with trial.ledger("owner-0") as ledger, Journal.open(tmp_path / "journal") as journal:
        outlet = Outlet(
            ledger, journal, OwnRun(planned.agreement.run, plan, 0, messages, tables=planned.table_steps)
        )
        for turn in range(min(done, messages)):
            outlet.release(turn + 1, turn, b"message")
        if evaluate and done == 2:  # the table, too: it is owed no more
            outlet.release(planned.table_steps[-1], 0, b"table")
    run, spent = recovery.write_off(trial.place("owner-0"))
    whole = certify(plan.event(0), delta=spent.delta, relation=plan.relation).epsilon
    assert run == planned.agreement.run
    assert spent.epsilon == pytest.approx(whole, rel=1e-6)
    assert bool(charges_of(plan, 0, messages).parts) == (protocol == "wor_sgd")


SUMS = {"steps": 3, "step_size": 1.0}


@pytest.mark.parametrize(
    ("protocol", "settings", "said"),
    [
        ("weighted_erm", SUMS | {"view": "masked"}, "whom masked sums trust with nothing"),
        ("weighted_erm", SUMS, "only aggregator could tell"),
        ("async_learner", {"ticks": 40}, "only learner could tell"),
    ],
)
def test_no_run_goes_on_from_a_copy_on_one_peer_s_word(tmp_path, protocol, settings, said):
    """It gains by a second release: all that it has to do is to say that it holds none."""
    trial = Trial(tmp_path, (12, 7, 9, 10), protocol=protocol, settings=settings)
    planned, own = trial.planned, party.read(trial.place(ME))
    plan, ledger = charged_plan(own, planned), trial.place(ME) / "ledger.sqlite"
    with trial.ledger(ME) as opened_ledger, Journal.open(tmp_path / "journal") as journal:
        outlet = Outlet(opened_ledger, journal, OwnRun(planned.agreement.run, plan, 2, planned.messages(2)))
        outlet.release(1, 0, b"message")
    command("ledger", "backup", ledger, tmp_path / "copy")
    lose(trial)
    command("ledger", "restore", tmp_path / "copy", trial.place(ME))
    assert said in Node(trial, ME).refused()
    told = command("ledger", "write-off", trial.place(ME))
    whole = certify(plan.event(2), delta=1e-4, relation=plan.relation).epsilon
    assert float(told["spent"]["epsilon"]) == pytest.approx(whole, rel=1e-6)


def test_what_is_owed_under_two_divisions_is_owed_by_all_records(tmp_path):
    """A journal was lost, and with it which rows were kept out: a record is in another part of what came then.

    Of either division alone the parts that are left would be its own, though messages of the other one may have left.
    """
    trial = Trial(tmp_path, (12, 7, 9), protocol="random_walk", settings={"passes": 3, "batch": 3})
    planned = trial.planned
    plan, messages = charged_plan(party.read(trial.place(ME)), planned), planned.messages(2)
    parts = charges_of(plan, 2, messages).parts
    assert parts > 1
    terms = (planned.agreement.run, plan, 2, messages)
    with trial.ledger(ME) as ledger:
        for order, turns in (("first", range(1)), ("second", range(1, messages - parts))):
            with Journal.open(tmp_path / order) as journal:
                outlet = Outlet(ledger, journal, OwnRun(*terms, order=order))
                for turn in turns:
                    outlet.release(turn + 1, turn, b"message")
        owed = recovery.owed(ledger, *terms, planned.table_steps)
        divided = [one for one in owed if one.part is not None]
        (rest,) = [one.event for one in owed if isinstance(one.event, SelfComposedDpEvent)]
    assert not divided
    assert rest.count == 1  # of one more pass each record meets one message, whichever division that has
