"""Report: a self-contained HTML file.

Style sheet and script are embedded, and allowed by their SHA-256 in the Content-Security-Policy: no
other script runs, and nothing is loaded. Jinja's autoescape escapes all texts of a run, and the
script inserts texts only through `textContent`.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from edgebench.host.analysis.compare.comparability import check_keys
from edgebench.host.analysis.compare.runs import SpreadSource, unknown_spread
from edgebench.host.analysis.history.history import History
from edgebench.host.analysis.run_set import choose_sets, find_sets
from edgebench.host.report.anonymous import Anonymizer
from edgebench.host.report.campaign import CampaignFacts, CampaignPart, campaign_part
from edgebench.host.report.charts import ChartMark, DistributionChart, overlaid_chart
from edgebench.host.report.comparison import RatioRow, ratio_rows
from edgebench.host.report.conditions import ConditionRow, commands_of, condition_rows
from edgebench.host.report.history import HistoryPart, history_parts
from edgebench.host.report.subject import ReportedRun, ReportSubject, subject_names, subject_of
from edgebench.host.report.suspect_sections import SuspectSection
from edgebench.host.result.run_set import RunSet
from edgebench.host.show.headline import best_of
from edgebench.host.store.address import RunElsewhere, find_each
from edgebench.host.store.history import histories_of
from edgebench.host.store.layout import Store
from edgebench.host.store.occasions import spread_in
from edgebench.host.this_host import software
from edgebench.protocol.errors import FileNotWritten, RunDamaged, UsageError
from edgebench.protocol.plain import to_plain
from edgebench.system.whole_files import write_whole

GENERATOR = '<meta name="generator" content="edgebench report">'
"""Line that identifies a file as a report."""
_KNOWN_BYTES = 4096
"""Number of bytes at the beginning of a file that are searched for `GENERATOR`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPage:
    """Content of a page."""

    title: str
    headline: str
    """The best of several results; empty for a single result, or if results cannot be compared."""
    subjects: tuple[ReportSubject, ...]
    overlay: DistributionChart | None
    """Overlaid distributions of several results; None if fewer than two have latencies."""
    conditions: tuple[ConditionRow, ...]
    ratios: tuple[RatioRow, ...]
    histories: tuple[HistoryPart, ...]
    campaign: CampaignPart | None
    is_anonymous: bool
    software: str

    @property
    def sections(self) -> list[SuspectSection]:
        """Sections about the failed rules of all subjects."""
        listed = (section for subject in self.subjects for section in subject.sections)
        return list(dict.fromkeys(listed))

    @property
    def anchors(self) -> dict[str, str]:
        """Map each failed rule to the id of the HTML element with its section."""
        return {rule: section.anchor for section in self.sections for rule in section.rules}

    @property
    def damages(self) -> list[str]:
        """Text about the damage of each run whose traces were left out because they are damaged."""
        parts = [part for subject in self.subjects for part in subject.traces]
        return [part.damage for part in parts if part.damage]


def find_reported(store: Store, names: Iterable[str]) -> list[ReportedRun]:
    """The stored runs that the names refer to, in order, without duplicates.

    Raises:
        NoSuchRun: a name is unknown or ambiguous.
        StoreError: a run cannot be read.
    """
    addresses = find_each(store, names)
    stores: dict[Store, set[str]] = {}
    for address in addresses:
        if not isinstance(address.store, RunElsewhere):
            stores.setdefault(address.store, set()).add(address.run_id)
    histories = {
        run_id: history
        for store, run_ids in stores.items()
        for history in histories_of(store, run_ids)
        for point in history.points
        for run_id in point.run_ids
    }
    return [
        ReportedRun(
            address.run(), address.directory, address.annotations(), histories.get(address.run_id)
        )
        for address in addresses
    ]


def name_of(runs: Sequence[ReportedRun]) -> str:
    """Name for a file with these runs: the first run or set, and the number of others."""
    ids = [run_set.set_id or run_set.first.run_id for run_set in _sets(runs)]
    return ids[0] if len(ids) == 1 else f"{ids[0]}-and-{len(ids) - 1}-more"


def run_report(
    runs: Sequence[ReportedRun], *, allowed: Collection[str] = (), is_anonymous: bool = False
) -> str:
    """HTML of a run's page; see `run_page`."""
    return rendered(run_page(runs, allowed=allowed, is_anonymous=is_anonymous))


