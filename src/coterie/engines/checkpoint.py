"""A run's state in one file, from which it goes on to the same result. Only whole files ever carry the name.

It holds private states: it belongs where the records are. Nothing in it is a release.
"""

from __future__ import annotations

import hashlib
import io
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from coterie import _files
from coterie._types import PyTree
from coterie.errors import InputError
from coterie.program import Holdings, Program
from coterie.topologies.mixing import Mixer

_FIRST = b"coterie checkpoint 1\n"


def digest(program: Program, shards: Holdings, mixer: Mixer | None, settings: Any) -> str:
    """SHA-256 over all that decides a run: program, plan, records, topology and settings; not over where it runs."""
    plan, functions = program.plan, program.functions
    words = [
        functions.emit.__module__,
        functions.emit.__qualname__,
        plan.sampler,
        plan.noise,
        plan.releases,
        program.claim,
        settings,
        *(() if plan.shared is None else (plan.shared,)),
    ]
    digest = hashlib.sha256(repr(words).encode())
    links = () if mixer is None else mixer.arrays
    scales = (plan.clip_norms, plan.noise_scale)
    numbers = (program.numbers, program.params, program.schedule, scales, links, shards)
    for path, leaf in jax.tree_util.tree_flatten_with_path(numbers)[0]:
        values = np.ascontiguousarray(leaf)
        digest.update(f"{jax.tree_util.keystr(path)} {values.dtype} {values.shape}".encode())
        digest.update(values.data)
    return digest.hexdigest()


def write(path: Path, mark: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write a checkpoint that its user alone may read: owners' private states are in it."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **arrays)  # type: ignore[arg-type]
    content = file.getvalue()
    header = json.dumps({"settings": mark, "sha256": hashlib.sha256(content).hexdigest()}).encode()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _files.put(path, _FIRST + header + b"\n" + content, mode=0o600, durable=True)
    except OSError as error:
        raise InputError(
            f"checkpoint={str(path)!r}: cannot be written ({error.strerror}). Name another."
        ) from error


def read(path: Path, mark: str) -> dict[str, np.ndarray]:
    """The arrays of a checkpoint that belongs to these settings; anything else is an error."""
    try:
        first, header, content = path.read_bytes().split(b"\n", 2)
    except OSError as error:
        raise InputError(
            f"checkpoint={str(path)!r}: cannot be read ({error.strerror}). Leave --resume out to start anew."
        ) from error
    except ValueError:
        first, header, content = b"", b"", b""
    stated = _stated(header) if first + b"\n" == _FIRST else {}
    if stated.get("sha256") != hashlib.sha256(content).hexdigest():
        raise InputError(f"checkpoint={str(path)!r}: is damaged, or no checkpoint. Delete it and start anew.")
    if stated.get("settings") != mark:
        raise InputError(
            f"checkpoint={str(path)!r}: belongs to a run with other records or settings. "
            "Give the same ones, or name another file."
        )
    with np.load(io.BytesIO(content), allow_pickle=False) as arrays:
        return dict(arrays)


def flat(name: str, tree: PyTree) -> dict[str, np.ndarray]:
    """A tree's leaves under numbered names."""
    return {f"{name}.{at}": np.asarray(leaf) for at, leaf in enumerate(jax.tree.leaves(tree))}


def shaped(name: str, arrays: Mapping[str, np.ndarray], like: PyTree) -> PyTree:
    """The tree that `flat` wrote, in the structure and types of `like`."""
    leaves, tree = jax.tree.flatten(like)
    # NumPy's format has no name for types such as bfloat16 and keeps their bytes alone.
    return jax.tree.unflatten(
        tree, [arrays[f"{name}.{at}"].view(np.dtype(leaf.dtype)) for at, leaf in enumerate(leaves)]
    )


def _stated(header: bytes) -> dict[str, Any]:
    try:
        stated = json.loads(header)
    except ValueError:
        return {}
    return stated if isinstance(stated, dict) else {}
