"""Words that fit a narrow terminal, and one owner who is not "1 owners"."""

import pytest
from cli_world import coterie, on

from coterie.experiments.claims import table
from coterie.experiments.claims.words import blocks

NARROW = 50


@pytest.fixture
def narrow(monkeypatch):
    monkeypatch.setenv("COLUMNS", str(NARROW))


def widest(text: str) -> int:
    """Of all lines but those that end in a path, which nobody breaks."""
    return max(len(line) for line in text.splitlines() if not line.startswith("written: "))


def test_one_owner_in_one_round_on_a_narrow_terminal(visits, tmp_path, narrow):
    alone = ("--owners", 1, "--partition", "iid", "--topology", "complete", "--set", "rounds=1")
    done = coterie(*on(visits), *alone, "--gossip-steps", 1, "--out", tmp_path / "run")
    assert done.status == 0, done.stderr
    text = " ".join(done.stdout.split())
    for part in ("1 owner,", "1 round,", "1 gossip step a round", "1 of 1 within budget"):
        assert part in text
    assert not any(
        f" 1 {word}s" in f" {text}" for word in ("owner", "round", "gossip step", "record", "release")
    )
    assert widest(done.stdout.replace(str(visits), "visits.csv")) <= NARROW


def test_a_plan_on_a_narrow_terminal(narrow):
    done = coterie("plan", "--owners", 2, "--records", 50, "--dimension", 1, "--rounds-at-most", 2)
    assert done.status == 0, done.stderr
    assert widest(done.stdout) <= NARROW
    assert "1 feature," in done.stdout


@pytest.mark.parametrize("width", [100, 79, 66, 50, 40])
def test_the_claims_table_at_any_width(width):
    rows = [*table("wor_sgd"), *table("async_learner")]
    lines = list(blocks(rows, width))
    assert max(len(line) for line, _ in lines) <= width
    marked = [line[span[0] : span[1]].strip() for line, span in lines if span]
    assert marked == ["2.852", "1.372", "2.36", "1.139", "3.163", "1.265"]


@pytest.mark.parametrize("columns", ["40", "60", "79"])
def test_help_fits(monkeypatch, columns):
    monkeypatch.setenv("COLUMNS", columns)
    done = coterie("run", "--help")
    assert done.status == 0
    assert widest(done.stdout) <= int(columns)
