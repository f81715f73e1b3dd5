"""CSV of any meter; the error for a wrong file names line and column."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.host.power.imports import blocks, csv_layout, csv_rows
from edgebench.host.power.imports.importer import import_file
from edgebench.host.power.stored import StoredSession
from edgebench.host.result.facts import ImportOptions
from edgebench.meters.base import Flag
from edgebench.protocol.errors import FileRefused, StoreError, UsageError


def imported(folder: Path, text: str, supply_v: float | None = None) -> StoredSession:
    """A CSV of this text."""
    path = folder / "trace.csv"
    path.write_text(text, encoding="utf-8")
    return import_file(path, folder / "session", ImportOptions(supply_v=supply_v))


@pytest.mark.parametrize(
    ("text", "supply_v", "known_j"),
    [
        ("t_s,power_W\n0,1\n1,1\n2,3\n", None, 3.0),
        ("# by hand\n#\n\ntime_ms;current_mA;voltage_V\n0;100;5\n1000;100;5\n", None, 0.5),
        ("timestamp_s\tcurrent_uA\n0\t1e6\n2\t1e6\n", 3.0, 6.0),
        ("Timestamp(ms),Current(uA),D0-D7\n0.00,500000,00000001\n1000,500000,0\n", 2.0, 2.0),
        ('"time [s]","mA","note"\r\n0,1000,"a, b"\r\n1,1000,x\r\n\r\n', 1.0, 1.0),
        ("time_ns,watts_w,current_A\n0,2,9\n500000000,2,9\n", None, 1.0),
        ("\ufefft_s,power_W,flags\n0,1,0\n1,nan,1\n2,,1\n3,1,0\n", None, None),
        ("t_s,power_W,power_factor,time_utc\n0,1,0.9,x\n1,1,0.9,y\n", None, 1.0),
        ("time_utc,t_s,mA,current_range,mV\nx,0,1000,1,1\nx,1,1000,1,1000\n", None, 0.5005),
        ("t_s,power_W,i_range,v_range\n0,1,1,1\n1,1,1,1\n", None, 1.0),
        ("t_s,power_W,,\n0,1,,\n1,1,,\n", None, 1.0),
        ("t_s,power_W,channel\n0,1,a\n1,1,a\n", None, 1.0),
        *((f"t_s,power_{mu}W\n0,1e6\n1,1e6\n", None, 1.0) for mu in ("\u00b5", "\u03bc")),
        *((f"t_{mu}s,{mu}A\n0,1e6\n1e6,1e6\n", 3.0, 3.0) for mu in ("\u00b5", "\u03bc")),
    ],
)
def test_energy_is_that_of_the_columns(
    tmp_path: Path, text: str, supply_v: float | None, known_j: float | None
) -> None:
    """Otherwise a unit in a name would be overlooked, and the energy wrong by a thousand."""
    session = imported(tmp_path, text, supply_v)
    if known_j is None:
        assert (session.facts.loss.lost_count, session.is_trusted) == (2, False)
        return
    [channel] = session.channels()
    assert channel.energy_j == pytest.approx(known_j, rel=1e-12)
    assert session.is_trusted is None, "nothing is known of the meter"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("t_s,power_W\n0,1\n1,2\n0.5,3\n", r"line 4, column 't_s': the time is not later"),
        ("# a\nt_s,power_W\n0,1\n\n1,nan\n", r"line 5, column 'power_W': not a number"),
        ("t_s,power_W\n0,1\n1,\n", r"line 3, column 'power_W': not a number"),
        ("t_s,power_W\n0,1\n,2\n", r"line 3, column 't_s': not a time"),
        ("t_s,power_W\n0,1\n1,inf\n", r"line 3, column 'power_W': not a number"),
        ("t_s,power_W\n0,1\n1,oops\n", r"line 3, column 'power_W': not a number: 'oops'"),
        ("t_s,power_W\n0,1\n0,5,2\n", r"line 3: expected 2 columns, got 3"),
        ("t_s,power_W\n0,1\n1\n", r"line 3: expected 2 columns, got 1"),
        ("t_s,power_W,flags\n0,1,0\n1,1,0.5\n", r"line 3, column 'flags': flags are whole"),
        ("t_s,power_W,flags\n0,1,0\n1,1,256\n", r"line 3, column 'flags': flags are whole"),
        ("t_s,current\n0,1\n1,1\n", r"column 'current' has no unit: current takes A"),
        ("timestamp,mA\n0,1\n1,1\n", r"column 'timestamp' has no unit"),
        ("t_s,current_kA\n0,1\n1,1\n", r"has the unit 'kA'"),
        ("t_s,current_A,mA\n0,1,1\n1,1,1\n", r"two columns contain current"),
        ("t_s,A,V,power_factor\n0,1,1,1\n1,1,1,1\n", r"'power_factor' has the unit 'factor'"),
        ("t_s,mA,voltage_range\n0,1,1\n1,1,1\n", r"'voltage_range' has the unit 'range'"),
        (
            "t_s,power_W,channel\n0,1,a\n1,1,a\n2,9,b\n",
            r"line 4, column 'channel': .* differs from .*, 'a'",
        ),
        (
            "t_s,power_W,Channel\n0,1,1\n1,1,\n",
            r"line 3, column 'Channel': .* differs .*'1'",
        ),
        ("t_s,t_s,power_W\n0,0,1\n1,1,1\n", r"two columns are named 't_s'"),
        ("power_W\n1\n1\n", r"no time column"),
        ("t_s,note\n0,1\n", r"no power or current column"),
        ("t_s,mA\n0,1\n1,1\n", r"current but no voltage"),
        ("t_s,power_W\n0,1\n", r"fewer than two samples"),
        ("t_s,power_W\n", r"fewer than two samples|Empty"),
        ("", r"no header line"),
        ("1,2\n3,4\n", r"no time column"),
        ("t_s,power_W\n0,1\n1e30,1\n", r"line 3, column 't_s': not a time"),
    ],
)
def test_wrong_value_is_named_by_line_and_column(tmp_path: Path, text: str, reason: str) -> None:
    """Otherwise one bad value would be hard to find in a million lines, or count as zero."""
    with pytest.raises(FileRefused, match=reason) as caught:
        imported(tmp_path, text)
    assert "\n" not in str(caught.value)
    assert str(tmp_path / "trace.csv") in str(caught.value)
    assert not (tmp_path / "session/power.parquet").exists()


@pytest.mark.parametrize(
    ("said", "flags"),
    [
        ("9.9E+37", Flag.MISSING | Flag.SATURATED),
        ("-9.9E+37", Flag.MISSING | Flag.CLIPPED),
        ("9.91E+37", Flag.MISSING),
    ],
)
@pytest.mark.parametrize(("column", "supply_v"), [("current_mA", 3.3), ("power_W", None)])
def test_overflow_of_an_instrument_is_no_measurement(
    tmp_path: Path, said: str, flags: Flag, column: str, supply_v: float | None
) -> None:
    """Otherwise a value beyond a bench meter's range would give the energy of a star."""
    session = imported(tmp_path, f"t_s,{column}\n0,0.1\n1,{said}\n2,0.1\n", supply_v)
    table = pq.read_table(tmp_path / "session/power.parquet")
    assert table["flags"].to_pylist() == [0, int(flags), 0]
    assert np.isnan(table["watts_w"].to_numpy()[1])
    assert session.facts.loss.lost_count == 1
    assert session.facts.loss.saturated_count == int(Flag.SATURATED in flags)
    assert session.is_trusted is False


