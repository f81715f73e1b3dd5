"""One capture through an instrument's driver and through the importer of its program's file.

Both read the same readings, so the joules must be equal: two tables of the same facts would differ.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.meter_bytes import INSTRUMENTS, Instrument
from support.meter_texts import PROGRAMS
from support.spoilt import Floats, Readings

from edgebench.host.analysis.energy.site import site_in
from edgebench.host.power.imports.importer import import_file
from edgebench.host.result.facts import ImportOptions
from edgebench.host.store.layout import POWER_FILE
from edgebench.host.store.power_file import PowerFile
from edgebench.host.store.recording import write_power
from edgebench.meters.base import Recording
from edgebench.meters.spool import SpoolWriter

ROWS = 40
COMPARED_ROWS = 20
"""A driver may have no interval for its first readings; both end with the same row."""
INSTANTS = ImportOptions(is_averaging=False)


def _instrument(name: str) -> Instrument:
    [found] = [known for known in INSTRUMENTS if known.name == name]
    return found


def readings_of(interval_s: float, levels_w: Floats, supply_v: float) -> Readings:
    """Readings at even times, with powers that every program writes without rounding."""
    time_s = (np.arange(ROWS) + 1) * interval_s
    power_w = np.resize(levels_w, ROWS)
    energy_j = np.cumsum(power_w) * interval_s
    return Readings.of(time_s, power_w, energy_j, supply_v)


PAIRS: dict[str, tuple[str, float, tuple[float, ...], ImportOptions | None]] = {
    "ptdaemon": ("PTDaemon log", 0.1, (3.5, 23.0, 11.25), None),
    "shelly": ("Shelly log", 1.0, (3.5, 23.0, 11.2), INSTANTS),
    "tasmota": ("Tasmota log", 1.0, (3.5, 23.0, 11.2), INSTANTS),
    "hwmon, three rails": ("tegrastats", 1.0, (2.5, 6.0, 4.0), INSTANTS),
    "hwmon, AGX Orin": ("tegrastats of an AGX Orin", 1.0, (13.5, 27.0, 20.0), INSTANTS),
    "rapl": ("perf stat", 0.1, (5.0, 15.0, 20.0), None),
    "scpi power meter": ("Yokogawa WTViewer CSV", 0.1, (3.5, 23.0, 11.25), None),
    "fnirsi": ("FNIRSI logger", 0.01, (0.5, 2.0, 1.25), INSTANTS),
}
"""By driver: program, interval in seconds, powers in watts, and options of the import."""


@pytest.mark.parametrize("name", PAIRS)
def test_capture_has_the_same_joules_by_driver_and_importer(name: str, tmp_path: Path) -> None:
    """Otherwise a log of a board would have another energy than its meter."""
    instrument = _instrument(name)
    program_name, interval_s, levels_w, options = PAIRS[name]
    [program] = [known for known in PROGRAMS if known.name == program_name]
    readings = readings_of(interval_s, np.array(levels_w), instrument.supply_v)
    live = recorded(tmp_path / "live", instrument, readings)
    path = program.write(tmp_path, readings)
    import_file(path, tmp_path / "file", options or program.options)
    span_s = COMPARED_ROWS * interval_s
    found_j = last_j(PowerFile.open(tmp_path / "file"), span_s)
    # As a float, seconds since 1970 have steps of 240 ns.
    tolerance = 1e-6 if name == "fnirsi" else 1e-9
    assert found_j == pytest.approx(last_j(live, span_s), rel=tolerance)
    assert found_j == pytest.approx(span_s * float(np.mean(levels_w)), rel=0.1)


@pytest.mark.parametrize("instrument", INSTRUMENTS, ids=lambda instrument: instrument.name)
def test_own_file_has_the_same_joules_as_the_recording(
    instrument: Instrument, tmp_path: Path
) -> None:
    """Otherwise a recording would change when another host imports it."""
    rate_hz = instrument.header().capability.rate_hz
    rows = max(ROWS, round(min(rate_hz, 2000.0)))
    time_s = (np.arange(rows) + 1) / rate_hz
    chance = np.random.default_rng(1)
    load = instrument.load
    power_w = chance.uniform(load.idle_w, load.work_w, rows)
    readings = Readings.of(time_s, power_w, np.cumsum(power_w) / rate_hz, instrument.supply_v)
    live = recorded(tmp_path / "live", instrument, readings)
    import_file(tmp_path / "live" / POWER_FILE, tmp_path / "file")
    found = PowerFile.open(tmp_path / "file")
    for channel in live.header.capability.channels:
        first_ns, last_ns = live.span_ns(channel.name)
        assert found.window(channel.name, first_ns, last_ns).energy_j == pytest.approx(
            live.window(channel.name, first_ns, last_ns).energy_j, rel=1e-9
        )


def recorded(directory: Path, instrument: Instrument, readings: Readings) -> PowerFile:
    """What the driver makes of the readings."""
    header = instrument.header()
    path = _spool(directory)
    with SpoolWriter(path, header) as writer:
        for packet in instrument.packets(header, readings):
            writer.append(packet)
    write_power(directory, Recording(path, header))
    return PowerFile.open(directory)


def last_j(power: PowerFile, span_s: float) -> float:
    """Energy of the device in the last seconds of a recording."""
    names = site_in(power).channels
    energies_j = []
    for name in names:
        _, last_ns = power.span_ns(name)
        energies_j.append(power.window(name, last_ns - round(span_s * 1e9), last_ns).energy_j)
    return sum(energies_j)


def _spool(directory: Path) -> Path:
    directory.mkdir()
    return directory / "meter.spool"


@pytest.mark.parametrize(
    ("name", "limit_a"), [("FNIRSI logger", 7.0), ("nRF Connect CSV", 1.0), (".ppk2", 1.0)]
)
def test_range_of_a_program_ends_where_that_of_the_driver_does(
    name: str, limit_a: float, tmp_path: Path
) -> None:
    """Otherwise an instrument at full scale would be refused live, and trusted from a file."""
    [program] = [known for known in PROGRAMS if known.name == name]
    readings = readings_of(
        0.01, limit_a * program.supply_v * np.array([0.5, 1.0]), program.supply_v
    )
    path = program.write(tmp_path, readings)
    session = import_file(path, tmp_path / "file", program.options)
    assert session.facts.loss.saturated_count == ROWS // 2
    assert not session.is_trusted
