"""Run what the pages show: every command and every line of Python, in order, in a folder of the page's own.

    python scripts/pages.py [docs/start.md …]    run these pages, or all, and write what their commands print into them
    make docs                                    runs all pages and compares (docs/tests)

A block `console` has lines `$ command`, and below each what it prints, which is compared: numbers may differ a little,
as they do between processors; times, hashes, ports and tokens are left out. A block `sh` has commands alone, one a
line, and `python` is Python, or a doctest where it has prompts. A command must succeed, unless its line says
`exit status N`. Only ELSEWHERE lists commands that are not run, and no other block may hold one (docs/tests).

What stands in a comment of HTML is not shown: a block in one prepares what a reader has already. Before a block,

    <!-- file: NAME -->       it is that file, and is written
    <!-- part of: PATH -->    it is a piece of that file of the repository
    <!-- here: SED -->        its commands run as `sed -E SED` makes them: shorter, on other ports, with holes filled in
    <!-- shows: SED -->       of what it prints the page shows what `sed -nE SED` leaves
    <!-- within: 0.2 -->      how far numbers may differ, where noise is drawn anew

A page whose first line is `<!-- continues: PAGE -->` begins with the files that PAGE leaves; `<!-- copy: PATH -->`
takes one from the repository. `<!-- picture: FILE PLACE -->`: the page shows this picture, which its commands drew.
"""

from __future__ import annotations

import doctest
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import chdir, redirect_stdout
from functools import cache
from pathlib import Path
from shutil import copy, copytree
from tempfile import TemporaryDirectory, mkdtemp

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(
    r"(?P<notes>(?:^<!-- (?:file|part of|here|shows|within): [^\n]+ -->\n+)*)"
    r"^```(?P<language>\w*)\n(?P<text>.*?)^```$",
    re.M | re.S,
)
NOTE = re.compile(r"^<!-- ([\w ]+): (.+) -->$", re.M)
CONTINUES = re.compile(r"<!-- continues: (\S+) -->\n")
COPY = re.compile(r"<!-- copy: (\S+) -->")
PICTURE = re.compile(r"<!-- picture: (\S+) (\S+) -->")
NUMBER = re.compile(r"(?:(?<=\s)[+-])?\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?")
INSTALLED = (
    "installed"  # where a page's own `pip install` puts things: not into the environment that runs the pages
)
# Times, days, hashes of what rounding has touched or of a file's date, ports and tokens.
VARYING = re.compile(
    r"\(\d+\.\d s\)|clock [+-]\d+\.\d s|\b\d{4}-\d\d-\d\d\b|\b[0-9a-f]{32,64}\b|-compare-[0-9a-f]{8}\b"
    r"|\b127\.0\.0\.1:\d+|token=\S+"
)
GENERATED = ("docs/reference/", "docs/tutorial.md")  # by scripts of their own; docs/tests compare them, too
RUNNABLE = ("console", "sh", "python")

# Commands that no test of the pages runs, by how they begin, and why.
ELSEWHERE = {
    "make ": "ci",  # that is where tests are run from; docs/tests ask make for the target
    "pip install 'coterie[": "unpublished",
    "coterie run --log mlflow": "server",
    "python -m papers.resnet_cifar": "gpu",
    "coterie reproduce": "data",  # COTERIE_DATA
    "apt install": "machine",
    "git clone": "network",
    "python3.11 -m venv /opt": "machine",
    "/opt/coterie/bin/": "machine",
    "useradd ": "systemd",
    "install -": "systemd",
    "cp -r NAME": "systemd",
    "cp deploy/": "systemd",
    "runuser -u coterie -- /opt/coterie/bin/coterie node": "systemd",
    "systemctl ": "systemd",
    "journalctl ": "systemd",
    "podman ": "container",
    "COTERIE_USER=": "container",
    "python scripts/sandbox.py": "bubblewrap",
    "python -c 'import threading, zenoh": "router",  # tests/federation/test_zenoh_router.py opens one
    "coterie node /var/lib/coterie/north": "disaster",  # tests/federation/test_disaster.py
    "coterie node south --data": "date",  # tests/federation/year.py
    "coterie node north --data": "date",
    "cd tests/federation": "minutes",  # tests/federation/test_chaos.py plays the drill's steps
    "PYTHONPATH=..:../../src python -m chaos": "minutes",
    "python traces.py": "minutes",
}


