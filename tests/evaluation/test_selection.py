"""Choosing among models of the same releases: what a record can move, what is chosen, what it costs."""

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import pytest

from coterie.accounting import certify
from coterie.accounting.plans import certificates_of
from coterie.audit.table import shift
from coterie.errors import InputError
from coterie.evaluation import selection
from coterie.evaluation.budget import sheet_of
from coterie.evaluation.selection import LATEST, MEAN, Ballot, Candidate, ballot_of, candidate, chosen
from coterie.evaluation.sheet import Sheet
from coterie.experiments import evaluating, output, recompute
from coterie.experiments import run as runs
from coterie.experiments.experiment import Experiment
from coterie.experiments.fitting import fit, probe_of
from coterie.experiments.result import Result
from coterie.experiments.training import ready, train
from coterie.problems.losses import logistic
from coterie.problems.models import linear
from coterie.problems.penalties import l2
from coterie.problems.problem import Problem
from coterie.protocols import PROTOCOLS

SMALL = Experiment(owners=4, partition="iid", select=0.05, gossip_steps=2, settings={"rounds": 12})
LENGTHS = (1.0, 0.25, 0.5, 2.0, 4.0)
SHEETS = [
    Sheet("binary", "logistic", 2, True),
    Sheet("binary", "hinge", 2, True),
    Sheet("multiclass", "softmax", 5, True),
    Sheet("regression", "squared", 0, False),
]


@pytest.fixture(scope="module")
def result() -> Result:
    return runs.run(SMALL)


@pytest.mark.parametrize("sheet", SHEETS, ids=lambda sheet: sheet.loss)
def test_explicit_neighbours_are_as_far_apart_as_declared_at_most(sheet):
    """Of every two records, through their scores by all candidates: with scores that are no numbers among them."""
    ballot = Ballot(tuple(Candidate(MEAN, length) for length in LENGTHS), sheet)
    rng, rows = np.random.default_rng(3), 60
    scores = rng.normal(size=(len(LENGTHS), rows, max(sheet.classes, 1) if sheet.classes > 2 else 1)) * 30
    scores[:, :6] = rng.choice([np.nan, np.inf, -np.inf, 1e30, -1e30], size=scores[:, :6].shape)
    y = {2: rng.choice([-1.0, 1.0], rows), 5: rng.integers(0, 5, rows)}.get(
        sheet.classes, rng.uniform(-1, 1, rows)
    )
    added = ballot.added(np.stack([sheet.lost(one, y) for one in scores])).astype(float)
    assert np.linalg.norm(added, axis=1).max() <= ballot.reach
    far = np.linalg.norm(added[:, None] - added[None], axis=2).max()
    assert 0.9 * ballot.reach < far <= 2 * ballot.reach


def test_a_unit_of_many_records_moves_the_sums_no_further_than_one_record():
    """Units of one record, of all alike, of two that cancel: each adds the mean of its records, wherever it stands."""
    ballot = Ballot(tuple(Candidate(MEAN, length) for length in LENGTHS), SHEETS[0])
    better, worse = (
        np.array([1.0, 0, 0, 0, 0]),
        np.array([0.0, 1, 1, 1, 1]),
    )  # losses of the candidates on a record
    kinds = [[better], [better] * 20, [worse], [worse] * 7, [better, worse], [better] * 3 + [worse]]
    rest = [[worse], [better, worse]]

    def summed(units: list[list[np.ndarray]]) -> np.ndarray:
        losses = np.array([record for unit in units for record in unit]).T
        codes = np.repeat(
            np.arange(5, 5 + len(units)), list(map(len, units))
        )  # numbers need not begin with zero
        return ballot.added(losses, codes).sum(axis=0).astype(float)

    moves = np.array([summed([*rest, unit]) - summed(rest) for unit in kinds])
    assert np.linalg.norm(moves, axis=1).max() <= ballot.reach
    far = np.linalg.norm(moves[:, None] - moves[None], axis=2).max()
    assert 1.9 * ballot.reach < far <= 2 * ballot.reach
    assert np.allclose(moves[0], moves[1], atol=1)  # a person counts once
    assert np.linalg.norm(moves[4]) <= 2  # cut towards zero


def test_a_record_replaced_in_an_owners_rows_moves_the_sums_no_further(result):
    """Through the models that training left, with a record at its worst."""
    prepared, plan = result.prepared, result.program.plan
    sheet = sheet_of(prepared.table, prepared.task.problem, plan.relation)
    ballot = ballot_of(result.program, sheet)
    several = jnp.stack([length * jnp.asarray(result.params) for length in range(1, ballot.width + 2)])
    x, y = prepared.shards.of(0)
    sums = ballot.tally(prepared.task.problem, several, x, y)
    for content in (np.full(x.shape[1], 1e30), np.full(x.shape[1], np.nan), -x[0]):
        other, labels = x.copy(), y.copy()
        other[0], labels[0] = content, -y[0]
        moved = ballot.tally(prepared.task.problem, several, other, labels) - sums
        assert np.linalg.norm(moved) <= 2 * plan.selection.reach
    measured, declared = shift(ballot, plan, 0), 2 / plan.selection.noise_multiplier[0]
    assert 0.99 * declared <= measured <= declared * (1 + 1e-9)


