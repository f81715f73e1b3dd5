"""The results in a store, for use from Python: runs with their traces, sets, comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime, timezone
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING

from edgebench.host.analysis.compare.runs import (
    ComparisonOptions,
    RunComparison,
    compare_groups,
    compare_pairs,
)
from edgebench.host.analysis.run_set import find_sets
from edgebench.host.campaign.campaign import Campaign
from edgebench.host.campaign.journal import LAST
from edgebench.host.options.values import name_list
from edgebench.host.result.document import Document
from edgebench.host.result.measured import Metrics
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.store.address import find_each, find_run, find_runs, list_named
from edgebench.host.store.annotations import Annotations, read_annotations
from edgebench.host.store.bundle import default_name, write_bundle
from edgebench.host.store.bundle_file import open_store
from edgebench.host.store.index import (
    HistorySelection,
    RunFilter,
    RunSelection,
    RunSummary,
    list_runs,
)
from edgebench.host.store.layout import QUERIES_FILE, TELEMETRY_FILE, Store
from edgebench.host.store.occasions import spread_in
from edgebench.protocol.device import DeviceDescription
from edgebench.protocol.errors import NoSecondSide, NoSuchCampaign, StoreError
from edgebench.protocol.record import ModelFacts

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure
    from typing_extensions import Unpack

    from edgebench.host.analysis.history.changes import LevelChange
    from edgebench.host.analysis.history.history import History
    from edgebench.host.series.run_series import LatencySeries, RunSeries

Names = str | Path | Sequence[str | Path]
"""A name that selects runs, or several such names."""


@dataclass(frozen=True, kw_only=True)
class StoredSet(RunSet):
    """Set of runs of a model, displayed as a table and a picture in a notebook."""

    stored: tuple[StoredRun, ...] = field(default=(), repr=False, compare=False)

    @classmethod
    def of(cls, run_set: RunSet, stored: Sequence[StoredRun] = ()) -> StoredSet:
        """Convert a `RunSet`; keep only the runs in `stored` that count in the set."""
        own = {each.name: getattr(run_set, each.name) for each in fields(run_set)}
        counted = {run.run_id for run in run_set.counted}
        return cls(**own, stored=tuple(run for run in stored if run.id in counted))

    def __repr__(self) -> str:
        return f"<StoredSet {self.set_id} of {len(self.runs)} runs: {self.verdict.state.value}>"

    def _repr_html_(self) -> str:
        """Display in a notebook: verdict, headline with its interval, each run, and a picture."""
        from edgebench.host.show.notebook import set_html

        return set_html(self, self.latencies)

    @property
    def latencies(self) -> list[LatencySeries]:
        """Latencies of the runs that count in the set; empty if a file cannot be read."""
        try:
            latencies = [run.series.latency for run in self.stored]
        except StoreError:  # the numbers are shown without the picture
            return []
        return [latency for latency in latencies if latency is not None]


class StoredSets(list[StoredSet]):
    """Sets of runs, displayed in a notebook with their main result."""

    def _repr_html_(self) -> str:
        """Display in a notebook: the main result, and each set."""
        from edgebench.host.show.notebook import sets_html

        return sets_html(self, [run_set.latencies for run_set in self])


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
        """Directory of the run; for a run in a bundle, it is removed when this process ends."""
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
        """Verdict on the main result of the run: valid, suspect or invalid."""
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
        """Table with a row per inference, warm-up included; `latency_ns` excludes tensor copies."""
        frame = self._frame(QUERIES_FILE)
        frame["latency_ns"] = frame["invoke_end_ns"] - frame["invoke_start_ns"]
        frame["end_to_end_ns"] = frame["end_ns"] - frame["scheduled_ns"]
        return frame

    @cached_property
    def telemetry(self) -> pd.DataFrame:
        """Sensor readings, with the columns `time_ns`, `sensor` and `value`."""
        return self._frame(TELEMETRY_FILE)

    def _frame(self, name: str) -> pd.DataFrame:
        from edgebench.host.store.files import read_frame

        frame: pd.DataFrame = read_frame(self.path, name).to_pandas()
        return frame

    @cached_property
    def series(self) -> RunSeries:
        """All traces of the run on a common time axis: seconds since the first timed inference."""
        from edgebench.host.series.run_series import read_series

        return read_series(self.path, self.result)

    @cached_property
    def power(self) -> pd.DataFrame:
        """Power over time, with a row per block of the meter's samples.

        The columns are:

        - `time_s`: middle of the block, on the time axis of `series`
        - `duration_s`: duration of the block
        - `channel`: name of the channel
        - `power_w`: mean of the samples
        - `power_w_min`, `power_w_max`: extremes of the samples

        The table is empty for a run without a meter. If the meter's clock was not aligned with the
        device's clock, times count from the meter's first sample. `attrs["power_apart"]` then gives
        the reason.
        """
        import numpy as np
        import pandas as pd

        series = self.series
        frames = [
            pd.DataFrame(
                {
                    "time_s": (channel.begin_s + channel.end_s) / 2,
                    "duration_s": channel.end_s - channel.begin_s,
                    "channel": np.full(len(channel.begin_s), channel.channel, object),
                    "power_w": channel.mean_w,
                    "power_w_min": channel.low_w,
                    "power_w_max": channel.high_w,
                }
            )
            for channel in series.power
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
        """Every sample of the meter between two times; columns: `time_s`, `channel`, `power_w`.

        A fast meter records hundreds of millions of samples per hour, so select a part of the
        recording.

        Args:
            begin_s: Start of the interval, on the time axis of `power`. None selects the beginning
                of the recording.
            end_s: End of the interval. None selects the end of the recording.
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


