"""Several owners learn one model; nobody hands over a record; everyone can check what the privacy was.

>>> import coterie
>>> experiment = coterie.Experiment(data="census", epsilon=(1.0,))
>>> experiment.protocol
'dual_averaging'

Importing has no effect: each name below is loaded when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from coterie.accounting import Certificate, Claim, Finding, calibrate, certify
    from coterie.accounting.ledger import Ledger
    from coterie.engines.simulate import simulate
    from coterie.errors import BudgetError, CoterieError, InputError
    from coterie.experiments.experiment import Experiment
    from coterie.experiments.run import Result, run
    from coterie.program import Program, Rounds, Visits
    from coterie.protocols import PROTOCOLS

_HOME = {
    "BudgetError": "errors",
    "Certificate": "accounting",
    "Claim": "accounting",
    "CoterieError": "errors",
    "Experiment": "experiments.experiment",
    "Finding": "accounting",
    "InputError": "errors",
    "Ledger": "accounting.ledger",
    "PROTOCOLS": "protocols",
    "Program": "program",
    "Result": "experiments.run",
    "Rounds": "program",
    "Visits": "program",
    "calibrate": "accounting",
    "certify": "accounting",
    "run": "experiments.run",
    "simulate": "engines.simulate",
}

__all__ = [
    "PROTOCOLS",
    "BudgetError",
    "Certificate",
    "Claim",
    "CoterieError",
    "Experiment",
    "Finding",
    "InputError",
    "Ledger",
    "Program",
    "Result",
    "Rounds",
    "Visits",
    "calibrate",
    "certify",
    "run",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'coterie' has no attribute {name!r}")
    return getattr(import_module(f"coterie.{_HOME[name]}"), name)
