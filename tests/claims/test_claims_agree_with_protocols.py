"""The table is made of the protocols' published plans."""

import json
from dataclasses import replace

import pytest
from worlds import task

from coterie.accounting.plans import certificates_of
from coterie.experiments import recompute
from coterie.experiments.claims import table
from coterie.protocols import PROTOCOLS, build

DIM, DELTA = 3, 1e-4
SETTINGS = {
    "wor_sgd": {"classes": 4, "strongly_convex": True},
    "dual_averaging": {"epsilon": 0.7, "records": 50},
    "push_sum": {"policy": "clipped", "sigma": 0.5, "records": 40, "steps": 60},
    "async_learner": {"horizon": 20, "answers": 20},
}


def only(name, given):
    (row,) = table(name, given)
    return row


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_a_protocol_with_twice_the_noise_is_another_row(name, monkeypatch):
    before = only(name, SETTINGS[name]).certificate.epsilon
    row = PROTOCOLS[name]

    def louder(task, settings, calibration):
        program = row.build(task, settings, calibration)
        twice = tuple(2 * z for z in program.plan.noise_multiplier)
        return program._replace(plan=replace(program.plan, noise_multiplier=twice))

    monkeypatch.setitem(PROTOCOLS._own, name, row._replace(build=louder))
    assert only(name, SETTINGS[name]).certificate.epsilon < 0.9 * before


@pytest.mark.parametrize("view", ["untrusted", "aggregator"])
def test_a_party_of_the_published_weighted_erm(view):
    # For losses that are not linear, either view is charged with the party's own steps.
    world = task((30, 30), DIM, epsilon=0.3, delta=DELTA, topology="complete")
    row = only("weighted_erm", {"epsilon": 0.3, "delta": DELTA, "parties": 2, "model": "own"})
    program = build("weighted_erm", world, {"view": view}, "paper")
    certificate, claim = certificates_of(program.plan, world.delta)[0], program.claim
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