def run_page(
    runs: Sequence[ReportedRun],
    *,
    allowed: Collection[str] = (),
    is_anonymous: bool = False,
    spread_of: SpreadSource = unknown_spread,
) -> ReportPage:
    """Page of a run or a set, or of several runs and sets side by side.

    Args:
        runs: The runs; the runs of a set share a column. The first column is the baseline.
        allowed: Keys in which compared runs may differ; see `comparability.KEYS`.
        is_anonymous: Whether to leave out names, paths and addresses.
        spread_of: Function that finds how much a metric varies between separate times of
            measurement.
    """
    if is_anonymous:
        runs = _anonymous(runs, Anonymizer(run.run for run in runs))
    sets = _sets(runs)
    subjects = _subjects(sets, runs)
    # Histories of these runs without duplicates.
    histories = {id(run.history): run.history for run in runs if run.history is not None}
    run_ids = {run.run.run_id for run in runs}
    title = subjects[0].name if len(subjects) == 1 else f"{len(subjects)} results side by side"
    # Distributions of the latencies of the subjects, each with its p50.
    marks = [
        ChartMark(f"{place + 1}. p50", number.value, low, high, place)
        for place, subject in enumerate(subjects)
        for number in subject.percentiles
        if number.path == "latency_ns.p50"
        for low, high in [number.interval or (None, None)]
    ]
    named = [
        (f"{place}. {subject.name}", subject.latencies_ns)
        for place, subject in enumerate(subjects, 1)
    ]
    return ReportPage(
        title=title,
        subjects=subjects,
        overlay=overlaid_chart(named, marks),
        conditions=tuple(condition_rows(sets)),
        ratios=tuple(ratio_rows(sets, allowed, spread_of)) if len(sets) > 1 else (),
        histories=tuple(history_parts([*histories.values()], run_ids)),
        headline="" if (best := best_of(sets)) is None else best.line,
        campaign=None,
        is_anonymous=is_anonymous,
        software=software(),
    )


def campaign_report(
    facts: CampaignFacts, runs: Sequence[ReportedRun] = (), *, is_anonymous: bool = False
) -> str:
    """HTML page of a campaign.

    Args:
        facts: The campaign and its results.
        runs: Runs whose traces are also shown.
        is_anonymous: Whether to leave out names, paths and addresses.
    """
    if is_anonymous:
        facts, runs = _anonymous_campaign(facts, runs)
    page = ReportPage(
        title=f"Campaign {facts.summary.name}",
        subjects=_subjects(facts.sets, runs),
        overlay=None,
        conditions=(),
        headline="",
        ratios=(),
        histories=(),
        campaign=campaign_part(facts),
        is_anonymous=is_anonymous,
        software=software(),
    )
    return rendered(page)


def history_report(histories: Sequence[History]) -> str:
    """HTML page of histories."""
    shown = history_parts([history for history in histories if history.points])
    page = ReportPage(
        title=f"History of {shown[0].name}" if len(shown) == 1 else f"{len(shown)} histories",
        subjects=(),
        overlay=None,
        conditions=(),
        headline="",
        ratios=(),
        histories=tuple(shown),
        campaign=None,
        is_anonymous=False,
        software=software(),
    )
    return rendered(page)


def write_report(path: Path, page: str) -> None:
    """Write a page atomically; an existing report is replaced.

    Raises:
        UsageError: the path is a directory, or a file that is not a report.
        FileNotWritten: the file cannot be written.
    """
    if path.is_dir():
        raise UsageError(f"report not written: path is a directory: {path}")
    try:
        if path.is_file():
            with path.open("rb") as file:
                is_report = GENERATOR.encode() in file.read(_KNOWN_BYTES)
        else:
            is_report = not path.exists()  # opening a pipe would block
        if not is_report:
            raise UsageError(f"file not overwritten: it is not an edgebench report: {path}")
        write_whole(path, page)
    except OSError as exc:
        raise FileNotWritten(f"report not written: {exc.strerror or exc}: {path}") from exc


