"""The page about a run: well formed, self-contained, harmless, readable, and it says what the files say."""

import json
import math
import re
from html.parser import HTMLParser

import numpy as np
import pytest

from coterie.errors import InputError
from coterie.experiments.output import report
from coterie.reports.charts import curve
from coterie.reports.reading import read
from coterie.reports.style import DARK, LIGHT
from coterie.ui.shown import details, points

VOID = {"meta", "br", "line", "circle", "path", "rect"}
SECTIONS = [
    "Result over rounds",
    "All metrics",
    "Who gains by joining",
    "The promise in plain words",
    "Claimed, certified, audited",
    "Privacy statement",
    "Each owner's budget",
    "Who talks to whom",
    "Who owns what",
    "Settings",
    "Provenance",
]
PROMISE = ["In short: a suspicion of 1 in 10 can at most become 1 in 4.3.", "The exception: none (δ = 0)."]
STATEMENT = ["Guarantee: for every owner, ε ≤ 1.", "Accountant: exact; `coterie certify` computes it again."]


class Page(HTMLParser):
    """Checks that every element is closed where it should be, and keeps what was found."""

    def __init__(self, content: bytes) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.within: dict[str, list[str]] = {}
        self.feed(content.decode())
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
            self.within.setdefault(tag, []).append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)
            for tag in set(self.open):
                self.within[tag][-1] += data

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    def classed(self, kind: str) -> int:
        return sum(kind in (attributes.get("class") or "").split() for _, attributes in self.tags)


def result(owners=4, *, names=None, hub=None, models=None, **privacy) -> dict[str, bytes]:
    """The files of a run, as `coterie run` writes them."""
    names = names or [f"house {at}" for at in range(owners)]
    certified = privacy.pop("certified", [1.0] * owners)
    rows = [[10 + at % 3, 20] for at in range(owners)]
    found = {
        "protocol": "dual_averaging",
        "engine": "simulate",
        "calibration": "certified",
        "data": "folder/visits.csv",
        "owners": owners,
        "owner_names": names,
        "rounds": 30,
        "gossip_steps": 2,
        "messages": 1234,
        "seconds": 1.5,
        "step": "visit" if hub == "shared model" else "round",
        "sizes": [sum(row) for row in rows],
        "network": {
            "topology": None if hub else "ring",
            "hub": hub,
            "number_of_links": 0 if hub else owners,
            "links": [] if hub or owners == 1 else [[at, (at + 1) % owners] for at in range(owners)],
        },
        "partition": {"how": "column", "classes": ["no", "yes"], "counts": rows, "oracle": ["counts"]},
        "over_epsilon": None,
        "benefit": {"joint": [0.8] * owners, "own": [0.7] * owners, "oracle": ["own"]},
        "metric": {
            "name": "accuracy",
            "joint": 0.8,
            "local_only": 0.7,
            "central": 0.9,
            "constant": 0.6,
            "constant_says": "always saying 'no'",
            "beats_constant": True,
            "verdict": "",
            "why": "",
            "all": {"accuracy": {"joint": 0.8, "constant": 0.6}, "auc": {"joint": 0.85, "constant": 0.5}},
            "confusion": [[50, 10], [10, 29]],
            "unit": "",
            "rows": 99,
            "oracle": ["local_only", "central"],
        },
        "privacy": {
            "relation": "replace_one",
            "unit": "record",
            "view": "public transcript",
            "delta": 1e-5,
            "budget_epsilon": 1.0,
            "claimed_epsilon": 1.575,
            "claim": {"epsilon": 1.575, "delta": 1e-5, "source": "A paper, Theorem 1", "note": ""},
            "certified_epsilon": {
                "max": "inf" if "inf" in certified else max(certified),
                "per_owner": certified,
            },
            "audited_epsilon": None,
            "owners_per_person": 1,
            "person_epsilon": 1.4598,
            "accountant": "exact Gaussian",
            "reason": "",
            "warnings": [],
            "statement": STATEMENT,
            "promise": PROMISE,
        }
        | privacy,
        "provenance": {
            "versions": {"coterie": "0.1.0", "jax": "0.10.2"},
            "platform": "Linux x86_64, cpu",
            "seed": 7,
            "data_sha256": None,
        },
    }
    models = models or owners
    lines = [",".join(["step", "accuracy", "disagreement", *(f"m{at}" for at in range(models))])]
    lines += [",".join([str(10 * at), "0.8", "0.1", *["0.8"] * models]) for at in (1, 2, 3)]
    toml = 'protocol = "dual_averaging"\ndata = "visits.csv"\nepsilon = [1.0]\n[settings]\nrounds = 30\n'
    return {
        "result.json": json.dumps(found).encode(),
        "trace.csv": "\n".join(lines).encode(),
        "experiment.toml": toml.encode(),
    }


