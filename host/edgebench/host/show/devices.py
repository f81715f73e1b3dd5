"""Table of the devices.

The table has its own module, because the tables of runs do not import network code.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta, timezone

from rich.text import Text

from edgebench.host.devices.discovery import Access, DiscoveredDevice
from edgebench.host.devices.health import CheckState, HealthCheck
from edgebench.host.result.units import ABSENT, format_duration, format_ns
from edgebench.host.show.data_table import DataTable
from edgebench.host.show.tables import PIPE_WIDTH, text
from edgebench.host.show.times import age, in_largest_unit
from edgebench.protocol.bridge import EmulatedBoard
from edgebench.protocol.sizes import format_bytes

CLOSE_FILES = (
    "run the agent as a separate user, in a systemd unit with DynamicUser=yes "
    "(docs/security.md); or, if you trust the model, add --trust-model"
)
"""Next step if a model could open the files of the agent's user."""
_ACCESS_STYLES = {
    Access.READY: "green",
    Access.NOT_PAIRED: "yellow",
    Access.UNREACHABLE: "red",
    Access.COPIED: "red",
    Access.GONE: "red",
}
_COLUMNS = {"device": 18, "access": 11, "temp": 5, "seen": 7, "profile, runtimes": 17, "remark": 20}
"""Maps each column of the table to its minimum width."""
_NARROW_COLUMNS = {"device": 13, "access": 11, "profile, runtimes, remark": 25}
"""Maps each column of the table on a narrow terminal to its minimum width."""
_ADDRESS_WIDTH = len("192.168.100.100:65535")
"""Maximum width of an address that is not folded."""


def devices_table(
    devices: Sequence[DiscoveredDevice], now: datetime | None = None, *, width: int = PIPE_WIDTH
) -> DataTable:
    """Table of all devices, usable or not; temperature and age only if the terminal is wide.

    Args:
        devices: The devices.
        now: Time at which the ages of the devices are computed; None selects the current time.
        width: Columns of the terminal.
    """
    now = now or datetime.now(timezone.utc)
    table = DataTable()
    # Avoid folding names, because users type them.
    names = [len(device.name) for device in devices]
    addresses = [min(len(device.address), _ADDRESS_WIDTH) for device in devices]
    longest = max([*names, *addresses, 0])
    is_wide = width >= _total(_COLUMNS) + max(0, longest - _COLUMNS["device"])
    columns = _COLUMNS if is_wide else _NARROW_COLUMNS
    room = width - _total(columns) + columns["device"]
    least_widths = columns | {"device": max(columns["device"], min(longest, room))}
    for name, least in least_widths.items():
        fixed = least if name == "device" and not is_wide else None
        table.add_column(name, overflow="fold", min_width=least, width=fixed)
    for device in devices:
        system = device.system
        usable = [r for r in system.runtimes if r.is_usable] if system else []
        profile = [system.device.profile] if system else []
        runtimes = "\n".join([*profile, *(f"{r.name} {r.version}" for r in usable)]) or ABSENT
        remark = "\n".join(_remarks(device, now))
        temp_c = device.seat.temp_c if device.seat else None
        # Whether the device can be used, and whether it is quarantined.
        shown = Text(device.access.value, style=_ACCESS_STYLES[device.access])
        health = device.health
        is_held = device.seat is not None and device.seat.held_by is not None
        if is_held or (device.place is not None and device.place.acquired_by is not None):
            shown.append("\nin use", style="yellow")
        if health is not None and health.is_quarantined:
            shown.append("\nquarantined", style="red")
        elif health is not None and health.failure_count:
            shown.append(f"\n{_count(health.failure_count, 'failure')}", style="yellow")
        cells = {
            "device": Text.assemble(text(device.name), "\n", (text(device.address).plain, "dim")),
            "access": shown,
            "temp": text(ABSENT if temp_c is None else f"{temp_c:.0f} °C"),
            "seen": text(_seen(device, now)),
            "profile, runtimes": text(runtimes),
            "remark": text(remark),
            "profile, runtimes, remark": text(f"{runtimes}\n{remark}".rstrip("\n")),
        }
        table.add_row(*(cells[name] for name in columns))
    return table


