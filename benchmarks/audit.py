"""100,000 distinguishing games against a linear model of 50 dimensions, against a NumPy loop of the same game.

One owner, ten rounds of a full batch of three records; the attacker scores each message with the likelihood ratio. A
game here is a run of the engine with the protocol's own `emit`; the loop is dual averaging written out for this case
alone, one game at a time, as research code is.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from coterie.audit import scores, worst_case
from coterie.audit.attack import played
from coterie.audit.neighbours import AuditWorld

DIM, ROUNDS, GAMES, LOOPED = 50, 10, 100_000, 500
LIMIT = 60.0  # seconds that 100,000 games may take on two cores


def table() -> list[str]:
    """A table of one row, in Markdown."""
    row = measure()
    return [
        "| case | first time, with compilation | again | games a second | NumPy, games a second | ours / NumPy |",
        "|---|---:|---:|---:|---:|---:|",
        f"| audit, {GAMES:,} games, d = {DIM}, {ROUNDS} rounds, limit {LIMIT:.0f} s | {row['first']:.1f} s "
        f"| {row['again']:.1f} s | {row['speed']:,.0f} | {row['numpy_speed']:,.0f} "
        f"| {row['speed'] / row['numpy_speed']:.1f} |",
    ]


def measure() -> dict[str, float]:
    """Seconds for all games, with and without compilation, and games a second of both."""
    setting = worst_case("dual_averaging", AuditWorld(owners=1, dim=DIM), {"rounds": ROUNDS})
    watch = scores.likelihood_ratio(scores.mechanics(setting.program, setting.neighbours))

    def ours() -> None:
        played(setting, GAMES // 2, 0, watch)

    first, again = _seconds(ours), _seconds(ours)
    scale = float(setting.program.plan.noise_scale[0])
    looped = _seconds(lambda: _numpy_loop(LOOPED, scale)) / LOOPED
    return {"first": first, "again": again, "speed": GAMES / again, "numpy_speed": 1 / looped}


def _numpy_loop(games: int, scale: float) -> np.ndarray:
    """Three records, of which one has gradient ±e₁; z, its average and the score, a game at a time."""
    rng = np.random.default_rng(0)
    x = np.zeros((3, DIM))
    x[2, 0] = 1.0
    found = np.empty(games)
    for game in range(games):
        y = np.array([-1.0, -1.0, 1.0 if game % 2 else -1.0])
        z, average, total, score = np.zeros(DIM), np.zeros(DIM), 0.0, 0.0
        for step in range(1, ROUNDS + 1):
            gradient = (y[:, None] * x).sum(axis=0)
            noise = scale * rng.standard_normal(DIM)
            message = z + step * (gradient + noise) / 3
            means = [z + step * (sign * x[2]) / 3 for sign in (-1.0, 1.0)]
            gaps = [np.sum((message - mean) ** 2) / (2 * (step * scale / 3) ** 2) for mean in means]
            score += gaps[0] - gaps[1]
            z, total = message, total + step
            average = average + step / total * (-z / (0.01 * total + 20.0) - average)
        found[game] = score
    return found


def _seconds(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started
