"""Joining the processes of one run, on one host or many: who waits for whom, and what is said when nobody comes."""

from __future__ import annotations

import math
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import jax
import numpy as np
from jax.experimental import multihost_utils as hosts

from coterie import _check
from coterie.errors import InputError, ProcessError

HEARTBEAT = 30  # seconds without a sign of life after which a process counts as lost
_LOST = ("gloo", "nccl", "connection", "socket", "unavailable", "deadline", "heartbeat", "coordination")
_PAUSE = 0.2  # seconds between two attempts to reach the coordinator


class Place(NamedTuple):
    """A process among those of a run."""

    coordinator: str  # host:port at which process 0 can be reached
    process: int
    processes: int
    timeout: float  # seconds in which all have to come


def check_place(place: Place) -> tuple[str, int]:
    """The coordinator's host and port; refuses what cannot be meant."""
    _check.count("processes", place.processes)
    _check.positive("timeout", place.timeout)
    if not 0 <= place.process < place.processes:
        raise InputError(
            f"process_id={place.process}: must lie between 0 and {place.processes - 1}, one for each process."
        )
    host, _, port = place.coordinator.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InputError(f"coordinator={place.coordinator!r}: must be HOST:PORT, such as 10.0.0.5:7000.")
    return host, int(port)


def join(place: Place) -> None:
    """Meet the other processes. To be called before JAX does anything else; `leave` undoes it."""
    host, port = check_place(place)
    if place.process == 0:
        _check_free(place.coordinator, port)
    else:
        _wait_for(place, host.strip("[]"), port)
    jax.config.update("jax_cpu_collectives_implementation", "gloo")
    # JAX ends the process itself, with a page of its own, where somebody does not come: whoever started it says why.
    jax.distributed.initialize(
        place.coordinator,
        place.processes,
        place.process,
        initialization_timeout=math.ceil(place.timeout),
        heartbeat_timeout_seconds=HEARTBEAT,
        cluster_detection_method="deactivate",
    )


def leave() -> None:
    """Part from the other processes, all at the same time: from now on nobody needs anybody."""
    if jax.distributed.is_initialized():
        jax.distributed.shutdown()


@contextmanager
def losing() -> Iterator[None]:
    """Around what needs all processes: where the machinery fails because one of them is gone, that is the error."""
    try:
        yield
    except jax.errors.JaxRuntimeError as error:
        words = str(error).lower()
        if jax.process_count() > 1 and any(sign in words for sign in _LOST):
            raise ProcessError(
                "lost the connection to another process; one that is gone stops all."
            ) from error
        raise


def check_agreement(mark: str) -> None:
    """Stop in every process if the processes were not given the same program, records or settings."""
    if jax.process_count() == 1:
        return
    marks = hosts.process_allgather(np.frombuffer(bytes.fromhex(mark), np.uint8))
    odd = np.flatnonzero((marks != marks[0]).any(axis=1))
    if len(odd):
        raise InputError(
            f"process {odd[0]} has other records, settings or versions than process 0. "
            "Give every process the same options and files."
        )


def check_same(settings: str) -> None:
    """Stop in every process if they were not given the same settings, line by line."""
    if jax.process_count() == 1:
        return
    with losing():
        everyones = _exchanged(settings)
    for process, text in enumerate(everyones):
        differ = _first_difference(everyones[0], text)
        if differ is not None:
            raise InputError(
                f"process 0 has {differ[0]}, process {process} has {differ[1]}. Give every process the same options."
            )


def _first_difference(first: str, second: str) -> tuple[str, str] | None:
    left, right = set(first.splitlines()), set(second.splitlines())
    if left == right:
        return None
    return min(left - right, default="nothing there"), min(right - left, default="nothing there")


def _exchanged(text: str) -> list[str]:
    raw = np.frombuffer(text.encode(), np.uint8)
    lengths = hosts.process_allgather(np.asarray(len(raw), np.int32))
    padded = np.zeros(int(lengths.max()), np.uint8)
    padded[: len(raw)] = raw
    rows = hosts.process_allgather(padded)
    return [bytes(row[:length]).decode() for row, length in zip(rows, lengths)]


def _check_free(coordinator: str, port: int) -> None:
    both = socket.has_dualstack_ipv6()
    family = socket.AF_INET6 if both else socket.AF_INET
    try:
        socket.create_server(("", port), family=family, dualstack_ipv6=both).close()
    except OSError as error:
        reason = os.strerror(error.errno or 0)  # without the address, which Python adds
        raise ProcessError(
            f"coordinator={coordinator!r}: port {port} cannot be opened here ({reason}). Choose another port."
        ) from error


def _wait_for(place: Place, host: str, port: int) -> None:
    """Process 0 may be started last, so refusals are waited out."""
    deadline = time.monotonic() + place.timeout
    while True:
        try:
            socket.create_connection((host, port), timeout=max(0.1, deadline - time.monotonic())).close()
            return
        except socket.gaierror as error:
            raise ProcessError(f"coordinator={place.coordinator!r}: there is no host {host!r}.") from error
        except OSError as error:
            if time.monotonic() + _PAUSE > deadline:
                raise ProcessError(
                    f"coordinator={place.coordinator!r}: process 0 was not reached within {place.timeout:g} s "
                    f"({error.strerror or error}). Start it there, and check address, port and firewall."
                ) from error
        time.sleep(_PAUSE)
