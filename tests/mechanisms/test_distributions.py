"""Noises as values: one object draws, bounds, charges and has the density; nothing else knows which noise it is."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import dp_accounting as dp
import jax
import jax.numpy as jnp
import numpy as np
import pytest
import worlds
from scipy import stats

import coterie
from coterie import topologies
from coterie.accounting.plans import certificates_of
from coterie.audit.attack import audit
from coterie.audit.neighbours import Attacked, AuditWorld, worst_case
from coterie.engines.simulate import simulate
from coterie.engines.steps import compilations
from coterie.errors import InputError
from coterie.federation.releases import randomness
from coterie.mechanisms import (
    FullBatch,
    Gaussian,
    Laplace,
    Noise,
    NoNoise,
    ReleasePlan,
    discrete,
    noise,
    normals,
)
from coterie.mechanisms.distributions import named, whole
from coterie.protocols import build
from coterie.reports.statement import Facts, statement

ALL = (Gaussian(), Laplace(), NoNoise())


@dataclass(frozen=True)
class Threefold(Noise):
    """A noise from outside the package: three times a normal number."""

    name = "threefold"
    norm = 2
    spread = 3.0

    def unit(self, key, count):
        return 3.0 * normals.normal(key, count)

    def exact(self, scale, count):
        return Gaussian().exact(3 * scale, count)

    def stream(self, scale, count, uniforms):
        return whole(3 * scale * stats.norm.ppf(uniforms(count)))

    def event(self, multiplier):
        return dp.GaussianDpEvent(3 * multiplier)

    def log_density(self, values):
        return -0.5 * jnp.square(values / 3.0)


def plan(**changes) -> ReleasePlan:
    given = {
        "sampler": FullBatch(),
        "clip_norm": 1.0,
        "noise": Gaussian(),
        "noise_multiplier": (2.0,),
        "releases": (1,),
        "sizes": (9,),
        "noise_like": jax.ShapeDtypeStruct((1,), jnp.float32),
    }
    return ReleasePlan(**(given | changes))


@pytest.mark.parametrize("noise", ["Gaussian", "gaussian", "laplace", "none", "", None, Gaussian, 2])
def test_a_plan_takes_a_noise_and_nothing_else(noise):
    """A name with a capital letter once drew normal noise and was charged as Laplace noise."""
    with pytest.raises(InputError, match=r"^noise=.*: must be a noise of coterie\.mechanisms: [^\n]*$"):
        plan(noise=noise)


def test_words_become_noises_in_one_place_that_knows_them_all():
    assert (named("gaussian"), named("laplace")) == (Gaussian(), Laplace())
    for word in ("Gaussian", "none", "normal"):
        with pytest.raises(InputError, match=f"noise='{word}': unknown. Choose one of: gaussian, laplace."):
            named(word)


def test_nothing_else_in_the_tree_asks_which_noise_it_is():
    """Names of noises stand where a noise is defined and where a user writes them: never in a comparison."""
    home = Path(coterie.__file__).parent
    names = re.compile(
        r"""["'](gaussian|laplace)["']|noise\w*(\.kind|\.name)?\s*(==|!=|in)\s*\(?["']""", re.I
    )
    naming = {
        str(path.relative_to(home))
        for path in home.rglob("*.py")
        if any(names.search(line) for line in path.read_text().splitlines())
    }
    assert naming <= {
        "mechanisms/__init__.py",
        "mechanisms/distributions.py",
        "protocols/async_learner.py",  # the type of its setting
        "experiments/accountant.py",  # what a user writes when nothing is said, and in its example
        "audit/__init__.py",  # a bound that assumes a Gaussian mechanism, exported by this name
    }


@pytest.mark.parametrize("noise", ALL, ids=str)
def test_a_noise_is_static_and_equal_to_its_like(noise):
    assert noise == type(noise)()
    assert len({noise, type(noise)(), *ALL}) == 3
    draw = jax.jit(lambda noise, key: noise.unit(key, 4), static_argnums=0)
    for seed in range(3):
        draw(type(noise)(), jax.random.key(seed))
    assert draw._cache_size() == 1


@pytest.mark.parametrize("noise", [*ALL, Threefold()], ids=str)
@pytest.mark.parametrize("generator", randomness.GENERATORS)
def test_all_draws_have_the_stated_spread(noise, generator):
    count, scale = 4000, 1000.0
    simulated = np.asarray(noise.unit(jax.random.key(1), count), float)
    real = randomness.drawn(noise, generator, scale, count) / scale
    for sample in (simulated, real):
        assert sample.shape == (count,)
        assert sample.std() == pytest.approx(noise.spread, rel=0.2)  # kurtosis of at most 6: seven deviations
        assert abs(sample.mean()) <= 6 * noise.spread / np.sqrt(count)


@pytest.mark.parametrize("noise", [Gaussian(), Laplace(), Threefold()], ids=str)
def test_the_density_is_that_of_what_is_drawn(noise):
    """Up to a constant, and with the moments that `spread` says, by a sum over a fine grid."""
    at = np.linspace(-60, 60, 200_001)
    density = np.exp(np.asarray(noise.log_density(jnp.asarray(at, jnp.float32)), np.float64))
    density /= density.sum()
    assert density @ at**2 == pytest.approx(noise.spread**2, rel=1e-4)
    drawn = np.asarray(noise.unit(jax.random.key(2), 20_000))
    cumulated = np.interp(drawn, at, np.cumsum(density))
    assert stats.kstest(cumulated, "uniform").pvalue > 1e-7


@pytest.mark.parametrize(
    ("noise", "event"),
    [
        (Gaussian(), dp.GaussianDpEvent(2.0)),
        (Laplace(), dp.LaplaceDpEvent(2.0)),
        (Threefold(), dp.GaussianDpEvent(6.0)),
    ],
    ids=str,
)
def test_a_plan_charges_what_its_noise_says(noise, event):
    assert plan(noise=noise).event(0) == dp.SelfComposedDpEvent(event, 1)


def widest_gap(noise: Noise, scale: float, moved: int, monkeypatch) -> float:
    """The largest δ of whole-number noise beside that of the continuous noise it is charged as, less 1, over ε."""
    law, power = (discrete.gaussian, 2) if noise.norm == 2 else (discrete.laplace, 1)
    asked = []
    monkeypatch.setattr(discrete, law.__name__, lambda scale, count: asked.append(scale) or np.zeros(count))
    noise.exact(scale, 1)
    at = np.arange(-60 * int(scale + 3), 60 * int(scale + 3) + 1)
    weight = np.exp(-(np.abs(at / asked[0]) ** power) / power)
    chance, neighbour = weight / weight.sum(), np.roll(weight, moved) / weight.sum()
    largest = moved / scale if power == 1 else 6 * moved / scale + (moved / scale) ** 2 / 2
    gaps = []
    for epsilon in np.linspace(0, largest, 200, endpoint=False):
        found = np.maximum(chance - np.exp(epsilon) * neighbour, 0).sum()
        if power == 1:
            known = -np.expm1((epsilon - moved / scale) / 2)
        else:
            near, far = epsilon * scale / moved + np.array([-0.5, 0.5]) * moved / scale
            known = stats.norm.sf(near) - np.exp(epsilon) * stats.norm.sf(far)
        gaps.append(found / known - 1)
    return max(gaps)


@pytest.mark.parametrize("scale", [0.7, 3.0, 10.0, 31.4])
@pytest.mark.parametrize("moved", [1, 2, 5])
@pytest.mark.parametrize("noise", [Gaussian(), Laplace()], ids=str)
def test_whole_numbers_are_no_dearer_than_what_is_charged(noise, moved, scale, monkeypatch):
    """Of the same scale they would be: by up to 1.9 % of δ at scale 10, and by 93 % at 1.3."""
    assert widest_gap(noise, scale, moved, monkeypatch) <= 1e-9


def test_whole_numbers_of_the_same_scale_would_be_dearer(monkeypatch):
    monkeypatch.setattr(Gaussian, "exact", lambda self, scale, count: discrete.gaussian(scale, count))
    assert widest_gap(Gaussian(), 10.0, 1, monkeypatch) > 0.01
    monkeypatch.setattr(Laplace, "exact", lambda self, scale, count: discrete.laplace(scale, count))
    assert widest_gap(Laplace(), 10.0, 1, monkeypatch) > 0.01


@pytest.mark.parametrize("scale", [2.0**25, 0.0, -1.0, np.inf, np.nan])
@pytest.mark.parametrize("noise", [Gaussian(), Laplace()], ids=str)
@pytest.mark.parametrize("generator", randomness.GENERATORS)
def test_noise_is_never_cut_at_the_end_of_whole_numbers(noise, generator, scale):
    """At the end it was cut: a draw there leaves bare what it is added to."""
    with pytest.raises(
        InputError, match=r"^noise: would be [^\n]* whole numbers wide; must be above 0 and at most"
    ):
        randomness.drawn(noise, generator, scale, 4)
    assert np.abs(randomness.drawn(noise, generator, 2.0**24, 10_000)).max() < 2**30


def test_a_run_whose_noise_does_not_fit_is_refused_before_anything_leaves():
    """Rounding of so many numbers in the 1-norm asks for noise so wide."""
    wide = plan(
        noise=Laplace(), noise_multiplier=(1e5,), noise_like=jax.ShapeDtypeStruct((4000,), jnp.float32)
    )
    with pytest.raises(InputError, match="Ask for fewer releases, fewer features or a larger epsilon"):
        randomness.source("exact", wide, 0)


@pytest.mark.parametrize(
    "changes", [{"clip_norm": 1e-37}, {"clip_norm": 1e30}, {"noise_multiplier": (1e-35,)}]
)
def test_a_plan_whose_numbers_single_precision_cannot_hold_is_refused(changes):
    with pytest.raises(InputError, match=r"^clip_norm=[^\n]* for single precision to hold sums and noise\."):
        plan(**changes)


@pytest.mark.parametrize("clip", [2.0**-64, 1.0, 2.0**64])
def test_noise_hides_a_sum_at_either_end_of_what_is_allowed(clip):
    """With clip norms of 1e-37 cells were zero in single precision: what left were a sum's signs, as −0 and 0."""
    made = plan(clip_norm=clip, noise_multiplier=(2.0**-20,) if clip < 1 else (2.0,))
    scale, unit = made.noise_scale[0], np.array([70_000, -70_000], np.int32)
    total = jnp.asarray([-scale, scale])
    for add in (noise.noised, jax.jit(noise.noised)):
        cells = np.asarray(add(total, unit, scale), np.float64) / (float(scale) / noise.LATTICE)
        np.testing.assert_allclose(cells, [70_000 - 65_536, 65_536 - 70_000], rtol=1e-6)


