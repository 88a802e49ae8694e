"""Attacks at full strength: certified defaults stand, worst cases are sharp, published calibrations fall.

Every audit is at 99.9 % confidence by Clopper and Pearson. Worlds are as small as the claim allows; what was reduced
is said beside each. Noise, clipping, sampling and messages are the protocols' own, run by the engine.
"""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np
import pytest

from coterie.audit import Attacked, Neighbours, audit, bounds, replaced, scores, trained, worst_case
from coterie.audit.attack import Audit, played
from coterie.audit.neighbours import AuditWorld
from coterie.program import Shards
from coterie.protocols import PROTOCOLS

DELTA, CONFIDENCE = 1e-5, 0.999
SEED = 2_000_000_000  # no game here was seen while the attacks were designed
MANY = 1_200_000  # at δ = 10⁻⁵ and ε = 1, half of which 700,000 games just show


def attacked(setting: Attacked, delta: float, games: int) -> Audit:
    found = audit(setting, delta=delta, games=games, confidence=CONFIDENCE, seed=SEED)
    print(f"\n{found.claim}\n{found.certificate}\n{found.finding}  [{found.score}; {found.seconds:.0f} s]")
    return found


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_certified_defaults_stand_and_the_worst_case_is_sharp(protocol):
    """At (1, 10⁻⁵): audited <= certified, and at least half of it. The worst of deep_q is a model in every visit."""
    options = {"policy": "global"} if protocol == "deep_q" else {}
    found = attacked(worst_case(protocol, AuditWorld(delta=DELTA), options), DELTA, MANY)
    assert found.certificate.epsilon <= 1.0 + 1e-6
    assert 0.5 * found.certificate.epsilon <= found.finding.epsilon <= found.certificate.epsilon


def test_the_certified_agent_stands():
    """deep_q's default, whose choices and released losses are seen beside the models: at most what is certified."""
    found = attacked(worst_case("deep_q", AuditWorld(delta=DELTA)), DELTA, 40_000)
    assert found.certificate.epsilon <= 1.0 + 1e-6
    assert found.finding.epsilon <= found.certificate.epsilon


def test_liu_2022_claims_1():
    """One of q records in each of 3q steps, δ = 0.01. q = 4,000 instead of 20,000: the paper's noise grows as 1/√q."""
    world = AuditWorld(owners=1, records=4000, calibration="paper", epsilon=1.0, delta=0.01)
    found = attacked(worst_case("dual_averaging", world), 0.01, 6000)
    assert found.claim.epsilon == pytest.approx(1.0)
    assert found.finding.epsilon >= 5.0


def test_adad2p_adaptive_at_its_published_noise():
    """MNIST's σ = 0.05, K = 2,200 steps and J = 3,000 records: a record that is drawn shows by the noise's variance."""
    world = AuditWorld(owners=1, records=3000, calibration="paper", delta=DELTA)
    setting = worst_case("push_sum", world, {"policy": "adaptive", "sigma": 0.05})
    found = attacked(Attacked(setting.program, silent(setting.neighbours), setting.mixer), DELTA, 8000)
    assert math.isinf(found.certificate.epsilon)
    assert found.finding.epsilon >= 5.0


def silent(pair: Neighbours) -> Neighbours:
    """All records have gradient zero, which the policy gives no noise at all; one of them may not."""
    zero = pair.without.x.at[:].set(0.0)
    return pair._replace(without=pair.without._replace(x=zero), with_=pair.with_._replace(
        x=zero.at[pair.owner, pair.row, 0].set(1.0)))  # fmt: skip


def test_kang_2021_claims_a_quarter_for_the_final_model():
    """32 even parties, ε = 0.25, δ = 10⁻⁵; two steps, as T cancels. The view of Theorem 1: the weighted sum alone."""
    world = AuditWorld(owners=32, records=1, calibration="paper", epsilon=0.25, delta=DELTA)
    found = attacked(worst_case("weighted_erm", world), DELTA, 200_000)
    assert found.claim.epsilon == pytest.approx(0.25)
    assert found.claim.view == "final model"
    assert found.certificate.epsilon == pytest.approx(1.67, abs=0.01)
    assert 0.5 <= found.finding.epsilon <= found.certificate.epsilon


VISITS, CANARY = 48, 28  # exploration is down to a tenth from the 24th visit on
NEAR = slice(CANARY - 3, CANARY + 16)  # choices that a record of visit 28 can explain


def test_jin_2020_deep_q_choices_alone_refute_the_claim():
    """Neighbours whose choices differ; of the transcript only the choices are used, which the theorem leaves out."""
    setting, games = choosing(), 12_000
    both = played(setting, games // 2, SEED, scores.features)
    without, with_ = (one[:, NEAR, 0] for one in both)  # a message's first number is the choice
    taught = games // 6
    learnt = trained.fit(without[:taught], with_[:taught])
    judged = [learnt.score(one[taught:]) for one in (without, with_)]
    found = bounds.clopper_pearson(judged[0], judged[1], delta=DELTA, confidence=CONFIDENCE)
    claim = setting.program.claim
    print(f"\n{claim}\naudited, by the choices alone: ε ≥ {found:.3f} from {games:,} games")
    assert claim.epsilon == pytest.approx(1.0)
    assert claim.note.startswith("says nothing of the choices")
    assert found >= 1.0


def choosing() -> Attacked:
    """One owner, one record a visit, all of them zero but one, which may be e₁.

    After some visits w^L is mostly the noise of releases, far from zero. On a record of zeros it loses ½ like on all
    others, on e₁ its own length: a reward so bad that the agent turns away from whatever it chose last.
    """
    world = AuditWorld(owners=1, records=VISITS, calibration="paper", epsilon=1.0, delta=DELTA)
    setting = worst_case("deep_q", world, {"batch": 1, "step": 0.5})  # the largest step of Lemma 5
    zeros = jnp.zeros((1, VISITS, 1))
    records = Shards(zeros, jnp.ones((1, VISITS)), setting.neighbours.without.counts)
    return setting._replace(neighbours=replaced(records, 0, CANARY, np.ones(1), 1.0))
