"""A charged centre of the features: what a record can move, what is found, what it costs, and what it gains."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from coterie.accounting import certify
from coterie.accounting.plans import certificates_of, charges_of
from coterie.audit.table import shift
from coterie.errors import InputError
from coterie.evaluation.budget import sheet_of
from coterie.evaluation.centre import Sums, centre_of, found
from coterie.evaluation.selection import ballot_of
from coterie.experiments import output, recompute
from coterie.experiments import run as runs
from coterie.experiments.experiment import Experiment
from coterie.experiments.fitting import fit
from coterie.experiments.prepare import feature_map, prepare
from coterie.experiments.result import Result
from coterie.experiments.training import ready
from coterie.problems.holdings import listed
from coterie.protocols import PROTOCOLS

SMALL = Experiment(owners=4, partition="iid", centre=0.05, gossip_steps=2, settings={"rounds": 12})
QUIET = lambda *_: None


@pytest.fixture(scope="module")
def result() -> Result:
    return runs.run(SMALL)


def test_explicit_neighbours_are_as_far_apart_as_declared_at_most():
    """A record as long as any and its opposite; longer ones, and some that are no numbers."""
    form, rng = Sums(5), np.random.default_rng(0)
    rest = rng.normal(size=(20, 5)) / 3
    kinds = [
        *np.eye(5),
        *-np.eye(5),
        [1e300] * 5,
        [-1e30] * 5,
        [np.nan] * 5,
        [np.inf, 0, 0, 0, 0],
        [3e-7] * 5,
    ]
    sums = np.array([form.tally(np.vstack([rest, kind])) for kind in kinds]).astype(float)
    moves = sums - form.tally(rest)
    assert np.linalg.norm(moves, axis=1).max() <= form.reach
    far = np.linalg.norm(sums[:, None] - sums[None], axis=2).max()
    assert 1.999 * form.reach < far <= 2 * form.reach


def test_a_unit_of_many_records_moves_the_sums_no_further_than_one_record():
    form, one = Sums(2), np.array([[1.0, 0.0]])
    kinds = [[one], [one] * 20, [-one], [-one] * 7, [one, -one], [one] * 3 + [-one]]
    rest = [[-one], [one, -one]]

    def summed(units: list[list[np.ndarray]]) -> np.ndarray:
        codes = np.repeat(np.arange(len(units)), list(map(len, units)))
        return form.tally(np.vstack([row for unit in units for row in unit]), codes).astype(float)

    moves = np.array([summed([*rest, unit]) - summed(rest) for unit in kinds])
    assert np.linalg.norm(moves, axis=1).max() <= form.reach
    far = np.linalg.norm(moves[:, None] - moves[None], axis=2).max()
    assert 1.999 * form.reach < far <= 2 * form.reach
    assert np.allclose(moves[0], moves[1], atol=1)  # a person counts once


def test_an_audit_attacks_it_at_its_worst(result):
    plan, prepared = result.program.plan, result.prepared
    ballot = ballot_of(result.program, sheet_of(prepared.table, prepared.task.problem, plan.relation))
    measured, declared = shift(ballot, plan, 0), 2 / plan.centre.noise_multiplier[0]
    assert 0.99 * declared <= measured <= declared * (1 + 1e-9)


def test_training_pays_for_it_and_certificates_include_it(result, tmp_path):
    plan = result.program.plan
    assert list(plan.tables) == ["centre"]
    assert all(0.99 < one.epsilon <= 1.0 for one in result.certificates)
    bare = certificates_of(replace(plan, centre=None), 1e-5)
    assert all(one.epsilon < 0.98 for one in bare)
    assert charges_of(plan, 0, plan.releases[0]).tables == (plan.centre.event(0),)
    assert any("whose mean over all owners is taken off" in line for line in result.guarantee["statement"])
    folder = output.write(result, tmp_path / "run")
    assert not any(one.problems for one in recompute.check(folder))
    assert not any(one.problems for one in recompute.check(folder / "model.safetensors"))
    assert "whose mean over all owners is taken off" in (folder / "report.html").read_text()
    told = result.centred.to_json()
    assert told["epsilon"] == pytest.approx(certify(plan.centre.event(0), delta=1e-5).epsilon)
    assert result.messages == runs.run(replace(SMALL, centre=0.0)).messages + 4


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda told: told["centre"].update(epsilon=0.001), "epsilon of centre is 0.001 in the file"),
        (lambda told: told["centre"].update(share=0.001), "share of centre is 0.001 and 0.05 in the facts"),
        (
            lambda told: told.update(selection=told["centre"]),
            "share of selection is 0.05 and None in the facts",
        ),
    ],
)
def test_another_cost_of_it_is_noticed(result, change, words):
    told = result.to_json(None)
    assert not any(one.problems for one in recompute.check_result(told, "x"))
    change(told)
    assert any(words in problem for one in recompute.check_result(told, "x") for problem in one.problems)


def test_noise_is_what_the_certificate_says(result):
    """Sums of 4 owners × 100 seeds, less what they are of: accepts the declared scale, rejects 2/3 and 3/2 of it."""
    from coterie.evaluation.tables import simulated_noise, step_of

    table, step = result.program.plan.centre, step_of(result.program, "centre")
    drawn = [simulated_noise(table, seed, owner, step) for seed in range(100) for owner in range(4)]
    ratio = np.std(drawn) / table.scale(0)
    assert 0.97 < ratio < 1.03
    sums = {0: table.reach * np.ones(table.width), 1: np.zeros(table.width)}
    assert found(result.program.plan, sums).mean.shape == (table.width,)


def test_features_are_around_the_released_centre_and_no_longer_than_one(result):
    prepared, plain = result.prepared, feature_map(SMALL, result.prepared.table)
    rows = np.concatenate([listed(own)[0] for own in prepared.trained])
    mean = plain.apply(prepared.table.x[rows]).mean(axis=0, dtype=np.float64)
    step = next(one for one in prepared.features.steps if one.name == "centre")
    assert np.linalg.norm(step.arrays["mean"] - mean) < 3 * result.centred.noise
    assert np.linalg.norm(step.arrays["mean"] - mean) > 0  # and not the mean itself
    x = prepared.features.apply(prepared.table.x[rows])
    assert np.linalg.norm(x, axis=1).max() <= 1 + 1e-6
    np.testing.assert_array_equal(
        prepared.shards.of(0)[0], prepared.features.apply(prepared.table.x[prepared.trained[0]])
    )


def test_the_model_takes_rows_as_they_were(result, tmp_path):
    """Its file holds the centre; what it says of rows is what the run's own scores say."""
    from coterie.model import load

    folder = output.write(result, tmp_path / "run")
    model, table = load(folder / "model.safetensors"), result.prepared.table
    scores = result.prepared.x_test @ result.params
    np.testing.assert_allclose(model.scores_of(table.x_test), scores, atol=1e-5)


