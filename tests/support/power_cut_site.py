"""A host and a device whose power is cut: what they announce, and what is left of it.

Commands run while `power_cut` logs their files. Each that ends well has announced something, which
is noted with its place in the log. Then the log is played, and at drawn moments the files are
written that a power cut leaves of the host, of the device, or of both.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from random import Random

from edgebench.agent.identity import Trust
from edgebench.agent.spool import Spool
from edgebench.host.bench.verify import verify
from edgebench.host.campaign.journal import list_journals
from edgebench.host.devices.files import HostFiles
from edgebench.host.power.stored import stored_session
from edgebench.host.store.annotations import read_annotations
from edgebench.host.store.index import DAMAGED, list_runs
from edgebench.host.store.layout import CAMPAIGNS_DIRECTORY, PLAN_FILE, RAW_DIRECTORY, Store
from edgebench.protocol.errors import EdgebenchError
from edgebench.protocol.record import RUN_ID
from edgebench.protocol.traces import METER_FILE, RECORD_FILE
from support.agents import AgentProcess, Host
from support.power_cut import (
    Disk,
    Key,
    Model,
    built_log,
    logging_environment,
    read_log,
    write_image,
)
from support.ppk2 import Ppk2Emulator

HOST, DEVICE = "host", "device"
MODEL = "digits_int8.tflite"
BENCH = ("bench", MODEL, "--on", "board", "--quick", "--min-queries", "20", "--no-check")
CAMPAIGN = """
schema = 1
name = "night"
repeats = {repeats}

[axes]
model = ["digits_int8.tflite"]
device = ["board"]
threads = [1]

[settings]
duration_s = 0.2
min_query_count = 20
warmup_query_count = 20
warmup_duration_s = 0.05
is_checked = false
"""
CUTS = (
    (Model.SYNCED, Model.SYNCED),
    (Model.NAMES, Model.NAMES),
    (Model.SYNCED, Model.ALL),
    (Model.NAMES, Model.ALL),
    (Model.ALL, Model.SYNCED),
    (Model.ALL, Model.NAMES),
    (Model.DRAWN, Model.DRAWN),
)
"""What is left of the host and of the device; ALL: that machine has not lost its power."""
_CACHES = ("/live/", "/models/", "index.sqlite", "lock", ".log")
"""Parts of the paths of files on which nothing else depends."""
_TRANSIENT = (
    "/live/",
    "/incoming/",
    "/work/",
    "/models/",
    METER_FILE,
    "index.sqlite",
    "lock",
    ".log",
    ".part",
)
"""Parts of the paths of files that nobody is promised: caches, logs, and what is in progress."""
_MAKE = """
import sys
from pathlib import Path
from edgebench.system.whole_files import make_directory
for path in sys.argv[1:]:
    make_directory(Path(path))
"""
STORE = "data/edgebench"


@dataclass(frozen=True, slots=True)
class Announcement:
    """Something that a command announced by its end."""

    log_bytes: int
    """Size of the log then."""
    kind: str
    """`paired`, `run`, `removing`, `removed`, `tag`, `campaign` or `recording`."""
    name: str = ""
    value: str = ""


@dataclass
class Site:
    """The two machines, whose files are logged."""

    folder: Path
    options: Sequence[str] = ()
    announced: list[Announcement] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.root = self.folder / "disk"
        self.log = self.folder / "log"
        self.environment = logging_environment(built_log(self.folder), self.root, self.log)
        make = [sys.executable, "-c", _MAKE, str(self.root / HOST), str(self.root / DEVICE)]
        subprocess.run(make, env=os.environ | self.environment, check=True)
        self.host = _LoggedHost(self.root / HOST, self.environment)
        self.agent = AgentProcess(
            self.root / DEVICE, ["--name", "board", *self.options], environment=self.environment
        )

    @property
    def store(self) -> Store:
        """The host's store."""
        return Store(self.root / HOST / STORE)

    def run(self, *words: str, codes: Sequence[int] = (0, 3)) -> str:
        """Run a command that has to end well; its output."""
        result = self.host.run(*words)
        assert result.returncode in codes, (words, result.returncode, result.stderr)
        return result.stdout

    def announce(self, kind: str, name: str = "", value: str = "") -> None:
        """Note what the last command announced."""
        self.announced.append(Announcement(self.log.stat().st_size, kind, name, value))

    def announced_at(self) -> list[int]:
        """Number of the call behind each announcement."""
        sizes = {one.log_bytes for one in self.announced}
        ends = accumulate(call.size_bytes for call in read_log(self.log))
        return [number for number, end in enumerate(ends, 1) if end in sizes]

    def announce_runs(self) -> list[str]:
        """Note the runs that are stored now; their ids."""
        known = {one.name for one in self.announced if one.kind == "run"}
        run_ids = self.store.run_ids()
        for run_id in run_ids:
            if run_id not in known:
                self.announce("run", run_id)
        return run_ids


