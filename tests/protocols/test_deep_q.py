"""Deep-Q: oracles for frozen policies, Lemma 5 measured, what choices cost, and what the agent may read."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from worlds import shards, task

from coterie.accounting import certify
from coterie.accounting.plans import certificates_of
from coterie.engines.owners import context_of
from coterie.engines.simulate import simulate
from coterie.errors import InputError
from coterie.problems.losses import hinge, logistic, one_vs_all, softmax, squared
from coterie.problems.models import two_layer
from coterie.problems.penalties import elastic_net, l2, none, sine
from coterie.problems.problem import Problem
from coterie.program import Batch, Context, Program, Visits
from coterie.protocols import _q_network as q
from coterie.protocols import build, deep_q
from coterie.protocols.deep_q import choices_event

DIM = 5
DELTA = 1 / 60_000**2


def visits_of(program: Program) -> Visits:
    assert isinstance(program.functions, Visits)
    return program.functions


@lru_cache
def emit_of(program_functions: Visits) -> Callable:
    return jax.jit(program_functions.emit)


def context(program: Program, step: int = 1, scale: float = 0.0, seed: int = 0) -> Context:
    ctx = context_of(program, 0, step=step, turn=step - 1, key=jax.random.key(seed))
    return ctx._replace(noise_scale=jnp.float32(scale))


def unit(outputs: int = 1, models: int = 1, value: float = 0.0) -> dict:
    return {"model": jnp.full((DIM, outputs), value), "loss": jnp.full(models, value)}


@pytest.mark.parametrize("strength", [0.0, 0.05])
def test_one_owner_that_always_goes_global_is_algorithm_1(strength):
    given = task((23,), DIM, penalty=l2(strength) if strength else none())
    records = shards((23,), DIM)
    frozen = build("deep_q", given, {"batch": 4, "policy": "global"}, "noiseless")
    plain = build("wor_sgd", given, {"batch": 4}, "noiseless")
    found, wanted = (np.asarray(simulate(one, records, seed=0).model) for one in (frozen, plain))
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-6)


def test_one_owner_that_stays_local_runs_sgd_with_twice_the_step_and_shows_nothing():
    given = task((12,), DIM, penalty=none())
    records = shards((12,), DIM)
    program = build("deep_q", given, {"batch": 4, "policy": "local"}, "paper")
    functions = visits_of(program)
    private = functions.init(given.params, context(program))
    for turn in range(3):
        rows = slice(4 * turn, 4 * turn + 4)
        batch = Batch(records.x[0, rows], records.y[0, rows], jnp.ones(4))
        ctx = context(program, turn + 1, scale=1.0)
        message, private = emit_of(functions)(private, given.params, batch, unit(value=1.0), ctx)
        assert not np.asarray(message.choice).any()
        assert not np.asarray(message.model).any()
        assert not np.asarray(message.loss).any()
    twice = build("wor_sgd", given, {"batch": 4, "step": 0.2}, "noiseless")
    wanted = np.asarray(simulate(twice, records, seed=0).model[0])
    np.testing.assert_allclose(np.asarray(private.local), wanted, rtol=1e-5, atol=1e-7)


def far_from_home() -> jax.Array:
    """A model that is as wrong as can be on e₀ (target +1) and also on −e₀ tilted a little to −e₁."""
    return jnp.zeros((DIM, 1)).at[0, 0].set(-20.0).at[1, 0].set(2000.0)


OPPOSITE = -np.eye(DIM)[0] * math.sqrt(1 - 4e-4) - np.eye(DIM)[1] * 0.02


def released_after(program: Program, where: int, x: np.ndarray, y: float) -> np.ndarray:
    """Two local steps and one global one without noise, with the record in the batch of step `where`."""
    local = emit_of(visits_of(build("deep_q", TASK, {"batch": 3, "policy": "local"}, "paper")))
    private = visits_of(program).init(TASK.params, context(program))._replace(local=far_from_home())
    for step in range(3):
        empty = Batch(jnp.zeros((3, DIM)), jnp.ones(3), jnp.ones(3))
        batch = empty._replace(x=empty.x.at[0].set(x), y=empty.y.at[0].set(y)) if step == where else empty
        act = emit_of(visits_of(program)) if step == 2 else local
        message, private = act(private, far_from_home(), batch, unit(), context(program, step + 1))
    return np.asarray(message.model)


TASK = task((9,), DIM, penalty=none())


@pytest.mark.parametrize("where", [0, 1, 2])
def test_a_record_moves_the_release_by_at_most_lemma_5_and_reaches_it(where):
    program = build("deep_q", TASK, {"batch": 3, "policy": "global"}, "paper")
    declared = 2 * 0.1 * program.plan.clip_norm / 3
    rng = np.random.default_rng(where)
    for size in (0.1, 1.0, 1e20):
        pair = [released_after(program, where, size * rng.standard_normal(DIM), y) for y in (1.0, -1e9)]
        assert np.linalg.norm(pair[0] - pair[1]) <= declared * (1 + 1e-3)
    reached = np.linalg.norm(
        released_after(program, where, np.eye(DIM)[0], 1.0) - released_after(program, where, OPPOSITE, 1.0)
    )
    assert 0.95 * declared <= reached <= declared * (1 + 1e-3)


def test_a_long_register_does_not_let_rounding_speak():
    """Whoever holds the register shows a model of 2²⁶, so that the last bit of w^L is wider than a record's share;
    then none, so that the bit is in what the noise is added to."""
    rows = 100
    given = task((3 * rows,), DIM, penalty=none())
    programs = {
        way: build("deep_q", given, {"batch": rows, "policy": way}, "certified")
        for way in ("global", "local")
    }
    program = programs["global"]
    shown = jnp.zeros((DIM, 1)).at[0, 0].set(-(2.0**26))
    nothing = Batch(jnp.zeros((rows, DIM)), jnp.ones(rows), jnp.ones(rows))

    def released(record: float) -> np.ndarray:
        batch = nothing._replace(x=nothing.x.at[:, 0].set(0.2515).at[0, 0].set(record))
        private = visits_of(program).init(given.params, context(program))
        visits = (("global", shown, nothing), ("local", shown, batch), ("global", 0.0 * shown, nothing))
        for step, (way, at, seen) in enumerate(visits):
            act = emit_of(visits_of(programs[way]))
            message, private = act(private, at, seen, unit(), context(program, step + 1))
        return np.asarray(message.model)

    declared = 2 * float(context(program).numbers.walk.step) * program.plan.clip_norm / rows
    assert np.linalg.norm(released(0.2515) - released(-1.0)) <= declared * 1.001


def test_noise_on_a_release_is_the_largest_step_since_the_last_one():
    given = task((9,), DIM, penalty=l2(0.05))
    program = build("deep_q", given, {"batch": 3, "policy": "global"}, "paper")
    local = visits_of(build("deep_q", given, {"batch": 3, "policy": "local"}, "paper")).emit
    emit = visits_of(program).emit
    empty = Batch(jnp.zeros((3, DIM)), jnp.ones(3), jnp.zeros(3))
    private, shown = visits_of(program).init(given.params, context(program)), given.params
    _, private = local(
        private, shown, empty, unit(), context(program, 4)
    )  # η = 20/4 = 5 here, 20/5 = 4 there
    loud, private = emit(private, shown, empty, unit(value=1.0), context(program, 5, scale=1.0))
    np.testing.assert_allclose(np.asarray(loud.model), 5.0 / 3, rtol=1e-5)
    after, _ = emit(private, jnp.asarray(loud.model), empty, unit(value=1.0), context(program, 6, scale=0.0))
    louder, _ = emit(private, jnp.asarray(loud.model), empty, unit(value=1.0), context(program, 6, scale=1.0))
    np.testing.assert_allclose(np.asarray(louder.model - after.model), 20 / 6 / 3, rtol=1e-4)


def test_published_choices_are_charged_as_randomised_response():
    pure = sum(math.log((2 - p) / p) for p in np.maximum(0.1, 1 - 0.9 * np.arange(120) / 60))
    assert pure == pytest.approx(241, abs=0.5)
    cost = certify(choices_event(120, 1), delta=DELTA).epsilon
    assert 0.9 * pure < cost <= pure * (1 + 1e-9)
    given = task((6000,), DIM, penalty=none(), delta=DELTA)
    as_published = build("deep_q", given, {}, "paper")
    coin = build("deep_q", given, {"policy": "coin"}, "paper")
    assert as_published.claim.epsilon == coin.claim.epsilon == pytest.approx(1.0)
    assert "choices" in as_published.claim.note
    assert certificates_of(coin.plan, DELTA)[0].epsilon == pytest.approx(0.850, abs=0.002)
    assert certificates_of(as_published.plan, DELTA)[0].epsilon > cost


@pytest.mark.parametrize(("policy", "finite"), [("q", False), ("coin", False), ("global", True)])
def test_published_steps_beyond_lemma_5_certify_as_infinite(policy, finite):
    given = task((100,), DIM, penalty=l2(1e-4))
    program = build("deep_q", given, {"policy": policy}, "paper")
    one = certificates_of(program.plan, given.delta)[0]
    assert math.isfinite(one.epsilon) == finite
    assert finite or ("exceeds 1/(2μ)" in one.reason and "η ≤ 1/(2μ)" in program.claim.note)


def test_capped_published_steps_keep_to_lemma_5():
    given = task((60, 60), DIM, penalty=l2(1e-4), topology="complete")
    program = build("deep_q", given, {"policy": "coin", "capped": True}, "paper")
    (certificate, _) = certificates_of(program.plan, given.delta)
    assert math.isfinite(certificate.epsilon)
    assert "η ≤ 1/(2μ)" not in program.claim.note


@pytest.mark.parametrize("policy", ["q", "coin"])
@pytest.mark.parametrize("epsilon", [1.0, (0.3, 2.0, 0.7)])
def test_certified_meets_every_owners_budget(policy, epsilon):
    sizes = (40, 300, 7)
    given = task(sizes, DIM, epsilon=epsilon)
    program = build("deep_q", given, {"policy": policy}, "certified")
    for one, budget in zip(certificates_of(program.plan, given.delta), given.epsilon):
        assert 0.98 * budget <= one.epsilon <= budget
    for spent, noise in zip(
        program.plan.charged or program.plan.noise_multiplier, program.plan.noise_multiplier
    ):
        loss = math.inf if policy == "coin" else deep_q.QUIETER * noise
        assert spent**-2 == pytest.approx(noise**-2 + loss**-2)


@pytest.mark.parametrize(("loss", "classes"), [(softmax(3), 3), (one_vs_all(3), 3)])
def test_uneven_owners_run_and_only_charged_values_leave(loss, classes):
    sizes = (22, 9, 30)
    given = replace(task(sizes, DIM, loss=loss), clip_norm=loss.lipschitz)
    program = build("deep_q", given, {"batch": 5}, "certified")
    trace = simulate(program, shards(sizes, DIM, classes=classes), seed=1, transcript=True)
    models = 3 if loss.name == "one_vs_all" else 1
    choice, model, heard = (np.asarray(leaf) for leaf in trace.messages)
    assert choice.shape == heard.shape == (13, models)
    columns = (
        np.broadcast_to(choice[:, None], model.shape)
        if models == 3
        else choice[:, :, None] * np.ones_like(model)
    )
    assert (model[columns == q.LOCAL] == 0).all()
    assert heard.all()
    assert set(np.unique(choice)) == {q.LOCAL, q.GLOBAL}
    assert np.isfinite(np.asarray(trace.model)).all()


def test_certified_agents_read_nothing_private():
    """Other records, another local model, the same noised loss: the same choice and the same agent."""
    program = build("deep_q", TASK, {"batch": 3}, "certified")
    functions = visits_of(program)
    ctx = context(program, 40, scale=1.0)
    first = functions.init(TASK.params, ctx)
    shown = 0.3 * jnp.ones((DIM, 1))
    one = Batch(jnp.eye(DIM)[:3], jnp.ones(3), jnp.ones(3))
    other = Batch(-0.5 * jnp.eye(DIM)[:3], -jnp.ones(3), jnp.ones(3))

    def total(batch: Batch) -> float:
        loss = logistic().value(batch.x @ shown, batch.y)
        return float(jnp.sum(jnp.minimum(loss, ctx.numbers.loss_most)))

    noise = unit()
    shifted = noise | {"loss": jnp.full(1, (total(one) - total(other)) / float(ctx.numbers.loss_scale))}
    emit = emit_of(functions)
    said, kept = emit(first, shown, one, noise, ctx)
    told, held = emit(first._replace(local=shown * 9), shown, other, shifted, ctx)
    np.testing.assert_allclose(np.asarray(said.loss), np.asarray(told.loss), rtol=1e-5)
    assert (said.choice == told.choice).all()
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), kept.agents, held.agents
    )
    published = emit_of(visits_of(build("deep_q", TASK, {"batch": 3}, "paper")))
    _, read = published(first, shown, one, noise, ctx)
    _, reread = published(first._replace(local=shown * 9), shown, one, noise, ctx)
    assert float(abs(read.agents.reward - reread.agents.reward)[0]) > 0.01  # the test can tell


def test_a_released_loss_moves_by_at_most_what_its_noise_is_made_for_and_reaches_it():
    given = replace(task((9,), DIM, loss=one_vs_all(4), penalty=none()), clip_norm=2.0)
    program = build("deep_q", given, {"batch": 3}, "certified")
    functions, ctx = visits_of(program), context(program)
    w = jnp.zeros((DIM, 4)).at[0].set(jnp.array([-40.0, 40.0, 40.0, 40.0]))
    private = functions.init(w, ctx)

    def heard(x: np.ndarray, y: int) -> np.ndarray:
        batch = Batch(jnp.zeros((3, DIM)).at[0].set(x), jnp.zeros(3, jnp.int32).at[0].set(y), jnp.ones(3))
        return 3 * np.asarray(emit_of(functions)(private, w, batch, unit(4, 4), ctx)[0].loss)

    declared = 2 * float(ctx.numbers.loss_scale) / deep_q.QUIETER  # a gradient's noise is for 2 clip_norm
    reached = np.linalg.norm(heard(np.eye(DIM)[0], 0) - heard(-np.eye(DIM)[0], 0))
    assert 0.95 * declared <= reached <= declared * (1 + 1e-5)
    for x in (np.full(DIM, np.nan), np.full(DIM, 1e30), np.full(DIM, -np.inf)):
        assert np.linalg.norm(heard(np.eye(DIM)[0], 0) - heard(x, 77)) <= declared * (1 + 1e-5)


def test_exploration_falls_to_a_tenth_by_the_middle_of_an_owners_turns():
    rates = [float(q.exploration(jnp.int32(turn), jnp.float32(60))) for turn in (0, 30, 60, 119)]
    np.testing.assert_allclose(rates, [1.0, 0.55, 0.1, 0.1], rtol=1e-6)


def test_the_agent_remembers_twenty_and_resets_its_target():
    agent = q.create(2, jax.random.key(0))
    decide = jax.jit(q.decide)
    for step in range(31):
        state = jnp.array([float(step), 1.0])
        action, agent = decide(agent, state, jnp.float32(step), jnp.float32(0.5), jax.random.key(step))
        assert int(action) in (q.LOCAL, q.GLOBAL)
        same = jax.tree.all(jax.tree.map(lambda a, b: bool((a == b).all()), agent.network, agent.target))
        assert same == (step % q.RESET_EVERY == 0)
    rows = np.sort(np.asarray(agent.memory.state[:, 0]))
    np.testing.assert_array_equal(rows, np.arange(10, 30))
    np.testing.assert_array_equal(np.asarray(agent.memory.after[:, 0] - agent.memory.state[:, 0]), 1.0)
    np.testing.assert_array_equal(np.asarray(agent.memory.reward), -np.asarray(agent.memory.state[:, 0]))


def test_the_agent_learns_which_action_pays():
    """A state that is the reward of the last action: without exploration it ends up choosing the one that pays."""
    agent, decide, loss = q.create(1, jax.random.key(1)), jax.jit(q.decide), jnp.float32(0.5)
    chosen = []
    for step in range(400):
        explore = jnp.float32(1.0 if step < 300 else 0.0)
        action, agent = decide(agent, jnp.ones(1), loss, explore, jax.random.key(step))
        # Algorithm 3 pays for the state's loss, so the loss that follows an action is known one choice later.
        agent = agent._replace(reward=jnp.where(action == q.GLOBAL, 0.0, -1.0))
        chosen.append(int(action))
    assert all(action == q.GLOBAL for action in chosen[-50:])


@pytest.mark.parametrize(
    ("changes", "options", "line"),
    [
        ({}, {"policy": "dice"}, "policy='dice': unknown"),
        ({}, {"step": 3.0}, r"step=3: must be <= 1/\(2μ\) = 1.923"),
        (
            {"problem": Problem(two_layer(DIM, 2), logistic(), none())},
            {},
            "needs gradients bounded by the features",
        ),
        ({"loss": squared()}, {}, "needs gradients bounded by the features"),
        ({"loss": hinge()}, {}, "needs both smooth"),
        ({"penalty": elastic_net(0.1, 0.1)}, {}, "needs both smooth"),
        ({"penalty": sine()}, {}, "needs a convex penalty"),
    ],
)
def test_what_lemma_5_does_not_cover_is_refused_in_one_line(changes, options, line):
    problem = changes.pop("problem", None)
    given = task((10,), DIM, **changes)
    given = replace(given, problem=problem) if problem else given
    with pytest.raises(InputError, match=line) as caught:
        build("deep_q", given, options, "certified")
    assert "\n" not in str(caught.value)
