"""The campaign file defines varied axes, fixed settings, and retries of failed runs.

A campaign of 2 models × 2 devices × 2 numbers of threads, with five runs of each::

    schema = 1
    name = "int8-or-fp32"
    repeats = 5                     # runs of each cell
    budget_s = 28800                # runs that would end later than this are not started

    [axes]                          # every combination is a cell
    model = ["net_fp32.tflite", "net_int8.tflite"]      # paths relative to this file, or built-in
    device = ["pi4", "label:jetson"]                    # as for `--on`
    threads = [1, 4]

    [settings]                      # of every run: options of `edgebench bench`
    duration = "10s"                # of all runs of a cell together
    meter = "farm"

    [[exclude]]                     # cells to leave out: all keys must match
    model = "*fp32*"
    threads = 4

    [[include]]                     # cells to add
    model = "large.onnx"
    device = "jetson"

    [retry]                         # number of further attempts after an error of this kind
    worker_died = 1
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, make_dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast, get_args, get_type_hints

from edgebench.host.bench.request import BenchOptions
from edgebench.host.devices.names import LOCAL_NAME
from edgebench.host.options.bench import SETTINGS, TEXT, BenchOption
from edgebench.protocol.errors import ErrorCode, UsageError, os_error_as
from edgebench.protocol.spec import MAX_LENGTH_S
from edgebench.protocol.text import printable
from edgebench.protocol.toml_text import Complaint, Table, TomlText, strict_converter

if TYPE_CHECKING:
    from typing_extensions import Unpack

SCHEMA_VERSION = 1
MAX_SIZE_BYTES = 2**20
MAX_CELLS = 10_000
"""Maximum number of cells, because a cell's number has four digits in the id of a run."""
MAX_COMBINATIONS = 100_000
"""Maximum number of combinations of levels before exclusions, ten times `MAX_CELLS`."""
MAX_COMPARISONS = 1_000_000
"""Maximum product of the number of axis values and the number of exclusions; each value is compared
with each exclusion."""
MAX_RUNS = 100_000
"""Maximum number of runs, which is the number of cells times the repeats. A farm of 50 boards, each
with one run per minute, needs a day and a half for this number of runs."""
MAX_REPEATS = 999
MAX_RETRIES = 9
INVALID = "invalid"
"""Key in `[retry]` for a run that was measured, but has an invalid verdict."""
METER_LOST = "meter_lost"
"""Kind of error of a run whose meter stopped before the timed loop."""
STOPPED = "run_stopped"
"""Kind of error of a run that was stopped."""
MADE_AGAIN = frozenset({STOPPED, "no_space", "lease_held"})
"""Kinds of error that the run did not cause: the run was stopped, or the device was full or in use.
Such a run is made again regardless of `[retry]`, as long as the campaign waits for its device."""
DEFAULT_RETRY = {
    "worker_died": 1,
    "worker_timeout": 1,
    "too_hot": 2,
    "device_gone": 3,
    METER_LOST: 3,
}
"""Default number of retries for each kind of error that can occur by chance; other errors, such as
a refused model, would occur again."""
DEFAULT_AWAY_S = 600.0
DEFAULT_LAB_WAIT_S = 30.0
"""Default of `lab_wait_s`, which is enough time to restart the worker of a lab host, or to reboot
the lab host."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Axes:
    """The axes; an axis without values has the value in `[settings]`, or else the default.

    Each axis except `model` and `device` has the name of the keyword of `Lab.bench` that it varies.
    """

    model: tuple[str, ...]
    device: tuple[str, ...] = (LOCAL_NAME,)
    runtime: tuple[str, ...] = ()
    threads: tuple[int, ...] = ()
    delegate: tuple[str, ...] = ()
    scenario: tuple[str, ...] = ()
    governor: tuple[str, ...] = ()
    supply_v: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Levels:
    """A value for each axis except model and device; None selects `[settings]` or the default."""

    runtime: str | None = None
    threads: int | None = None
    delegate: str | None = None
    scenario: str | None = None
    governor: str | None = None
    supply_v: float | None = None


_ELSEWHERE = frozenset({"on", "wait", "runs", "extra_runs"})
"""Options that cannot be settings. Other keys or axes of the file replace these options. Only
`extra_runs` has no replacement, because all runs of a campaign are planned before the first run is
made."""
SETTING_KEYS = {option.name: option for option in SETTINGS if option.name not in _ELSEWHERE}
_FILES = ("accuracy", "reference", "inputs")


def _fields() -> Iterator[tuple[str, Any, Any]]:
    """Names, types and defaults of the settings; enumerations and paths are strings."""
    types = get_type_hints(BenchOptions)
    # Files of earlier versions have `is_sustained` with a duration, in place of `sustained`.
    for name in (*dict.fromkeys(option.field for option in SETTING_KEYS.values()), "is_sustained"):
        kind = str | None if str in get_args(types[name]) else types[name]
        yield name, kind, field(default=None)


if TYPE_CHECKING:

    @dataclass
    class _Fields:
        meter: str | None

        def __init__(self, **options: Unpack[BenchOptions]) -> None: ...
else:
    _Fields = make_dataclass("_Fields", _fields(), frozen=True, kw_only=True)


class Settings(_Fields):
    """Settings of every run: a field for each option of bench, named as for `Lab.bench`."""

    def given(self) -> BenchOptions:
        """Map the field of each setting in the file to its value."""
        named = {name: value for name, value in vars(self).items() if value is not None}
        return cast("BenchOptions", named)

    def files(self) -> dict[str, str]:
        """Map fields to values, for settings that are paths of files or names of built-in files."""
        return {name: vars(self)[name] for name in _FILES if vars(self)[name] is not None}

    def with_files(self, place: Callable[[str], str]) -> Settings:
        """The settings with the paths of files replaced by `place(path)`."""
        return replace(self, **{name: place(path) for name, path in self.files().items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class Pattern(Levels):
    """Selects cells by their values on the axes; texts may contain `*` and `?`."""

    model: str | None = None
    device: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Addition(Levels):
    """An additional cell, or a cell for each device that `device` selects."""

    model: str
    device: str = LOCAL_NAME


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignSpec:
    """Contents of a campaign file."""

    schema: int
    name: str
    axes: Axes
    settings: Settings = field(default_factory=Settings)
    repeats: int = 5
    """Runs of each cell."""
    seed: int = 0
    """Seed of the order of the runs."""
    budget_s: float | None = None
    """Time within which all runs must end, from the start of `campaign run` or of each `campaign
    resume`; None means no limit."""
    wait_s: float = DEFAULT_AWAY_S
    """Longest wait for a device that is away, busy or full; after this wait, no further runs are
    made on the device."""
    lab_wait_s: float = DEFAULT_LAB_WAIT_S
    """Longest wait for a lab host that is away; after this wait, another host that offers the
    device takes over."""
    exclude: tuple[Pattern, ...] = ()
    include: tuple[Addition, ...] = ()
    retry: Mapping[str, int] = field(default_factory=lambda: dict(DEFAULT_RETRY))
    """Maps each kind of error (a `code` as in JSON, or `invalid`) to its number of further
    attempts."""


def load_spec(path: Path) -> CampaignSpec:
    """Read a campaign file.

    Raises:
        UsageError: the file cannot be read, is not TOML, violates the schema, or has values that
            are out of bounds.
    """
    source, table = _read(path)
    if isinstance(settings := table.get("settings"), dict):
        table["settings"] = _by_field(cast("Table", settings), source)
    spec = source.structured(table, CampaignSpec, strict_converter())
    for complaint in _complaints(spec):
        raise source.error(complaint)
    return spec


def renamed_settings(path: Path) -> dict[str, str]:
    """Map the outdated names of settings in a campaign file to their current names.

    Raises:
        UsageError: the file cannot be read, or is not TOML.
    """
    _, table = _read(path)
    settings = table.get("settings")
    names = settings if isinstance(settings, dict) else ()
    new_names = {option.field: key for key, option in SETTING_KEYS.items()}
    new_names["is_sustained"] = "sustained"
    return {key: new for key, new in new_names.items() if key in names and key not in SETTING_KEYS}


def _read(path: Path) -> tuple[TomlText, Table]:
    with os_error_as(UsageError, "campaign file not readable", path), path.open("rb") as file:
        content = file.read(MAX_SIZE_BYTES + 1)
    if len(content) > MAX_SIZE_BYTES:
        raise UsageError(f"campaign file not readable: over {MAX_SIZE_BYTES} bytes: {path}")
    source = TomlText(content.decode("utf-8", "replace"), str(path))
    return source, source.table(SCHEMA_VERSION)


def _by_field(settings: Table, source: TomlText) -> Table:
    """Map the field of each setting to its value, which is parsed like a command-line option.

    Raises:
        UsageError: a setting is unknown or given twice, or its value cannot be parsed.
    """
    values: Table = {}
    for key, value in settings.items():
        option = SETTING_KEYS.get(key)
        name = key if option is None else option.field  # files of earlier versions use the fields
        if name in values:
            raise source.error(Complaint(("settings", key), "is set twice, under two names"))
        if name not in Settings.__dataclass_fields__:
            what = f"no such key; available: {', '.join(SETTING_KEYS)}"
            raise source.error(Complaint(("settings", key), what))
        try:
            values[name] = value if option is None else _value(option, value)
        except (ArgumentTypeError, UsageError) as exc:
            raise source.error(Complaint(("settings", key), str(exc))) from None
    return values


def _value(option: BenchOption, value: Any) -> Any:
    """Parse a value like a command-line option; a number may be a TOML number or a string."""
    if option.constant is not None:
        if not isinstance(value, bool):
            raise ArgumentTypeError(f"expected true or false, got {value!r}")
        return option.constant if value else None
    if option.join is not None:
        values = value if isinstance(value, list) else [value]
        return option.join([option.kind.read(str(item)) for item in values])
    if option.kind is TEXT:
        return value  # its type is checked later, with the whole file
    text = ",".join(map(str, value)) if isinstance(value, list) else str(value)
    return option.kind.read(text)


def _complaints(spec: CampaignSpec) -> list[Complaint]:
    """Complaints about values that are out of bounds or contradict each other."""
    complaints: list[Complaint] = []
    if not spec.name or len(spec.name) > 64 or printable(spec.name) != spec.name:
        complaints.append(
            Complaint(("name",), f"must be 1 to 64 printable characters, got {spec.name!r}")
        )
    if not 1 <= spec.repeats <= MAX_REPEATS:
        complaints.append(Complaint(("repeats",), f"must be 1..{MAX_REPEATS}, got {spec.repeats}"))
    times_s = {"budget_s": spec.budget_s, "wait_s": spec.wait_s, "lab_wait_s": spec.lab_wait_s}
    for key, value_s in times_s.items():
        if value_s is not None and not 0 <= value_s <= MAX_LENGTH_S:
            what = f"must be 0 to {MAX_LENGTH_S:g} s (7 days), got {value_s:.10g}"
            complaints.append(Complaint((key,), what))
    for axis in fields(spec.axes):
        levels = getattr(spec.axes, axis.name)
        if len(set(levels)) != len(levels):
            complaints.append(Complaint(("axes", axis.name), "has a level twice"))
    if not spec.axes.model:
        complaints.append(Complaint(("axes", "model"), "must name a model"))
    if not spec.axes.device:
        complaints.append(Complaint(("axes", "device"), "must name a device"))
    levels = sum(len(getattr(spec.axes, axis.name)) for axis in fields(spec.axes))
    if levels * len(spec.exclude) > MAX_COMPARISONS:
        what = f"{len(spec.exclude)} exclusions × {levels} levels exceed the limit of "
        complaints.append(Complaint(("exclude",), f"{what}{MAX_COMPARISONS} comparisons"))
    if len(spec.include) > MAX_CELLS:
        what = f"must add at most {MAX_CELLS} cells, got {len(spec.include)}"
        complaints.append(Complaint(("include",), what))
    if "all" in spec.axes.runtime:
        complaints.append(
            Complaint(("axes", "runtime"), "must list the runtimes by name, got 'all'")
        )
    settings = vars(spec.settings)
    if settings["runtime"] == "all":
        complaints.append(
            Complaint(("settings", "runtime"), "must be the name of a runtime, got 'all'")
        )
    complaints += [
        Complaint(("settings", axis.name), "is also an axis")
        for axis in fields(Levels)
        if getattr(spec.axes, axis.name) and settings[axis.name] is not None
    ]
    kinds = {code.name.lower() for code in ErrorCode} | {INVALID, METER_LOST}
    for kind, count in spec.retry.items():
        if kind not in kinds:
            what = f"no such kind of error; available: {', '.join(sorted(kinds))}"
            complaints.append(Complaint(("retry", kind), what))
        elif not 0 <= count <= MAX_RETRIES:
            complaints.append(Complaint(("retry", kind), f"must be 0..{MAX_RETRIES}, got {count}"))
    return complaints
