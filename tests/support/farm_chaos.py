"""A campaign over a farm, during which everything is killed, cut, filled or unplugged.

Faults are drawn from a seed: their order, and which of the possible victims each of them hits. The
nth fault of N comes when n/(N+1) of the runs are stored. It waits for a moment at which there is
such a victim: a worker that measures, a meter that records.

At the end, every planned run must be there exactly once, with a verdict that its files bear out.
Starts are counted, too: a kill may cost one run of each device that it hits, and what hits no
device costs none. Nothing may be left: no process, no lease, nothing in a spool, no file.
"""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import TypeVar

from edgebench.host.bench.verify import verify
from edgebench.host.campaign.campaign import Campaign
from edgebench.host.campaign.plan import PlannedRun, attempt_name
from edgebench.host.campaign.state import RunState
from edgebench.host.result.run import Run
from edgebench.host.store.incomplete import remove_lost
from edgebench.protocol.errors import EdgebenchError
from edgebench.protocol.record import Phase
from support.disks import fill
from support.farm import Farm, HostMachine, Rack, campaign_text
from support.leftovers import command_line, files_beside, orphans
from support.netns import Namespace
from support.supervised import Supervised

_T = TypeVar("_T")
POLL_S = 0.02
VICTIM_TIMEOUT_S = 60.0
"""Longest wait for a victim: every lane may be away just then."""
QUIET_TIMEOUT_S = 240.0
"""Longest time without a new run before the campaign counts as stuck."""
SETTLE_TIMEOUT_S = 60.0
LONGEST_CUT_S = 30.0
LONGEST_FULL_S = 15.0
LONGEST_UNPLUGGED_S = 10.0
KEPT_BY_AGENT = (
    *("agent.lock", "agent.sock", "device-id", "seats/*/device-id"),
    *("models/" + "[0-9a-f]" * 64, "simulated/*", "seats/*/simulated/*"),
)
"""Files of an agent's state that stay: they do not become more with the number of runs."""
KEPT_BY_LAB = ("edgebench/*index.sqlite*", "edgebench/host/health/*")
KEPT_BY_HOST = (
    *KEPT_BY_LAB,
    *("edgebench/runs/*", "edgebench/campaigns/*/plan.json", "edgebench/campaigns/*/journal.jsonl"),
    "edgebench/live/*",  # for a day, by which `edgebench serve` knows that a command has ended
)