def emulated_lines(boards: Sequence[EmulatedBoard]) -> Iterator[str]:
    """Emulated boards on a line, then a line for each emulator that is not installed."""
    by_package: dict[str | None, list[str]] = {}
    for board in boards:
        package = None if board.is_available else board.package
        by_package.setdefault(package, []).append(f"{board.name} ({board.cpu})")
    for package, names in by_package.items():
        lack = "" if package is None else f" (after apt install {package})"
        yield f"emulated boards for --on{lack}: {', '.join(names)}"


def _total(widths: Mapping[str, int]) -> int:
    """Width of the terminal that columns of these widths need, including the gaps."""
    return sum(widths.values()) + 2 * len(widths)


def _seen(device: DiscoveredDevice, now: datetime) -> str:
    if device.access is Access.READY:
        return "now"
    if device.seat is not None and device.seat.gone_for_s is not None:
        return f"{in_largest_unit(device.seat.gone_for_s)} ago"
    seen_utc = device.health.last_seen_utc if device.health else None
    return ABSENT if seen_utc is None else f"{age(seen_utc, now)} ago"


def _remarks(device: DiscoveredDevice, now: datetime) -> Iterator[str]:
    """Remarks on a device: its labels, its user, its faults, and the runtimes that it lacks."""
    if device.labels:
        yield f"labels: {', '.join(device.labels)}"
    if (place := device.place) is not None and place.acquired_by is not None:
        yield f"labgrid place {place.name} is acquired by {place.acquired_by}"
    if device.reason:
        yield device.reason
    if (seat := device.seat) is not None:
        if seat.gone_for_s is not None:
            since = (now - timedelta(seconds=seat.gone_for_s)).astimezone(timezone.utc)
            yield f"no longer connected to its agent since {since:%Y-%m-%d %H:%M} UTC"
        if seat.fault:
            yield seat.fault
        if seat.held_by is not None:
            yield f"in use by {seat.held_by} for {format_duration(seat.held_for_s or 0.0)}"
        if seat.running:
            yield f"runs {seat.running}"
    if (health := device.health) is not None and health.failure_count:
        if health.quarantined_utc is not None:
            ago = age(health.quarantined_utc, now)
            reason = health.quarantine_reason
            if health.quarantined_after and health.events[-1].text == device.reason:
                reason = f"{health.quarantined_after} failures in a row"
            yield f"quarantined for {ago}: {reason}"
        elif health.events[-1].text != device.reason:
            yield f"last failure: {health.events[-1].text}"
    if device.system is not None and device.system.open_files is not None:
        yield f"models can access files: {device.system.open_files}"
    for report in device.system.runtimes if device.system else ():
        if not report.is_usable:
            install = f" ({report.install})" if report.install else ""
            yield f"{report.name}: {report.reason}{install}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' if number != 1 else ''}"


def check_line(check: HealthCheck) -> str:
    """The result of a device's health check, as a line."""
    if check.state is not CheckState.WELL:
        return f"{check.name}: {check.state.value.replace('_', ' ')}: {check.reason}"
    parts = [check.state.value]
    if check.latency_ns_p50 is not None:
        parts.append(f"{check.model} in {format_ns(check.latency_ns_p50)}")
    if check.temp_c is not None:
        parts.append(f"{check.temp_c:.0f} °C")
    if check.models_room_bytes is not None:
        parts.append(f"room for models: {format_bytes(check.models_room_bytes)}")
    if check.uncollected_count:
        parts.append(f"{_count(check.uncollected_count, 'run')} to collect")
    return f"{check.name}: {', '.join(parts)}"
