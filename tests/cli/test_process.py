"""The real program in its own process: start-up, usage errors, Ctrl-C, a terminal."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_world import on

COTERIE = str(Path(sys.executable).with_name("coterie"))


def call(*arguments, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        [COTERIE, *map(str, arguments)], capture_output=True, text=True, timeout=300, check=False, **options
    )


@pytest.mark.parametrize("arguments", [["--help"], ["run", "--help"], ["data", "list"]])
def test_start_up_does_without_jax(arguments):
    """A second on an idle machine; on any machine, none of the slow libraries."""
    slow = ("jax", "pandas", "matplotlib", "sklearn", "scipy", "networkx", "dp_accounting")
    program = (
        "import sys; from coterie.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code\n"
        f"print([name for name in {slow!r} if name in sys.modules], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stderr.strip() == "[]"
    assert done.stdout


def processor_time(*command: str) -> float:
    """The least of three: whoever shares a core makes it more."""
    found = []
    for _ in range(3):
        before = os.times()
        subprocess.run(command, capture_output=True, timeout=300, check=True)
        after = os.times()
        found.append(
            after.children_user + after.children_system - before.children_user - before.children_system
        )
    return min(found)


def test_help_takes_a_fraction_of_what_importing_the_slow_libraries_takes():
    """A fifth, 0.3 s of processor time; less than half on any machine, whatever its second is worth."""
    slow = processor_time(sys.executable, "-c", "import jax, pandas, sklearn.linear_model")
    assert processor_time(COTERIE, "run", "--help") < slow / 2


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["run", "--owner", "x"], "--owner"),
        (["run", "--delta", "small"], "--delta"),
        (["walk"], "walk"),
        (["data", "describe"], "name"),
    ],
)
def test_usage_errors_are_one_line(arguments, part):
    done = call(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.startswith("error: ")
    assert part in done.stderr


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_prints_one_line_and_writes_nothing(visits, tmp_path):
    """On a terminal, so that the bar says when training began; ended as the terminal does, by SIGINT."""
    main, other = pty.openpty()
    arguments = [*map(str, on(visits)), "--set", "rounds=2000000", "--out", "deep/out"]
    with subprocess.Popen(
        [COTERIE, *arguments],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=other,
        env={**os.environ, "TERM": "xterm"},
    ) as process:
        os.close(other)
        seen = _until(main, b"training")
        process.send_signal(signal.SIGINT)
        seen += _until(main, b"written.")
        assert process.wait(timeout=300) == 130
        assert process.stdout is not None
        assert process.stdout.read() == b""
    os.close(main)
    assert b"loading data" in seen
    assert b"interrupted: " in seen
    assert b"Traceback" not in seen
    assert not list(tmp_path.iterdir())


def _until(terminal: int, word: bytes) -> bytes:
    seen, started = b"", time.monotonic()
    while word not in seen:
        assert time.monotonic() - started < 300, seen
        try:
            seen += os.read(terminal, 4096)
        except OSError as error:  # the other end was closed
            raise AssertionError(seen) from error
    return seen
