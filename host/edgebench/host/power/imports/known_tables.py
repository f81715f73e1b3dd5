"""Tables that known programs write, with the meaning of their columns and of their samples.

The column names of a program may lack a unit or have a wrong unit; the program's documentation is
more reliable than the header of its tables. If the documentation does not state whether a sample is
a mean over its interval, the user has to state it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

from edgebench.meters.fnirsi.decoder import LIMIT_A
from edgebench.meters.ppk2.words import HIGHEST_A

S, MS = 1_000_000_000.0, 1_000_000.0
CLOCK = None
"""Stands for the scale of a column that contains clock times."""
Columns = dict[str, tuple[tuple[str, float | None], ...]]
"""Maps each quantity to column names with scales; the first name that a table has is used."""


class Samples(Enum):
    """What a sample represents."""

    MEANS = "means"
    """Mean over the interval that ends at the sample's time."""
    INSTANTS = "instants"
    HELD = "held"
    """Power that lasts until the next sample, because only changes are written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownTable:
    """Layout of the tables that a program writes."""

    name: str
    marks: frozenset[str]
    """Columns that identify the table; all must be present."""
    columns: Columns
    samples: Samples | None = None
    """What a sample represents; None if the program's documentation does not state it."""
    has_footer: bool = False
    """Whether lines without a sample follow the last sample."""
    may_repeat: bool = False
    """Whether successive rows may share a time, or step back in time; such rows are spread
    evenly."""
    full_rate_hz: float | None = None
    """Rate at which samples are instantaneous values; at lower rates, samples are means. None if
    this does not depend on the rate."""
    smoothing_s: float | None = None
    """Time over which the instrument smears a change."""
    limit_a: float | None = None
    """Current at the end of the instrument's range, from the meter's driver; None: unknown."""
    missing: tuple[str, ...] = field(default=())
    """Texts that mark a missing value."""


