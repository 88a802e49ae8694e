"""The games are the engine's runs, the score is the likelihood ratio, and mistakes in a program are found."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import dp_accounting as dp
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coterie import topologies
from coterie.accounting import Claim, certify
from coterie.audit import Attacked, Neighbours, Side, audit, replaced, scores, worst_case
from coterie.audit.attack import played
from coterie.audit.neighbours import AuditWorld
from coterie.audit.opinions import GAUSSIAN, ONE_RUN, opinions
from coterie.engines.simulate import play, simulate
from coterie.errors import InputError
from coterie.mechanisms import FullBatch, Gaussian, Laplace, Noise, NoNoise, ReleasePlan
from coterie.program import Program, Rounds, Shards, State
from coterie.units import Unit

SURE = 1 - 1e-7


def ratios(setting, games: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    watch = scores.likelihood_ratio(scores.mechanics(setting.program, setting.neighbours))
    found = played(setting, games, seed, watch)
    return found[0].sum(axis=1), found[1].sum(axis=1)


def keep_message(seen, shards, aside):
    del shards, aside
    return seen.message


@pytest.mark.parametrize("protocol", ["dual_averaging", "wor_sgd"])
def test_a_game_is_the_run_of_its_seed(protocol):
    setting = worst_case(protocol, AuditWorld())
    given = (setting.program, setting.neighbours.with_, setting.mixer)
    games = play(*given, seeds=jnp.asarray([3, 9], jnp.uint32), watch=keep_message)
    for at, seed in enumerate((3, 9)):
        trace = simulate(*given, seed=seed, transcript=True)
        jax.tree.map(lambda many, one, at=at: np.testing.assert_allclose(many[at], one, rtol=1e-5, atol=1e-6),
                     games, trace.messages)  # fmt: skip


def test_the_score_of_a_gaussian_program_is_its_likelihood_ratio():
    """log LR of a shift of μ standard deviations is N(±μ²/2, μ²): mean and variance both, in both worlds."""
    setting = worst_case("dual_averaging", AuditWorld(dim=3))
    shift = 2 * math.sqrt(3) / setting.program.plan.noise_multiplier[0]  # three rounds, ±clip_norm
    games = 8000
    for found, sign in zip(ratios(setting, games), (-1, 1)):
        assert abs(found.mean() - sign * shift**2 / 2) < 5.5 * shift / math.sqrt(games)
        assert abs(found.var() / shift**2 - 1) < 5.5 * math.sqrt(2 / games)


def test_the_score_of_a_sampled_program_is_its_likelihood_ratio():
    """E[LR] = 1 without the record; E[LR] > 1 with it."""
    world = AuditWorld(calibration="paper", records=60, epsilon=1.0, delta=0.05)
    without, with_ = ratios(worst_case("dual_averaging", world, {"rounds": 30}), 4000)
    assert abs(np.exp(without).mean() - 1) < 5.5 * np.exp(without).std() / math.sqrt(4000)
    assert np.exp(with_).mean() > 1.02 > np.exp(without).mean()


@pytest.mark.parametrize("protocol", ["dual_averaging", "push_sum", "wor_sgd", "weighted_erm"])
def test_certified_programs_stand_and_the_attack_is_sharp(protocol):
    setting = worst_case(protocol, AuditWorld(delta=0.01))
    found = audit(setting, delta=0.01, games=40_000, confidence=SURE)
    assert found.score == "likelihood ratio"
    assert found.certificate.epsilon <= 1.0 + 1e-6
    assert found.finding.epsilon <= found.certificate.epsilon
    assert found.finding.epsilon >= 0.4 * found.certificate.epsilon
    assert 0.6 * found.certificate.epsilon <= found.opinions.shown[GAUSSIAN] <= found.certificate.epsilon


@pytest.mark.parametrize("protocol", ["dual_averaging", "async_learner", "weighted_erm", "deep_q"])
def test_worst_case_units_stand_and_the_attack_is_sharp(protocol):
    """One record against forty of the other kind: clipped one by one they would move a sum twenty times as far."""
    unit = Unit("column", column="person", records=40, mean=protocol == "deep_q")
    setting = worst_case(protocol, AuditWorld(delta=0.01, unit=unit))
    within = [np.asarray(world.within)[0, setting.neighbours.row] for world in setting.neighbours[:2]]
    assert within == [1, 40]
    assert "one unit of the first owner has gradient" in setting.words
    # Where choices hide releases no sharpness is asked for: 4,000 games show any ε up to 4, four times the certified,
    # and a unit that was clipped record by record would be told apart in all of them.
    games = 4_000 if protocol == "deep_q" else 20_000
    found = audit(setting, delta=0.01, games=games, confidence=SURE)
    assert found.finding.epsilon <= found.certificate.epsilon <= 1.0 + 1e-6
    if protocol != "deep_q":
        assert found.finding.epsilon >= 0.3 * found.certificate.epsilon


def test_the_views_weights_leave_colluders_out():
    world = AuditWorld(owners=5)
    program = worst_case("weighted_erm", world, {"view": "aggregator", "missing": 2}).program
    seen = scores.view(program, 0)
    assert np.count_nonzero(seen) == 3
    assert seen[0] > 0
    alone = scores.view(worst_case("weighted_erm", world).program, 0)
    assert alone.tolist() == [1, 0, 0, 0, 0]


def test_an_aggregators_view_is_attacked_through_the_sum():
    setting = worst_case(
        "weighted_erm", AuditWorld(owners=3, delta=0.01), {"view": "aggregator", "missing": 1}
    )
    found = audit(setting, delta=0.01, games=40_000, confidence=SURE)
    assert 0.4 * found.certificate.epsilon <= found.finding.epsilon <= found.certificate.epsilon


@cache
def users_functions(private: bool) -> Rounds:
    """A user's own protocol: noisy sums of a number that lies in [-1, 1]. Its number is a mistake in the noise."""

    def emit(state, batch, unit, ctx):
        total = jnp.sum(batch.mask * jnp.clip(batch.x[:, 0], -1.0, 1.0))
        return total + ctx.numbers * ctx.noise_scale * unit, state.private

    return Rounds(
        init=lambda params, ctx: State(params, jnp.float32(0.0) if private else ()),
        emit=emit,
        absorb=lambda public, own, mixed, ctx: (mixed, ()),
        model=lambda public: public,
    )


