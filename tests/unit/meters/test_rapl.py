"""The RAPL driver on a made-up /sys."""

from __future__ import annotations

import errno
import json
import math
import os
from collections.abc import Sequence
from pathlib import Path

import pytest
from support.powercap import RANGE_UJ, Counter
from support.recordings import Decoded, decoded
from support.tools import need_shared

from edgebench.meters import file_meter
from edgebench.meters.base import AbsentMeter, Flag
from edgebench.meters.polled import PolledSession
from edgebench.meters.rapl import RaplMeter
from edgebench.meters.registry import find_meter
from edgebench.protocol.errors import UsageError

SECOND_NS = 1_000_000_000


def record(root: Path, counter: Counter, values: Sequence[object], channel: int = 0) -> Decoded:
    """Readings once a second, with the counter at these values."""
    times = iter(range(0, 1000 * SECOND_NS, SECOND_NS // 2))  # each reading looks twice
    meter = RaplMeter(root, clock_ns=lambda: next(times))
    meter.open()
    session = meter.session(root / "recording")
    assert isinstance(session, PolledSession)
    counter.show(values[0])
    with session:
        session._is_over.set()
        session._thread.join()
        for value in values[1:-1]:
            counter.show(value)
            session._keep()
        counter.show(values[-1])
    meter.close()
    return decoded(root / "recording", channel)


def test_power_is_energy_over_time(tmp_path: Path) -> None:
    """Otherwise a unit would be wrong by a thousand unnoticed."""
    found = record(tmp_path, Counter(tmp_path), [0, 30_000_000, 45_000_000])
    assert list(found.power_w) == pytest.approx([30.0, 15.0])
    assert list(found.begin_ns) == [SECOND_NS // 4, SECOND_NS * 5 // 4]
    assert list(found.time_ns) == [SECOND_NS * 5 // 4, SECOND_NS * 9 // 4]


def test_zones_beyond_the_tenth_are_there_and_parts_of_zones_are_not(tmp_path: Path) -> None:
    """Otherwise a machine with many packages would lack some energy.

    Or it would have the cores of a package twice.
    """
    for index in (0, 1, 2, 9, 10, 11):
        Counter(tmp_path, index, f"package-{index}")
    (tmp_path / "sys/class/powercap/intel-rapl:10:0").mkdir()
    header = RaplMeter(tmp_path).open()
    assert not isinstance(header, AbsentMeter)
    names = [channel.name for channel in header.capability.channels]
    assert names == [f"package-{index}" for index in (0, 1, 2, 9, 10, 11)]


def test_counter_that_wraps_loses_nothing(tmp_path: Path) -> None:
    """Otherwise a window would have minus two hundred kilojoules once in twenty minutes."""
    found = record(tmp_path, Counter(tmp_path), [RANGE_UJ - 4_000_000, 5_999_999])
    assert list(found.power_w) == pytest.approx([10.0])


def test_known_wrap(tmp_path: Path) -> None:
    """The energy over a wrap is the known answer to within a unit of the counter."""
    vector = json.loads(need_shared("known_answers/energy.json").read_text())["H_rapl_wrap"]
    found = record(tmp_path, Counter(tmp_path), vector["definition"]["energy_uj"])
    assert found.power_w.sum() == pytest.approx(vector["expected"]["total_J"], abs=2e-6)


def test_counter_that_does_not_answer_is_flagged(tmp_path: Path) -> None:
    """Otherwise a failed reading would become zero watts."""
    found = record(tmp_path, Counter(tmp_path), [0, "", 30_000_000])
    assert list(found.flags) == [Flag.MISSING, Flag.NONE]
    assert math.isnan(found.power_w[0])
    assert found.power_w[1] == pytest.approx(15.0)
    assert found.begin_ns[1] == SECOND_NS // 4, "the two seconds since the last good reading"
    assert found.loss.lost_count == 1


def test_rounds_that_were_missed_cost_a_counter_nothing(tmp_path: Path) -> None:
    """Otherwise every energy of a run would be refused for its losses.

    A busy host may read a second late.
    """
    # These readings are a second apart, ten times the period of the session.
    found = record(tmp_path, Counter(tmp_path), [0, 30_000_000, 45_000_000])
    assert (found.loss.lost_count, found.loss.gaps) == (0, ())


def test_zones_are_apart(tmp_path: Path) -> None:
    """Otherwise the package would be added to the platform that it is a part of."""
    counter = Counter(tmp_path)
    Counter(tmp_path, 1, "psys")
    header = RaplMeter(tmp_path).open()
    assert not isinstance(header, AbsentMeter)
    assert [(c.name, c.boundary) for c in header.capability.channels] == [
        ("package-0", "package"),
        ("psys", "platform"),
    ]
    assert list(record(tmp_path, counter, [0, 1_000_000], channel=1).power_w) == [0.0]


def test_machine_without_counters_says_why(tmp_path: Path) -> None:
    """Otherwise a virtual machine would show a traceback, or zero joules."""
    opened = RaplMeter(tmp_path).open()
    assert isinstance(opened, AbsentMeter)
    assert "no RAPL zone" in opened.reason


def test_counter_of_root_says_why_and_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the user would read of a missing file, or give up.

    The counters have been root's since 2020.
    """
    counter = tmp_path / "sys/class/powercap/intel-rapl:0/energy_uj"
    Counter(tmp_path)
    counter.chmod(0)
    if os.geteuid() == 0:  # root ignores file modes

        def refuse(*_: object) -> None:
            raise PermissionError(errno.EACCES, "Permission denied", str(counter))

        monkeypatch.setattr(file_meter, "Files", refuse)
    opened = RaplMeter(tmp_path).open()
    assert isinstance(opened, AbsentMeter)
    assert f"root only: {counter}" in opened.reason
    assert "sudo chmod a+r /sys/class/powercap/*-rapl:*/energy_uj" in opened.reason
    assert "\n" not in opened.reason


def test_opening_twice_keeps_one_descriptor_a_zone(tmp_path: Path) -> None:
    """Otherwise an agent that lists its meters would run out of files."""
    Counter(tmp_path)
    meter = RaplMeter(tmp_path)
    meter.open()
    before = len(os.listdir("/proc/self/fd"))
    meter.open()
    assert len(os.listdir("/proc/self/fd")) == before
    meter.close()


def test_zone_without_its_counter_says_why(tmp_path: Path) -> None:
    """Otherwise a zone that is half there would be a traceback."""
    (tmp_path / "sys/class/powercap/intel-rapl:0").mkdir(parents=True)
    opened = RaplMeter(tmp_path).open()
    assert isinstance(opened, AbsentMeter)
    assert "not readable" in opened.reason


def test_session_reads_ten_times_a_second(tmp_path: Path) -> None:
    """Otherwise a session would end early, or its thread go on for ever."""
    Counter(tmp_path)
    meter = RaplMeter(tmp_path)
    meter.open()
    with meter.session(tmp_path / "recording") as session:
        session._is_over.wait(0.35)
    found = decoded(tmp_path / "recording")
    assert session.trouble is None
    assert len(found.power_w) >= 1
    assert not session._thread.is_alive()


@pytest.mark.parametrize("text", ["wattson", "", "rapl2:/"])
def test_unknown_meter_is_refused_by_name(text: str) -> None:
    """Otherwise a typing error would become a traceback."""
    with pytest.raises(UsageError, match=r"unknown meter .*available: .*rapl"):
        find_meter(text)


def test_unknown_option_is_refused_by_name() -> None:
    """Otherwise a misspelt option would be ignored, and the energy be of another voltage."""
    with pytest.raises(UsageError, match=r"ppk2 has no option 'suply'; available: supply"):
        find_meter("ppk2:/dev/ttyACM0,suply=3.3")
    with pytest.raises(UsageError, match=r"supply must be a number, got '3,3'|has no option '3'"):
        find_meter("ppk2:/dev/ttyACM0,supply=3,3")
