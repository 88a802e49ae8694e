"""Attacks on the real code: worst-case neighbours, thousands of games, and lower bounds with their confidence."""

from coterie.audit.attack import Audit, audit
from coterie.audit.bounds import clopper_pearson, gaussian, one_run
from coterie.audit.neighbours import Neighbours, Setting, replaced, worst_case

__all__ = [
    "Audit",
    "Neighbours",
    "Setting",
    "audit",
    "clopper_pearson",
    "gaussian",
    "one_run",
    "replaced",
    "worst_case",
]
