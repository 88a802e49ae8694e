"""What an estimator can see of its surroundings that leaks although every certificate holds, said as a warning.

It sees what was read off its rows, who called it, and which rows it has met before:

* A call from a `Pipeline` (or a `TransformedTargetRegressor`) whose steps before were fitted on the same rows, which
  nobody charged.
* A call from `sklearn.model_selection` (a search, a cross-validation, a learning curve): many fits on shared rows, and
  scores of held-out ones.
* A call from any other estimator of scikit-learn, such as a calibration, a vote or a choice of columns: what it learns
  itself of the rows, and how often it fits.
* A fit on rows of which at least one in ten was in an earlier fit of this process: each fit pays for itself alone. Rows
  are compared by their features, whatever the target; hashes are keyed anew in each process and never leave it.

It cannot see other processes, rows that were transformed otherwise each time, or what a person does with scores.
"""

from __future__ import annotations

import secrets
import sys
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from types import FrameType
from typing import Any

import numpy as np

from coterie.errors import PrivacyLeakWarning
from coterie.problems.datasets.frames import Frame

_REMEMBERED = 100  # fits
_SHARED = 0.1  # of rows; chance makes a few equal
_KEY = secrets.token_hex(8)
_met: deque[np.ndarray] = deque(maxlen=_REMEMBERED)
_PUBLIC = "or say that these rows are public (public=True)."


def warn(frame: Frame, read_off: Sequence[str]) -> None:
    """Warn the caller of `fit` of each leak that shows."""
    callers = list(_callers(sys._getframe(1)))
    for leak in (*_of_declarations(read_off), *_of_pipelines(callers), *_of_fits(frame, callers)):
        warnings.warn(leak, PrivacyLeakWarning, stacklevel=4)


def remember(frame: Frame) -> None:
    """Remember that a model of these rows exists."""
    _met.append(np.unique(_hashes(frame)))


def _of_declarations(read_off: Sequence[str]) -> Iterator[str]:
    if read_off:
        yield (
            f"{' and '.join(read_off)}: read off the rows, as nothing declares them. Single records show in the model, "
            f"and no ε covers that. Give what is known without looking at rows, {_PUBLIC}"
        )


def _of_pipelines(callers: Sequence[FrameType]) -> Iterator[str]:
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.pipeline import Pipeline

    for frame in callers:
        caller = frame.f_locals.get("self")
        before = caller.steps[:-1] if isinstance(caller, Pipeline) else []
        if isinstance(caller, TransformedTargetRegressor):
            before = [("transformer", caller.transformer)]
        for name, step in before:
            if _learns(step):
                yield (
                    f"step {name!r} ({type(step).__name__}) was fitted on the private rows: what it learnt shows "
                    "single records, and no ε covers that. Fit it on public rows and freeze it "
                    f"(sklearn.frozen.FrozenEstimator), leave scaling and categories to `bounds`, {_PUBLIC}"
                )


def _learns(step: Any) -> bool:
    """Whether fitting it looks at rows; what is made of others does where one of them does."""
    from sklearn.compose import ColumnTransformer
    from sklearn.frozen import FrozenEstimator
    from sklearn.pipeline import FeatureUnion, Pipeline
    from sklearn.utils import get_tags

    if step is None or isinstance(step, (str, FrozenEstimator)):
        return False
    if isinstance(step, (Pipeline, FeatureUnion, ColumnTransformer)):
        names = ("steps", "transformer_list", "transformers")
        parts: Any = next(getattr(step, name) for name in names if hasattr(step, name))
        return any(_learns(part[1]) for part in parts)
    return get_tags(step).requires_fit


def _of_fits(rows: Frame, callers: Sequence[FrameType]) -> Iterator[str]:
    hashes = _hashes(rows)
    again = any(np.isin(hashes, earlier).mean() >= _SHARED for earlier in _met)
    modules = [str(frame.f_globals.get("__name__", "")) for frame in callers]
    around = next(filter(None, map(_meta_estimator, callers)), "")
    if any(name.startswith("sklearn.model_selection") for name in modules):
        yield (
            "fit was called by sklearn.model_selection: each of its fits spends the budget again on rows that they "
            "share, and scores of held-out rows are a release that nobody charged. Choose settings on public rows, "
            f"{_PUBLIC}"
        )
    elif around:
        yield (
            f"fit was called by scikit-learn's {around}: each of its fits spends the budget by itself, and what it "
            "learns of the rows beside them, such as a calibration or a choice of columns, is a release that nobody "
            f"charged. Fit this estimator alone, {_PUBLIC}"
        )
    elif again:
        yield (
            "fit was called on rows that an earlier fit of this process has used: what the fits cost adds up, and "
            "`privacy_` knows of one alone. Fit once, " + _PUBLIC
        )


def _meta_estimator(frame: FrameType) -> str:
    """The name of scikit-learn's estimator whose method this is, unless `_of_pipelines` knows it; else nothing."""
    from sklearn.base import BaseEstimator
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.pipeline import Pipeline

    caller = frame.f_locals.get("self")
    known = isinstance(caller, (Pipeline, TransformedTargetRegressor)) or not isinstance(
        caller, BaseEstimator
    )
    own = str(frame.f_globals.get("__name__", "")).startswith("sklearn.")
    return "" if known or not own else type(caller).__name__


def _callers(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _hashes(frame: Frame) -> np.ndarray:
    """One number for each row; equal for equal rows, and of no use without the key."""
    import pandas as pd
    from pandas import util

    hashed: Any = util.hash_pandas_object  # pandas' annotations say no more than that it is there
    plain = {
        name: frame[name].astype(np.float64 if frame[name].dtype.kind in "iufb" else str)
        for name in frame.columns
    }
    return hashed(pd.DataFrame(plain), index=False, hash_key=_KEY).to_numpy()
