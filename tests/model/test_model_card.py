"""The card of a model, from its file alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from markdown_it import MarkdownIt
from model_world import PRIVACY, TRAINING, coterie, made

from coterie.model.words import card, shown


def test_the_card_has_what_a_reader_needs(tmp_path):
    made().model.save(tmp_path / "model.safetensors")
    done = coterie("show", tmp_path, "--card", tmp_path / "CARD.md")
    assert (done.status, done.stdout) == (0, f"written: {tmp_path / 'CARD.md'}\n")
    text = (tmp_path / "CARD.md").read_text()
    for words in (
        "# Model card: readmitted",
        "| age | a number from 0 to 120 years |",
        "| stay | a number from 0 to 60 days |",
        "'intensive care', 'été'",
        "Trained by 2 owners with 5,300 records of 'visits'",
        "north (300), south (5,000)",
        "| certified | ε ≤ 1.75 exact Gaussian |",
        "| budget | ε = 0.5 to 2 |",
        "* Guarantee: a sentence of the statement.",
        "* In short: a suspicion of 1 in 10 can at most become 1 in 2.5.\n* What is done: sums leave.",
        "No score is given",
        "coterie predict model.safetensors ROWS.csv",
        "## Largest weights",
    ):
        assert words in text


def test_show_has_the_promise_in_a_sentence():
    assert "\npromise: a suspicion of 1 in 10 can at most become 1 in 2.5.\n" in shown(made().model, "d")


def test_a_score_is_shown_only_where_the_file_has_one():
    model = made().model
    scored = replace(model.description, metrics={"name": "accuracy", "value": 0.8125, "rows": 64})
    assert "accuracy 0.8125 on 64 test rows that are public." in card(replace(model, description=scored), "d")
    assert "accuracy" not in card(model, "d")
    both = scored.metrics | {"all": {"auc": {"joint": 0.875, "constant": 0.5}}}
    told = "All metrics there: AUC 0.875 (a constant: 0.5)."
    assert told in card(replace(model, description=replace(scored, metrics=both)), "d")


def test_private_sizes_are_not_spoken_of():
    model = made().model
    secret = replace(model.description, training=TRAINING | {"sizes": None})
    text = card(replace(model, description=secret), "d")
    assert "records of" not in text
    assert "5,300" not in text
    assert "owners: north, south" in text


def test_an_infinite_cost_is_told_with_its_reason():
    model = made().model
    lost = PRIVACY | {
        "certified_epsilon": {"max": "inf", "per_owner": ["inf", "inf"]},
        "reason": "nothing was noised",
    }
    said = replace(model.description, privacy=lost)
    for text in (card(replace(model, description=said), "d"), shown(replace(model, description=said), "d")):
        assert "ε = ∞" in text
        assert "nothing was noised" in text


@pytest.mark.parametrize(
    ("bound", "words"), [(1.00004, "1.001"), (1.0, "1"), (1234.2, "1,235"), (0.5, "0.5")]
)
def test_a_bound_is_rounded_to_the_safe_side(bound, words):
    model = made().model
    cost = PRIVACY | {"certified_epsilon": {"max": bound, "per_owner": [bound, bound]}}
    assert f"ε ≤ {words} " in card(replace(model, description=replace(model.description, privacy=cost)), "d")


@pytest.mark.parametrize("steps", ["fourier:6", "pca:3"])
def test_weights_that_belong_to_no_column_say_so(steps):
    assert "No weight belongs to a single column" in shown(made(steps).model, "d")


def test_weights_of_a_basis_are_named_by_their_place():
    assert "age near " in card(made("piecewise:2").model, "d")


def test_names_of_others_steer_neither_page_nor_terminal():
    """A file may come from anybody: its texts are shown, not obeyed."""
    hostile = "<script>alert(1)</script> | \x1b[2J # [x](http://evil) `a`\n\n# Title"
    model = made().model
    said = replace(model.description, target=hostile, training=TRAINING | {"owners": [hostile, "b"]})
    model = replace(model, description=said)
    page = MarkdownIt("commonmark").enable("table").render(card(model, "d"))
    assert "<script>" not in page
    assert "<a " not in page
    assert page.count("<h1>") == 1
    assert "\x1b" not in card(model, "d") + shown(model, "d")
