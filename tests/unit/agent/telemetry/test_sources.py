"""Telemetry sources on made-up trees: an absent or dead sensor is never a number."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from support.trees import make_tree

from edgebench.agent.telemetry.source import KeptFile, NoData, Reader, TelemetrySource
from edgebench.agent.telemetry.sources import SOURCES
from edgebench.agent.telemetry.sources.cpu import CpuSource
from edgebench.agent.telemetry.sources.cpufreq import CpufreqSource
from edgebench.agent.telemetry.sources.memory import MemorySource
from edgebench.agent.telemetry.sources.raspberry_pi import RaspberryPiSource
from edgebench.agent.telemetry.sources.thermal import ThermalSource
from edgebench.agent.telemetry.sources.worker import WorkerSource

PID = 4321


def opened(source: TelemetrySource, root: Path) -> Reader:
    """The source on this tree, which must have something for it."""
    reader = source.open(root, PID)
    assert not isinstance(reader, NoData), reader
    return reader


def readings(reader: Reader) -> dict[str, float]:
    """Return a single reading of each sensor."""
    return dict(zip(reader.sensors, reader.read(), strict=True))


def zone(index: int, kind: str, temp: str) -> Mapping[str, str]:
    """A thermal zone."""
    folder = f"sys/class/thermal/thermal_zone{index}"
    return {f"{folder}/type": f"{kind}\n", f"{folder}/temp": f"{temp}\n"}


def test_frequency_of_the_hardware_is_read_where_there_is_no_average(tmp_path: Path) -> None:
    """Otherwise a trusted clock would never be read, or the CPU be interrupted for another one."""
    folder = "sys/devices/system/cpu/cpufreq/policy{}/cpuinfo_{}_freq"
    files = {folder.format(0, "cur"): "1100000\n", folder.format(4, "cur"): "1200000\n"}
    root = make_tree(tmp_path, files, {folder.format(4, "avg"): "1300000\n"})
    assert readings(opened(CpufreqSource(), root)) == {
        "cpufreq.policy0.freq_hz_hardware": 1.1e9,
        "cpufreq.policy4.freq_hz_average": 1.3e9,
    }


def test_zones_of_one_type_are_numbered_in_the_order_of_their_index(tmp_path: Path) -> None:
    """Otherwise two zones would share a name, or zone 10 would come before zone 2."""
    tree = [zone(10, "soc", "30000"), zone(2, "soc", "20000"), zone(0, "cpu", "10000")]
    assert readings(opened(ThermalSource(), make_tree(tmp_path, *tree))) == {
        "thermal.cpu.0.temp_c": 10.0,
        "thermal.soc.0.temp_c": 20.0,
        "thermal.soc.1.temp_c": 30.0,
    }


@pytest.mark.parametrize("temp", ["-256000", "-273150", "", "hot", "4.5e4"])
def test_zone_without_a_temperature_reads_as_nan(tmp_path: Path, temp: str) -> None:
    """Otherwise a zone that is switched off would cool the trace to -256 degrees."""
    reader = opened(
        ThermalSource(), make_tree(tmp_path, zone(0, "gpu", temp), zone(1, "cpu", "40000"))
    )
    found = readings(reader)
    assert math.isnan(found["thermal.gpu.0.temp_c"])
    assert found["thermal.cpu.0.temp_c"] == 40.0


def test_zone_below_zero_is_a_temperature(tmp_path: Path) -> None:
    """Otherwise a board in the cold would have no sensor."""
    reader = opened(ThermalSource(), make_tree(tmp_path, zone(0, "cpu", "-40000")))
    assert readings(reader) == {"thermal.cpu.0.temp_c": -40.0}


def test_zone_that_answers_with_an_error_reads_as_nan(tmp_path: Path) -> None:
    """Otherwise a dead sensor would end the sampling of all others."""
    root = make_tree(
        tmp_path, zone(1, "cpu", "40000"), {"sys/class/thermal/thermal_zone0/type": "npu"}
    )
    (root / "sys/class/thermal/thermal_zone0/temp").mkdir()  # opens, but reading fails
    found = readings(opened(ThermalSource(), root))
    assert math.isnan(found["thermal.npu.0.temp_c"])
    assert found["thermal.cpu.0.temp_c"] == 40.0


def test_zone_follows_its_file(tmp_path: Path) -> None:
    """Otherwise the first value would be repeated for the whole run."""
    root = make_tree(tmp_path, zone(0, "cpu", "40000"))
    reader = opened(ThermalSource(), root)
    make_tree(root, zone(0, "cpu", "41500"))
    assert readings(reader) == {"thermal.cpu.0.temp_c": 41.5}


def test_zone_without_a_type_is_left_out(tmp_path: Path) -> None:
    """Otherwise a half-made zone would keep the others from being read."""
    extra = {"sys/class/thermal/thermal_zone0/temp": "1000"}
    assert opened(ThermalSource(), make_tree(tmp_path, extra, zone(1, "cpu", "40000"))).sensors == (
        "thermal.cpu.0.temp_c",
    )


def test_zone_with_a_digit_that_is_no_number_is_left_out(tmp_path: Path) -> None:
    """Otherwise a directory named with a superscript would end the sampling before it begins."""
    odd = {"sys/class/thermal/thermal_zone²/type": "cpu\n"}
    root = make_tree(tmp_path, odd, zone(1, "cpu", "40000"))
    assert readings(opened(ThermalSource(), root)) == {"thermal.cpu.0.temp_c": 40.0}


def test_device_that_goes_and_comes_back_late_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a CPU off for two samples would stay unread, or be read from another file."""
    path, other = tmp_path / "freq", tmp_path / "other"
    path.write_text("7")
    other.write_text("13")
    kept = KeptFile(path)
    read = os.pread

    def of_sysfs(descriptor: int, size: int, offset: int) -> bytes:
        if not path.exists():  # the kernel's error for an open file whose device went away
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        return read(descriptor, size, offset)

    monkeypatch.setattr("os.pread", of_sysfs)
    path.unlink()
    with pytest.raises(FileNotFoundError):
        kept.read()
    with other.open("rb"):  # has the number of the descriptor that was closed
        with pytest.raises(FileNotFoundError):
            kept.read()
        path.write_text("8")
        assert kept.read() == b"8"


