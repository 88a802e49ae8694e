"""Claimed, certified, audited: statements of privacy, certificates, and noise for a budget."""

from coterie.accounting.calibrate import calibrate
from coterie.accounting.certify import certify, recompute
from coterie.accounting.events import event_from_json, event_to_json
from coterie.accounting.statements import Certificate, Claim, Finding

__all__ = [
    "Certificate",
    "Claim",
    "Finding",
    "calibrate",
    "certify",
    "event_from_json",
    "event_to_json",
    "recompute",
]
