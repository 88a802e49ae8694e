"""The processes of one run: started together, watched, shown as one, and ended together.

JAX ends a process at once, with a page of output, when another one is gone. So the process that talks to the user
takes no part in the run: it starts the workers, hears their progress, and reports the outcome in one line.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple

from coterie.cli._progress import Tell
from coterie.errors import BudgetError, CoterieError, InputError, OutputError, ProcessError

JOINING = "joining processes"  # a worker's phase until all have come

_POLL = 0.05
_SETTLE = 2.0  # seconds to wait for further failures before the first cause is determined
_GRACE = 3.0  # seconds between asking a worker to stop and ending it
_OWN = 1  # Python's exit status for an uncaught exception


class WorkerNews(NamedTuple):
    """A worker's output so far."""

    phase: list[str]  # the last entry is what it does now
    result: list[str]
    errors: deque[str]  # lines of standard error


def here() -> str:
    """An address on this machine with a free port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def cores(process: int, processes: int) -> list[int]:
    """A worker's share of this machine's cores, so that workers do not compete; with too few cores, shared in turns."""
    known = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    return known[process::processes] or known[process % len(known) :][:1] if known else []


def supervise(jobs: Sequence[dict[str, Any]], tell: Tell) -> str:
    """Run the jobs, each in a process of its own, and return the first one's final words."""
    workers = [_start(job) for job in jobs]
    heard = [WorkerNews(["starting"], [], deque(maxlen=200)) for _ in workers]
    threads = []
    for at, (worker, news) in enumerate(zip(workers, heard)):
        threads += _listen(worker, news, tell if at == 0 else None)
    try:
        while any(worker.poll() is None for worker in workers):
            if any(worker.poll() for worker in workers):
                break
            time.sleep(_POLL)
        if any(worker.poll() for worker in workers):
            _settle(workers)
            _stop(workers)
            for thread in threads:
                thread.join(_GRACE)
            raise _cause(jobs, [worker.returncode for worker in workers], heard)
        for thread in threads:
            thread.join()
        return heard[0].result[-1]
    finally:
        _stop(workers)


def _start(job: dict[str, Any]) -> subprocess.Popen[str]:
    worker = subprocess.Popen(
        [sys.executable, "-m", "coterie.cli.worker"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,  # Ctrl-C is for the supervisor, which ends its workers itself
    )
    assert worker.stdin is not None
    worker.stdin.write(json.dumps(job) + "\n")
    worker.stdin.flush()  # and kept open: a worker ends when it closes, however the supervisor ended
    return worker


def _listen(worker: subprocess.Popen[str], heard: WorkerNews, tell: Tell | None) -> list[threading.Thread]:
    def follow(pipe: IO[str]) -> None:
        for line in pipe:
            kind, value = json.loads(line)
            if kind == "result":
                heard.result.append(value)
            else:
                heard.phase.append(value[0])
                if tell is not None:
                    tell(*value)

    threads = [
        threading.Thread(target=follow, args=(worker.stdout,), daemon=True),
        threading.Thread(target=heard.errors.extend, args=(worker.stderr,), daemon=True),
    ]
    for thread in threads:
        thread.start()
    return threads


def _settle(workers: list[subprocess.Popen[str]]) -> None:
    until = time.monotonic() + _SETTLE
    while time.monotonic() < until and any(worker.poll() is None for worker in workers):
        time.sleep(_POLL)


def _stop(workers: list[subprocess.Popen[str]]) -> None:
    """End all workers that still run."""
    for worker in workers:
        if worker.poll() is None:
            worker.terminate()
    until = time.monotonic() + _GRACE
    for worker in workers:
        try:
            worker.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            worker.kill()
            worker.wait()


def _cause(jobs: Sequence[dict[str, Any]], statuses: list[int], heard: list[WorkerNews]) -> Exception:
    """The first failure, as an error. In this order: a refusal, a killed process, an uncaught exception (which may only
    be JAX's reaction to losing another process), a process that lost another."""
    for kind in (InputError, BudgetError, OutputError):
        failed = [news for news, status in zip(heard, statuses) if status == kind.exit_status]
        if failed:
            return kind(_line(failed[0]))
    for job, status in zip(jobs, statuses):
        if status < 0 and -status not in (signal.SIGABRT, signal.SIGTERM):
            name = signal.Signals(-status).name
            return ProcessError(
                f"process {job['process']} of {job['processes']} was ended by {name}. {_remedy(jobs[0])}"
            )
    for job, status, news in zip(jobs, statuses, heard):
        if status == _OWN:
            return RuntimeError(f"process {job['process']}:\n{''.join(news.errors)}")
    for news, status in zip(heard, statuses):
        if status == ProcessError.exit_status:
            return ProcessError(
                f"{_line(news)} {_remedy(jobs[0])}" if news.phase[-1] != JOINING else _line(news)
            )
    return _aborted(jobs, heard)


def _aborted(jobs: Sequence[dict[str, Any]], heard: list[WorkerNews]) -> CoterieError:
    """The error where JAX itself ended a process: another one never joined, or was lost."""
    job = jobs[0]
    if any(news.phase[-1] == JOINING for news in heard):
        return ProcessError(
            f"coordinator={job['coordinator']!r}: not all {job['processes']} processes came within "
            f"{job['timeout']:g} s. Start each once, with the same --processes and its own --process-id."
        )
    return ProcessError(f"another process of the run is gone or does not answer. {_remedy(job)}")


def _line(heard: WorkerNews) -> str:
    """The worker's own error line."""
    lines = [line for line in heard.errors if line.startswith("error: ")]
    return (
        lines[-1].removeprefix("error: ").strip() if lines else "a worker failed and left no error message."
    )


def _remedy(job: dict[str, Any]) -> str:
    file = job["checkpoint"]
    if job["process"] == 0 and Path(file).exists():
        return f"Continue from {file} with --resume."
    if job["process"] == 0:
        return "It was too early for a checkpoint; start again."
    return "Continue at process 0 and here with --resume, if it has a checkpoint."