def test_table_without_names_may_begin_behind_other_numbers(tmp_path: Path) -> None:
    """Otherwise the number of a device before the first row would hide the columns."""
    path = tmp_path / "trace.csv"
    path.write_text("7\n0,2\n1,2\n2,2\n")
    session = import_file(path, tmp_path / "session", ImportOptions(time="#1:s", power="#2:W"))
    [channel] = session.channels()
    assert channel.energy_j == pytest.approx(4.0)
    with pytest.raises(FileRefused, match="no time column"):
        import_file(path, tmp_path / "unnamed")


def test_columns_that_were_taken_are_told(tmp_path: Path) -> None:
    """Otherwise it would be unknown which of several columns the energy is of."""
    text = "t_s,cpu_power_W,current_mA,V,power_factor,mW\n0,1,1,1,1,1\n1,1,1,1,1,1\n"
    told = imported(tmp_path, text).facts.header.facts["columns"]
    assert told == {"time": "t_s", "current": "current_mA", "voltage": "V", "power": "mW"}


def test_second_channel_behind_the_first_block_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise two rails would be taken for one rail that jumps between them."""
    monkeypatch.setattr(csv_rows, "BLOCK_BYTES", 1 << 10)
    rows = [f"{at},1,{'cpu' if at < 900 else 'gpu'}" for at in range(1000)]
    with pytest.raises(FileRefused, match="line 902, column 'channel'"):
        imported(tmp_path, "\n".join(["t_s,power_W,channel", *rows]))


def table(times: Iterable[float]) -> str:
    """A CSV of one watt at these times."""
    return "\n".join(["t_s,power_W", *(f"{at:.6f},1" for at in times)])


def test_hole_in_the_times_is_a_loss(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a half-written recording would have an energy that looks known."""
    monkeypatch.setattr(csv_rows, "BLOCK_BYTES", 1 << 10)
    kept = [*range(3000), *range(8000, 10000)]
    session = imported(tmp_path, table(at * 1e-3 for at in kept))
    [gap] = session.facts.loss.gaps
    assert (gap.begin_ns, gap.end_ns, gap.count) == (2_999_000_000, 8_000_000_000, 5000)
    assert session.facts.loss.lost_count == 5000
    assert session.facts.header.capability.rate_hz == pytest.approx(1000)
    assert session.is_trusted is False


