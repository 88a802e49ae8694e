"""What administrators install: the unit and the container's files, read; and the node, started as they start it.

Neither a container engine nor systemd is needed: the same entry point runs in namespaces of its own, where the whole
file system is read-only but the party's folder and a folder for temporary files, and the user is not root.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from listeners import Manager, asked, samples
from parties import Trial, until
from ports import ports

from coterie.federation import node, party

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy" / "coterie@.service"
CONTAINER = (ROOT / "deploy" / "Containerfile").read_text()
COMPOSE = (ROOT / "deploy" / "compose.yaml").read_text()
SANDBOX = """
mount --make-rprivate /
mount --bind "$PARTY" "$PARTY"
mount -t tmpfs tmpfs "$TMPDIR"
mount -o remount,bind,ro /
if touch "$RECORDS" "$PARTY/../x" 2>/dev/null; then echo "not read-only" >&2; exit 99; fi
exec unshare --user --map-user=10001 --map-group=10001 "$@"
"""


def unit() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in UNIT.read_text().splitlines():
        if "=" in line and not line.startswith("#"):
            key, _, value = line.partition("=")
            found.setdefault(key, []).append(value)
    return found


def started(place: Path, options: str) -> list[str]:
    """The unit's command for a party, with this checkout's program."""
    (line,) = unit()["ExecStart"]
    program, *words = shlex.split(line)
    assert program == "/opt/coterie/bin/coterie"
    assert "/var/lib/coterie/%i" in words
    words = [str(place) if word == "/var/lib/coterie/%i" else word for word in words if word != "$OPTIONS"]
    return [sys.executable, "-m", "coterie", *words, *shlex.split(options)]


def sandboxed(command: list[str]) -> list[str]:
    """The command in namespaces of its own; bare on machines that allow none, where all but the walls is tested."""
    walls = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-ec"]
    try:
        allowed = subprocess.run([*walls, "unshare --user --map-user=10001 true"], capture_output=True)
    except FileNotFoundError:
        return command
    return [*walls, SANDBOX, "sh", *command] if allowed.returncode == 0 else command


@pytest.fixture
def manager(tmp_path: Path) -> Iterator[Manager]:
    with Manager(str(tmp_path / "notify")) as listening:
        yield listening


def test_a_node_runs_and_is_watched_as_a_service_that_can_write_nothing_else(tmp_path, manager):
    """Every line is JSON, and none tells what only the owner may know."""
    trial = Trial(tmp_path, (7, 8), protocol="dual_averaging", settings={"rounds": 4}, gossip_steps=1)
    records, place = trial.folder / "owner-1.csv", trial.place("owner-1")
    rows = records.read_text().splitlines()
    rows[1] = ",".join(
        ["4.25", *rows[1].split(",")[1:]]
    )  # outside its range: found, and for the owner's eyes
    records.write_text("\n".join(rows) + "\n")
    (tmp_path / "tmp").mkdir()
    (port,) = ports(1)
    command = started(place, f"--data {records} --metrics-port {port}")
    own = {"NOTIFY_SOCKET": str(tmp_path / "notify")}
    own |= {key: str(tmp_path / "tmp") for key in ("HOME", "MPLCONFIGDIR", "TMPDIR")}
    own |= {"PARTY": str(place), "RECORDS": str(records)}
    child = subprocess.Popen(
        sandboxed(command),
        env=os.environ | own,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    over, said = threading.Event(), ""
    other = threading.Thread(
        target=node.run,
        args=(
            party.read(trial.place("owner-0")),
            trial.folder / "owner-0.csv",
            node.Host(log=lambda line: None, stop=over.is_set),
        ),
    )
    try:
        assert "READY=1" in manager.heard()
        assert asked(port, "/health")[0] == 200
        assert samples(asked(port, "/metrics")[1])["releases_total", ""] == 0
        other.start()
        printed, said = child.communicate(timeout=300)
    finally:
        over.set()
        child.kill()
        said = child.communicate()[1] or said
        if other.ident is not None:
            other.join()
    assert (child.returncode, printed) == (0, ""), said
    lines = [json.loads(line) for line in said.splitlines()]
    assert all({"time", "level", "party", "message"} <= set(line) for line in lines)
    assert (lines[-1]["finished"], lines[-1]["steps"]) == (True, 4)
    for hidden in ("own_metric", "accuracy", "for your eyes", "4.25", "outside"):
        assert hidden not in said
    until(lambda: "STOPPING=1" in manager.heard())
    assert {"ledger.sqlite", "status.json", "result"} <= {path.name for path in place.iterdir()}


def test_the_unit_is_hardened_and_never_repeats_a_refusal(tmp_path):
    found = unit()
    assert found["Type"] == ["notify"]
    assert found["RestartPreventExitStatus"] == ["3"]
    assert "WatchdogSec" in found
    for key in ("NoNewPrivileges", "PrivateTmp", "PrivateDevices", "ProtectHome", "RestrictNamespaces"):
        assert found[key] == ["yes"]
    assert (found["ProtectSystem"], found["CapabilityBoundingSet"], found["LimitCORE"]) == (
        ["strict"],
        [""],
        ["0"],
    )
    assert found["User"] == ["coterie"]
    analyser = shutil.which("systemd-analyze")
    if analyser is None:
        return  # the keys above are what this machine can check
    placed = tmp_path / UNIT.name
    placed.write_text(UNIT.read_text().replace("/opt/coterie/bin/coterie", sys.executable))
    verified = subprocess.run([analyser, "verify", placed], capture_output=True, text=True)
    assert (verified.returncode, verified.stderr) == (0, "")
    exposed = [analyser, "security", "--offline=true", "--threshold=20", placed]  # tenths, of 10.0
    rated = subprocess.run(exposed, capture_output=True, text=True)
    assert rated.returncode == 0, rated.stdout


def test_the_image_runs_as_nobody_in_particular_and_without_what_only_tests_need():
    users = re.findall(r"^USER (\S+)$", CONTAINER, re.M)
    assert users == ["10001:10001"]
    assert CONTAINER.index("USER 10001") < CONTAINER.index("ENTRYPOINT")
    assert re.findall(r"^VOLUME (.*)$", CONTAINER, re.M) == ['["/party"]']
    dev = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["dev"]
    known = {re.split(r"[>=<]", one)[0] for one in dev} - {"safetensors"}  # which takes no room
    (removed,) = re.findall(r"pip uninstall --yes (.*)$", CONTAINER, re.M)
    assert set(removed.split()) == known
    copied = {
        name for line in re.findall(r"^COPY (?!--from)(.*) \S+$", CONTAINER, re.M) for name in line.split()
    }
    ignored = (ROOT / ".dockerignore").read_text().splitlines()
    assert {line[1:] for line in ignored if line.startswith("!")} == copied
    assert all((ROOT / name).exists() for name in copied)


@pytest.mark.parametrize("owner", ["north", "south", "east"])
def test_each_owner_s_container_has_one_folder_to_write_and_reads_its_records(owner):
    common, _, services = COMPOSE.partition("services:")
    for line in ("read_only: true", "- ALL", "- no-new-privileges:true", "core: 0"):
        assert line in common
    (own,) = re.findall(rf"  {owner}:\n((?:    .*\n)+)", services)
    assert "<<: *owner" in own
    mounted = re.findall(r"- (\S+):(/\S+?)(:ro)?$", own, re.M)
    assert [(inside, only) for _, inside, only in mounted] == [("/party", ""), ("/data/records.csv", ":ro")]
    assert all(owner in outside for outside, _, _ in mounted)
