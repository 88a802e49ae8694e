"""`coterie certify` as a user calls it: the table, other settings, and a run's certificates computed again."""

import json
import subprocess
import sys
from dataclasses import dataclass

import dp_accounting as dp
import pytest
from typer.testing import CliRunner

from coterie.accounting import certify
from coterie.accounting.persons import of_events
from coterie.cli import app
from coterie.experiments import recompute
from coterie.experiments.claims import PAPERS
from coterie.reports.promise import promise
from coterie.reports.statement import KEPT, Facts, statement

ROW = {"protocol", "setting", "claimed", "certified", "view", "accountant", "reason"}


def call(*arguments):
    return CliRunner().invoke(app, ["certify", *map(str, arguments)], catch_exceptions=False)


def rows(*arguments):
    found = call(*arguments, "--json")
    assert found.exit_code == 0, found.stderr
    assert found.stdout.count("\n") == 1
    return json.loads(found.stdout)["rows"]


def refused(*arguments):
    """The one line of an error."""
    found = call(*arguments)
    assert found.exit_code == 2
    assert found.stdout == ""
    assert found.stderr.startswith("error: ")
    assert found.stderr.count("\n") == 1
    return found.stderr


def test_json_of_the_whole_table():
    found = rows()
    assert all(row.keys() >= ROW and isinstance(row["reason"], str) and row["reason"] for row in found)
    assert {row["paper"] for row in found} == set(PAPERS)
    assert {row["certified"] for row in found if row["setting"].get("policy") == "adaptive"} == {"inf"}
    assert {row["claimed"] for row in found if row["protocol"] == "push_sum"} == {None}


def test_table_for_people_fits_100_columns_without_colour_in_a_file():
    found = call()
    assert found.exit_code == 0
    assert max(map(len, found.stdout.splitlines())) <= 100
    assert "\x1b" not in found.stdout
    for part in ("1,806", "11,158", "∞", "none stated", "replace_one", "why: ", "exact Gaussian", "PLD"):
        assert part in found.stdout


def test_colour_only_where_more_is_certified_than_claimed():
    from coterie.experiments.claims import table
    from coterie.experiments.claims.words import blocks

    spans = [line[span[0] : span[1]].strip() for line, span in blocks(table("wor_sgd"), 100) if span]
    assert spans == ["2.852", "1.372", "2.36", "1.139"]  # not 0.85 and 0.4135


def test_other_settings_by_paper_or_protocol():
    (by_paper,) = rows("--paper", "liu_2022", "--set", "epsilon=0.5", "--set", "records=100")
    (by_protocol,) = rows("--paper", "dual_averaging", "--set", "epsilon=0.5", "--set", "records=100")
    assert by_paper == by_protocol
    assert (by_paper["setting"]["epsilon"], by_paper["setting"]["records"], by_paper["claimed"]) == (
        0.5,
        100,
        0.5,
    )
    assert 0 < by_paper["certified"] < 0.5  # with so few records the published noise happens to be enough


def test_settings_pick_the_guarantees_that_know_them():
    assert {row["protocol"] for row in rows("--paper", "jin_2020", "--set", "classes=3")} == {"wor_sgd"}
    assert {row["protocol"] for row in rows("--paper", "jin_2020", "--set", "epsilon=0.5")} == {
        "wor_sgd",
        "deep_q",
    }


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--paper", "kang"], ["paper='kang'", "kang_2021", "weighted_erm"]),
        (["--paper", "kang_2021", "--set", "sise=2"], ["sise: unknown", "parties", "unevenness"]),
        (["--paper", "jin_2020", "--set", "classes=2", "--set", "least=0.1"], ["classes, least", "together"]),
        (["--paper", "liu_2022", "--set", "epsilon=big"], ["epsilon='big'", "number"]),
        (["--paper", "liu_2022", "--set", "epsilon=-1"], ["epsilon=-1", "> 0"]),
        (["--paper", "liu_2022", "--set", "delta=1.5"], ["delta=1.5"]),
        (["--paper", "liu_2022", "--set", "sampling=all"], ["sampling='all'", "poisson"]),
        (["--paper", "liu_2022", "--set", "epsilon"], ["KEY=VALUE"]),
        (["--paper", "farokhi_2020", "--set", "answers=2000"], ["answers=", "horizon"]),
        (["--paper", "kang_2021", "--set", "unevenness=0.5"], ["unevenness=0.5", ">= 1"]),
        (["--paper", "deep_q", "--set", "least=2"], ["least=2", "between 0 and 1"]),
        (["--set", "epsilon=1"], ["--paper"]),
        (["--from", "a.json", "--paper", "liu_2022"], ["--from", "--paper"]),
        (["--from", "nowhere.json"], ["nowhere.json", "cannot be read"]),
        (["--docs", "d", "--paper", "liu_2022"], ["--docs", "--paper"]),
    ],
)
def test_mistakes_are_one_line(arguments, words):
    line = refused(*arguments)
    assert all(word in line for word in words), line