def test_samples_of_a_busy_logger_are_none_lost(tmp_path: Path) -> None:
    """Otherwise logs with scattered times, or of changes only, would be refused for losses."""
    chance = np.random.default_rng(1)
    scattered = np.arange(2000) * 0.1 + chance.uniform(-0.02, 0.02, 2000)
    assert imported(tmp_path, table(scattered)).facts.loss.lost_count == 0
    changes = np.cumsum(chance.exponential(1.0, 2000) + 1e-6)
    (tmp_path / "changes").mkdir()
    session = imported(tmp_path / "changes", table(changes))
    assert session.facts.loss.lost_count == 0
    assert session.is_trusted is None


def test_samples_that_are_written_late_are_none_lost(tmp_path: Path) -> None:
    """Otherwise a log would seem to lose 4 %.

    A busy logger stamps one in twenty samples too late, by most of a step.
    """
    times = np.arange(2000) * 0.1
    times[10:-1:20] += 0.095
    assert imported(tmp_path, table(times)).facts.loss.lost_count == 0


def test_gaps_beyond_number_are_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the data kept about a bad file would be as long as the file."""
    monkeypatch.setattr(blocks, "GAPS_MAX", 3)
    session = imported(tmp_path, table(at for at in range(400) if at % 20))
    loss = session.facts.loss
    assert (loss.lost_count, len(loss.gaps), sum(gap.count for gap in loss.gaps)) == (19, 3, 19)
    assert loss.gaps[-1].end_ns == 381_000_000_000


def test_supply_beside_a_voltage_is_refused(tmp_path: Path) -> None:
    """Otherwise the user would believe that the given voltage was used."""
    with pytest.raises(FileRefused, match="--supply does not apply: the file has 'power_W'"):
        imported(tmp_path, "t_s,power_W\n0,1\n1,1\n", 3.3)


@pytest.mark.parametrize("content", [b"\xff\xfe\x00t", b"\x00" * 100, b"\x89PNG\r\n\x1a\n" * 99])
def test_file_of_another_kind_is_refused(tmp_path: Path, content: bytes) -> None:
    """Otherwise a picture would become a traceback."""
    path = tmp_path / "picture"
    path.write_bytes(content)
    with pytest.raises(FileRefused):
        import_file(path, tmp_path / "session")


def test_error_behind_the_first_block_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise half a recording would stay and pass for the whole.

    Or the line would be counted by block.
    """
    monkeypatch.setattr(csv_rows, "BLOCK_BYTES", 1 << 10)
    lines = [f"{at * 0.001:.3f},1.0" for at in range(1000)]
    lines[700] = "0.700,1.0 mA"
    with pytest.raises(FileRefused, match="line 702, column 'power_W': wrong unit"):
        imported(tmp_path, "\n".join(["t_s,power_W", *lines]))
    assert not (tmp_path / "session/power.parquet").exists()
    lines[700] = "0.700,1.0"
    [channel] = imported(tmp_path, "\n".join(["t_s,power_W", *lines])).channels()
    assert channel.energy_j == pytest.approx(0.999)


def test_recording_is_not_written_over(tmp_path: Path) -> None:
    """Otherwise a second import would take the place of the first."""
    imported(tmp_path, "t_s,power_W\n0,1\n1,1\n")
    with pytest.raises(StoreError, match="a recording already"):
        imported(tmp_path, "t_s,power_W\n0,1\n1,1\n")


@pytest.mark.parametrize("name", ["meter.spool", "run.json", "power.parquet"])
def test_import_is_not_put_into_what_is_of_another(tmp_path: Path, name: str) -> None:
    """Otherwise a crashed recording, or a run without energy, would get another file's samples."""
    (tmp_path / "session").mkdir()
    (tmp_path / "session" / name).write_bytes(b"")
    with pytest.raises(StoreError, match=rf"there is a .* already: .*/{name}$"):
        imported(tmp_path, "t_s,power_W\n0,1\n1,1\n")
    assert [path.name for path in (tmp_path / "session").iterdir()] == [name]


