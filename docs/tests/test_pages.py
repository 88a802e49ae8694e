"""Every command of the pages is run, in order, and prints what the page shows. Part of `make docs` alone."""

import doctest
import re

import pytest

from scripts import reference, tutorial
from scripts.pages import BLOCK, CONTINUES, ROOT, commands, difference, finished, pages


def _beginning(page):
    """The page that others go on from, so that one process plays all of them."""
    before = CONTINUES.match(page.read_text("utf-8"))
    return _beginning(ROOT / before[1]) if before else str(page)


PAGES = [
    pytest.param(page, id=str(page.relative_to(ROOT)), marks=pytest.mark.xdist_group(_beginning(page)))
    for page in pages()
]


@pytest.mark.parametrize("page", PAGES)
def test_a_page_shows_what_its_commands_print(page):
    assert difference(page.read_text("utf-8"), finished(page)[1]) == "", "run: make pages"


def test_there_is_something_to_run():
    blocks = [block["text"] for page in pages() for block in BLOCK.finditer(page.read_text("utf-8"))]
    assert sum(len(list(commands(block))) for block in blocks) > 20


def test_a_number_that_is_off_and_a_line_too_many_are_seen():
    assert difference("accuracy 0.7387  (1.2 s)", "accuracy 0.7402  (9.9 s)") == ""
    assert difference("accuracy 0.7387", "accuracy 0.6402").startswith("line 1: ")
    assert difference("certified ε ≤ 1", "certified ε ≥ 1").startswith("line 1: ")
    assert difference("a\nb", "a").startswith("shown 2 lines")


def test_the_tutorial_and_its_notebook_run_and_say_what_they_show():
    cells = tutorial.cells()
    assert sum(cell.output is not None for cell in cells) >= 7
    for file, made in (("docs/tutorial.md", tutorial.page), ("examples/tutorial.ipynb", tutorial.notebook)):
        assert difference((ROOT / file).read_text("utf-8"), made(cells)) == "", "run: make pages"


@pytest.mark.parametrize("name", ["commands", "python"])
def test_the_reference_is_what_the_code_says(name):
    written = (ROOT / f"docs/reference/{name}.md").read_text("utf-8")
    assert written == getattr(reference, name)(), "run: make pages"


@pytest.mark.parametrize("page", ["docs/pitfalls.md"])
def test_examples_in_python_hold(page):
    found = doctest.testfile(str(ROOT / page), module_relative=False)
    assert (found.failed, found.attempted > 1) == (0, True)


def test_the_page_about_a_protocol_shows_the_example_as_it_is():
    example = (ROOT / "examples/gradient_tracking.py").read_text("utf-8")
    shown = BLOCK.finditer((ROOT / "docs/do/protocol.md").read_text("utf-8"))
    pieces = [block["text"] for block in shown if block["language"] == "python" and not block["file"]]
    assert len(pieces) >= 5
    assert [piece for piece in pieces if piece.rstrip("\n") not in example] == []


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
