"""Stored runs for use from Python: numbers, traces, tags and note."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timezone
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.host.analysis.compare.runs import RunComparison, compare_groups, compare_pairs
from edgebench.host.result.document import Document
from edgebench.host.result.measured import Metrics
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.store.address import find_each, find_runs, list_named
from edgebench.host.store.annotations import Annotations, read_annotations
from edgebench.host.store.index import RunFilter, RunSummary, list_runs
from edgebench.host.store.layout import QUERIES_FILE, TELEMETRY_FILE, Store
from edgebench.host.store.occasions import spread_in
from edgebench.protocol.device import DeviceDescription
from edgebench.protocol.errors import NoSecondSide, StoreError
from edgebench.protocol.record import ModelFacts

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

    from edgebench.host.series.run_series import RunSeries


@dataclass(frozen=True, kw_only=True)
class StoredSet(RunSet):
    """Set of runs of a model, displayed as a table in a notebook."""

    @classmethod
    def of(cls, one: RunSet) -> StoredSet:
        """Convert a `RunSet`."""
        return cls(**{field.name: getattr(one, field.name) for field in fields(one)})

    def __repr__(self) -> str:
        return f"<StoredSet {self.set_id} of {len(self.runs)} runs: {self.verdict.state.value}>"

    def _repr_html_(self) -> str:
        """Display in a notebook: verdict, headline with its interval, and each run."""
        from edgebench.host.show.notebook import set_html

        return set_html(self)


class StoredRun:
    """A run in the store, with its traces."""

    def __init__(self, store: Store, run_id: str) -> None:
        self._store = store
        self.id = run_id

    def __repr__(self) -> str:
        return f"<StoredRun {self.id}: {self.verdict}>"

    def _repr_html_(self) -> str:
        """Display in a notebook: verdict, numbers with their intervals, and a picture."""
        from edgebench.host.show.notebook import run_html

        try:
            return run_html(self.result, self.series.latency)
        except StoreError as exc:  # the numbers are shown without the picture
            return run_html(self.result, None, missing=str(exc))

    @property
    def path(self) -> Path:
        """Directory of the run; that of a run in a bundle is removed when this process ends."""
        return self._store.directory(self.id)

    @cached_property
    def result(self) -> Run:
        """All facts and computed numbers, as attributes."""
        return self._store.run(self.id)

    @cached_property
    def document(self) -> Document:
        """The stored run.json."""
        return self._store.document(self.id)

    @property
    def metrics(self) -> Metrics:
        """The computed numbers."""
        return self.result.metrics

    @property
    def verdict(self) -> str:
        """Verdict on the headline: valid, suspect or invalid."""
        return self.result.headline_state.value

    @property
    def model(self) -> ModelFacts:
        """Name and digest of the model, and further facts about it."""
        return self.result.model

    @property
    def device(self) -> DeviceDescription:
        """Description of the device that the run was made on."""
        return self.result.device

    @property
    def created(self) -> datetime:
        """Time at which the run was made, UTC."""
        return datetime.fromisoformat(self.result.created_utc).astimezone(timezone.utc)

    @property
    def tags(self) -> tuple[str, ...]:
        """Current tags of the run."""
        return self._annotations().tags

    @property
    def note(self) -> str | None:
        """Current note of the run."""
        return self._annotations().note

    def _annotations(self) -> Annotations:
        return read_annotations(self._store.document_path(self.id).parent)

    @cached_property
    def queries(self) -> pd.DataFrame:
        """One row per inference, including the warm-up; `latency_ns` covers only the invocation."""
        frame = self._frame(QUERIES_FILE)
        frame["latency_ns"] = frame["invoke_end_ns"] - frame["invoke_start_ns"]
        frame["end_to_end_ns"] = frame["end_ns"] - frame["scheduled_ns"]
        return frame

    @cached_property
    def telemetry(self) -> pd.DataFrame:
        """Sensor readings: time_ns, sensor, value."""
        return self._frame(TELEMETRY_FILE)

    def _frame(self, name: str) -> pd.DataFrame:
        from edgebench.host.store.files import read_frame

        frame: pd.DataFrame = read_frame(self.path, name).to_pandas()
        return frame

    @cached_property
    def series(self) -> RunSeries:
        """All traces of the run on one axis: seconds since the first timed inference."""
        from edgebench.host.series.run_series import read_series

        return read_series(self.path, self.result)

    @cached_property
    def power(self) -> pd.DataFrame:
        """Power over time: one row per block of the meter's samples.

        Columns: `time_s`, the middle of the block on the axis of `series`; `duration_s`;
        `channel`; `power_w`, the mean; `power_w_min` and `power_w_max` of the samples. Empty
        without a meter. If the meter's clock was not aligned with the device's, times count from
        the meter's first sample, and `attrs["power_apart"]` gives the reason.
        """
        import numpy as np
        import pandas as pd

        series = self.series
        frames = [
            pd.DataFrame(
                {
                    "time_s": (one.begin_s + one.end_s) / 2,
                    "duration_s": one.end_s - one.begin_s,
                    "channel": np.full(len(one.begin_s), one.channel, object),
                    "power_w": one.mean_w,
                    "power_w_min": one.low_w,
                    "power_w_max": one.high_w,
                }
            )
            for one in series.power
        ]
        columns = ["time_s", "duration_s", "channel", "power_w", "power_w_min", "power_w_max"]
        frame = pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)
        frame.attrs["power_apart"] = series.power_apart
        return frame

    def plot(self) -> Figure:
        """Latency, power, temperature and clock over time; needs matplotlib.

        Raises:
            UsageError: matplotlib is not installed, or the run has no traces.
            StoreError: a trace cannot be read.
        """
        from edgebench.host.show.plot import plot_run

        return plot_run(self.result, self.series)

    def power_samples(
        self, begin_s: float | None = None, end_s: float | None = None
    ) -> pd.DataFrame:
        """Every sample of the meter between two times: `time_s`, `channel`, `power_w`.

        An hour of a fast meter has hundreds of millions of samples, so select a part of it.

        Args:
            begin_s: First time, as in `power`; None: the beginning of the recording.
            end_s: Last time; None: the end of the recording.
        """
        import numpy as np
        import pandas as pd

        from edgebench.host.series.run_series import read_power_samples

        samples = read_power_samples(self.path, self.result, begin_s, end_s)
        frames = [
            pd.DataFrame(
                {
                    "time_s": points.time_s,
                    "channel": np.full(len(points), channel, object),
                    "power_w": points.value,
                }
            )
            for channel, points in samples.items()
        ]
        columns = ["time_s", "channel", "power_w"]
        return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame(columns=columns)


def runs_frame(store: Store, names: Sequence[str], wanted: RunFilter) -> pd.DataFrame:
    """Stored runs, one row each, oldest first; see `Lab.runs`.

    Raises:
        UsageError: no such run.
    """
    import pandas as pd

    rows = list_named(store, names, wanted) if names else list_runs(store, wanted)
    columns = list(RunSummary.__dataclass_fields__)
    frame = pd.DataFrame([asdict(row) for row in rows], columns=columns)
    frame["created"] = pd.to_datetime(frame["created_utc"], utc=True, errors="coerce")
    return frame


def compare_stored(
    store: Store,
    baseline: Sequence[str],
    candidate: Sequence[str] | None,
    *,
    metrics: Sequence[str] | None,
    margin_ratio: float | None,
    allowed: Sequence[str],
) -> list[RunComparison]:
    """Compare stored runs; one result per metric. See `Lab.compare`.

    Raises:
        UsageError: no such run or metric, or the runs differ in more than the model.
        MeasurementError: a run is invalid; for pairs, all pairs have an invalid run.
    """
    if candidate is None:
        runs = [address.run() for address in find_each(store, baseline)]
        if len(runs) == 1 and (pair := runs[0].pair) and pair.comparison_id not in baseline:
            raise NoSecondSide(
                f"a comparison needs a second side: {runs[0].run_id} is only one run of a pair",
                pair.comparison_id,
            )
        if any(run.pair is None for run in runs):
            raise NoSecondSide(
                f"a comparison needs a second side: {', '.join(baseline)} has no pairs",
                sides=tuple(baseline) if len(baseline) == 2 else (),
            )
        return compare_pairs(runs, metrics=metrics, margin_ratio=margin_ratio, allowed=allowed)
    before, after = (
        [address.run() for name in names for address in find_runs(store, name)]
        for names in (baseline, candidate)
    )
    return compare_groups(
        [(before, after)],
        metrics=metrics,
        margin_ratio=margin_ratio,
        allowed=allowed,
        spread_of=partial(spread_in, store),
    )
