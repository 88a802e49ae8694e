"""Collaborative SGD with a private local model (Jin, He & Dai, Algorithms 2 and 3).

    local:   w^L ← Π_R[w^L − 2 η_t ∇f_B(w^L)]                             nothing but the choice is seen
    global:  w^G ← Π_R[(w^G + w^L)/2 − η_t (∇f_B(w^G) + N_t)],  w^L ← w^G   the new w^G is released

B is the owner's next b unseen records. Published: a deep-Q agent (`_q_network`) reads [w^L, loss of w^L on B]
and chooses, one agent for each binary model of one-vs-all; b, η_t and R are those of `wor_sgd`, and the noise on
w^G has std √(2 ln(1.25/δ)) · max_k 2 η_k L / (bε) over the steps k since the owner last went global.

Departures. `policy` may be a public fair coin, or frozen. As published (`calibration="paper"`, policy "q")
everybody sees choices that were made from private losses; the theorem leaves them out, the certificate charges
each as the randomised response that its exploration makes it. By default (`"certified"`) the agent reads only
what is public, [w^G, loss of w^G on B], and that loss is released with noise and charged.
Lemma 5 needs steps that do not expand: features are bounded instead of gradients clipped (which would be
expansive), and η > 1/(2μ) is refused; as published with λ > 0 it is larger for most steps, so no bound holds (`capped`
reads the paper so that it is not).
Nor may rounding expand them: by default w^G, as it is shown, and w^L are kept within `radius`. Whoever holds the
register could otherwise show an owner a model so long that the last bit of w^L outweighs the noise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coterie._types import Array, PyTree
from coterie.errors import InputError
from coterie.mechanisms import NoNoise, ReleasePlan, gathering
from coterie.mechanisms.clipping import Clipped, in_parts
from coterie.mechanisms.noise import noised
from coterie.problems.penalties import prox
from coterie.problems.problem import Problem, clipped_sum
from coterie.program import Batch, Context, Program, Visits
from coterie.protocols import _q_network as q
from coterie.protocols import wor_sgd
from coterie.protocols.task import Calibration, Task, calibrated, per_owner, smoothness_for
from coterie.protocols.wor_sgd import Register

if TYPE_CHECKING:
    from dp_accounting import DpEvent

# A released loss has this many times the relative noise of a model: 5 % of the model's precision.
QUIETER = 3.0
_HAIR = 2.0**-10  # of a unit's norm: more than `places.norms` may add to it for rounding
_LOSS_SPAN = 2.0  # losses are bounded at this many times a record's loss at score 0


@dataclass(frozen=True, kw_only=True)
class Settings(wor_sgd.Settings):
    """What may be set; None means chosen for the budget (certified) or as published (paper)."""

    policy: Literal["q", "coin", "global", "local"] = "q"
    # Half of each release is an older model, so w^G advances more slowly than the bound says: as if ‖w*‖ were
    # larger. Chosen on Adult and KDD Cup 99.
    radius: float = 100.0  # certified: models are kept within it


class Numbers(NamedTuple):
    """One row for each owner: (owners,) arrays."""

    walk: wor_sgd.Numbers
    anneal: Array  # choices until exploration is down to its least
    loss_most: Array  # a record's loss is counted up to this
    loss_scale: Array  # noise on a released sum of losses, over the noise multiplier of the gradients' sum


class Private(NamedTuple):
    """What never leaves the owner."""

    local: Array  # w^L
    widest: Array  # (models,) the largest η since the owner last went global
    agents: PyTree  # one for each model, or () where no agent chooses


class Visible(NamedTuple):
    """What everybody sees of a visit."""

    choice: Array  # (models,) int32, LOCAL or GLOBAL
    model: Array  # the new w^G where the choice is GLOBAL, zero elsewhere
    loss: Array  # (models,) the noised loss where it is released, zero elsewhere


class Heard(NamedTuple):
    """What an agent chooses on, and which part of it leaves."""

    model: Array
    loss: Array  # (models,)
    released: Array  # (models,)


def build(task: Task, settings: Settings, calibration: Calibration) -> Program:
    """The protocol for this task.

    Guarantee: with `calibration="certified"` every owner's whole transcript, choices and losses included, meets its
    own (ε, δ) under replace-one adjacency. A record acts on one released loss and on one release of each model.
    """
    _check_linear(task)
    certified = calibration == "certified"
    plan, pace = _tuned(task, settings) if certified else _published(task, settings)
    if calibration == "noiseless":
        plan = replace(plan, noise=NoNoise())
    return Program(
        functions=_functions(task.problem, settings.policy, certified),
        plan=plan,
        numbers=_numbers(task, plan, pace, settings.radius if certified else math.inf),
        params=task.params,
        schedule=wor_sgd.in_turns(plan.releases),
        claim=wor_sgd.claim(task, plan, "Jin, He & Dai, Theorem 5", _claim_note(plan)),
    )


def _numbers(task: Task, plan: ReleasePlan, pace: wor_sgd.Numbers, radius: float) -> Numbers:
    models = wor_sgd.models_in(task.problem)
    walk = per_owner(task.owners, pace._replace(domain=min(pace.domain, radius)))
    most = _LOSS_SPAN * _start_loss(task.problem) / models
    return Numbers(
        walk,
        *per_owner(
            task.owners,
            (
                np.maximum(np.array(plan.releases) / 2, 1.0),
                most,
                # Sensitivity: each model's loss lies in [0, most], so replacing a record moves the sums by at most
                # √models · most; their noise over that is QUIETER times a model's noise over its 2 clip_norm.
                QUIETER * math.sqrt(models) * most / 2,
            ),
        ),
    )


@lru_cache(maxsize=64)
def _functions(problem: Problem, policy: str, certified: bool) -> Visits:
    """Cached, so that equal settings are the same functions and compile once."""
    models = wor_sgd.models_in(problem)

    def init(params: Array, ctx: Context) -> Private:
        inputs = params.size // models + 1
        keys = jax.random.split(ctx.key, models)
        agents = jax.vmap(lambda key: q.create(inputs, key))(keys) if policy == "q" else ()
        return Private(params, jnp.zeros(models, jnp.float32), agents)

    def choose(private: Private, shown: Array, batch: Batch, noise: PyTree, ctx: Context) -> tuple:
        frozen = {"global": q.GLOBAL, "local": q.LOCAL}
        if policy in frozen:
            return jnp.full(models, frozen[policy], jnp.int32), jnp.zeros(models, jnp.float32), ()
        keys = jax.random.split(ctx.key, models)
        if policy == "coin":
            coins = jax.vmap(lambda key: jax.random.randint(key, (), 0, 2, jnp.int32))(keys)
            return coins, jnp.zeros(models, jnp.float32), ()
        heard = _public(shown, batch, noise, ctx) if certified else _private(private.local, batch, ctx)
        loss = heard.loss + jax.vmap(problem.penalty.value)(_by_model(heard.model, models))
        state = jnp.concatenate([_by_model(heard.model, models), loss[:, None]], axis=1)
        explore = jnp.full(models, q.exploration(ctx.turn, ctx.numbers.anneal))
        choice, agents = jax.vmap(q.decide)(private.agents, state, loss, explore, keys)
        return choice, heard.released, agents

    def _private(local: Array, batch: Batch, ctx: Context) -> Heard:
        total = jnp.sum(batch.mask[:, None] * _losses(problem, local, batch), axis=0)
        return Heard(local, total / ctx.numbers.walk.batch, jnp.zeros(models, jnp.float32))

    def _public(shown: Array, batch: Batch, noise: PyTree, ctx: Context) -> Heard:
        numbers: Numbers = ctx.numbers
        losses = jnp.minimum(_losses(problem, shown, batch), numbers.loss_most)
        total = _added_up(losses, batch.mask, problem.careful)
        scale = numbers.loss_scale / ctx.clip_norm * ctx.noise_scale
        loss = noised(total, noise["loss"], scale) / numbers.walk.batch
        return Heard(shown, loss, loss)

    def emit(private: Private, shown: Array, batch: Batch, noise: PyTree, ctx: Context) -> tuple:
        walk: wor_sgd.Numbers = ctx.numbers.walk
        # So short that no gradient is longer than clip_norm: clipping itself would be expansive (see above).
        # Of units, whose norms are rounded up, by a hair more; the mean of gradients is no longer than they are.
        longest = ctx.clip_norm / problem.loss.lipschitz * (1.0 if batch.within is None else 1.0 - _HAIR)
        batch = _bounded(batch, longest, problem.loss.outputs)
        shown = wor_sgd.project(problem, shown, walk.domain)  # whatever the holder of the register sent
        choice, loss, agents = choose(private, shown, batch, noise, ctx)
        step = wor_sgd.step_at(walk, ctx.step)
        widest = jnp.maximum(private.widest, step)

        def mean_gradient(w: Array) -> Array:
            return clipped_sum(problem, w, batch, ctx.clip_norm) / walk.batch

        # A record of a local step k moves w^L by at most 4 η_k L / b, later steps do not expand that (η <= 1/(2μ)) and
        # the mean with w^G halves it; one of this batch moves the sum by 2 η_t L / b: at most 2 widest L / b each.
        # So noise of widest / b times the plan's, which is made for a sum that a record moves by 2 L.
        meant = shown - step * (mean_gradient(shown) + problem.penalty.gradient(shown))
        moved = meant + 0.5 * (private.local - shown)
        scale = _by_column(widest, shown) * (ctx.noise_scale / walk.batch)
        noisy = noised(moved, noise["model"], scale)
        released = wor_sgd.project(problem, prox(problem.penalty, noisy, 0.0), walk.domain)
        stayed = wor_sgd.descend(
            problem, private.local, mean_gradient(private.local), 2.0 * step, walk.domain
        )
        went = _by_column(choice, shown) == q.GLOBAL
        after = Private(
            local=jnp.where(went, released, stayed),
            widest=jnp.where(choice == q.GLOBAL, 0.0, widest),
            agents=agents,
        )
        return Visible(choice, jnp.where(went, released, 0.0), loss), after

    def settle(register: Register, message: Visible, ctx: Context) -> tuple[Register, PyTree]:
        went = _by_column(message.choice, register.w) == q.GLOBAL
        w = jnp.where(went, message.model, register.w)
        average = wor_sgd.blend(register.average, w, ctx.numbers.walk.weight, ctx.step)
        return Register(w, average), message.choice

    return Visits(
        open=lambda params, numbers: Register(params, params),
        init=init,
        ask=lambda register, ctx: register.w,
        emit=emit,
        settle=settle,
        model=lambda register: register.average,
    )


def _bounded(batch: Batch, norm: Array, classes: int) -> Batch:
    """Features no longer than `norm`, targets within their coding: then the loss itself is Lipschitz and smooth.

    A record that is not finite becomes zero. Acts on one record at a time and does nothing to records of a table
    whose features were mapped to that norm.
    """
    fine = jnp.all(jnp.isfinite(batch.x), axis=-1)
    x = jnp.where(fine[..., None], batch.x, 0.0)
    size = jnp.linalg.norm(x, axis=-1, keepdims=True)
    x = x * jnp.minimum(1.0, norm / jnp.maximum(size, norm))
    whole = jnp.issubdtype(batch.y.dtype, jnp.integer)
    y = jnp.clip(batch.y, 0, classes - 1) if whole else jnp.clip(jnp.nan_to_num(batch.y), -1.0, 1.0)
    return batch._replace(x=x, y=y)


def _losses(problem: Problem, w: Array, batch: Batch) -> Array:
    """(rows, models): what each record costs each separately trained model; of a unit, its records' mean."""
    if batch.within is not None:
        rows = gathering.as_records(batch._replace(mask=jnp.ones_like(batch.mask)), problem.mean)
        weighed = gathering.weighed(_losses(problem, w, rows), rows.mask)
        return jnp.sum(weighed.reshape(*batch.y.shape, -1), axis=1)
    scores = problem.model.scores(w, batch.x)
    if wor_sgd.models_in(problem) == 1:
        return problem.loss.value(scores, batch.y)[:, None]
    sign = 2.0 * jax.nn.one_hot(batch.y, problem.loss.outputs, dtype=scores.dtype) - 1.0
    return jax.nn.softplus(-sign * scores)


