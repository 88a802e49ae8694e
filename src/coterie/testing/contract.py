"""`check_protocol`: the contract of `coterie.program`, measured on a protocol in a small world."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from coterie.accounting import certify
from coterie.accounting.plans import certificates_of, charges_of
from coterie.engines.owners import context_of, everything
from coterie.engines.simulate import simulate
from coterie.engines.steps import compilations
from coterie.program import Program, Rounds, Shards, Trace
from coterie.protocols.mixing import mixer_of
from coterie.protocols.task import Calibration, Task
from coterie.testing import leaks, sensitivity
from coterie.testing.failure import ContractError
from coterie.testing.sensitivity import SLACK, messages_of
from coterie.testing.world import (
    World,
    differing,
    small_world,
    with_other_padding,
    with_other_record,
)
from coterie.topologies.mixing import Mixer

Build = Callable[[Task, Any, Calibration], Program]
_BUDGETS = (1.5, 1.1, 1.01, 1.001)  # times the task's, until one leaves the number of releases as it is
_TOLERANCE = 1e-6  # of an accountant's ε, composed in two ways


class Measured(NamedTuple):
    """What the checks found, for those who want to ask more of their protocol."""

    epsilon: tuple[float, ...]  # certified for each owner
    allowed: float  # by how much the noise may have to be shifted for one record, as the plan is charged
    shift: float  # by how much it had to be, for the worst neighbours found
    compilations: int  # of the engine's steps, for two runs that differ in seed, budget and data


def check_protocol(build: Build, settings: Any, *, world: World | None = None, seed: int = 0) -> Measured:
    """Check that `build(task, settings, "certified")` keeps the contract; raises `ContractError` where it does not.

    In turn: the certificate is within every budget and the ledger's charges add up to it; one record moves messages by
    no more than their noise is charged for; the same seed gives the same run, and padding is never seen; a new seed,
    budget or data set compiles nothing; nobody's first words know another's record; and nothing but messages depends
    on records. `world` is the task and records to check on, by default `small_world()`; where its task protects units
    of several records, a unit takes the place of a record in all of it.

    Guarantee: none. Neighbours are chosen to be hostile, but finitely many; a proof stands beside the sensitivity.
    """
    task, records = world or small_world()
    program = build(task, settings, "certified")
    mixer = mixer_of(task, program)
    epsilon = check_charges(task, program)
    shift = check_sensitivity(build, settings, task, program, records, seed)
    check_tracing(program, records)
    trace = check_purity(program, records, mixer, seed)
    compiled = check_compilations(build, settings, task, program, records, seed)
    check_first_words(program, records, mixer, seed)
    leaks.hunt(program, records, with_other_record(records, 0), mixer, trace.messages, seed)
    return Measured(epsilon, shift.allowed, shift.measured, compiled)


def check_charges(task: Task, program: Program) -> tuple[float, ...]:
    """The plan certifies within each owner's budget, and what a ledger is charged costs what the plan says."""
    plan, certificates = program.plan, certificates_of(program.plan, task.delta)
    for owner, (stated, budget) in enumerate(zip(certificates, task.epsilon)):
        if not 0 < stated.epsilon <= budget:
            why = f" ({stated.reason})" if stated.reason else ""
            raise ContractError(
                f"charge: the plan certifies ε = {stated.epsilon:.4g} for owner {owner}{why}; allowed: its budget "
                f"{budget:g}. Calibrate the plan with coterie.protocols.task.calibrated."
            )
        event, size = _composed(program, owner), plan.sizes[owner]
        ledger = certify(event, delta=task.delta, relation=plan.relation, size=size)
        if abs(ledger.epsilon - stated.epsilon) > _TOLERANCE * stated.epsilon:
            raise ContractError(
                f"charge: a ledger charges owner {owner} ε = {ledger.epsilon:.6g} for its messages; allowed: the "
                f"plan's {stated.epsilon:.6g}. State in the plan as many releases as the schedule has messages."
            )
    return tuple(certificate.epsilon for certificate in certificates)


def _composed(program: Program, owner: int) -> Any:
    """All that a ledger is charged over a run."""
    import dp_accounting as dp

    messages = messages_of(program, owner)
    charges = charges_of(program.plan, owner, messages)
    # Disjoint parts cost one of them.
    times = messages if charges.parts == 0 else -(-messages // charges.parts)
    event = dp.SelfComposedDpEvent(charges.each, times)
    return event if charges.upfront is None else dp.ComposedDpEvent([event, charges.upfront])


def check_sensitivity(
    build: Build, settings: Any, task: Task, program: Program, records: Shards, seed: int
) -> sensitivity.Shift:
    """One record, whatever it is, moves an owner's messages by no more than their noise is charged for."""
    smaller = None
    if not program.plan.relation.sizes_are_public:
        fewer = replace(task, sizes=(task.sizes[0] - 1, *task.sizes[1:]))
        smaller = build(fewer, settings, "certified")
    shift = sensitivity.measure(program, records, smaller, seed)
    if shift.measured > shift.allowed * (1 + SLACK):
        raise ContractError(
            f"sensitivity: one record moves a message as if its noise were shifted by {shift.measured:.4g} of its "
            f"scale; allowed: {shift.allowed:.4g}. Clip to ctx.clip_norm and scale the noise by ctx.noise_scale."
        )
    return shift


def check_tracing(program: Program, records: Shards) -> None:
    """`emit` is the same computation whenever it is traced: it keeps nothing in Python between calls."""
    if _traced(program, records) != _traced(program, records):
        raise ContractError(
            "purity: `emit` traced twice gives two different computations; allowed: one. Keep state in what `emit` "
            "returns, not in variables outside of it."
        )


def _traced(program: Program, records: Shards) -> str:
    """The computation of `emit`, as text without addresses, with its constants."""
    functions, ctx = program.functions, context_of(program, 0)
    noise = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), program.plan.noise_like)
    batch = everything(jax.tree.map(lambda leaf: leaf[0], records))

    def emitted() -> Any:
        public, private = functions.begin(program.params, program.numbers, ctx)
        return functions.say(private, functions.shown(public, ctx), batch, noise, ctx)

    computation = jax.make_jaxpr(emitted)()
    consts = [np.asarray(constant).tolist() for constant in computation.consts if _is_plain(constant)]
    return re.sub(r"0x[0-9a-f]+", "", str(computation)) + repr(consts)


