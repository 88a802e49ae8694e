"""A run whose view trusts whoever adds up: the ε against it is in words, and a third party derives it again."""

import json

import pytest

from coterie.experiments import output, recompute
from coterie.experiments.experiment import Experiment
from coterie.experiments.run import run

SETTINGS = {"view": "aggregator", "steps": 4, "step_size": 1.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    experiment = Experiment(protocol="weighted_erm", owners=5, epsilon=(1.0,), settings=SETTINGS)
    return output.write(run(experiment), tmp_path_factory.mktemp("runs") / "trusted")


def problems(result):
    return [problem for one in recompute.check_result(result, "here") for problem in one.problems]


@pytest.fixture
def result(folder):
    return json.loads((folder / "result.json").read_text(encoding="utf-8"))


def test_a_third_party_computes_it_again_from_run_and_model(folder, result):
    kept = result["privacy"]["facts"]["adding_up"]
    assert kept["epsilon"] > result["privacy"]["certified_epsilon"]["max"]
    assert f"(ε against it: {kept['epsilon']:.3f}"[:-2] in result["privacy"]["view"]
    assert not problems(result)
    assert not [problem for one in recompute.check(folder / "model.safetensors") for problem in one.problems]


def forge(value, old, new):
    """Every text of a result with another number in it."""
    return json.loads(json.dumps(value, ensure_ascii=False).replace(old, new))


def test_a_smaller_number_in_the_view_is_found(result):
    said = result["privacy"]["view"].partition("ε against it: ")[2].partition(")")[0]
    forged = forge(result, f"ε against it: {said})", "ε against it: 1.001)")
    assert any("ε against whoever adds up is" in problem for problem in problems(forged))


def test_a_smaller_certificate_is_found(result):
    kept = result["privacy"]["facts"]["adding_up"]
    said = result["privacy"]["view"].partition("ε against it: ")[2].partition(")")[0]
    forged = forge(result, f"ε against it: {said})", "ε against it: 1.001)")
    forged["privacy"]["facts"]["adding_up"] = kept | {"epsilon": 1.001, "epsilon_optimistic": 1.001}
    assert any(problem.startswith("against whoever adds up: epsilon is") for problem in problems(forged))
    weaker = forged["privacy"]["certificates"][0]
    forged["privacy"]["facts"]["adding_up"] = kept | {"event": weaker["event"], "delta": 0.5}
    assert any("delta is 0.5 and not the certificates'" in problem for problem in problems(forged))


def test_a_certificate_left_out_is_found(result):
    del result["privacy"]["facts"]["adding_up"]
    assert "the facts lack the certificate against whoever adds up" in problems(result)


def test_a_single_owner_is_told_no_number_for_a_person_whom_several_know():
    """Nothing of a file with one certificate says what two of them cost, so that any number could stand there."""
    result = run(Experiment(owners=1, epsilon=(1.0,), settings={"rounds": 2})).to_json(None)
    assert not problems(result)
    forged = result["privacy"] | {"person_epsilon": 0.1}
    assert any("one owner has no person" in problem for problem in problems(result | {"privacy": forged}))
    small = result["privacy"]["certificates"][0] | {"epsilon": 0.1}
    forged = result["privacy"] | {"facts": result["privacy"]["facts"] | {"person": small}}
    assert any("one owner has no person" in problem for problem in problems(result | {"privacy": forged}))


def test_private_sizes_are_marked_wherever_they_stand_and_the_model_is_certified_without_them(tmp_path):
    """As the page marks them; a model has none."""
    settings = {"relation": "add_or_remove_one", "steps": 2, "step_size": 0.1}
    experiment = Experiment(protocol="weighted_erm", owners=3, epsilon=(1.0,), settings=settings)
    place = output.write(run(experiment), tmp_path / "private")
    found = json.loads((place / "result.json").read_text(encoding="utf-8"))
    assert found["oracle"] == ["sizes"]
    assert found["privacy"]["oracle"] == ["claim", "claimed_epsilon", "warnings"]
    assert all(one["oracle"] == ["size", "warnings"] for one in found["privacy"]["certificates"])
    assert not problems(found)
    found["privacy"]["facts"]["test_is_public"] = False
    assert "metric.rows is not marked as an oracle value" in problems(found)
    assert not [problem for one in recompute.check(place / "model.safetensors") for problem in one.problems]


def test_public_sizes_are_not_marked(result):
    assert result["oracle"] == []
    assert "oracle" not in result["privacy"] | result["privacy"]["certificates"][0]
