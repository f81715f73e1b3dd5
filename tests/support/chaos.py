"""Benchmarks whose processes and connections are killed at random moments, and what that leaves.

A round is a plan of faults, drawn from a seed. Each hits a `bench` command at a moment after one of
its marks: the directory of a run appears in the host's incoming/, the agent's work/ and spool/, the
host's runs/. A command that has ended is followed by another. After all faults, one undisturbed
command has to collect what is left. Then every run that was ever seen in one of those directories
must be stored, verified, or named with its reason on a standard error or by `edgebench runs`; and
nothing else may be left: no process, no lease, no file.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path

from edgebench.host.bench.verify import verify
from edgebench.host.result.marks import FAILED
from edgebench.host.store.incomplete import IncompleteState, incomplete_runs, remove_lost
from edgebench.host.store.index import INDEX_FILES, list_runs
from edgebench.host.store.layout import EXPECTED_FILE
from edgebench.protocol.errors import EdgebenchError
from edgebench.protocol.messages import Status
from support.agents import AgentProcess, Host
from support.leftovers import MARK, command_line, orphans
from support.ppk2 import Ppk2Emulator
from support.relay import TcpRelay
from support.watchers import children_of

MODEL = "digits_int8.tflite"
BENCH = ("bench", MODEL, "--on", "board", "--quick", "--runs=1", "--min-queries", "20")
CLEAN = (*BENCH, "--duration", "0.2s", "--no-check")
IMPATIENT = """
import sys
from edgebench.host.cli.main import main
from edgebench.host.transports import link
link.WEBSOCKET_OPTIONS.update(ping_interval=1.0, ping_timeout=2.0)
sys.exit(main(sys.argv[1:]))
"""
"""`edgebench` that notices a silent device in three seconds; the real one takes half a minute."""
POLL_S = 0.003
COMMAND_TIMEOUT_S = 150.0
"""Time for any command to end by itself: it may wait a minute for a lease."""
ATTEMPTS = 3
"""Commands that may end before a fault's moment; then it hits an agent without a command."""
SETTLE_TIMEOUT_S = 60.0
"""Time for a run that nobody waits for to end, and for its lease to be free."""
CLEAN_CODES = (0, 3)
LINK_WORDS = ("connection to", "cannot reach", "no answer", "before it showed a certificate")
"""Words of an error that says nothing of the run, which is still on its device."""


class Victim(str, Enum):
    """The target of a fault."""

    HOST = "host"
    AGENT = "agent"
    WORKER = "worker"
    SAMPLER = "sampler"
    CONNECTION = "connection"
    """Reset, as by a router that restarts."""
    LINK = "link"
    """Nothing passes for a while, either way, and nobody is told."""


class Mark(str, Enum):
    """The event from which a moment is counted."""

    BEGIN = "begin"
    """The command started, or the fault before this one hit it."""
    EXPECTED = "expected"
    """The host expects a run."""
    ADMITTED = "admitted"
    """The agent has admitted it."""
    SPOOLED = "spooled"
    """The agent has spooled it."""
    STORED = "stored"
    """The host has stored it."""


LATEST_S = {
    Mark.BEGIN: 2.5,
    Mark.EXPECTED: 0.3,
    Mark.ADMITTED: 2.5,
    Mark.SPOOLED: 0.3,
    Mark.STORED: 0.1,
}
"""Latest moment after each mark: about as long as what follows it takes on an idle machine."""
LONGEST_SILENCE_S = 6.0
"""Twice what the impatient host bears."""


class Outcome(str, Enum):
    """The outcome of the run that a fault hit."""

    STORED = "stored"
    LOST = "named as lost"
    FAILED = "stored as failed"
    REFUSED = "refused, named"
    """It failed before the agent admitted it."""
    SILENT = "SILENT"
    """Neither stored nor named, which must not happen."""
    NO_RUN = "none under way"
    """It was not expected yet, or stored already."""
    MISSED = "missed"
    """The victim was gone by then."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One kill or cut, and its moment."""

    victim: Victim
    mark: Mark
    delay_s: float
    silence_s: float = 0.0

    def __str__(self) -> str:
        silence = f" for {self.silence_s:.2f} s" if self.silence_s else ""
        return f"{self.victim.value}{silence} at {self.mark.value} +{self.delay_s:.3f} s"


@dataclass(frozen=True, slots=True)
class Plan:
    """One round."""

    number: int
    meter: str | None
    """Meter's name; None: no meter."""
    duration_s: float
    is_checked: bool
    faults: tuple[Fault, ...]

    @property
    def words(self) -> tuple[str, ...]:
        """The command that its faults hit."""
        check = () if self.is_checked else ("--no-check",)
        return (*BENCH, "--duration", f"{self.duration_s:.2f}s", "--wait", "60s", *check)

    def __str__(self) -> str:
        return (
            f"round {self.number}, {self.meter or 'no meter'}: {'; '.join(map(str, self.faults))}"
        )


