"""Commands one after the other in one process, for a program that asks often: an array of words comes in on standard
input, and what `coterie` with these words prints goes out. So the page of `coterie ui` shows what the terminal shows.
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
    os.dup2(2, 1)  # what libraries print is no answer
    for line in sys.stdin:
        out.write(json.dumps(answer(json.loads(line))) + "\n")


def answer(words: list[str]) -> dict[str, Any]:
    """The command's exit status, what it printed, and the one line that says what was wrong."""
    from coterie.cli import app

    said, erred = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(erred):
        try:
            app(words)
            status = 0
        except SystemExit as end:
            status = end.code if isinstance(end.code, int) else 1
    errors = [line for line in erred.getvalue().splitlines() if line.startswith("error: ")]
    wrong = errors[-1].removeprefix("error: ") if errors else ""
    return {"status": status, "out": said.getvalue(), "error": wrong}


if __name__ == "__main__":
    main()
