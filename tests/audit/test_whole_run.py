"""`coterie audit FOLDER` is about that run: its own releases, noise, sampler, sizes and view."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from leak_hunt import experiment, write_records

from coterie.accounting.plans import certificates_of
from coterie.audit import whole
from coterie.audit.bounds import clopper_pearson
from coterie.experiments import audits
from coterie.experiments.experiment import Experiment
from coterie.experiments.settings import typed
from coterie.experiments.training import ready
from coterie.mechanisms.noise import spec

SURE = 1 - 1e-7


def quietly(what: str, done: int, of: int) -> None:
    del what, done, of


def run_of(chosen: Experiment) -> whole.PlayedRun:
    made = ready(chosen, None, quietly)
    options = typed(chosen.protocol, chosen.settings)
    return whole.PlayedRun(chosen.protocol, options, chosen.calibration, made.prepared.task, made.program)


def written(folder: Path, chosen: Experiment) -> Path:
    """A run's folder, as far as an audit reads it."""
    run = run_of(chosen)
    certificates = certificates_of(run.program.plan, chosen.delta)
    per_owner = [one.to_json()["epsilon"] for one in certificates]
    (folder / "experiment.toml").write_text(chosen.to_toml())
    result = {"kept": 1, "privacy": {"certified_epsilon": {"per_owner": per_owner}, "audited_epsilon": None}}
    (folder / "result.json").write_text(json.dumps(result))
    return folder


@pytest.fixture
def data(tmp_path):
    return write_records(tmp_path / "records.csv", changed=False)


def test_a_run_is_attacked_by_its_own_releases_and_comes_near_its_certificate(tmp_path, data):
    chosen = replace(experiment("dual_averaging", data), delta=1e-5, settings={"rounds": 37})
    folder = written(tmp_path, chosen)
    found = audits.audit_run(folder, audits.Effort(games=4_000_000, confidence=SURE), None, quietly)
    certified = found.audit.certificate.epsilon
    assert certified == pytest.approx(1.0, rel=1e-3)
    assert 0.5 * certified <= found.audit.finding.epsilon <= certified  # a three-step world showed a third
    assert "37 releases of 8 records" in found.world
    assert found.audit.score.startswith("likelihood ratio of the whole run; 37 releases measured")
    result = audits.read_result(folder)
    audits.write_finding(folder, result, found)
    again = json.loads((folder / "result.json").read_text())
    assert again["kept"] == 1
    assert again["privacy"]["audit"]["certified_epsilon"] == certified
    assert again["privacy"]["audited_epsilon"] == found.audit.finding.epsilon


@pytest.mark.parametrize(
    ("protocol", "more"),
    [
        ("push_sum", {"settings": {"rounds": 5, "rate": 0.3}}),
        ("dual_averaging", {"calibration": "paper", "settings": {"rounds": 5}}),
        ("async_learner", {"settings": {"ticks": 9, "cap": [3, 4, 5]}}),
        ("wor_sgd", {"settings": {"batch": 2}}),
        ("deep_q", {"settings": {"batch": 2}}),
        ("weighted_erm", {"settings": {"steps": 3, "view": "aggregator", "missing": 1}}),
        ("weighted_erm", {"settings": {"steps": 3, "aggregation": "once"}}),
        ("central_erm", {"settings": {"steps": 3}}),
    ],
)
def test_what_is_attacked_is_the_runs_own_plan(data, protocol, more):
    run = run_of(replace(experiment(protocol, data), **more))
    plan, own = run.program.plan, whole.of_run(run, 1).program.plan
    assert (own.sampler, own.clip_norm, own.view) == (plan.sampler, plan.clip_norm, plan.view)
    assert own.noise_multiplier[0] == plan.noise_multiplier[1]
    assert (own.releases[0], own.sizes[0]) == (plan.releases[1], plan.sizes[1])
    ours, theirs = certificates_of(own, 1e-3)[0], certificates_of(plan, 1e-3)[1]
    assert ours.epsilon == theirs.epsilon