def users_program(mistake: float, kind: Noise, private: bool) -> Program:
    plan = ReleasePlan(
        sampler=FullBatch(),
        clip_norm=1.0,
        noise=kind,
        noise_multiplier=(4.0,),
        releases=(2,),
        sizes=(2,),
        noise_like=jax.ShapeDtypeStruct((), jnp.float32),
    )
    claim = Claim(epsilon=1.0, delta=0.0, relation="replace_one", unit="record", view="", source="", note="")
    return Program(users_functions(private), plan, jnp.full(1, mistake), jnp.float32(0.0), 2, claim)


RECORDS = Shards(jnp.zeros((1, 2, 1)).at[0, 0, 0].set(-1.0), jnp.zeros((1, 2)), jnp.asarray([2], jnp.int32))
PAIR = replaced(RECORDS, 0, 0, np.ones(1), 0.0)


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("kind", [Laplace(), Gaussian()], ids=str)
def test_a_users_own_program(kind, private):
    """Correct noise stands; half the noise, a mistake no certificate can see, is refuted. Also by a trained score."""
    delta = 1e-9 if kind == Laplace() else 0.01
    fine, wrong = (
        audit(
            Attacked(users_program(mistake, kind, private), PAIR, topologies.IDENTITY),
            delta=delta,
            games=60_000,
            confidence=SURE,
        )
        for mistake in (1.0, 0.5)
    )
    assert fine.score == "likelihood ratio" + (", hidden steps followed" if private else "")
    assert (GAUSSIAN in fine.opinions.shown) == (kind == Gaussian())
    assert (GAUSSIAN in fine.opinions.left_out) == (kind == Laplace())
    assert 0.5 * fine.certificate.epsilon <= fine.finding.epsilon <= fine.certificate.epsilon
    assert wrong.finding.epsilon > wrong.certificate.epsilon


def test_hidden_local_steps_are_attacked_where_they_show():
    """deep_q, a public coin: in half of the games the first record moves the local model alone, and shows later."""
    setting = worst_case("deep_q", AuditWorld(owners=1, delta=0.01), {"policy": "coin"})
    assert len(setting.program.schedule) >= 3  # type: ignore[arg-type]
    assert setting.neighbours.row == 0
    found = audit(setting, delta=0.01, games=40_000, confidence=SURE)
    assert found.score == "likelihood ratio, hidden steps followed"
    assert 0.35 * found.certificate.epsilon <= found.finding.epsilon <= found.certificate.epsilon