def test_a_founder_can_let_no_clip_through_that_takes_the_noise_off():
    """An agreement with `clip = 1e-37` was taken, and charged as any other."""
    task = worlds.task((50, 50), 3)
    for protocol, settings in (
        ("weighted_erm", {"steps": 3, "step_size": 0.1}),
        ("dual_averaging", {"rounds": 3}),
    ):
        build(protocol, task, settings, "certified")
        with pytest.raises(InputError, match=r"^clip_norm=1e-37: "):
            build(protocol, task, settings | {"clip": 1e-37}, "certified")


def test_a_noise_from_outside_runs_through_plan_engine_certificate_statement_and_audit():
    """A third of the multiplier with three times the noise is the same run, the same certificate, the same attack."""
    own = worst_case("dual_averaging", AuditWorld(dim=2, epsilon=4.0, delta=0.01))
    program = own.program
    third = tuple(z / 3 for z in program.plan.noise_multiplier)
    wider = program._replace(plan=replace(program.plan, noise=Threefold(), noise_multiplier=third))
    records = own.neighbours.with_
    models = [simulate(one, records, own.mixer, seed=4).model for one in (program, wider)]
    np.testing.assert_allclose(models[0], models[1], rtol=1e-4)
    certified = [certificates_of(one.plan, 0.01)[0].epsilon for one in (program, wider)]
    assert certified[0] == pytest.approx(certified[1], rel=1e-9)
    first, found = (
        audit(Attacked(one, own.neighbours, own.mixer), delta=0.01, games=4000) for one in (program, wider)
    )
    assert found.score == "likelihood ratio"
    assert found.finding.epsilon == pytest.approx(first.finding.epsilon, abs=0.05)
    assert 0.3 * certified[1] < found.finding.epsilon <= certified[1]
    assert "in 2-norm, with Threefold noise" in said(wider.plan)