METERS = (None, None, "synthetic:constant,power=1", "ppk2")
FAULTS_PER_ROUND = 3


def draw(seed: int, number: int) -> Plan:
    """The plan of a round, which is a pure function of the arguments."""
    chance = random.Random(f"{seed}/{number}")
    return Plan(
        number,
        meter=chance.choice(METERS),
        duration_s=chance.uniform(0.2, 1.0),
        is_checked=chance.random() < 0.3,
        faults=tuple(_draw_fault(chance) for _ in range(FAULTS_PER_ROUND)),
    )


def _draw_fault(chance: random.Random) -> Fault:
    victim = chance.choice(list(Victim))
    is_child = victim in (Victim.WORKER, Victim.SAMPLER)
    mark = Mark.ADMITTED if is_child else chance.choice(list(Mark))
    silence_s = chance.uniform(0.2, LONGEST_SILENCE_S) if victim is Victim.LINK else 0.0
    return Fault(victim, mark, chance.uniform(0.0, LATEST_S[mark]), silence_s)


class Unit(Ppk2Emulator):
    """A PPK2 that loses samples in unread periods, as a real one does: its host may be killed."""

    def send(self, data: bytes, step: int = 65536) -> None:
        """Send to the host, as far as it has room."""
        with suppress(BlockingIOError):
            while data:
                data = data[os.write(self._master, data[:step]) :]


@dataclass
class Command:
    """One `bench`, with all of its output."""

    process: subprocess.Popen[bytes]
    errors_path: Path
    is_killed: bool = False
    runs: set[str] = field(default_factory=set[str])
    """Runs that it began."""

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.process.poll() is not None

    @property
    def errors(self) -> str:
        """Its standard error so far."""
        return self.errors_path.read_text(errors="replace")

    def tells_failure(self) -> bool:
        """Whether it reported to the user why its run has failed."""
        told = [line for line in self.errors.splitlines() if line.startswith("error: ")]
        is_of_link = any(word in line for line in told for word in LINK_WORDS)
        return bool(told) and not self.is_killed and not is_of_link


@dataclass
class Hit:
    """A fault that was played, and the run that it hit."""

    fault: Fault
    run_id: str | None
    is_missed: bool


@dataclass
class Report:
    """The findings of a round."""

    plan: Plan
    outcomes: list[tuple[Victim, Outcome]]
    run_count: int
    violations: list[str]