class Kind(str, Enum):
    """Something that goes wrong."""

    HOST = "host killed"
    AGENT = "agent killed"
    WORKER = "worker killed"
    ANALYSIS = "analysis killed"
    LINK = "link cut"
    DISK = "disk full"
    METER = "meter unplugged"
    LAB = "lab killed"
    SCHEDULER = "scheduler killed"


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault as it was drawn."""

    kind: Kind
    chance: float
    """Which of the possible victims it is, 0…1."""
    duration_s: float = 0.0
    """Time after which it is mended; 0 for a kill."""


@dataclass(slots=True)
class Hit:
    """A fault as it was played."""

    fault: Fault
    victim: str
    at_s: float
    devices: tuple[str, ...] = ()
    """Devices on which it may cost a start."""

    def __str__(self) -> str:
        lasts = f" for {self.fault.duration_s:.1f} s" if self.fault.duration_s else ""
        return f"{self.at_s:6.1f} s  {self.fault.kind.value}: {self.victim}{lasts}"


@dataclass(slots=True)
class Report:
    """What the campaign came to."""

    run_count: int
    hits: list[Hit]
    start_count: int
    states: Counter[str]
    """Planned runs by how they ended: the verdict, or the code of the error."""
    attempts: Counter[str]
    """Attempts beside those that count, by what became of them."""
    duration_s: float
    restarts: int
    """Times that the campaign was begun or resumed."""
    violations: list[str]


OF_CLUSTER = (Kind.LAB, Kind.SCHEDULER)
"""Faults that need a farm with lab hosts."""


def draw(seed: int, count: int, *, has_labs: bool) -> list[Fault]:
    """So many faults, each kind as often as the others, in random order."""
    kinds = [kind for kind in Kind if has_labs or kind not in OF_CLUSTER]
    chance = random.Random(seed)
    longest_s = {
        Kind.LINK: LONGEST_CUT_S,
        Kind.DISK: LONGEST_FULL_S,
        Kind.METER: LONGEST_UNPLUGGED_S,
    }
    dealt = [kinds[number % len(kinds)] for number in range(count)]
    chance.shuffle(dealt)
    return [
        Fault(
            kind,
            chance.random(),
            chance.uniform(1.0, longest_s[kind]) if kind in longest_s else 0.0,
        )
        for kind in dealt
    ]


class Stuck(Exception):
    """Something goes on that should have ended."""


@dataclass
class FarmChaos:
    """A campaign with faults."""

    farm: Farm
    run_count: int
    faults: Sequence[Fault]
    repeats: int = 5
    run_s: float = 0.5
    say: Callable[[str], None] = print
    _hits: list[Hit] = field(default_factory=list[Hit])
    _mends: list[tuple[float, Callable[[], None], str]] = field(
        default_factory=list[tuple[float, Callable[[], None], str]]
    )
    """What is to be undone, and when."""
    _troubled: set[str] = field(default_factory=set[str])
    """Victims that are not mended yet, and are left alone until then."""
    _cut_off: list[str] = field(default_factory=list[str])
    """Runs whose meter was unplugged."""
    _began_s: float = 0.0

    def play(self) -> Report:
        """Make the campaign; what it came to."""
        self._began_s = time.monotonic()
        file = self.farm.folder / "campaign.toml"
        file.write_text(campaign_text(self.farm.devices, self.run_count, self.repeats, self.run_s))
        made = self.farm.run_campaign(file)
        violations: list[str] = []
        try:
            for number, fault in enumerate(self.faults, 1):
                self._await_runs(made, number * self.run_count // (len(self.faults) + 1))
                self._hit(fault, made)
            while self._mends:
                self._pass_time(made)
            self._await_runs(made, None)
        except Stuck as exc:
            violations.append(str(exc))
        finally:
            for _, mend, _ in self._mends:
                mend()
            made.stop(signal.SIGKILL)
        duration_s = time.monotonic() - self._began_s
        campaign = self.farm.campaign()
        assert campaign is not None, made.errors.read_text()[-2000:]
        violations += self._settle()
        violations += self._runs_amiss(campaign)
        violations += self._starts_amiss(campaign)
        violations += self._leftovers()
        state = campaign.state()
        return Report(
            run_count=self.run_count,
            hits=self._hits,
            start_count=len(self.farm.book.read()),
            states=Counter(_end_of(row) for row in campaign.rows()),
            attempts=Counter(
                (one.problem.code if one.problem else "lost" if one.is_gone else "ok")
                for run in state.runs.values()
                for one in run.attempts
                if one is not run.final
            ),
            duration_s=duration_s,
            restarts=len(made.codes) - 1,
            violations=violations,
        )

    # The faults.

    def _hit(self, fault: Fault, made: Supervised) -> None:
        """Wait for a victim, and do to it what the fault says."""
        limit_s = time.monotonic() + VICTIM_TIMEOUT_S
        play = {
            Kind.HOST: self._kill_host,
            Kind.AGENT: self._kill_agent,
            Kind.WORKER: self._kill_worker,
            Kind.ANALYSIS: self._kill_analysis,
            Kind.LINK: self._cut,
            Kind.DISK: self._fill,
            Kind.METER: self._unplug,
            Kind.LAB: self._kill_lab,
            Kind.SCHEDULER: self._kill_scheduler,
        }[fault.kind]
        while (hit := play(fault, made)) is None:
            if time.monotonic() > limit_s or made.is_over:
                raise Stuck(f"no victim for: {fault.kind.value}")
            self._pass_time(made)
        self._hits.append(hit)
        self.say(str(hit))

    def _new_hit(self, fault: Fault, victim: str, devices: Sequence[str] = ()) -> Hit:
        return Hit(fault, victim, time.monotonic() - self._began_s, tuple(devices))

    def _kill_host(self, fault: Fault, made: Supervised) -> Hit | None:
        if self._stored_count() and not made.kill():
            return None
        return self._new_hit(fault, "host")

    def _kill_agent(self, fault: Fault, made: Supervised) -> Hit | None:
        del made
        if (rack := self._pick(fault, [one for one in self._racks() if one.process.pid])) is None:
            return None
        rack.process.kill()
        return self._new_hit(fault, rack.name, rack.devices)

    def _kill_lab(self, fault: Fault, made: Supervised) -> Hit | None:
        del made
        lab = self._pick(fault, [one for one in self.farm.labs if one.process and one.process.pid])
        if lab is None or lab.process is None or not lab.process.kill():
            return None
        return self._new_hit(fault, lab.name)

    def _kill_scheduler(self, fault: Fault, made: Supervised) -> Hit | None:
        del made
        scheduler = self.farm.scheduler
        if scheduler is None or not scheduler.process.kill():
            return None
        return self._new_hit(fault, "scheduler")

    def _kill_worker(self, fault: Fault, made: Supervised) -> Hit | None:
        del made
        pids = [
            (pid, words[words.index(_WORKER) + 1])
            for rack in self._racks()
            for pid in rack.machine.pids
            if _WORKER in (words := command_line(pid).split())
        ]
        if (found := self._pick(fault, pids)) is None:
            return None
        pid, directory = found
        device = self._device_of(Path(directory).name)
        if device is None:
            return None
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return self._new_hit(fault, f"{Path(directory).name} on {device}", [device])

    def _kill_analysis(self, fault: Fault, made: Supervised) -> Hit | None:
        del made
        pids = [
            pid
            for one in self.farm.hosts
            for pid in one.machine.pids
            if "edgebench.host.bench.finish" in command_line(pid)
        ]
        if (pid := self._pick(fault, pids)) is None:
            return None
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        return self._new_hit(fault, f"process {pid}")

    def _cut(self, fault: Fault, made: Supervised) -> Hit | None:
        del made
        machines: list[Rack | HostMachine] = [*self._racks(), *self.farm.hosts]
        free = [one for one in machines if one.machine.name not in self._troubled]
        if (found := self._pick(fault, free)) is None:
            return None
        machine: Namespace = found.machine
        self.farm.network.pull(machine)
        self._mend_later(fault, machine.name, lambda: self.farm.network.plug(machine))
        return self._new_hit(fault, found.name)

    def _fill(self, fault: Fault, made: Supervised) -> Hit | None:
        del made
        disks = [(one.name, one.disk, one.devices) for one in self.farm.racks]
        # A recording that cannot be written ends its run, if that has not begun to infer yet.
        disks += [(one.name, one.disk, self.farm.metered) for one in self.farm.hosts]
        free = [one for one in disks if str(one[1]) not in self._troubled]
        if (found := self._pick(fault, free)) is None:
            return None
        name, disk, devices = found
        filler = fill(disk)
        self._mend_later(fault, str(disk), filler.unlink)
        return self._new_hit(fault, name, devices)

    def _unplug(self, fault: Fault, made: Supervised) -> Hit | None:
        del made
        metered = {device: run for rack in self._racks() for device, run in _recorded(rack).items()}
        free = [one for one in self.farm.cables if one in metered and one not in self._troubled]
        if (device := self._pick(fault, free)) is None:
            return None
        cable = self.farm.cables[device]
        cable.pull()
        self._mend_later(fault, device, cable.plug)
        self._cut_off.append(metered[device])
        return self._new_hit(fault, f"meter of {device}", [device])

    def _racks(self) -> list[Rack]:
        return self.farm.racks

    @staticmethod
    def _pick(fault: Fault, victims: Sequence[_T]) -> _T | None:
        return victims[int(fault.chance * len(victims))] if victims else None

    def _mend_later(self, fault: Fault, name: str, mend: Callable[[], None]) -> None:
        self._troubled.add(name)
        self._mends.append((time.monotonic() + fault.duration_s, mend, name))

    # Time.

    def _await_runs(self, made: Supervised, count: int | None) -> None:
        """Wait until so many runs are stored; None: until nothing is left to do."""
        quiet_s, seen = time.monotonic(), -1
        while not made.is_over if count is None else self._stored_count() < count:
            if (stored := self._stored_count()) != seen:
                quiet_s, seen = time.monotonic(), stored
            if time.monotonic() - quiet_s > QUIET_TIMEOUT_S:
                said = made.errors.read_text(errors="replace")[-3000:]
                raise Stuck(f"{stored} runs stored, none in {QUIET_TIMEOUT_S:g} s: {said}")
            if count is not None and made.is_over:
                raise Stuck(f"campaign is over with {stored} runs, {count} expected")
            self._pass_time(made)

    def _pass_time(self, made: Supervised) -> None:
        """Mend what has lasted long enough."""
        del made
        time.sleep(POLL_S)
        for due in [one for one in self._mends if one[0] <= time.monotonic()]:
            self._mends.remove(due)
            due[1]()
            self._troubled.discard(due[2])

    def _stored_count(self) -> int:
        return len(_names(self.farm.host.store.runs))

    def _device_of(self, run_id: str) -> str | None:
        name, campaign = attempt_name(run_id), self.farm.campaign()
        if name is None or campaign is None:
            return None
        return campaign.plan.cells[name.planned.cell].device

    # What must hold at the end.

    def _settle(self) -> list[str]:
        """Wait until every device is free."""
        limit_s = time.monotonic() + SETTLE_TIMEOUT_S
        for rack in self.farm.racks:
            while True:
                with suppress(EdgebenchError, OSError):
                    if all(not one.running and not one.held_by for one in rack.status().seats):
                        break
                if time.monotonic() > limit_s:
                    return [f"{rack.name} is not free: {rack.process.errors.read_text()[-1000:]}"]
                time.sleep(POLL_S)
        return []

    def _runs_amiss(self, campaign: Campaign) -> Iterator[str]:
        """Planned runs that are missing, there twice, or say what their files do not."""
        store, state = self.farm.host.store, campaign.state()
        counted: Counter[PlannedRun] = Counter()
        for planned, run in state.runs.items():
            if run.state not in (RunState.MEASURED, RunState.FAILED):
                yield f"{planned} is {run.state.value}: {run.attempts}"
            elif run.final is None or run.final.stored is None:
                yield f"{planned} has failed, and is not stored: {run.problem}"
            counted[planned] = sum(
                one.stored is not None and one.problem is None for one in run.attempts
            )
            if counted[planned] > 1:
                yield f"{planned} was measured {counted[planned]} times: {run.attempts}"
        for run_id in self._cut_off:
            if store.has(run_id) and _is_called_complete(store.run(run_id)):
                yield f"run {run_id} has a whole recording of a meter that was unplugged"
        for run_id in store.run_ids():
            if attempt_name(run_id) is None:
                yield f"run {run_id} is not of the campaign"
            try:
                for difference in verify(store, run_id):
                    yield f"run {run_id} does not verify: {difference}"
            except EdgebenchError as exc:
                yield f"run {run_id} cannot be verified: {exc}"

    def _starts_amiss(self, campaign: Campaign) -> Iterator[str]:
        """Starts beyond what the plan and the faults explain."""
        starts = self.farm.book.read()
        for run_id, count in Counter(one.run_id for one in starts).items():
            if count > 1:
                yield f"run {run_id} was started {count} times"
        limit = self.run_count + len(self._hits)
        if len(starts) > limit:
            yield f"{len(starts)} starts for {self.run_count} runs and {len(self._hits)} faults"
        of_device = Counter(self._device_of(one.run_id) or "" for one in starts)
        planned = Counter(campaign.plan.cells[one.cell].device for one in campaign.plan.planned)
        hits = Counter(device for hit in self._hits for device in hit.devices)
        for device, count in of_device.items():
            if count > planned[device] + hits[device]:
                yield (
                    f"{count} starts on {device} for {planned[device]} runs and {hits[device]} hits"
                )

    def _leftovers(self) -> Iterator[str]:
        """Processes, runs and files that should not be there."""
        for lab in self.farm.labs:
            if lab.process is not None:
                lab.process.stop()
        if self.farm.scheduler is not None:
            self.farm.scheduler.process.stop()
        agents = [one.process.pid for one in self.farm.racks]
        for line in orphans(str(self.farm.folder), [pid for pid in agents if pid is not None]):
            yield f"process left behind: {line}"
        for rack in self.farm.racks:
            for name in files_beside(rack.state, KEPT_BY_AGENT):
                yield f"left on {rack.name}: {name}"
        for one in self.farm.hosts:
            store = one.store
            remove_lost(store)  # those that `edgebench runs` names as lost
            kept = KEPT_BY_HOST if one is self.farm.host else KEPT_BY_LAB
            for name in [*files_beside(one.disk, kept), *_names(store.unfinished)]:
                yield f"left on {one.name}: {name}"
            for name in files_beside(one.temporary, ()):
                yield f"temporary file left on {one.name}: {name}"
        texts = [one.process.errors for one in self.farm.racks]
        texts += [one.errors for one in self.farm.hosts]
        for path in texts:
            text = path.read_text(errors="replace")
            if (at := text.find("Traceback")) >= 0:
                yield f"traceback in {path.relative_to(self.farm.folder)}:\n{text[at : at + 3000]}"


_WORKER = "edgebench.agent.worker.main"


_RECORDED = {Phase.IDLE, Phase.LOADING, Phase.WARMING_UP, Phase.MEASURING}
"""Phases in which the meter of a run records, as the run has begun and will take a while."""


def _recorded(rack: Rack) -> dict[str, str]:
    """Runs on the devices of an agent whose meters record now."""
    with suppress(EdgebenchError, OSError):
        seats = rack.status().seats
        return {
            device: seat.running
            for device, seat in zip(rack.devices, seats, strict=True)
            if seat.running and seat.phase in _RECORDED
        }
    return {}


def _is_called_complete(run: Run) -> bool:
    """Whether a run has energy from a recording that is whole."""
    energy = run.metrics.energy
    checks = {one.id: one.is_passed for one in energy.checks} if energy else {}
    return run.failure is None and checks.get("complete") is True


def _end_of(row: dict[str, object]) -> str:
    return str(row["verdict"] if row["state"] == "measured" else row["code"])


def _names(directory: Path) -> set[str]:
    try:
        return set(os.listdir(directory))
    except FileNotFoundError:
        return set()
