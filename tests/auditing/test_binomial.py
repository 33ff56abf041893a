import numpy as np
import pytest
from scipy.stats import binom

from canarybank.auditing.rates import CUT, Window, binomial_rows


@pytest.mark.parametrize(
    ("n", "p"),
    [
        (1, [0.0, 0.3, 1.0]),
        (20, [0.0, 1e-9, 0.5, 1.0]),
        (10**6, [1e-4, 2e-4, 5e-4]),
        (10**6, [0.49, 0.5, 0.51]),
        (10**6, [1e-7, 0.3, 1 - 1e-7]),
        (10**9, [1e-4]),
    ],
)
def test_rows_are_binomial_laws(n, p):
    window = Window.around(n, np.array(p))
    for part, start, mass in binomial_rows(window, np.array(p)):
        for rate, first, law in zip(p[part], start, mass, strict=True):
            counts = first + np.arange(len(law))
            assert law == pytest.approx(binom.pmf(counts, n, rate), rel=1e-7, abs=1e-15)
            assert window.low <= first
            assert counts[-1] <= window.high


@pytest.mark.parametrize("n", [5, 100, 10**4, 10**6, 10**9])
@pytest.mark.parametrize("p", [0.0, 1e-9, 1e-6, 1e-3, 0.2, 0.5, 0.9, 1 - 1e-6])
def test_little_lies_outside_a_stretch(n, p):
    ((_, start, mass),) = binomial_rows(Window.around(n, np.array([p])), np.array([p]))
    outside = binom.cdf(start[0] - 1, n, p) + binom.sf(start[0] + mass.shape[1] - 1, n, p)
    assert outside < CUT


def test_parts_cover_all_rows_in_order():
    p = np.linspace(0.1, 0.2, 1500)
    parts = [part for part, _, _ in binomial_rows(Window.around(10**5, p), p)]
    assert len(parts) > 1
    assert np.concatenate([np.arange(1500)[part] for part in parts]).tolist() == list(range(1500))