def documents() -> list[Path]:
    """Everything that people read, but what scripts have made."""
    found = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
    return [page for page in found if not str(page.relative_to(ROOT)).startswith(GENERATED)]


def pages() -> list[Path]:
    """All pages that show something to run."""
    return [page for page in documents() if any(one["language"] in RUNNABLE for one in blocks(page))]


def blocks(page: Path) -> list[re.Match[str]]:
    """The blocks of a page, shown or not."""
    return list(BLOCK.finditer(page.read_text("utf-8")))


def played(text: str, folder: Path) -> str:
    """A page's text as it should be: every block run in the folder, and what commands printed below them."""
    parts, end = [], 0
    names: dict[str, object] = {"__name__": "the page"}
    for name in COPY.findall(text):
        copy(ROOT / name, folder)
    with chdir(folder):
        for block in BLOCK.finditer(text):
            try:
                parts += text[end : block.start("text")], _done(block, names)
            except Exception as error:
                line = text.count("\n", 0, block.start("text"))
                raise RuntimeError(f"the block at line {line}: {error}") from error
            end = block.end("text")
    return "".join([*parts, text[end:]])


def _done(block: re.Match[str], names: dict[str, object]) -> str:
    """The block's text, as it should be, after everything in it was done."""
    text, notes = block["text"], dict(NOTE.findall(block["notes"]))
    if "file" in notes:
        Path(notes["file"]).parent.mkdir(parents=True, exist_ok=True)
        Path(notes["file"]).write_text(text, "utf-8")
    elif "part of" in notes:
        if text.strip("\n") not in (ROOT / notes["part of"]).read_text("utf-8"):
            raise ValueError(f"is not a part of {notes['part of']}")
    elif block["language"] == "python":
        _python(text, names)
    elif block["language"] == "sh":
        for command in commands(text):
            said(command, notes)
    elif block["language"] == "console":
        return "".join(f"$ {command}\n{said(command, notes)}" for command in prompted(text))
    return text


@cache
def finished(page: Path) -> tuple[Path, str]:
    """The folder that the page's commands leave, and the page as it should be."""
    folder = Path(mkdtemp(dir=_workshop().name))
    text = page.read_text("utf-8")
    before = CONTINUES.match(text)
    if before:
        copytree(finished(ROOT / before[1])[0], folder, dirs_exist_ok=True)
    try:
        return folder, played(text, folder)
    except RuntimeError as error:
        raise RuntimeError(f"{page.relative_to(ROOT)}, {error}") from error


@cache
def _workshop() -> TemporaryDirectory:
    return TemporaryDirectory(prefix="pages-")


def prompted(block: str) -> Iterator[str]:
    """The commands of a console block, those of several lines in one piece."""
    lines = iter(block.splitlines())
    for line in lines:
        if line.startswith("$ "):
            while line.endswith("\\"):
                line += "\n" + next(lines)
            yield line[2:]


def commands(block: str) -> Iterator[str]:
    """The commands of a block without output: every line but comments."""
    for line in block.replace("\\\n", "\0").splitlines():
        if line.strip() and not line.startswith("#"):
            yield line.replace("\0", "\\\n")


def elsewhere(command: str) -> str:
    """Why no test of the pages runs this command; empty where one does."""
    return next((why for begins, why in ELSEWHERE.items() if command.startswith(begins)), "")


def said(command: str, notes: dict[str, str]) -> str:
    """What the command prints, as a terminal of 80 columns shows it."""
    if elsewhere(command):
        return ""
    ours = _sed(["-E", notes["here"]], command) if "here" in notes else command
    printed, status = _run(ours)
    expected = re.findall(r"exit status (\d)", command) or ["0"]
    if str(status) not in expected:
        raise ValueError(f"{ours}: exit status {status}\n{printed}")
    printed = printed.replace(f"{Path.cwd()}/", "")
    if "shows" in notes:
        printed = _sed(["-nE", notes["shows"]], printed)
    return printed if not printed or printed.endswith("\n") else printed + "\n"


