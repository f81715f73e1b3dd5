"""Spooled runs with damage: every number of a record at its extremes, and traces with other bytes.

Data from a device may be anything. So each damaged run goes through the analysis, and the stored
result through the commands that read it: each has to end in a result, or in one of our errors,
with no other output.
"""

from __future__ import annotations

import io
import json
import random
import re
import shutil
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from edgebench.host.bench.finish import finish
from edgebench.host.cli import main
from edgebench.host.store.files import read_record, unpack_telemetry, unpack_traces
from edgebench.host.store.layout import CLOCK_FILE, RAW_DIRECTORY, RUN_FILE, Store
from edgebench.protocol.errors import MeasurementError, RunDamaged
from edgebench.protocol.traces import (
    ANSWERS_FILE,
    LOADGEN_DETAIL_FILE,
    METER_FILE,
    QUERIES_FILE,
    RECORD_FILE,
    TELEMETRY_FILE,
)

SPOOLED = Path(__file__).parent.parent / "fixtures" / "spooled"
KINDS = tuple(sorted(path.name for path in SPOOLED.iterdir() if path.is_dir()))
"""Kinds of spooled runs: inference, metered, LoadGen, failed, target."""
EXTREMES: tuple[object, ...] = (1e308, -1, 0, 2**62, 2**63, 10**400, 5e-324, float("nan"))
"""Values of which some are refused where the record is read, and some are computed with."""
TRACES = (QUERIES_FILE, TELEMETRY_FILE, METER_FILE, ANSWERS_FILE, LOADGEN_DETAIL_FILE, CLOCK_FILE)
_WORDS = (0, 1, -1, 2**31, 2**62, 2**63 - 1, -(2**63), 0x7FF0000000000000, 0x7FEFFFFFFFFFFFFF)
"""Words of 64 bits that overflow somewhere; as doubles, the last two are infinite and huge."""
_LINE = re.compile(
    r"(error|hint|note|warning|saved|invalid|suspect)\b.*|making the report…|.*\.html"
)
"""Lines on stderr that a command of ours prints."""

Place = tuple[str | int, ...]


def numbers_in(value: Any, place: Place = ()) -> Iterator[Place]:
    """Places of all numbers in a JSON document."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers_in(inner, (*place, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from numbers_in(inner, (*place, index))
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield place


def record_of(kind: str) -> Any:
    """The record of a spooled run, as JSON."""
    return json.loads((SPOOLED / kind / RECORD_FILE).read_bytes())


def with_number(record: Any, place: Place, value: object) -> Any:
    """A copy of a record with another number at a place."""
    copy = json.loads(json.dumps(record))
    inner = copy
    for step in place[:-1]:
        inner = inner[step]
    inner[place[-1]] = value
    return copy


def mutated(data: bytes, chance: random.Random) -> bytes:
    """Other bytes: words that overflow, bits that flip, parts that are cut, doubled or moved."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 5, 50))):
        if not changed:
            break
        at = chance.randrange(len(changed))
        act = chance.randrange(7)
        if act == 0:
            at -= at % 8
            word = chance.choice(_WORDS) % 2**64
            changed[at : at + 8] = word.to_bytes(8, "little")[: len(changed) - at]
        elif act == 1:
            changed[at] ^= 1 << chance.randrange(8)
        elif act == 2:
            del changed[at : at + chance.choice((1, 8, 48, 480))]
        elif act == 3:
            del changed[at:]
        elif act == 4:
            changed[at:at] = changed[at : at + 480]
        elif act == 5:
            changed[at : at + 80] = chance.randbytes(80)
        else:
            step = 8 * chance.randrange(1, 6)
            changed[at : at + step] = bytes(step)
    return bytes(changed)


def mutated_words(data: bytes, chance: random.Random) -> bytes:
    """As many bytes, with some words of 64 bits replaced."""
    words = [int.from_bytes(data[i : i + 8], "little") for i in range(0, len(data), 8)]
    for _ in range(chance.choice((1, 2, 10, 100))):
        at = chance.randrange(len(words)) if words else 0
        for index in range(at, min(len(words), at + chance.choice((1, 1, 20)))):
            words[index] = chance.choice(_WORDS) % 2**64
    return b"".join(word.to_bytes(8, "little") for word in words)


class Budget:
    """Time for as many damaged runs as fit into it: 1 s of CPU, of 30 s where others run, too."""

    CPU_S = 1.0
    WALL_S = 30.0

    def __init__(self) -> None:
        self._cpu_s, self._wall_s = time.process_time(), time.monotonic()

    @property
    def is_spent(self) -> bool:
        """Whether either time is over."""
        cpu_s, wall_s = time.process_time() - self._cpu_s, time.monotonic() - self._wall_s
        return cpu_s > self.CPU_S or wall_s > self.WALL_S


@dataclass(slots=True)
class Tally:
    """Outcomes of damaged runs."""

    stored: int = 0
    refused: int = 0
    faults: list[str] = field(default_factory=list[str])
    """Runs that ended otherwise than they may."""
    slowest_s: float = 0.0


