"""The embedded set: adults at work in the 1994 and 1995 Current Population Surveys, owned by industry.

Built by scripts/build_census.py; provenance and licence in ../embedded/README.md. Code lists are those of the
survey's documentation (UCI "Census-Income (KDD)", census-income.names); ages, weeks and dollars are cut at
round edges. Edges and merged categories were set by hand with the public file in view, before the extract was
drawn: the demonstration treats them as public, as a consortium would a form that it agreed on.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import numpy as np

from coterie.problems.datasets._encode import Binned, Category, encode
from coterie.problems.datasets._table import Loaded

_WORKERS = (
    "Federal government", "Local government", "Private", "Self-employed-incorporated",
    "Self-employed-not incorporated", "State government", "Without pay",
)  # fmt: skip
_EDUCATION = (
    "No high school diploma", "High school graduate", "Some college but no degree",
    "Associates degree-occup /vocational", "Associates degree-academic program", "Bachelors degree(BA AB BS)",
    "Masters degree(MA MS MEng MEd MSW MBA)", "Prof school degree (MD DDS DVM LLB JD)",
    "Doctorate degree(PhD EdD)",
)  # fmt: skip
_OCCUPATIONS = (
    "Adm support including clerical", "Executive admin and managerial", "Farming forestry and fishing",
    "Handlers equip cleaners etc", "Machine operators assmblrs & inspctrs", "Other service",
    "Precision production craft & repair", "Private household services", "Professional specialty",
    "Protective services", "Sales", "Technicians and related support", "Transportation and material moving",
)  # fmt: skip
_FILERS = (
    "Nonfiler", "Single", "Head of household", "Joint both under 65", "Joint one under 65 & one 65+",
    "Joint both 65+",
)  # fmt: skip
_HOUSEHOLDS = ("Householder", "Spouse of householder", "Other")

FIELDS = (
    Binned("age", (18, 25, 30, 35, 40, 45, 50, 55, 60, 65, 91), unit="years"),
    Category("education", _EDUCATION),
    Category("marital", ("Married-civilian spouse present", "Never married", "Other")),
    Category("sex", ("Female", "Male")),
    Category("worker", _WORKERS),
    Category("occupation", _OCCUPATIONS),
    Category("filer", _FILERS),
    Category("household", _HOUSEHOLDS),
    Category("employer size", ("0", "1", "2", "3", "4", "5", "6")),
    Binned("weeks", (0, 14, 27, 40, 50, 53), unit="weeks"),
    Binned("gains", (0, 1, 5_000, 10_000, 100_000), unit="dollars"),
    Binned("losses", (0, 1, 5_000), unit="dollars"),
    Binned("dividends", (0, 1, 500, 5_000, 100_000), unit="dollars"),
)

OWNERS = (
    "Agriculture, forestry and fisheries", "Business and repair services", "Communications", "Construction",
    "Education", "Entertainment", "Finance insurance and real estate", "Hospital services",
    "Manufacturing-durable goods", "Manufacturing-nondurable goods", "Medical except hospital", "Mining",
    "Other professional services", "Personal and household services", "Public administration", "Retail trade",
    "Social services", "Transportation", "Utilities and sanitary services", "Wholesale trade",
)  # fmt: skip


def load(_: Path | None = None) -> Loaded:
    """The embedded extract: one-hot fields, +1 for an income above 50,000 dollars, owner = industry."""
    stored = read()
    return Loaded(
        encode(stored, FIELDS), stored["income"], stored["test"].astype(bool), stored["owner"], OWNERS
    )


def read() -> dict[str, np.ndarray]:
    """The stored columns. Codes, one uint8 a row, become what they stand for, a category or a bin's lower edge, so that
    one encoder serves every data set."""
    file = resources.files("coterie.problems") / "embedded" / "census.npz"
    with file.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
        columns = {name: arrays[name] for name in arrays.files}
    for field in FIELDS:
        values = field.values if isinstance(field, Category) else field.edges[:-1]
        columns[field.name] = np.asarray(values)[columns[field.name]]
    return columns
