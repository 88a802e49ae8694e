"""The node's socket for its administrator: who may use it, what it does, and that it leaves with the node."""

from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from parties import Trial, until
from typer.testing import CliRunner
from wired import LONG

from coterie.cli import app
from coterie.errors import InputError
from coterie.federation import actions, control

SNAPSHOT = {"name": "north", "state": "running", "step": 3}


def nobody(by: str) -> None:
    raise AssertionError(f"{by} asked")


def said(folder: Path, line: bytes) -> dict:
    """The answer to a line of bytes, over the real socket."""
    opened = os.open(folder, os.O_RDONLY)
    with socket.socket(socket.AF_UNIX) as caller:
        caller.settimeout(LONG)
        caller.connect(f"/proc/self/fd/{opened}/{control.NAME}")
        os.close(opened)
        caller.sendall(line)
        caller.shutdown(socket.SHUT_WR)
        return json.loads(caller.makefile().readline())


INTRUDER = """
import errno, json, os, socket, sys
os.chdir(sys.argv[1])
names = os.listdir()
os.setgroups([]); os.setgid(65534); os.setuid(65534)
def tried(what):
    try:
        return what() or "got in"
    except OSError as error:
        return errno.errorcode[error.errno]
def called():
    with socket.socket(socket.AF_UNIX) as line:
        line.settimeout(30)
        line.connect("control.sock")
        line.sendall(b'{"command": "stop"}\\n')
        line.shutdown(socket.SHUT_WR)
        return json.loads(line.makefile().readline()).get("error", "obeyed")
found = {name: tried(lambda: open(name, "rb").close()) for name in names if name != "control.sock"}
print(json.dumps(found | {"control.sock": tried(called), "write": tried(lambda: open("x", "w").close())}))
"""
PUBLIC = {"node.toml", "agreement.json", "certificates.json", "certificate.pem", "authority.pem"}


def intruded(place: Path) -> dict[str, str]:
    """What another user of this machine gets at, who was led into the folder: needs root, who can become one."""
    tried = subprocess.run(
        [sys.executable, "-c", INTRUDER, place], capture_output=True, text=True, check=True
    )
    return json.loads(tried.stdout)


def refuse_another_user(place: Path) -> None:
    """By the folder's mode; by the files' own where the folder was opened; by the node's where its socket was."""
    assert set(intruded(place).values()) == {"EACCES"}
    place.chmod(0o755)
    found = intruded(place)
    assert {"private.key", "ledger.sqlite", "ledger.sqlite.lock", "actions.jsonl", "status.json"} <= set(
        found
    )
    assert {name: what for name, what in found.items() if what != "EACCES"}.keys() <= PUBLIC
    (place / control.NAME).chmod(0o666)
    assert "user 65534 may not" in intruded(place)[control.NAME]
    (place / control.NAME).chmod(0o600)
    place.chmod(0o700)


def test_the_owner_alone_sees_where_the_node_stands(tmp_path):
    with control.listening(tmp_path, nobody) as node:
        assert stat.S_IMODE((tmp_path / control.NAME).stat().st_mode) == 0o600
        assert control.ask(tmp_path, "status") == {"status": {"state": "starting"}}
        node.show(SNAPSHOT)
        assert control.ask(tmp_path, "status") == {"status": SNAPSHOT}
        assert not node.stopped()
    assert not (tmp_path / control.NAME).exists()
    with pytest.raises(InputError, match="no node runs here"):
        control.ask(tmp_path, "status")


@pytest.mark.parametrize("command", ["status", "stop"])
def test_another_user_is_refused_by_the_kernels_word(tmp_path, monkeypatch, command):
    """The socket says who calls; here the node takes itself for another user, so that the caller is one."""
    with control.listening(tmp_path, nobody) as node:
        node.show(SNAPSHOT)
        own = os.geteuid()
        monkeypatch.setattr(control.os, "geteuid", lambda: own + 1)
        with pytest.raises(InputError, match=f"user {own} may not: run it as the node's own user, {own + 1}"):
            control.ask(tmp_path, command)
        assert not node.stopped()


def test_a_stop_is_told_and_the_line_lasts_as_long_as_the_node(tmp_path):
    asked: list[str] = []
    with control.listening(tmp_path, asked.append) as node:
        waiting = threading.Thread(target=control.ask, args=(tmp_path, "stop"))
        waiting.start()
        until(node.stopped)
        waiting.join(0.2)
        assert waiting.is_alive()
        assert control.ask(tmp_path, "status")["status"] == {"state": "starting"}
    waiting.join(LONG)
    assert not waiting.is_alive()
    assert asked == [actions.own_user()]