def _added_up(losses: Array, mask: Array, careful: bool) -> Array:
    """(rows, models) -> (models,) sums of the losses of real records."""

    def add_up(part: Batch) -> Clipped:
        return Clipped(jnp.sum(jnp.where(part.mask[:, None] > 0, part.x, 0.0), axis=0), part.mask)

    return in_parts(add_up, Batch(losses, mask, mask), mask.shape[0], careful).total


def _by_model(w: Array, models: int) -> Array:
    """(dim, outputs) -> (models, numbers of one model)."""
    return w.T.reshape(models, -1)


def _by_column(values: Array, w: Array) -> Array:
    """(models,) -> (1, outputs), a value for each column of w."""
    return jnp.broadcast_to(values[None], (1, w.shape[1]))


def _start_loss(problem: Problem) -> float:
    """A record's loss at score 0, the worst over the ends of the target's coding."""
    loss = problem.loss
    targets = jnp.zeros(1, jnp.int32) if loss.outputs > 1 else jnp.ones(1, jnp.float32)
    return float(loss.value(jnp.zeros((1, loss.outputs), jnp.float32), targets)[0])


def _check_linear(task: Task) -> None:
    problem = task.problem
    if task.unit.bends > 1:
        raise InputError(
            f"unit={str(task.unit)!r}, records_per_unit={task.unit.records}: deep_q bounds features, which bound the "
            "mean of a unit's gradients, not their sum. Use unit_mean."
        )
    if not problem.model.is_linear or not math.isfinite(problem.loss.lipschitz):
        raise InputError(
            f"model={problem.model.name!r}, loss={problem.loss.name!r}: deep_q needs gradients bounded by the features "
            "alone. Use the linear model with logistic, softmax, one_vs_all or huber loss."
        )
    if not (math.isfinite(problem.loss.smoothness) and math.isfinite(problem.penalty.smoothness)):
        raise InputError(
            f"loss={problem.loss.name!r}, penalty={problem.penalty.name!r}: deep_q needs both smooth. "
            "Use logistic loss and the l2 penalty."
        )
    if problem.penalty.strong_convexity < 0:
        raise InputError(f"penalty={problem.penalty.name!r}: deep_q needs a convex penalty. Use l2.")


