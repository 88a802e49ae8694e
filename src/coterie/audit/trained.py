"""A statistic for transcripts whose likelihood is unknown: two Gaussians, fitted to games that are then put aside."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Discriminant(NamedTuple):
    """Two Gaussians fitted to features: means and inverse covariances with their log determinants."""

    means: np.ndarray
    inverses: np.ndarray
    logs: np.ndarray

    def score(self, rows: np.ndarray) -> np.ndarray:
        """log N(rows; with) − log N(rows; without)."""
        gaps = rows[None] - self.means[:, None]
        far = np.einsum("cni,cij,cnj->cn", gaps, self.inverses, gaps)
        return 0.5 * ((far[0] + self.logs[0]) - (far[1] + self.logs[1]))


def fit(without: np.ndarray, with_: np.ndarray, ridge: float = 1e-3) -> Discriminant:
    """A quadratic discriminant: it hears shifts, changes of variance, and how steps go together.

    >>> rng = np.random.default_rng(0)
    >>> quiet, loud = rng.standard_normal((500, 2)), 3 * rng.standard_normal((500, 2))
    >>> bool(np.mean(fit(quiet, loud).score(loud)) > np.mean(fit(quiet, loud).score(quiet)))
    True
    """
    both = np.concatenate([without, with_])
    size = np.maximum(both.var(axis=0), 1e-12)
    covariances = [
        np.cov(rows.T).reshape(len(size), len(size)) + ridge * np.diag(size) for rows in (without, with_)
    ]
    return Discriminant(
        means=np.stack([without.mean(axis=0), with_.mean(axis=0)]),
        inverses=np.stack([np.linalg.inv(covariance) for covariance in covariances]),
        logs=np.array([np.linalg.slogdet(covariance)[1] for covariance in covariances]),
    )
