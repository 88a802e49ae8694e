"""A masked run as a user sees it: two numbers everywhere, who must be honest, and a check of both."""

import json

import pytest
from dp_accounting import GaussianDpEvent, SelfComposedDpEvent

from coterie.accounting import certify
from coterie.accounting.events import event_from_json
from coterie.experiments import output, recompute
from coterie.experiments.experiment import Experiment
from coterie.experiments.run import run
from coterie.reports.promise import promise
from coterie.reports.statement import statement


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    settings = {"view": "masked", "steps": 4, "step_size": 1.0, "colluding": 2}
    experiment = Experiment(protocol="weighted_erm", owners=6, epsilon=(1.0,), settings=settings)
    result = run(experiment)
    place = output.write(result, tmp_path_factory.mktemp("runs") / "masked")
    from coterie.cli._words import words

    (place / "words.txt").write_text(words(result, place), encoding="utf-8")
    return place


def privacy(folder):
    return json.loads((folder / "result.json").read_text(encoding="utf-8"))["privacy"]


def test_both_numbers_are_in_json_words_page_and_model(folder):
    from coterie.model import load
    from coterie.model.words import costs

    found = privacy(folder)
    certified, together = found["certified_epsilon"]["max"], found["all_others_epsilon"]
    assert 0.99 < certified <= 1.0 < together
    assert found["facts"]["all_others"]["epsilon"] == together
    text = (folder / "words.txt").read_text(encoding="utf-8")
    assert "against all others  ε ≤ " in text
    page = (folder / "report.html").read_text(encoding="utf-8")
    assert "against all other owners together, were they to collude" in page
    assert dict(costs(load(folder / "model.safetensors").description))["against all others"].startswith(
        "ε ≤ "
    )


def test_the_statement_and_the_promise_say_who_must_be_honest(folder):
    found = privacy(folder)
    trust = next(line for line in found["statement"] if line.startswith("Trust: "))
    assert "at least 3 of an owner's 5 fellow owners must be who they say they are" in trust
    assert "Nobody is trusted to add up" in trust
    view = next(line for line in found["statement"] if line.startswith("Adversary's view: "))
    assert "up to 2 other owners may collude" in view
    assert "Against all other owners together: ε ≤ " in view
    beware = next(line for line in found["promise"] if line.startswith("Beware: "))
    assert "If all of them worked together, a suspicion of 1 in 10" in beware
    assert any("hidden under masks" in line for line in found["promise"])


def test_a_third_party_computes_both_numbers_again(folder):
    assert not [problem for one in recompute.check(folder) for problem in one.problems]
    assert not [problem for one in recompute.check(folder / "model.safetensors") for problem in one.problems]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda privacy: privacy.update(all_others_epsilon=1.1), "all_others_epsilon is 1.1 in the summary"),
        (
            lambda privacy: privacy["facts"]["all_others"].update(epsilon=1.1),
            "against all others: epsilon is 1.1",
        ),
        (lambda privacy: privacy["facts"].update(all_others=None), "lack the certificate against all other"),
        (lambda privacy: privacy["facts"].update(colluding=4), "statement is not what follows"),
    ],
)
def test_an_edited_second_number_is_found(folder, change, words):
    obj = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    change(obj["privacy"])
    problems = [one for check in recompute.check_result(obj, "here") for one in check.problems]
    assert any(words in one for one in problems), problems


@pytest.mark.parametrize(
    ("forged", "words"),
    [({"delta": 0.3}, "against all others: delta is 0.3"), ({"weaker": True}, "is below a certificate's")],
)
def test_a_second_number_of_another_promise_is_found(folder, forged, words):
    """All that follows from it is forged, too: at a δ of 0.3 hardly any ε is needed, and other events cost less."""
    obj = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    told = obj["privacy"]
    together, worst = told["facts"]["all_others"], told["certificates"][0]
    event = (
        SelfComposedDpEvent(GaussianDpEvent(50.0), 4)
        if "weaker" in forged
        else event_from_json(together["event"])
    )
    delta = forged.get("delta", together["delta"])
    found = certify(event, delta=delta, view=together["view"], unit=together["unit"], size=together["size"])
    told["facts"]["all_others"] = found.to_json()
    told["all_others_epsilon"] = found.epsilon
    told["warnings"] += found.warnings
    facts = recompute._facts(obj, told, worst)
    told.update(statement=statement(facts), promise=promise(facts))
    problems = [one for check in recompute.check_result(obj, "here") for one in check.problems]
    assert any(words in one for one in problems), problems
