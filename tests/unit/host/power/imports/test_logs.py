"""Logs of PTDaemon and of a PowerShield; the known answers of both benchmarks that use them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from support.lpm01a import Faults, Floats, stream_bytes
from support.tools import need_shared

from edgebench.host.analysis.energy.trace import IS_ASSUMED
from edgebench.host.power.imports.importer import AS_IT_IS, import_file
from edgebench.host.power.stored import StoredSession
from edgebench.host.result.facts import ImportOptions
from edgebench.host.store.layout import POWER_FILE
from edgebench.host.store.power_file import PowerFile
from edgebench.meters.base import Flag
from edgebench.meters.ptdaemon import sample_of
from edgebench.protocol.errors import FileRefused

LINE = "Time,28-12-2020 15:21:{:06.3f},Watts,{},Volts,228.57,Amps,0.2,PF,0.48,Mark,x_testing"
MS_NS = 1_000_000


def known(name: str) -> Any:
    """One test vector."""
    return json.loads(need_shared("known_answers/energy.json").read_text())[name]


def spl(folder: Path, *lines: str, options: ImportOptions = AS_IT_IS) -> StoredSession:
    """A log of PTDaemon."""
    path = folder / "spl.txt"
    path.write_text("\n".join(lines) + "\n")
    return import_file(path, folder / "session", options)


def shield_log(
    values: Floats, *, energy: bool = True, head: str = "", faults: Faults | None = None
) -> bytes:
    """What a terminal program kept of a PowerShield at 1 kHz."""
    output = "energy" if energy else "current"
    text = f"\r\nPowerShield > ack output {output}\r\n\r\n{head}"
    text += "PowerShield > ack start\r\n\r\n"
    return text.encode() + stream_bytes(values, rate_hz=1000, is_ascii=True, faults=faults)


def imported(folder: Path, log: bytes, supply_v: float | None = None) -> StoredSession:
    """A log of a PowerShield."""
    path = folder / "shield.log"
    path.write_bytes(log)
    return import_file(path, folder / "session", ImportOptions(supply_v=supply_v))


def watts(folder: Path) -> Any:
    """The stored power."""
    return pq.read_table(folder / "session" / POWER_FILE)["watts_w"].to_numpy()


def test_known_energy_of_ptdaemon(tmp_path: Path) -> None:
    """The energy of a wall meter's log is the known answer."""
    vector = known("P2_ptdaemon_spl")
    # The answer is the trapezoid between the samples, as of instants.
    options = ImportOptions(is_averaging=False)
    [channel] = spl(tmp_path, *vector["definition"]["lines"], options=options).channels()
    expected = vector["expected"]
    assert channel.duration_s == pytest.approx(expected["duration_s"], abs=1e-9)
    assert channel.energy_j == pytest.approx(expected["trapezoid_J"], rel=1e-9)
    assert np.mean(watts(tmp_path)) == pytest.approx(expected["mean_W"], rel=1e-12)


def test_sample_of_ptdaemon_is_a_mean(tmp_path: Path) -> None:
    """Otherwise a log would lack half an interval at either end that its driven meter has.

    The log is that of a daemon.
    """
    session = spl(tmp_path, *(LINE.format(second, second * 10) for second in (1, 2, 3)))
    [channel] = session.channels()
    assert session.facts.header.capability.is_averaging
    assert session.facts.header.facts[IS_ASSUMED] is False
    assert channel.duration_s == pytest.approx(3)
    assert channel.energy_j == pytest.approx(60)


def test_known_energy_of_mlperf_tiny(tmp_path: Path) -> None:
    """Between two events, the energy is the known answer of the benchmark's own runner."""
    vector = known("P_mlperf_tiny_like")
    first, last = vector["definition"]["events_sample_index"]
    values = np.full(12_000, 1e-5)
    values[first:last] = 2.5e-5
    session = imported(tmp_path, shield_log(values))
    [channel] = session.channels()
    file = PowerFile.open(session.directory)
    energy_j = file.energy_j(channel.name, first * MS_NS, last * MS_NS)
    expected = vector["expected"]
    iterations = vector["definition"]["iterations"]
    assert (last - first) / 1000 == expected["elapsed_s"]
    assert energy_j == pytest.approx(expected["total_J"], rel=1e-9)
    assert energy_j / iterations * 1e6 == pytest.approx(expected["per_inference_uJ"], rel=1e-9)
    assert energy_j / expected["elapsed_s"] * 1e3 == pytest.approx(expected["mean_power_mW"])
    one_late_j = file.energy_j(channel.name, (first + 1) * MS_NS, last * MS_NS)
    assert 100 * (1 - one_late_j / energy_j) == pytest.approx(
        expected["one_sample_edge_error_pct"], rel=1e-6
    )


@pytest.mark.parametrize("power_w", ["-1.000000", "-2.000000"])
def test_sample_that_ptdaemon_does_not_have_is_missing(tmp_path: Path, power_w: str) -> None:
    """Otherwise an unplugged analyser's minus two watts would lower the energy (power-dev#38)."""
    missing = LINE.format(2, power_w)
    session = spl(tmp_path, LINE.format(1, 20), missing, "", LINE.format(3, 20))
    assert session.facts.loss.lost_count == 1
    assert np.isnan(watts(tmp_path)[1])
    sample = sample_of(missing.encode())
    assert sample is not None
    assert np.isnan(sample[1]), "the driver and the importer read the same line alike"