def _largest_step(task: Task) -> float:
    """The largest step for which Lemma 5 holds, 1/(2μ)."""
    return 0.5 / (smoothness_for(task) + task.problem.penalty.smoothness)


def _published(task: Task, settings: Settings) -> tuple[ReleasePlan, wor_sgd.Numbers]:
    """The paper's noise; choices by an agent on private losses are charged, too large steps certify as infinite."""
    plan, pace = wor_sgd.published(task, settings)
    plan = _with_losses(task, plan)
    if settings.policy == "q":
        models = wor_sgd.models_in(task.problem)
        plan = replace(plan, extra=tuple(choices_event(count, models) for count in plan.releases))
    largest = _largest_step(task)
    first = min(pace.step, pace.most)
    if settings.policy in ("q", "coin") and first > largest * (1 + 1e-6):
        flaw = f"its first step {first:g} exceeds 1/(2μ) = {largest:.3g}: Lemma 5 gives no sensitivity"
        plan = replace(plan, flaw=flaw)
    return plan, pace


def choices_event(
    choices: int, models: int, annealed: float | None = None, least: float = q.EXPLORE_LEAST
) -> DpEvent:
    """An owner's visible choices: a record of the first batch acts on all of them, through w^L and the agent.

    Guarantee: each choice is randomised response with its exploration probability p_k (a fair coin with p_k,
    otherwise a function of private state), whatever was chosen before; they compose adaptively.
    """
    import dp_accounting as dp

    turns = np.arange(choices)
    anneal = max(choices / 2, 1.0) if annealed is None else annealed
    explore = np.maximum(least, 1 - (1 - least) * turns / anneal)
    rates, counts = np.unique(explore, return_counts=True)
    answers: list[dp.DpEvent] = [
        dp.SelfComposedDpEvent(dp.RandomizedResponseDpEvent(float(rate), 2), int(count) * models)
        for rate, count in zip(rates, counts)
    ]
    return dp.ComposedDpEvent(answers)