def test_refused_file_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A refused file leaves no folder in the store, and an earlier folder stays."""
    monkeypatch.setattr(csv_rows, "BLOCK_BYTES", 1 << 10)
    text = table(range(1000)) + "\n1001,1 A"
    with pytest.raises(FileRefused):
        imported(tmp_path, text)
    assert not (tmp_path / "session").exists()
    (tmp_path / "session").mkdir()
    with pytest.raises(FileRefused):
        imported(tmp_path, text)
    assert (tmp_path / "session").exists()


def test_directory_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    """Otherwise a name that is too long would be a traceback."""
    path = tmp_path / "trace.csv"
    path.write_text("t_s,power_W\n0,1\n1,1\n")
    with pytest.raises(UsageError, match="name of 300 bytes is too long, limit 255"):
        import_file(path, tmp_path / ("x" * 300))
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreError, match=r"Not a directory|File exists"):
        import_file(path, tmp_path / "file")


def test_file_that_is_still_written_to_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the stored digest would be of another file than the samples."""
    path = tmp_path / "trace.csv"
    path.write_text("t_s,power_W\n0,1\n1,1\n")
    read_layout = csv_layout.read_layout

    def read_late(*words: Any) -> csv_layout.CsvLayout:
        with path.open("a") as file:
            file.write("2,1\n")
        return read_layout(*words)

    monkeypatch.setattr(csv_layout, "read_layout", read_late)
    with pytest.raises(FileRefused, match=r"trace\.csv: the file changed while it was read"):
        import_file(path, tmp_path / "session")
    assert not (tmp_path / "session").exists()


@given(
    st.lists(
        # Powers above ten times that of an outlet are missing samples.
        st.tuples(st.integers(1, 10**7), st.floats(-700, 700), st.floats(0, 50)),
        min_size=2,
        max_size=40,
    ),
    st.sampled_from([",", ";", "\t"]),
)
def test_written_and_imported_energy_is_the_same(
    rows: list[tuple[int, float, float]], separator: str
) -> None:
    """Otherwise a digit of the time or of a value would be lost on the way."""
    time_ns = np.cumsum([step_us * 1000 for step_us, _, _ in rows])
    power_w = np.array([current * voltage for _, current, voltage in rows])
    known_j = float(np.dot(np.diff(time_ns) / 1e9, (power_w[1:] + power_w[:-1]) / 2))
    lines = [separator.join(("time_us", "current_A", "voltage_V"))]
    for at_ns, (_, current, voltage) in zip(time_ns, rows, strict=True):
        lines.append(separator.join(map(repr, (int(at_ns) // 1000, current, voltage))))
    with tempfile.TemporaryDirectory() as folder:
        [channel] = imported(Path(folder), "\n".join(lines)).channels()
    scale_j = float(np.dot(np.diff(time_ns) / 1e9, np.abs(power_w[1:]) + np.abs(power_w[:-1])))
    assert channel.energy_j == pytest.approx(known_j, rel=1e-12, abs=1e-12 * scale_j)


SMI = "timestamp, power.draw [W]\n2026/11/22 09:00:00.000, 200.00 W\n2026/11/22 09:00:01.000, {}\n"
WTVIEWER = "StoreNo,Date,Time,Millisecond,P-1\n1,2026/11/22,09:00:00,100,20.0\n"
MONSOON = "Time(ms),Main(mA),Main Voltage(V)\n0.001,500,4.0\n"


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (SMI.format("12 mW"), r"column 'power.draw \[W\]': wrong unit: '12 mW'"),
        (SMI.format("12 A"), r"column 'power.draw \[W\]': wrong unit: '12 A'"),
        (WTVIEWER + "2,2026/11/22,09:00:00,,20.0\n", "line 3, column 'Millisecond': not a time"),
        (WTVIEWER + "2,2026/11/22,09:00:00,1e308,20.0\n", "column 'Millisecond': not a time"),
        (MONSOON + "1e300,500,4.0\n", r"line 3, column 'Time\(ms\)': not a time"),
        (MONSOON + "nan,500,4.0\n", r"line 3, column 'Time\(ms\)': not a time"),
        (
            MONSOON.replace("0.001", "09:00:00") + "09:00:00,500,4.0\n",
            r"line 3, column 'Time\(ms\)': the time is not later",
        ),
        ("time,power_W\n2026-11-22T09:00:00,5\n9999-01-01T00:00:00,5\n", "not a time"),
    ],
)
def test_value_of_a_known_program_that_is_no_number_or_time_is_refused(
    tmp_path: Path, text: str, reason: str
) -> None:
    """Otherwise milliwatts would be watts, or an empty field a time.

    A damaged number would be a traceback.
    """
    with pytest.raises(FileRefused, match=reason):
        imported(tmp_path, text)


@pytest.mark.parametrize("value", ["2e2 W", "200. W", "200", "+200.00W"])
def test_number_has_the_unit_of_its_column_or_none(tmp_path: Path, value: str) -> None:
    """Otherwise a number that a program writes would be refused."""
    [channel] = imported(tmp_path, SMI.format(value)).channels()
    assert channel.energy_j == pytest.approx(200)