def wide_program(size: int, multiplier: float) -> Program:
    """A user's noisy sum with 200 numbers of noise, private sizes, and a noise that somebody set by the size."""
    program = users_program(1.0, Gaussian(), private=False)
    plan = replace(
        program.plan,
        relation="add_or_remove_one",
        sizes=(size,),
        noise_multiplier=(multiplier,),
        noise_like=jax.ShapeDtypeStruct((200,), jnp.float32),
    )
    return program._replace(plan=plan, params=jnp.zeros(200))


def test_each_world_runs_its_own_program_and_a_scale_that_follows_sizes_shows():
    """Nobody's plan is wrong when looked at alone: noise of 8 with two records, of 7 with one."""
    fewer = RECORDS._replace(counts=jnp.asarray([1], jnp.int32))
    pair = Neighbours(fewer, RECORDS, 0, 1)
    with_, without = wide_program(2, 8.0), Side(wide_program(1, 7.0), topologies.IDENTITY)
    setting = Attacked(with_, pair, topologies.IDENTITY)
    own = audit(setting._replace(without=without), delta=1e-5, games=4000, confidence=SURE)
    shared = audit(setting, delta=1e-5, games=4000, confidence=SURE)
    assert own.certificate.epsilon < 1.0
    assert own.finding.epsilon > own.certificate.epsilon
    assert shared.finding.epsilon <= shared.certificate.epsilon  # one program for both cannot see it


def test_worst_cases_of_private_sizes_are_built_for_each_world():
    world = AuditWorld(owners=2, records=6, calibration="paper")
    setting = worst_case("weighted_erm", world, {"relation": "add_or_remove_one", "steps": 1})
    assert setting.without is not None
    fewer, more = setting.without.program.plan, setting.program.plan
    assert (fewer.sizes, more.sizes) == ((5, 6), (6, 6))
    assert fewer.noise_multiplier[0] < more.noise_multiplier[0]
    assert np.asarray(setting.neighbours.without.counts).tolist() == [5, 6]
    assert worst_case("weighted_erm", AuditWorld()).without is None  # replace-one: the same program


def test_worlds_that_look_different_from_outside_need_no_game():
    program = users_program(1.0, Gaussian(), private=False)
    longer = program._replace(plan=replace(program.plan, releases=(3,)), schedule=3)
    side = Side(longer, topologies.IDENTITY)
    found = audit(Attacked(program, PAIR, topologies.IDENTITY, side), delta=1e-5, games=4000)
    assert found.finding.epsilon > math.log(1500 / 7.7)


def test_second_opinions_are_shown_only_where_they_hold_and_say_something():
    rng = np.random.default_rng(0)
    played = (rng.standard_normal(20_000), rng.standard_normal(20_000) + 4.0)
    plain = certify(dp.GaussianDpEvent(0.25), delta=1e-5, relation="add_or_remove_one")
    usual = opinions(played, plain, 0.999)
    assert set(usual.shown) == {GAUSSIAN}
    assert "needs δ below 2e-07" in usual.left_out[ONE_RUN]
    small = certify(dp.LaplaceDpEvent(0.25), delta=1e-9, relation="add_or_remove_one")
    other = opinions(played, small, 0.999)
    assert set(other.shown) == {ONE_RUN}
    assert other.shown[ONE_RUN] > 0
    assert other.left_out == {GAUSSIAN: "what is released is not one Gaussian"}
    same = opinions((played[0][:10_000], played[0][10_000:]), small, 0.999)
    assert same.shown == {}
    assert same.left_out[ONE_RUN] == "it could not tell the worlds apart"


def test_a_program_without_noise_is_told_apart_every_time():
    program = users_program(1.0, NoNoise(), private=False)
    found = audit(Attacked(program, PAIR, topologies.IDENTITY), delta=1e-5, games=4000)
    assert math.isinf(found.certificate.epsilon)
    assert found.finding.epsilon > math.log(1500 / 7.7)


def test_games_differ_and_repeat():
    setting = worst_case("dual_averaging", AuditWorld(dim=3))
    first, again, other = (ratios(setting, 8000, seed)[0] for seed in (0, 0, 10**6))
    assert np.array_equal(first, again)
    assert np.mean(first == other) < 0.01


def test_bad_input_is_one_line():
    setting = worst_case("dual_averaging", AuditWorld())
    for more, match in (({"games": 3}, "games=3"), ({"confidence": 1.5}, "confidence=1.5")):
        with pytest.raises(InputError, match=match):
            audit(setting, delta=1e-5, **more)
    with pytest.raises(InputError, match="row=2"):
        replaced(RECORDS, 0, 2, np.ones(1), 0.0)
    with pytest.raises(InputError, match="dim=0"):
        worst_case("dual_averaging", replace(AuditWorld(), dim=0))
