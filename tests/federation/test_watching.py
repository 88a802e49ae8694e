"""How a party is watched: logs, metrics, health, systemd, and the terminal; and that none of it tells a record."""

from __future__ import annotations

import json
import logging
import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator
from http.client import RemoteDisconnected
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from listeners import Manager, asked, samples
from parties import Trial, until
from ports import ports
from rich.console import Console
from typer.testing import CliRunner

from coterie.cli import _watch, app
from coterie.errors import InputError
from coterie.federation import logs, metrics
from coterie.federation.endpoint import STALE, Endpoint, serving
from coterie.federation.systemd import notifier
from coterie.federation.transport.lines import private, warning

NOW = 1_800_000_000.0
SNAPSHOT: dict[str, Any] = {
    "name": "north", "state": "running", "time": NOW - 2, "step": 12, "of": 260, "waiting_for": ["south"], "note": "",
    "refused": 1, "peers": ["east", "south"], "alive": ["east"], "connected": ["east"], "silent": {"east": 0.1},
    "clocks": {"east": -3.0}, "finished": [], "refusals": {'east: version "a\\b"': 4, "a stranger: no connection": 2},
    "dropped": {"east": 5}, "forged": {}, "traffic": {"frames in": 7, "bytes in": 700, "frames out": 8},
    "certificates": {"north": "2027-01-25T08:00:00+00:00", "east": "2027-03-06T08:00:00+00:00"},
    "troubles": ["the certificate of north ends"], "releases": 12, "epsilon_spent": 0.25, "epsilon_budget": 1.0,
}  # fmt: skip


def test_metrics_say_where_the_party_stands():
    text = metrics.text(SNAPSHOT, NOW)
    found = samples(text)
    assert found["rounds", ""] == 12
    assert found["rounds_agreed", ""] == 260
    assert found["waiting_for", 'peer="south"'] == 1
    assert found["waiting_for", 'peer="east"'] == 0
    assert found["peer_alive", 'peer="south"'] == 0
    assert found["refused_frames_total", 'sender="a stranger",reason="no connection"'] == 2
    assert found["refused_frames_total", 'sender="east",reason="version \\"a\\\\b\\""'] == 4
    assert found["frames_total", 'direction="in"'] == 7
    assert found["bytes_total", 'direction="out"'] == 0
    assert (found["epsilon_spent", ""], found["budget_left", ""]) == (0.25, 0.75)
    assert found["certificate_days_left", 'party="north"'] == pytest.approx(10.0, abs=0.01)
    assert found["clock_ahead_seconds", 'peer="east"'] == -3
    for name in {name for name, _ in found}:
        assert text.count(f"# TYPE coterie_{name} ") == text.count(f"# HELP coterie_{name} ") == 1


def test_a_party_without_records_has_no_budget():
    bare = {key: value for key, value in SNAPSHOT.items() if not key.startswith(("epsilon", "releases"))}
    assert not any("epsilon" in name or "budget" in name for name, _ in samples(metrics.text(bare, NOW)))


def test_health_is_whether_the_loop_turns():
    endpoint = Endpoint()
    assert [endpoint.answer(path, NOW)[0] for path in ("/health", "/metrics", "/other")] == [503, 503, 404]
    endpoint.show(SNAPSHOT)
    status, _, body = endpoint.answer("/health", NOW)
    assert (status, json.loads(body)["waiting_for"], json.loads(body)["age_seconds"]) == (200, ["south"], 2.0)
    assert endpoint.answer("/health", NOW + STALE)[0] == 503
    endpoint.show(SNAPSHOT | {"state": "finished"})
    assert endpoint.answer("/health", NOW)[0] == 200


def test_the_endpoint_is_on_the_loop_back_under_its_own_name_alone():
    (port,) = ports(1)
    with serving(port) as endpoint:
        endpoint.show(SNAPSHOT)
        assert asked(port, "/metrics")[0] == 200
        assert asked(port, "/metrics", f"localhost:{port}")[0] == 200
        status, body = asked(port, "/metrics", "a.page.example")
        assert (status, "epsilon" in body) == (403, False)
        with pytest.raises(InputError, match=f"metrics_port={port}: cannot listen"), serving(port):
            pass
    with pytest.raises(ConnectionRefusedError):
        asked(port, "/metrics")
    for wrong in (0, 70_000):
        with pytest.raises(InputError, match="must be 1 to 65535"), serving(wrong):
            pass


def test_a_fault_in_an_answer_is_a_line_of_the_log(capfd, monkeypatch):
    """Not a traceback, which collectors of JSON lines cannot read, and which may have more than a line may."""

    def broken(*given: Any) -> None:
        raise ValueError("4.25")

    monkeypatch.setattr(Endpoint, "answer", broken)
    (port,) = ports(1)
    said: list[str] = []
    with logs.guarded("json"), serving(port):
        with pytest.raises(RemoteDisconnected):
            asked(port, "/metrics")
        until(lambda: said.append(capfd.readouterr().err) or "\n" in said[-1])
    (line,) = "".join(said).splitlines()
    assert (json.loads(line)["level"], "4.25" in line) == ("error", False)


