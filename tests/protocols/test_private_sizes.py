"""Where the relation keeps sizes private, nothing public may follow from them: else infinite, with the reason."""

import math
from dataclasses import dataclass, replace
from types import SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coterie.accounting.plans import certificates_of
from coterie.engines.owners import context_of
from coterie.errors import InputError
from coterie.mechanisms import Poisson
from coterie.mechanisms.noise import spec, unit_noise
from coterie.problems.losses import logistic
from coterie.problems.models import linear
from coterie.problems.penalties import l2
from coterie.problems.problem import Problem
from coterie.program import Batch, Program
from coterie.protocols import _private_sizes, build, weighted_erm
from coterie.protocols.task import Task
from coterie.registry import Own
from coterie.topologies import build as topology

PAPER = {"relation": "add_or_remove_one", "steps": 1}
OURS = {"relation": "add_or_remove_one", "steps": 2, "step_size": 1.0}


def task_of(sizes: tuple[int, ...] = (5, 5), dim: int = 2) -> Task:
    problem = Problem(linear(dim), logistic(), l2(0.01))
    return Task(
        problem=problem,
        sizes=sizes,
        clip_norm=1.0,
        epsilon=(0.25,) * len(sizes),
        delta=1e-5,
        topology=topology("complete", len(sizes)),
        params=problem.model.init(jax.random.key(0)),
    )


def lengths(program: Program, party: int, messages: int) -> np.ndarray:
    """Norms of a party's message, over fresh noise; its records have no features, so that it says nothing else."""
    plan = program.plan
    size, ctx = plan.sizes[party], context_of(program, party)
    state = program.functions.init(program.params, ctx)
    dim = program.params.shape[0]
    batch = Batch(jnp.zeros((size, dim)), jnp.ones(size), jnp.ones(size))

    @jax.jit
    def length(key: jax.Array) -> jax.Array:
        noise = unit_noise(spec(plan), key)
        message, _ = program.functions.emit(state, batch, noise, ctx)
        return jnp.linalg.norm(message)

    return np.asarray(jax.lax.map(length, jax.random.split(jax.random.key(1), messages), batch_size=500))


def test_the_papers_noise_tells_private_sizes_and_certifies_as_infinite():
    """Parties (5, 5) against (5, 6): neighbours under add/remove; the event once certified 0.34."""
    less, more = (build("weighted_erm", task_of(sizes, 2000), PAPER, "paper") for sizes in ((5, 5), (5, 6)))
    for program in (less, more):
        for certificate in certificates_of(program.plan, 1e-5):
            assert math.isinf(certificate.epsilon)
            assert "sizes are private under add_or_remove_one" in certificate.reason
    short, long = (np.sort(lengths(program, 1, 6000)) for program in (more, less))
    place = np.quantile(long, np.linspace(0.5, 0.99, 50))
    leak = (long[:, None] > place).mean(0) - math.exp(0.34) * (short[:, None] > place).mean(0)
    assert leak.max() > 0.031  # about 0.07: five standard deviations above


def test_a_protocol_called_by_its_own_build_is_no_way_around():
    settings = weighted_erm.Settings(relation="add_or_remove_one", steps=2)
    assert weighted_erm.build(task_of(), settings, "paper").plan.flaw
    assert not weighted_erm.build(task_of(), weighted_erm.Settings(steps=2), "paper").plan.flaw


@pytest.mark.parametrize("view", ["untrusted", "aggregator"])
@pytest.mark.parametrize("aggregation", ["once", "every_round"])
@pytest.mark.parametrize("sizes", [(5, 5), (40, 10, 25)])
def test_certified_numbers_do_not_follow_private_sizes(sizes, aggregation, view):
    program = build(
        "weighted_erm", task_of(sizes), OURS | {"aggregation": aggregation, "view": view}, "certified"
    )
    assert program.plan.flaw == ""
    assert certificates_of(program.plan, 1e-5)[0].epsilon <= 0.25


def grown(program: Program, task: Task) -> dict[str, Program]:
    """What a careless author might let follow from the sizes."""
    plan, many = program.plan, sum(task.sizes)
    rarely = 6.0 if many > 30 else 5.0  # not with one record more or less
    return {
        "noise_multiplier": program._replace(plan=replace(plan, noise_multiplier=(1.0 + 1 / many, 2.0))),
        "releases": program._replace(plan=replace(plan, releases=(many, many))),
        "sampler": program._replace(plan=replace(plan, sampler=Poisson(0.5, many))),
        "clip_norm": program._replace(plan=replace(plan, clip_norm=rarely)),
        "charged": program._replace(plan=replace(plan, charged=(float(max(task.sizes)), 1.0))),
        "numbers": program._replace(numbers=program.numbers._replace(step_size=jnp.full(2, 1 / many))),
        "schedule": program._replace(schedule=many),
        "aggregate": program._replace(aggregate=np.array(task.sizes) / many),
        "params": program._replace(params=program.params + 1 / many),
    }


NAMES = (
    *("noise_multiplier", "releases", "sampler", "clip_norm", "charged"),
    *("numbers", "schedule", "aggregate", "params"),
)


@dataclass(frozen=True)
class Nothing:
    """Settings of a protocol that has none."""


@pytest.mark.parametrize("name", NAMES)
def test_any_protocol_whose_public_numbers_follow_private_sizes_is_flawed(name):
    def careless(settings: dict) -> Program:
        def made(task: Task, own: Nothing, calibration: str) -> Program:
            return grown(build("weighted_erm", task, settings, calibration), task)[name]

        return build(
            Own("careless", SimpleNamespace(Settings=Nothing, build=made)), task_of(), {}, "certified"
        )

    found = careless(OURS)
    assert f"but {name} would be different" in found.plan.flaw
    assert math.isinf(certificates_of(found.plan, 1e-5)[0].epsilon)
    assert careless({"steps": 2}).plan.flaw == ""  # under replace-one everybody knows the sizes


def test_a_refusal_that_follows_private_sizes_is_a_flaw_too():
    def picky(task: Task) -> Program:
        if task.sizes[0] < 5:
            raise InputError("sizes: too few")
        return build("weighted_erm", task, OURS, "certified")

    assert "whether it can run" in _private_sizes.checked(picky(task_of()), picky, task_of()).plan.flaw
