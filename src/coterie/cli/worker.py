"""One process of a run over several, as `_supervise` starts it: a job comes in on standard input, lines go out."""

from __future__ import annotations

import json
import os
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coterie.cli._folders import RunRequest
from coterie.cli._spread import in_this_process
from coterie.cli._supervise import JOINING
from coterie.errors import CoterieError


def main() -> None:
    """Do the job and end at once, as JAX would wait for processes that are gone."""
    say = _reporter()
    job = json.loads(sys.stdin.readline())
    threading.Thread(target=_end_with_supervisor, daemon=True).start()
    if job["cores"]:
        os.sched_setaffinity(0, job["cores"])
    status = 0
    try:
        say("result", _work(job, lambda *words: say("tell", words)))
    except CoterieError as error:
        print(f"error: {error}", file=sys.stderr)
        status = error.exit_status
    except Exception:  # a bug: the supervisor shows it whole
        traceback.print_exc()
        status = 1
    sys.stderr.flush()
    os._exit(status)


def _work(job: dict[str, Any], tell: Callable[[str, int, int], None]) -> str:
    from coterie.engines import processes
    from coterie.experiments import training
    from coterie.experiments.experiment import from_toml

    tell(JOINING, 0, 0)
    place = processes.Place(job["coordinator"], job["process"], job["processes"], job["timeout"])
    processes.join(place)
    experiment = from_toml(job["experiment"])
    processes.check_same(job["experiment"])
    file = Path(job["checkpoint"])
    data_dir, out = (None if job[name] is None else Path(job[name]) for name in ("data_dir", "out"))
    if place.process > 0:
        training.take_part(experiment, data_dir, tell, training.Keeping(file, job["resume"]))
        return _done(place.process, place.processes, job["json"])
    asked = RunRequest(experiment, data_dir, out, job["json"], tuple(job["log"]), job["log_oracles"])
    return in_this_process(asked, file, job["resume"], tell)


def _done(process: int, processes: int, as_json: bool) -> str:
    if as_json:
        return json.dumps({"process": process, "processes": processes})
    return f"process {process} of {processes} has done its part; the result is at process 0."


def _reporter() -> Callable[[str, Any], None]:
    """A function that sends lines to the supervisor; libraries' standard output is redirected to standard error."""
    out = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)

    def say(kind: str, value: Any) -> None:
        out.write(json.dumps([kind, value]) + "\n")

    return say


def _end_with_supervisor() -> None:
    """End this process when standard input ends, as it does when the supervisor ends or is killed."""
    sys.stdin.read()
    os._exit(1)


if __name__ == "__main__":
    main()