def test_releases_are_measured_on_the_engine(data):
    """A mistake that no plan shows, half of the noise, doubles what is measured."""
    run = run_of(replace(experiment("wor_sgd", data), settings={"batch": 2}))
    setting = whole.of_run(run, 0)
    measured = whole.measure(setting, seed=0)
    multiplier = run.program.plan.noise_multiplier[0]
    assert measured.is_normal
    assert measured.shifts == pytest.approx(
        [2 / multiplier], rel=1e-3
    )  # one pass: one release has the record
    functions = setting.program.functions

    def careless(private, shown, batch, noise, ctx):
        return functions.emit(private, shown, batch, noise, ctx._replace(noise_scale=ctx.noise_scale / 2))

    wrong = setting.program._replace(functions=functions._replace(emit=careless))
    found = whole.measure(setting._replace(program=wrong), seed=0)
    assert found.shifts == pytest.approx([4 / multiplier], rel=1e-3)


def test_drawn_games_are_the_runs_likelihood_ratio(data):
    plan = run_of(experiment("wor_sgd", data)).program.plan
    without, with_ = whole.drawn(0.5, spec(plan), 200_000, 0, quietly)
    for scores, sign in ((without, -1), (with_, 1)):
        assert abs(scores.mean() - sign * 0.125) < 5.5 * 0.5 / math.sqrt(200_000)
        assert abs(scores.var() / 0.25 - 1) < 5.5 * math.sqrt(2 / 200_000)
    assert len(np.unique(np.concatenate([without, with_]))) > 390_000
    assert clopper_pearson(without, with_, delta=1e-5, confidence=SURE) > 0.5


def test_a_run_that_its_data_no_longer_gives_is_refused(tmp_path, data):
    folder = written(tmp_path, experiment("wor_sgd", data))
    result = json.loads((folder / "result.json").read_text())
    result["privacy"]["certified_epsilon"]["per_owner"][0] = 0.5
    (folder / "result.json").write_text(json.dumps(result))
    with pytest.raises(audits.InputError, match="Run it again") as caught:
        audits.audit_run(folder, audits.Effort(), None, quietly)
    assert "\n" not in str(caught.value)


def test_a_table_of_scores_is_attacked_like_any_release(tmp_path, data, monkeypatch):
    """With most of the budget in the table, an audit that left it out would find next to nothing."""
    from coterie.evaluation import budget

    monkeypatch.setattr(
        budget, "check_tells", lambda *_: 0.0
    )  # of 24 records it tells nothing: not asked here
    from coterie.audit.table import shift
    from coterie.evaluation.budget import sheet_of
    from coterie.evaluation.selection import ballot_of

    chosen = replace(experiment("dual_averaging", data), delta=1e-5, settings={"rounds": 9}, evaluate=0.8)
    folder = written(tmp_path, chosen)
    found = audits.audit_run(folder, audits.Effort(games=4_000_000, confidence=SURE), None, quietly)
    certified = found.audit.certificate.epsilon
    assert certified == pytest.approx(1.0, rel=1e-2)
    assert 0.5 * certified <= found.audit.finding.epsilon <= certified
    assert "one table of scores" in found.world
    made = ready(chosen, None, quietly)
    plan, table = made.program.plan, made.prepared.table
    sheet = sheet_of(table, made.prepared.task.problem, plan.relation)
    measured, declared = (
        shift(ballot_of(made.program, sheet), plan, 0),
        2 / plan.evaluation.noise_multiplier[0],
    )
    assert 0.99 * declared <= measured <= declared * (1 + 1e-9)


@pytest.mark.parametrize("public", [True, False])
@pytest.mark.parametrize(
    ("task", "loss", "classes"),
    [("binary", "hinge", 2), ("multiclass", "softmax", 5), ("regression", "huber", 0)],
)
def test_the_worst_record_of_a_table_is_near_its_reach(task, loss, classes, public):
    from coterie.audit.table import worst
    from coterie.evaluation.sheet import Sheet

    sheet = Sheet(task, loss, classes, public)
    one, other = (sheet.tally(*record).astype(float) for record in worst(sheet))
    moved = np.linalg.norm(one - other) / 2 if public else np.linalg.norm(one)
    assert 0.9 * sheet.reach <= moved <= sheet.reach
