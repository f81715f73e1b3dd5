"""Files as other programs write them: each in its documented layout, with the source of it.

The energies are those of a few samples, computed by hand. None of these programs was at hand; where
no document of the maker was found, the source states what was used instead.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from edgebench.host.power.imports import csv_rows
from edgebench.host.power.imports.importer import import_file
from edgebench.host.power.stored import StoredSession
from edgebench.host.result.facts import ImportOptions
from edgebench.protocol.errors import ColumnsUnknown, FileRefused


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A file of a program, and what is in it."""

    format: str
    source: str
    text: str
    energy_j: float
    duration_s: float
    is_averaging: bool
    options: ImportOptions = field(default_factory=ImportOptions)
    encoding: str = "utf-8"


POWERTOOL = Example(
    format="Monsoon PowerTool CSV",
    source="Monsoon Solutions, Mobile Device Power Monitor manual, exporting data; its column "
    "names as several public scripts read them ('Time (s)', 'Main Avg Power (mW)')",
    text="Time (s),Main Avg Power (mW),Main Max Power (mW)\n"
    "0.0002,1000,1100\n0.0004,1000,1100\n0.0006,3000,3100\n",
    energy_j=0.0002 * 5.0,
    duration_s=0.0006,
    is_averaging=True,
)
EXAMPLES = {
    "powertool power": POWERTOOL,
    "powertool current": Example(
        format="Monsoon PowerTool CSV",
        source=POWERTOOL.source,
        text="Time (s),Main Avg Current (mA),Main Avg Voltage (V),Main Max Current (mA)\n"
        "0.0002,500,4.0,510\n0.0004,500,4.0,510\n",
        energy_j=0.0004 * 2.0,
        duration_s=0.0004,
        is_averaging=True,
    ),
    # Its name for the time is in milliseconds, but its values are seconds.
    "monsoon python": Example(
        format="Monsoon Python CSV",
        source="msoon/PyMonsoon, Monsoon/sampleEngine.py: the header of its CSV output, "
        "time.time() - start as the time, and a comma at the end of each line",
        text="Time(ms),Main(mA),Main Voltage(V),\n"
        "0.001,500,4.0,\n0.001,500,4.0,\n0.001,500,4.0,\n0.0016,500,4.0,\n0.0016,500,4.0,\n",
        energy_j=0.0008 * 2.0,
        duration_s=0.0008,
        is_averaging=False,
    ),
    "nrf connect": Example(
        format="nRF Connect Power Profiler CSV",
        source="NordicSemiconductor/pc-nrfconnect-ppk, the CSV export: Timestamp(ms),Current(uA), "
        "and D0-D7 where they were wanted",
        text="Timestamp(ms),Current(uA),D0,D1,D2,D3,D4,D5,D6,D7\n"
        "0,500000,0,0,0,0,0,0,0,0\n0.1,500000,1,0,0,0,0,0,0,0\n0.2,500000,1,0,0,0,0,0,0,0\n",
        energy_j=0.0003 * 1.65,
        duration_s=0.0003,
        is_averaging=True,
        options=ImportOptions(supply_v=3.3),
    ),
    "nrf connect, full rate": Example(
        format="nRF Connect Power Profiler CSV",
        source="NordicSemiconductor/pc-nrfconnect-ppk: nothing is averaged at 100 kS/s",
        text="Timestamp(ms),Current(uA)\n0,500000\n0.01,500000\n0.02,500000\n",
        energy_j=0.00002 * 1.65,
        duration_s=0.00002,
        is_averaging=False,
        options=ImportOptions(supply_v=3.3),
    ),
    # Only changes are written: 10 W for 60 s, then 20 W for 30 s, then unknown.
    "home assistant": Example(
        format="Home Assistant history",
        source="Home Assistant, History panel, 'Download data': entity_id,state,last_changed; "
        "that only changes are recorded stands in its documentation of the recorder",
        text="entity_id,state,last_changed\n"
        "sensor.plug_power,10.0,2026-11-22T09:00:00.000Z\n"
        "sensor.plug_power,20.0,2026-11-22T09:01:00.000Z\n"
        "sensor.plug_power,0.5,2026-11-22T09:01:30.000Z\n",
        energy_j=1200.0,
        duration_s=90.0,
        is_averaging=True,
    ),
    "nvidia-smi": Example(
        format="nvidia-smi CSV",
        source="NVIDIA, nvidia-smi manual: --query-gpu=timestamp,power.draw --format=csv -lms 100",
        text="timestamp, power.draw [W], utilization.gpu [%]\n"
        "2026/11/22 09:00:00.000, 200.00 W, 10 %\n2026/11/22 09:00:00.100, 200.00 W, 10 %\n"
        "2026/11/22 09:00:00.200, 400.00 W, 99 %\n",
        energy_j=50.0,
        duration_s=0.2,
        is_averaging=False,
    ),
    "tegrastats, JetPack 5": Example(
        format="tegrastats log",
        source="NVIDIA Jetson Linux Developer Guide, tegrastats utility; a line as users post it",
        text="".join(
            f"11-22-2026 09:00:{second:02d} RAM 3162/7620MB (lfb 8x4MB) SWAP 0/3810MB (cached 0MB) "
            "CPU [1%@1510,0%@1510] EMC_FREQ 0%@2133 GR3D_FREQ 0%@[305] cpu@50.031C tj@50.031C "
            "VDD_IN 5000mW/4952mW VDD_CPU_GPU_CV 1013mW/1013mW VDD_SOC 1544mW/1544mW\n"
            for second in range(3)
        ),
        energy_j=10.0,
        duration_s=2.0,
        is_averaging=False,
    ),
    # jetson_stats#344: VIN_SYS_5V0 is a part of the power, not the sum.
    "tegrastats, AGX Orin": Example(
        format="tegrastats log",
        source="NVIDIA Jetson Linux Developer Guide, tegrastats utility; the rails of an AGX Orin",
        text="".join(
            f"11-27-2026 08:20:{second:02d} RAM 5210/62780MB (lfb 9x4MB) SWAP 0/31390MB "
            "VDD_GPU_SOC 7200mW/7200mW VDD_CPU_CV 2400mW/2400mW VIN_SYS_5V0 3900mW/3900mW "
            "NC 0mW/0mW VDDQ_VDD2_1V8AO 700mW/700mW NC 0mW/0mW\n"
            for second in range(3)
        ),
        energy_j=27.0,
        duration_s=2.0,
        is_averaging=False,
    ),
    # Ten lines a second with a stamp of whole seconds.
    "tegrastats, ten a second": Example(
        format="tegrastats log",
        source="NVIDIA Jetson Linux Developer Guide, tegrastats utility: --interval 100",
        text="".join(
            f"11-22-2026 09:00:{number // 10:02d} RAM 3162/7620MB (lfb 8x4MB) CPU [1%@1510] "
            "VDD_IN 5000mW/4952mW\n"
            for number in range(30)
        ),
        energy_j=14.5,
        duration_s=2.9,
        is_averaging=False,
    ),
    "tegrastats, JetPack 4": Example(
        format="tegrastats log",
        source="NVIDIA L4T documentation, tegrastats utility: no times, no units",
        text=(
            "RAM 1655/3956MB (lfb 311x4MB) SWAP 0/1978MB (cached 0MB) IRAM 0/252kB(lfb 252kB) "
            "CPU [12%@102,10%@102] EMC_FREQ 3%@1600 GR3D_FREQ 0%@76 PLL@36.5C "
            "POM_5V_IN 2000/2132 POM_5V_GPU 78/78 POM_5V_CPU 275/275\n"
        )
        * 5,
        energy_j=0.8,
        duration_s=0.4,
        is_averaging=False,
        options=ImportOptions(rate_hz=10.0),
    ),
    "tasmota": Example(
        format="Tasmota log",
        source="Tasmota documentation, console and MQTT: tele/…/SENSOR with ENERGY.Power in watts",
        text="".join(
            f"09:00:{second:02d}.250 MQT: tele/plug/SENSOR = "
            f'{{"Time":"2026-11-22T09:00:{second:02d}",'
            '"ENERGY":{"Total":320.144,"Yesterday":5.105,"Today":1.881,"Period":0,"Power":17,'
            '"Factor":0.07,"Voltage":234,"Current":0.128}}\n'
            f"09:00:{second:02d}.300 MQT: tele/plug/STATE = {{}}\n"
            for second in (0, 10, 20)
        ),
        energy_j=340.0,
        duration_s=20.0,
        is_averaging=False,
    ),
    "shelly": Example(
        format="Shelly log",
        source="Shelly Gen2+ device API, Notifications: NotifyStatus with params.ts; Switch: "
        "apower",
        text="".join(
            '{"src":"shellyplusplugs-a","dst":"user","method":"NotifyStatus","params":{"ts":'
            f'{1763802000 + at_s}.5,"switch:0":{{"id":0,"apower":{power_w}}}}}}}\n'
            for at_s, power_w in ((0, 8.0), (10, 12.0), (15, 3.0))
        ),
        energy_j=140.0,
        duration_s=15.0,
        is_averaging=True,
    ),
    "yokogawa": Example(
        format="Yokogawa WTViewer CSV",
        source="columns of a WT310 store, as a public parser lists them (StoreNo, Date, Time, "
        "Millisecond, Urms-1, Irms-1, P-1, …); Yokogawa's manual was not found",
        text="StoreNo,Date,Time,Millisecond,Urms-1,Irms-1,P-1,S-1\n"
        "1,2026/11/22,09:00:00,100,230.1,0.1,20.0,23\n2,2026/11/22,09:00:00,350,230.1,0.1,20.0,23\n"
        "3,2026/11/22,09:00:00,600,230.1,0.1,24.0,23\n",
        energy_j=0.25 * 64.0,
        duration_s=0.75,
        is_averaging=True,
    ),
    "power gadget": Example(
        format="Intel Power Gadget log",
        source="Intel Power Gadget, PowerLog: System Time,RDTSC,Elapsed Time (sec),…,Processor "
        "Power_0(Watt); its columns as public scripts read them",
        text='System Time,RDTSC,Elapsed Time (sec), CPU Utilization(%),"CPU Frequency_0(MHz)",'
        "Processor Power_0(Watt),Cumulative Processor Energy_0(Joules)\n"
        "09:00:00:101,1,0.100,2.0,1800,10.0,1.0\n09:00:00:201,2,0.200,2.0,1800,20.0,3.0\n"
        "\nTotal Elapsed Time (sec) = 0.2\nMeasured RDTSC Frequency (GHz) = 1.8\n",
        energy_j=3.0,
        duration_s=0.2,
        is_averaging=True,
    ),
    "hwinfo": Example(
        format="HWiNFO log",
        source="HWiNFO, sensors, 'Logging start': Date (day.month.year), Time with milliseconds; "
        "values as public scripts read them. In Latin 1, for the sign of a degree",
        text='Date,Time,"CPU Package [°C]","CPU Package Power [W]",\n'
        "22.11.2026,9:00:00.000,40,10.0,\n22.11.2026,9:00:02.000,41,30.0,\n"
        'Date,Time,"CPU Package [°C]","CPU Package Power [W]",\n,,CPU [#0],CPU [#0],\n',
        energy_j=80.0,
        duration_s=4.0,
        is_averaging=True,
        encoding="latin-1",
    ),
    # A blank line first, separated by spaces; a packet's stamps may step back.
    "fnirsi logger": Example(
        format="FNIRSI logger",
        source="baryluk/fnirsi-usb-power-data-logger, README, the format of its output",
        text="\ntimestamp sample_in_packet voltage_V current_A dp_V dn_V temp_C_ema energy_Ws "
        "capacity_As\n"
        "1657568326.775 0 5.00000 0.40000 1.184 1.031 30.5 0.0 0.0\n"
        "1657568326.785 1 5.00000 0.40000 1.184 1.033 30.5 0.0 0.0\n"
        "1657568326.795 2 5.00000 0.40000 1.184 1.030 30.5 0.0 0.0\n"
        "1657568326.794 3 5.00000 0.40000 1.184 1.030 30.5 0.0 0.0\n"
        "1657568326.815 0 5.00000 0.40000 1.184 1.030 30.5 0.0 0.0\n",
        energy_j=0.05 * 2.0,
        duration_s=0.05,
        is_averaging=True,
    ),
    "perf stat": Example(
        format="perf stat log",
        source="perf-stat(1), -I 100 -x, and CSV FORMAT: time, value, unit, event, …",
        text="0.100,1.50,Joules,power/energy-pkg/,100000000,100.00,,\n"
        "0.100,0.50,Joules,power/energy-ram/,100000000,100.00,,\n"
        "0.200,2.50,Joules,power/energy-pkg/,100000000,100.00,,\n"
        "0.300,2.00,Joules,power/energy-pkg/,100000000,100.00,,\n",
        energy_j=6.0,
        duration_s=0.3,
        is_averaging=True,
    ),
    "currentranger": Example(
        format="CurrentRanger CSV",
        source="CurrentRanger desktop app, documentation, 'Workspaces and Export': timestamp in "
        "Unix seconds, amps, voltage_v",
        text="timestamp,amps,voltage_v\n1763802000.0,0.5,4\n1763802001.0,0.5,4\n1763802002.0,0.5,4\n",
        energy_j=4.0,
        duration_s=2.0,
        is_averaging=False,
    ),
    "joulescope ui": Example(
        format="CSV",
        source="no document was found; a public script reads the export as three columns behind a "
        "line of #: time, current and voltage",
        text="#time (s),current (A),voltage (V)\n0.0,0.5,4.0\n0.5,0.5,4.0\n1.0,0.5,4.0\n",
        energy_j=2.0,
        duration_s=1.0,
        is_averaging=False,
    ),
    # One channel per file, without a unit: the user names it.
    "otii": Example(
        format="CSV",
        source="no document of Qoitech's was found; a public script reads an export 'Main current "
        "- Arc.csv' by its column Value, 4000 a second",
        text="Timestamp,Value\n0.0,0.5\n0.00025,0.5\n0.0005,0.5\n",
        energy_j=0.0005 * 2.0,
        duration_s=0.0005,
        is_averaging=False,
        options=ImportOptions(time="Timestamp:s", current="Value:A", supply_v=4.0),
    ),
    "otii, named": Example(
        format="CSV",
        source="no document of Qoitech's was found; names as its app shows the channels",
        text="Timestamp (s),Main Current (A),Main Voltage (V)\n"
        "0,0.5,4\n0.00025,0.5,4\n0.0005,0.5,4\n",
        energy_j=0.0005 * 2.0,
        duration_s=0.0005,
        is_averaging=False,
    ),
    "ISO times": Example(
        format="CSV",
        source="ISO 8601; RFC 3339",
        text="time,power_W\n2026-11-22T23:59:59.5+01:00,2\n2026-11-23T00:00:00.5+01:00,2\n",
        energy_j=2.0,
        duration_s=1.0,
        is_averaging=False,
    ),
    "time of day past midnight": Example(
        format="CSV",
        source="our own: a logger without dates",
        text="time,power_mW\n23:59:59.5,2000\n00:00:00.5,2000\n00:00:01.5,2000\n",
        energy_j=4.0,
        duration_s=2.0,
        is_averaging=False,
    ),
    "decimal commas": Example(
        format="CSV",
        source="what a spreadsheet writes in most of Europe",
        text="Time (s);Power (mW);Note\n0,0;1500,5;a\n0,5;1500,5;b\n1,0;1500,5;c\n",
        energy_j=1.5005,
        duration_s=1.0,
        is_averaging=False,
    ),
    "UTF-16 with tabs and a preamble": Example(
        format="CSV",
        source="what instruments' programs for Windows write",
        text="Power log of 22 November\nChannel 1\n\nTime [ms]\tU [V]\tI [mA]\n"
        "0\t4\t500\n1000\t4\t500\n",
        energy_j=2.0,
        duration_s=1.0,
        is_averaging=False,
        encoding="utf-16",
    ),
}