KNOWN = (
    # jetperch/pyjoulescope_ui, issue 291: the statistics that the UI records, per interval, in SI
    # units; behind #.
    KnownTable(
        name="Joulescope UI statistics",
        marks=frozenset({"time", "current", "voltage", "power", "charge", "energy"}),
        columns={"time": (("time", S),), "power": (("power", 1.0),), "energy": (("energy", 1.0),)},
        samples=Samples.MEANS,
    ),
    # turbostat(8): PkgWatt is the energy since the previous row divided by the time; with
    # --Summary, a row is for the whole machine.
    KnownTable(
        name="turbostat",
        marks=frozenset({"Time_Of_Day_Seconds", "PkgWatt"}),
        columns={"time": (("Time_Of_Day_Seconds", S),), "power": (("PkgWatt", 1.0),)},
        samples=Samples.MEANS,
    ),
    # powerstat(8): average power since the previous row; a line of dashes and the averages follow.
    KnownTable(
        name="powerstat",
        marks=frozenset({"Time", "Ctxt/s", "Watts"}),
        columns={"time": (("Time", CLOCK),), "power": (("Watts", 1.0),)},
        samples=Samples.MEANS,
        has_footer=True,
    ),
    # Monsoon Solutions, PowerTool manual, "Export": one row per interval, means and peaks.
    KnownTable(
        name="Monsoon PowerTool CSV",
        marks=frozenset({"Time (s)", "Main Avg Power (mW)"}),
        columns={"time": (("Time (s)", S),), "power": (("Main Avg Power (mW)", 1e-3),)},
        samples=Samples.MEANS,
    ),
    KnownTable(
        name="Monsoon PowerTool CSV",
        marks=frozenset({"Time (s)", "Main Avg Current (mA)"}),
        columns={
            "time": (("Time (s)", S),),
            "current": (("Main Avg Current (mA)", 1e-3),),
            "voltage": (("Main Avg Voltage (V)", 1.0),),
        },
        samples=Samples.MEANS,
    ),
    # msoon/PyMonsoon, Monsoon/sampleEngine.py: time.time() - start, which is seconds, under the
    # name "Time(ms)"; one time per USB packet of up to three samples.
    KnownTable(
        name="Monsoon Python CSV",
        marks=frozenset({"Main(mA)"}),
        columns={
            "time": (("Time(ms)", S), ("Time(s)", S)),
            "current": (("Main(mA)", 1e-3),),
            "voltage": (("Main Voltage(V)", 1.0),),
        },
        may_repeat=True,
    ),
    # Home Assistant, History panel, "Download data"; only changes are written.
    KnownTable(
        name="Home Assistant history",
        marks=frozenset({"entity_id", "state", "last_changed"}),
        columns={
            "time": (("last_changed", CLOCK),),
            "power": (("state", 1.0),),
            "channel": (("entity_id", 1.0),),
        },
        samples=Samples.HELD,
        missing=("unavailable", "unknown"),
    ),
    # NVIDIA, nvidia-smi manual: power.draw is the mean of one second since Ampere, and the last
    # reading on older GPUs; the file does not state which.
    *(
        KnownTable(
            name="nvidia-smi CSV",
            marks=frozenset({"timestamp", f"{name} [W]"}),
            columns={
                "time": (("timestamp", CLOCK),),
                "power": ((f"{name} [W]", 1.0),),
                "channel": (("index", 1.0), ("uuid", 1.0), ("pci.bus_id", 1.0)),
            },
            samples=samples,
            missing=("[N/A]", "[Not Supported]", "N/A"),
        )
        for name, samples in (
            ("power.draw.instant", Samples.INSTANTS),
            ("power.draw.average", None),
            ("power.draw", None),
        )
    ),
    # Yokogawa WT300 series, stored by WTViewerFreePlus: means over the update period.
    KnownTable(
        name="Yokogawa WTViewer CSV",
        marks=frozenset({"StoreNo", "Date", "Time", "P-1"}),
        columns={
            "date": (("Date", CLOCK),),
            "time": (("Time", CLOCK),),
            "millisecond": (("Millisecond", MS),),
            "power": (("P-1", 1.0),),
        },
        samples=Samples.MEANS,
    ),
    # Intel Power Gadget, PowerLog: the power is the energy since the last row divided by the time;
    # totals follow after an empty line.
    KnownTable(
        name="Intel Power Gadget log",
        marks=frozenset({"Elapsed Time (sec)", "Processor Power_0(Watt)"}),
        columns={
            "time": (("Elapsed Time (sec)", S),),
            "power": (("Processor Power_0(Watt)", 1.0),),
            "energy": (("Cumulative Processor Energy_0(Joules)", 1.0),),
        },
        samples=Samples.MEANS,
        has_footer=True,
    ),
    # HWiNFO, "Logging start": Date as day.month.year, Time with milliseconds; the package power of
    # a processor is the energy counted since the last row. The header is repeated at the end.
    KnownTable(
        name="HWiNFO log",
        marks=frozenset({"Date", "Time", "CPU Package Power [W]"}),
        columns={
            "date": (("Date", CLOCK),),
            "time": (("Time", CLOCK),),
            "power": (("CPU Package Power [W]", 1.0),),
        },
        samples=Samples.MEANS,
        has_footer=True,
    ),
    # baryluk/fnirsi-usb-power-data-logger, README: separated by spaces, seconds since 1970; the
    # stamps of a packet of four samples are computed from its arrival, and may step back.
    KnownTable(
        name="FNIRSI logger",
        marks=frozenset({"sample_in_packet", "voltage_V", "current_A"}),
        columns={
            "time": (("timestamp", S),),
            "current": (("current_A", 1.0),),
            "voltage": (("voltage_V", 1.0),),
            "energy": (("energy_Ws", 1.0),),
        },
        samples=Samples.MEANS,
        may_repeat=True,
        smoothing_s=0.5,
        limit_a=LIMIT_A,
    ),
    # CurrentRanger desktop app, "Workspaces and export": timestamp in seconds since 1970.
    KnownTable(
        name="CurrentRanger CSV",
        marks=frozenset({"timestamp", "amps"}),
        columns={
            "time": (("timestamp", S),),
            "current": (("amps", 1.0),),
            "voltage": (("voltage_v", 1.0),),
        },
    ),
    # nRF Connect Power Profiler: below 100 kS/s the app averages.
    KnownTable(
        name="nRF Connect Power Profiler CSV",
        marks=frozenset({"Timestamp(ms)", "Current(uA)"}),
        columns={"time": (("Timestamp(ms)", MS),), "current": (("Current(uA)", 1e-6),)},
        samples=Samples.MEANS,
        full_rate_hz=100_000.0,
        limit_a=HIGHEST_A,
    ),
)
"""Known tables, which are checked in this order; the first match is used."""


def known_table(names: Sequence[str]) -> KnownTable | None:
    """The known layout with these columns; None if no layout matches."""
    present = set(names)
    return next((table for table in KNOWN if table.marks <= present), None)