class StoredResults:
    """The results in a store or in a bundle; no device is needed."""

    def __init__(self, store: str | Path | None = None) -> None:
        """Open the store.

        Args:
            store: Directory of the results, or a bundle, which is read-only; None: the store of
                this user.
        """
        self.store = open_store(Path(store) if store is not None else None)

    def runs(self, *names: str | Path, **selected: Unpack[RunSelection]) -> pd.DataFrame:
        """List stored runs, a row per run, oldest first; column `created` is the run's time in UTC.

        Args:
            *names: Bundles, tags, sets, or runs (see `run`). Without names, all runs of the store
                are listed.
            **selected: `model` and `device` are names, or patterns such as `digits_*`. `tag` is a
                tag. `since` is the earliest time; a time without a zone is local time. `last` is
                the number of the newest runs.

        Raises:
            UsageError: no such run.
        """
        import pandas as pd

        wanted = RunFilter(**selected)
        named = name_list(names)
        rows = list_named(self.store, named, wanted) if named else list_runs(self.store, wanted)
        columns = list(RunSummary.__dataclass_fields__)
        frame = pd.DataFrame([asdict(row) for row in rows], columns=columns)
        frame["created"] = pd.to_datetime(frame["created_utc"], utc=True, errors="coerce")
        return frame

    def run(self, name: str | Path = "last") -> StoredRun:
        """Find a stored run by its id, a unique part of its id, a tag, a directory or a bundle.

        Raises:
            UsageError: no such run.
        """
        address = find_run(self.store, str(name))
        return StoredRun(address.store, address.run_id)

    def sets(self, runs: Sequence[StoredRun]) -> StoredSets:
        """Group runs into sets of the same model, each with a confidence interval over its runs."""
        sets = find_sets(run.result for run in runs)
        return StoredSets(StoredSet.of(run_set, runs) for run_set in sets)

    def bundle(
        self, runs: Names, path: str | Path | None = None, *, is_annotated: bool = True
    ) -> Path:
        """Write runs to a bundle, a file whose path can be used in place of the name of a run.

        Args:
            runs: Name of a run, set, tag, directory or bundle, or several such names.
            path: `.zip` file to write, which must not exist. None selects a file in the working
                directory that is named after the runs.
            is_annotated: Whether to include tags and notes.

        Raises:
            UsageError: there is no such run, or the file exists, or its suffix is not `.zip`.
            StoreError: the file cannot be written.
        """
        addresses = [address for name in name_list(runs) for address in find_runs(self.store, name)]
        target = Path(path) if path is not None else Path(default_name(addresses))
        write_bundle(target, addresses, is_annotated=is_annotated)
        return target

    def history(
        self,
        *,
        runs: Sequence[str] = (),
        metric: str | None = None,
        margin_ratio: float | None = None,
        **selected: Unpack[RunSelection],
    ) -> list[History]:
        """History of a metric for each combination of model, device and settings, with changes.

        Args:
            runs: Ids, sets or tags of runs. Only histories that contain these runs are returned. If
                empty, all histories are returned.
            metric: Key of the metric, such as `latency_ns.p50` or `energy_j`. None selects the
                headline of the runs.
            margin_ratio: Largest change for the worse that is ignored. None selects 1 %.
            **selected: The same selection as in `runs`.

        Raises:
            UsageError: there are no such runs, the metric is unknown, or neither higher nor lower
                values of the metric are defined as better.
        """
        from edgebench.host.store.history import read_histories

        wanted = RunFilter(**selected)
        return read_histories(
            self.store, wanted, runs=runs, metric=metric, margin_ratio=margin_ratio
        )

    def changes(
        self,
        since: datetime,
        *,
        metric: str | None = None,
        margin_ratio: float | None = None,
        **selected: Unpack[HistorySelection],
    ) -> tuple[list[LevelChange], list[History]]:
        """Changes of a metric since a time, worst first, and all histories with runs since then.

        Args:
            since: The time; without a time zone, in local time.
            metric: See `history`.
            margin_ratio: See `history`.
            **selected: model, device and tag; see `runs`.

        Raises:
            UsageError: there are no such runs, the metric is unknown, or neither higher nor lower
                values of the metric are defined as better.
        """
        from edgebench.host.store.history import read_changes

        wanted = RunFilter(**selected)
        return read_changes(self.store, wanted, since, metric=metric, margin_ratio=margin_ratio)

    def compare(
        self, baseline: Names, candidate: Names | None = None, **options: Unpack[ComparisonOptions]
    ) -> list[RunComparison]:
        """Compare stored runs, which are named in the same way as in `runs`; one result per metric.

        Args:
            baseline: The runs of the first side. Without a candidate, `baseline` is a name of runs
                of `bench_against`: the id of their comparison, such as `pairs-1f2e3d4c`.
            candidate: The runs of the second side.
            **options: metrics, margin_ratio, allowed; see `ComparisonOptions`.

        Raises:
            UsageError: no such run or metric, or the runs differ in more than the model.
            MeasurementError: a run is invalid; in a comparison in pairs, every pair has an invalid
                run.
        """
        before = name_list(baseline)
        metrics, allowed = options.get("metrics"), name_list(options.get("allowed", ()))
        paths, margin_ratio = name_list(metrics) if metrics else None, options.get("margin_ratio")
        if candidate is not None:
            sides = [
                [address.run() for name in names for address in find_runs(self.store, name)]
                for names in (before, name_list(candidate))
            ]
            return compare_groups(
                [(sides[0], sides[1])],
                metrics=paths,
                margin_ratio=margin_ratio,
                allowed=allowed,
                spread_of=partial(spread_in, self.store),
            )
        runs = [address.run() for address in find_each(self.store, before)]
        if len(runs) == 1 and (pair := runs[0].pair) and pair.comparison_id not in before:
            raise NoSecondSide(
                f"a comparison needs a second side: {runs[0].run_id} is only one run of a pair",
                pair.comparison_id,
            )
        if any(run.pair is None for run in runs):
            raise NoSecondSide(
                f"a comparison needs a second side: {', '.join(before)} has no pairs",
                sides=tuple(before) if len(before) == 2 else (),
            )
        return compare_pairs(runs, metrics=paths, margin_ratio=margin_ratio, allowed=allowed)

    def export(self, *names: str, file: str | Path, file_format: str | None = None) -> None:
        """Write stored runs in the format of another tool; docs/export.md lists the formats.

        Args:
            *names: Names of runs; see `runs`.
            file: File to write. For MLPerf's logs, the path is a directory.
            file_format: Name of a format. If None, the suffix of the file selects the format.

        Raises:
            UsageError: no such run or format.
            FileNotWritten: the file cannot be written.
        """
        from edgebench.host.export.exported import find_exported
        from edgebench.host.export.files import export_runs
        from edgebench.host.export.registry import format_of_file, named_format

        path = Path(file)
        form = named_format(file_format) if file_format else format_of_file(path.name)
        export_runs(find_exported(self.store, names), form, path)

    def campaign(self, name: str = "last") -> Campaign:
        """A campaign in this store, by id or name.

        Raises:
            NoSuchCampaign: the store has no such campaign.
        """
        return Campaign(self.store, name)

    def report(
        self,
        *names: str,
        output: str | Path | None = None,
        allowed: Sequence[str] = (),
        is_anonymous: bool = False,
    ) -> Path:
        """Write stored runs, or a campaign, as a self-contained HTML file.

        Args:
            *names: Runs by id, part of the id, set, tag or directory. Or a single campaign by id or
                name. The first run or set is the baseline of all others.
            output: File to write. None selects a file in the current directory that is named after
                the first run.
            allowed: Keys in which compared runs may differ; see `comparability.KEYS`.
            is_anonymous: Whether to omit names of devices, hosts and users, paths and addresses.

        Returns:
            Path of the file.

        Raises:
            NoSuchRun: a name matches neither a run nor a campaign.
            UsageError: the file exists and is not a report, or a key is unknown.
            RunDamaged: traces of a run are damaged; the file is written without them.
            StoreError: a run cannot be read, or the file cannot be written.
        """
        from edgebench.host.report.page import write_campaign_report, write_run_report

        path = None if output is None else Path(output)
        if len(names) == 1 and names[0] != LAST:  # `last` is a run
            with suppress(NoSuchCampaign):
                facts = self.campaign(names[0]).report_facts()
                return write_campaign_report(facts, path, is_anonymous=is_anonymous)
        return write_run_report(self.store, names, path, allowed=allowed, is_anonymous=is_anonymous)