def said(plan: ReleasePlan) -> str:
    """The item of the statement that speaks of the noise."""
    facts = Facts(
        epsilon=1.0, delta=1e-5, relation="replace_one", unit="record", view="public transcript", accountant="",
        reason="", sizes=plan.sizes, noise=plan.noise.words, noisy=True, norm=plan.noise.norm,
        clip_norm=plan.clip_norm, releases=max(plan.releases), classes_declared=True,
        columns_declared=True,
        sampling="all its records", extra=False, own_noise=True, quorum=0, selection=0.0,
        evaluation=0.0, held_out=0.0, grouped_by="",
        calibration="certified", features="",
        fitted_on_public_rows=False, test_is_public=False, engine="simulate",
    )  # fmt: skip
    return next(item for item in statement(facts) if item.startswith("Released"))


def test_a_new_seed_or_budget_of_any_noise_compiles_nothing():
    records = worlds.shards((8, 8), 2)
    task = worlds.task((8, 8), 2)
    mixer, compiled = topologies.mixer(task.topology), set()
    for seed, epsilon in enumerate((0.5, 1.0, 2.0)):
        program = build("dual_averaging", replace(task, epsilon=(epsilon,) * 2), {"rounds": 2}, "certified")
        program = program._replace(plan=replace(program.plan, noise=Threefold()))
        simulate(program, records, mixer, seed=seed)
        compiled.add(compilations())
    assert len(compiled) == 1
