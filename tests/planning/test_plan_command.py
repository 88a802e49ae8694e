"""`coterie plan` as a user calls it."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from coterie.cli import _progress, app


def coterie(*arguments: object):
    return CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)


SMALL = ("--owners", 3, "--records", 2000, "--dimension", 10, "--rounds-at-most", 20)


def test_words_and_json_agree():
    words, done = coterie("plan", *SMALL), coterie("plan", *SMALL, "--json")
    assert words.exit_code == done.exit_code == 0
    found = json.loads(done.stdout)
    best = found["recommended"]
    assert best["protocol"] in words.stdout
    assert f"{found['predicted']['excess_risk']:.3g}" in words.stdout
    assert found["certified_epsilon"] <= 1.0
    assert found["reads_records"] is False
    assert (
        found["predicted"]["interval"][0]
        <= found["predicted"]["excess_risk"]
        <= found["predicted"]["interval"][1]
    )


def test_recommended_settings_run(tmp_path):
    """What the plan prints as options of `coterie run` is accepted there."""
    rng = np.random.default_rng(0)
    rows = [f"{'abc'[at % 3]},{rng.uniform(-1, 1):.3f},{'no' if at % 2 else 'yes'}" for at in range(150)]
    (tmp_path / "rows.csv").write_text("\n".join(["who,size,sick", *rows]))
    words = ("--owners", 3, "--records", 50, "--dimension", 2, "--rounds-at-most", 10, "--json")
    best = json.loads(coterie("plan", *words).stdout)["recommended"]
    sets = [part for key, value in best["settings"].items() for part in ("--set", f"{key}={value}")]
    data = ("--data", tmp_path / "rows.csv", "--target", "sick", "--owner-column", "who")
    done = coterie("run", *data, "--protocol", best["protocol"], *sets, "--json", "--out", tmp_path / "run")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["privacy"]["certified_epsilon"]["max"] <= 1.0


def test_an_owner_as_a_whole_is_planned_as_one_unit():
    """Its certificate is that of one record of an owner who has one; its records say more than one would."""
    devices = ("--owners", 500, "--dimension", 5, "--rounds-at-most", 10, "--colluding", 1, "--epsilon", 4)
    whole = ("--records", 20, "--unit", "owner")
    found = json.loads(coterie("plan", *devices, *whole, "--json").stdout)
    single, many = (
        json.loads(coterie("plan", *devices, "--records", each, "--json").stdout) for each in (1, 20)
    )
    assert found["unit"] == "owner with up to 1,000 records"
    assert found["all_others_epsilon"] == pytest.approx(single["all_others_epsilon"])
    risks = [one["predicted"]["excess_risk"] for one in (many, found, single)]
    assert risks == sorted(risks)
    said = " ".join(coterie("plan", *devices, *whole).stdout.split())
    assert "--unit owner --records-per-unit 1000" in said
    refused = coterie("plan", *SMALL, "--unit", "owner", "--records-per-person", 3)
    assert refused.exit_code == 2
    assert "Leave one out" in refused.stderr


def test_who_gains_is_told_by_sizes():
    words = ("plan", "--sizes", "1000,1000,9000", "--dimension", 10, "--rounds-at-most", 20)
    who = json.loads(coterie(*words, "--json").stdout)["joining"]
    assert who["gains"] == [size < who["below"] for size in (1000, 1000, 9000)] == [True, True, False]
    below = float(f"{who['below']:.2g}")
    assert (
        f"2 of 3 owners: it pays for those with fewer than about {below:,.0f} records"
        in coterie(*words).stdout
    )
    none = coterie("plan", "--sizes", "30,30", "--dimension", 10, "--epsilon", 0.01)
    assert "nobody: the joint model is no better" in none.stdout


def test_sweep_writes_a_picture(tmp_path):
    out = tmp_path / "sweep.png"
    words = ("--sizes", "500,900", "--dimension", 5, "--rounds-at-most", 10, "--sweep", "owners")
    done = coterie("plan", *words, "--out", out, "--json")
    assert done.exit_code == 0, done.output
    points = json.loads(done.stdout)["points"]
    risks = [point["predicted"]["excess_risk"] for point in points]
    assert risks == sorted(risks, reverse=True)
    assert [point["owners"] for point in points] == [1, 2, 4, 8, 16, 32, 64]
    assert out.read_bytes().startswith(b"\x89PNG")


def test_too_small_a_budget_is_said_plainly():
    done = coterie("plan", "--owners", 2, "--records", 30, "--dimension", 10, "--epsilon", 0.01)
    assert done.exit_code == 0
    assert "too small for anything useful" in " ".join(done.stdout.split())


def test_a_delta_that_would_let_a_record_be_published_is_said_where_it_is_chosen():
    done = coterie("plan", *TWO, "--delta", "0.1")
    assert done.exit_code == 0, done.output
    assert "publishing one record in full" in " ".join(done.stdout.split())


def test_public_rows_are_used(tmp_path):
    file = tmp_path / "rows.csv"
    file.write_text("a,b\n0.5,0.1\n0.6,-0.1\n")
    words = ("--owners", 2, "--records", 900, "--dimension", 2, "--rounds-at-most", 10)
    done = coterie("plan", *words, "--public-rows", file, "--json")
    assert json.loads(done.stdout)["spectrum"] == "public rows"


TWO = ("--owners", 2, "--records", 900, "--dimension", 2, "--rounds-at-most", 10)


def public(tmp_path, labels: str = "01", scale: float = 0.7):
    """Rows whose second feature says nothing, and whose label follows the first."""
    rng, file = np.random.default_rng(0), tmp_path / "public.csv"
    x = scale * rng.uniform(-1, 1, (300, 2))
    lines = [f"{a:.4f},{b:.4f},{labels[int(a > 0)]}" for a, b in x]
    file.write_text("\n".join(["a,b,sick", *lines]))
    return file


def test_labelled_public_rows_say_more(tmp_path):
    words = ("--public-rows", public(tmp_path), "--public-target", "sick")
    found = json.loads(coterie("plan", *TWO, *words, "--json").stdout)
    assert found["spectrum"] == found["optimum"] == "public rows"
    assert "and their targets" in " ".join(coterie("plan", *TWO, *words).stdout.split())


@pytest.mark.parametrize(
    ("labels", "scale", "more", "names"),
    [
        ("01", 0.7, ("--public-target", "age"), ("public_target='age'", "a, b, sick")),
        ("01", 0.7, (), ("3 features", "dimension=2")),
        ("03", 0.7, ("--public-target", "sick"), ("public_target='sick'", "0 and 1")),
        ("01", 7.0, ("--public-target", "sick"), ("norm", "at most 1")),
        ("01", np.nan, ("--public-target", "sick"), ("finite",)),
    ],
)
def test_public_rows_that_do_not_fit_are_one_line(tmp_path, labels, scale, more, names):
    done = coterie("plan", *TWO, "--public-rows", public(tmp_path, labels, scale), *more)
    assert done.exit_code == 2, done.output
    assert done.stderr.count("\n") == 1
    for name in names:
        assert name in done.stderr


def test_the_printed_command_carries_the_budgets():
    done = coterie("plan", *SMALL, "--epsilon", "0.5", "--topology", "complete")
    assert "--epsilon 0.5 --delta 1e-05 --topology complete" in " ".join(done.stdout.split())
    assert "1 owner," in coterie("plan", "--sizes", 500, *SMALL[4:]).stdout


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ((), ("dimension=None",)),
        (("--dimension", 5), ("sizes=None", "--owners")),
        (("--dimension", 5, "--sizes", "10,x"), ("sizes='10,x'",)),
        (("--dimension", 5, "--sizes", "10,0"), ("sizes=0",)),
        (("--dimension", 5, "--sizes", f"10,{10**20}"), (f"sizes={10**20}", "<= 1,000,000,000,000")),
        (("--dimension", 5, "--owners", 10**8, "--records", 9), ("owners=100000000", "<= 1,000,000")),
        (("--dimension", 5, "--sizes", "10,20", "--owners", 2), ("--sizes", "--owners")),
        (("--dimension", 0, *SMALL[:4]), ("dimension=0",)),
        ((*SMALL, "--epsilon", "0"), ("epsilon=0.0",)),
        ((*SMALL, "--epsilon", "1,2"), ("2 budgets for 3 owners",)),
        ((*SMALL, "--delta", "2"), ("delta=2.0",)),
        ((*SMALL, "--classes", 0), ("classes=0",)),
        ((*SMALL, "--topology", "chain"), ("topology='chain'",)),
        ((*SMALL, "--rounds-at-most", 0), ("rounds_at_most=0",)),
        ((*SMALL, "--sweep", "delta"), ("sweep='delta'",)),
        ((*SMALL, "--out", "x.png"), ("--out", "--sweep")),
        ((*SMALL, "--sweep", "owners", "--out", "x.gif"), ("x.gif", ".png")),
        ((*SMALL, "--public-rows", "nowhere.csv"), ("nowhere.csv", "cannot be read")),
        ((*SMALL, "--public-target", "sick"), ("public_target='sick'", "--public-rows")),
    ],
)
def test_mistakes_are_one_line(words, names):
    done = coterie("plan", *words)
    assert done.exit_code == 2, done.output
    assert done.stdout == ""
    assert done.stderr.count("\n") == 1
    for name in names:
        assert name in done.stderr


@pytest.fixture
def impatient(monkeypatch):
    """A log hears of everything at once, as of a command that takes long."""
    monkeypatch.setattr(_progress, "_PATIENCE", -1.0)
    monkeypatch.setattr(_progress, "_PAUSE", 0.0)


def test_a_plan_that_takes_long_says_how_far_it_is(impatient):
    done = coterie("plan", *SMALL)
    assert done.exit_code == 0
    for phase in (
        "choosing noise: 1 of 5",
        "choosing noise: 4 of 5",
        "forecasting: 0 of 5",
        "forecasting: 4 of 5",
    ):
        assert phase in done.stderr
    assert "of 5" not in done.stdout


def test_so_does_a_question_whether_joining_pays(impatient, tmp_path):
    rng = np.random.default_rng(0)
    rows = [f"{rng.uniform(-1, 1):.3f},{'no' if at % 2 else 'yes'}" for at in range(60)]
    (tmp_path / "mine.csv").write_text("\n".join(["size,sick", *rows]))
    asked = ("--owner", "us", "--data", tmp_path / "mine.csv", "--target", "sick", "--rounds-at-most", 4)
    done = coterie("plan", "join", *asked, "--json")
    assert done.exit_code == 0, done.stderr
    for phase in ("your own model: 4 of 5", "forecasting: 1 of 5", "where it pays: 14 of 15"):
        assert phase in done.stderr
    assert json.loads(done.stdout)["owner"] == "us"