def test_nothing_slow_is_loaded_before_a_row_is_asked_for():
    code = (
        "import sys; from coterie.cli import app; from coterie.experiments.claims import table; "
        "print(sorted({'jax', 'dp_accounting', 'scipy', 'matplotlib'} & set(sys.modules)))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


CERTIFIED = ("epsilon", "delta", "relation", "unit", "view", "accountant", "reason")


@dataclass
class Run:
    """What a run writes of its certificates."""

    noise: tuple[float, ...] = (30.0, 20.0, 30.0)

    def to_json(self):
        found = [
            certify(dp.SelfComposedDpEvent(dp.GaussianDpEvent(z), 10), delta=1e-5, size=100)
            for z in self.noise
        ]
        worst = max(found, key=lambda one: one.epsilon)
        events = [one.event for one in found]
        person = of_events(events, 2, 1e-5, worst.relation, worst.view, worst.unit)
        facts = Facts(
            **{name: getattr(worst, name) for name in CERTIFIED},
            sizes=(100,) * len(found),
            noise="with Gaussian noise",
            noisy=True,
            norm=2,
            clip_norm=1.0,
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
            person=person.to_json(),
        )
        return {
            "calibration": "certified",
            "engine": "simulate",
            "sizes": [100] * len(found),
            "metric": {"oracle": ["local_only", "central"]},
            "privacy": {
                "accountant": worst.accountant,
                "reason": "",
                "warnings": [],
                "facts": {name: getattr(facts, name) for name in KEPT},
                "statement": statement(facts),
                "promise": promise(facts),
                "relation": "replace_one",
                "unit": "record",
                "view": "public transcript",
                "delta": 1e-5,
                "certified_epsilon": {
                    "max": max(one.epsilon for one in found),
                    "per_owner": [one.epsilon for one in found],
                },
                "certificates": recompute.to_json(found),
            },
        }


@pytest.fixture
def result(tmp_path):
    def write(change=lambda run: None):
        run = Run().to_json()
        change(run["privacy"])
        path = tmp_path / "result.json"
        path.write_text(json.dumps(run))
        return path

    return write


def test_equal_certificates_are_written_once():
    written = Run().to_json()["privacy"]["certificates"]
    assert [one["owners"] for one in written] == [[0, 2], [1]]


def test_what_a_run_wrote_agrees(result):
    found = call("--from", result())
    assert found.exit_code == 0, found.stderr
    assert found.stdout.count("agrees: ") == 2
    assert "2 owners" in found.stdout
    again = json.loads(call("--from", result(), "--json").stdout)
    assert again["ok"]
    assert [one["owners"] for one in again["certificates"]] == [[0, 2], [1]]
    assert all(one["written"] == one["found"] for one in again["certificates"])


def _set(*path):
    *path, value = path

    def change(privacy):
        at = privacy
        for key in path[:-1]:
            at = at[key]
        at[path[-1]] = value

    return change


TAMPERED = {
    "epsilon": _set("certificates", 0, "epsilon", 0.5),
    "epsilon-a-little": _set("certificates", 0, "epsilon", 0.8175),
    "optimistic": _set("certificates", 1, "epsilon_optimistic", 0.0),
    "infinite": _set("certificates", 0, "epsilon", "inf"),
    "not-a-number": _set("certificates", 0, "epsilon", None),
    "delta": _set("certificates", 0, "delta", 1e-2),
    "noise": _set("certificates", 0, "event", "event", "noise_multiplier", 60.0),
    "count": _set("certificates", 0, "event", "count", 5),
    "relation": _set("certificates", 0, "relation", "add_or_remove_one"),
    "accountant": _set("certificates", 0, "accountant", "none"),
    "owners": _set("certificates", 0, "owners", [0]),
    "owners-twice": _set("certificates", 1, "owners", [0]),
    "owners-text": _set("certificates", 1, "owners", "all"),
    "max": _set("certified_epsilon", "max", 0.1),
    "per-owner": _set("certified_epsilon", "per_owner", 1, 0.1),
    "summary-delta": _set("delta", 1e-9),
    "summary-view": _set("view", "final model"),
    "delta-text": _set("certificates", 0, "delta", "small"),
    "size-text": _set("certificates", 0, "size", "many"),
    "event-unknown": _set("certificates", 0, "event", {"type": "MadeUpDpEvent"}),
    "event-tiny-noise": _set("certificates", 0, "event", "event", "noise_multiplier", 1e-300),
    "no-certificates": _set("certificates", []),
    "person": _set("facts", "person", "epsilon", 0.5),
    "person-count": _set("facts", "person", "event", "count", 5),
    "person-missing": _set("facts", "person", None),
}


@pytest.mark.parametrize("change", TAMPERED.values(), ids=TAMPERED)
def test_tampered_numbers_are_noticed(result, change):
    refused("--from", result(change))


def test_json_says_what_was_tampered_with(result):
    found = call("--from", result(TAMPERED["epsilon"]), "--json")
    assert found.exit_code == 2
    again = json.loads(found.stdout)
    assert not again["ok"]
    assert again["certificates"][0]["written"] == 0.5
    assert found.stderr.count("\n") == 1


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"privacy": 3}', '{"a": NaN}', '{"event": 3}'])
def test_other_files_are_refused(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text)
    refused("--from", path)
