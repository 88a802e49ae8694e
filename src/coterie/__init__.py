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
    from coterie.errors import BudgetError, CoterieError, InputError, PrivacyLeakWarning
    from coterie.estimators import CoterieClassifier, CoterieRegressor
    from coterie.experiments.comparing.compare import Compared, compare
    from coterie.experiments.comparing.question import Comparison
    from coterie.experiments.experiment import Experiment
    from coterie.experiments.result import Result
    from coterie.experiments.run import run
    from coterie.model import TrainedModel, load
    from coterie.plugins import register
    from coterie.program import Program, Rounds, Visits
    from coterie.protocols import PROTOCOLS

    __version__: str

_HOME = {
    "BudgetError": "errors",
    "Certificate": "accounting",
    "Claim": "accounting",
    "Compared": "experiments.comparing.compare",
    "Comparison": "experiments.comparing.question",
    "CoterieClassifier": "estimators",
    "CoterieError": "errors",
    "CoterieRegressor": "estimators",
    "Experiment": "experiments.experiment",
    "Finding": "accounting",
    "InputError": "errors",
    "Ledger": "accounting.ledger",
    "PROTOCOLS": "protocols",
    "PrivacyLeakWarning": "errors",
    "Program": "program",
    "Result": "experiments.result",
    "Rounds": "program",
    "TrainedModel": "model",
    "Visits": "program",
    "calibrate": "accounting",
    "certify": "accounting",
    "compare": "experiments.comparing.compare",
    "load": "model",
    "register": "plugins",
    "run": "experiments.run",
    "simulate": "engines.simulate",
}

__all__ = [
    "PROTOCOLS",
    "BudgetError",
    "Certificate",
    "Claim",
    "Compared",
    "Comparison",
    "CoterieClassifier",
    "CoterieError",
    "CoterieRegressor",
    "Experiment",
    "Finding",
    "InputError",
    "Ledger",
    "PrivacyLeakWarning",
    "Program",
    "Result",
    "Rounds",
    "TrainedModel",
    "Visits",
    "calibrate",
    "certify",
    "compare",
    "load",
    "register",
    "run",
    "simulate",
]


def __getattr__(name: str) -> Any:
    if name == "__version__":  # stated in pyproject.toml alone
        from importlib.metadata import version

        return version("coterie")
    if name not in _HOME:
        raise AttributeError(f"module 'coterie' has no attribute {name!r}")
    return getattr(import_module(f"coterie.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"} - {"Any", "TYPE_CHECKING", "import_module"})
