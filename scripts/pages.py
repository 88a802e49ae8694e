"""Run what the pages show: every `console` block, in order, in a folder of the page's own, and compare what is printed.

    python scripts/pages.py [docs/start.md …]    run these pages, or all, and write what their commands print into them
    make docs                                    runs all pages and compares (docs/tests)

A command line begins with `$ `; what follows it up to the next one is its output. A block after `<!-- file: NAME -->`
is written to that file first. A page whose first line is `<!-- continues: PAGE -->` begins with the files that PAGE
leaves; `<!-- copy: PATH -->` takes one from the repository. Numbers may differ a little, as they do between
processors; times and hashes are left out.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir
from functools import cache
from pathlib import Path
from shutil import copy, copytree
from tempfile import TemporaryDirectory, mkdtemp

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(
    r"(?:<!-- file: (?P<file>\S+) -->\n+)?^```(?P<language>\w*)\n(?P<text>.*?)^```$", re.S | re.M
)
CONTINUES = re.compile(r"<!-- continues: (\S+) -->\n")
COPY = re.compile(r"<!-- copy: (\S+) -->")
NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?")
INSTALLED = (
    "installed"  # where a page's own `pip install` puts things: not into the environment that runs the pages
)
VARYING = re.compile(r"\(\d+\.\d s\)|\b[0-9a-f]{32,64}\b")  # times, and hashes of what rounding has touched


def pages() -> list[Path]:
    """All pages that show commands with their output."""
    return sorted(page for page in ROOT.glob("docs/**/*.md") if "```console\n" in page.read_text("utf-8"))


def played(page: Path, folder: Path) -> str:
    """The page as it should be: every command run in the folder, and what it printed below it."""
    text = page.read_text("utf-8")
    parts, end = [], 0
    for name in COPY.findall(text):
        copy(ROOT / name, folder)
    with chdir(folder):
        for block in BLOCK.finditer(text):
            parts.append(text[end : block.start()])
            end = block.end()
            if block["file"]:
                Path(block["file"]).parent.mkdir(parents=True, exist_ok=True)
                Path(block["file"]).write_text(block["text"], "utf-8")
            parts.append(
                f"```console\n{_run(block['text'])}```" if block["language"] == "console" else block[0]
            )
    return "".join([*parts, text[end:]])


@cache
def finished(page: Path) -> tuple[Path, str]:
    """The folder that the page's commands leave, and the page as it should be."""
    folder = Path(mkdtemp(dir=_workshop().name))
    before = CONTINUES.match(page.read_text("utf-8"))
    if before:
        copytree(finished(ROOT / before[1])[0], folder, dirs_exist_ok=True)
    return folder, played(page, folder)


@cache
def _workshop() -> TemporaryDirectory:
    return TemporaryDirectory(prefix="pages-")


def _run(block: str) -> str:
    return "".join(f"$ {command}\n{said(command)}" for command in commands(block))


def commands(block: str) -> Iterator[str]:
    """The commands of a console block, those of several lines in one piece."""
    lines = iter(block.splitlines())
    for line in lines:
        if line.startswith("$ "):
            while line.endswith("\\"):
                line += "\n" + next(lines)
            yield line[2:]


def said(command: str) -> str:
    """What the command prints, as a terminal of 80 columns shows it."""
    ours = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    path = os.pathsep.join([str(ROOT / "src"), str(Path(INSTALLED).resolve())])
    environment = os.environ | {"COLUMNS": "80", "PATH": ours, "PIP_TARGET": INSTALLED, "PYTHONPATH": path}
    first, pipe, rest = command.partition(" | ")
    alone = first.startswith("coterie ") and "&&" not in first and ">" not in first
    if alone and not Path(INSTALLED).exists():
        printed, status = _in_process(shlex.split(first.replace("\\\n", " "), comments=True)[1:])
        if pipe:
            printed = _shell(rest, environment, printed).stdout
    else:
        done = _shell(command.replace("coterie ", f"{shlex.quote(sys.executable)} -m coterie "), environment)
        printed, status = done.stdout or done.stderr, done.returncode
    if status not in (0, 2):
        raise SystemExit(f"{command}: exit status {status}\n{printed}")
    return printed if not printed or printed.endswith("\n") else printed + "\n"


def _shell(
    script: str, environment: dict[str, str], given: str | None = None
) -> subprocess.CompletedProcess[str]:
    # What `head` has enough of is cut off, and says so by its status: that is no failure.
    strict = [] if "| head" in script else ["-o", "pipefail"]
    words = ["bash", *strict, "-c", script]
    return subprocess.run(words, env=environment, input=given, capture_output=True, text=True, check=False)


def _in_process(words: list[str]) -> tuple[str, int]:
    """A command without the seconds that a new process takes to import what all of them import."""
    from typer.testing import CliRunner

    from coterie.cli import app

    done = CliRunner(env={"COLUMNS": "80"}).invoke(app, words, catch_exceptions=False)
    return done.stdout or done.stderr, done.exit_code


def difference(shown: str, played: str) -> str:
    """The first line where a page says something else than its commands; empty where it does not."""
    before, after = shown.splitlines(), played.splitlines()
    for number, (one, other) in enumerate(zip(before, after), 1):
        if not _alike(one, other):
            return f"line {number}: shown {one!r}, printed {other!r}"
    return "" if len(before) == len(after) else f"shown {len(before)} lines, printed {len(after)}"


def _alike(one: str, other: str) -> bool:
    one, other = VARYING.sub("", one), VARYING.sub("", other)
    numbers = [[float(n.replace(",", "")) for n in NUMBER.findall(line)] for line in (one, other)]
    words = [re.sub(r"\s+", " ", NUMBER.sub("#", line)) for line in (one, other)]
    near = all(abs(a - b) <= max(0.03, 0.03 * max(abs(a), abs(b))) for a, b in zip(*numbers))
    return words[0] == words[1] and near


def main() -> None:
    """Write the outputs of the pages that are named."""
    for page in [Path(name).resolve() for name in sys.argv[1:]] or pages():
        page.write_text(finished(page)[1], "utf-8")
        print(f"written: {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