def test_the_model_that_fits_is_chosen_and_noise_alone_chooses_nothing():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(20_000, 3)).astype(np.float32)
    truth = np.array([[2.0], [-1.0], [0.5]], np.float32)
    y = np.where(rng.random(len(x)) < 1 / (1 + np.exp(-(x @ truth)[:, 0])), 1.0, -1.0).astype(np.float32)
    problem = Problem(linear(3, 1), logistic(), l2(1e-4))
    ballot = Ballot(tuple(Candidate(MEAN, length) for length in LENGTHS), SHEETS[0])
    for trained, best in ((truth, 0), (4 * truth, 1), (2 * truth, 2), (truth / 2, 3)):
        several = jnp.stack([length * trained for length in LENGTHS])
        sums = ballot.tally(problem, several, x, y)
        assert chosen(sums, 0.0) == best
        assert chosen(sums, float(len(x) * 1024) ** 2) == 0
    assert chosen(np.array([5.0, -1.9, 3.0]), 1.0) == 0
    assert chosen(np.array([5.0, -2.1, 3.0]), 1.0) == 2


def test_candidates_are_functions_of_the_same_state(result):
    """The first is what a run without a choice ends with; the others are it, or its last iterate, longer or shorter."""
    made = ready(SMALL, None, lambda *_: None)
    trace = train(SMALL, made, lambda models: (), lambda *_: None)
    kinds = selection.candidates(made.program.functions)
    assert kinds[0] == Candidate(MEAN, 1.0)
    assert {kind.what for kind in kinds} == {MEAN, LATEST}
    first = np.asarray(candidate(trace.model, 0, axis=1))
    for at, kind in enumerate(kinds):
        if kind.what == MEAN:
            np.testing.assert_allclose(np.asarray(trace.model)[:, at], kind.length * first, rtol=1e-6)
    plain = replace(SMALL, select=0.0)
    bare = ready(plain, None, lambda *_: None)
    assert bare.program.plan.selection is None
    assert np.shape(train(plain, bare, lambda models: (), lambda *_: None).model) == np.shape(first)
    del result


def test_training_pays_for_it_and_certificates_include_it(result, tmp_path):
    assert all(0.99 < one.epsilon <= 1.0 for one in result.certificates)
    bare = certificates_of(replace(result.program.plan, selection=None), 1e-5)
    assert all(one.epsilon < 0.98 for one in bare)
    assert any("by which one of them is chosen" in line for line in result.guarantee["statement"])
    folder = output.write(result, tmp_path / "run")
    assert not any(one.problems for one in recompute.check(folder))
    assert not any(one.problems for one in recompute.check(folder / "model.safetensors"))
    assert "chosen by the owners" in (folder / "report.html").read_text()
    told = result.selected.to_json()
    assert told["choice"] in [one["model"] for one in told["candidates"]]
    event = result.program.plan.selection.event(0)
    assert told["epsilon"] == pytest.approx(certify(event, delta=1e-5).epsilon)


def test_the_choice_is_the_same_again_and_over_devices(result):
    again = fit(replace(SMALL, engine="spmd"))
    assert again.selected.choice == result.selected.choice
    np.testing.assert_allclose(again.selected.differences, result.selected.differences, atol=0.1)


def test_the_result_is_of_the_chosen_model():
    """A choice that is forced shows in parameters and in the last look at them."""
    made = ready(SMALL, None, lambda *_: None)
    look = probe_of(made.prepared)
    trace = train(SMALL, made, look, lambda *_: None)
    forced = made._replace(program=made.program._replace(plan=_sure(made.program.plan)))
    picked, told = evaluating.select(SMALL, made.prepared, forced.program, trace)
    assert told.choice == chosen(1024 * np.array(told.differences), forced.program.plan.selection.variance())
    np.testing.assert_array_equal(picked.model, np.asarray(trace.model)[:, told.choice])


def _sure(plan):
    """Next to no noise: whatever is better is chosen."""
    few = replace(plan.selection, noise_multiplier=(1e-6,) * len(plan.sizes))
    return replace(plan, selection=few)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_every_protocol_keeps_its_budget_with_both_tables(protocol):
    made = ready(Experiment(protocol=protocol, owners=3, evaluate=0.05, select=0.05), None, lambda *_: None)
    plan = made.program.plan
    assert list(plan.tables) == ["selection", "evaluation"]
    for one in certificates_of(plan, 1e-5):
        assert 0.97 <= one.epsilon <= 1.0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"select": 1.0}, "select=1.0: must be at least 0 and below 1"),
        ({"select": -0.1}, "select=-0.1: must be at least 0"),
        ({"select": 0.5, "evaluate": 0.5}, "evaluate=0.5, select=0.5, centre=0.0: must be below 1 together"),
    ],
)
def test_bad_shares_are_refused(given, words):
    with pytest.raises(InputError, match=words):
        Experiment(**given)


def test_too_few_records_are_refused_with_what_helps():
    with pytest.raises(InputError, match="select=0.001: over") as refused:
        ready(replace(SMALL, select=0.001, epsilon=(0.05,)), None, lambda *_: None)
    assert "--select 0 leaves the choice out" in str(refused.value)
    with pytest.raises(InputError, match=r"over 4 units \(owner\), .* It takes \d+ units \(owner\); "):
        ready(replace(SMALL, unit="owner"), None, lambda *_: None)
    assert "\n" not in str(refused.value)
