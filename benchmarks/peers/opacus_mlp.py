"""Opacus on the work of `benchmarks.mlp`: prints seconds a round for each of its modes, as JSON.

Owner by owner, as Opacus knows one model: forward, backward with per-sample clipping, noise, then the ring's
average of all owners' parameters. Run by the interpreter of `.venv-bench`; imports nothing of coterie.
"""

from __future__ import annotations

import json
import sys
import time
import warnings

import torch
from opacus import GradSampleModule
from opacus.grad_sample import GradSampleModuleFastGradientClipping
from opacus.optimizers import DPOptimizer, DPOptimizerFastGradientClipping
from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

OWNERS, BATCH, DIM, HIDDEN, CLASSES, CLIP, NOISE, STEP = 20, 32, 784, 128, 10, 1.0, 1.0, 0.03


def main() -> None:
    """Best of the given number of rounds, for each mode."""
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(2)
    x = torch.rand(OWNERS, BATCH, DIM) / 28
    y = torch.randint(0, CLASSES, (OWNERS, BATCH))
    found = {name: _best(mode, x, y, int(sys.argv[1])) for name, mode in MODES.items()}
    print(json.dumps(found))


def _network() -> torch.nn.Module:
    return torch.nn.Sequential(
        torch.nn.Linear(DIM, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, CLASSES)
    )


def _hooks():
    module = GradSampleModule(_network())
    optimiser = DPOptimizer(
        torch.optim.SGD(module.parameters(), lr=STEP),
        noise_multiplier=NOISE,
        max_grad_norm=CLIP,
        expected_batch_size=BATCH,
    )
    loss = torch.nn.CrossEntropyLoss()

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        optimiser.zero_grad()
        loss(module(x), y).backward()
        optimiser.step()

    return module, step


def _ghost():
    module = GradSampleModuleFastGradientClipping(
        _network(), max_grad_norm=CLIP, use_ghost_clipping=True, loss_reduction="mean"
    )
    optimiser = DPOptimizerFastGradientClipping(
        torch.optim.SGD(module.parameters(), lr=STEP),
        noise_multiplier=NOISE,
        max_grad_norm=CLIP,
        expected_batch_size=BATCH,
    )
    loss = DPLossFastGradientClipping(
        module, optimiser, torch.nn.CrossEntropyLoss(reduction="mean"), loss_reduction="mean"
    )

    def step(x: torch.Tensor, y: torch.Tensor) -> None:
        optimiser.zero_grad()
        loss(module(x), y).backward()
        optimiser.step()

    return module, step


MODES = {"Opacus, hooks": _hooks, "Opacus, ghost clipping": _ghost}


def _best(mode, x: torch.Tensor, y: torch.Tensor, rounds: int) -> float:
    owners = [mode() for _ in range(OWNERS)]
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        for (_, step), one_x, one_y in zip(owners, x, y):
            step(one_x, one_y)
        with torch.no_grad():
            for same in zip(*(module.parameters() for module, _ in owners)):
                stack = torch.stack([one.data for one in same])
                mixed = (stack + stack.roll(1, 0) + stack.roll(-1, 0)) / 3
                for one, new in zip(same, mixed):
                    one.data.copy_(new)
        seconds.append(time.perf_counter() - started)
    return min(seconds)


if __name__ == "__main__":
    main()
