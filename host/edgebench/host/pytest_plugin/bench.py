"""Fixture `edgebench_bench`: measures a model, judges the result and records it with the test."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from edgebench.host.analysis.compare.comparability import fingerprint
from edgebench.host.analysis.compare.comparison import ComparisonOutcome
from edgebench.host.analysis.compare.runs import RunComparison, compare_groups, find_metric
from edgebench.host.analysis.run_set import find_sets
from edgebench.host.lab import Lab
from edgebench.host.options.command import CommandLine
from edgebench.host.options.values import percent
from edgebench.host.result.facts import CANDIDATE
from edgebench.host.result.metrics import METRICS
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.verdict import State
from edgebench.host.show.comparisons import comparison_lines
from edgebench.host.show.hints import hint_for
from edgebench.host.show.verdict import verdict_lines
from edgebench.host.store.address import find_runs
from edgebench.host.store.occasions import spread_in
from edgebench.protocol.errors import EdgebenchError, UsageError

WAIT_S = 3600.0
"""Longest wait for a device that another process uses, such as another pytest-xdist worker."""


class DoubtfulMeasurement(UserWarning):
    """A test passed although its measurement is suspect or its comparison is inconclusive."""


class PytestBench:
    """Measures models for a test, and records every measurement in the test's properties."""

    def __init__(self, config: pytest.Config, item: pytest.Item) -> None:
        """Prepare measurements with the options of a session.

        Args:
            config: Configuration of the pytest session.
            item: The pytest test in whose properties the measurements are recorded.
        """
        self._options = config.option
        self._item = item
        self._count = 0
        store = self._options.edgebench_store
        self._lab = Lab(None if store is None else Path(store))

    def __call__(
        self,
        model: str | Path,
        *,
        on: str | None = None,
        metric: str | None = None,
        allowed: Sequence[str] = (),
        wait_s: float = WAIT_S,
        **settings: Any,
    ) -> RunSet:
        """Measure a model and return the set of its runs.

        The test fails if nothing was measured, if the runs are invalid, or if the runs are worse
        than the baseline by more than the margin. Depending on the options, the test also fails if
        the runs are suspect or the comparison is inconclusive.

        Args:
            model: Path of a model, or name of a built-in model.
            on: Device; None selects the device of the options.
            metric: Metric to record and compare; None selects the main metric of the scenario.
            allowed: Keys of properties in which the runs may differ from the baseline.
            wait_s: Longest wait for a device that another process uses.
            **settings: Options of `Lab.bench`. With --edgebench-pairs: options of
                `Lab.bench_against`.
        """
        try:
            path = None if metric is None else find_metric(metric).path
            stored = self._baseline()
            settings |= {"on": [on or self._options.edgebench_on], "wait_s": wait_s}
            compared = None
            if stored is not None and self._options.edgebench_pairs:
                measured, compared = self._measure_pairs(model, stored, path, allowed, settings)
            else:
                runs = self._lab.bench(model, **settings)
                measured = _only_set(run.result for run in runs)
        except EdgebenchError as exc:
            raise _failure(_with_hint(exc, "bench")) from None
        self._count += 1
        self._record(_facts(measured, path or measured.headline))
        if stored is not None and compared is None and not measured.verdict.is_refused:
            try:
                compared = self._compare(measured, stored, path, allowed)
            except EdgebenchError as exc:
                raise _failure(_with_hint(exc, "compare")) from None
        if compared is not None:
            self._record(_compared_facts(compared))
        self._judge(measured, compared)
        return measured

    def _baseline(self) -> dict[str, Run] | None:
        """Find the runs of the baseline, in a directory or in a bundle; None without a baseline.

        The runs are read before anything is measured, so that the name `last` does not select a new
        run, and an unknown name is reported before the measurement.
        """
        name = self._options.edgebench_baseline
        if name is None:
            return None
        return {run.place: run.run() for run in find_runs(self._lab.store, name)}

    @property
    def _margin_ratio(self) -> float | None:
        margin = self._options.edgebench_fail_on
        return None if margin is None else percent(margin)

    def _measure_pairs(
        self,
        model: str | Path,
        stored: Mapping[str, Run],
        metric: str | None,
        allowed: Sequence[str],
        settings: Mapping[str, Any],
    ) -> tuple[RunSet, RunComparison]:
        """Measure the model in pairs with the newest model of the same name in the baseline.

        Returns:
            The candidate's runs as a set, and the comparison.
        """
        name = Path(model).name
        places = {run.run_id: place for place, run in stored.items() if run.model.name == name}
        if not places:
            raise self._no_baseline(f"of {name}", stored)
        comparisons, runs = self._lab.bench_against(
            places[max(places)],
            model,
            metrics=None if metric is None else [metric],
            margin_ratio=self._margin_ratio,
            allowed=allowed,
            **settings,
        )
        measured = [run.result for run in runs]
        after = [run for run in measured if run.pair and run.pair.side == CANDIDATE]
        return _only_set(after), comparisons[0]

    def _no_baseline(self, what: str, stored: Mapping[str, Run]) -> UsageError:
        name = self._options.edgebench_baseline
        return UsageError(f"no run {what} among the {len(stored)} runs of the baseline {name!r}")

    def _compare(
        self,
        measured: RunSet,
        stored: Mapping[str, Run],
        metric: str | None,
        allowed: Sequence[str],
    ) -> RunComparison:
        """Compare the runs with the baseline's runs of the same model, device and runtime."""
        subject = _subject(measured.first)
        baseline = [run for run in stored.values() if _subject(run) == subject]
        if not baseline:
            what = f"of {measured.model} on {measured.device}, {measured.runtime}"
            raise self._no_baseline(what, stored)
        [compared] = compare_groups(
            [(baseline, measured.counted)],
            metrics=None if metric is None else [metric],
            margin_ratio=self._margin_ratio,
            allowed=allowed,
            spread_of=partial(spread_in, self._lab.store),
        )
        return compared

    def _record(self, facts: Mapping[str, object]) -> None:
        """Record facts of a measurement as properties of the test."""
        place = "" if self._count == 1 else f"{self._count}."
        self._item.user_properties += [
            (f"edgebench.{place}{name}", str(value)) for name, value in facts.items()
        ]

    def _judge(self, measured: RunSet, compared: RunComparison | None) -> None:
        """Fail the test or warn, according to verdict, comparison and options."""
        state, reasons = measured.verdict.state, "\n".join(verdict_lines([measured]))
        if state is State.INVALID:
            raise _failure(reasons)
        if state is State.SUSPECT:
            _react(self._options.edgebench_suspect, reasons)
        if compared is None:
            return
        reasons = "\n".join(comparison_lines([compared]))
        if compared.result.outcome is ComparisonOutcome.WORSE:
            raise _failure(reasons)
        if compared.result.outcome is ComparisonOutcome.INCONCLUSIVE:
            _react(self._options.edgebench_inconclusive, reasons)