def test_twin_in_sys_is_no_indicator(tmp_path: Path) -> None:
    """Otherwise what the firmware reported before the run would pass for now: never throttled."""
    twin = {"sys/devices/platform/soc/soc:firmware/get_throttled": "50005\n"}
    reader = opened(RaspberryPiSource(), make_tree(tmp_path, twin))
    assert readings(reader) == {"rpi.last_told_bits": 0x50005}
    assert "rpi.throttled_bits" in reader.absent


@pytest.mark.parametrize(
    ("cooling", "name"),
    [("thermal-idle-0", "throttle_c"), ("acme-blower", "trip_passive_c")],
)
def test_trip_throttles_when_what_it_switches_slows_down(
    tmp_path: Path, cooling: str, name: str
) -> None:
    """Otherwise the temperature at which an unknown fan starts would count as one of throttling."""
    folder = "sys/class/thermal/thermal_zone0"
    trip = {
        f"{folder}/trip_point_0_type": "passive\n",
        f"{folder}/trip_point_0_temp": "60000\n",
        f"{folder}/cdev0_trip_point": "0\n",
        f"{folder}/cdev0/type": f"{cooling}\n",
    }
    reader = opened(ThermalSource(), make_tree(tmp_path, zone(0, "cpu", "40000"), trip))
    assert reader.constants == {f"thermal.cpu.0.{name}": 60.0}


@pytest.mark.parametrize("kind", SOURCES, ids=lambda kind: kind.name)
def test_absent_source_says_so(tmp_path: Path, kind: type[TelemetrySource]) -> None:
    """Otherwise a machine without a sensor could not be measured, or its reason stay unknown."""
    found = kind().open(tmp_path, PID)
    assert isinstance(found, NoData)
    assert found.reason
    assert "\n" not in found.reason


