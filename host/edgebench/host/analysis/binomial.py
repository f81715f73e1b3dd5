"""The binomial distribution, by scipy's special functions.

`scipy.stats` has the distribution too, but importing that module would add 0.6 s of CPU time to the
end of every command that measures.
"""

from __future__ import annotations

import math


def binomial_cdf(k: float, n: int, p: float) -> float:
    """Probability of at most k successes in n trials, each with probability p.

    Source: Abramowitz & Stegun, Handbook of Mathematical Functions (1964), 26.5.24.
    """
    from scipy.special import bdtr

    return float(bdtr(k, n, p))


def binomial_quantile(q: float, n: int, p: float) -> int:
    """Smallest k with `binomial_cdf(k, n, p) >= q`, for q in (0, 1)."""
    from scipy.special import bdtrik

    if n == 0:
        return 0
    # The inverse in real numbers; rounding up may exceed the result by 1, due to its last digits.
    k = math.ceil(float(bdtrik(q, n, p)))
    return k - 1 if k > 0 and binomial_cdf(k - 1, n, p) >= q else k
