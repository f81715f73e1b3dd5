"""Table of the devices; apart from those of runs, which need no network to be shown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

from rich.table import Table
from rich.text import Text

from edgebench.host.devices.discovery import Access, DiscoveredDevice
from edgebench.host.show.tables import plain_table, text
from edgebench.host.show.units import ABSENT

_ACCESS_STYLES = {Access.READY: "green", Access.NOT_PAIRED: "yellow", Access.UNREACHABLE: "red"}


def devices_table(found: Sequence[DiscoveredDevice]) -> Table:
    """All devices, usable or not."""
    table = plain_table("device", "address", "access", "profile", "runtimes", "remark")
    for device in found:
        system = device.system
        usable = [r for r in system.runtimes if r.is_usable] if system else []
        table.add_row(
            text(device.name),
            text(device.address),
            Text(device.access.value, style=_ACCESS_STYLES[device.access]),
            text(system.device.profile if system else ABSENT),
            text("\n".join(f"{r.name} {r.version}" for r in usable) or ABSENT),
            text("\n".join(filter(None, (device.reason, _use(device), _missing_runtimes(device))))),
        )
    return table


def _use(device: DiscoveredDevice) -> str:
    """Who has the device, what is wrong with it."""
    if (seat := device.seat) is None:
        return ""
    lines = [seat.fault] if seat.fault else []
    if seat.held_by is not None:
        lines.append(
            f"in use by {seat.held_by} for {timedelta(seconds=round(seat.held_for_s or 0.0))}"
        )
        lines += [f"runs {seat.running}"] if seat.running else []
    return "\n".join(lines)


def _missing_runtimes(device: DiscoveredDevice) -> str:
    if device.system is None:
        return ""
    missing = [report for report in device.system.runtimes if not report.is_usable]
    return "\n".join(
        f"{report.name}: {report.reason}" + (f" ({report.install})" if report.install else "")
        for report in missing
    )