def test_a_node_stops_also_where_that_cannot_be_written_down(tmp_path):
    def full(by: str) -> None:
        raise InputError("no room")

    with control.listening(tmp_path, full) as node:
        assert said(tmp_path, b'{"command": "stop"}\n') == {"stopping": True, "warning": "no room"}
        assert node.stopped()


@pytest.mark.parametrize(
    ("line", "answer"),
    [
        (b"", "no question"),
        (b"stop\n", "no question"),
        (b"[]\n", "no question"),
        (b'{"sudo": "root"}\n', "no question"),
        (b'{"command": "release"}\n', "must be one of status, stop"),
        (b'{"command": ["stop"]}\n', "must be one of status, stop"),
        (b'{"command": "stop", "pad": "' + 4096 * b"x" + b'"}\n', "no question"),
        (b"\xff\xfe\n", "no question"),
    ],
)
def test_nonsense_changes_nothing(tmp_path, line, answer):
    with control.listening(tmp_path, nobody) as node:
        assert answer in said(tmp_path, line)["error"]
        assert not node.stopped()


def test_a_killed_nodes_socket_is_replaced_and_a_living_ones_is_not(tmp_path, monkeypatch):
    left = socket.socket(socket.AF_UNIX)
    monkeypatch.chdir(tmp_path)
    left.bind(control.NAME)
    left.close()
    with control.listening(tmp_path, nobody) as node:
        node.show(SNAPSHOT)
        with pytest.raises(InputError, match="another node runs here"), control.listening(tmp_path, nobody):
            pass
        assert control.ask(tmp_path, "status") == {"status": SNAPSHOT}


def test_a_folder_may_be_deep(tmp_path):
    deep = tmp_path / ("a" * 100) / ("b" * 100)
    deep.mkdir(parents=True)
    with control.listening(deep, nobody):
        assert "status" in control.ask(deep, "status")


def test_a_node_is_asked_and_stopped_and_all_its_files_are_its_users_alone(tmp_path, monkeypatch):
    """One real process, whose neighbour never comes."""
    monkeypatch.setattr(control, "_PATIENCE", LONG)  # of who asks
    trial = Trial(tmp_path, (7, 8), protocol="dual_averaging", settings={"rounds": 5}, gossip_steps=1)
    place, given = trial.place("owner-0"), {path.name for path in trial.place("owner-0").iterdir()}
    command = [sys.executable, "-m", "coterie", "node", str(place), "--data", str(tmp_path / "owner-0.csv")]
    command = ["sh", "-c", 'umask 0; exec "$@"', "sh", *command]
    with (tmp_path / "err").open("w") as err, subprocess.Popen(command, stderr=err) as node:
        try:
            until(lambda: (place / "status.json").exists())
            run = CliRunner().invoke(app, ["network", "status", str(place), "--json"])
            (shown,) = json.loads(run.output)["parties"]
            assert (shown["name"], shown["state"]) == ("owner-0", "running")
            written = {path.name for path in place.iterdir() if not path.name.startswith(".")} - given
            modes = {name: stat.S_IMODE((place / name).stat().st_mode) for name in written}
            if os.geteuid() == 0:  # others cannot become a second user, and have the modes below
                refuse_another_user(place)
            monkeypatch.setenv("SUDO_USER", "alice")
            stop = CliRunner().invoke(app, ["network", "stop", str(place)])
            assert (stop.exit_code, stop.output.partition(".")[0]) == (0, "owner-0: stopped")
            assert node.wait(LONG) == 0, (tmp_path / "err").read_text()
        finally:
            node.kill()
    assert {"ledger.sqlite", "ledger.sqlite.lock", "status.json", "actions.jsonl", "control.sock"} <= set(
        modes
    )
    assert set(modes.values()) == {0o600}, modes
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    assert stat.S_IMODE((place / "private.key").stat().st_mode) == 0o600
    told = actions.read(place)
    assert [one.action for one in told] == ["start", "stop", "end"]
    assert told[1].by == f"{actions.user(os.getuid(), 'alice')}"
    assert told[2].about == {"outcome": "stopped"}
    assert (told[0].ledger, told[2].ledger and told[2].ledger["rows"]) == (None, 0)