def changed(files, path, value):
    found = json.loads(files["result.json"])
    place = found
    for key in path.split(".")[:-1]:
        place = place[key]
    place[path.split(".")[-1]] = value
    return files | {"result.json": json.dumps(found).encode()}


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(report(result()))


def test_every_section_is_there(page):
    assert page.within["h2"] == SECTIONS
    assert page.within["title"][0] == "coterie: visits, dual_averaging"


def test_the_result_in_a_sentence(page):
    lead = " ".join(page.within["p"][0].split())
    assert lead == (
        "Together, 4 owners with 123 records reach an accuracy of 0.8; a constant (always saying 'no') has 0.6. "
        "Alone, at the same budget, they reach 0.7 oracle; with all records and no privacy, 0.9 oracle. "
        "What one record can change is certified at ε ≤ 1 (δ = 10⁻⁵)."
    )
    promised = " ".join(page.within["p"][1].split())
    assert promised == "The promise: A suspicion of 1 in 10 can at most become 1 in 4.3."
    assert "✓ 4 of 4 within the budget" in page.text


def test_all_metrics_stand_beside_the_constant(page):
    assert page.within["th"][:6] == [
        "metric",
        "joint model",
        "constant",
        "rows of class",
        "said to be no",
        "said to be yes",
    ]
    assert page.within["td"][:6] == ["Accuracy", "0.8", "0.6", "AUC", "0.85", "0.5"]
    assert page.within["td"][6:12] == ["no", "50", "10", "yes", "10", "29"]
    assert "a constant (always saying 'no'): 0.6" in page.text
    assert page.classed("constant") == 2  # a line of the picture, and one of its key


RARE = {"joint": 0.9689, "constant": 0.9689, "local_only": 0.9601, "central": 0.9702}


def test_what_does_not_beat_a_constant_is_called_so_first():
    files = result()
    for key, value in RARE.items():
        files = changed(files, f"metric.{key}", value)
    words = (
        "No better than a constant: always saying 'no' gives an accuracy of 0.9689, the joint model 0.9689."
    )
    page = Page(report(files))
    assert page.within["p"][0].startswith(words)
    ours = Page(
        report(changed(files, "metric.oracle", ["joint", "local_only", "central", "constant", "all"]))
    )
    assert ours.within["p"][0].startswith(f"{words} oracle ")
    better = Page(report(changed(files, "metric.joint", 0.9691)))
    assert "than a constant" not in better.text
    worse = Page(report(changed(changed(files, "metric.name", "mse"), "metric.joint", 0.97)))
    assert worse.within["p"][0].startswith(
        "Worse than a constant: always saying 'no' gives a mean squared error of"
    )
    diverged = Page(report(changed(files, "metric.joint", "nan")))
    assert diverged.within["p"][0].startswith("Worse than a constant: the model diverged")


def test_a_metric_that_nobody_knows_is_named():
    for path, value in (("metric.name", "acuracy"), ("metric.all", {"acuracy": {"joint": 1, "constant": 1}})):
        with pytest.raises(InputError, match="Did you mean 'accuracy'"):
            report(changed(result(), path, value))
    with pytest.raises(InputError, match=r"metric\.confusion does not fit"):
        report(changed(result(), "metric.confusion", [[1, 2]]))


def test_the_table_has_three_columns(page):
    heads, cells = page.within["th"], page.within["td"]
    first = heads.index("claimed")  # after those about metrics and gains
    assert heads[first : first + 3] == ["claimed", "certified", "audited"]
    first = cells.index("ε = 1.575")
    assert cells[first - 1 : first + 3] == ["", "ε = 1.575", "ε ≤ 1", "not measured"]
    assert cells[-3:] == ["A paper, Theorem 1", "exact Gaussian", "—"]


