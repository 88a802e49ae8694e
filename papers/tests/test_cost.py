"""Cost of privacy: constants are found again."""

import numpy as np
import pytest

from coterie.errors import InputError
from papers.cost import Cost, Past, fit, relative_errors


@pytest.mark.parametrize("published", [True, False])
def test_constants_are_found_again(published):
    """With one part in twenty of noise on each run, and both forms on offer, the true one predicts the rest."""
    truth = Cost(first=3.0, second=2e3, published=published)
    rng = np.random.default_rng(0)
    cells = [(n * many, (e,) * many) for many in (2, 5, 10) for n in (500, 2000) for e in (0.5, 1.0, 4.0)]
    runs = [Past(n, e, truth.at(n, e) * (1 + 0.05 * rng.standard_normal())) for n, e in cells]
    found = fit(runs[::2])
    assert found.published == published
    assert np.median(relative_errors(found, runs[1::2])) < 0.15
    other = fit(runs[::2], published=not published)
    assert np.median(relative_errors(other, runs[1::2])) > np.median(relative_errors(found, runs[1::2]))


def test_the_paper_s_form():
    """(√(8N) c₁/n) √Σε⁻² + (8N c₂/n²) Σε⁻², written out."""
    found = Cost(first=2.0, second=5.0, published=True).at(100, (1.0, 0.5))
    spent = 1 + 4
    assert np.isclose(found, np.sqrt(16) * 2 / 100 * np.sqrt(spent) + 16 * 5 / 100**2 * spent)


def test_fitting_refuses_nonsense():
    with pytest.raises(InputError, match="at least two"):
        fit([Past(10, (1.0,), 0.1)])
    with pytest.raises(InputError, match="cost"):
        fit([Past(10, (1.0,), 0.1), Past(10, (1.0,), -0.1)])
