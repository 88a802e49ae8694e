"""Feature maps: public by construction, bounded whatever the row, the same in chunks."""

import numpy as np
import pytest

from coterie.errors import InputError
from coterie.experiments.experiment import Experiment
from coterie.experiments.prepare import feature_map
from coterie.problems import features
from coterie.problems.feature_steps import FeatureOptions, pipeline
from coterie.problems.features import (
    FeatureMap,
    PublicRows,
    compose,
    mean_pool,
    pca,
    piecewise_linear,
    random_fourier,
    scale_by_bounds,
    unit_ball,
)
from coterie.problems.table import Table

BOUNDS = np.array([[0.0, 10.0], [-5.0, 5.0], [0.0, 1.0], [2.0, 2.0]])


def rows(count: int = 50) -> np.ndarray:
    """Ordinary rows, and rows far outside of the bounds, huge, NaN and infinite."""
    x = np.random.default_rng(0).uniform(-3, 9, (count, 4)).astype(np.float32)
    x[1], x[2], x[3], x[4, 0], x[5] = 1e30, -3e38, np.nan, np.inf, 0.0
    return x


def table(**changes: object) -> Table:
    x = rows()
    fields = {"name": "t", "task": "binary", "x": x, "y": np.ones(50), "x_test": x, "y_test": np.ones(50)}
    return Table(**{**fields, "columns": ("a", "b", "c", "d"), "bounds": BOUNDS, **changes})  # type: ignore[arg-type]


BOUNDED = [
    scale_by_bounds(BOUNDS),
    scale_by_bounds(BOUNDS, low=0.0),
    unit_ball(),
    unit_ball(intercept=1.0),
    unit_ball(intercept=0.5, surface=True),
    unit_ball(intercept=0.5, steady=True),
    unit_ball(intercept=0.5, surface=True, steady=True),
    random_fourier(20, 2.0, 0),
    piecewise_linear(BOUNDS, 5),
    compose(scale_by_bounds(BOUNDS), unit_ball(1.0)),
    pipeline("scale,piecewise:4,ball", table()),
]


@pytest.mark.parametrize("step", BOUNDED, ids=lambda step: step.name)
def test_outputs_are_float32_within_the_declared_norm(step: FeatureMap) -> None:
    out = step.apply(rows())
    assert out.dtype == np.float32
    assert np.isfinite(out).all()
    assert np.linalg.norm(out.astype(np.float64), axis=1).max() <= step.norm_bound * (1 + 1e-6)


@pytest.mark.parametrize("step", BOUNDED, ids=lambda step: step.name)
def test_a_row_depends_on_itself_alone_and_chunks_do_not_matter(
    step: FeatureMap, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = step.apply(rows())
    monkeypatch.setattr(features, "_CHUNK", 7)
    np.testing.assert_allclose(step.apply(rows()), whole, atol=1e-6)
    np.testing.assert_allclose(step.apply(rows()[10:11]), whole[10:11], atol=1e-6)
    assert step.apply(rows()[:0]).shape == (0, whole.shape[1])


def test_scaling_uses_the_declared_bounds() -> None:
    x = np.array([[5.0, 5.0, 0.25, 2.0], [20.0, -9.0, 1.0, 7.0]], np.float32)
    np.testing.assert_allclose(scale_by_bounds(BOUNDS).apply(x), [[0, 1, -0.5, 0], [1, -1, 1, 0]])
    np.testing.assert_allclose(scale_by_bounds(BOUNDS, 0.0).apply(x), [[0.5, 1, 0.25, 0], [1, 0, 1, 0]])
    images = np.full((2, 3, 3), 255, np.uint8)
    assert (scale_by_bounds(np.array([[0, 255]])).apply(images) == np.ones((2, 3, 3))).all()


def test_ball_projects_with_the_intercept_inside() -> None:
    x = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]], np.float32)
    np.testing.assert_allclose(unit_ball().apply(x), [[0.6, 0.8], [0.3, 0.4], [0, 0]], rtol=1e-6)
    np.testing.assert_allclose(unit_ball(surface=True).apply(x), [[0.6, 0.8], [0.6, 0.8], [0, 0]], rtol=1e-6)
    expected = np.array([3.0, 4.0, 1.0]) / np.sqrt(26)
    np.testing.assert_allclose(unit_ball(intercept=1.0).apply(x)[0], expected, rtol=1e-6)


def test_a_steady_intercept_is_the_same_for_long_rows_and_short() -> None:
    x = np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0], [np.nan, 1.0]], np.float32)
    expected = [[0.48, 0.64, 0.6], [0.24, 0.32, 0.6], [0, 0, 0.6], [0, 0, 0]]
    np.testing.assert_allclose(unit_ball(intercept=0.6, steady=True).apply(x), expected, atol=1e-6)
    for intercept in (None, 0.0, 1.0):
        with pytest.raises(InputError, match="intercept=.* must be between 0 and 1"):
            unit_ball(intercept=intercept, steady=True)


def test_only_a_quantity_has_a_steady_intercept() -> None:
    classes, quantity = (
        feature_map(Experiment(features="ball"), of).apply(rows())
        for of in (table(), table(task="regression"))
    )
    np.testing.assert_array_equal(classes, pipeline("ball", table(), FeatureOptions()).apply(rows()))
    finite = np.isfinite(rows()).all(axis=1)
    np.testing.assert_allclose(quantity[finite, -1], np.sqrt(0.5), rtol=1e-6)


def test_pooling_takes_means_of_tiles() -> None:
    image = np.arange(16, dtype=np.float32).reshape(1, 4, 4)
    np.testing.assert_allclose(mean_pool(2).apply(image), [[2.5, 4.5, 10.5, 12.5]])
    assert mean_pool(2).apply(np.zeros((3, 4, 6, 3))).shape == (3, 2 * 3 * 3)
    with pytest.raises(InputError, match="factor=3"):
        mean_pool(3).apply(image)