def test_busy_ratio_is_counted_from_the_last_reading(tmp_path: Path) -> None:
    """Otherwise the load since boot would pass for the current load."""
    root = make_tree(
        tmp_path, {"proc/stat": "cpu  900 0 0 100 0 0 0 0\ncpu0 900 0 0 100 0 0 0 0\n"}
    )
    reader = opened(CpuSource(), root)
    make_tree(root, {"proc/stat": "cpu  925 0 0 175 0 0 0 0\ncpu0 925 0 0 175 0 0 0 0\n"})
    assert readings(reader) == {"cpu.all.busy_ratio": 0.25, "cpu.0.busy_ratio": 0.25}
    make_tree(root, {"proc/stat": "cpu  1025 0 0 175 0 0 0 0\ncpu0 1025 0 0 175 0 0 0 0\n"})
    assert readings(reader)["cpu.all.busy_ratio"] == 1.0


def test_waiting_for_a_disk_is_idle_and_stolen_time_is_busy(tmp_path: Path) -> None:
    """Otherwise a CPU that waits for its disk would look busy, and stolen time would look free."""
    root = make_tree(tmp_path, {"proc/stat": "cpu  0 0 0 0 0 0 0 0 0 0\n"})
    reader = opened(CpuSource(), root)
    make_tree(root, {"proc/stat": "cpu  10 0 0 10 30 0 0 50 10 0\n"})
    assert readings(reader) == {"cpu.all.busy_ratio": 0.6}


def test_cpu_that_goes_offline_reads_as_nan_and_comes_back(tmp_path: Path) -> None:
    """Otherwise hot-plugging a CPU would end the sampling, or move the values of the others."""
    both = "cpu  20 0 0 0 0 0 0 0\ncpu0 10 0 0 0 0 0 0 0\ncpu1 10 0 0 0 0 0 0 0\n"
    root = make_tree(tmp_path, {"proc/stat": both})
    reader = opened(CpuSource(), root)
    make_tree(root, {"proc/stat": "cpu  40 0 0 0 0 0 0 0\ncpu0 30 0 0 0 0 0 0 0\n"})
    found = readings(reader)
    assert (found["cpu.all.busy_ratio"], found["cpu.0.busy_ratio"]) == (1.0, 1.0)
    assert math.isnan(found["cpu.1.busy_ratio"])
    again = "cpu  60 0 0 0 0 0 0 0\ncpu0 40 0 0 0 0 0 0 0\ncpu1 15 0 0 5 0 0 0 0\n"
    make_tree(root, {"proc/stat": again})
    assert readings(reader)["cpu.1.busy_ratio"] == 0.5


def test_no_tick_between_two_readings_is_no_load(tmp_path: Path) -> None:
    """Otherwise a division by zero would end the sampling."""
    reader = opened(CpuSource(), make_tree(tmp_path, {"proc/stat": "cpu  10 0 0 10 0 0 0 0\n"}))
    assert math.isnan(readings(reader)["cpu.all.busy_ratio"])


def test_memory_is_in_bytes(tmp_path: Path) -> None:
    """Otherwise kibibytes would pass for bytes."""
    files = "MemAvailable:    2048 kB\nSwapTotal:   300 kB\nSwapFree:   100 kB\n"
    root = make_tree(tmp_path, {"proc/meminfo": files})
    reader = opened(MemorySource(), root)
    assert readings(reader) == {
        "memory.available_bytes": 2048 * 1024,
        "memory.swap_used_bytes": 200 * 1024,
    }
    make_tree(root, {"proc/meminfo": "MemTotal: 9 kB\n"})
    assert all(math.isnan(value) for value in readings(reader).values())


def test_worker_is_followed_whatever_its_name_is(tmp_path: Path) -> None:
    """Otherwise a process with a parenthesis in its name would have another CPU, or no memory."""
    from resource import getpagesize

    fields = [str(number) for number in range(3, 53)]
    fields[39 - 3], fields[14 - 3], fields[15 - 3], fields[12 - 3] = "2", "150", "50", "7"
    stat = f"{PID} (a) b 5 (c) {' '.join(fields)}\n"
    root = make_tree(
        tmp_path, {f"proc/{PID}/stat": stat, f"proc/{PID}/statm": "500 100 50 1 0 200 0\n"}
    )
    reader = opened(WorkerSource(), root)
    assert readings(reader) == {
        "worker.rss_bytes": 100 * getpagesize(),
        "worker.major_faults": 7.0,
        "worker.cpu_s": 2.0,
        "worker.cpu": 2.0,
    }
    make_tree(root, {f"proc/{PID}/stat": ""})
    assert all(math.isnan(value) for value in readings(reader).values())
