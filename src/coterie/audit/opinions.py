"""Second opinions beside an audit's finding: each only where its assumption holds and where it can say something."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from coterie.accounting import Certificate
from coterie.audit import bounds

GAUSSIAN, ONE_RUN = "gaussian_assumed", "one_run"


class Opinions(NamedTuple):
    """Other lower bounds on ε from the same games, and why the rest is left out."""

    shown: dict[str, float]
    left_out: dict[str, str]  # a clause for each

    def to_json(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        shown = {name: value if np.isfinite(value) else "inf" for name, value in self.shown.items()}
        return {"second_opinions": shown, "second_opinions_left_out": self.left_out}


def opinions(scores: tuple[np.ndarray, np.ndarray], certificate: Certificate, confidence: float) -> Opinions:
    """What the scores of both worlds show by other ways than intervals of rates."""
    shown, left_out, delta = {}, {}, certificate.delta
    if certificate.accountant == "exact Gaussian":
        shown[GAUSSIAN] = bounds.gaussian(*scores, delta=delta, confidence=confidence)
    else:
        left_out[GAUSSIAN] = "what is released is not one Gaussian"
    # The bound fails with probability about games × δ on top: where that exceeds what is allowed it can only be 0.
    if delta * bounds.ONE_RUN_MOST >= 1 - confidence:
        left_out[ONE_RUN] = (
            f"with {bounds.ONE_RUN_MOST:,} canaries it needs δ below {(1 - confidence) / bounds.ONE_RUN_MOST:.1g}"
        )
    elif (epsilon := bounds.one_run(*scores, delta=delta, confidence=confidence)) > 0:
        shown[ONE_RUN] = epsilon
    else:
        left_out[ONE_RUN] = "it could not tell the worlds apart"
    return Opinions(shown, left_out)
