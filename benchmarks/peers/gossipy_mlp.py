"""gossipy on the gossip of `benchmarks.mlp`: prints seconds a round, as JSON.

It has neither clipping nor noise, so this is less work: in a round every owner sends its network to one neighbour on
the ring, and who receives one averages and takes a step on 32 records. Run by the interpreter of `.venv-bench`;
imports nothing of coterie.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import types

import numpy as np
import torch

sys.modules["torchvision"] = types.ModuleType("torchvision")  # gossipy imports it to download pictures

from gossipy import LOG  # noqa: E402
from gossipy.core import AntiEntropyProtocol, CreateModelMode, StaticP2PNetwork  # noqa: E402
from gossipy.model import TorchModel  # noqa: E402
from gossipy.model.handler import TorchModelHandler  # noqa: E402
from gossipy.node import GossipNode  # noqa: E402
from gossipy.simul import GossipSimulator  # noqa: E402

OWNERS, BATCH, DIM, HIDDEN, CLASSES, STEP, ROUNDS = 20, 32, 784, 128, 10, 0.03, 5


class _Network(TorchModel):
    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(DIM, HIDDEN), torch.nn.Tanh(), torch.nn.Linear(HIDDEN, CLASSES)
        )

    def init_weights(self) -> None:
        """PyTorch's own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)

    def __str__(self) -> str:
        return "network"


class _NoTest:
    """gossipy asks at the end of every round."""

    def has_test(self) -> bool:
        return False


def main() -> None:
    """Best of the given number of runs of `ROUNDS` rounds."""
    LOG.setLevel(logging.ERROR)
    torch.manual_seed(0)
    torch.set_num_threads(2)
    at = np.arange(OWNERS)
    ring = np.zeros((OWNERS, OWNERS))
    ring[at, (at + 1) % OWNERS] = ring[at, (at - 1) % OWNERS] = 1
    simulator = GossipSimulator(
        _nodes(StaticP2PNetwork(OWNERS, ring)), _NoTest(), 1, AntiEntropyProtocol.PUSH
    )
    simulator.init_nodes()
    seconds = []
    for _ in range(int(sys.argv[1])):
        started = time.perf_counter()
        simulator.start(n_rounds=ROUNDS)
        seconds.append((time.perf_counter() - started) / ROUNDS)
    done = sum(node.model_handler.n_updates for node in simulator.nodes.values())
    assert done >= OWNERS * ROUNDS * len(seconds) / 2, (
        f"only {done} steps"
    )  # who hears nobody in a round takes none
    print()
    print(json.dumps({"gossipy, neither clipping nor noise": min(seconds)}))


def _nodes(network: StaticP2PNetwork) -> dict[int, GossipNode]:
    handler = TorchModelHandler(
        net=_Network(),
        optimizer=torch.optim.SGD,
        optimizer_params={"lr": STEP},
        criterion=torch.nn.CrossEntropyLoss(),
        batch_size=BATCH,
        create_model_mode=CreateModelMode.MERGE_UPDATE,
    )
    found = {}
    for owner in range(OWNERS):
        records = (torch.rand(BATCH, DIM) / 28, torch.randint(0, CLASSES, (BATCH,)))
        found[owner] = GossipNode(owner, (records, None), 1, handler.copy(), network, sync=True)
    return found


if __name__ == "__main__":
    main()