class Bed:
    """An agent and a host with a relay between them, and everything that they leave behind."""

    def __init__(self, folder: Path, relay: TcpRelay, agent: AgentProcess) -> None:
        self.agent = agent
        self.host = Host(folder / "h")
        self._relay = relay
        self._folder = folder
        self._commands: list[Command] = []
        self._seen: set[str] = set()
        """Every run that was ever seen."""
        self._admitted: set[str] = set()
        """Runs that were seen on the agent: it keeps each of them, however it ends."""
        self._verified: set[str] = set()
        self._kept: set[str] = set()
        """Files that there are without any fault."""

    def prepare(self) -> None:
        """Pair through the relay, and measure once, for the files that stay."""
        self.host.lab.pair(self.agent.pairing_string())
        path = self.host.folder / "config" / "edgebench" / "host" / "devices.json"
        [device] = json.loads(path.read_text())
        path.write_text(json.dumps([device | {"port": self._relay.port}]))
        command = self._start(CLEAN, meter=None)
        self._await_end(command)
        assert command.process.returncode in CLEAN_CODES, command.errors
        list_runs(self.host.lab.store)  # makes the index
        self._kept = self._files()

    def play(self, plan: Plan) -> Report:
        """Play a round; the outcomes of its runs, and what is wrong with what is left."""
        self._commands = []
        before = set(self._seen)
        violations: list[str] = []
        with _meter(plan.meter) as meter:
            hits = [self._hit(fault, plan, meter) for fault in plan.faults]
            try:
                self._settle()
                clean = self._start(CLEAN, meter)
                self._await_end(clean)
                if clean.process.returncode not in CLEAN_CODES:
                    violations.append(f"clean command failed: {clean.errors}")
            except Stuck as exc:
                violations.append(str(exc))
        outcomes = self._outcomes(self._seen - before)
        silent = [run_id for run_id, outcome in outcomes.items() if outcome is Outcome.SILENT]
        violations += [f"run {run_id} is neither stored nor named" for run_id in silent]
        violations += self._leftovers()
        table = [(hit.fault.victim, _outcome_of(hit, outcomes)) for hit in hits]
        return Report(plan, table, len(outcomes), violations)

    def _hit(self, fault: Fault, plan: Plan, meter: str | None) -> Hit:
        """Wait for a fault's moment, and apply the fault."""
        command = next(iter(self._commands[-1:]), None)
        for _ in range(ATTEMPTS):
            if command is None or command.is_over:
                command = self._start(plan.words, meter)
            self._await_mark(fault.mark, command)
            self._poll_until(time.monotonic() + fault.delay_s, command)
            if not command.is_over:
                break
        assert command is not None
        run_id = max(self._under_way(), default=None)
        return Hit(fault, run_id, is_missed=not self._apply(fault, command))

    def _apply(self, fault: Fault, command: Command) -> bool:
        """Kill or cut; whether the victim existed."""
        if fault.victim is Victim.HOST:
            command.is_killed = not command.is_over
            command.process.kill()
            command.process.wait(30)
            return command.is_killed
        if fault.victim is Victim.AGENT:
            self.agent.kill()
            self.agent.start()
        elif fault.victim is Victim.CONNECTION:
            self._relay.cut()
        elif fault.victim is Victim.LINK:
            self._relay.fall_silent(fault.silence_s)
        else:
            module = "agent.worker.main" if fault.victim is Victim.WORKER else "telemetry.sampler"
            return self._kill_child(module, command)
        return True

    def _kill_child(self, module: str, command: Command) -> bool:
        """Kill the worker or the sampler, as soon as there is one."""
        while True:
            for pid in children_of(self.agent.pid):
                if module in command_line(pid):
                    with suppress(ProcessLookupError):
                        os.kill(pid, signal.SIGKILL)
                        return True
            if command.is_over:
                return False
            self._look(command)
            time.sleep(POLL_S)

    def _start(self, words: Iterable[str], meter: str | None) -> Command:
        path = self._folder / "stderr" / f"{time.monotonic_ns()}.txt"
        path.parent.mkdir(exist_ok=True)
        metered = ("--meter", meter) if meter else ()
        with path.open("wb") as errors:
            process = subprocess.Popen(
                [sys.executable, "-c", IMPATIENT, *words, *metered],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                env=os.environ | self.host.environment | {MARK: str(self._folder)},
                start_new_session=True,
            )
        self._commands.append(Command(process, path))
        return self._commands[-1]

    def _await_mark(self, mark: Mark, command: Command) -> None:
        if mark is Mark.BEGIN:
            return
        directory = {
            Mark.EXPECTED: self.host.lab.store.unfinished,
            Mark.ADMITTED: self.agent.state / "work",
            Mark.SPOOLED: self.agent.state / "spool",
            Mark.STORED: self.host.lab.store.runs,
        }[mark]
        before = _names(directory)
        self._poll_until(None, command, lambda: bool(_names(directory) - before))

    def _await_end(self, command: Command) -> None:
        self._poll_until(None, command)
        self._look(command)

    def _poll_until(
        self, end_s: float | None, command: Command, condition: Callable[[], bool] = lambda: False
    ) -> None:
        """Poll the directories until a time, a condition or the end of the command."""
        limit_s = time.monotonic() + COMMAND_TIMEOUT_S
        while not command.is_over and not condition():
            now_s = time.monotonic()
            if end_s is not None and now_s >= end_s:
                return
            if now_s > limit_s:
                raise Stuck(f"command did not end within {COMMAND_TIMEOUT_S:g} s: {command.errors}")
            self._look(command)
            time.sleep(POLL_S)

    def _look(self, command: Command) -> None:
        """Record the runs that exist."""
        new = self._started() - self._seen
        command.runs |= new
        self._seen |= new

    def _started(self) -> set[str]:
        return self._under_way() | _names(self.host.lab.store.runs)

    def _under_way(self) -> set[str]:
        state = self.agent.state
        there = _names(state / "work") | _names(state / "spool")
        self._admitted |= there
        expected = self.host.lab.store.unfinished.glob(f"*/{EXPECTED_FILE}")
        there |= {path.parent.name for path in expected}  # without a run, it was not started
        return {name for name in there if name[:1].isdigit()} - _names(self.host.lab.store.runs)

    def _settle(self) -> None:
        """Wait for the end of everything that runs on unattended."""
        self._relay.speak()
        for command in self._commands:
            self._await_end(command)
        limit_s = time.monotonic() + SETTLE_TIMEOUT_S
        while (status := self._status()).running is not None or status.lease_holder is not None:
            if time.monotonic() > limit_s:
                state = f"running {status.running}, lease of {status.lease_holder}"
                raise Stuck(f"device is not free after {SETTLE_TIMEOUT_S:g} s: {state}")
            time.sleep(0.05)

    def _status(self) -> Status:
        try:
            return self.agent.status()
        except (EdgebenchError, OSError) as exc:
            raise Stuck(f"agent does not answer: {exc}: {self.agent.errors()[-500:]}") from exc

    def _outcomes(self, run_ids: Iterable[str]) -> dict[str, Outcome]:
        """The outcome of each run."""
        store = self.host.lab.store
        verdicts = {row.run_id: row.verdict for row in list_runs(store)}
        said = "\n".join(command.errors for command in self._commands)
        lost = {run.run_id for run in incomplete_runs(store) if run.state is IncompleteState.LOST}
        outcomes: dict[str, Outcome] = {}
        for run_id in run_ids:
            told = [line for line in said.splitlines() if f"run {run_id}" in line]
            if run_id in verdicts:
                is_failed = verdicts[run_id] == FAILED
                outcomes[run_id] = Outcome.FAILED if is_failed else Outcome.STORED
            elif run_id in lost or any("is no longer on the device" in line for line in told):
                outcomes[run_id] = Outcome.LOST
            elif run_id not in self._admitted and any(
                run_id in command.runs and command.tells_failure() for command in self._commands
            ):
                outcomes[run_id] = Outcome.REFUSED
            else:
                outcomes[run_id] = Outcome.SILENT
        return outcomes

    def _leftovers(self) -> list[str]:
        """Whatever exists and should not."""
        store = self.host.lab.store
        found: list[str] = []
        for run_id in _names(store.runs) - self._verified:
            try:
                differences = verify(store, run_id)
            except EdgebenchError as exc:
                found.append(f"run {run_id} cannot be verified: {exc}")
                continue
            found += [f"run {run_id} does not verify: {one}" for one in differences]
            self._verified.add(run_id)
        for run in incomplete_runs(store):
            if run.state is not IncompleteState.LOST:
                found.append(f"run {run.run_id} is {run.state.value}, after a clean command")
        remove_lost(store)
        for name in _names(store.unfinished):
            found.append(f"left in incoming/: {name}")
        for name in _names(self.agent.state / "spool") | _names(self.agent.state / "work"):
            found.append(f"left on the device: {name}")
        found += [f"left behind: {name}" for name in sorted(self._files() - self._kept)]
        left = orphans(str(self._folder), [self.agent.pid])
        found += [f"process left behind: {line}" for line in left]
        texts = [self.agent.errors(), *(command.errors for command in self._commands)]
        found += [f"traceback:\n{text[-2000:]}" for text in texts if "Traceback" in text]
        return found

    def _files(self) -> set[str]:
        """Names of all files of host and agent that are not in a run's own directory."""
        names: set[str] = set()
        for root in (self.host.folder, self.agent.folder):
            for folder, folders, files in os.walk(root):
                at = Path(folder)
                if at.name in ("runs", "incoming", "work", "spool"):
                    folders.clear()  # checked by run
                if at.name == "live":
                    continue  # for a day, by which `edgebench serve` knows that a command has ended
                files = [name for name in files if name not in INDEX_FILES]  # a cache: any moment
                names |= {str((at / name).relative_to(self._folder)) for name in files}
        return names


