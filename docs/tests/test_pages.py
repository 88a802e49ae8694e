"""Every command of the pages is run, in order, and prints what the page shows. Part of `make docs` alone."""

import re
import subprocess

import pytest
import typer
from matplotlib import pyplot

from coterie.cli import app
from scripts import reference, tutorial
from scripts.pages import (
    CONTINUES,
    ELSEWHERE,
    PICTURE,
    ROOT,
    blocks,
    commands,
    difference,
    documents,
    elsewhere,
    finished,
    pages,
    played,
    prompted,
)

# What a line of a terminal begins with; in blocks of other languages nobody would run it.
COMMAND = re.compile(
    r"(\$ |(/\S*/)?(coterie|make|pip|python[\d.]*|pytest|git|cd|cp|source|npm|apt(-get)?|docker|podman|systemctl)\s)"
)
FENCE = re.compile(r"^ *```(\w*)\n(.*?)^ *```$", re.M | re.S)  # also those in lists


def _beginning(page):
    """The page that others go on from, so that one process plays all of them."""
    before = CONTINUES.match(page.read_text("utf-8"))
    return _beginning(ROOT / before[1]) if before else str(page)


PAGES = [
    pytest.param(page, id=str(page.relative_to(ROOT)), marks=pytest.mark.xdist_group(_beginning(page)))
    for page in pages()
]


def shown():
    """Every command that a block of a page shows."""
    return [
        command
        for page in pages()
        for block in blocks(page)
        for language, found in (("console", prompted), ("sh", commands))
        if block["language"] == language
        for command in found(block["text"])
    ]


def strays(text):
    """Commands in blocks whose language nobody runs."""
    return [
        line
        for language, block in FENCE.findall(text)
        if language not in ("console", "sh")
        for line in block.splitlines()
        if COMMAND.match(line.strip())
    ]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_its_commands_print(page):
    folder, made = finished(page)
    assert difference(page.read_text("utf-8"), made) == "", "run: make pages"
    for drawn, place in PICTURE.findall(made):
        assert pyplot.imread(folder / drawn).shape == pyplot.imread(ROOT / place).shape, "run: make pages"


def test_there_is_something_to_run():
    assert len([one for one in shown() if not elsewhere(one)]) > 130


def test_no_command_stands_where_nobody_runs_it():
    found = {str(page.relative_to(ROOT)): strays(page.read_text("utf-8")) for page in documents()}
    assert {page: lines for page, lines in found.items() if lines} == {}
    assert strays("```\ncoterie run\n```\n") == ["coterie run"]
    assert strays("* so:\n\n  ```text\n  $ ls\n  ```\n") == ["  $ ls"]
    assert strays("```sh\ncoterie run\n```\n") == []


def test_what_is_not_run_is_shown_somewhere():
    assert [one for one in ELSEWHERE if not any(command.startswith(one) for command in shown())] == []
    assert all(re.fullmatch(r"[a-z]+", why) for why in ELSEWHERE.values())


def test_make_knows_every_target_that_a_page_names():
    targets = {command.split()[1] for command in shown() if command.startswith("make ")}
    assert len(targets) > 8
    done = subprocess.run(
        ["make", "--dry-run", *sorted(targets), "COTERIE_DATA=."], cwd=ROOT, capture_output=True
    )
    assert done.returncode == 0, done.stderr


def _names(command, before=()):
    """Every command of the command line, by its words."""
    below = getattr(command, "commands", None)
    if not below:
        return [" ".join(before)]
    return [name for word in below for name in _names(below[word], (*before, word))]


def test_a_page_has_every_command_there_is():
    run = " ".join(shown())
    known = _names(typer.main.get_command(app), ("coterie",))
    assert len(known) > 30
    assert [name for name in known if f"{name} " not in f"{run} "] == []


def test_a_page_that_is_wrong_is_seen(tmp_path):
    def play(text):
        return played(text, tmp_path)

    assert play("```console\n$ echo 1\n2\n```\n") == "```console\n$ echo 1\n1\n```\n"
    play("<!-- file: x.py -->\n```python\nassert 1 < 2\n```\n```sh\npython x.py  # it is there\n```\n")
    changed = "<!-- here: s/1/2/ -->\n<!-- shows: s/2/3/p -->\n```console\n$ echo 1\n```\n"
    assert play(changed).endswith("$ echo 1\n3\n```\n")
    play("```sh\nfalse  # exit status 1\n```\n")
    for wrong in ("```sh\nfalse\n```\n", "```python\n1 / 0\n```\n", "```python\n>>> 1 + 1\n3\n```\n"):
        with pytest.raises(RuntimeError, match="block at line 1: "):
            play(wrong)
    with pytest.raises(RuntimeError, match="not a part of"):
        play("<!-- part of: README.md -->\n```python\nnever = 'written there'\n```\n")


def test_a_number_that_is_off_and_a_line_too_many_are_seen():
    assert difference("accuracy 0.7387  (1.2 s)", "accuracy 0.7402  (9.9 s)") == ""
    assert difference("accuracy 0.7387", "accuracy 0.6402").startswith("line 1: ")
    assert difference("certified ε ≤ 1", "certified ε ≥ 1").startswith("line 1: ")
    assert difference("a\nb", "a").startswith("shown 2 lines")
    free = "<!-- within: 0.2 -->\n```console\n0.7\n```\n0.7"
    assert difference(free, free.replace("0.7", "0.8", 1)) == ""
    assert difference(free, free.replace("\n0.7", "\n0.8")).startswith("line 5: ")


def test_the_tutorial_and_its_notebook_run_and_say_what_they_show():
    cells = tutorial.cells()
    assert sum(cell.output is not None for cell in cells) >= 7
    for file, made in (("docs/tutorial.md", tutorial.page), ("examples/tutorial.ipynb", tutorial.notebook)):
        assert difference((ROOT / file).read_text("utf-8"), made(cells)) == "", "run: make pages"


@pytest.mark.parametrize("name", ["commands", "python"])
def test_the_reference_is_what_the_code_says(name):
    written = (ROOT / f"docs/reference/{name}.md").read_text("utf-8")
    assert written == getattr(reference, name)(), "run: make pages"


def test_every_page_is_built_and_none_fetches_anything_from_elsewhere():
    site = ROOT / "build/site"
    built = sorted(site.glob("**/*.html"))
    assert len(built) > 40
    fetched = re.compile(r"<(?:script|link|img|iframe)\b[^>]*(?:src|href)=\"(?:https?:)?//[^\"]*\"")
    assert [
        (page.name, fetched.findall(page.read_text("utf-8")))
        for page in built
        if fetched.search(page.read_text("utf-8"))
    ] == []
