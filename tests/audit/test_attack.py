"""The games are the engine's runs, the score is the likelihood ratio, and mistakes in a program are found."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coterie import topologies
from coterie.accounting import Claim
from coterie.audit import audit, replaced, scores, worst_case
from coterie.audit.attack import play_both
from coterie.audit.neighbours import World
from coterie.engines.simulate import play, simulate
from coterie.errors import InputError
from coterie.mechanisms import FullBatch, ReleasePlan
from coterie.program import Program, Rounds, Shards, State

SURE = 1 - 1e-7


def ratios(setting, games: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    watch = scores.likelihood_ratio(scores.mechanics(setting.program, setting.neighbours))
    found = play_both(setting.program, setting.neighbours, setting.mixer, games, seed, watch)
    return found[0].sum(axis=1), found[1].sum(axis=1)


def keep_message(seen, shards, aside):
    del shards, aside
    return seen.message


@pytest.mark.parametrize("protocol", ["dual_averaging", "wor_sgd"])
def test_a_game_is_the_run_of_its_seed(protocol):
    setting = worst_case(protocol, World())
    given = (setting.program, setting.neighbours.with_, setting.mixer)
    games = play(*given, seeds=jnp.asarray([3, 9], jnp.uint32), watch=keep_message)
    for at, seed in enumerate((3, 9)):
        trace = simulate(*given, seed=seed, transcript=True)
        jax.tree.map(lambda many, one, at=at: np.testing.assert_allclose(many[at], one, rtol=1e-5, atol=1e-6),
                     games, trace.messages)  # fmt: skip


def test_the_score_of_a_gaussian_program_is_its_likelihood_ratio():
    """log LR of a shift of μ standard deviations is N(±μ²/2, μ²): mean and variance both, in both worlds."""
    setting = worst_case("dual_averaging", World(dim=3))
    shift = 2 * math.sqrt(3) / setting.program.plan.noise_multiplier[0]  # three rounds, ±clip_norm
    games = 8000
    for found, sign in zip(ratios(setting, games), (-1, 1)):
        assert abs(found.mean() - sign * shift**2 / 2) < 5.5 * shift / math.sqrt(games)
        assert abs(found.var() / shift**2 - 1) < 5.5 * math.sqrt(2 / games)


def test_the_score_of_a_sampled_program_is_its_likelihood_ratio():
    """E[LR] = 1 without the record; E[LR] > 1 with it."""
    world = World(calibration="paper", records=60, epsilon=1.0, delta=0.05)
    without, with_ = ratios(worst_case("dual_averaging", world, {"rounds": 30}), 4000)
    assert abs(np.exp(without).mean() - 1) < 5.5 * np.exp(without).std() / math.sqrt(4000)
    assert np.exp(with_).mean() > 1.02 > np.exp(without).mean()


@pytest.mark.parametrize("protocol", ["dual_averaging", "push_sum", "wor_sgd", "weighted_erm"])
def test_certified_programs_stand_and_the_attack_is_sharp(protocol):
    setting = worst_case(protocol, World(delta=0.01))
    found = audit(
        setting.program, setting.neighbours, setting.mixer, delta=0.01, games=40_000, confidence=SURE
    )
    assert found.score == "likelihood ratio"
    assert found.certificate.epsilon <= 1.0 + 1e-6
    assert found.finding.epsilon <= found.certificate.epsilon
    assert found.finding.epsilon >= 0.4 * found.certificate.epsilon
    assert 0.6 * found.certificate.epsilon <= found.gaussian <= found.certificate.epsilon


def test_the_views_weights_leave_colluders_out():
    world = World(owners=5)
    program = worst_case("weighted_erm", world, {"view": "aggregator", "missing": 2}).program
    seen = scores.view(program, 0)
    assert np.count_nonzero(seen) == 3
    assert seen[0] > 0
    alone = scores.view(worst_case("weighted_erm", world).program, 0)
    assert alone.tolist() == [1, 0, 0, 0, 0]


def test_an_aggregators_view_is_attacked_through_the_sum():
    setting = worst_case("weighted_erm", World(owners=3, delta=0.01), {"view": "aggregator", "missing": 1})
    found = audit(
        setting.program, setting.neighbours, setting.mixer, delta=0.01, games=40_000, confidence=SURE
    )
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


def users_program(mistake: float, kind: str, private: bool) -> Program:
    plan = ReleasePlan(
        sampler=FullBatch(),
        clip_norm=1.0,
        noise=kind,  # type: ignore[arg-type]
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
@pytest.mark.parametrize("kind", ["laplace", "gaussian"])
def test_a_users_own_program(kind, private):
    """Correct noise stands; half the noise, a mistake no certificate can see, is refuted. Also by a trained score."""
    delta = 1e-9 if kind == "laplace" else 0.01
    fine, wrong = (
        audit(
            users_program(mistake, kind, private),
            PAIR,
            topologies.identity(),
            delta=delta,
            games=60_000,
            confidence=SURE,
        )
        for mistake in (1.0, 0.5)
    )
    assert fine.score.startswith("quadratic" if private else "likelihood")
    assert 0.5 * fine.certificate.epsilon <= fine.finding.epsilon <= fine.certificate.epsilon
    assert wrong.finding.epsilon > wrong.certificate.epsilon


def test_a_program_without_noise_is_told_apart_every_time():
    program = users_program(1.0, "none", private=False)
    found = audit(program, PAIR, topologies.identity(), delta=1e-5, games=4000)
    assert math.isinf(found.certificate.epsilon)
    assert found.finding.epsilon > math.log(1500 / 7.7)


def test_games_differ_and_repeat():
    setting = worst_case("dual_averaging", World(dim=3))
    first, again, other = (ratios(setting, 8000, seed)[0] for seed in (0, 0, 10**6))
    assert np.array_equal(first, again)
    assert np.mean(first == other) < 0.01


def test_bad_input_is_one_line():
    setting = worst_case("dual_averaging", World())
    given = (setting.program, setting.neighbours, setting.mixer)
    for more, words in (({"games": 3}, "games=3"), ({"confidence": 1.5}, "confidence=1.5")):
        with pytest.raises(InputError, match=words):
            audit(*given, delta=1e-5, **more)
    with pytest.raises(InputError, match="row=2"):
        replaced(RECORDS, 0, 2, np.ones(1), 0.0)
    with pytest.raises(InputError, match="dim=0"):
        worst_case("dual_averaging", replace(World(), dim=0))
