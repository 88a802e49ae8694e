"""What `coterie run` writes is what `coterie certify --from` computes again."""

import json
import shutil
from pathlib import Path

import pytest
from cli_world import coterie, on


@pytest.fixture(scope="module")
def ran_carelessly(visits, tmp_path_factory):
    """δ is above 1/n, so that there is a warning to leave out."""
    out = tmp_path_factory.mktemp("runs") / "careless"
    asked = ("--epsilon", "0.5,1,2,4", "--delta", "0.03", "--json", "--out", out)
    return coterie(*on(visits), *asked, out=out)


def test_a_runs_certificates_agree(ran):
    found = coterie("certify", "--from", ran.out / "result.json", "--json")
    assert found.status == 0, found.stderr
    spent = ran.json["privacy"]["certified_epsilon"]["per_owner"]
    again = {owner: one["found"] for one in found.json["certificates"] for owner in one["owners"]}
    assert [again[owner] for owner in range(len(spent))] == spent


def test_a_run_by_rows_is_told_for_several_records_of_one_person(ran):
    alone = coterie("certify", "--from", ran.out)
    found = coterie("certify", "--from", ran.out, "--group", "5")
    assert found.status == 0, found.stderr
    assert found.stdout.startswith(alone.stdout)
    assert "unit: 5 records of one person" in found.stdout[len(alone.stdout) :]
    plain = coterie("certify", "--from", ran.out, "--group", "5", "--json").json
    for one in plain["certificates"]:
        assert one["group"]["records"] == 5
        assert one["found"] < one["group"]["epsilon"] < 5 * one["found"] * 2
        assert one["group"]["accountant"] == "exact Gaussian"


@pytest.mark.parametrize(
    ("asked", "what"), [(("--group", "5"), "--from"), (("--from", "x.json", "--group", "0"), "group=0")]
)
def test_a_group_without_a_run_or_without_records_is_refused(asked, what):
    found = coterie("certify", *asked)
    assert found.status == 2
    assert what in found.stderr
    assert found.stderr.count("\n") == 1


def test_a_run_that_was_tampered_with_is_noticed(ran, tmp_path):
    result = json.loads((ran.out / "result.json").read_text())
    result["privacy"]["certificates"][0]["epsilon"] *= 0.9
    (tmp_path / "result.json").write_text(json.dumps(result))
    found = coterie("certify", "--from", tmp_path / "result.json")
    assert found.status == 2
    assert found.stderr.count("\n") == 1


def edited(ran, tmp_path, change) -> Path:
    """The run's folder with another result.json."""
    folder = shutil.copytree(ran.out, tmp_path / "run")
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    change(result, result["privacy"])
    (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
    return folder


def _another_epsilon(result, privacy):
    first = privacy["statement"][0]
    privacy["statement"][0] = first.replace("ε ≤ 4", "ε ≤ 0.4")
    assert privacy["statement"][0] != first


def _another_sentence(result, privacy):
    privacy["statement"][-1] = "Trust: nobody at all."


def _another_promise(result, privacy):
    first = privacy["promise"][0]
    privacy["promise"][0] = first.replace("become 86 in 100", "become 1 in 9")
    assert privacy["promise"][0] != first


def _another_delta(result, privacy):
    """The three owners with larger budgets at a δ with which their ε is small, and everything that follows from it."""
    from coterie.accounting import certify
    from coterie.accounting.events import event_from_json
    from coterie.experiments.recompute import _facts
    from coterie.reports.promise import promise
    from coterie.reports.statement import statement

    first, *others = privacy["certificates"]
    for one in others:
        found = certify(event_from_json(one["event"]), delta=0.99, size=one["size"], view=one["view"])
        one.update(found.to_json())
        privacy["warnings"] += one["warnings"]
        for owner in one["owners"]:
            privacy["certified_epsilon"]["per_owner"][owner] = one["epsilon"]
    privacy["certified_epsilon"]["max"] = first["epsilon"]
    facts = _facts(result, privacy, first)
    privacy.update(statement=statement(facts), promise=promise(facts))


EDITS = {
    "marks": (
        lambda result, privacy: result["metric"].update(oracle=[]),
        "metric.joint is not marked as an oracle",
    ),
    "marks of gains": (
        lambda result, privacy: result["benefit"].update(oracle=["joint"]),
        "benefit.own is not marked",
    ),
    "marks of words": (
        lambda result, privacy: result["metric"]["oracle"].remove("constant_says"),
        "metric.constant_says is not marked",
    ),
    "all others": (
        lambda result, privacy: privacy.update(all_others_epsilon=0.1),
        "all_others_epsilon is 0.1 and has no certificate",
    ),
    "half an audit": (
        lambda result, privacy: privacy.update(audited_epsilon=0.1, audit={"certified_epsilon": 0.2}),
        "the audit lacks its finding",
    ),
    "another delta": (_another_delta, "delta is 0.03 in the summary and 0.99 in a certificate"),
    "epsilon": (_another_epsilon, "ε ≤ 0.4"),
    "trust": (_another_sentence, "nobody at all"),
    "left out": (lambda result, privacy: privacy["statement"].pop(), "a part of it is missing"),
    "promise": (_another_promise, "a suspicion of 1 in 10 about one record can at most become 1 in 9"),
    "promise left out": (lambda result, privacy: privacy["promise"].pop(), "the promise is not what follows"),
    "facts": (
        lambda result, privacy: privacy["facts"].update(own_noise=False),
        "nobody beside the owner itself",
    ),
    "odd facts": (lambda result, privacy: privacy["facts"].update(clip_norm="small"), "clip_norm='small'"),
    "no facts": (lambda result, privacy: privacy.pop("facts"), "privacy.facts"),
    "accountant": (
        lambda result, privacy: privacy.update(accountant="an oracle"),
        "accountant is 'an oracle'",
    ),
    "reason": (lambda result, privacy: privacy.update(reason="luck"), "reason is 'luck'"),
    "warnings": (lambda result, privacy: privacy.update(warnings=[]), "warnings leave out"),
    "sizes": (lambda result, privacy: result.update(sizes=[9, 9, 9, 9]), "sizes are not"),
    "a certificate": (
        lambda result, privacy: privacy["certificates"][-1].update(epsilon=0.1),
        "epsilon is 0.1 in the file",
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_neither_certify_nor_report_vouches_for_what_was_edited(ran_carelessly, tmp_path, name):
    change, words = EDITS[name]
    folder = edited(ran_carelessly, tmp_path, change)
    (folder / "report.html").write_text("the old page")
    for command in (("certify", "--from", folder / "result.json"), ("report", folder)):
        done = coterie(*command)
        assert (done.status, done.stdout) == (2, "")
        assert done.stderr.count("\n") == 1
        assert "does not agree" in done.stderr
        assert words in done.stderr
    assert (folder / "report.html").read_text() == "the old page"


def test_what_nobody_edited_agrees_and_gets_its_page(ran_carelessly, tmp_path):
    folder = edited(ran_carelessly, tmp_path, lambda result, privacy: None)
    assert coterie("certify", "--from", folder / "result.json").status == 0
    assert coterie("report", folder).status == 0


def test_facts_in_the_result_are_the_statements(ran):
    """Every kept fact stands in a sentence: a change of any of them is seen."""
    facts = ran.json["privacy"]["facts"]
    assert facts["noise"] == "with Gaussian noise"
    assert (facts["releases"], facts["own_noise"], facts["features"]) == (5, True, "ball")
