"""The files of a comparison's folder, all made of the same plain values."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

from coterie.experiments.comparing.question import Comparison
from coterie.experiments.oracle import ORACLE
from coterie.reports.comparison import chart, page, picture_title
from coterie.reports.figures import drawn, png


def all_of(comparison: Comparison, summary: dict[str, Any]) -> dict[str, bytes]:
    """The content of each file, by name."""
    return {
        "comparison.json": (
            json.dumps(summary, indent=2, allow_nan=False, ensure_ascii=False) + "\n"
        ).encode(),
        "comparison.csv": table(summary).encode(),
        "comparison.toml": comparison.to_toml().encode(),
        "comparison.png": png(drawn(chart(summary), picture_title(summary))),
        "report.html": page(summary).encode("utf-8", "replace"),
    }


def table(summary: dict[str, Any]) -> str:
    """CSV, one row for each run, with the baselines beside it. A column that no owner released says so in its name."""
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    mark = {
        key: ORACLE if key in summary["oracle"] else ""
        for key in ("cells", "claimed", "alone", "central", "constant")
    }
    writer.writerow(
        [
            "series", "protocol", "epsilon", "seed", f"{summary['metric']['name']}{mark['cells']}",
            f"claimed_epsilon{mark['claimed']}", "certified_epsilon", "owners_within_budget", "owners",
            f"alone{mark['alone']}", f"central{mark['central']}", f"constant{mark['constant']}", "refused",
        ]
    )  # fmt: skip
    base = summary["baselines"]
    alone = {baseline["epsilon"]: baseline["values"] for baseline in base["alone"]}
    for cell in summary["cells"]:
        who = [cell["series"], cell["protocol"], f"{cell['epsilon']:g}"]
        if cell["refused"]:
            writer.writerow([*who, *[""] * 6, "", base["central"], base["constant"], cell["refused"]])
            continue
        privacy = [cell["claimed"], cell["certified"], cell["within"], cell["owners"]]
        for seed, value, local in zip(summary["seeds"], cell["values"], alone[cell["epsilon"]]):
            writer.writerow([*who, seed, value, *privacy, local, base["central"], base["constant"], ""])
    return text.getvalue()
