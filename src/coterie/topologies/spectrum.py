"""What a schedule of mixing matrices does to disagreement, computed on the host and never declared.

Everything works on sparse edge lists. Below `DENSE` owners plain NumPy is faster and exact; circulant
matrices (ring, exponential, one-peer) are diagonal under Fourier transforms at any size; the rest is ARPACK.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coterie.errors import InputError
from coterie.topologies.weights import Edges

DENSE = 200  # owners; 200 x 200 eigenvalues take milliseconds
# Expanders need a handful of restarts; long thin graphs would need thousands and go to shift-invert instead.
_ARPACK: dict[str, Any] = {"ncv": 40, "maxiter": 60, "return_eigenvectors": False}
ZERO = 1e-12  # weights and factors below it are rounding


def groups(schedule: Sequence[Edges], owners: int) -> int:
    """Number of strongly connected components of the union of the whole period."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    source, target, weight = (np.concatenate(column) for column in zip(*schedule))
    ends = source[weight > 0], target[weight > 0]
    union = coo_array((np.ones(len(ends[0])), ends), shape=(owners, owners)).tocsr()
    return int(connected_components(union, directed=True, connection="strong", return_labels=False))


def connected(schedule: Sequence[Edges], owners: int) -> bool:
    """Whether the union of the whole period is strongly connected; of few owners without SciPy, as nodes ask it."""
    if owners > DENSE:
        return groups(schedule, owners) == 1
    hears = np.eye(owners, dtype=np.float32)
    for edges in schedule:
        hears[edges.target, edges.source] += edges.weight > 0
    for _ in range(owners.bit_length()):  # paths twice as long each time
        hears = np.minimum(hears @ hears, 1)
    return bool(hears.all())


def values(edges: Edges, owners: int) -> np.ndarray | None:
    """(owners − 1,) eigenvalues of a symmetric doubly stochastic W without the 1 of the mean; None: too many."""
    symbol = _symbol(edges, owners)
    if symbol is not None:
        return np.sort(symbol.real[1:])
    return np.linalg.eigvalsh(dense(edges, owners))[:-1] if owners <= DENSE else None


def product_norm(steps: Sequence[Edges], owners: int) -> float:
    """Largest factor by which doubly stochastic matrices, applied in this order, leave a disagreement."""
    if owners == 1:
        return 0.0
    symbols = _symbols(steps, owners)
    if symbols is not None:
        return float(np.abs(np.prod(symbols, axis=0))[1:].max())
    if owners <= DENSE:
        return float(np.linalg.norm(_dense_product(steps, owners), 2))
    return _arpack(steps, owners, singular=True)


def product_rate(steps: Sequence[Edges], owners: int) -> float:
    """Second largest eigenvalue modulus of a product of column-stochastic matrices: the rate of push-sum.

    Vectors of sum zero are an invariant subspace of such a product; on it lie all eigenvalues but the 1.
    """
    if owners == 1:
        return 0.0
    if owners <= DENSE:
        return float(np.abs(np.linalg.eigvals(_dense_product(steps, owners))).max())
    return _arpack(steps, owners, singular=False)


def _symbol(edges: Edges, owners: int) -> NDArray[np.complex128] | None:
    """Eigenvalues of a circulant W in Fourier order (the mean first); None for any other W."""
    shift = (edges.target - edges.source) % owners
    first = np.zeros(owners)
    first[shift] = edges.weight
    counts = np.bincount(shift, minlength=owners)
    if not np.isin(counts, (0, owners)).all() or not np.allclose(
        first[shift], edges.weight, rtol=0, atol=ZERO
    ):
        return None
    return np.fft.fft(first)


def _symbols(steps: Sequence[Edges], owners: int) -> np.ndarray | None:
    symbols = []
    for edges in steps:
        symbol = _symbol(edges, owners)
        if symbol is None:
            return None
        symbols.append(symbol)
    return np.asarray(symbols)


def dense(edges: Edges, owners: int) -> np.ndarray:
    """W itself, for few owners."""
    matrix = np.zeros((owners, owners))
    matrix[edges.target, edges.source] = edges.weight
    return matrix


def _dense_product(steps: Sequence[Edges], owners: int) -> np.ndarray:
    """W_last … W_first (I - 11ᵀ/n)."""
    product = np.eye(owners) - 1.0 / owners
    for edges in steps:
        product = dense(edges, owners) @ product
    return product


def _sparse(edges: Edges, owners: int) -> Any:
    from scipy.sparse import csr_array

    return csr_array((edges.weight, (edges.target, edges.source)), shape=(owners, owners))


def _operator(function: Callable[[np.ndarray], np.ndarray], owners: int) -> Any:
    from scipy.sparse.linalg import LinearOperator

    make: Any = LinearOperator  # its type stub knows only the abstract constructor
    return make((owners, owners), matvec=function, dtype=np.float64)


def _start(owners: int) -> np.ndarray:
    """A fixed first vector, so that the same graph always gives the same digits."""
    vector = np.random.default_rng(0).standard_normal(owners)
    return vector - vector.mean()


def extremes(edges: Edges, owners: int) -> tuple[float, float]:
    """The smallest and the largest of `values`, where these are too many."""
    from scipy.sparse import csc_array
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh

    matrix = _sparse(edges, owners)
    start = _start(owners)
    centred = _operator(lambda x: matrix @ (x - x.mean()), owners)
    try:
        ends = eigsh(centred, k=2, which="BE", v0=start, **_ARPACK)
        return float(np.min(ends)), float(np.max(ends))
    except ArpackNoConvergence:
        # A gap too small for Krylov steps means a long thin graph, whose sparse factorisation is cheap. The
        # shift lies just outside [-1, 1], so that the shifted matrix is regular.
        matrix = csc_array(matrix)
        top = eigsh(matrix, k=2, sigma=1 + 1e-6, v0=start + 1.0, return_eigenvectors=False)
        bottom = eigsh(matrix, k=1, sigma=-1 - 1e-6, v0=start, return_eigenvectors=False)
        return float(np.min(bottom)), float(np.min(top))


def _arpack(steps: Sequence[Edges], owners: int, singular: bool) -> float:
    from scipy.sparse.linalg import ArpackNoConvergence, eigs, eigsh

    matrices = [_sparse(edges, owners) for edges in steps]

    def forward(x: np.ndarray) -> np.ndarray:
        x = x - x.mean()
        for matrix in matrices:
            x = matrix @ x
        return x

    def gram(x: np.ndarray) -> np.ndarray:
        x = forward(x)
        for matrix in reversed(matrices):
            x = matrix.T @ x
        return x - x.mean()

    start = _start(owners)
    if np.linalg.norm(forward(start)) < ZERO * np.linalg.norm(start):
        return 0.0  # exact averaging; ARPACK refuses the zero matrix
    operator = _operator(gram if singular else forward, owners)
    try:
        if singular:
            return float(np.sqrt(max(eigsh(operator, k=1, which="LA", v0=start, **_ARPACK)[0], 0.0)))
        return float(np.abs(eigs(operator, k=1, which="LM", v0=start, **_ARPACK)[0]))
    except ArpackNoConvergence as error:
        raise InputError(
            f"topology of {owners} owners: mixes too slowly for its spectral gap to be computed. "
            "Add links, or use 'exponential' or 'random_regular'."
        ) from error
