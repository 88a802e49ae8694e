"""The planner's forecast of the charged evaluation, against what a run's own tables give."""

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from coterie.cli import app
from coterie.evaluation.budget import check_centres, check_chooses, for_training
from coterie.experiments import evaluating
from coterie.experiments.experiment import Experiment
from coterie.experiments.training import ready
from coterie.planning.evaluation import after, foreseen
from coterie.program import Trace


def test_twenty_industries_of_census_get_the_interval_that_was_forecast():
    """At (1, 1e-5) with a share of 0.05; the model is a least-squares one, for the width hardly depends on it."""
    experiment = Experiment(evaluate=0.05, settings={"rounds": 20})
    made = ready(experiment, None, lambda *_: None)
    task = made.prepared.task
    x, y = (np.concatenate(each) for each in zip(*map(made.prepared.shards.of, range(20)), strict=True))
    weights = 4 * np.linalg.lstsq(x, y, rcond=None)[0].astype(np.float32)[:, None]
    none = np.zeros(0)
    model = np.repeat(weights[None], 20, axis=0)
    told = evaluating.publish(
        experiment, made.prepared, made.program, Trace(none, None, model, None, None, none)
    )
    accuracy = told.metrics["accuracy"]
    half = (accuracy.high - accuracy.low) / 2
    forecast = foreseen(task, 2, 0.05)
    assert forecast.half_width == pytest.approx(half, rel=0.2)
    assert 0.009 < half < 0.012  # as docs/evaluation.md has it
    exact = np.mean((x @ weights[:, 0] > 0) == (y > 0))
    assert accuracy.low < exact < accuracy.high


def test_training_is_forecast_for_what_is_left():
    task = ready(Experiment(owners=2, settings={"rounds": 1}), None, lambda *_: None).prepared.task
    assert after(task, 0.05).epsilon == (for_training(1.0, 1e-5, 0.05),) * 2
    assert 0.9 < after(task, 0.05).epsilon[0] < 1.0


def test_what_a_choice_can_rest_on_is_forecast_as_a_run_has_it():
    made = ready(
        Experiment(owners=4, partition="iid", select=0.03, settings={"rounds": 4}), None, lambda *_: None
    )
    forecast = foreseen(made.prepared.task, 2)
    assert (forecast.select, forecast.select_share) == (0.0, 0.03)
    assert forecast.select_tells == pytest.approx(check_chooses(made.program.plan, 0.03), rel=0.02)


def test_the_noise_on_a_centre_is_forecast_as_a_run_has_it():
    made = ready(
        Experiment(owners=4, partition="iid", centre=0.05, settings={"rounds": 4}), None, lambda *_: None
    )
    plan = made.program.plan
    task = ready(
        Experiment(owners=4, partition="iid", settings={"rounds": 4}), None, lambda *_: None
    ).prepared.task
    forecast = foreseen(task, 2)
    assert forecast.centre_noise == pytest.approx(check_centres(plan, 0.05), rel=0.02)
    assert forecast.centre == forecast.centre_share == 0.05


def test_a_centre_is_recommended_for_classes_where_its_noise_is_short():
    task = ready(
        Experiment(owners=4, partition="iid", settings={"rounds": 4}), None, lambda *_: None
    ).prepared.task
    few = replace(task, sizes=(60,) * 4)
    assert (foreseen(few, 2).centre, foreseen(task, 1).centre) == (0.0, 0.0)
    assert foreseen(few, 2).centre_noise > 0.5 > foreseen(task, 2).centre_noise


@pytest.mark.parametrize("classes", [1, 2, 4])
def test_the_command_forecasts_and_recommends(classes):
    given = ["plan", "--owners", "5", "--records", "3000", "--dimension", "8", "--classes", str(classes)]
    given += ["--rounds-at-most", "10"]
    done = CliRunner().invoke(app, [*given, "--json"])
    assert done.exit_code == 0, done.stderr
    told = json.loads(done.stdout)["evaluation"]
    assert told["metric"] == ("mae" if classes == 1 else "accuracy")
    assert told["sampling_half_width"] < told["half_width"] < 0.1
    assert 0.01 <= told["recommended"] <= 0.2
    assert (told["share"], told["planned"]) == (0.05, False)


def test_the_words_say_what_it_costs_and_a_bad_share_is_refused():
    given = ["plan", "--owners", "5", "--records", "3000", "--dimension", "8", "--rounds-at-most", "5"]
    done = CliRunner().invoke(app, [*given, "--evaluate", "0.1"])
    assert "evaluation that may be published: 95 % interval of accuracy" in done.stdout
    assert done.stdout.rstrip().endswith("--evaluate 0.1")
    bad = CliRunner().invoke(app, [*given, "--evaluate", "1"])
    assert (bad.exit_code, "must be at least 0 and below 1" in bad.stderr) == (2, True)
    both = CliRunner().invoke(app, [*given, "--evaluate", "0.1", "--sweep", "epsilon"])
    assert both.exit_code == 2
