"""Every owner's own view of the mixing, put together, is the mixer; and its gains say what a late flow is worth."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest

from coterie.topologies import build, mixer
from coterie.topologies.neighbourhood import Neighbourhood, neighbourhood

CASES = [
    ("ring", 7, {}, 1),
    ("ring", 7, {}, 5),  # accelerated
    ("star", 5, {}, 3),
    ("complete", 4, {}, 3),
    ("random_matching", 6, {"period": 4}, 3),
    ("exponential", 6, {}, 2),
    ("one_peer_exponential", 8, {}, 2),
    ("erdos_renyi", 6, {"weights": "column_stochastic", "period": 3}, 1),
]


def views(name, owners, options, steps) -> list[Neighbourhood]:
    topology = build(name, owners, **options)
    return [neighbourhood(topology, owner, steps) for owner in range(owners)]


def round_of(views, x, step):
    """One round as the owners would compute it."""
    before = x
    steps = views[0].gossip_steps
    for place in range((step - 1) * steps, step * steps):
        new = np.empty_like(x)
        for i, view in enumerate(views):
            hop = view.hop(place)
            heard = sum(w * (x[j] - view.balanced * x[i]) for j, w in hop.hears.items())
            if view.balanced:
                new[i] = x[i] + hop.pull * heard + hop.momentum * (x[i] - before[i])
            else:
                new[i] = hop.keep * x[i] + heard
        x, before = new, x
    return x


@pytest.mark.parametrize(("name", "owners", "options", "steps"), CASES)
def test_the_owners_views_together_are_the_mixer(name, owners, options, steps):
    x = np.random.default_rng(0).standard_normal((owners, 3))
    apply, arrays = mixer(build(name, owners, **options), steps)
    for step in (1, 2, 5):
        wanted = apply(arrays, jnp.asarray(x, jnp.float32), jnp.int32(step))
        np.testing.assert_allclose(round_of(views(name, owners, options, steps), x, step), wanted, atol=2e-6)


@pytest.mark.parametrize(("name", "owners", "options", "steps"), CASES)
def test_who_tells_is_who_is_heard(name, owners, options, steps):
    everyone = views(name, owners, options, steps)
    for place in range(2 * len(everyone[0].hops)):
        told = {(i, j) for i, view in enumerate(everyone) for j in view.hop(place).tells}
        heard = {(j, i) for i, view in enumerate(everyone) for j in view.hop(place).hears}
        assert told == heard
    assert all(set(view.peers) <= set(range(owners)) for view in everyone)


def test_a_flow_missed_at_one_end_is_made_up_by_its_gain():
    everyone = views("ring", 7, {}, 6)
    x0 = np.random.default_rng(1).standard_normal(7)
    for missed in range(6):
        x, before, owed = x0, x0, 0.0
        for place in range(6):
            new = np.empty_like(x)
            for i, view in enumerate(everyone):
                hop = view.hop(place)
                hears = dict(hop.hears)
                if (i, place) == (2, missed):
                    owed = hop.gain * hop.pull * hears[3] * (x[3] - x[2])
                    del hears[3]
                flow = sum(w * (x[j] - x[i]) for j, w in hears.items())
                new[i] = x[i] + hop.pull * flow + hop.momentum * (x[i] - before[i])
            x, before = new, x
        assert abs(owed) > 1e-3
        assert x.sum() + owed == pytest.approx(x0.sum(), abs=1e-12)


def test_nobody_gets_beyond_where_all_have_joined_without_everyone():
    path = [view.joined for view in views("ring", 7, {}, 1)]
    assert path == [3] * 7
    assert [view.joined for view in views("star", 5, {}, 1)] == [1, 2, 2, 2, 2]
    assert [view.joined for view in views("complete", 4, {}, 1)] == [1] * 4
    assert [view.joined for view in views("one_peer_exponential", 8, {}, 1)] == [3] * 8
