"""`make` fails clearly where something is missing, before it does any work."""

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def make(*arguments: str, **environment: str) -> subprocess.CompletedProcess:
    ours = ("COTERIE_DATA", "MAKEFLAGS", "MAKELEVEL", "MFLAGS")  # these tests may themselves run under make
    kept = {key: value for key, value in os.environ.items() if key not in ours}
    return subprocess.run(
        ["make", *arguments], cwd=ROOT, env=kept | environment, capture_output=True, text=True, check=False
    )


def test_papers_needs_a_data_folder(tmp_path):
    for environment in ({}, {"COTERIE_DATA": str(tmp_path / "nowhere")}):
        done = make("papers", **environment)
        assert done.returncode == 2
        assert "COTERIE_DATA" in done.stderr.splitlines()[0]
        assert done.stdout == ""


def test_an_unusable_python_is_named(tmp_path):
    stamp = tmp_path / "stamp"
    done = make("install", "PYTHON=/nowhere/python", f"STAMP={stamp}")
    assert done.returncode == 2
    assert "PYTHON='/nowhere/python'" in done.stderr
    assert not stamp.exists()


def test_every_promised_target_exists():
    for target in ("run", "test", "install", "check", "docs", "papers", "bench", "browser", "wheel"):
        assert make("-n", target, "COTERIE_DATA=.").returncode == 0


def test_examples_in_docstrings_are_run_with_the_tests():
    command = make("-n", "test").stdout.splitlines()[-1].split()
    assert {"--doctest-modules", "tests", "papers", "src"} <= set(command)
