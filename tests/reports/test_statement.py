"""The privacy statement says what is so, also where that is nothing good."""

from dataclasses import replace

import pytest

from coterie.reports.statement import Facts, statement

GOOD = Facts(
    epsilon=1.0,
    delta=1e-5,
    relation="replace_one",
    unit="record",
    view="public transcript",
    accountant="PLD",
    reason="",
    sizes=(100, 400),
    noise="with Gaussian noise",
    noisy=True,
    norm=2,
    clip_norm=0.5,
    releases=10,
    sampling="all its records",
    extra=False,
    own_noise=True,
    quorum=0,
    selection=0.0,
    evaluation=0.0,
    held_out=0.0,
    grouped_by="",
    calibration="certified",
    features="ball",
    fitted_on_public_rows=False,
    classes_declared=True,
    columns_declared=True,
    test_is_public=True,
    engine="simulate",
)


def item(facts: Facts, name: str) -> str:
    found = [words for key, _, words in (one.partition(": ") for one in statement(facts)) if key == name]
    assert len(found) == 1
    return found[0]


@pytest.mark.parametrize(
    ("change", "name", "words"),
    [
        ({}, "Guarantee", "for every owner, what was released is (ε, δ)-differentially private with ε ≤ 1"),
        ({"epsilon": float("inf"), "reason": "no noise"}, "Guarantee", "none. No finite ε"),
        ({"epsilon": float("inf"), "reason": "no noise"}, "Guarantee", "because no noise"),
        ({"epsilon": float("inf")}, "Trust", "everybody who sees"),
        ({"sizes": (100,)}, "Guarantee", "for the owner"),
        ({}, "Public without charge", "names of owners and columns, classes, ranges"),
        ({"classes_declared": False}, "Public without charge", "classes was read off the records"),
        ({"classes_declared": False}, "Public without charge", "one record could show in it"),
        ({}, "Adjacency", "replaced by any other"),
        ({"relation": "add_or_remove_one"}, "Adjacency", "added or removed"),
        ({}, "Public without charge", "each owner's number of records"),
        ({"relation": "add_or_remove_one"}, "δ against 1/n", "which is not public here"),
        ({}, "Released", "at most 0.5 in 2-norm, with Gaussian noise; at most 10 releases an owner"),
        ({"noise": "with Laplace noise", "norm": 1}, "Released", "in 1-norm, with Laplace noise"),
        ({"noise": "without any noise"}, "Released", "without any noise"),
        ({"noisy": False}, "Noise", "none was added"),
        ({"releases": 7}, "Released", "at most 7 releases an owner"),
        ({"extra": True}, "Released", "charged on top"),
        (
            {"view": "what the server publishes"},
            "Adversary's view",
            "what the server publishes. The adversary knows",
        ),
        (
            {},
            "δ against 1/n",
            "δ = 10⁻⁵ is below 1/n of every owner; the largest owner's 1/n is 250 times as large",
        ),
        ({"delta": 0.005}, "δ against 1/n", "not below 1/n for 1 of 2 owners"),
        ({"delta": 0.01}, "δ against 1/n", "not below 1/n for 2 of 2 owners"),
        ({}, "Noise", "pseudo-random and in floating point"),
        ({}, "Features", "independent of the data"),
        ({"fitted_on_public_rows": True}, "Features", "declared public"),
        ({}, "Test rows", "declared public"),
        ({"test_is_public": False}, "Test rows", "oracle"),
        ({}, "Tuning", "not included"),
        ({}, "Trust", "nobody beside the owner itself"),
        ({"own_noise": False, "quorum": 3}, "Trust", "whoever adds up the owners' messages"),
        ({"own_noise": False, "quorum": 3}, "Trust", "at least 3 owners must add their noise"),
    ],
)
def test_the_words_follow_the_facts(change, name, words):
    assert words in item(replace(GOOD, **change), name)


HERE = " That is for the protocol; this simulation holds all records in one process."


@pytest.mark.parametrize(
    ("change", "name", "words"),
    [
        ({}, "Trust", f"nobody beside the owner itself: its own noise carries its guarantee.{HERE}"),
        (
            {"engine": "federate"},
            "Trust",
            "nobody beside the owner itself: its own noise carries its guarantee.",
        ),
        (
            {"own_noise": False},
            "Trust",
            f"whoever adds up the owners' messages, who sees more than the stated view.{HERE}",
        ),
        (
            {"features": "scale,ball"},
            "Features",
            "scale,ball: independent of the data; ranges and categories are constants that were given.",
        ),
        (
            {"features": "pca:9", "fitted_on_public_rows": True},
            "Features",
            "pca:9: fitted on rows that were declared public, and on constants; never on private rows.",
        ),
    ],
)
def test_trust_and_features_are_said_in_full(change, name, words):
    assert item(replace(GOOD, **change), name) == words


def test_where_adding_a_record_makes_a_neighbour_nothing_is_said_of_sizes():
    """The number of records is a secret then, like any other: two owners' sizes give the same sentences."""
    one = statement(replace(GOOD, relation="add_or_remove_one", sizes=(100, 5000)))
    other = statement(replace(GOOD, relation="add_or_remove_one", sizes=(7, 31)))
    assert one == other
    assert "number of records" not in item(
        replace(GOOD, relation="add_or_remove_one"), "Public without charge"
    )