def test_fourier_features_approximate_the_kernel() -> None:
    x = np.random.default_rng(0).normal(size=(30, 5)).astype(np.float32)
    out = random_fourier(40_000, 2.0, seed=3).apply(x)
    np.testing.assert_allclose(np.linalg.norm(out, axis=1), 1.0, rtol=1e-5)
    distance = np.square(x[:, None] - x[None]).sum(-1)
    # 20,000 directions: standard error <= 1/√20000 = 0.007; six of them, for 435 pairs
    np.testing.assert_allclose(out @ out.T, np.exp(-distance / 8.0), atol=0.043)
    assert not np.allclose(out, random_fourier(40_000, 2.0, seed=4).apply(x))


def test_piecewise_basis_sums_to_one_and_contains_the_line() -> None:
    x = np.array([[0.0, -5.0, 1.0, 2.0], [3.3, 4.0, 0.0, 2.0], [99.0, 0.0, 1.0, 2.0]], np.float32)
    out = piecewise_linear(BOUNDS, 5).apply(x)
    np.testing.assert_array_equal(out[:, 0], x[:, 2])  # declared [0, 1]: passed through
    hats = out[:, 1:].reshape(3, 3, 5)
    np.testing.assert_allclose(hats.sum(axis=2), 1.0, rtol=1e-6)
    assert ((hats > 0).sum(axis=2) <= 2).all()
    np.testing.assert_allclose(hats[:, 0] @ np.linspace(0, 10, 5), [0.0, 3.3, 10.0], rtol=1e-5)
    everything = piecewise_linear(BOUNDS, 5, binary=np.zeros(4, bool)).apply(x)
    assert everything.shape == (3, 20)


def test_pca_equals_scikit_learn_on_public_rows() -> None:
    from sklearn.decomposition import PCA

    rng = np.random.default_rng(0)
    public, private = rng.normal(size=(200, 6)) * np.arange(1, 7), rng.normal(size=(20, 6))
    found = pca(PublicRows(public, "a published survey"), 3).apply(private)
    expected = PCA(3).fit(public).transform(private)
    np.testing.assert_allclose(np.abs(found), np.abs(expected), rtol=1e-3, atol=1e-4)


def test_pca_in_units_of_spread_keeps_the_mean() -> None:
    from sklearn.decomposition import TruncatedSVD

    rng = np.random.default_rng(0)
    public, private = 3 + rng.normal(size=(200, 6)) * np.arange(1, 7), 3 + rng.normal(size=(20, 6))
    public[:, 2] = 7.0  # constant: left as it is
    width = np.where(np.arange(6) == 2, 1.0, public.std(0))
    reference = TruncatedSVD(3, algorithm="arpack").fit(public / width)
    options = FeatureOptions(public_rows=PublicRows(public, "a published survey"), spread=True)
    found = pipeline("pca:3", table(), options).apply(private)
    np.testing.assert_allclose(
        np.abs(found), np.abs(reference.transform(private / width)), rtol=1e-3, atol=1e-4
    )


def test_fitting_on_private_rows_is_an_error() -> None:
    with pytest.raises(InputError, match=r"ndarray: fitting on private rows is a release .* PublicRows\("):
        pca(rows(), 2)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="declared_by"):
        pca(PublicRows(rows(), ""), 2)
    with pytest.raises(InputError, match=r"pca:2.*needs public_rows"):
        pipeline("scale,pca:2", table())  # the table's test rows are not taken unasked
    with pytest.raises(InputError, match="components=9"):
        pca(PublicRows(np.zeros((50, 4)), "a published survey"), 9)


def test_pipelines_follow_their_names() -> None:
    public = PublicRows(np.random.default_rng(1).uniform(0, 1, (60, 4)), "a published survey")
    x = rows()[10:]
    assert pipeline("none", table()).apply(x).shape == (40, 4)
    assert pipeline("scale, ball", table()).apply(x).shape == (40, 5)
    assert pipeline(["scale", "ball"], table(), FeatureOptions(intercept=None)).apply(x).shape == (40, 4)
    assert pipeline("scale,fourier:30", table()).apply(x).shape == (40, 30)
    assert pipeline("scale,pca:2,ball", table(), FeatureOptions(public_rows=public)).apply(x).shape == (40, 3)
    assert pipeline("scale,pca:2,ball", table(), FeatureOptions(public_rows=public)).norm_bound == 1.0
    by_range = pipeline("piecewise:5", table()).apply(x)
    np.testing.assert_allclose(
        pipeline("scale,piecewise:5", table()).apply(x)[:, 1:11], by_range[:, 1:11], atol=1e-5
    )
    images = table(x=np.zeros((2, 4, 4)), bounds=np.array([[0.0, 255.0]]))
    assert pipeline("pool,scale,piecewise:3", images).apply(images.x).shape == (2, 12)


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("whiten", "features='whiten': unknown"),
        ("pca", "needs a whole number"),
        ("fourier:x", "needs a whole number"),
        ("ball:3", "takes no number"),
        ("ball,scale", "Put it before"),
        ("fourier:3", "must be even"),
    ],
)
def test_unusable_pipelines_are_refused(names: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        pipeline(names, table())


def test_unusable_bounds_are_refused() -> None:
    with pytest.raises(InputError, match=r"bounds of shape \(2,\)"):
        scale_by_bounds(np.zeros(2))
    with pytest.raises(InputError, match="bounds for 2 columns, but rows have 4"):
        scale_by_bounds(BOUNDS[:2]).apply(rows())
    with pytest.raises(InputError, match=r"low=0\.5"):
        scale_by_bounds(BOUNDS, 0.5)
