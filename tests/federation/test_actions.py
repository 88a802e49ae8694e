"""The trail of administrators' actions: a chain that shows edits, beside a ledger that it leaves as it is."""

from __future__ import annotations

import json
import multiprocessing as mp
import stat
from pathlib import Path

import pytest
from dp_accounting import GaussianDpEvent
from parties import Trial
from typer.testing import CliRunner
from wired import LONG

from coterie.accounting.ledger import Ledger, head_of, recovery, verify
from coterie.cli import app
from coterie.errors import InputError
from coterie.federation import actions


def some_ledger(path: Path) -> Ledger:
    return Ledger.open(path, data_hash="a" * 64, epsilon=5.0, delta=1e-5)


def lines(folder: Path) -> list[bytes]:
    return (folder / actions.NAME).read_bytes().splitlines(keepends=True)


def test_entries_say_what_was_done_by_whom_and_where_the_ledger_stood(tmp_path, monkeypatch):
    monkeypatch.setenv("SUDO_USER", "alice")
    actions.record(tmp_path, "sign", ledger=tmp_path / "ledger.sqlite", agreement="f" * 64)
    with some_ledger(tmp_path / "ledger.sqlite") as ledger:
        ledger.charge("run", 1, GaussianDpEvent(20.0), b"secret message")
        actions.record(tmp_path, "stop", ledger=ledger.path)
        head = ledger.top
    first, second = actions.read(tmp_path)
    assert (first.action, first.ledger, first.previous) == ("sign", None, actions.START)
    assert second.ledger == {"rows": 1, "head": head.hash}
    assert second.previous == first.hash
    assert first.by.endswith("by sudo of alice")
    assert stat.S_IMODE((tmp_path / actions.NAME).stat().st_mode) == 0o600


@pytest.mark.parametrize("forged", ["alice (0)\n", "", "a" * 65, "; rm"])
def test_a_forged_name_of_sudo_is_left_out(forged):
    assert actions.user(0, forged) == "root (0)"


def test_an_edited_a_removed_and_a_moved_entry_are_seen(tmp_path):
    for action in ("start", "stop", "end"):
        actions.record(tmp_path, action)
    whole = lines(tmp_path)
    for number, wrong in {
        2: [whole[0], whole[1].replace(b'"stop"', b'"wait"'), whole[2]],
        1: [whole[1], whole[2]],
        3: [whole[0], whole[1], whole[1]],
    }.items():
        (tmp_path / actions.NAME).write_bytes(b"".join(wrong))
        with pytest.raises(InputError, match=f"entry {number} was edited"):
            actions.read(tmp_path)
        with pytest.raises(InputError, match=f"entry {number} was edited"):
            actions.record(tmp_path, "start")
        shown = CliRunner().invoke(app, ["ledger", "actions", str(tmp_path)])
        assert shown.exit_code == 2
    (tmp_path / actions.NAME).write_bytes(b"not json\n")
    with pytest.raises(InputError, match="entry 1 was edited"):
        actions.read(tmp_path)


@pytest.mark.parametrize("left", [1, 20])
def test_a_line_that_a_power_cut_left_in_pieces_is_no_entry(tmp_path, left):
    actions.record(tmp_path, "start")
    actions.record(tmp_path, "end")
    first, second = lines(tmp_path)
    (tmp_path / actions.NAME).write_bytes(first + second[:-left])
    assert [one.action for one in actions.read(tmp_path)] == ["start"]
    actions.record(tmp_path, "start")
    assert [one.action for one in actions.read(tmp_path)] == ["start", "start"]


def _many(folder: Path) -> None:
    for _ in range(20):
        actions.record(folder, "renew")


def test_several_processes_write_one_chain(tmp_path):
    context = mp.get_context("forkserver")
    writers = [context.Process(target=_many, args=(tmp_path,)) for _ in range(3)]
    for one in writers:
        one.start()
    for one in writers:
        one.join(LONG)
        assert one.exitcode == 0
    assert [one.sequence for one in actions.read(tmp_path)] == list(range(1, 61))


def test_no_action_makes_a_ledger_or_its_copy_look_older_or_newer(tmp_path):
    """While its node has it open, after a backup, and after restoring that: only the ledger's own rows count."""
    path, copy = tmp_path / "ledger.sqlite", tmp_path / "copy"
    with some_ledger(path) as ledger:
        ledger.charge("run", 1, GaussianDpEvent(20.0), b"message")
        actions.record(tmp_path, "forget", ledger=path)
        kept = recovery.backup(path, copy)
        actions.record(tmp_path, "end", ledger=path)
        assert ledger.charge("run", 1, GaussianDpEvent(20.0), b"another") == b"message"
    assert (head_of(path), verify(path).problems) == (kept, ())
    path.unlink()
    assert recovery.restore(copy, path, ["run"]).complete
    assert [one.action for one in actions.read(tmp_path)] == ["forget", "end"]


def test_a_ledger_that_cannot_be_read_hides_no_action(tmp_path):
    (tmp_path / "ledger.sqlite").write_bytes(b"in pieces")
    actions.record(tmp_path, "start", ledger=tmp_path / "ledger.sqlite")
    assert actions.read(tmp_path)[0].ledger is None


def test_commands_write_down_what_they_did_and_ledger_actions_shows_it(tmp_path):
    trial = Trial(tmp_path, (7, 8, 9), protocol="dual_averaging", settings={"rounds": 5}, gossip_steps=1)
    net, place = trial.folder / "net", trial.place("owner-0")
    with trial.ledger("owner-0"):
        pass
    for command in (
        ["network", "renew", str(net), "owner-1"],
        ["network", "request", str(tmp_path / "home"), "owner-2"],
        ["network", "rotate", str(net), "owner-2", "--request", str(tmp_path / "home" / "request.pem")],
        ["ledger", "write-off", str(place)],
        ["network", "forget", str(trial.place("owner-1")), "owner-0"],
    ):
        done = CliRunner().invoke(app, command)
        assert done.exit_code == 0, done.output
    assert [(one.action, one.about["party"]) for one in actions.read(net)] == [
        ("renew", "owner-1"),
        ("rotate", "owner-2"),
    ]
    assert [one.action for one in actions.read(tmp_path / "home")] == ["request"]
    assert actions.read(trial.place("owner-1"))[0].about["party"] == "owner-0"
    (given_up,) = actions.read(place)
    assert given_up.action == "write-off"
    assert given_up.ledger == {
        "rows": verify(place / "ledger.sqlite").rows,
        "head": head_of(place / "ledger.sqlite").hash,
    }
    shown = CliRunner().invoke(app, ["ledger", "actions", str(net)]).output
    assert "renew" in shown
    assert f"head: {actions.read(net)[-1].hash}" in shown
    told = json.loads(CliRunner().invoke(app, ["ledger", "actions", str(net), "--json"]).output)
    assert [one["action"] for one in told["actions"]] == ["renew", "rotate"]


def test_nothing_done_is_an_empty_chain(tmp_path):
    shown = CliRunner().invoke(app, ["ledger", "actions", str(tmp_path)])
    assert (shown.exit_code, shown.output) == (
        0,
        f"ok: 0 actions in an unbroken chain\nhead: {actions.START}\n",
    )


def test_a_folder_that_is_not_there_has_no_chain(tmp_path):
    shown = CliRunner().invoke(app, ["ledger", "actions", str(tmp_path / "nowhere")])
    assert shown.exit_code == 2
    assert "no such folder" in shown.stderr
