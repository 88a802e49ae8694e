"""Flower's simulation on the federated round nearest to `benchmarks.mlp`: prints seconds a round, as JSON.

Flower knows a server and clients, no gossip: a round is 20 clients of 32 records, each taking one step with Opacus
(ghost clipping, noise), and the server's average of their parameters. Clients are Ray actors on the machine's two
cores. Run by the interpreter of `.venv-bench`; imports nothing of coterie.
"""

from __future__ import annotations

import json
import logging
import os
import sys
import time

os.environ |= {
    "RAY_DEDUP_LOGS": "0",
    "FLWR_TELEMETRY_ENABLED": "0",
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",
}

import numpy as np
import torch
from flwr.client import ClientApp, NumPyClient
from flwr.common import Context, ndarrays_to_parameters
from flwr.server import ServerApp, ServerAppComponents, ServerConfig
from flwr.server.strategy import FedAvg
from flwr.simulation import run_simulation

sys.path.insert(0, os.path.dirname(__file__))
from opacus_mlp import BATCH, CLASSES, DIM, OWNERS, _ghost

STARTED: list[float] = []  # of each round, at the server


class _Client(NumPyClient):
    def fit(self, parameters: list[np.ndarray], config: dict) -> tuple[list[np.ndarray], int, dict]:
        module, step = _ghost()
        with torch.no_grad():
            for own, given in zip(module.parameters(), parameters):
                own.copy_(torch.from_numpy(given))
        step(torch.rand(BATCH, DIM) / 28, torch.randint(0, CLASSES, (BATCH,)))
        return [one.detach().numpy() for one in module.parameters()], BATCH, {}


class _Timed(FedAvg):
    def configure_fit(self, *given, **named):
        STARTED.append(time.perf_counter())
        return super().configure_fit(*given, **named)

    def aggregate_fit(self, server_round, results, failures):
        if len(results) != OWNERS:
            raise RuntimeError(f"{len(results)} of {OWNERS} clients answered: {failures[:1]}")
        return super().aggregate_fit(server_round, results, failures)


def main() -> None:
    """Best of the given number of rounds, not counting the first."""
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    rounds = int(sys.argv[1]) + 2
    run_simulation(
        ServerApp(server_fn=lambda context: _server(rounds)),
        ClientApp(client_fn=_client),
        num_supernodes=OWNERS,
        backend_config={"client_resources": {"num_cpus": 1, "num_gpus": 0.0}},
    )
    print(json.dumps({"Flower and Opacus, averaged by a server": float(np.diff(STARTED)[1:].min())}))


def _client(context: Context):
    return _Client().to_client()


def _server(rounds: int) -> ServerAppComponents:
    module, _ = _ghost()
    start = ndarrays_to_parameters([one.detach().numpy() for one in module.parameters()])
    strategy = _Timed(fraction_evaluate=0.0, min_available_clients=OWNERS, initial_parameters=start)
    return ServerAppComponents(strategy=strategy, config=ServerConfig(num_rounds=rounds))


if __name__ == "__main__":
    main()
