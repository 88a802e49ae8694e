"""The one place that knows every kind of thing that can be added from outside, and the call that adds one."""

from __future__ import annotations

from typing import Any

from coterie import _check
from coterie.problems.datasets import DATASETS
from coterie.problems.feature_steps import FEATURES
from coterie.problems.losses import LOSSES
from coterie.problems.models import MODELS
from coterie.protocols import PROTOCOLS
from coterie.registry import Registry
from coterie.topologies import TOPOLOGIES

KINDS: dict[str, Registry[Any]] = {
    registry.what: registry for registry in (PROTOCOLS, LOSSES, MODELS, DATASETS, TOPOLOGIES, FEATURES)
}


def register(kind: str, name: str, thing: Any) -> None:
    """Let `name` stand for `thing`, in this process: in `Experiment`, in files, and in models that are loaded.

    `kind` is the argument of `Experiment` that takes the name: protocol, loss, model, data, topology or features.
    An installed package does the same by an entry point, which the command line finds too: docs/extending.md.

    >>> import networkx as nx
    >>> register("topology", "ring", nx.cycle_graph)
    Traceback (most recent call last):
    coterie.errors.InputError: topology='ring': there is one of that name already. Take another name.
    """
    KINDS[_check.one_of("kind", kind, KINDS)].register(name, thing)