def _only_set(runs: Iterable[Run]) -> RunSet:
    """Return the single set that these runs form.

    Raises:
        UsageError: the runs belong to several devices or runtimes.
    """
    sets = find_sets(runs)
    if len(sets) != 1:
        raise UsageError(f"a test needs a single device and runtime, got {len(sets)} combinations")
    return sets[0]


def _facts(measured: RunSet, metric: str) -> dict[str, object]:
    """Properties of a measurement; an invalid measurement has no property `value`."""
    facts: dict[str, object] = {
        "model": measured.model,
        "device": measured.device,
        "runtime": measured.runtime,
        "metric": metric,
        "unit": METRICS[metric].quantity.value,
        "verdict": measured.marks.label,
        "run_ids": " ".join(run.run_id for run in measured.runs),
    }
    summary = measured.metrics.get(metric)
    if summary is not None and not measured.verdict.is_refused:
        facts["value"] = summary.median
        facts |= _named_bounds("ci95", summary.ci95)
    return facts


def _compared_facts(compared: RunComparison) -> dict[str, object]:
    facts: dict[str, object] = {
        "outcome": compared.result.outcome.value,
        "ratio": compared.result.ratio,
    }
    return facts | _named_bounds("ratio_ci95", compared.result.ratio_interval)


def _with_hint(error: EdgebenchError, command: str) -> str:
    """Text of an error with its hint, as the command line prints it."""
    hint = hint_for(error, CommandLine(command=command))
    return f"{error}\nhint: {hint}" if hint else str(error)


def _subject(run: Run) -> tuple[str, str, str]:
    return run.model.name, run.runtime.name, fingerprint(run, ["device"])["device"]


def _named_bounds(name: str, bounds: tuple[float, float] | None) -> dict[str, object]:
    return {} if bounds is None else {f"{name}_low": bounds[0], f"{name}_high": bounds[1]}


def _react(reaction: str, text: str) -> None:
    if reaction == "fail":
        raise _failure(text)
    if reaction == "warn":
        warnings.warn(DoubtfulMeasurement(text), stacklevel=4)


def _failure(text: str) -> BaseException:
    """Exception that fails the test without a traceback, which would only show the plugin."""
    return pytest.fail.Exception(f"edgebench: {text}", pytrace=False)
