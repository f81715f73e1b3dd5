"""Series of latencies whose behaviour is known."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def known_series(name: str) -> NDArray[np.float64]:
    """One of the series that the known changepoints were computed for, milliseconds.

    They are defined with them: 10 ms with 0.05 ms of noise, PCG64(7), and what the name says.
    """
    series = 10 + 0.05 * np.random.Generator(np.random.PCG64(7)).standard_normal(600)
    if name == "warmup":
        series[:40] += 3
        series[40:90] += 1
    elif name == "slowdown":
        series[400:] += 1.5
    elif name == "no_steady":
        series[560:] += 2
    elif name == "throttle":
        series[300:] += np.minimum(2, 0.02 * np.arange(300))
    return series


def ar1(draw: np.random.Generator, count: int, phi: float) -> NDArray[np.float64]:
    """An autoregressive series of order one with unit variance, stationary from the start."""
    from scipy.signal import lfilter

    noise = draw.standard_normal(count) * (1 - phi**2) ** 0.5
    noise[0] /= (1 - phi**2) ** 0.5
    series: NDArray[np.float64] = lfilter([1.0], [1.0, -phi], noise)
    return series


def steady(draw: np.random.Generator, count: int, kind: str, noise: float) -> NDArray[np.int64]:
    """A device that does the same all the time, nanoseconds; 1 in 200 queries takes tenfold."""
    if kind == "ticks":
        ticks = np.round(5.5 + 5.5 * noise * draw.standard_normal(count))
        return whole(np.maximum(ticks, 1) * 1_000)
    relative = {
        "normal": 1 + noise * draw.standard_normal(count),
        "lognormal": draw.lognormal(0, noise, count),
        "student": 1 + noise * np.abs(draw.standard_t(3, count)),
        "pareto": 1 + noise * draw.pareto(2, count),
        "bimodal": 1 + noise * (draw.random(count) < 0.3) + 0.01 * draw.random(count),
        "dependent": np.exp(noise * ar1(draw, count, 0.6)),
    }[kind]
    spiked = np.where(draw.random(count) < 0.005, relative * 10, relative)
    return whole(1e6 * np.maximum(spiked, 0.01))


def whole(latency_ns: NDArray[np.float64]) -> NDArray[np.int64]:
    """A latency trace of whole nanoseconds."""
    rounded: NDArray[np.int64] = np.round(latency_ns).astype(np.int64)
    return rounded
