"""Joining: reads one owner only, and crosses where it should."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from coterie.cli import app
from coterie.errors import InputError
from coterie.planning import join, search
from coterie.planning.candidates import VISITS
from coterie.planning.join import Point, ask, crossing, look
from coterie.planning.public import Consortium


def records(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((rows, 10))
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    likely = 1 / (1 + np.exp(-x @ np.linspace(-6, 6, 10)))
    return x.astype(np.float32), np.where(rng.uniform(size=rows) < likely, 1.0, -1.0).astype(np.float32)


def test_many_partners_are_visited_less_often(monkeypatch):
    """A protocol of visits takes so many of them at most: with 128 partners, fewer than the plan's for each."""
    monkeypatch.setattr(search, "protocols_for", lambda *given: (("async_learner",), {}))
    monkeypatch.setattr(join, "BUDGETS", (1.0,))
    monkeypatch.setattr(join, "PARTNERS", (1, 128))
    base = Consortium(sizes=(60,), dimension=10)
    answer = ask(look(*records(60), 2), base, 5, 1000, rounds_at_most=200)
    assert answer.plan.best.rounds * 129 > VISITS
    assert [point.at for point in answer.over_partners] == [1, 128]
    assert all(np.isfinite(point.predicted) for point in answer.over_partners)


def test_an_owner_s_own_excess_is_near_dimension_over_twice_its_records():
    """A well-specified model has excess d/2n; the penalty only lowers it."""
    found = [look(*records(400, seed), classes=2).excess for seed in range(8)]
    assert 0.4 < np.mean(found) / (10 / 800) < 1.6


def test_small_owners_gain_and_large_ones_do_not():
    base = Consortium(sizes=(1,), dimension=10)
    small = ask(look(*records(60), 2), base, partners=10, partner_records=2000, rounds_at_most=40)
    large = ask(look(*records(4000), 2), base, partners=1, partner_records=100, rounds_at_most=40)
    assert small.gain > 0 > large.gain
    assert small.break_even_epsilon is not None
    assert small.break_even_epsilon < 1.0
    assert large.break_even_partners is None or large.break_even_partners > 1
    risks = [point.predicted for point in small.over_partners]
    assert risks == sorted(risks, reverse=True)


def test_crossing_is_between_the_points_around_it():
    points = tuple(Point(at=at, predicted=1 / at, low=0.0, high=0.0) for at in (1.0, 10.0, 100.0))
    found = crossing(points, 0.05)
    assert found is not None
    assert np.isclose(found, 20.0)
    assert crossing(points, 0.001) is None
    assert crossing(points, 5.0) == 1.0


def write(path, other: float) -> None:
    """Two owners; the rows of `b` hold `other`."""
    rng, lines = np.random.default_rng(3), ["who,size,sick"]
    for at in range(120):
        value = rng.uniform(-1, 1)
        label = "yes" if value + rng.normal(0, 0.5) > 0 else "no"
        lines.append(f"a,{value:.3f},{label}" if at % 2 else f"b,{other * value:.3f},{label}")
    path.write_text("\n".join(lines))


def plan_join(path, *more: object):
    words = [
        "plan",
        "join",
        "--data",
        path,
        "--target",
        "sick",
        "--owner-column",
        "who",
        "--rounds-at-most",
        10,
    ]
    return CliRunner().invoke(app, [str(word) for word in (*words, *more)], catch_exceptions=False)


def test_only_the_asking_owner_s_rows_matter(tmp_path):
    answers = []
    for other in (0.1, 0.9):
        write(tmp_path / "rows.csv", other)
        done = plan_join(tmp_path / "rows.csv", "--owner", "a", "--json", "--out", tmp_path / "join.png")
        assert done.exit_code == 0, done.output
        answers.append(json.loads(done.stdout))
    assert answers[0] == answers[1]
    assert {"predicted_gain", "break_even_epsilon", "break_even_partners"} <= answers[0].keys()
    assert answers[0]["is_release"] is False
    assert (tmp_path / "join.png").read_bytes().startswith(b"\x89PNG")


def test_a_file_of_one_s_own_needs_no_owner_column(tmp_path):
    write(tmp_path / "rows.csv", 0.5)
    lines = (tmp_path / "rows.csv").read_text().splitlines()
    kept = [line.partition(",")[2] for line in lines if not line.startswith("b,")]
    (tmp_path / "mine.csv").write_text("\n".join(kept))
    words = (
        "--data",
        tmp_path / "mine.csv",
        "--target",
        "sick",
        "--owner",
        "Riverside",
        "--rounds-at-most",
        10,
    )
    done = CliRunner().invoke(app, ["plan", "join", *map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("Riverside ")


def test_an_owner_of_one_class_has_nothing_to_learn():
    x, _ = records(100)
    with pytest.raises(InputError, match="one class"):
        look(x, np.ones(100, np.float32), classes=2)


def test_the_answer_says_what_it_is(tmp_path):
    write(tmp_path / "rows.csv", 0.5)
    words = " ".join(plan_join(tmp_path / "rows.csv", "--owner", "a").stdout.split())
    assert "joining" in words
    assert "not a release" in words
    assert "a decision made on it is visible" in words


def test_too_many_partners_are_refused_before_any_row_is_read(tmp_path):
    done = plan_join(tmp_path / "not there.csv", "--owner", "a", "--partners", 10**7)
    assert done.exit_code == 2
    assert "partners=10000000: must be <= 1,000,000" in done.stderr


@pytest.mark.parametrize(
    ("more", "names"),
    [
        (("--owner", "z"), ("owner='z'", "a, b")),
        (("--owner", "a", "--partners", 0), ("partners=0",)),
        (("--owner", "a", "--partner-records", 0), ("partner_records=0",)),
        (("--owner", "a", "--epsilon", 0), ("epsilon=0.0",)),
        (("--owner", "a", "--topology", "links.csv"), ("topology='links.csv'", "family")),
        (("--owner", "a", "--out", "x.gif"), ("x.gif",)),
    ],
)
def test_mistakes_are_one_line(tmp_path, more, names):
    write(tmp_path / "rows.csv", 0.5)
    done = plan_join(tmp_path / "rows.csv", *more)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    for name in names:
        assert name in done.stderr
