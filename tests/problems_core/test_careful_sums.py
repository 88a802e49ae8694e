"""Sums that rounding cannot take apart: two data sets that differ in one record, made against float32 addition.

After Casacuberta, Shoemate, Vadhan & Wagaman 2022, "Widespread underestimation of sensitivity in differentially
private libraries and how to fix it". Many records push a sum just over a power of two, where float32 has half as
many numbers; the others pull by less than half of the wider gap and more than half of the narrower one. With the
first record turned round, the sum stays below the power, and every pull counts in full; otherwise none does.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from coterie.mechanisms.clipping import TOGETHER, Clipped, in_parts
from coterie.problems import losses, models, penalties
from coterie.problems.moments import gradient_sum, moments
from coterie.problems.problem import Problem, clipped_sum
from coterie.program import Batch

CLIP = 0.5  # the longest gradient of the logistic loss at zero, for features of norm one
DIM = 4  # so that a record's coordinates are powers of two: 1/4 for features of 1/2
ALLOWED = 2 * CLIP


def hostile(rows: int) -> tuple[Batch, Batch]:
    """Two data sets of features of norm at most one that differ in their first record."""
    pushing = 2 ** int(np.log2(rows / 2))
    gap = 0.25 * pushing * 2.0**-24  # below the power of two that the sum just exceeds
    x = np.full((rows, DIM), -2 * 0.6 * gap, np.float32)
    x[: pushing + 1] = 0.5
    turned = x.copy()
    turned[0] = -0.5
    y, mask = -jnp.ones(rows, jnp.float32), jnp.ones(rows, jnp.float32)
    return Batch(jnp.asarray(x), y, mask), Batch(jnp.asarray(turned), y, mask)


def moved(problem: Problem, rows: int) -> float:
    zero = jnp.zeros((DIM, 1), jnp.float32)
    sums = [np.asarray(jax.jit(lambda b: clipped_sum(problem, zero, b, CLIP))(one)) for one in hostile(rows)]
    return float(np.linalg.norm(sums[0].astype(np.float64) - sums[1]))


PLAIN = Problem(models.linear(DIM), losses.logistic(), penalties.none())


def test_plain_addition_is_taken_apart() -> None:
    """The attack works: one record moves the sum nine times as far as it may."""
    assert moved(PLAIN, 2**15) > 8 * ALLOWED


@pytest.mark.parametrize("rows", [TOGETHER, 1000, 2**13, 2**15])
@pytest.mark.parametrize("microbatch", [None, 1, 2**15])
def test_careful_sums_keep_their_bound(rows: int, microbatch: int | None) -> None:
    """However many records there are, and in whatever parts: what rounding adds is what one part can."""
    careful = PLAIN._replace(careful=True, microbatch=microbatch)
    if microbatch == 1 and rows > 1000:
        rows = 1000  # a part for each record
    assert moved(careful, rows) <= ALLOWED + 2 * TOGETHER**2 * 2.0**-24 * CLIP + 4 * rows * 2.0**-24 * CLIP


def test_parts_are_added_without_loss() -> None:
    """Parts of one record: plain addition of them falls to the same attack, addition in pairs does not."""

    def total(batch: Batch, careful: bool) -> np.ndarray:
        def gradients(part: Batch) -> Clipped:
            return Clipped(0.5 * jnp.sum(part.mask[:, None] * part.x, axis=0), part.mask)

        found = jax.jit(lambda b: in_parts(gradients, b, 1, careful))(batch)
        return np.asarray(found.total, np.float64)

    one, other = hostile(2**13)
    assert np.linalg.norm(total(one, False) - total(other, False)) > 1.4 * ALLOWED
    for batch in (one, other):
        exact = 0.5 * np.asarray(batch.x, np.float64).sum(axis=0)
        np.testing.assert_allclose(total(batch, True), exact, rtol=2.0**-24, atol=0)


def test_careful_moments_keep_their_bound() -> None:
    """The second moments of an owner that answers from them: the same records, squared loss at zero."""
    zero = jnp.zeros((DIM, 1), jnp.float32)

    def answer(batch: Batch, careful: bool) -> np.ndarray:
        halved = batch._replace(y=0.5 * batch.y)  # the gradient at zero is −x y
        found = jax.jit(lambda b: gradient_sum(moments(b, CLIP, 0.0, careful), zero))(halved)
        return np.asarray(found, np.float64)

    one, other = hostile(2**15)
    assert np.linalg.norm(answer(one, False) - answer(other, False)) > 1.1 * ALLOWED
    assert np.linalg.norm(answer(one, True) - answer(other, True)) < 1.01 * ALLOWED