def play(site: Site, bench_count: int, *, is_metered: bool = True) -> None:
    """Run the commands whose power is cut."""
    site.agent.start()
    site.run("pair", site.agent.pairing_string())
    site.announce("paired")
    for number in range(bench_count):
        site.run(*BENCH, "--runs", "1", "--duration", "0.2s")
        newest = site.announce_runs()[-1]
        site.run("tag", newest, f"night-{number}")
        site.announce("tag", newest, f"night-{number}")
    site.run("tag", newest, "again")  # over a file that is there
    site.announce("tag", newest, "again")
    file = site.folder / "campaign.toml"
    file.write_text(CAMPAIGN.format(repeats=min(2, bench_count)))
    site.run("campaign", "run", str(file))
    site.announce("campaign", "night")
    run_ids = site.announce_runs()
    if is_metered:
        with Ppk2Emulator() as emulator:
            meter = f"ppk2:{emulator.path},supply=3.3"
            site.run(*BENCH, "--runs", "1", "--duration", "1s", "--meter", meter)
            site.announce_runs()
            recording = site.root / HOST / "recording"
            site.run("meters", "record", meter, "--duration", "1s", "--output", str(recording))
            site.announce("recording", "recording")
    site.announce("removing", run_ids[0])  # from now on, it may be there or not
    site.run("rm", run_ids[0], "--yes")
    site.announce("removed", run_ids[0])
    site.agent.stop()


@dataclass(frozen=True)
class _LoggedHost(Host):
    logging: dict[str, str] = field(default_factory=dict)

    @property
    def environment(self) -> dict[str, str]:
        return super().environment | self.logging


@dataclass(slots=True)
class Moment:
    """A moment of the log: what is on both disks, and what was announced before it."""

    disk: Disk
    number: int
    announced: list[Announcement]
    fetched: set[str]
    """Runs that the host began to fetch: their device has announced that they are finished."""


def moments(site: Site, numbers: Sequence[int]) -> Iterator[Moment]:
    """Play the log up to each of these calls."""
    calls = read_log(site.log)
    disk, fetched, size = Disk(site.root), set[str](), 0
    run_folders, raw_folders = dict[Key, str](), dict[Key, str]()
    wanted = set(numbers)
    for number, call in enumerate(calls):
        if number in wanted:
            known = [one for one in site.announced if one.log_bytes <= size]
            yield Moment(disk, number, known, set(fetched))
        disk.play(call)
        size += call.size_bytes
        parent, made, _ = call.keys
        name = call.names[0]
        if call.kind == "C" and RUN_ID.fullmatch(name):
            run_folders[made] = name
        elif call.kind == "C" and name == RAW_DIRECTORY and parent in run_folders:
            raw_folders[made] = run_folders[parent]
        elif call.kind == "C" and name == RECORD_FILE and parent in raw_folders:
            fetched.add(raw_folders[parent])