def test_the_centre_is_the_same_again_and_over_devices(result):
    again = fit(replace(SMALL, engine="spmd"))
    assert again.centred == result.centred
    np.testing.assert_allclose(again.params, result.params, atol=1e-4)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_keeps_its_budget_with_all_tables(protocol):
    given = {"evaluate": 0.05, "select": 0.05, "centre": 0.05}
    plan = ready(Experiment(protocol=protocol, owners=3, **given), None, QUIET).program.plan
    assert list(plan.tables) == ["centre", "selection", "evaluation"]
    for one in certificates_of(plan, 1e-5):
        assert 0.97 <= one.epsilon <= 1.0


def test_a_person_at_several_owners_keeps_the_budget_too():
    from coterie.accounting.plans import person_of

    made = ready(replace(SMALL, owners_per_person=2), None, QUIET)
    assert 0.97 < person_of(made.program.plan, 1e-5, 2).epsilon <= 1.0


def test_units_of_several_records_are_centred_by_their_means():
    rng = np.random.default_rng(1)
    rows = pd.DataFrame({"a": rng.uniform(size=400), "b": rng.uniform(size=400)})
    rows["who"] = np.repeat(np.arange(100), 4)
    rows["y"] = np.where(rows.a > 0.5, "yes", "no")
    columns = {"target": "y", "classes": ["no", "yes"], "columns": {"a": [0, 1], "b": [0, 1]}}
    made = ready(
        Experiment(
            data=rows,
            columns=columns,
            unit="column:who",
            owners=2,
            centre=0.1,
            epsilon=(8.0,),
            owner_column=None,
        ),
        None,
        QUIET,
    )
    assert made.program.plan.centre.sizes == made.program.plan.sizes
    assert 0 < made.centred.noise < 1


def test_a_mean_that_is_all_noise_is_not_taken_off():
    for noisy, deviation in (([0.3, -0.4], 1.0), ([0.0, 0.0], 0.0), ([0.0, 0.0], 0.1)):
        centre = centre_of(np.array(noisy), deviation)
        assert not centre.mean.any()
        assert centre.distance == 1.0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"centre": 1.0}, "centre=1.0: must be at least 0 and below 1"),
        ({"centre": 0.5, "evaluate": 0.5}, "evaluate=0.5, select=0.0, centre=0.5: must be below 1 together"),
        ({"centre": 0.1, "sweep": "epsilon"}, r"centre=0.1, sweep='epsilon': .* Leave one out\."),
    ],
)
def test_bad_shares_are_refused(given, words):
    with pytest.raises(InputError, match=words):
        Experiment(**given)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            {"centre": 0.001, "epsilon": (0.05,)},
            r"centre=0\.001: over .* times as long as a record\. It takes .*--centre 0 ",
        ),
        (
            {"features": "scale"},
            r"centre=0\.05: features='scale' have no length that is known .* End them with ball",
        ),
        ({"features": "centre,ball"}, "features='centre': is a release that must be charged"),
        (
            {
                "protocol": "weighted_erm",
                "settings": {"relation": "add_or_remove_one", "steps": 3, "step_size": 0.5},
            },
            r"centre=0\.05: a mean needs the number of records, which is private",
        ),
    ],
)
def test_what_cannot_be_centred_is_refused_with_what_helps(given, words):
    with pytest.raises(InputError, match=words):
        ready(replace(SMALL, **{"settings": {}, **given}), None, QUIET)


def test_nothing_is_centred_where_nobody_asks():
    plain = replace(SMALL, centre=0.0)
    assert ready(plain, None, QUIET).program.plan.centre is None
    assert prepare(plain).features.name == "ball"