class Stuck(Exception):
    """Something still runs that should have ended."""


@contextmanager
def bed(folder: Path) -> Iterator[Bed]:
    """A bed in this folder, for the duration of the block."""
    folder.mkdir(parents=True, exist_ok=True)
    environment = {MARK: str(folder)}
    agent = AgentProcess(folder / "a", ["--name", "board"], environment=environment).start()
    agent.listen = f"127.0.0.1:{agent.port}"  # where it is found when it is started again
    try:
        with TcpRelay(agent.port) as relay:
            made = Bed(folder, relay, agent)
            made.prepare()
            yield made
    finally:
        agent.kill()


@contextmanager
def _meter(name: str | None) -> Iterator[str | None]:
    """A meter for the duration of the block, as a command names it."""
    if name != "ppk2":
        yield name
        return
    with Unit() as unit:
        yield f"ppk2:{unit.path},supply=3.3"


def tally(reports: Iterable[Report]) -> Counter[tuple[Victim, Outcome]]:
    """How often each victim's run had each outcome."""
    return Counter(pair for report in reports for pair in report.outcomes)


def _outcome_of(hit: Hit, outcomes: dict[str, Outcome]) -> Outcome:
    if hit.is_missed:
        return Outcome.MISSED
    return outcomes.get(hit.run_id or "", Outcome.NO_RUN)


def _names(directory: Path) -> set[str]:
    try:
        return set(os.listdir(directory))
    except FileNotFoundError:
        return set()
