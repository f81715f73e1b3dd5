"""Rows of the live page: devices, campaigns and runs, formatted for people.

All numbers are formatted here; the script in the browser only computes durations. The script
inserts the texts of rows as text, never as HTML.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from edgebench.host.devices.farm import Farm
from edgebench.host.devices.files import KnownDevice
from edgebench.host.devices.health import DeviceHealth
from edgebench.host.devices.names import LOCAL_NAME, SEAT_MARK
from edgebench.host.result.campaign import CampaignProgress
from edgebench.host.result.energy import SYNTHETIC
from edgebench.host.result.metrics import GROSS_ENERGY, headline
from edgebench.host.result.run import Run
from edgebench.host.result.units import ABSENT, format_joules_within, format_watts
from edgebench.host.show.numbers import REFUSED, headline_text
from edgebench.host.show.tables import suspect_words
from edgebench.host.store.index import RunSummary
from edgebench.host.store.layout import Store
from edgebench.host.store.live import LiveCommand, LiveDevice
from edgebench.protocol.errors import StoreError
from edgebench.protocol.record import ProgressUnit
from edgebench.protocol.sizes import format_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class LaneRow:
    """Row of a device on which a command measures."""

    device: str
    command: str
    """Command with its host and process id."""
    campaign: str | None
    state: str
    reason: str
    title: str
    """Model, runtime and settings of the run in progress."""
    number: int
    count: int
    phase: str
    reached: str
    temperature: str
    clock: str
    power: str
    stored_count: int
    failed_count: int
    run_id: str | None
    run_begun_utc: str | None
    phase_begun_utc: str | None
    expected_s: float | None
    runs_left_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceRow:
    """Row of a device that is paired with this host, or on which a command measures."""

    device: str
    address: str
    labels: str
    meter: str
    used_by: str
    """Commands that measure on the device, and publish their live status in this store."""
    health: str
    """Health of the device: `well`, `failures`, `quarantined`, or `unknown` if the device was never
    reached."""
    remark: str
    seen_utc: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignLaneRow:
    """Row of a device that takes part in a campaign."""

    device: str
    state: str
    measured_count: int
    failed_count: int
    left_count: int
    left_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignRow:
    """Row of a campaign."""

    name: str
    created_utc: str
    is_running: bool
    run_count: int
    measured_count: int
    failed_count: int
    left_count: int
    left_s: float | None
    """Expected remaining time at `at_utc`, including the full duration of a run in progress."""
    at_utc: str
    """Time at which the row was created; empty for a campaign that is not running."""
    lanes: tuple[CampaignLaneRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRow:
    """Row of a stored run."""

    run_id: str
    created_utc: str
    device: str
    model: str
    runtime: str
    scenario: str
    number: str
    """Main result with the half-width of its 95 % confidence interval, or else `refused` or a
    dash."""
    metric: str
    """Name of the headline metric."""
    energy: str
    verdict: str
    """State of the verdict, which is also the CSS class of the cell."""
    remark: str
    """Remarks on the verdict: unobserved properties, a simulated or emulated device, or the code of
    a failure."""
    tags: str


def lane_row(command: LiveCommand, device: LiveDevice) -> LaneRow:
    """Create the row of a device from the live status that a command published."""
    on = f" on {device.runtime}" if device.runtime else ""
    settings = f", {device.settings}" if device.settings else ""
    reached = ""
    if (progress := device.reached) is not None:
        reached = f"{progress.done} of {progress.total} {progress.unit.value}"
        if progress.unit is ProgressUnit.BYTES:
            reached = f"{format_bytes(progress.done)} of {format_bytes(progress.total)}"
    is_several = len(device.power) > 1
    powers = [
        f"{f'{channel.channel} ' if is_several else ''}{format_watts(channel.power_w)}"
        for channel in device.power
    ]
    return LaneRow(
        device=device.device,
        command=f"{command.name} on {command.host}, process {command.pid}",
        campaign=command.campaign,
        state=device.state.replace("_", " "),
        reason=device.reason,
        title=f"{device.model}{on}{settings}",
        number=device.number,
        count=device.count,
        phase=device.phase.value.replace("_", " ") if device.phase else "",
        reached=reached,
        temperature="" if device.temp_c is None else f"{device.temp_c:.1f} °C",
        clock="" if device.freq_hz is None else f"{device.freq_hz / 1e9:.2f} GHz",
        power=", ".join(powers),
        stored_count=device.stored_count,
        failed_count=device.failed_count,
        run_id=device.run_id,
        run_begun_utc=device.run_begun_utc,
        phase_begun_utc=device.phase_begun_utc,
        expected_s=device.expected_s,
        runs_left_s=device.runs_left_s,
    )


def device_rows(
    devices: Sequence[tuple[KnownDevice, DeviceHealth]], farm: Farm, lanes: Iterable[LaneRow]
) -> dict[str, DeviceRow]:
    """Map the name of each paired device, and of each device being measured, to its row.

    Args:
        devices: Paired devices and their health.
        farm: Labels and meters of the devices.
        lanes: Devices that are being measured.
    """
    users: dict[str, list[str]] = {}
    for lane in lanes:
        users.setdefault(lane.device, []).append(lane.command)
    rows: dict[str, DeviceRow] = {}
    for known, health in devices:
        entry = farm.device.get(known.name) or farm.entry(known)
        state, remark = "well" if health.last_seen_utc else "unknown", ""
        if health.is_quarantined:
            state, remark = "quarantined", health.quarantine_reason
        elif health.failure_count:
            state, remark = "failures", f"last failure: {health.events[-1].text}"
        rows[known.name] = DeviceRow(
            device=known.name,
            address=known.endpoint.address,
            labels=", ".join(entry.labels),
            meter=entry.meter or "",
            used_by="; ".join(users.pop(known.name, [])),
            health=state,
            remark=remark,
            seen_utc=health.last_seen_utc,
        )
    for name, used_by in users.items():
        agent = rows.get(name.partition(SEAT_MARK)[0])
        of_name = farm.device.get(name)
        rows[name] = DeviceRow(
            device=name,
            address="this machine" if name == LOCAL_NAME else agent.address if agent else "",
            labels=", ".join(of_name.labels) if of_name else "",
            meter=(of_name.meter or "") if of_name else "",
            used_by="; ".join(used_by),
            health="unknown",
            remark="",
            seen_utc=None,
        )
    return rows


def campaign_row(progress: CampaignProgress, at_utc: str) -> CampaignRow:
    """Create the row of a campaign whose progress was read at `at_utc`."""
    summary = progress.summary
    return CampaignRow(
        name=summary.name,
        created_utc=summary.created_utc,
        is_running=summary.is_running,
        run_count=summary.run_count,
        measured_count=summary.measured_count,
        failed_count=summary.failed_count,
        left_count=summary.left_count,
        left_s=summary.left_s if summary.is_running else None,
        at_utc=at_utc if summary.is_running else "",
        lanes=tuple(
            CampaignLaneRow(
                device=f"{lane.device} of {lane.lab}" if lane.lab else lane.device,
                state=": ".join(filter(None, (lane.state.replace("_", " "), lane.reason))),
                measured_count=lane.measured_count,
                failed_count=lane.failed_count,
                left_count=lane.left_count,
                left_s=lane.left_s,
            )
            for lane in progress.lanes
        ),
    )


def run_or_none(store: Store, run_id: str) -> Run | None:
    """Read a stored run; None if its document cannot be read, for example after its removal."""
    try:
        return store.run(run_id)
    except StoreError:
        return None


def run_row(summary: RunSummary, run: Run | None) -> RunRow:
    """Create the row of a stored run.

    Args:
        summary: The run's row in the index.
        run: The run; None if its document cannot be read.
    """
    number, metric, energy = ABSENT, "", ""
    marks = summary.marks
    unwatched = f"unwatched: {', '.join(marks.unwatched)}" if marks.unwatched else ""
    remarks = [summary.failure or "", *suspect_words(marks), unwatched, *marks.device]
    if run is not None and run.failure is None:
        number, metric = _headline(run)
        energy = _energy(run)
    return RunRow(
        run_id=summary.run_id,
        created_utc=summary.created_utc,
        device=summary.device,
        model=summary.model,
        runtime=summary.runtime,
        scenario=summary.scenario.replace("_", " "),
        number=number,
        metric=metric,
        energy=energy,
        verdict=summary.verdict,
        remark="; ".join(filter(None, remarks)),
        tags=", ".join(summary.tags),
    )


def _headline(run: Run) -> tuple[str, str]:
    """Headline of a run with its uncertainty as text, and the name of the headline metric."""
    metric = headline(run)
    name = metric.label.replace("_", " ")
    energy = run.metrics.energy
    if metric.path == GROSS_ENERGY and energy is not None:
        return _energy(run), "energy per inference"
    shown = headline_text(run)
    return shown, "" if shown == ABSENT else name


def _energy(run: Run) -> str:
    """Gross energy per inference with its uncertainty; empty for a run without a meter."""
    if (energy := run.metrics.energy) is None:
        return ""
    if not energy.is_measured or run.verdict.is_refused or energy.gross_j_per_inference is None:
        return REFUSED
    shown = format_joules_within(energy.gross_j_per_inference, energy.u95_absolute_j)
    return f"{shown}, synthetic" if energy.boundary == SYNTHETIC else shown
