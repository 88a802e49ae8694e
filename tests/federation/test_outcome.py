"""What a party is told at the end of its noise is what was really used."""

from dataclasses import replace

import dp_accounting as dp
import pytest
from parties import Trial

from coterie.accounting import certify
from coterie.federation import outcome
from coterie.federation import party as parties
from coterie.federation.node import Outcome
from coterie.reports.odds import one_in, suspicion

STATUS = {"step": 2, "of": 2, "note": "", "traffic": {}, "refusals": {}}


@pytest.fixture(scope="module")
def trial(tmp_path_factory):
    """The folders of a network that nobody starts."""
    folder = tmp_path_factory.mktemp("trial")
    return Trial(folder, (30, 30), protocol="dual_averaging", settings={"rounds": 2})


def ended(trial: Trial, injected: bool) -> Outcome:
    plan = trial.planned.program.plan
    return Outcome(
        party=parties.read(trial.place("owner-0")),
        collaboration=trial.planned,
        finished=True,
        model=None,
        selected=None,
        published=None,
        spent=certify(plan.event(0), delta=trial.planned.task.delta),
        charged=2,
        status=STATUS,
        records=None,
        injected=injected,
    )


def test_exact_noise_is_said_to_be_exact(trial):
    words = outcome.words(outcome.summary(ended(trial, injected=False)))
    assert "Noise by an exact sampler" in words
    assert "TEST NOISE" not in words


def test_injected_noise_is_not_praised(trial, tmp_path):
    """Neither in the closing words nor in the files."""
    found = ended(trial, injected=True)
    words = outcome.words(outcome.summary(found))
    assert "TEST NOISE from a seed that was given" in words
    assert "can take it off again" in words
    outcome.write(found, tmp_path / "result")
    for name in ("result.json", "report.html"):
        text = (tmp_path / "result" / name).read_text(encoding="utf-8")
        assert "TEST NOISE" in text
        assert "Noise by an exact sampler" not in text


def test_the_promise_is_of_this_run_and_of_all_so_far(trial):
    found = ended(trial, injected=False)
    twice = certify(dp.SelfComposedDpEvent(trial.planned.program.plan.event(0), 2), delta=1e-5)
    summary = outcome.summary(replace(found, spent=twice))
    assert "Promise: a suspicion of 1 in 10 about one record can at most become 1 in 4.3" in outcome.words(
        summary
    )
    last = summary["promise"][-1]
    became = one_in(suspicion(0.1, twice.epsilon))
    assert became != "1 in 4.3"
    assert last.startswith(
        "All runs so far: a suspicion of 1 in 10 about one record can at most become " + became
    )


def test_noise_that_somebody_knows_promises_nothing(trial):
    summary = outcome.summary(ended(trial, injected=True))
    assert "Promise: nothing is promised about any record" in outcome.words(summary)
    assert "at most" not in " ".join(summary["promise"])


def test_bounds_are_rounded_up(trial):
    found = outcome.summary(ended(trial, injected=False))
    words = outcome.words(found | {"certified_epsilon": 1805.404, "spent_epsilon": 0.70001, "note": ""})
    assert "certified 1,806 for this run" in words
    assert "0.7001 of 1 spent" in words
