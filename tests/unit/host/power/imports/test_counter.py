"""Energy counters of tables that have powers, too: both state the same energy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from shlex import split

import numpy as np
import pytest
from numpy.typing import NDArray

from edgebench.host.power.imports.blocks import COUNTER_LIMIT_RATIO
from edgebench.host.power.imports.importer import import_file
from edgebench.host.result.facts import ImportOptions
from edgebench.protocol.errors import FileRefused

Floats = NDArray[np.float64]
STEP_S, COUNT, SUPPLY_V = 0.1, 200, 5.0
TIME_S: Floats = STEP_S * np.arange(1, COUNT + 1)
POWER_W: Floats = 2.0 + 0.5 * np.sin(TIME_S)
COUNTER_J: Floats = 7.0 + np.cumsum(POWER_W) * STEP_S
"""It began to count before the file."""


@dataclass(frozen=True, slots=True)
class CountedTable:
    """Table of a program with a counter."""

    header: str
    row: Callable[[float, float, float], str]
    """Line with a time, a power and a counter."""
    only: ImportOptions
    """Options that leave the counter out, as the error states them."""

    def write(self, path: Path, power_w: Floats, counter_j: Floats) -> Path:
        """Write the file."""
        rows = zip(TIME_S.tolist(), power_w.tolist(), counter_j.tolist(), strict=True)
        path.write_text("\n".join([self.header, *(self.row(*row) for row in rows)]) + "\n")
        return path


TABLES = {
    # pyjoulescope_ui, issue 291.
    "Joulescope UI statistics": CountedTable(
        "#time,current,voltage,power,charge,energy",
        lambda t, p, e: f"{t:.2f},{p / SUPPLY_V:.6f},{SUPPLY_V},{p:.6f},{e / SUPPLY_V:.6f},{e:.6f}",
        ImportOptions(time="time:s", power="power:W", is_averaging=True),
    ),
    # Intel Power Gadget, PowerLog.
    "Intel Power Gadget log": CountedTable(
        "System Time,RDTSC,Elapsed Time (sec),Processor Power_0(Watt),"
        "Cumulative Processor Energy_0(Joules)",
        lambda t, p, e: f"09:00:00:000,1,{t:.3f},{p:.3f},{e:.3f}",
        ImportOptions(
            time="Elapsed Time (sec):s", power="Processor Power_0(Watt):W", is_averaging=True
        ),
    ),
    # baryluk/fnirsi-usb-power-data-logger, README.
    "FNIRSI logger": CountedTable(
        "timestamp sample_in_packet voltage_V current_A dp_V dn_V temp_C_ema energy_Ws capacity_As",
        lambda t, p, e: f"{1_795_000_000 + t:.3f} 0 5.0 {p / SUPPLY_V:.5f} 1 1 30 {e:.5f} 0",
        ImportOptions(
            time="timestamp:s", current="current_A:A", voltage="voltage_V:V", is_averaging=True
        ),
    ),
}
HALF = np.arange(COUNT) >= COUNT // 2
every_table = pytest.mark.parametrize("name", TABLES)


@every_table
def test_counter_that_agrees_is_accepted(name: str, tmp_path: Path) -> None:
    """Otherwise no file of these programs could be read."""
    path = TABLES[name].write(tmp_path / "log.csv", POWER_W, COUNTER_J)
    session = import_file(path, tmp_path / "session")
    assert session.facts.header.facts["format"] == name
    [channel] = session.channels()
    assert channel.energy_j == pytest.approx(POWER_W.sum() * STEP_S, rel=2e-3)


@every_table
@pytest.mark.parametrize(
    ("power_w", "counter_j"),
    [
        (1000 * POWER_W, COUNTER_J),
        (np.where(HALF, 0.1, POWER_W), COUNTER_J),
        (POWER_W, COUNTER_J / 1000),
        (POWER_W, np.minimum(COUNTER_J, COUNTER_J[COUNT // 2])),
        (POWER_W, np.full(COUNT, 7.0)),
    ],
    ids=["power in mW", "half of the power", "counter in kJ", "counter stops", "dead counter"],
)
def test_counter_and_powers_that_contradict_each_other_are_refused(
    name: str, power_w: Floats, counter_j: Floats, tmp_path: Path
) -> None:
    """Otherwise one of two energies of an instrument would be printed, perhaps the wrong one."""
    table = TABLES[name]
    path = table.write(tmp_path / "log.csv", power_w, counter_j)
    said = r"increased by .* J, but the power of column .* difference is 5 %"
    with pytest.raises(FileRefused, match=said) as caught:
        import_file(path, tmp_path / "session")
    words = split(str(caught.value).partition("the columns to use: ")[2])
    stated = dict(zip(words[::2], words[1::2], strict=True))
    assert stated.pop("--samples") == "means"
    only = {"time": table.only.time, "power": table.only.power}
    only |= {"current": table.only.current, "voltage": table.only.voltage}
    assert stated == {f"--{name}": text for name, text in only.items() if text is not None}
    # As the error advises; the file's own remarks, such as a power that no device takes, remain.
    assert import_file(path, tmp_path / "only", table.only).channels()


@every_table
def test_counter_that_is_coarse_or_reset_is_accepted(name: str, tmp_path: Path) -> None:
    """Otherwise a counter of whole joules, or one that a user reset, would refuse good powers."""
    coarse_j = np.floor(COUNTER_J)
    reset_j = np.where(HALF, COUNTER_J - COUNTER_J[COUNT // 2], COUNTER_J)
    for counter_j in (coarse_j, reset_j):
        path = TABLES[name].write(tmp_path / "log.csv", POWER_W, counter_j)
        folder = tmp_path / f"session-{counter_j[0]:g}"
        assert import_file(path, folder).channels()


@every_table
@pytest.mark.parametrize(("factor", "is_accepted"), [(1.04, True), (1.07, False)])
def test_counter_may_count_by_an_assumed_rate(
    name: str, factor: float, is_accepted: bool, tmp_path: Path
) -> None:
    """Otherwise a program that assumes 100 samples per second, and gets 97, would be refused."""
    assert COUNTER_LIMIT_RATIO == 0.05
    path = TABLES[name].write(tmp_path / "log.csv", POWER_W, COUNTER_J * factor)
    if is_accepted:
        assert import_file(path, tmp_path / "session").channels()
    else:
        with pytest.raises(FileRefused, match="the limit of the difference is 5 %"):
            import_file(path, tmp_path / "session")


@every_table
def test_rows_that_are_lost_do_not_count_against_the_counter(name: str, tmp_path: Path) -> None:
    """Otherwise a gap, in which the counter goes on, would pass for a contradiction."""
    path = TABLES[name].write(tmp_path / "log.csv", POWER_W, COUNTER_J)
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:50], *lines[90:]]) + "\n")
    session = import_file(path, tmp_path / "session")
    assert session.facts.loss.lost_count == 40
