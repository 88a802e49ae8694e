"""Claimed, certified, audited: statements of privacy, certificates, and noise for a budget.

It may know plans and events, never a program, a loss or a record: a certificate is about what a plan says.
"""

from coterie.accounting.calibrating import calibrate
from coterie.accounting.certifying import certify, recompute
from coterie.accounting.events import event_from_json, event_to_json
from coterie.accounting.statements import Certificate, Claim, Finding, publishing, warnings_of

__all__ = [
    "Certificate",
    "Claim",
    "Finding",
    "calibrate",
    "certify",
    "event_from_json",
    "event_to_json",
    "publishing",
    "recompute",
    "warnings_of",
]
