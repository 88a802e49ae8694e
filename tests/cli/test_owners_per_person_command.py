"""A person whom several owners know, as a user asks for it: one run, what is said of it, and what is refused."""

import json
import math
import re
from pathlib import Path

import dp_accounting as dp
import numpy as np
import pytest
from cli_world import Ran, coterie, on, write_visits

from coterie.accounting import recompute
from coterie.experiments.experiment import Experiment, from_toml, read_toml
from coterie.experiments.recompute import check_result
from coterie.experiments.run import run


@pytest.fixture(scope="module")
def visits(tmp_path_factory) -> Path:
    return write_visits(tmp_path_factory.mktemp("persons") / "visits.csv")


@pytest.fixture(scope="module")
def ran(visits) -> Ran:
    out = visits.parent / "run"
    return coterie(
        *on(visits), "--owners-per-person", "2", "--evaluate", "0.3", "--epsilon", "4", "--out", out, out=out
    )


def privacy_of(out: Path) -> dict:
    return json.loads((out / "result.json").read_text())["privacy"]


def test_the_budget_is_for_the_person_tables_included(ran):
    assert ran.status == 0, ran.stderr
    told = privacy_of(ran.out)
    assert told["owners_per_person"] == 2
    assert 0.99 * 4 <= told["person_epsilon"] <= 4
    assert told["certified_epsilon"]["max"] < 3.2


def test_every_report_says_it(ran):
    said = " ".join(ran.stdout.split())
    assert re.search(r"at 2 owners ε ≤ (4|3\.99\d) a person whom they all know: what budgets are for", said)
    assert "4 of 4 within budget" in said
    assert "about one record at each of up to 2 owners can at most become" in said
    page = " ".join(re.sub(r"<[^>]+>", "", (ran.out / "report.html").read_text("utf-8")).split())
    for words in (
        "one record at each of up to 2 owners, all of them together",
        "if one record at each of up to 2 owners is replaced by any other",
        "ll this is for one record at each of up to 2 owners, and this run",
        "which is what budgets are for",
    ):
        assert words in page, words
    assert re.search(r"at 2 owners ε ≤ (4|3\.99\d)", coterie("show", ran.out).stdout)
    assert coterie("show", ran.out, "--card", ran.out / "card.md").status == 0
    assert "| at 2 owners | ε ≤ " in (ran.out / "card.md").read_text("utf-8")


def test_a_person_at_two_owners_is_told_whatever_the_budget_was_for(visits):
    out = visits.parent / "plain"
    told = coterie(*on(visits), "--out", out)
    assert told.status == 0, told.stderr
    both = dp.get_epsilon_gaussian(dp.get_sigma_gaussian(1.0, 1e-5) / math.sqrt(2), 1e-5)
    assert privacy_of(out)["person_epsilon"] == pytest.approx(both, rel=1e-6)
    assert re.search(r"at 2 owners +ε ≤ 1\.46\d? +a person whom they all know\n", told.stdout)
    said = privacy_of(out)["statement"][1]
    assert "Somebody with several records is protected less" in said
    assert "For one record at each of up to 2 owners: ε ≤ 1.46" in said


def test_at_three_owners_two_are_told_too_and_checked(visits):
    """One Gaussian an owner: √2/√3 of the shift that the budget is for."""
    out = visits.parent / "three"
    told = coterie(*on(visits), "--owners-per-person", "3", "--out", out)
    assert told.status == 0, told.stderr
    found = json.loads((out / "result.json").read_text())
    sigma = dp.get_sigma_gaussian(1.0, 1e-5)
    both = dp.get_epsilon_gaussian(sigma * math.sqrt(3 / 2), 1e-5)
    assert found["privacy"]["pair_epsilon"] == pytest.approx(both, rel=1e-6)
    bound = f"ε ≤ {both:.3f}"[:-1]  # the last digit shown may be rounded up
    assert re.search(r"at 3 owners +ε ≤ (1|0\.999\d) +.*what budgets are for\n", told.stdout)
    assert re.search(rf"at 2 owners +{bound}\d* +a person whom two know\n", told.stdout)
    assert re.search(rf"at 2 owners +{bound}", coterie("show", out).stdout)
    assert f"For one record at each of up to 2 owners: {bound}" in found["privacy"]["statement"][1]
    assert f"up to 2 owners: {bound}" in (out / "report.html").read_text("utf-8")
    assert not any(one.problems for one in check_result(found, "here"))
    found["privacy"]["facts"]["pair"]["epsilon"] = found["privacy"]["pair_epsilon"] = 0.1
    assert any(
        "person at several owners" in problem
        for one in check_result(found, "here")
        for problem in one.problems
    )
    del found["privacy"]["facts"]["pair"]
    assert any(
        "two owners know" in problem for one in check_result(found, "here") for problem in one.problems
    )