def _run(command: str) -> tuple[str, int]:
    path = os.pathsep.join([str(ROOT / "src"), str(Path(INSTALLED).resolve())])
    environment = os.environ | {
        "COLUMNS": "80",
        "PATH": f"{_programs()}{os.pathsep}{os.environ['PATH']}",
        "PIP_TARGET": INSTALLED,
        "PYTHONIOENCODING": "utf-8",  # as pages are written, whatever terminal this was called from
        "PYTHONPATH": path,
        "ROOT": str(ROOT),
    }
    first, pipe, rest = command.partition(" | ")
    # Nodes, and runs of several processes, leave connections behind for their own process to end with.
    alone = re.match(r"coterie (?!node |.*--processes)", first) and not re.search(
        r"[&>;$]", first.partition(" #")[0]
    )
    if not alone or Path(INSTALLED).exists():
        done = _shell(command, environment)
        return done.stdout or done.stderr, done.returncode
    printed, status = _in_process(shlex.split(first.replace("\\\n", " "), comments=True)[1:])
    return (_shell(rest, environment, printed).stdout if pipe else printed), status


@cache
def _programs() -> str:
    """A folder with the commands of this environment, `coterie` being that of this tree."""
    folder = Path(mkdtemp(dir=_workshop().name))
    (folder / "coterie").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m coterie "$@"\n')
    (folder / "coterie").chmod(0o755)
    return f"{folder}{os.pathsep}{Path(sys.executable).parent}"


def _shell(
    script: str, environment: dict[str, str], given: str | None = None
) -> subprocess.CompletedProcess[str]:
    # What `head` has enough of is cut off, and says so by its status: that is no failure.
    strict = [] if "| head" in script else ["-o", "pipefail"]
    words = ["bash", *strict, "-c", script]
    return subprocess.run(words, env=environment, input=given, capture_output=True, text=True, check=False)


def _sed(words: list[str], text: str) -> str:
    return subprocess.run(["sed", *words], input=text, capture_output=True, text=True, check=True).stdout


def _in_process(words: list[str]) -> tuple[str, int]:
    """A command without the seconds that a new process takes to import what all of them import."""
    from typer.testing import CliRunner

    from coterie.cli import app
    from coterie.federation import network

    network.PORT = 18_000 + os.getpid() * 16 % 14_000  # pages that are played at once do not meet
    done = CliRunner(env={"COLUMNS": "80"}).invoke(app, words, catch_exceptions=False)
    return done.stdout or done.stderr, done.exit_code


def _python(text: str, names: dict[str, object]) -> None:
    """Run a page's Python, whose blocks share their names."""
    if not text.startswith(">>> "):
        with redirect_stdout(io.StringIO()):
            exec(compile(text, "the page", "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(text, names, "the page", None, 0)
    found = io.StringIO()
    if doctest.DocTestRunner(verbose=False).run(test, out=found.write, clear_globs=False).failed:
        raise ValueError(found.getvalue())
    names.update(test.globs)


def difference(shown: str, played: str) -> str:
    """The first line where a page says something else than its commands; empty where it does not."""
    before, after = shown.splitlines(), played.splitlines()
    within = 0.03
    for number, (one, other) in enumerate(zip(before, after), 1):
        note = NOTE.match(one)
        within = float(note[2]) if note and note[1] == "within" else 0.03 if one == "```" else within
        if not _alike(one, other, within):
            return f"line {number}: shown {one!r}, printed {other!r}"
    return "" if len(before) == len(after) else f"shown {len(before)} lines, printed {len(after)}"


def _alike(one: str, other: str, within: float) -> bool:
    one, other = VARYING.sub("", one), VARYING.sub("", other)
    numbers = [[float(n.replace(",", "")) for n in NUMBER.findall(line)] for line in (one, other)]
    words = [re.sub(r"\s+", " ", NUMBER.sub("#", line)) for line in (one, other)]
    near = all(abs(a - b) <= within * max(1.0, abs(a), abs(b)) for a, b in zip(*numbers))
    return words[0] == words[1] and near


def main() -> None:
    """Write outputs and pictures of the pages that are named; a page only if it says something else than before."""
    for page in [Path(name).resolve() for name in sys.argv[1:]] or pages():
        folder, made = finished(page)
        for drawn, place in PICTURE.findall(made):
            copy(folder / drawn, ROOT / place)
        if difference(page.read_text("utf-8"), made):
            page.write_text(made, "utf-8")
            print(f"written: {page.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
