"""Logs of programs that print a line for each sample: what is refused, and what is skipped."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from edgebench.host.power.imports.importer import import_file
from edgebench.host.power.stored import StoredSession
from edgebench.host.result.facts import ImportOptions
from edgebench.protocol.errors import FileRefused

DIGITS = "9" * 400
AS_INSTANTS = ImportOptions(is_averaging=False)


def imported(
    folder: Path, lines: Sequence[str], options: ImportOptions = AS_INSTANTS
) -> StoredSession:
    """A log of these lines."""
    path = folder / "console.log"
    path.write_text("".join(f"{line}\n" for line in lines))
    return import_file(path, folder / "session", options)


def shelly(at_s: object, power_w: object, *, source: str = "plug-a", of: str = "switch:0") -> str:
    """A notification, with a time and a power as written in its JSON."""
    params = f'{{"ts":{at_s},"{of}":{{"id":0,"apower":{power_w}}}}}'
    return f'{{"src":"{source}","method":"NotifyStatus","params":{params}}}'


def tasmota(time: str, power_w: object, *, topic: str = "tele/plug/SENSOR") -> str:
    """A line of the console."""
    message = json.dumps({"Time": "2026-11-22T09:00:00", "ENERGY": {"Power": power_w}})
    return f"{time} MQT: {topic} = {message}"


def tegrastats(second: int, power_mw: object) -> str:
    """A line with the fields that are read."""
    return f"11-22-2026 09:00:{second:02d} RAM 3162/7620MB CPU [1%@1510] VDD_IN {power_mw}mW/4952mW"


def perf(at_s: object, energy_j: object) -> str:
    """A line of `perf stat -I -x,`."""
    return f"{at_s},{energy_j},Joules,power/energy-pkg/,1000000000,100.00,,"


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (
            [shelly(at_s, 10 ** (at_s % 2), of=f"switch:{at_s % 2}") for at_s in range(4)],
            "line 2: channel 'plug-a switch:1' in addition to 'plug-a switch:0': import each",
        ),
        (
            [shelly(at_s, 5, source=f"plug-{at_s % 2}") for at_s in range(4)],
            "line 2: channel 'plug-1 switch:0' in addition to 'plug-0 switch:0': import each",
        ),
        (
            [tasmota(f"09:00:0{i}", 5, topic=f"tele/plug{i % 2}/SENSOR") for i in range(4)],
            "line 2: channel 'plug1' in addition to 'plug0': import each",
        ),
        (
            [
                shelly(0, 5),
                '{"params":{"ts":1,"switch:0":{"apower":5},"switch:1":{"apower":7}}}',
            ],
            "channel 'switch:1' in addition to 'switch:0': import each",
        ),
        (
            [f'17638020{i:02d} {{"id":{i % 2},"apower":5}}' for i in range(4)],
            "line 2: channel '1' in addition to '0': import each",
        ),
    ],
)
def test_second_channel_of_a_log_is_refused(
    tmp_path: Path, lines: Sequence[str], reason: str
) -> None:
    """Otherwise two plugs that take turns in one log would pass for one that jumps."""
    with pytest.raises(FileRefused, match=reason):
        imported(tmp_path, lines)


def test_answers_and_telemetry_of_a_plug_are_one_channel(tmp_path: Path) -> None:
    """Otherwise a plug whose status was requested would be refused as two plugs."""
    status = '{"StatusSNS":{"Time":"2026-11-22T09:00:01","ENERGY":{"Power":5}}}'
    lines = [tasmota("09:00:00", 5), f"09:00:01 MQT: stat/plug/STATUS8 = {status}"]
    [channel] = imported(tmp_path, lines).channels()
    assert channel.energy_j == pytest.approx(5)


def test_midnight_is_a_time(tmp_path: Path) -> None:
    """Otherwise a line of 00:00:00 would get the time of its message, and the log be refused.

    That is the time of another clock.
    """
    times = ("23:59:59", "00:00:00", "00:00:01")
    [channel] = imported(tmp_path, [tasmota(time, 5) for time in times]).channels()
    assert channel.duration_s == pytest.approx(2)
    assert channel.energy_j == pytest.approx(10)


GOOD: dict[str, list[str]] = {
    "tasmota": [tasmota(f"09:00:0{i}", 5) for i in range(3)],
    "shelly": [shelly(i, 5) for i in range(3)],
    "tegrastats": [tegrastats(i, 5000) for i in range(3)],
    "perf": [perf(i, 5) for i in (1, 2, 3)],
}


@pytest.mark.parametrize(
    ("program", "line"),
    [
        ("tasmota", '{"StatusSNS":[1]}'),
        ("tasmota", '{"StatusSNS":{"ENERGY":[1]}}'),
        ("tasmota", '{"ENERGY":{"Power":true}}'),
        ("shelly", shelly(7, "true")),
    ],
)
def test_line_of_anything_else_is_passed_over(tmp_path: Path, program: str, line: str) -> None:
    """Otherwise a line that is no sample would end the import, or count as 1 W."""
    session = imported(tmp_path, [*GOOD[program], line])
    assert session.facts.loss.received_count == len(GOOD[program])


@pytest.mark.parametrize(
    ("program", "line", "reason"),
    [
        ("tasmota", 'tele/plug/SENSOR {"Time":5,"ENERGY":{"Power":5}}', "has no times"),
        ("tasmota", '{"Time":"9999-01-01T00:00:00","ENERGY":{"Power":5}}', "line 4: .* not a time"),
        ("tasmota", f"9999999999 {tasmota('', 5)}", "line 4: .* not a time: 1e.10 s"),
        ("shelly", shelly("Infinity", 5), "line 4: not a line of a Shelly log: not a time: inf s"),
        ("shelly", shelly("NaN", 5), "line 4: not a line of a Shelly log: not a time: nan s"),
        ("shelly", shelly("1e300", 5), "line 4: not a line of a Shelly log: not a time: 1e.300 s"),
        ("shelly", shelly(DIGITS, 5), "line 4: not a line of a Shelly log: not a time: inf s"),
        ("shelly", shelly(7, DIGITS), "column 'power': not a number"),
        ("tegrastats", tegrastats(3, DIGITS), "column 'power': not a number"),
        (
            "tegrastats",
            "RAM 1/2MB VDD_GPU_SOC 7200mW/7200mW VIN_SYS_5V0 3900mW/3900mW",
            "line 4: .* not known which rails add up to the board's power: VDD_GPU_SOC, VIN_SYS",
        ),
        ("perf", perf("1e999", 5), "line 4: not a line of a perf stat log: not a time: inf s"),
        ("perf", perf("1e12", 5), "line 4: not a line of a perf stat log: not a time: 1e.12 s"),
        ("perf", perf(4, "1e999"), "column 'power': not a number"),
    ],
)
def test_line_that_no_program_writes_is_refused(
    tmp_path: Path, program: str, line: str, reason: str
) -> None:
    """Otherwise a damaged line would end in a traceback."""
    with pytest.raises(FileRefused, match=reason) as caught:
        imported(tmp_path, [*GOOD[program], line])
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("first_s", [1, 100])
def test_first_line_of_a_cut_log_has_no_interval(tmp_path: Path, first_s: int) -> None:
    """Otherwise one second would have the joules of the hundred seconds that were cut away."""
    lines = [perf(at_s, 12) for at_s in range(first_s, first_s + 3)]
    [channel] = imported(tmp_path, lines, ImportOptions()).channels()
    count = 3 if first_s == 1 else 2
    assert channel.duration_s == pytest.approx(count)
    assert channel.energy_j == pytest.approx(12 * count)


def test_rails_above_their_input_are_refused(tmp_path: Path) -> None:
    """Otherwise a log whose input has the name of a rail would have a third of the power."""
    rails = "VDD_CPU_GPU_CV 1800mW/1800mW VDD_SOC 1800mW/1800mW"
    lines = [f"{tegrastats(second, 1800)} {rails}" for second in range(10)]
    parts = "VDD_CPU_GPU_CV + VDD_SOC, which is 3.6 W"
    with pytest.raises(FileRefused, match=re.escape(f"VDD_IN is 1.8 W, but includes {parts}")):
        imported(tmp_path, lines)


def test_rails_below_their_input_are_read(tmp_path: Path) -> None:
    """Otherwise no log of a Jetson could be imported."""
    rails = "VDD_CPU_GPU_CV 900mW/900mW VDD_SOC 800mW/800mW"
    lines = [f"{tegrastats(second, 1800)} {rails}" for second in range(10)]
    assert imported(tmp_path, lines).power.header.capability.channels[0].name == "power"
