"""The deep-Q agent of Jin, He & Dai, Algorithm 3: one owner's choice between its own and the shared model.

Network: state → 128 → 2, linear activations, Xavier weights; Adam at 0.01; replay memory of 20 transitions,
10 of them in each step; a target network that is reset every C steps. The paper does not publish the
discount and C: here 0.9 and 10. An agent is a value; `decide` returns the next one.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp

from coterie._types import Array, PyTree

HIDDEN = 128
RATE = 0.01
REMEMBERED = 20
REPLAYED = 10
DISCOUNT = 0.9  # unpublished
RESET_EVERY = 10  # C, unpublished
EXPLORE_LEAST = 0.1
LOCAL, GLOBAL = 0, 1


class Network(NamedTuple):
    """Q(state) = (state w1 + b1) w2 + b2: one value for each action."""

    w1: Array
    b1: Array
    w2: Array
    b2: Array


class Transitions(NamedTuple):
    """⟨state, action, reward, next state⟩, REMEMBERED rows of each."""

    state: Array
    action: Array
    reward: Array
    after: Array


class Agent(NamedTuple):
    """One agent between two choices."""

    network: Network
    target: Network
    adam: PyTree
    memory: Transitions
    state: Array  # at the last choice
    action: Array
    reward: Array
    choices: Array  # () int32, how many were made


def create(inputs: int, key: Array) -> Agent:
    """A fresh agent for states of `inputs` numbers."""
    xavier, (first, second) = jax.nn.initializers.glorot_uniform(), jax.random.split(key)
    network = Network(
        w1=xavier(first, (inputs, HIDDEN), jnp.float32),
        b1=jnp.zeros(HIDDEN, jnp.float32),
        w2=xavier(second, (HIDDEN, 2), jnp.float32),
        b2=jnp.zeros(2, jnp.float32),
    )
    rows = jnp.zeros((REMEMBERED, inputs), jnp.float32)
    memory = Transitions(
        rows, jnp.zeros(REMEMBERED, jnp.int32), jnp.zeros(REMEMBERED, jnp.float32), jnp.copy(rows)
    )
    return Agent(
        network=network,
        target=network,
        adam=_adam().init(network),
        memory=memory,
        state=jnp.zeros(inputs, jnp.float32),
        action=jnp.int32(LOCAL),
        reward=jnp.float32(0.0),
        choices=jnp.int32(0),
    )


def decide(agent: Agent, state: Array, loss: Array, explore: Array, key: Array) -> tuple[Array, Agent]:
    """Algorithm 3, steps 2 to 5: remember, replay, then the better action, or a fair coin with `explore`."""
    replay, coin, act = jax.random.split(key, 3)
    memory = _remember(agent, state)
    known = jnp.minimum(agent.choices, REMEMBERED)  # none before the second choice
    network, adam = _replay(agent, memory, known, replay)
    target = _select(agent.choices % RESET_EVERY == 0, network, agent.target)
    best = jnp.argmax(_values(network, state)).astype(jnp.int32)
    drawn = jax.random.randint(act, (), 0, 2, jnp.int32)
    action = jnp.where(jax.random.uniform(coin) < explore, drawn, best)
    return action, Agent(network, target, adam, memory, state, action, -loss, agent.choices + 1)


def exploration(turn: Array, anneal: Array) -> Array:
    """The exploration rate: 1 at the owner's first choice, down to EXPLORE_LEAST at its `anneal`-th, then constant."""
    return jnp.maximum(EXPLORE_LEAST, 1.0 - (1.0 - EXPLORE_LEAST) * turn.astype(jnp.float32) / anneal)


def _remember(agent: Agent, state: Array) -> Transitions:
    """The last choice and where it led, in the oldest row; nothing before the second choice."""
    row = (agent.choices - 1) % REMEMBERED
    new = Transitions(agent.state, agent.action, agent.reward, state)
    stored = jax.tree.map(lambda rows, newest: rows.at[row].set(newest), agent.memory, new)
    return _select(agent.choices > 0, stored, agent.memory)


def _replay(agent: Agent, memory: Transitions, known: Array, key: Array) -> tuple[Network, PyTree]:
    """One Adam step on (r + γ max Q̂(s') − Q(s, a))² over a random sample of the memory."""
    import optax

    rows = jax.random.randint(key, (REPLAYED,), 0, jnp.maximum(known, 1))
    sample = jax.tree.map(lambda leaf: leaf[rows], memory)
    aim = sample.reward + DISCOUNT * jnp.max(_values(agent.target, sample.after), axis=1)

    def error(network: Network) -> Array:
        values = jnp.take_along_axis(_values(network, sample.state), sample.action[:, None], axis=1)[:, 0]
        return jnp.mean(jnp.square(aim - values))

    slope = jax.grad(error)(agent.network)
    with jax.numpy_dtype_promotion("standard"):  # optax raises a float to an integer power
        step, adam = _adam().update(slope, agent.adam, agent.network)
    moved = optax.apply_updates(agent.network, step)
    return _select(known > 0, (moved, adam), (agent.network, agent.adam))


def _values(network: Network, state: Array) -> Array:
    hidden = state @ network.w1
    hidden = hidden + jnp.broadcast_to(network.b1, hidden.shape)
    values = hidden @ network.w2
    return values + jnp.broadcast_to(network.b2, values.shape)


def _select(condition: Array, yes: PyTree, no: PyTree) -> PyTree:
    return jax.tree.map(lambda a, b: jnp.where(condition, a, b), yes, no)


@lru_cache(maxsize=1)
def _adam() -> PyTree:
    import optax

    return optax.adam(RATE)