def imported(folder: Path, example: Example) -> StoredSession:
    """The file of an example, imported."""
    path = folder / "export.csv"
    path.write_text(example.text, encoding=example.encoding)
    return import_file(path, folder / "session", example.options)


@pytest.mark.parametrize("name", EXAMPLES)
def test_file_of_a_program_has_its_energy(name: str, tmp_path: Path) -> None:
    """Otherwise an export would be refused, or read with another unit, time or meaning."""
    example = EXAMPLES[name]
    assert example.source
    session = imported(tmp_path, example)
    header = session.facts.header
    assert (header.facts["format"], header.capability.is_averaging) == (
        example.format,
        example.is_averaging,
    )
    [channel] = session.channels()
    assert channel.duration_s == pytest.approx(example.duration_s, rel=1e-5)
    assert channel.energy_j == pytest.approx(example.energy_j, rel=1e-5)
    assert session.facts.loss.lost_count == 0


def test_user_says_what_samples_are(tmp_path: Path) -> None:
    """Otherwise means would be taken for instants, and half a sample at either end be lost."""
    path = tmp_path / "trace.csv"
    path.write_text("t_s,power_W\n1,1\n2,1\n3,3\n")
    energies_j = [
        import_file(path, tmp_path / str(number), ImportOptions(is_averaging=is_averaging))
        .channels()[0]
        .energy_j
        for number, is_averaging in enumerate((None, False, True))
    ]
    assert energies_j == [pytest.approx(3.0), pytest.approx(3.0), pytest.approx(5.0)]


