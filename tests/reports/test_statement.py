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
    noise="gaussian",
    clip_norm=0.5,
    releases=(10, 10),
    sampling="all its records",
    extra=False,
    own_noise=True,
    quorum=0,
    calibration="certified",
    features="ball",
    fitted_on_public_rows=False,
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
        ({"sizes": (100,), "releases": (10,)}, "Guarantee", "for the owner"),
        ({}, "Adjacency", "replaced by any other"),
        ({"relation": "add_or_remove_one"}, "Adjacency", "added or removed"),
        ({}, "Released", "at most 0.5 in 2-norm, with Gaussian noise; at most 10 releases an owner"),
        ({"noise": "laplace"}, "Released", "in 1-norm, with Laplace noise"),
        ({"noise": "none"}, "Released", "without any noise"),
        ({"noise": "none"}, "Noise", "none was added"),
        ({"releases": (1, 7)}, "Released", "at most 7 releases an owner"),
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