def test_nothing_is_fetched_and_nothing_runs(page):
    tags = {tag for tag, _ in page.tags}
    assert not tags & {"script", "link", "img", "iframe", "object", "embed", "base", "form", "audio", "video"}
    assert not [key for _, attributes in page.tags for key in attributes if key.startswith("on")]
    assert not [
        key for _, attributes in page.tags for key in attributes if key in ("src", "href", "xlink:href")
    ]
    content = report(result()).decode()
    assert not re.search(r"https?://|@import|url\(", content)
    policy = next(one["content"] for one in page.of("meta") if one.get("http-equiv"))
    assert policy is not None
    assert policy.startswith("default-src 'none';")
    assert "script-src" not in policy


def test_oracle_values_are_marked_wherever_they_stand(page):
    # twice in the sentence, once explained, twice in the key, three times with who gains, once in the classes, and by
    # the checksum of result.json, which holds them
    assert page.classed("oracle") == 10
    ours = Page(report(changed(result(), "metric.oracle", ["joint", "local_only", "central"])))
    assert ours.classed("oracle") == 13  # and by the checksum of trace.csv
    assert "held-out rows of the owners" in ours.text
    unknown = Page(report(changed(result(), "partition.counts", None)))
    assert unknown.classed("oracle") == 9


def test_numbers_of_records_are_marked_where_they_are_private(page):
    assert "Height: the owner's records (public)" in page.text
    ours = Page(report(changed(result(), "privacy.relation", "add_or_remove_one")))
    # in the sentence, the table of who gains, the claim, a note on it, the topology and, twice, the partition
    assert ours.classed("oracle") == page.classed("oracle") + 7
    assert "(public)" not in ours.text


@pytest.mark.parametrize(("relation", "private"), [("add_or_remove_one", True), ("replace_one", False)])
def test_no_picture_of_models_on_public_rows_tells_private_numbers_of_records(relation, private, tmp_path):
    """Of two neighbours one has a record more: with the same models, all that is drawn of them is the same."""
    files = changed(result(2), "privacy.relation", relation)
    files["trace.csv"] = b"step,accuracy,disagreement,a,b\n10,0.7,0.1,0.6,0.8\n30,0.8,0.1,0.7,0.9\n"
    one, other = (read(changed(files, "sizes", sizes)) for sizes in ([30, 31], [31, 31]))
    assert (curve(one) == curve(other)) == private
    assert (points(one) == points(other)) == private
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    shown = details(tmp_path)
    assert ("counted" in shown["oracle"]) == private
    assert all(("(oracle)" in owner["holds"]) == private for owner in shown["network"]["owners"])


