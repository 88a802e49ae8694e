"""What a newcomer types first: the version, help in both spellings, and words that are nearly right."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from cli_world import coterie

import coterie as package

STATED = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]["version"]


def test_the_version_is_the_same_everywhere():
    assert package.__version__ == STATED
    assert coterie("--version").stdout == f"coterie {STATED}\n"
    citation = (Path(__file__).parents[2] / "CITATION.cff").read_text()
    assert f"\nversion: {STATED}\n" in citation


@pytest.mark.parametrize(
    "command", [[], ["run"], ["plan"], ["plan", "join"], ["data", "list"], ["network", "new"]]
)
def test_help_in_both_spellings_shows_flags_without_a_type(command):
    short, long = coterie(*command, "-h"), coterie(*command, "--help")
    assert (short.status, short.stdout) == (0, long.stdout)
    assert "<bool>" not in short.stdout
    assert "--help" in short.stdout


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (["rnu"], "Did you mean 'run'? See coterie --help."),
        (["plan", "jion"], "Did you mean 'join'? See coterie plan --help."),
        (["data", "lst"], "Did you mean 'list'? See coterie data --help."),
        (["run", "--topolgy", "ring"], "Did you mean --topology? See coterie run --help."),
        (["certify", "--paper", "liu_2023"], "Did you mean 'liu_2022'?"),
        (["reproduce", "kang_2020"], "Did you mean 'kang_2021'?"),
        (["data", "describe", "minst"], "Did you mean 'mnist'?"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_word_that_is_nearly_right_gets_a_hint(words, hint):
    done = coterie(*words)
    assert (done.status, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert done.stderr.rstrip().endswith(hint)
    assert "?." not in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["run", "--epsilon", "-1"],
        ["run", "--delta", "2"],
        ["audit", "--epsilon", "0"],
        ["plan", "--sizes", "100,200", "--dimension", "5", "--epsilon", "-1"],
        ["plan", "--sizes", "100,0", "--dimension", "5"],
        ["plan", "join", "--data", "census", "--owner", "x", "--epsilon", "0"],
        ["certify", "--multiplier", "2", "--rate", "1.5", "--steps", "9", "--delta", "1e-5"],
        ["certify", "--epsilon", "0", "--steps", "9", "--delta", "1e-5"],
        [
            "network",
            "new",
            "n",
            "--owners",
            "a,b",
            "--sizes",
            "3,4",
            "--columns",
            "c.toml",
            "--epsilon",
            "-1",
        ],
    ],
    ids=" ".join,
)
def test_a_wrong_number_is_refused_before_anything_slow_is_loaded(words):
    slow = ("jax", "numpy", "pandas", "matplotlib", "scipy", "dp_accounting")
    program = (
        "import sys; from coterie.cli import app\n"
        "try: app(sys.argv[1:])\n"
        f"except SystemExit as end: print(end.code, [name for name in {slow!r} if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, timeout=300, check=True
    )
    assert done.stdout == "2 []\n"
    assert done.stderr.startswith("error: ")
