"""The table's formulae and the protocols' published plans are written apart; here they must say the same."""

import json

import pytest
from worlds import task

from coterie.accounting.plans import certificates_of
from coterie.experiments import recompute
from coterie.experiments.claims import table
from coterie.problems import losses
from coterie.problems.penalties import l2
from coterie.protocols import PROTOCOLS, build

DIM, DELTA = 3, 1e-4


def published(name, world, **options):
    """One owner's certificate and the claim, from the protocol as published."""
    program = build(name, world, options, "paper")
    return certificates_of(program.plan, world.delta)[0], program.claim


def only(name, given):
    (row,) = table(name, given)
    return row


def agree(row, certificate, claim):
    assert certificate.epsilon == pytest.approx(row.certificate.epsilon, rel=1e-5)
    if claim is not None:
        assert claim.epsilon == (
            None if row.claim.epsilon is None else pytest.approx(row.claim.epsilon, rel=1e-5)
        )


def test_dual_averaging():
    given = {"epsilon": 0.7, "delta": DELTA, "records": 50, "epochs": 3.0}
    agree(
        only("dual_averaging", given),
        *published("dual_averaging", task((50, 50), DIM, epsilon=0.7, delta=DELTA)),
    )


@pytest.mark.parametrize("policy", ["clipped", "adaptive", "constant"])
def test_push_sum(policy):
    given = {"policy": policy, "sigma": 0.5, "records": 40, "steps": 60, "delta": DELTA}
    world = task((40, 40), DIM, delta=DELTA)
    agree(only("push_sum", given), *published("push_sum", world, policy=policy, sigma=0.5, rounds=60))


def test_async_learner():
    # One owner answers every tick. The protocol's certificate has a δ; at this one the bound is nearly pure.
    given = {"epsilon": 0.8, "features": DIM, "horizon": 20, "answers": 20, "delta": 1e-9}
    world = task((30,), DIM, epsilon=0.8, delta=1e-9, topology="complete")
    agree(only("async_learner", given), *published("async_learner", world, ticks=20))


@pytest.mark.parametrize("strongly_convex", [False, True])
@pytest.mark.parametrize("classes", [1, 4])
def test_wor_sgd(classes, strongly_convex):
    loss = losses.logistic() if classes == 1 else losses.one_vs_all(classes)
    penalty = l2(0.01 if strongly_convex else 0.0)
    given = {"epsilon": 0.9, "delta": DELTA, "classes": classes, "strongly_convex": strongly_convex}
    world = task((60, 60), DIM, loss=loss, penalty=penalty, epsilon=0.9, delta=DELTA)
    agree(only("wor_sgd", given), *published("wor_sgd", world))


def test_choices_of_deep_q():
    from coterie.accounting import certify
    from coterie.protocols.deep_q import choices_event

    given = {"choices": 10, "annealed": 5, "models": 2, "delta": 1e-6, "strongly_convex": False}
    agree(only("deep_q", given), certify(choices_event(10, 2), delta=1e-6), None)


def test_weighted_erm():
    from coterie.protocols.weighted_erm import worth

    sizes = [10, 10, 30, 30]
    found = worth(sizes, 0.3, DELTA)
    given = {"epsilon": 0.3, "delta": DELTA, "parties": 4, "unevenness": 3.0}
    rows = {row.setting["model"]: row for row in table("weighted_erm", given)}
    assert rows["final"].claim.epsilon == pytest.approx(found.claimed)
    assert rows["final"].certificate.epsilon == pytest.approx(found.certified_linear, rel=1e-5)
    assert rows["own"].claim.epsilon == pytest.approx(found.claimed_own)
    assert rows["own"].certificate.epsilon == pytest.approx(found.certified_own, rel=1e-5)


@pytest.mark.parametrize("view", ["untrusted", "aggregator"])
def test_a_party_of_the_published_weighted_erm(view):
    # For losses that are not linear, either view is charged with the party's own steps.
    world = task((30, 30), DIM, epsilon=0.3, delta=DELTA, topology="complete")
    row = only("weighted_erm", {"epsilon": 0.3, "delta": DELTA, "parties": 2, "model": "own"})
    certificate, claim = published("weighted_erm", world, view=view)
    assert certificate.epsilon == pytest.approx(row.certificate.epsilon, rel=1e-5)
    assert claim.epsilon == pytest.approx(0.3, rel=1e-5)


@pytest.mark.parametrize("calibration", ["certified", "paper"])
@pytest.mark.parametrize("name", sorted(PROTOCOLS))
def test_every_protocols_certificates_survive_json(name, calibration, tmp_path):
    world = task((30, 40, 30), DIM, topology="complete")
    options = {"ticks": 30} if name == "async_learner" else {}
    certificates = certificates_of(build(name, world, options, calibration).plan, world.delta)
    written = json.loads(json.dumps(recompute.to_json(certificates), allow_nan=False))
    assert sorted(owner for one in written for owner in one["owners"]) == [0, 1, 2]
    for one in written:
        (tmp_path / "one.json").write_text(json.dumps(one))
        (check,) = recompute.check(tmp_path / "one.json")
        assert check.problems == ()
        assert check.found.epsilon == certificates[one["owners"][0]].epsilon
