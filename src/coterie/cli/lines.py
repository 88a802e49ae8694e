"""Runs commands one after the other in one process, for a program that asks often: an array of words comes in on
standard input, and the output of `coterie` with these words goes out. So `coterie ui` shows what the terminal shows.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
from typing import Any


def main() -> None:
    """Answer until standard input ends."""
    out = os.fdopen(os.dup(1), "w", buffering=1, encoding="utf-8")
    os.dup2(2, 1)  # so that libraries' output is not taken for an answer
    for line in sys.stdin:
        out.write(json.dumps(answer(json.loads(line))) + "\n")


def answer(words: list[str]) -> dict[str, Any]:
    """The command's exit status, its output, and its error line."""
    from coterie.cli import app

    printed, erred = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(erred):
        try:
            app(words)
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
    errors = [line for line in erred.getvalue().splitlines() if line.startswith("error: ")]
    wrong = errors[-1].removeprefix("error: ") if errors else ""
    return {"status": status, "out": printed.getvalue(), "error": wrong}


if __name__ == "__main__":
    main()