def write_run_report(
    store: Store,
    names: Sequence[str],
    path: Path | None,
    *,
    allowed: Collection[str],
    is_anonymous: bool,
) -> Path:
    """Write the page of stored runs; see `Lab.report`.

    Raises:
        NoSuchRun: a name refers to no run.
        UsageError: the file exists and is not a report, or a key is unknown.
        RunDamaged: traces of a run are damaged; the file is written without these traces.
        FileNotWritten: the file cannot be written.
    """
    check_keys(allowed)
    runs = find_reported(store, names)
    content = run_page(
        runs, allowed=allowed, is_anonymous=is_anonymous, spread_of=partial(spread_in, store)
    )
    path = (path or Path(f"edgebench-{name_of(runs)}.html")).absolute()
    write_report(path, rendered(content))
    if content.damages:
        raise RunDamaged(f"the numbers in {path} cannot be checked: {content.damages[0]}")
    return path


def write_campaign_report(facts: CampaignFacts, path: Path | None, *, is_anonymous: bool) -> Path:
    """Write the page of a campaign.

    Raises:
        UsageError: the file exists and is not a report.
        FileNotWritten: the file cannot be written.
    """
    path = (path or Path(f"edgebench-{facts.summary.id}.html")).absolute()
    write_report(path, campaign_report(facts, is_anonymous=is_anonymous))
    return path


def _sets(runs: Sequence[ReportedRun]) -> list[RunSet]:
    return choose_sets(run.run for run in runs)


def _subjects(sets: Sequence[RunSet], runs: Sequence[ReportedRun]) -> tuple[ReportSubject, ...]:
    by_id = {run.run.run_id: run for run in runs}
    return tuple(
        subject_of(
            run_set,
            [by_id.get(run.run_id, ReportedRun(run, None)) for run in run_set.runs],
            name=name,
            command=command,
            run_count=max(1, len(by_id)),
        )
        for run_set, name, command in zip(sets, subject_names(sets), commands_of(sets), strict=True)
    )


def _anonymous(runs: Iterable[ReportedRun], anonymizer: Anonymizer) -> list[ReportedRun]:
    runs = list(runs)
    # Runs of the same history share the object, on which `run_page` relies.
    histories = {id(run.history): anonymizer.value(run.history) for run in runs}
    return [
        ReportedRun(
            anonymizer.run(run.run),
            run.directory,
            history=histories[id(run.history)],
            show=anonymizer.text,
        )
        for run in runs
    ]


def _anonymous_campaign(
    facts: CampaignFacts, runs: Sequence[ReportedRun]
) -> tuple[CampaignFacts, list[ReportedRun]]:
    devices = [lane.device for lane in facts.lanes]
    anonymizer = Anonymizer((run for run_set in facts.sets for run in run_set.runs), devices)
    text = anonymizer.text
    [*sets] = find_sets(anonymizer.run(run) for run_set in facts.sets for run in run_set.runs)
    planned = {run_set.runs[0].run_id: text(run_set.device) for run_set in facts.sets}
    settings = {run_set.runs[0].run_id: facts.settings(run_set) for run_set in facts.sets}

    def shown(level: Hashable) -> Hashable:
        return text(level.rpartition("/")[2]) if isinstance(level, str) else level

    return (
        replace(
            facts,
            summary=replace(facts.summary, file=""),
            lanes=[
                replace(lane, device=text(lane.device), reason=text(lane.reason), lab=None)
                for lane in facts.lanes
            ],
            sets=[replace(run_set, device=planned[run_set.runs[0].run_id]) for run_set in sets],
            settings=lambda run_set: settings[run_set.runs[0].run_id],
            effects={
                path: [
                    replace(effect, baseline=shown(effect.baseline), level=shown(effect.level))
                    for effect in effects
                ]
                for path, effects in facts.effects.items()
            },
            failures=[text(line) for line in facts.failures],
        ),
        _anonymous(runs, anonymizer),
    )


def rendered(page: ReportPage) -> str:
    """The page as HTML."""
    style, script = _asset("style.css"), _asset("charts.js")
    return (
        _environment()
        .get_template("page.html")
        .render(
            page=page,
            style=Markup(style),
            script=Markup(script),
            policy="; ".join(
                (
                    "default-src 'none'",
                    f"style-src '{_digest(style)}'",
                    f"script-src '{_digest(script)}'",
                    "base-uri 'none'",
                    "form-action 'none'",
                )
            ),
            chart_document=to_plain,
        )
    )


@cache
def _asset(name: str) -> str:
    return (Path(__file__).parent / "assets" / name).read_text("utf-8")


def _digest(text: str) -> str:
    """Hash source of an inline style or script for the Content-Security-Policy.

    Source: https://www.w3.org/TR/CSP3/#grammardef-hash-source
    """
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("edgebench.host.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