def _is_plain(value: Any) -> bool:
    return not jnp.issubdtype(jnp.result_type(value), jax.dtypes.prng_key)


def check_purity(program: Program, records: Shards, mixer: Mixer, seed: int) -> Trace:
    """Same seed, same transcript, all of it finite; padding never seen; no more releases than the plan says."""
    first = simulate(program, records, mixer, seed=seed, transcript=True)
    for held, why in (
        (records, "run again with the same seed"),
        (with_other_padding(records), "with other padding"),
    ):
        second = simulate(program, held, mixer, seed=seed, transcript=True)
        if places := differing(first, second):
            raise ContractError(
                f"purity: {why}, trace{places[0]} differs; allowed: no difference. Draw from ctx.key alone, keep no "
                "state outside, and multiply by batch.mask."
            )
    if not all(np.isfinite(leaf).all() for leaf in jax.tree.leaves((first.messages, first.model))):
        raise ContractError(
            "purity: a message or model is not finite; allowed: finite numbers. Take smaller steps."
        )
    if (first.turns > np.array(program.plan.releases)).any():
        raise ContractError(
            f"charge: owners released {first.turns.tolist()} times; allowed: {list(program.plan.releases)}."
        )
    return first


def check_compilations(
    build: Build, settings: Any, task: Task, program: Program, records: Shards, seed: int
) -> int:
    """A new seed, budget and data set of the same shape compile nothing."""
    again = _with_other_budget(build, settings, task, program)
    simulate(program, records, mixer_of(task, program), seed=seed, transcript=True)
    before = compilations()
    changed = with_other_record(records, 0)
    simulate(again, changed, mixer_of(task, again), seed=seed + 1, transcript=True)
    compiled = compilations() - before
    if compiled:
        raise ContractError(
            f"compilation: a new seed, budget and data set of the same shape compiled {compiled} times; allowed: 0. "
            "Return the same function objects (functools.lru_cache) and put every number into Program.numbers."
        )
    return compiled


def _with_other_budget(build: Build, settings: Any, task: Task, program: Program) -> Program:
    """The program of a budget so near that it makes as many releases."""
    tried = []
    for times in _BUDGETS:
        more = replace(task, epsilon=tuple(times * budget for budget in task.epsilon))
        again = build(more, settings, "certified")
        if again.plan.releases == program.plan.releases and np.array_equal(again.schedule, program.schedule):
            return again
        tried.append(list(again.plan.releases))
    raise ContractError(
        f"compilation: releases change from {list(program.plan.releases)} to {tried[-1]} with {_BUDGETS[-1] - 1:.1%} "
        "more budget; allowed: a budget nearby that keeps them. Fix rounds or steps in the settings."
    )


def check_first_words(program: Program, records: Shards, mixer: Mixer, seed: int) -> None:
    """What others say before an owner is first heard does not depend on that owner's records."""
    owner, heard = _last_to_speak(program)
    honest, changed = (
        simulate(program, held, mixer, seed=seed, transcript=True).messages
        for held in (records, with_other_record(records, owner))
    )
    if places := differing(heard(honest), heard(changed)):
        raise ContractError(
            f"first words: with a record of owner {owner} changed, others' messages{places[0]} differ before anything "
            "of it was heard; allowed: no difference. Let `emit` read its own batch alone."
        )


def _last_to_speak(program: Program) -> tuple[int, Callable]:
    """An owner, and a function for what others say in a run before it speaks: never nothing."""
    owners = len(program.plan.sizes)
    if isinstance(program.functions, Rounds):
        if owners == 1:
            raise ContractError(
                "first words: the world has 1 owner; needed: 2 or more. Give a world with others."
            )
        return 0, lambda messages: jax.tree.map(lambda leaf: leaf[0, 1:], messages)
    order = np.asarray(program.schedule)
    first = [int(np.argmax(order == owner)) if (order == owner).any() else 0 for owner in range(owners)]
    owner = int(np.argmax(first))
    if first[owner] == 0:
        raise ContractError(
            "first words: nobody speaks before the last owner does. Give a world with others."
        )
    return owner, lambda messages: jax.tree.map(lambda leaf: leaf[: first[owner]], messages)