def test_overflow_of_the_analyser_is_missing(tmp_path: Path) -> None:
    """Otherwise a range that was too small would give the energy of a star."""
    lines = (LINE.format(1, 20), LINE.format(2, "9.9E+37"), LINE.format(3, 20))
    session = spl(tmp_path, *lines)
    assert (session.facts.loss.lost_count, session.facts.loss.saturated_count) == (1, 1)
    assert np.isnan(watts(tmp_path)[1])


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ([LINE.format(1, "x")], "line 2: not a PTDaemon sample"),
        ([LINE.format(1, "nan")], "line 2: not a PTDaemon sample: not a number"),
        (["Time,28-12-2020 15:21:02.000,Volts,230"], "are not in pairs"),
        (["Time,28-12-2020 15:21:02.000,Watts"], "are not in pairs"),
        (["Time,31-02-2020 15:21:02.000,Watts,5"], "line 2: not a PTDaemon sample"),
        (["Time,28-12-9999 15:21:02.000,Watts,5"], "line 2: not a PTDaemon sample: not a time"),
        ([LINE.format(0, 5)], "sample 2, column 'Time': the time is not later"),
        ([], "fewer than two samples"),
    ],
)
def test_line_that_ptdaemon_does_not_write_is_refused(
    tmp_path: Path, lines: list[str], reason: str
) -> None:
    """Otherwise a log of another program, or with a clock set back, would be read as power."""
    with pytest.raises(FileRefused, match=reason):
        spl(tmp_path, LINE.format(0.5, 20), *lines)
    assert not (tmp_path / "session" / POWER_FILE).exists()


@pytest.mark.parametrize("kept", [",Watts,2", ",Watts,22.95,Volts,228.5"])
def test_log_that_was_cut_off_in_a_sample_is_refused(tmp_path: Path, kept: str) -> None:
    """Otherwise the 22.95 W of an incomplete copy would be 2 W."""
    lines = [LINE.format(at, 22.95) for at in range(3)]
    path = tmp_path / "spl.txt"
    path.write_text("\n".join([*lines[:2], lines[2].partition(",Watts,")[0] + kept]))
    with pytest.raises(FileRefused, match="line 3: the log was cut off in this line"):
        import_file(path, tmp_path / "session")


def test_current_of_a_shield_has_the_voltage_of_the_log(tmp_path: Path) -> None:
    """Otherwise the current would be multiplied with another voltage than was set."""
    log = shield_log(np.full(3000, 0.01), energy=False, head="PowerShield > ack volt 1800m\r\n")
    [channel] = imported(tmp_path, log).channels()
    assert channel.power_w_mean == pytest.approx(0.018)
    with pytest.raises(FileRefused, match=r"the log states 1\.8 V"):
        imported(tmp_path, log, 3.3)


def test_rate_of_a_shield_is_said_or_seen(tmp_path: Path) -> None:
    """Otherwise a trace of 1 kHz would last ten times as long at 100 Hz."""
    values = np.full(3000, 1e-5)
    assert imported(tmp_path, shield_log(values)).facts.header.capability.rate_hz == 1000
    for number, said in enumerate(("1k", "1000")):
        folder = tmp_path / str(number)
        folder.mkdir()
        log = shield_log(values, head=f"PowerShield > ack freq {said}\r\n")
        assert imported(folder, log).facts.header.capability.rate_hz == 1000


def test_loss_in_a_log_is_told(tmp_path: Path) -> None:
    """Otherwise a line that the terminal lost would shorten the trace."""
    faults = Faults(lost_samples=((1500, 20),))
    log = shield_log(np.full(5000, 1e-5), head="PowerShield > ack freq 1k\r\n", faults=faults)
    session = imported(tmp_path, log)
    assert session.facts.loss.lost_count == 20
    assert session.facts.loss.received_count == 4980
    assert not session.is_trusted


def test_range_of_a_shield_is_its_own(tmp_path: Path) -> None:
    """Otherwise a log above 50 mA, where the unit does not measure, would not show that."""
    log = shield_log(np.full(2500, 0.055), energy=False)
    session = imported(tmp_path, log, 3.0)
    assert session.facts.groups[0].flags & Flag.SATURATED


@pytest.mark.parametrize(
    ("log", "supply_v", "reason"),
    [
        (b"TimeStamp: 000s 000ms, buff 00%\r\n6409-07\r\n", None, "samples are current or energy"),
        (b"PowerShield > ack output current\r\n", None, "has current but no voltage"),
        (b"PowerShield > ack output energy\r\nTimeStamp: 000s 000ms\r\n", None, "no rate"),
        (b"PowerShield > ack output energy\r\nPowerShield > ack freq 7k\r\n", None, "no rate of"),
    ],
)
def test_log_that_says_too_little_is_refused(
    tmp_path: Path, log: bytes, supply_v: float | None, reason: str
) -> None:
    """Otherwise a unit would be guessed, and the energy be wrong by a thousand."""
    with pytest.raises(FileRefused, match=reason):
        imported(tmp_path, log, supply_v)
