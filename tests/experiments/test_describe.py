"""The statement's facts are the run's own: who is trusted, what the features rest on, what they are called."""

import pytest

from coterie.accounting.plans import certificates_of
from coterie.experiments import describe
from coterie.experiments.experiment import Experiment
from coterie.experiments.training import ready

SIMULATED = " That is for the protocol; this simulation holds all records in one process."
ITSELF = "nobody beside the owner itself: its own noise carries its guarantee."
GROUP = SIMULATED.replace("one process", "one group of processes that trust each other")
SERVER = (
    "whoever adds up the owners' messages, who sees more than the stated view, and at least 4 owners must add "
    "their noise."
)
CONSTANT = "independent of the data; ranges and categories are constants that were given."
FITTED = "fitted on rows that were declared public, and on constants; never on private rows."


def stated(**given) -> dict[str, str]:
    """The statement of a run that is ready to begin: nothing of it depends on training."""
    experiment = Experiment(data="census", owners=4, **given)
    made = ready(experiment, None, lambda what, done, of: None)
    certificates = certificates_of(made.program.plan, made.prepared.task.delta)
    plan, table = made.program.plan, made.prepared.table
    sentences = describe.guarantee(plan, certificates, experiment, table, experiment.engine)["statement"]
    return {item: words for item, _, words in (one.partition(": ") for one in sentences)}


SHORT = {
    "dual_averaging": {"rounds": 2},
    "weighted_erm": {"steps": 2},
    "central_erm": {"steps": 2},
    "deep_q": {},
}


@pytest.mark.parametrize(
    ("protocol", "given", "trust"),
    [
        ("dual_averaging", {}, ITSELF + SIMULATED),
        ("dual_averaging", {"engine": "spmd"}, ITSELF + GROUP),
        ("dual_averaging", {"calibration": "noiseless"}, "everybody who sees what was released." + SIMULATED),
        ("weighted_erm", {}, ITSELF + SIMULATED),
        ("central_erm", {}, SERVER + SIMULATED),
        ("deep_q", {}, ITSELF + SIMULATED),  # charged by two releases of its own as one, and nobody adds up
    ],
)
def test_who_is_trusted_follows_the_plan(protocol, given, trust):
    assert stated(protocol=protocol, settings=SHORT[protocol], **given)["Trust"] == trust


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, f"ball: {CONSTANT}"),
        ({"features": "scale,ball"}, f"scale,ball: {CONSTANT}"),
        ({"features": "pca:3,ball", "public_rows": "test"}, f"pca:3,ball: {FITTED}"),
    ],
    ids=["by default", "named", "on public rows"],
)
def test_features_are_named_and_said_to_rest_on_what_they_do(given, words):
    assert stated(settings={"rounds": 2}, **given)["Features"] == words
