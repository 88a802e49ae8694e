"""Oriented gradients: where an image's edges lie and which way they run. Built from no data at all.

A linear model on them comes close to a small network on pixels, so they are the strong choice at a small ε
(Tramèr & Boneh 2021 make the case for data-independent image features under privacy).
"""

from __future__ import annotations

import math

import numpy as np

from coterie import _check
from coterie.errors import InputError

_TINY = np.float32(1e-6)


def oriented_gradients(images: np.ndarray, cell: int, orientations: int = 8) -> np.ndarray:
    """(rows, height, width[, channels]) -> (rows, cells × orientations) float32, each cell's share of edges.

    Every pixel votes with the square root of its gradient's length for the two nearest of `orientations`
    directions, summed over cells of `cell` × `cell` pixels. Norms are left to the next step of a pipeline.
    """
    _check.count("cell", cell, least=2)
    if images.ndim not in (3, 4):
        raise InputError(f"features='gradients': rows of shape {images.shape[1:]}: needs images (height, width).")
    grey = images.astype(np.float32) if images.ndim == 3 else images.astype(np.float32).mean(axis=3)
    rows, height, width = grey.shape
    down, across = height // cell, width // cell
    if not down or not across:
        raise InputError(f"features='gradients:{cell}': images are {height} × {width}. Use a smaller cell.")
    dy, dx = np.gradient(grey, axis=(1, 2))
    strength = np.sqrt(np.hypot(dx, dy))
    place = np.arctan2(dy, dx) * np.float32(orientations / (2 * math.pi)) % orientations
    lower = np.floor(place)
    share = (place - lower).astype(np.float32)
    out = np.empty((rows, down, across, orientations), np.float32)
    for one in range(orientations):
        vote = strength * np.where(lower == one, 1 - share, np.where((lower + 1) % orientations == one, share, 0))
        trimmed = vote[:, : down * cell, : across * cell].reshape(rows, down, cell, across, cell)
        out[..., one] = trimmed.sum(axis=(2, 4))
    return out.reshape(rows, -1)
