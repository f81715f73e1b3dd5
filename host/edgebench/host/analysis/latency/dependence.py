"""Number of independent queries that a series is worth.

Theory of operation. The variance of a mean over n dependent values is that over n / tau
independent ones, with tau = 1 + 2 (r_1 + r_2 + …), the integrated autocorrelation time. The sum of
estimated correlations never settles; Geyer's initial positive sequence ends it where the sum of
two neighbours is not positive any more, which for a reversible process only noise can do.

A long series is first averaged over blocks. That loses nothing: dependence within blocks is in the
variance of their means, and what reaches further is in their correlations:
tau = (block size · variance of block means / variance of values) · (tau of block means).

A tau that independence would also give is not believed; then n values are worth n.

Source: Geyer, Practical Markov chain Monte Carlo (1992), 3.3; error of tau: Madras & Sokal, The
pivot algorithm (1988), appendix C: Var(tau) = 2 (2 M + 1) / n · tau², M the last lag that counts.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

MAX_POINTS = 2**16
"""Points whose correlations are computed; the Fourier transforms take 5 ms."""
STANDARD_ERRORS = 2.0
"""Distance of tau from 1 that may be chance."""


def effective_count(values: NDArray[np.float64]) -> float:
    """Number of independent values that a series is worth, at most its length.

    Args:
        values: Shape (n,), in order of time; for a percentile the indicator "at or below it".

    Source: see the head of this module.
    """
    count = int(values.size)
    size = -(-count // MAX_POINTS)
    means = values[: count // size * size].reshape(-1, size).mean(axis=1)
    power = float(np.var(values))
    if power == 0.0 or np.ptp(means) == 0.0:
        return float(count)
    correlations = autocorrelations(means)
    time, last_lag = integrated_time(correlations)
    time *= size * float(np.var(means)) / power
    doubt = STANDARD_ERRORS * math.sqrt(2 * (2 * last_lag + 1) / means.size)
    return count / time if time > 1 + doubt else float(count)


def autocorrelations(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Correlation of a series, not constant, with itself at lags 0…n-1, by Fourier transform.

    As statsmodels.tsa.stattools.acf(fft=True), whose import takes two seconds.
    """
    deviations = values - values.mean()
    length = 1 << (2 * values.size - 1).bit_length()
    spectrum = np.fft.rfft(deviations, length)
    products = np.fft.irfft(spectrum * spectrum.conj(), length)[: values.size]
    correlations: NDArray[np.float64] = products / products[0]
    return correlations


def integrated_time(correlations: NDArray[np.float64]) -> tuple[float, int]:
    """Integrated autocorrelation time, and the last lag that counts.

    Source: Geyer (1992): -1 + 2 · sum of the pairs (r_2k + r_2k+1) before the first that is
    not positive.
    """
    pairs = correlations[: correlations.size // 2 * 2].reshape(-1, 2).sum(axis=1)
    ended = np.flatnonzero(pairs <= 0)
    used = int(ended[0]) if ended.size else pairs.size
    return max(float(2 * pairs[:used].sum() - 1), 0.0), max(2 * used - 1, 0)