@dataclass(slots=True)
class Trial:
    """Damaged runs of one kind, one after another in one directory."""

    kind: str
    folder: Path
    tally: Tally = field(default_factory=Tally)

    def of_record(self, place: Place, value: object) -> None:
        """Try a run with another number in its record."""
        record = with_number(record_of(self.kind), place, value)
        name = f"{self.kind} {'.'.join(map(str, place))}={str(value)[:30]}"
        self._judge(name, {RECORD_FILE: json.dumps(record).encode()})

    def of_traces(self, seed: int) -> None:
        """Try a run with other bytes in one or two of its traces."""
        chance = random.Random(seed)
        names = [name for name in TRACES if (SPOOLED / self.kind / name).exists()]
        picked = chance.sample(names, min(len(names), chance.choice((1, 1, 2))))
        changed = {
            name: mutated((SPOOLED / self.kind / name).read_bytes(), chance) for name in picked
        }
        self._judge(f"{self.kind} seed {seed} {' '.join(picked)}", changed)

    def of_document(self, place: Place, value: object) -> None:
        """Try a stored run with another number in its run.json, as a stranger may have sent it."""

        def damage(directory: Path) -> None:
            path = directory / RUN_FILE
            path.write_text(json.dumps(with_number(json.loads(path.read_bytes()), place, value)))

        self._read_stored(f"{self.kind} run.json {'.'.join(map(str, place))}={value}"[:80], damage)

    def of_stored_traces(self, seed: int) -> None:
        """Try a stored run whose Parquet files hold other numbers, not checked by an analysis."""
        chance = random.Random(seed)

        def damage(directory: Path) -> None:
            record = read_record(directory)
            raw = directory / RAW_DIRECTORY
            names = [one for one in (QUERIES_FILE, TELEMETRY_FILE) if (raw / one).exists()]
            for name in names:
                (raw / name).write_bytes(mutated_words((raw / name).read_bytes(), chance))
            if QUERIES_FILE in names:
                unpack_traces(directory, record)
            else:
                unpack_telemetry(directory, record)

        self._read_stored(f"{self.kind} stored traces {seed}", damage)

    def document(self) -> Any:
        """run.json of the run without damage."""
        return json.loads((self._honest() / RUN_FILE).read_bytes())

    def _honest(self) -> Path:
        """Directory of the undamaged run, with its packed traces still there."""
        directory = self.folder / "honest"
        if not directory.exists():
            shutil.copytree(SPOOLED / self.kind, directory / RAW_DIRECTORY)
            (directory / RAW_DIRECTORY / CLOCK_FILE).rename(directory / CLOCK_FILE)
            finish(directory)
            for name in (QUERIES_FILE, TELEMETRY_FILE):
                if (SPOOLED / self.kind / name).exists():
                    shutil.copyfile(SPOOLED / self.kind / name, directory / RAW_DIRECTORY / name)
        return directory

    def _read_stored(self, name: str, damage: Callable[[Path], None]) -> None:
        def attempt(store: Store, run_id: str, errors: io.StringIO) -> None:
            directory = store.directory(run_id)
            shutil.copytree(self._honest(), directory)
            try:
                damage(directory)
            except RunDamaged:
                self.tally.refused += 1
                return
            self.tally.stored += 1
            self._read(name, store, run_id, errors)

        self._watch(name, attempt)

    def _judge(self, name: str, changed: Mapping[str, bytes]) -> None:
        def attempt(store: Store, run_id: str, errors: io.StringIO) -> None:
            directory = store.directory(run_id)
            shutil.copytree(SPOOLED / self.kind, directory / RAW_DIRECTORY)
            for file, data in changed.items():
                (directory / RAW_DIRECTORY / file).write_bytes(data)
            (directory / RAW_DIRECTORY / CLOCK_FILE).rename(directory / CLOCK_FILE)
            try:
                finish(directory)
            except (RunDamaged, MeasurementError) as exc:
                self.tally.refused += 1
                if not str(exc).isprintable():
                    self._fault(name, f"not one printable line: {exc}")
                if (directory / RUN_FILE).exists():
                    self._fault(name, "refused and stored")
                return
            self.tally.stored += 1
            self._read(name, store, run_id, errors)

        self._watch(name, attempt)

    def _watch(self, name: str, attempt: Callable[[Store, str, io.StringIO], None]) -> None:
        """Make an attempt in an empty store; record exceptions and warnings."""
        began_s = time.monotonic()
        store = Store(self.folder / "store")
        shutil.rmtree(store.root, ignore_errors=True)
        errors = io.StringIO()
        with (
            warnings.catch_warnings(record=True) as warned,
            redirect_stderr(errors),
            redirect_stdout(io.StringIO()),
        ):
            warnings.simplefilter("always")
            try:
                attempt(store, record_of(self.kind)["run_id"], errors)
            except Exception as exc:
                self._fault(name, f"{type(exc).__name__}: {exc} {_place_of(exc)}")
        for one in warned:
            self._fault(name, f"{one.category.__name__}: {one.message} {one.filename}:{one.lineno}")
        self.tally.slowest_s = max(self.tally.slowest_s, time.monotonic() - began_s)

    def _read(self, name: str, store: Store, run_id: str, errors: io.StringIO) -> None:
        """Read the stored part of a run with the commands that read runs and their traces."""
        report = self.folder / "report.html"
        for command, *words in (
            ("show", run_id),
            ("report", run_id, "-o", str(report)),
            ("verify", run_id),
            ("export", run_id, "--format", "perfetto", "-o", str(report)),
            ("history",),
            ("compare", run_id, "--against", run_id),
        ):
            report.unlink(missing_ok=True)
            errors.seek(0)
            errors.truncate()
            code = main._run(command, [*words, "--store", str(store.root)])
            if code not in (0, 1, 2, 3, 4, 5):
                self._fault(name, f"{command} ended with {code}")
            for line in errors.getvalue().splitlines():
                if not _LINE.fullmatch(line.strip()) or "unforeseen" in line:
                    self._fault(name, f"{command} printed {line!r}")

    def _fault(self, name: str, what: str) -> None:
        self.tally.faults.append(f"{name}: {what}")


def _place_of(exc: BaseException) -> str:
    """Innermost place of an exception in our own code."""
    frames = traceback.extract_tb(exc.__traceback__)
    ours = [frame for frame in frames if "/edgebench/" in frame.filename]
    return f"{ours[-1].filename}:{ours[-1].lineno}" if ours else ""
