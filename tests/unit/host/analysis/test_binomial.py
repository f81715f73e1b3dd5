"""The binomial distribution by special functions, compared with scipy's own."""

from __future__ import annotations

import pytest
from scipy.stats import binom

from edgebench.host.analysis.binomial import binomial_cdf, binomial_quantile


@pytest.mark.parametrize("n", [0, 1, 2, 5, 20, 333, 1024, 48_632, 10**6])
@pytest.mark.parametrize("p", [0.5, 0.9, 0.99, 0.999])
def test_quantiles_and_chances_are_those_of_scipy(n: int, p: float) -> None:
    """Otherwise an interval would be one rank too narrow or too wide."""
    for q in (0.005, 0.025, 0.975, 0.995):
        quantile = binomial_quantile(q, n, p)
        assert quantile == int(binom.ppf(q, n, p))
        if n:
            assert binomial_cdf(quantile, n, p) == pytest.approx(binom.cdf(quantile, n, p))
