"""Attacks on the real code: worst-case neighbours, thousands of games, and lower bounds with their confidence.

It may know protocols and engines, which it attacks as anybody could; no experiment.
"""

from coterie.audit.attack import Audit, audit
from coterie.audit.bounds import clopper_pearson, gaussian, one_run
from coterie.audit.neighbours import Attacked, Neighbours, Side, replaced, worst_case

__all__ = [
    "Attacked",
    "Audit",
    "Neighbours",
    "Side",
    "audit",
    "clopper_pearson",
    "gaussian",
    "one_run",
    "replaced",
    "worst_case",
]
