"""The pages say what the code does: the commands they show exist, and their tables are computed."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

from coterie.cli import app
from coterie.reports.odds import in_hundred, one_in, suspicion

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
FENCE = re.compile(r"^ *```(?:console|sh)\n(.*?)^ *```", re.S | re.M)
INLINE = re.compile(r"`(coterie [a-z][^`\n]*)`")
REST = re.compile(r" #.*| [|>&].*")  # a comment, what its output goes to
HOLE = re.compile(r"…|[\[\]]")  # what is left out or may be


def shown() -> list[str]:
    """Every `coterie …` of the pages, in blocks or in a sentence, with its page."""
    lines = [
        f"{page.name}: {HOLE.sub(' ', REST.sub('', line.removeprefix('$ ')))}"
        for page in PAGES
        for text in [page.read_text("utf-8")]
        for block in [*FENCE.findall(text), *INLINE.findall(text)]
        for line in block.replace("\\\n", " ").splitlines()
        if line.removeprefix("$ ").startswith("coterie ")
    ]
    return sorted(set(lines))


@cache
def parser() -> Any:
    """The command line: made once, not for each of some hundred commands."""
    return typer.main.get_command(app)


def unknown(words: list[str]) -> list[str]:
    """The words that name no command and no option, if any."""
    command = parser()
    while getattr(command, "commands", None) and words and not words[0].startswith("-"):
        if words[0] not in command.commands:
            return words[:1]
        command, words = command.commands[words[0]], words[1:]
    names = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    options = [word.partition("=")[0] for word in words if re.match("--?[a-z]", word)]
    return sorted(set(options) - names - {"--help", "-h"})


def test_every_command_that_a_page_shows_can_be_typed():
    commands = shown()
    assert len(commands) > 200
    wrong = {one: unknown(shlex.split(one.partition(": coterie ")[2])) for one in commands}
    assert {one: words for one, words in wrong.items() if words} == {}


def test_a_command_that_does_not_exist_is_seen():
    assert unknown(["rnu"]) == ["rnu"]
    assert unknown(["plan", "join", "--sizes", "3"]) == ["--sizes"]
    assert unknown(["network", "new", "x", "--owners", "a,b"]) == []


@pytest.mark.parametrize("page", ["docs/understand/owners.md", "docs/do/officer.md"])
def test_what_a_suspicion_becomes_is_computed(page):
    rows = re.findall(r"^\| ([\d.]+) \| (\d[^|]*) \| (\d[^|]*) \|", (ROOT / page).read_text("utf-8"), re.M)
    assert len(rows) >= 4
    for epsilon, *cells in rows:
        for prior, cell in zip((0.1, 0.001), cells):
            after = suspicion(prior, float(epsilon))
            assert cell.strip() in (one_in(after), in_hundred(after))