def test_one_owner_knows_nobody_twice():
    x = np.random.default_rng(0).uniform(-1, 1, (60, 2))
    found = run(Experiment(data=(x, x[:, 0] > 0), owners=1, settings={"rounds": 5})).to_json(None)
    assert found["privacy"]["person_epsilon"] is None
    assert not any(one.problems for one in check_result(found, "here"))


def forged(told: dict, **change) -> None:
    """A person's certificate of something else, computed as it should be, and the same in the summary."""
    told["facts"]["person"] = recompute(told["facts"]["person"] | change).to_json()
    told["person_epsilon"] = told["facts"]["person"]["epsilon"]


def of_more(told: dict) -> None:
    told["facts"]["owners_per_person"] = told["owners_per_person"] = 3


CHANGES = [
    (lambda told: told.update(person_epsilon=1.0), "person_epsilon is 1.0 in the summary"),
    (lambda told: told["facts"]["person"].update(epsilon=1.0), "a person at several owners: epsilon is 1.0"),
    (lambda told: told["facts"].update(person=None), "lack the certificate for a person"),
    (lambda told: forged(told, delta=0.1), "delta of a person at several owners is 0.1"),
    (lambda told: told.update(owners_per_person=1), "owners_per_person is 1 in the summary"),
    (of_more, "unit of a person at several owners"),
    (lambda told: forged(told, event=told["certificates"][0]["event"]), "by the owners'"),
]


@pytest.mark.parametrize(("change", "words"), CHANGES)
def test_a_changed_number_is_refused(ran, change, words):
    assert coterie("certify", "--from", ran.out).status == 0
    result = json.loads((ran.out / "result.json").read_text())
    change(result["privacy"])
    forged = ran.out.parent / "forged.json"
    forged.write_text(json.dumps(result))
    refused = coterie("certify", "--from", forged)
    assert refused.status != 0
    assert words in refused.stderr


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("0", "owners_per_person=0: must be a whole number >= 1."),
        ("5", "owners_per_person=5: must be at most 4, as many as there are owners."),
        ("1.5", "--owners-per-person"),
        ("two", "--owners-per-person"),
    ],
)
def test_bad_input_is_one_line(visits, given, words):
    refused = coterie(*on(visits), "--owners-per-person", given)
    assert refused.status == 2
    assert words in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1


def test_files_and_python_say_the_same(ran, visits):
    assert read_toml(ran.out / "experiment.toml").owners_per_person == 2
    assert from_toml("owners_per_person = 3").owners_per_person == 3
    with pytest.raises(Exception, match=r"owners_per_person=1\.5: must be a whole number"):
        from_toml("owners_per_person = 1.5")
    found = run(
        Experiment(
            data=str(visits),
            target="readmitted",
            owner_column="hospital",
            owners_per_person=2,
            settings={"rounds": 5},
        )
    )
    told = found.to_json(None)["privacy"]
    assert 0.999 <= told["person_epsilon"] <= 1.0


def test_a_comparison_holds_every_protocol_to_it(visits):
    out = visits.parent / "compared"
    told = coterie(
        "compare", "--data", visits, "--target", "readmitted", "--owner-column", "hospital", "--owners-per-person", "2",
        "--protocols", "dual_averaging,weighted_erm", "--epsilon", "1", "--seeds", "1", "--out", out,
    )  # fmt: skip
    assert told.status == 0, told.stderr
    assert len(re.findall(r"ε ≤ (?:1|0\.999\d?) at 2 owners", " ".join(told.stdout.split()))) == 2
    page = re.sub(r"<[^>]+>", " ", (out / "report.html").read_text("utf-8"))
    assert "ε of a person at 2 owners" in page
