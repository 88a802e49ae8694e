"""A run with a charged evaluation, as a user asks for it: what is published, what it cost, and what is refused."""

import json
from dataclasses import replace
from pathlib import Path

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

from coterie._rounding import upper
from coterie.accounting.plans import against_all_others, certificates_of
from coterie.cli import app
from coterie.evaluation import tables
from coterie.experiments import evaluating, output, recompute
from coterie.experiments import run as runs
from coterie.experiments.experiment import Experiment
from coterie.experiments.oracle import is_oracle
from coterie.experiments.result import Result
from coterie.experiments.training import ready
from coterie.model import load
from coterie.model.words import card, shown
from coterie.program import Trace
from coterie.protocols import PROTOCOLS

SMALL = Experiment(owners=4, partition="iid", evaluate=0.1, gossip_steps=2, settings={"rounds": 12})


def run_cli(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, arguments)
    return done.exit_code, done.stderr


@pytest.fixture(scope="module")
def result() -> Result:
    return runs.run(SMALL)


def test_the_published_interval_covers_what_the_records_say(result):
    told = result.published
    problem, shards = result.prepared.task.problem, result.prepared.shards
    trace = [shards.of(owner) for owner in range(4)]
    scores = [np.asarray(problem.model.scores(result.params, x)) for x, _ in trace]
    right = np.mean(
        np.concatenate([(s[:, 0] > 0) == (y > 0) for s, (_, y) in zip(scores, trace, strict=True)])
    )
    one = told.metrics["accuracy"]
    assert one.low - 0.01 < right < one.high + 0.01  # owners' models are not quite their mean
    assert told.owners == 4
    assert told.rows == sum(result.prepared.task.sizes)
    assert not is_oracle(told)
    assert "evaluation" not in result.to_json(None)["metric"]["oracle"]


def test_training_pays_for_it_and_certificates_include_it(result):
    assert all(one.epsilon <= 1.0 for one in result.certificates)
    assert all(one.epsilon > 0.99 for one in result.certificates)
    bare = certificates_of(replace(result.program.plan, evaluation=None), 1e-5)
    assert all(one.epsilon < 0.97 for one in bare)
    assert any("one table of scores an owner" in line for line in result.guarantee["statement"])


def test_a_folder_shows_it_and_can_be_checked(result, tmp_path):
    folder = output.write(result, tmp_path / "run")
    told = json.loads((folder / "result.json").read_text())
    assert told["evaluation"]["metrics"]["accuracy"]["value"] == result.published.metrics["accuracy"].value
    assert told["evaluation"]["share"] == 0.1
    assert not any(one.problems for one in recompute.check(folder))
    assert not any(one.problems for one in recompute.check(folder / "model.safetensors"))
    page = (folder / "report.html").read_text()
    box = page.split("Published by the owners")[1].split("</section>")[0]
    assert "oracle" not in box
    assert "95 % interval" in box
    model = load(folder)
    for words in (card(model, "d"), shown(model, "d")):
        assert "Published by the owners" in " ".join(words.split())
    broken = told | {"evaluation": told["evaluation"] | {"metrics": {"accuracy": {"value": "good"}}}}
    (folder / "result.json").write_text(json.dumps(broken))
    code, error = run_cli("report", str(folder))
    assert code == 2
    assert "result.json: evaluation.metrics[...].value: " in error


def test_neighbours_get_tables_as_far_apart_as_declared_at_most(result):
    """The owner's own table on explicit neighbours: through the model, with a record replaced at its worst."""
    from coterie.evaluation.budget import sheet_of

    prepared, plan = result.prepared, result.program.plan
    problem = prepared.task.problem
    sheet = sheet_of(prepared.table, problem, plan.relation)
    x, y = prepared.shards.of(0)
    table = tables.tallied(sheet, problem, result.params, tables.Judged(x, y))
    for content in (np.full(x.shape[1], 1e30), np.full(x.shape[1], np.nan), np.zeros(x.shape[1]), -x[0]):
        for label in (-1.0, 1.0):
            other, labels = x.copy(), y.copy()
            other[0], labels[0] = content, label
            moved = tables.tallied(sheet, problem, result.params, tables.Judged(other, labels)) - table
            assert np.linalg.norm(moved) <= 2 * plan.evaluation.reach


def test_a_model_that_diverged_is_charged_and_says_so(result):
    made = ready(SMALL, None, lambda *_: None)
    lost = jax.tree.map(lambda leaf: np.full((4, *np.shape(leaf)), np.nan, np.float32), result.params)
    none = np.zeros(0)
    told = evaluating.publish(SMALL, made.prepared, made.program, Trace(none, None, lost, None, None, none))
    assert told.diverged
    assert all(one.value is None for one in told.metrics.values())
    assert made.program.plan.evaluation is not None


def test_too_few_records_are_refused_before_training(tmp_path: Path):
    rows = "\n".join(f"{i % 7},{'yes' if i % 3 else 'no'},{'north' if i % 2 else 'south'}" for i in range(60))
    file = tmp_path / "few.csv"
    file.write_text("age,sick,site\n" + rows + "\n")
    (tmp_path / "columns.toml").write_text('target="sick"\nclasses=["no","yes"]\n[columns]\nage=[0,7]\n')
    given = (
        "run",
        "--data",
        str(file),
        "--owner-column",
        "site",
        "--columns",
        str(tmp_path / "columns.toml"),
    )
    code, error = run_cli(*given, "--evaluate", "0.05", "--out", str(tmp_path / "out"))
    assert code == 2
    assert error.count("\n") == 1
    assert "evaluate=0.05: accuracy over" in error
    assert "--evaluate 0 leaves the evaluation out" in error
    assert not (tmp_path / "out").exists()
    code, error = run_cli(*given, "--evaluate", "1.5")
    assert (code, "evaluate=1.5: must be at least 0 and below 1" in error) == (2, True)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_keeps_its_budget_with_the_table(protocol):
    made = ready(Experiment(protocol=protocol, owners=3, evaluate=0.05), None, lambda *_: None)
    plan = made.program.plan
    assert plan.evaluation is not None
    for one in certificates_of(plan, 1e-5):
        assert 0.97 <= one.epsilon <= 1.0


def test_what_a_view_says_of_whoever_adds_up_includes_the_tables():
    """It sees every message, and tables are public: a number for training alone would be too small."""
    chosen = Experiment(protocol="weighted_erm", owners=4, evaluate=0.3, select=0.2)
    view = {"view": "aggregator", "steps": 4}
    plan = ready(replace(chosen, settings=view), None, lambda *_: None).program.plan
    whole = max(one.epsilon for one in against_all_others(plan, 1e-5))
    training = max(
        one.epsilon for one in against_all_others(replace(plan, evaluation=None, selection=None), 1e-5)
    )
    assert whole > 1.05 * training
    assert (
        f"(ε against it: {upper(whole)}); and the owners' sums of losses; and the owners' tables" in plan.view
    )


def test_published_noise_is_charged_on_top():
    chosen = Experiment(owners=3, evaluate=0.05, calibration="paper", settings={"rounds": 3})
    plan = ready(chosen, None, lambda *_: None).program.plan
    bare = replace(plan, evaluation=None)
    for one, other in zip(certificates_of(plan, 1e-5), certificates_of(bare, 1e-5), strict=True):
        assert one.epsilon > other.epsilon