class Inspector:
    """Looks at what power cuts have left."""

    def __init__(self, folder: Path, seed: int) -> None:
        self._folder = folder
        self._random = Random(seed)
        self._verified: dict[str, list[str]] = {}
        self._known: dict[str, list[str]] = {}
        self.image_count = 0

    def problems(self, moment: Moment) -> list[str]:
        """What is lost or damaged after a power cut at this moment, by each of the cuts."""
        found = []
        for host, device in CUTS:
            cut = ((HOST, host), (DEVICE, device))
            left = {
                name: dict(moment.disk.left_after(name, model, self._random)) for name, model in cut
            }
            self.image_count += 1
            where = f"(call {moment.number}, host {host.value}, device {device.value})"
            found += [f"{text} {where}" for text in self._problems_of(moment, left)]
        return found

    def _problems_of(self, moment: Moment, left: dict[str, dict[str, bytes]]) -> list[str]:
        """Problems of one image; computed once for each content that matters."""
        digest = sha256(repr((len(moment.announced), sorted(moment.fetched))).encode())
        for name, files in left.items():
            for path in sorted(files):
                if not any(part in f"/{path}" for part in _CACHES):
                    digest.update(f"{name}/{path} {len(files[path])} ".encode() + files[path])
        if (key := digest.hexdigest()) not in self._known:
            image = self._folder / "image"
            shutil.rmtree(image, ignore_errors=True)
            for name, files in left.items():
                write_image(iter(files.items()), image / name)
            self._known[key] = [
                *(
                    f"{path} has 0 bytes"
                    for name, files in left.items()
                    for path in _emptied(moment.disk, name, files)
                ),
                *self._lost(image, moment),
            ]
        return self._known[key]

    def _lost(self, image: Path, moment: Moment) -> Iterator[str]:
        store = Store(image / HOST / STORE)
        removed = {one.name for one in moment.announced if one.kind == "removing"}
        rows = {row.run_id: row for row in list_runs(store)}
        yield from (f"run {one} is damaged" for one, row in rows.items() if row.verdict == DAMAGED)
        for run_id in rows:
            yield from self._differences(store, run_id)
        spooled = _spooled(image / DEVICE / "state")
        for run_id in moment.fetched - rows.keys() - removed - spooled:
            yield f"finished run {run_id} is neither stored nor on its device"
        for one in moment.announced:
            try:
                yield from _missing(image, store, rows.keys() - removed, one, removed)
            except (EdgebenchError, OSError, ValueError) as exc:
                yield f"{one.kind} {one.name}: {type(exc).__name__}: {exc}"
        for path in (store.root / CAMPAIGNS_DIRECTORY).glob(f"*/{PLAN_FILE}"):
            if path.parent.name not in {plan.id for _, plan in list_journals(store)}:
                yield f"campaign {path.parent.name} is damaged"

    def _differences(self, store: Store, run_id: str) -> list[str]:
        """What `verify` finds, computed once for each content of a run's directory."""
        digest = sha256()
        for path in sorted(store.directory(run_id).rglob("*")):
            if path.is_file():
                digest.update(str(path.name).encode() + path.read_bytes())
        if digest.hexdigest() not in self._verified:
            try:
                found = [f"run {run_id}: {one}" for one in verify(store, run_id)]
            except EdgebenchError as exc:
                found = [f"run {run_id}: {exc}"]
            self._verified[digest.hexdigest()] = found
        return self._verified[digest.hexdigest()]


def _missing(
    image: Path, store: Store, run_ids: set[str], one: Announcement, removed: set[str]
) -> Iterator[str]:
    """What is left of one announcement, if it is not all."""
    if one.kind == "run" and one.name not in run_ids | removed:
        yield f"announced run {one.name} is lost"
    elif one.kind == "removed" and store.has(one.name):
        yield f"removed run {one.name} is back"
    elif one.kind == "tag" and one.name not in removed:
        added = read_annotations(store.directory(one.name))
        if added.fault or one.value not in added.tags:
            yield f"tag {one.value} of {one.name} is lost: {added}"
    elif one.kind == "campaign" and one.name not in {plan.name for _, plan in list_journals(store)}:
        yield f"campaign {one.name} is lost"
    elif one.kind == "recording":
        with stored_session(image / HOST / one.name) as session:
            if not session.channels():
                yield f"recording {one.name} has no energy"
    elif one.kind == "paired":
        files = HostFiles(image / HOST / "config/edgebench/host")
        known = [device.pin for device in files.devices()]
        if not (image / DEVICE / "config/identity.pem").exists():
            yield "identity of the agent is lost"
            return
        trust = Trust(image / DEVICE / "config")
        if known != [trust.fingerprint]:
            yield f"pairing is lost: host knows {known}, agent is {trust.fingerprint}"
        if len(trust.hosts) != 1:
            yield "pairing is lost: agent knows no host"


def _spooled(state: Path) -> set[str]:
    """Finished runs that an agent has after its start, each with a whole record."""
    spool = Spool(state)
    spool.sweep()
    return {
        path.name
        for path in (state / "spool").iterdir()
        if json.loads((path / RECORD_FILE).read_bytes())["run_id"] == path.name
    }


def _emptied(disk: Disk, name: str, files: dict[str, bytes]) -> list[str]:
    """Files that have lost all of their content, of those that somebody relies on."""
    whole = dict(disk.left_after(name, Model.ALL, Random(0)))
    return [
        path
        for path, content in files.items()
        if not content and whole.get(path) and not any(part in f"/{path}" for part in _TRANSIENT)
    ]
