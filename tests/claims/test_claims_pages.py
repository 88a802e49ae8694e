"""The pages are made by the tool, or every number in them is checked against it."""

import doctest
import re
from pathlib import Path

import pytest

from coterie.experiments.claims import PAPERS, table, words
from coterie.experiments.claims.words import page

DOCS = Path(__file__).parents[2] / "docs"
STORY = (DOCS / "what-the-papers-claim.md").read_text(encoding="utf-8")
PLAIN = [
    (DOCS / f"understand/{name}.md").read_text(encoding="utf-8") for name in ("why-claims-fail", "numbers")
]
LINK = re.compile(r'\[([^\]]*)\]\((?:\.\./)?claims\.md\s+"([^"]*)"\)')
# Digits that are names, not results: numbered statements, years, norms, and equations of an appendix.
NAME = re.compile(
    r"(Theorem|Lemma|Proposition|Algorithm|Assumption|Equation|Appendix) \(?\d+\)?|\(A\.\d\)|\b(19|20)\d\d\b|_20\d\d|"
    r"\b[12]-norm|\badad2p"
)


def test_claims_page_is_what_the_command_writes():
    assert (DOCS / "claims.md").read_text(encoding="utf-8") == page(table())


def test_pictures_of_the_pages_exist():
    for text in (STORY, (DOCS / "claims.md").read_text(encoding="utf-8")):
        pictures = re.findall(r"!\[[^\]]*\]\(([^)]*)\)", text)
        assert pictures
        assert all((DOCS / picture).read_bytes().startswith(b"\x89PNG") for picture in pictures)


def test_every_paper_has_its_section():
    assert [head.split(":")[0] for head in re.findall(r"^## (.*)$", STORY, re.M)] == list(PAPERS)


def asked(title: str) -> str:
    """What the tool says for a link's title: paper or protocol, settings, and `claimed` if not the certificate."""
    paper, *rest = title.split()
    claimed = "claimed" in rest
    given = {key: _plain(value) for key, _, value in (one.partition("=") for one in rest if one != "claimed")}
    values = {words.claimed(row) if claimed else words.certified(row) for row in table(paper, given)}
    (only,) = values  # the title must name one row, or rows that agree
    return only


def _plain(text: str):
    if text in ("true", "false"):
        return text == "true"
    try:
        return int(text) if text.isdigit() else float(text)
    except ValueError:
        return text


@pytest.mark.parametrize(
    ("shown", "title"),
    [(shown, " ".join(title.split())) for text in (STORY, *PLAIN) for shown, title in LINK.findall(text)],
)
def test_linked_number_is_the_tools(shown, title):
    assert shown == asked(title)


def test_no_other_number_stands_in_the_text():
    text = re.sub(r"```.*?```", "", STORY, flags=re.S)  # run below
    text = re.sub(r"!?\[[^\]]*\]\([^)]*\)", "", text)  # checked above
    text = re.sub(r"`[^`]*`", "", text)  # formulae and names of settings
    assert re.findall(r".{0,20}\d.{0,20}", NAME.sub("", text)) == []


def test_counterexamples_run():
    found = doctest.testfile(str(DOCS / "what-the-papers-claim.md"), module_relative=False)
    assert found.failed == 0
    assert found.attempted > 20


def test_the_picture_shows_infinity_running_off():
    from coterie.reports.claims import ClaimedRow, bars

    figure = bars([ClaimedRow("a", "x", 1.0, 2.0), ClaimedRow("b", "y", None, float("inf"))], "title")
    (axes,) = figure.axes
    right = axes.get_xlim()[1]
    ends = [bar.get_x() + bar.get_width() for bar in axes.patches]
    assert sorted(end > right for end in ends) == [False, False, True]
    assert any("∞" in text.get_text() for text in axes.texts)


README = [  # the rows of its table, in order
    ("dual_averaging", {"epsilon": 1.0}),
    ("dual_averaging", {"epsilon": 0.2}),
    ("wor_sgd", {"classes": 10, "strongly_convex": False}),
    ("wor_sgd", {"classes": 1, "strongly_convex": False}),
    ("async_learner", {"answers": 400}),
    ("push_sum", {"policy": "clipped", "sigma": 0.04, "records": 2500, "steps": 3500}),
]


def test_the_readme_says_what_the_tool_says():
    text = (DOCS.parent / "README.md").read_text(encoding="utf-8")
    lines = text.partition("| paper | claimed ε | certified ε | why |\n|---|---|---|---|\n")[2].splitlines()[
        : len(README)
    ]
    shown = [line.split("|")[3].strip().strip("*") for line in lines]
    assert shown == [words.certified(row) for protocol, given in README for row in table(protocol, given)]