def test_mean_behind_a_gap_is_that_of_its_own_interval(tmp_path: Path) -> None:
    """Otherwise a minute without samples would have the power of the next minute."""
    path = tmp_path / "trace.csv"
    rows = [(second, 1.0) for second in range(20)] + [(80, 5.0), (81, 1.0)]
    path.write_text("t_s,power_W\n" + "".join(f"{t},{p}\n" for t, p in rows))
    session = import_file(path, tmp_path / "session", ImportOptions(is_averaging=True))
    assert (session.facts.loss.lost_count, session.is_trusted) == (60, False)
    assert session.channels()[0].energy_j == pytest.approx(20 + 60 * 3 + 5 + 1)


@pytest.mark.parametrize("block_bytes", [64, 1 << 22])
@pytest.mark.parametrize("name", ["home assistant", "powertool power", "decimal commas"])
def test_blocks_go_on_where_the_last_one_ended(
    name: str, block_bytes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a file of several blocks would lose a sample at each."""
    monkeypatch.setattr(csv_rows, "BLOCK_BYTES", block_bytes)
    example = EXAMPLES[name]
    head, *rows = example.text.splitlines(keepends=True)
    session = imported(tmp_path, example)
    assert session.channels()[0].energy_j == pytest.approx(example.energy_j)
    assert session.facts.loss.received_count == len(rows)
    assert head


def test_value_that_a_program_calls_missing_is_missing(tmp_path: Path) -> None:
    """Otherwise a sensor that was away for a while would cost the whole file, or count as 0 W."""
    path = tmp_path / "smi.csv"
    path.write_text(
        "timestamp, power.draw [W]\n"
        "2026/09/24 18:00:00.000, 200.00 W\n2026/09/24 18:00:10.000, 220.00 W\n"
        "2026/09/24 18:00:20.000, [N/A]\n2026/09/24 18:00:30.000, 220.00 W\n"
    )
    session = import_file(path, tmp_path / "session")
    assert (session.facts.loss.lost_count, session.is_trusted) == (1, False)


def test_second_gpu_or_sensor_is_refused(tmp_path: Path) -> None:
    """Otherwise two devices that take turns in one file would pass for one that jumps."""
    path = tmp_path / "smi.csv"
    path.write_text(
        "index, timestamp, power.draw [W]\n0, 2025/04/09 08:59:06.356, 63.86 W\n"
        "1, 2025/04/09 08:59:06.360, 56.78 W\n"
    )
    with pytest.raises(
        FileRefused, match="channel differs from the channel of the first row, '0': import"
    ):
        import_file(path, tmp_path / "session")


@pytest.mark.parametrize(
    ("text", "options", "reason"),
    [
        ("a,b,c\n1,2,3\n", ImportOptions(), "no time column: .*--time COLUMN.*'a', 'b', 'c'"),
        ("t_s,b\n1,2\n", ImportOptions(), "--power COLUMN or --current COLUMN.*: 't_s', 'b'"),
        ("t_s,P\n1,2\n", ImportOptions(), "column 'P' has no unit.*columns found: 't_s', 'P'"),
        ("t,P_W\n1,2\n", ImportOptions(), "column 't' has no unit.*columns found: 't', 'P_W'"),
        (
            "t_s,P\n1,2\n",
            ImportOptions(power="Q:W"),
            "no column is named 'Q'; columns found: 't_s'",
        ),
        (
            "t_s,P\n1,2\n",
            ImportOptions(power="P"),
            "has no unit; units of power: .* pass --power P:W",
        ),
        (",".join(f"c{i}" for i in range(20)) + "\n1\n", ImportOptions(), "'c11' and 8 more$"),
    ],
)
def test_unknown_columns_are_listed_with_the_option_that_names_them(
    text: str, options: ImportOptions, reason: str, tmp_path: Path
) -> None:
    """Otherwise a user with an unknown export would have to read the documentation."""
    path = tmp_path / "export.csv"
    path.write_text(text)
    with pytest.raises(ColumnsUnknown, match=reason) as caught:
        import_file(path, tmp_path / "session", options)
    assert "\n" not in str(caught.value)


def test_columns_that_the_user_names_are_used(tmp_path: Path) -> None:
    """Otherwise a name given by the user would mean another column, or its unit be ignored."""
    path = tmp_path / "export.csv"
    path.write_text("# x\nZeit;Leistung [mW];power_W\n0;1000;7\n1000;1000;7\n")
    options = ImportOptions(time="Zeit:ms", power="Leistung [mW]")
    session = import_file(path, tmp_path / "session", options)
    assert session.channels()[0].energy_j == pytest.approx(1.0)
    assert session.facts.header.facts["columns"] == {"time": "Zeit", "power": "Leistung [mW]"}


def test_log_without_times_asks_for_its_rate(tmp_path: Path) -> None:
    """Otherwise an old tegrastats, which has no times, would get a made-up second per line."""
    example = EXAMPLES["tegrastats, JetPack 4"]
    path = tmp_path / "tegrastats.log"
    path.write_text(example.text)
    with pytest.raises(FileRefused, match="has no times: pass the sample rate, as in --rate 10"):
        import_file(path, tmp_path / "session")


def test_twelve_formats_and_more_have_a_source() -> None:
    """Otherwise a format without a document would be claimed as supported."""
    named = {example.format for example in EXAMPLES.values()} - {"CSV"}
    assert len(named) >= 12