def test_a_log_for_collectors_has_full_times_and_levels_and_nothing_private(capsys):
    log = logs.log("json", party="north")
    for line in ("joins", warning("refused from east"), private("your file: 3 rows outside")):
        log(line)
    first, second = (json.loads(line) for line in capsys.readouterr().err.splitlines())
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", first["time"])
    assert (first["level"], first["party"], first["message"]) == ("info", "north", "joins")
    assert (second["level"], second["message"]) == ("warning", "refused from east")
    logs.log("text")(private("your file: 3 rows outside"))
    assert capsys.readouterr().err.endswith("your file: 3 rows outside\n")
    with pytest.raises(InputError, match="log_format='xml'"):
        logs.log("xml")


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    with Manager(str(tmp_path / "notify")) as listening:
        yield listening


def test_systemd_hears_ready_once_life_always_and_the_end(manager, tmp_path):
    tell = notifier({"NOTIFY_SOCKET": str(tmp_path / "notify")})
    for state in ("running", "running", "finished"):
        tell(SNAPSHOT | {"state": state})
    first, second, third = manager.heard(), manager.heard(), manager.heard()
    assert first == ["STATUS=running, step 12 of 260, waits for south", "WATCHDOG=1", "READY=1"]
    assert ("READY=1" in second, "WATCHDOG=1" in second) == (False, True)
    assert "STOPPING=1" in third


def test_without_systemd_nothing_is_said_and_a_lost_one_is_borne(tmp_path):
    notifier({})(SNAPSHOT)
    notifier({"NOTIFY_SOCKET": str(tmp_path / "gone")})(SNAPSHOT)
    name = f"@coterie-test-{os.getpid()}"
    with Manager("\0" + name[1:]) as listening:
        notifier({"NOTIFY_SOCKET": name})(SNAPSHOT)
        assert "READY=1" in listening.heard()


def screen(snapshot: dict[str, Any] | None, rate: float | None = None) -> str:
    console = Console(record=True, width=120, file=open(os.devnull, "w"))  # noqa: SIM115
    console.print(_watch.shown(snapshot, NOW, rate))
    console.file.close()
    return console.export_text()


def test_the_terminal_shows_what_an_owner_asks_for():
    text = screen(SNAPSHOT, 2.0)
    for words in (
        "north: running, step 12 of 260, 2 a second, about 0:02:04 left",
        "waits for south",
        "ε = 0.25 of 1 spent on these records, 0.75 left; 12 releases",
        "own certificate: 10 days left",
        "refused 2: a stranger: no connection",
        "trouble: the certificate of north ends",
    ):
        assert words in text
    assert re.search(r"east +yes +0.1 s ago +-3.0 s +50 days left", text)
    assert re.search(r"south +NO +never", text)
    assert "no word for 60 seconds: the node was killed, or is stuck" in screen(SNAPSHOT | {"time": NOW - 60})
    assert "not started yet" in screen(None)


def test_watching_ends_with_the_run(tmp_path):
    (tmp_path / "node.toml").write_text('name = "north"\n')
    (tmp_path / "status.json").write_text(json.dumps(SNAPSHOT | {"state": "finished"}))
    found = CliRunner().invoke(app, ["network", "watch", str(tmp_path)])
    assert (found.exit_code, found.stdout.count("\n")) == (0, 1)
    assert found.stdout.startswith("north: finished, step 12 of 260")
    assert CliRunner().invoke(app, ["network", "watch", str(tmp_path / "nowhere")]).exit_code == 2


def test_a_node_that_cannot_start_says_so_in_json(tmp_path):
    found = CliRunner().invoke(app, ["node", str(tmp_path), "--log-format", "json"])
    line = json.loads(found.stderr)
    assert (found.exit_code, line["level"], line["exit_status"]) == (2, "error", 2)
    assert "cannot be read" in line["message"]


@pytest.mark.parametrize("spoil", ["maybe", "a record more"])
def test_a_log_that_others_collect_says_nothing_of_records_that_do_not_fit(tmp_path, spoil):
    """The same words for every record that does not fit; its owner reads more on the terminal."""
    trial = Trial(tmp_path, (7, 8), protocol="dual_averaging", settings={"rounds": 2}, gossip_steps=1)
    name = trial.names[0]
    data = tmp_path / f"{name}.csv"
    lines = data.read_text().splitlines()
    spoilt = [*lines[:3], lines[3].replace("yes", spoil).replace("no", spoil), *lines[4:]]
    data.write_text("\n".join(spoilt if spoil == "maybe" else [*lines, lines[-1]]) + "\n")
    words = ["node", str(trial.place(name)), "--data", str(data)]
    found = CliRunner().invoke(app, [*words, "--log-format", "json"])
    said = json.loads(found.stderr.splitlines()[-1])
    assert (found.exit_code, said["level"], said["exit_status"]) == (2, "error", 2)
    assert said["message"].startswith(
        "data: the records do not fit the agreement. Why is for their owner's eyes"
    )
    assert not re.search(r"row|[0-9]", "".join(found.stderr.splitlines()[-1:]).split('"message"')[1])
    read = CliRunner().invoke(app, words)
    assert "row 3 is none of the declared classes" in read.stderr or "has 8 records" in read.stderr


