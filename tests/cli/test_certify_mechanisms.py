"""`coterie certify` as an accountant: mechanisms on the command line or in a file, both ways round, and mistakes."""

import json
from pathlib import Path

import pytest
from cli_world import coterie

from coterie._rounding import at_most

USUAL = ("--noise", "gaussian", "--rate", 0.01, "--steps", 10_000, "--delta", 1e-5)


def test_what_a_mechanism_costs_in_plain_words():
    found = coterie("certify", *USUAL, "--multiplier", 1.1, "--relation", "add_or_remove_one")
    assert found.status == 0, found.stderr
    assert found.stdout.splitlines() == [
        "10,000 releases with Gaussian noise of 1.1 × C (C bounds a record's part in the 2-norm), "
        "each record drawn with probability 0.01 each time",
        "certified: ε ≤ 5.193 (δ = 1e-05, add_or_remove_one, unit: record, view: public transcript) by PLD",
        "lower end: no accountant could certify less than ε = 3.761 for these releases",
        "beside dp-accounting: its PLD accountant knows these releases, too: its bound differs by the grids' errors "
        "alone",
    ]


def test_the_least_multiplier_of_a_budget():
    found = coterie("certify", "--epsilon", 1, "--steps", 100, "--delta", 1e-5)
    assert found.stdout.splitlines()[:3] == [
        "least multiplier: 74.62",
        "100 releases with Gaussian noise of 74.62 × C (C bounds a record's part in the 2-norm), all records each time",
        "certified: ε ≤ 1 (δ = 1e-05, replace_one, unit: record, view: public transcript) by exact Gaussian",
    ]


def test_json_is_a_certificate_that_can_be_computed_again(tmp_path):
    found = coterie(
        "certify", "--batch", 5, "--records", 100, "--steps", 20, "--epsilon", 2, "--delta", 1e-5, "--json"
    )
    assert found.stdout.count("\n") == 1
    assert found.json["epsilon_optimistic"] <= found.json["epsilon"] <= 2
    assert found.json["mechanisms"][0]["multiplier"] is None
    assert found.json["event"]["event"]["event"]["noise_multiplier"] == found.json["multiplier"]
    assert "2C" in found.json["beside_dp_accounting"]
    kept = tmp_path / "certificate.json"
    kept.write_text(found.stdout, encoding="utf-8")
    assert coterie("certify", "--from", kept).stdout.startswith("agrees: certified: ε ≤ 2 ")
    kept.write_text(json.dumps(found.json | {"epsilon": 0.1}), encoding="utf-8")
    assert coterie("certify", "--from", kept).status == 2


def test_a_plan_of_two_mechanisms(tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text(
        "[[mechanism]]\nnoise = 'laplace'\nmultiplier = 50\nsteps = 4\n[[mechanism]]\nsteps = 10\n",
        encoding="utf-8",
    )
    found = coterie("certify", "--plan", plan, "--epsilon", 1, "--delta", 1e-6, "--json")
    assert 0.98 < found.json["epsilon"] <= 1
    assert [one["steps"] for one in found.json["mechanisms"]] == [4, 10]


def test_a_runs_folder_is_as_good_as_its_result(ran, tmp_path):
    of_folder, of_file = (coterie("certify", "--from", place) for place in (ran.out, ran.out / "result.json"))
    assert of_folder.status == 0, of_folder.stderr
    assert of_folder.stdout == of_file.stdout
    empty = coterie("certify", "--from", tmp_path)
    assert (empty.status, empty.stderr.count("\n")) == (2, 1)
    assert "result.json" in empty.stderr


FINE = {"--multiplier": 2, "--steps": 10, "--delta": 1e-5}
MISTAKES = [
    ({"--multiplier": None, "--epsilon": 0}, "epsilon=0.0: must be > 0"),
    ({"--multiplier": None, "--epsilon": -1}, "epsilon=-1.0: must be > 0"),
    ({"--rate": 1.5}, "rate=1.5: must be > 0 and <= 1"),
    ({"--steps": 0}, "steps=0: must be a whole number >= 1"),
    ({"--steps": None}, "steps: missing"),
    ({"--delta": None}, "delta: missing"),
    ({"--delta": 1}, "delta=1.0: must be >= 0 and < 1"),
    ({"--delta": 0}, "delta=0: no epsilon bounds Gaussian noise without it"),
    ({"--delta": 0, "--multiplier": None, "--epsilon": 1}, "delta=0: no epsilon bounds Gaussian noise"),
    ({"--noise": "gausian"}, "Did you mean 'gaussian'?"),
    ({"--relation": "replace"}, "Did you mean 'replace_one'?"),
    ({"--epsilon": 1}, "every multiplier is given. Leave one out"),
    ({"--multiplier": None}, "multiplier: missing. Give it, or epsilon"),
    ({"--noise": "laplace", "--rate": 0.1}, "Use relation='add_or_remove_one', or no sampling"),
    ({"--noise": "laplace", "--batch": 2, "--records": 9}, "Use noise='gaussian', or no sampling"),
    ({"--batch": 2, "--records": 9, "--relation": "add_or_remove_one"}, "Use relation='replace_one'"),
    ({"--noise": "laplace", "--rate": 0.1, "--cap": 2, "--records": 9}, "Gaussian noise only"),
    ({"--paper": "liu_2022"}, "does not go with --paper"),
    ({"--from": "result.json"}, "does not go with --from"),
    ({"--plan": "nowhere.toml"}, "--plan: does not go with --multiplier, --steps"),
    ({"--plan": "nowhere.toml", "--multiplier": None, "--steps": None}, "cannot be read"),
]


@pytest.mark.parametrize(("change", "words"), MISTAKES)
def test_mistakes_are_one_line(change, words):
    options = [part for pair in (FINE | change).items() if pair[1] is not None for part in pair]
    found = coterie("certify", *options)
    assert (found.status, found.stdout) == (2, "")
    assert found.stderr.startswith("error: ")
    assert found.stderr.count("\n") == 1
    assert words in found.stderr


PAGE = Path(__file__).parents[2] / "docs" / "accountant.md"


def test_the_pages_renyi_number():
    import dp_accounting as dp
    from dp_accounting.rdp import RdpAccountant

    renyi = RdpAccountant(neighboring_relation=dp.NeighboringRelation.REPLACE_ONE)
    renyi.compose(dp.SampledWithoutReplacementDpEvent(60_000, 600, dp.GaussianDpEvent(1.1)), 10_000)
    assert f"it says {at_most(float(renyi.get_epsilon(1e-5)))}," in PAGE.read_text(encoding="utf-8")
