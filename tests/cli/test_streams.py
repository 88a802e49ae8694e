"""Standard output and error as a user may have them: full, closed, cut short, or in ASCII."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from cli_world import on

COTERIE = [sys.executable, "-m", "coterie"]
ASCII = {**os.environ, "LC_ALL": "C", "PYTHONIOENCODING": "ascii"}
FULL = Path("/dev/full")


def call(*arguments, **options) -> subprocess.CompletedProcess:
    given = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options
    return subprocess.run([*COTERIE, *map(str, arguments)], timeout=300, check=False, **given)


@pytest.mark.parametrize(
    "arguments", [["--help"], ["data", "list"], ["data", "list", "--json"], ["--version"]], ids=" ".join
)
def test_a_full_device_is_one_line(arguments):
    with FULL.open("w") as full:
        done = call(*arguments, stdout=full)
    lines = done.stderr.decode().splitlines()
    assert (done.returncode, len(lines)) == (5, 1), lines
    assert lines[0].startswith("error: standard output: cannot be written (No space left on device).")


def test_a_run_whose_words_find_no_room_has_written_its_folder(visits, tmp_path):
    out = tmp_path / "out"
    with FULL.open("w") as full:
        done = call(*on(visits), "--set", "rounds=2", "--out", out, stdout=full)
    assert done.returncode == 5
    errors = [line for line in done.stderr.decode().splitlines() if not line.startswith("training: ")]
    assert len(errors) == 1
    assert "is whole" in errors[0]
    assert json.loads((out / "result.json").read_text())["rounds"] == 2


def test_errors_that_nobody_can_read_do_not_change_the_status():
    with FULL.open("w") as full:
        assert call("data", "describe", "nothing", stderr=full).returncode == 2
        assert call("data", "list", stderr=full).returncode == 0


def test_closed_streams_do_no_harm():
    closed = subprocess.run(["sh", "-c", f"{' '.join(COTERIE)} data list >&- 2>&-"], timeout=300, check=False)
    assert closed.returncode == 0


def test_a_reader_that_has_seen_enough_is_no_error():
    piped = f"{' '.join(COTERIE)} data list | head -n 1"
    done = subprocess.run(["sh", "-c", piped], capture_output=True, timeout=300, check=False)
    assert (done.returncode, done.stderr, done.stdout.count(b"\n")) == (0, b"", 1)


def test_an_ascii_terminal_reads_other_letters():
    done = call("certify", "--paper", "wor_sgd", env=ASCII)
    assert done.returncode == 0, done.stderr
    text = done.stdout.decode("ascii")
    assert "delta = " in text
    assert "jin_2020 * wor_sgd" in text
    assert "?" not in text
    assert call("run", "--help", env=ASCII).stdout.decode("ascii").count("Usage: ") == 1


def test_json_in_ascii_says_the_same(ran, tmp_path):
    """A name with an accent is escaped, not changed."""
    folder = shutil.copytree(ran.out, tmp_path / "données")
    done = call("report", folder, "--json", env=ASCII)
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii()
    assert json.loads(done.stdout)["folder"] == str(folder)


def test_a_name_that_is_no_text_is_refused_before_any_work(tmp_path):
    """Bytes that are not UTF-8 could not be written into result.json after the run."""
    name = os.path.join(os.fsencode(tmp_path), b"visits\xff.csv")
    Path(os.fsdecode(name)).write_text("x,y\n1,a\n0,b\n")
    done = subprocess.run(
        [*COTERIE, "run", "--data", name, "--target", "y"], capture_output=True, timeout=300, check=False
    )
    assert done.returncode == 2
    assert done.stderr.count(b"\n") == 1
    assert b"is not text in UTF-8" in done.stderr
