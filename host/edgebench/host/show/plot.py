"""Plot of a run with matplotlib: latency, power, temperature and clock on a common time axis."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from edgebench.host.result.run import Run
from edgebench.host.series.envelope import Envelope, Floats, even_edges
from edgebench.host.series.latency_line import above_count, latency_line
from edgebench.host.series.run_series import LatencySeries, RunSeries, SpanKind
from edgebench.protocol.distributions import HOST_DISTRIBUTION, install_command
from edgebench.protocol.errors import UsageError
from edgebench.protocol.record import Phase
from edgebench.protocol.text import printable

if TYPE_CHECKING:
    from matplotlib.figure import Figure

INSTALL = install_command("plot", HOST_DISTRIBUTION)
COLUMNS = 1200
"""Number of intervals of a trace; a figure of default size has fewer columns of pixels."""
_SHADES: dict[object, str] = {SpanKind.THROTTLED: "tab:red", Phase.MEASURING.value: "tab:gray"}


@dataclass(frozen=True, slots=True)
class _Panel:
    """Traces of one quantity."""

    name: str
    """Quantity, and the unit of the axis."""
    scale: float
    """Factor from the unit of the traces to the unit of the axis."""
    traces: Mapping[str, Callable[[Floats], Envelope]]
    """Maps the label of each trace to the function that computes its envelope from interval
    edges."""
    span_s: tuple[float, float]
    apart: str | None = None
    """Reason for a separate time axis; None if the panel has the time axis of the run."""
    latency: LatencySeries | None = None
    """Latencies, for the panel of the latency; None for other panels."""


def plot_run(run: Run, series: RunSeries) -> Figure:
    """Plot the traces of a run in panels with a common time axis and the verdict as title.

    The latency is drawn by intervals with the same number of inferences: a line for p50, a band
    from p10 to p90, and dots for the slowest inferences. Other traces have a line for the mean, and
    a band from the lowest to the highest value. The measuring phase is shaded grey, throttling red.
    Power that was not aligned has a separate time axis.

    Raises:
        UsageError: matplotlib is not installed, or the run has no traces.
    """
    try:
        from matplotlib import pyplot
    except ModuleNotFoundError as exc:
        raise UsageError(f"matplotlib is not installed; to install it: {INSTALL}") from exc
    panels = _panels(series)
    if not panels:
        raise UsageError(f"run {run.run_id} has no traces")
    size = (10, 1 + 2 * len(panels))
    figure, axes = pyplot.subplots(len(panels), squeeze=False, figsize=size, layout="constrained")
    pyplot.close(figure)  # a notebook would show an open figure a second time
    shared: Any = None
    for place, panel in zip(axes[:, 0], panels, strict=True):
        if panel.latency is not None:
            _draw_latency(place, panel.latency, panel.scale)
        edges_s = even_edges(*panel.span_s, COLUMNS)
        for label, envelope_over in panel.traces.items():
            envelope = envelope_over(edges_s)
            # Draw the trace, with lines between the values of a sparse trace.
            has_value = np.isfinite(envelope.mean)
            middle_s = ((envelope.edges_s[:-1] + envelope.edges_s[1:]) / 2)[has_value]
            low, mean, high = (
                curve[has_value] * panel.scale
                for curve in (envelope.low, envelope.mean, envelope.high)
            )
            [line] = place.plot(middle_s, mean, linewidth=1, label=printable(label))
            place.fill_between(middle_s, low, high, color=line.get_color(), alpha=0.3, linewidth=0)
        place.set_ylabel(panel.name)
        if len(panel.traces) > 1:
            place.legend(loc="upper right", fontsize="small")
        if panel.apart is not None:
            place.set_xlabel(f"s from the meter's first sample: {printable(panel.apart)}")
            continue
        for span in series.spans:
            if (colour := _SHADES.get(span.name, _SHADES.get(span.kind))) is not None:
                place.axvspan(span.begin_s, span.end_s, color=colour, alpha=0.15, linewidth=0)
        place.set_xlabel("s from the first counted inference")
        if shared is not None:
            shared.set_xlabel("")
            place.sharex(shared)
        shared = place
    # Model, runtime, device and verdict; dollar signs are escaped, as they begin a formula.
    what = f"{run.model.name} on {run.runtime.name}, {run.device.name}"
    figure.suptitle(printable(f"{what}: {run.marks.label}").replace("$", r"\$"))
    return figure


def _draw_latency(place: Any, latency: LatencySeries, scale: float) -> None:
    """Draw the latencies; the axis may end below the slowest inferences."""
    line = latency_line(latency)
    limits = line.limits
    [drawn] = place.plot(line.middle_s, line.p50_ns * scale, linewidth=1.2, label="p50")
    colour = drawn.get_color()
    place.fill_between(
        line.middle_s,
        line.p10_ns * scale,
        line.p90_ns * scale,
        color=colour,
        alpha=0.3,
        linewidth=0,
    )
    place.scatter(line.middle_s, line.max_ns * scale, s=3, color=colour, alpha=0.5, linewidth=0)
    place.set_ylim(limits.low_ns * scale, limits.high_ns * scale)
    if above := above_count(latency, limits):
        words = f"{above:,} of {len(latency.steady_ns):,} above"
        place.set_title(words, loc="right", fontsize="small")


def _panels(series: RunSeries) -> list[_Panel]:
    """Panels from top to bottom; a panel with a separate time axis comes last."""
    panels: list[_Panel] = []
    power = {channel.channel: channel.envelope for channel in series.power if len(channel.begin_s)}
    if series.latency is not None and series.latency.steady_ns.size:
        panels.append(_Panel("latency, ms", 1e-6, {}, series.span_s, latency=series.latency))
    if power and series.power_apart is None:
        panels.append(_Panel("power, W", 1.0, power, series.span_s))
    for suffix, name, scale in (
        ("temp_c", "temperature, °C", 1.0),
        ("freq_hz", "clock, GHz", 1e-9),
    ):
        sensors = {key: points.envelope for key, points in series.named(suffix).items()}
        if sensors:
            panels.append(_Panel(name, scale, sensors, series.span_s))
    if power and series.power_apart is not None:
        span_s = (
            min(float(channel.begin_s[0]) for channel in series.power if len(channel.begin_s)),
            max(float(channel.end_s[-1]) for channel in series.power if len(channel.begin_s)),
        )
        panels.append(_Panel("power, W", 1.0, power, span_s, series.power_apart))
    return panels
