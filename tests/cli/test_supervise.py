"""Which of several processes' ends is told: the one that the others ended for."""

from __future__ import annotations

import signal
from collections import deque

import pytest

from coterie.cli._supervise import WorkerNews, _cause
from coterie.errors import BudgetError, InputError, OutputError, ProcessError

KILLED, ABORTED, OWN = -signal.SIGKILL, -signal.SIGABRT, 1


def cause(*statuses: int) -> Exception:
    jobs = [
        {
            "process": at,
            "processes": len(statuses),
            "checkpoint": "/nowhere/kept",
            "coordinator": "here:1",
            "timeout": 5.0,
        }
        for at in range(len(statuses))
    ]
    heard = [
        WorkerNews(["training"], [], deque([f"error: what {at} said.\n"])) for at in range(len(statuses))
    ]
    return _cause(jobs, list(statuses), heard)


@pytest.mark.parametrize("statuses", [(OWN, KILLED), (ABORTED, KILLED), (ProcessError.exit_status, KILLED)])
def test_a_killed_process_is_told_whatever_the_others_made_of_losing_it(statuses):
    told = cause(*statuses)
    assert isinstance(told, ProcessError)
    assert str(told).startswith("process 1 of 2 was ended by SIGKILL.")


@pytest.mark.parametrize("kind", [InputError, BudgetError, OutputError])
def test_what_a_process_refused_is_told_in_its_own_words(kind):
    told = cause(ABORTED, kind.exit_status, OWN)
    assert type(told) is kind
    assert str(told) == "what 1 said."


def test_a_fault_is_told_where_nobody_was_killed():
    told = cause(ABORTED, OWN)
    assert isinstance(told, RuntimeError)
    assert "process 1" in str(told)