def _tuned(task: Task, settings: Settings) -> tuple[ReleasePlan, wor_sgd.Numbers]:
    """`wor_sgd`'s choice of batch and step, with steps up to 1/(2μ)."""
    largest = _largest_step(task)
    if settings.step is not None and settings.step > largest:
        raise InputError(
            f"step={settings.step:g}: must be <= 1/(2μ) = {largest:.4g}, above which Lemma 5 fails. Leave it out."
        )
    spent = calibrated(wor_sgd.walk_plan(task, 1, (1.0,) * task.owners), task).noise_multiplier
    # Two Gaussian releases of one record, of multipliers z and QUIETER · z, are together one of `spent`.
    more = math.sqrt(1 + QUIETER**-2) if settings.policy == "q" else 1.0
    multiplier = tuple(z * more for z in spent)
    scale = [z * task.clip_norm for z in multiplier]
    pace = wor_sgd.tuned_pace(task, settings, scale, largest)
    plan = _with_losses(task, wor_sgd.walk_plan(task, pace.batch, multiplier))
    plan = replace(plan, rounded=_rounded(task, pace, settings.radius))
    return (replace(plan, charged=spent) if settings.policy == "q" else plan), pace


def _rounded(task: Task, pace: wor_sgd.Numbers, radius: float) -> tuple[float, ...]:
    """What float32 rounds on the way to a release, in units of η C / b, that in which a record moves it by 2.

    A model within `radius` is rounded once in each of up to n / b local steps, whose mean with w^G halves it, and four
    times in the release: (n + 8 b) / 2b times. `rounding_slack` takes two roundings of each number for granted.
    Losses lie in [0, most] and not around zero, so that their sum counts as 2 n.
    """
    models = math.sqrt(wor_sgd.models_in(task.problem)) * radius
    unit = pace.step * task.clip_norm
    return tuple(max((size + 8 * pace.batch) * models / (4 * unit), 2.0 * size) for size in task.sizes)


def _with_losses(task: Task, plan: ReleasePlan) -> ReleasePlan:
    """The plan of a message that has the models' losses beside the model."""
    losses = jax.ShapeDtypeStruct((wor_sgd.models_in(task.problem),), jnp.float32)
    return replace(plan, noise_like={"model": plan.noise_like, "loss": losses})


def _claim_note(plan: ReleasePlan) -> str:
    if plan.flaw:
        return "outside the theorem's range η ≤ 1/(2μ)"
    return "says nothing of the choices" if plan.extra is not None else ""
