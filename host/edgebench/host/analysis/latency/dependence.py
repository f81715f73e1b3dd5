"""Effective count, the number of independent queries with as much information as a series.

Theory of operation. The mean of n dependent values has the same variance as the mean of n / tau
independent values. Here tau = 1 + 2 (r_1 + r_2 + …) is the integrated autocorrelation time. The sum
of estimated correlations does not converge. Geyer's initial positive sequence ends this sum at the
first pair of neighbouring correlations whose sum is not positive. In a reversible process, only
noise can cause such a pair.

A long series is first averaged over blocks. No dependence is lost: dependence within blocks is part
of the variance of the block means, and dependence beyond a block is part of the correlations of the
block means. So tau = (block size · variance of block means / variance of values) · (tau of block
means).

If independent values could also have the estimated tau, tau is set to 1, and the effective count of
n values is n.

An interval is too narrow if the count is too large. `cautious_count` raises an accepted tau by its
standard error, and uses the largest of three estimates. Geyer's sum detects a dependence that is
strong over few lags, but misses a weak dependence over many lags. An example is a tail percentile
on a device that stays for seconds on each of two levels: the series is mostly noise, and only the
mean of the series drifts. So tau is also estimated from the variance of the means of 16 long
blocks, with the factor of Student's t for 16 blocks. For an indicator series, tau is also estimated
from the number of changes, as for a Markov chain of two states. benchmarks/coverage.py lists the
coverage of the intervals.

Source: Geyer, Practical Markov chain Monte Carlo (1992), 3.3; error of tau: Madras & Sokal, The
pivot algorithm (1988), appendix C: Var(tau) = 2 (2 M + 1) / n · tau², M the last lag that counts;
means of blocks: Schmeiser, Batch size effects in the analysis of simulation output (1982), which
finds 10 to 30 blocks enough.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

MAX_CORRELATED_POINTS = 2**16
"""Largest number of points to correlate; their Fourier transforms take 5 ms."""
DIRECT_LAGS = 16
"""Number of lags that are correlated separately, before a Fourier transform computes all lags. For
nearly independent values, Geyer's sequence ends within these lags, which take a tenth of the
time."""
TAU_STANDARD_ERRORS = 2.0
"""A tau that is above 1 by at most this many standard errors may be due to chance."""
BLOCKS = 16
"""Number of long blocks, whose means show dependence over many lags."""
BLOCK_ERRORS = 4.0
"""A tau from long blocks may be due to chance if it is above 1 by at most this many standard
errors. Independent values exceed this limit in 1 of 500 series."""
_STUDENT = 1.182
"""Square of the ratio of the 97.5 % quantiles of Student's t with 15 degrees of freedom, 2.131, and
of the normal distribution, 1.960."""


def cautious_count(values: NDArray[np.float64]) -> float:
    """Lower estimate of the effective count of a series.

    Args:
        values: Shape (n,), in order of time. For a percentile, 1 for each value at or below it,
            else 0.

    Source: see the module's docstring.
    """
    time, error = autocorrelation_time(values)
    if time > 1.0:
        time = max(time * (1 + error), _two_state_time(values))
    return values.size / max(time, _block_time(values))


def autocorrelation_time(values: NDArray[np.float64]) -> tuple[float, float]:
    """Tau by Geyer's sequence, and the relative standard error of tau.

    Tau is 1 if a larger estimate may be due to chance. The effective count of n values is n / tau.

    Args:
        values: Shape (n,), in order of time.

    Source: see the module's docstring.
    """
    count = int(values.size)
    size = -(-count // MAX_CORRELATED_POINTS)
    means = values[: count // size * size].reshape(-1, size).mean(axis=1)
    power = float(np.var(values))
    if power == 0.0 or np.ptp(means) == 0.0:
        return 1.0, 0.0
    time, last_lag = _integrated_time_of(means)
    time *= size * float(np.var(means)) / power
    error = math.sqrt(2 * (2 * last_lag + 1) / means.size)
    return (time if time > 1 + TAU_STANDARD_ERRORS * error else 1.0), error


def _block_time(values: NDArray[np.float64]) -> float:
    """Tau from the means of long blocks; 1 if a larger estimate may be due to chance."""
    size, power = values.size // BLOCKS, float(np.var(values))
    if size < 2 or power == 0.0:
        return 1.0
    means = values[: size * BLOCKS].reshape(BLOCKS, size).mean(axis=1)
    time = size * float(np.var(means, ddof=1)) / power
    # The variance of b means has a relative standard error of sqrt(2 / b).
    is_sure = time > 1 + BLOCK_ERRORS * math.sqrt(2 / BLOCKS)
    return _STUDENT * time if is_sure else 1.0


def _two_state_time(values: NDArray[np.float64]) -> float:
    """Tau of a 0/1 indicator as a Markov chain, (1 + r) / (1 - r) with r = 1 - p01 - p10.

    The result is 1 for values that are not an indicator.
    """
    is_set = values == values.max()
    if not np.all(is_set | (values == values.min())):
        return 1.0
    before, after = is_set[:-1], is_set[1:]
    ones = max(1, int(np.count_nonzero(before)))
    zeros = max(1, before.size - int(np.count_nonzero(before)))
    r = 1 - np.count_nonzero(before & ~after) / ones - np.count_nonzero(~before & after) / zeros
    return float((1 + r) / max(1 - r, 1 / values.size))


def _integrated_time_of(values: NDArray[np.float64]) -> tuple[float, int]:
    """`integrated_time` of a non-constant series; higher lags are computed only if needed."""
    deviations = values - values.mean()
    power = (deviations * deviations).sum()
    correlations = np.ones(min(DIRECT_LAGS, values.size))
    for lag in range(1, correlations.size):
        correlations[lag] = (deviations[:-lag] * deviations[lag:]).sum() / power
        if lag % 2 and correlations[lag - 1] + correlations[lag] <= 0:
            return integrated_time(correlations[: lag + 1])
    return integrated_time(autocorrelations(values))


def autocorrelations(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Autocorrelation of a non-constant series at lags 0…n-1, by Fourier transform."""
    deviations = values - values.mean()
    length = 1 << (2 * values.size - 1).bit_length()
    spectrum = np.fft.rfft(deviations, length)
    products = np.fft.irfft(spectrum * spectrum.conj(), length)[: values.size]
    correlations: NDArray[np.float64] = products / products[0]
    return correlations


def integrated_time(correlations: NDArray[np.float64]) -> tuple[float, int]:
    """Integrated autocorrelation time, and the last lag that contributes to it.

    Source: Geyer (1992): -1 + 2 · sum of the pairs (r_2k + r_2k+1) before the first that is
    not positive.
    """
    pairs = correlations[: correlations.size // 2 * 2].reshape(-1, 2).sum(axis=1)
    ended = np.flatnonzero(pairs <= 0)
    used = int(ended[0]) if ended.size else pairs.size
    return max(float(2 * pairs[:used].sum() - 1), 0.0), max(2 * used - 1, 0)