def test_records_that_come_by_a_pipe_are_told_of_as_records_of_a_file_are(tmp_path, monkeypatch):
    """As of a program that decrypts them: what is wrong with them is for their owner's eyes."""
    from coterie.federation.records import apart

    trial = Trial(tmp_path, (7, 8), protocol="dual_averaging", settings={"rounds": 2}, gossip_steps=1)
    os.mkfifo(tmp_path / "rows.csv")

    def read(*given: object) -> None:
        raise InputError("column 'who': row 3 is '4711'. Correct it.")

    monkeypatch.setattr(apart, "read", read)
    words = ["node", str(trial.place(trial.names[0])), "--data", str(tmp_path / "rows.csv")]
    assert "4711" not in CliRunner().invoke(app, [*words, "--log-format", "json"]).output
    assert "4711" in CliRunner().invoke(app, words).output


class Panic(BaseException):
    """As a library in Rust has it: no Exception."""


@pytest.mark.parametrize(("form", "kind"), [("text", KeyError), ("json", KeyError), ("json", Panic)])
def test_a_fault_that_nobody_foresaw_is_logged_without_its_words(tmp_path, monkeypatch, form, kind):
    """Wherever in a node it happens: class, place and status, and no message, which may quote a record."""
    from coterie.federation import records

    trial = Trial(tmp_path, (7, 8), protocol="dual_averaging", settings={"rounds": 2}, gossip_steps=1)
    name = trial.names[0]

    def divided_by(*given: object) -> None:
        raise kind("patient 4711")

    monkeypatch.setattr(records, "divided_by", divided_by)
    words = ["node", str(trial.place(name)), "--data", str(tmp_path / f"{name}.csv"), "--log-format", form]
    found = CliRunner().invoke(app, words)
    last = found.stderr.splitlines()[-1]
    assert found.exit_code == 1
    assert re.search(rf"unforeseen (\w+\.)?{kind.__name__} at ", last)
    assert "called from coterie.federation.owner:" in last
    assert "4711" not in found.output
    if form == "json":
        assert json.loads(last)["exit_status"] == 1


def test_a_dry_run_whose_output_others_collect_says_nothing_of_records_either(tmp_path, monkeypatch):
    from coterie.federation import check

    monkeypatch.setattr(check, "PATIENCE", 0.0)
    trial = Trial(tmp_path, (7, 8), protocol="dual_averaging", settings={"rounds": 2}, gossip_steps=1)
    name = trial.names[0]
    data = tmp_path / f"{name}.csv"
    data.write_text(data.read_text().replace("yes", "maybe"))
    words = ["node", str(trial.place(name)), "--data", str(data), "--check"]
    for form, said in (("text", True), ("json", False)):
        found = CliRunner().invoke(app, [*words, "--log-format", form])
        assert ("row" in found.output) == said, found.output
        assert found.exit_code == 2


def test_what_a_node_prints_beside_json_lines_says_nothing_of_its_records_either(tmp_path, monkeypatch):
    """Its metric on them was not charged, and a service's output is collected as its lines are."""
    from coterie.federation import outcome

    trial = Trial(tmp_path, (7, 8), protocol="dual_averaging", settings={"rounds": 2}, gossip_steps=1)
    told = {"finished": False, "own_metric": {"name": "accuracy", "value": 0.75}}
    monkeypatch.setattr(
        sys.modules["coterie.cli.node"], "_run", lambda *given: SimpleNamespace(finished=False)
    )
    monkeypatch.setattr(outcome, "summary", lambda run: dict(told))
    for form, shown in (("text", True), ("json", False)):
        words = ["node", str(trial.place(trial.names[0])), "--json", "--log-format", form]
        found = CliRunner().invoke(app, words)
        assert json.loads(found.stdout) == (told if shown else {"finished": False})
        assert ("0.75" in found.output) == shown


def test_what_libraries_log_is_no_json_line(capfd, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    for form, said in (("text", "overflow at patient 4711\n"), ("json", "")):
        with logs.guarded(form):
            logging.getLogger("library").warning("overflow at patient 4711")
        assert capfd.readouterr().err == said


@pytest.mark.filterwarnings("default")
def test_threads_and_libraries_say_nothing_of_what_they_hold(capfd):
    def fail() -> None:
        raise ValueError("patient 4711")

    with logs.guarded("json"):
        thread = threading.Thread(target=fail)
        thread.start()
        thread.join()
        warnings.warn("overflow at patient 4711", RuntimeWarning, stacklevel=1)
    said = capfd.readouterr().err
    assert "unforeseen ValueError at " in json.loads(said)["message"]
    assert "4711" not in said
