"""New York State inpatient discharges (SPARCS): cells of 2009 to 2020, and a thousand records of 2016.

Code lists: the values of the public file, written down as constants. Stays are top-coded at "120 +" days by
the source.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from coterie.problems.datasets._encode import Category, Encoded, Numeric, encode
from coterie.problems.datasets._files import frame_of
from coterie.problems.datasets._table import Loaded

KEPT = 29  # one discharge of every 29 is kept: 28,977,249 become 999,215 rows

CELLS = (
    Category("APR Medical Surgical Description", ("Medical", "Surgical")),
    Category("Type of Insurance", ("Commercial", "Medicaid", "Medicare", "Other", "Unknown")),
    Category("Patient Gender", ("Female", "Male")),
    Category("Discharged Dead or Alive", ("Discharged Alive", "Discharged Dead")),
    Category("Patient Age Group", ("0", "1-12", "13-17", "18-40", "41-64", "65-74", "75+")),
    Numeric("Discharge Year", 2009, 2020),
)

RECORDS = (
    Category("Age Group", ("0 to 17", "18 to 29", "30 to 49", "50 to 69", "70 or Older")),
    Category("Gender", ("F", "M")),
    Category("Type of Admission", ("Elective", "Emergency", "Newborn", "Trauma", "Urgent")),
    Numeric("APR Severity of Illness Code", 1, 4),
    Category("APR Risk of Mortality", ("Minor", "Moderate", "Major", "Extreme")),
    Category("APR Medical Surgical Description", ("Medical", "Surgical")),
    Category("Emergency Department Indicator", ("N", "Y")),
    Category("Payment Typology 1", (
        "Blue Cross/Blue Shield", "Department of Corrections", "Federal/State/Local/VA",
        "Managed Care, Unspecified", "Medicaid", "Medicare", "Miscellaneous/Other",
        "Private Health Insurance", "Self-Pay", "Unknown")),
    Numeric("Total Charges", 0, 10_000_000, log=True),
)  # fmt: skip


def sparcs(folder: Path) -> Loaded:
    """Length of stay, one row for every 29th discharge, owned by the hospital.

    The source has cells (hospital, payer, age group, …) with a number of discharges and their mean stay.
    Discharges are laid in a line, cells sorted by hospital, and every `KEPT`-th is a row: a hospital's rows
    are proportional to its discharges to within one. The target is the cell's mean, so it varies less than
    single stays do.
    """
    frame = frame_of(folder / "sparcs/sparcs_discharges_by_facility_2009_2020.parquet")
    frame = frame.sort_values("Facility ID", kind="stable", ignore_index=True)
    row = thin(frame["Number of Discharges"].to_numpy(), KEPT)
    encoded = encode(frame, CELLS)
    encoded = encoded._replace(x=encoded.x[row])
    facility = frame["Facility ID"].to_numpy()[row]
    return _stays(encoded, days(frame["Average Length of Stay"])[row], facility)


def sparcs_records(folder: Path) -> Loaded:
    """Length of stay of 997 single discharges (3 of 1,000 have no hospital number), owned by the hospital."""
    frame = frame_of(folder / "sparcs/sparcs_2016_records_1000.csv.gz", dtype=str)
    frame = frame[frame["Facility Id"].notna()]
    columns = {field.name: frame[field.name].to_numpy() for field in RECORDS}
    columns["Total Charges"] = frame["Total Charges"].str.replace(",", "").to_numpy(np.float64)
    facility = frame["Facility Id"].str.replace(",", "").to_numpy(np.int64)
    return _stays(encode(columns, RECORDS), days(frame["Length of Stay"]), facility)


def thin(counts: np.ndarray, kept: int) -> np.ndarray:
    """Which cell every `kept`-th unit belongs to, when the cells' units are laid in a line.

    >>> thin(np.array([2, 3, 1]), 2).tolist()
    [0, 1, 2]
    """
    line = np.cumsum(counts)
    return np.searchsorted(line, np.arange(kept, line[-1] + 1, kept), side="left")


def days(column) -> np.ndarray:
    """Stays as numbers; "120 +" is 120, the source's top code."""
    return column.astype(str).str.replace("+", "", regex=False).str.strip().to_numpy(np.float64)


def _stays(encoded: Encoded, stay: np.ndarray, facility: np.ndarray) -> Loaded:
    # facility numbers are public: the state publishes the register of its hospitals
    numbers, owner = np.unique(facility, return_inverse=True)
    names = tuple(f"facility {number}" for number in numbers)
    return Loaded(encoded, stay, owner=owner, owner_names=names)