HOSTILE = ["<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "</title><b>", "& 'a' \u202e\ud800"]


def test_names_are_only_names():
    files = result(names=HOSTILE)
    files = changed(files, "data", "<script>x</script>.csv")
    files = changed(files, "partition.classes", ["<i>", "</svg><script>"])
    files = changed(files, "privacy.claim.source", "<script>")
    files = changed(files, "privacy.warnings", ["<script>"])
    files["experiment.toml"] = b'data = "<script>"\n[settings]\n"<script>" = "</dl>"\n'
    hostile = Page(report(files))
    assert {tag for tag, _ in hostile.tags} == {tag for tag, _ in Page(report(result())).tags}
    assert not [key for _, attributes in hostile.tags for key in attributes if key.startswith("on")]
    for name in HOSTILE[:3]:
        assert sum(name in found for found in hostile.within["bdi"]) == 2  # of who gains, and of who is alike
        assert sum(name in found for found in hostile.within["title"]) == 2  # in both pictures
    many = Page(report(result(24, names=[*HOSTILE, *map(str, range(20))])))
    assert {tag for tag, _ in many.tags} == {tag for tag, _ in Page(report(result(24))).tags}
    assert sum(HOSTILE[0] in found for found in many.within["title"]) == 3  # in all three pictures


def test_a_script_for_an_owner_a_column_and_a_title_runs_nowhere():
    evil = "<script>alert(1)</script>"
    groups = {"column": evil, "metrics": {evil: {"accuracy": {"value": 0.7, "low": 0.6, "high": 0.8}}}}
    told = {"which": "each model", "share": 0.05, "epsilon": 0.1, "owners": 4, "of": 4, "rows": 123, "unit": "record",
            "tables": "added", "diverged": False, "metrics": {}, "confusion": None, "calibration": None,
            "groups": groups}  # fmt: skip
    files = changed(result(names=[evil, "b", "c", "d"]), "evaluation", told)
    content = report(changed(files, "protocol", evil)).decode()
    assert "<script" not in content
    page = Page(content.encode())
    assert page.within["title"][0] == f"coterie: visits, {evil}"
    assert page.within["bdi"].count(evil) == 4  # the column, its group, who gains, and who is alike


def channel(colour: str, at: int) -> float:
    value = int(colour[1 + 2 * at : 3 + 2 * at], 16) / 255
    return value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4


def contrast(one: str, other: str) -> float:
    """WCAG 2's ratio of luminances."""
    bright, dark = sorted(
        (0.2126 * channel(c, 0) + 0.7152 * channel(c, 1) + 0.0722 * channel(c, 2) for c in (one, other)),
        reverse=True,
    )
    return (bright + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_words_can_be_read_in_light_and_dark(colours):
    for ground in ("page", "card"):
        for words in ("ink", "soft", "joint", "floor", "ceiling", "alarm", "oracle"):
            assert contrast(colours[words], colours[ground]) >= 4.5, (words, ground)
    for shape in ("joint", "claimed", "floor", "alarm", "ink"):
        assert contrast(colours[shape], colours["track"]) >= 3, shape
    assert LIGHT.keys() == DARK.keys()


def test_it_fits_any_width(page):
    viewport = next(one["content"] for one in page.of("meta") if one.get("name") == "viewport")
    assert viewport == "width=device-width, initial-scale=1"
    sheet = report(result()).decode().partition("<style>")[2].partition("</style>")[0]
    assert "overflow-wrap:anywhere" in sheet
    assert not re.search(r"overflow(-x)?:(scroll|auto)|min-width:\d{3,}px|[;{]width:\d{3,}px", sheet)
    assert "@media print" in sheet
    assert "@media screen and (prefers-color-scheme:dark)" in sheet  # paper is white
    inline = [attributes["style"] for _, attributes in page.tags if attributes.get("style")]
    shares = [
        float(one)
        for style in inline
        for one in re.findall(r"(?:width|left|bottom):([\d.e-]+)%", style or "")
    ]
    assert shares
    assert all(0 <= share <= 100 for share in shares)
    assert not [style for style in inline if re.search(r"\d{3,}px", style or "")]


@pytest.mark.parametrize(("owners", "gauges"), [(1, 1), (40, 40), (100, 100), (1500, 1500)])
def test_a_gauge_for_each_owner_whose_bar_is_its_own(owners, gauges):
    content = report(result(owners, certified=[0.5 + at / 4000 for at in range(owners)]))
    page = Page(content)
    assert len(content) < 1_500_000
    assert page.classed("track") == gauges + 3
    assert len(page.of("details")) == (owners > 40)
    assert ("25 more bars in the file" in page.text) == (owners == 40)  # on paper
    assert len(page.of("circle")) == (owners if owners <= 1000 else 0)
    assert len(page.of("rect")) == 2 * owners


@pytest.mark.parametrize(
    ("owners", "who"), [(2, "Both owners"), (20, "All 20 owners"), (1500, "All 1,500 owners")]
)
def test_equal_bars_are_one_sentence(owners, who):
    page = Page(report(result(owners)))
    assert f"{who} alike: certified ε ≤ 1 of a budget of 1. δ = 10⁻⁵." in page.text
    assert page.classed("track") == 1 + 3
    (folded,) = page.within["details"]
    assert f"{min(owners, 1000)}" in folded
    assert ("500 more are in result.json" in folded) == (owners == 1500)


def test_bars_that_are_equal_for_some_are_one_for_these():
    page = Page(report(result(6, certified=[1.0] * 4 + [0.5, 0.5], budget_epsilon=[1.0] * 6)))
    assert page.classed("track") == 3 + 3
    assert "4 owners alike" in page.text
    assert page.text.count("ε 0.5 of 1") == 2  # two alike keep their names


def test_what_was_charged_is_in_the_first_sentence():
    told = {"which": "each model", "share": 0.05, "epsilon": 0.1, "owners": 4, "of": 4, "rows": 123, "unit": "record",
            "tables": "added", "diverged": False, "metrics": {"accuracy": {"value": 0.79, "low": 0.75, "high": 0.83}},
            "confusion": None, "calibration": None, "groups": None}  # fmt: skip
    first = Page(report(changed(result(), "evaluation", told))).within["p"][0].partition(". ")[0]
    assert "a constant (always saying 'no') has 0.6" in first
    assert first.endswith("published by the owners, charged: accuracy 0.790 (0.750 to 0.830)")
    silent = Page(report(changed(result(), "evaluation", told | {"diverged": True, "metrics": {}})))
    assert "published by the owners, charged" not in silent.text


def test_paper_has_the_summary_alone():
    """`make browser` counts the sheets: one. Here, what is on it, and that the rest is left out by the style."""
    content = report(result()).decode()
    boards = re.findall(r'<section class="[^"]*board[^"]*"><h2>([^<]+)', content)
    assert boards == ["Result over rounds", "Who gains by joining", "Each owner's budget"]
    print_rules = content.rpartition("@media print{")[2]
    assert ".sheet section,.sheet details{display:none}" in print_rules
    assert ".sheet section.board{display:block" in print_rules
    assert '<html lang="en" class="sheet">' in content  # pages of nodes and comparisons are printed whole


def test_a_single_owner_reads_well():
    page = Page(report(result(1, names=["owner 0"])))
    assert "One owner with 30 records reaches an accuracy of 0.8" in page.text
    assert "1 of 1 within the budget" in page.text
    assert len(page.of("circle")) == 1


def test_who_gains_is_counted_and_drawn():
    files = changed(result(16), "benefit.own", [0.7, 0.9, 0.8, "nan"] * 4)
    page = Page(report(files))
    assert "4 of 16 owners do better with the joint private model" in page.text
    assert "own model, no privacy: 4 gain by joining" in page.text
    assert "own model, no privacy: 12 do not gain" in page.text
    assert (
        "Half of them gain +0 or more; house 0 (30 records, +0.1) gains most, house 1 (31 records, −0.1) least."
        in page.text
    )
    # a dot for each finite model, and one for each row of the key
    assert page.classed("own") == 12 + 2
    assert page.classed("gains") == 4 + 1
    lower = Page(report(changed(files, "metric.name", "mse")))
    assert "4 of 16 owners do better" in lower.text  # those whose own error of 0.9 is above the joint 0.8
    assert lower.classed("gains") == 4 + 1
    secret = Page(report(changed(files, "benefit.oracle", ["joint", "own"])))
    assert secret.classed("oracle") == page.classed("oracle") + 1


def test_who_gains_is_a_table_for_few_and_one_line_for_hundreds():
    few = Page(report(changed(result(2), "benefit.own", [0.7, 0.9])))
    cells = few.within["td"]
    first = cells.index("+0.1, gains")
    assert cells[first - 3 : first] == ["30", "0.7", "0.8"]
    assert "−0.1, does not gain" in cells
    assert few.classed("benefit") == 0
    hundreds = Page(report(result(200)))
    assert hundreds.classed("crowded") == 1
    assert hundreds.classed("own") == 200 + 1
    assert hundreds.classed("link") == 0


def test_networks_are_drawn_for_two_and_for_hundreds():
    shapes = {}
    for owners in (2, 3, 20, 200):
        page = Page(report(result(owners)))
        shapes[owners] = next(one for one in page.of("svg") if "network" in (one.get("class") or ""))
        assert len(page.of("circle")) == owners
    assert [shapes[owners]["viewbox"] for owners in (2, 3, 20, 200)] == [
        "0 120 360 120",
        "0 0 360 283",  # no empty quarter below the third
        "0 0 360 360",
        "0 0 720 720",
    ]
    assert "large" in (shapes[200]["class"] or "")


def test_one_owner_has_nobody_to_join():
    assert "Who gains" not in Page(report(result(1))).text


def test_who_gains_needs_a_value_of_every_owner():
    with pytest.raises(InputError, match=r"benefit\.own"):
        report(changed(result(), "benefit.own", [0.7]))


def over(**columns) -> dict[str, bytes]:
    found = {
        "epsilon": [0.5, 1.0, 2.0],
        "joint": [0.7, 0.8, "nan"],
        "local_only": [0.5, 0.6, 0.7],
        "oracle": ["joint", "local_only"],
    }
    return changed(result(), "over_epsilon", found | columns)


def test_accuracy_over_epsilon_is_shown_where_it_was_asked_for(page):
    assert "over ε" not in " ".join(page.within["h2"])
    swept = Page(report(over()))
    assert swept.within["h2"] == [*SECTIONS[:3], "Accuracy over ε", *SECTIONS[3:]]
    assert "the run itself: ε = 1" in swept.text
    dots = [one["d"] or "" for one in swept.of("path") if "dots" in (one.get("class") or "")]
    assert [path.count("h0") for path in dots[-2:]] == [2, 3]  # what diverged has no dot
    assert swept.classed("oracle") == page.classed("oracle") + 3


@pytest.mark.parametrize("columns", [{"epsilon": [2.0, 1.0, 3.0]}, {"epsilon": [1.0]}, {"joint": [0.1]}])
def test_a_sweep_that_makes_no_sense_is_named(columns):
    with pytest.raises(InputError, match="over_epsilon"):
        report(over(**columns))


def test_each_owner_against_its_own_budget():
    page = Page(report(result(certified=[0.25, 1.5, "inf", 4.0], budget_epsilon=[0.5, 1, 2, 4])))
    for words in ("ε 0.25 of 0.5", "ε 1.5 of 1, above", "ε ∞ of 2, above", "ε 4 of 4", "✗ 2 of 4 above"):
        assert words in page.text
    assert page.classed("above") == 1
    assert page.classed("endless") == 2  # its gauge and the bar
    widths = [one["style"] for one in page.of("b") if one.get("style")]
    assert widths[-4:] == ["width:50%", "width:100%", "width:100%", "width:100%"]


def test_an_infinite_epsilon_gives_its_reason():
    page = Page(report(result(certified=["inf"] * 4, claimed_epsilon=None, reason="there is no noise")))
    assert "No finite privacy can be certified: ε = ∞." in page.text
    assert "Note: there is no noise." in page.text
    assert "none stated" in page.text


AUDIT = {"world": "2 owners", "finding": {"delta": 1e-5, "games": 100_000, "confidence": 0.999}}


def test_an_audit_stands_beside_what_holds_for_what_it_attacked():
    page = Page(
        report(result(audited_epsilon=0.9, audit=AUDIT | {"certified_epsilon": 1.0, "claimed_epsilon": 0.2}))
    )
    assert "ε ≥ 0.9" in page.text
    assert "100,000 games, confidence 0.999" in page.text
    assert "2 owners; certified for it: ε ≤ 1" in page.text
    assert "above the claim for what it attacked" in page.text
    assert "above the certificate" not in page.text


def test_an_audit_above_its_certificate_is_told():
    page = Page(report(result(audited_epsilon=1.1, audit=AUDIT | {"certified_epsilon": 1.0})))
    assert "above the certificate of what it attacked" in page.text


def test_a_person_whom_two_owners_know_stands_below_the_columns():
    page = Page(report(result(person_epsilon=1.4598)))
    assert "for one record at each of up to 2 owners: ε ≤ 1.46." in page.text
    assert "within the budget" in page.text


def test_a_person_at_two_owners_is_told_beside_one_at_more():
    page = Page(report(result(owners_per_person=3, person_epsilon=0.9999, pair_epsilon=0.7801)))
    assert "for one record at each of up to 3 owners: ε ≤ 0.9999, which is what budgets are for." in page.text
    assert "for one record at each of up to 2 owners: ε ≤ 0.7801." in page.text


@pytest.mark.parametrize(
    ("epsilon", "verdict"), [(0.99, "✓ 4 of 4 within"), (1.2, "✗ 4 of 4 above"), (None, "✗ 4 of 4")]
)
def test_budgets_are_held_against_whom_they_are_promised(epsilon, verdict):
    """Each owner by itself is within 1; a file that leaves the person's out promises nothing."""
    page = Page(report(result(certified=[0.7] * 4, owners_per_person=3, person_epsilon=epsilon)))
    assert verdict in page.text
    assert ("record at each of up to 3 owners" in page.text) == (epsilon is not None)


@pytest.mark.parametrize("hub", ["aggregator", "shared model"])
def test_a_hub_is_drawn_where_everybody_meets(hub):
    page = Page(report(result(5, hub=hub, models=1)))
    assert hub in page.within["text"]
    assert page.classed("hub") == 1
    drawing = (
        report(result(5, hub=hub, models=1)).decode().partition('class="network"')[2].partition("</svg>")[0]
    )
    assert drawing.count("<line") == 5
    assert page.classed("band") == 0  # one model: nothing to span


def test_discs_have_areas_like_sizes():
    page = Page(report(result(3)))
    sizes, radii = np.array([30, 31, 32]), np.array([float(one["r"] or 0) for one in page.of("circle")])
    assert radii**2 / radii.max() ** 2 == pytest.approx(sizes / 32, rel=0.02)


def test_too_many_links_are_counted_instead():
    files = changed(changed(result(), "network.links", None), "network.number_of_links", 50_000_000)
    assert "50,000,000 links: too many to draw" in Page(report(files)).text


def test_far_apart_values_share_a_logarithmic_scale():
    near, far = (Page(report(result(certified=[value] * 4))) for value in (2.0, 1806.0))
    assert "linear, from zero" in near.text
    assert "logarithmic" in far.text
    assert "ε ≤ 1,806" in far.text


def test_a_run_that_diverged():
    files = changed(changed(result(), "metric.joint", "nan"), "metric.central", "inf")
    files["trace.csv"] = b"step,accuracy,disagreement,a,b\n1,nan,nan,nan,inf\n2,nan,nan,nan,nan\n"
    assert "the model diverged" in Page(report(files)).text


def test_a_checksum_of_private_records_is_not_given(page):
    assert "could try guesses" in page.text
    public = Page(report(changed(result(), "provenance.data_sha256", {"a.npz": "ab" * 32})))
    assert "ab" * 32 in public.text
    assert "could try guesses" not in public.text


def test_what_somebody_types_is_code(page):
    assert "coterie certify" in page.within["code"]
    assert "`" not in page.text


@pytest.mark.parametrize(
    ("path", "value", "named"),
    [
        ("privacy.delta", None, "privacy.delta"),
        ("privacy.delta", "tiny", "privacy.delta"),
        ("privacy.certified_epsilon.per_owner", [1.0], "per_owner"),
        ("sizes", [1, 2, 3, True], "sizes"),
        ("sizes", None, "sizes"),
        ("owner_names", [], "owner_names"),
        ("sizes", [0] * 4, "sizes"),
        ("network.links", [[0, 4]], "network.links"),
        ("network.links", [[0]], "network.links"),
        ("partition.counts", [[1, 2]], "partition.counts"),
        ("privacy.audited_epsilon", 1.0, "privacy.audit"),
        ("rounds", True, "rounds"),
    ],
)
def test_a_file_that_is_not_a_runs_is_refused_by_name(path, value, named):
    with pytest.raises(InputError, match=named) as raised:
        read(changed(result(), path, value))
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("name", ["result.json", "trace.csv", "experiment.toml"])
@pytest.mark.parametrize("content", [b"\xff\xfe", b"= not this", b"[" * 100_000])
def test_files_that_cannot_be_read_are_named(name, content):
    with pytest.raises(InputError, match=name):
        read(result() | {name: content})


def test_the_numbers_of_the_page_are_those_of_the_files():
    run = read(result(certified=[0.5, "inf", 1.0, 1.0]))
    assert run.privacy.certified.max == math.inf
    assert run.privacy.within == (True, False, True, True)
    assert run.values.shape == (3, 4)
    assert run.numbers == (1, 2, 3, 4)
    assert read(result(2, names=["owner 0", "owner 1"])).numbers == (0, 1)
