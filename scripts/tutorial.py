"""Run examples/tutorial.py cell by cell: docs/tutorial.md is the page, examples/tutorial.ipynb the notebook.

    python scripts/tutorial.py        write both

A cell begins with `# %%`. What a cell prints, and its last expression, is its output, as in a notebook.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import re
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "examples/tutorial.py"


class Cell(NamedTuple):
    """A piece of the tutorial; `output` is None for prose."""

    text: str
    output: str | None


def cells() -> list[Cell]:
    """All pieces, run in order in one namespace and an empty folder."""
    pieces = re.split(r"^# %%(?: \[(markdown)\])?\n", SOURCE.read_text("utf-8"), flags=re.M)[1:]
    names: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), warnings.catch_warnings():
        warnings.simplefilter("error")
        return [
            Cell(_prose(text), None) if kind else Cell(text.strip(), _run(text, names))
            for kind, text in zip(pieces[::2], pieces[1::2])
        ]


def _prose(text: str) -> str:
    return "\n".join(line.removeprefix("#").removeprefix(" ") for line in text.strip().splitlines())


def _run(text: str, names: dict[str, Any]) -> str:
    """What the cell prints, and its last expression's value."""
    body = ast.parse(text).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(io.StringIO()):
        exec(compile(ast.Module(body, []), "tutorial", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "tutorial", "eval"), names) if last else None
        if value is not None:
            print(repr(value))
    return printed.getvalue()


def page(found: list[Cell]) -> str:
    """As Markdown."""
    parts = []
    for cell in found:
        parts.append(cell.text if cell.output is None else f"```python\n{cell.text}\n```")
        if cell.output:
            parts.append(f"```text\n{cell.output}```")
    return "\n\n".join(parts) + "\n"


def notebook(found: list[Cell]) -> str:
    """As Jupyter has it."""
    return json.dumps(
        {
            "cells": [_cell(at, cell) for at, cell in enumerate(found)],
            "metadata": {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}},
            "nbformat": 4,
            "nbformat_minor": 5,
        },
        indent=1,
        ensure_ascii=False,
    ) + "\n"  # fmt: skip


def _cell(at: int, cell: Cell) -> dict[str, Any]:
    lines = cell.text.splitlines(keepends=True)
    if cell.output is None:
        site = [
            re.sub(r"\]\((?!\.\./)", "](../docs/", line).replace("](../examples/", "](") for line in lines
        ]
        return {"cell_type": "markdown", "id": f"cell-{at}", "metadata": {}, "source": site}
    output = {"name": "stdout", "output_type": "stream", "text": cell.output.splitlines(keepends=True)}
    outputs = [output] if cell.output else []
    kind = {"cell_type": "code", "execution_count": None, "outputs": outputs}
    return kind | {"id": f"cell-{at}", "metadata": {}, "source": lines}


def main() -> None:
    """Write both."""
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    found = cells()
    (ROOT / "docs/tutorial.md").write_text(page(found), "utf-8")
    SOURCE.with_suffix(".ipynb").write_text(notebook(found), "utf-8")


if __name__ == "__main__":
    main()
