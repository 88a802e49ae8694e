"""Loans: Lending Club (two extracts) and the US Small Business Administration.

Ranges come from the lenders' terms (Lending Club lent 500 to 40,000 dollars at 5 to 31 %; the SBA guarantees
loans of up to 5 million dollars) or are round numbers set by hand with the
public files in view, wider than what is there and on a log scale for amounts.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from coterie.problems.datasets._encode import Category, Numeric, codes_of, encode
from coterie.problems.datasets._files import frame_of
from coterie.problems.datasets._table import Loaded

STATES = (
    "AL", "AK", "AZ", "AR", "CA", "CO", "CT", "DE", "DC", "FL", "GA", "HI", "ID", "IL", "IN", "IA", "KS",
    "KY", "LA", "ME", "MD", "MA", "MI", "MN", "MS", "MO", "MT", "NE", "NV", "NH", "NJ", "NM", "NY", "NC",
    "ND", "OH", "OK", "OR", "PA", "RI", "SC", "SD", "TN", "TX", "UT", "VT", "VA", "WA", "WV", "WI", "WY",
)  # fmt: skip

CLUB = (
    Numeric("loan_amnt", 500, 40_000),
    Numeric("annual_inc", 0, 10_000_000, log=True),
    Numeric("dti", 0, 40),
    Numeric("revol_bal", 0, 2_000_000, log=True),
    Numeric("revol_util", 0, 150),
    Numeric("delinq_2yrs_zero", 0, 1),
    Numeric("pub_rec_zero", 0, 1),
    Numeric("open_acc", 0, 80, log=True),
    Numeric("emp_length", 0, 11),
    Category("term", ("36 months", "60 months")),
    Category("home_ownership", ("MORTGAGE", "OTHER", "OWN", "RENT")),
    Category("purpose", ("car", "credit_card", "debt_consolidation", "home_improvement", "house",
                         "major_purchase", "medical", "moving", "other", "small_business", "vacation",
                         "wedding")),
)  # fmt: skip

CLUB_STATES = (
    Numeric("loan_amount", 500, 40_000),
    Numeric("annual_income", 0, 10_000_000, log=True),
    Numeric("debt_to_income", 0, 500, log=True),
    Numeric("delinq_2y", 0, 50, log=True),
    Numeric("inquiries_last_12m", 0, 50, log=True),
    Numeric("total_credit_lines", 0, 200, log=True),
    Numeric("total_credit_limit", 0, 10_000_000, log=True),
    Numeric("total_credit_utilized", 0, 10_000_000, log=True),
    Numeric("accounts_opened_24m", 0, 50, log=True),
    Numeric("total_debit_limit", 0, 1_000_000, log=True),
    Numeric("num_mort_accounts", 0, 50, log=True),
    Numeric("account_never_delinq_percent", 0, 100),
    Numeric("public_record_bankrupt", 0, 10, log=True),
    Numeric("term", 36, 60),
    Category("homeownership", ("MORTGAGE", "OWN", "RENT")),
    Category("verified_income", ("Not Verified", "Source Verified", "Verified")),
    Category("application_type", ("individual", "joint")),
)

SBA = (
    Numeric("Term", 0, 360),
    Numeric("NoEmp", 0, 10_000, log=True),
    Numeric("CreateJob", 0, 10_000, log=True),
    Numeric("RetainedJob", 0, 10_000, log=True),
    Numeric("GrAppv", 0, 5_000_000, log=True),
    Numeric("SBA share", 0, 1),
    Numeric("year", 1962, 2014),
    Category("NewExist", ("1", "2")),
    Category("franchise", ("no", "yes")),
    Category("UrbanRural", ("0", "1", "2")),
    Category("RevLineCr", ("N", "Y")),
    Category("LowDoc", ("N", "Y")),
    Category("sector", ("11", "21", "22", "23", "31", "32", "33", "42", "44", "45", "48", "49", "51", "52",
                        "53", "54", "55", "56", "61", "62", "71", "72", "81", "92")),
)  # fmt: skip


def lending_club(folder: Path) -> Loaded:
    """Interest rate of 118,578 loans whose rate follows from their instalment (of 1,409 it does not)."""
    frame = frame_of(folder / "lending-club/lending_club_full_train_set.parquet")
    frame = frame[frame["int_rate_recovered"].notna()]
    return Loaded(encode(frame, CLUB), frame["int_rate_recovered"].to_numpy())


def lending_club_states(folder: Path) -> Loaded:
    """Interest rate of 10,000 loans of early 2018, owned by the borrower's state."""
    frame = frame_of(folder / "lending-club/loans_full_schema.csv.gz")
    state = codes_of(frame["state"].to_numpy(), STATES)
    rate = frame["interest_rate"].to_numpy()
    return Loaded(encode(frame, CLUB_STATES), rate, owner=state, owner_names=STATES)


def sba_loans(folder: Path) -> Loaded:
    """Was the loan charged off? 897,154 loans of known outcome and state, owned by the borrower's state."""
    frame = frame_of(folder / "sba-loans/SBAnational.parquet")
    frame = frame[frame["MIS_Status"].notna() & frame["State"].notna()]
    state = codes_of(frame["State"].to_numpy(), STATES)
    charged_off = (frame["MIS_Status"] == "CHGOFF").to_numpy()
    return Loaded(encode(_sba_columns(frame), SBA), charged_off, owner=state, owner_names=STATES)


def _sba_columns(frame) -> dict[str, np.ndarray]:
    columns = {field.name: frame[field.name].to_numpy() for field in SBA if field.name in frame}
    columns["SBA share"] = frame["SBA_Appv"].to_numpy() / np.maximum(frame["GrAppv"].to_numpy(), 1.0)
    columns["year"] = frame["ApprovalFY"].astype(str).str[:4].astype(float).to_numpy()
    # codes 0 and 1 mean "no franchise"; the first two digits of a NAICS code are its sector
    columns["franchise"] = np.where(frame["FranchiseCode"].to_numpy() > 1, "yes", "no")
    columns["sector"] = frame["NAICS"].astype(str).str[:2].to_numpy()
    return columns
