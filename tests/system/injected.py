"""One plain `Exception` at a time, at each call from our code into a library; run by hand.

    python tests/system/injected.py [--count 10000] [--seed 1] [--only NAME]... [--agent]

Each round runs a real command of the host in a process of its own, in which one call into another
distribution raises `Exception`, once. The calls are those that the command made when nothing was
raised; which of them, and which time, is drawn from the seed. With --agent, the call is one of the
agent that serves the command.

A round is wrong if anything of a traceback is printed; if a command that fails has no error line,
or more than one (`bench` has one for each model); if its exit code is not in the table; if it hangs
or dies; if --json does not print one document; if the agent's lease is not free afterwards, or the
agent has ended. At the end, every run that was measured has to be stored or collected.

Prints a line for each round that is wrong, and the sum for each command; ends with 1 if any is.
SIGTERM ends it after the round in progress, with the sums of the rounds so far.
tests/system/test_injected.py is the short form; tests/support/injection.py is the mechanism.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import random
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.injection import Calls, Site

TESTS = Path(__file__).resolve().parents[1]
CALLS = Calls()
if __name__ == "__main__":
    CALLS.install()

ROUND_S = 60.0
"""Time after which a command hangs."""
RUNS = TESTS / "fixtures" / "runs" / "v7"
QUICK = (
    *("--quick", "--runs=1", "--duration=0.1s", "--min-queries=20"),
    *("--warmup=5", "--warmup-duration=0.05s", "--no-check"),
)
EXIT_CODES = (0, 1, 2, 3, 4, 5)
PROGRESS_ROUNDS = 200
"""Rounds between two lines of progress."""
SERVE_S = 1.0
"""Time that a page is served, while its client fetches everything."""


@dataclass
class World:
    """A store with runs, a directory for what commands write, and an agent that is paired."""

    folder: Path
    runs: list[str]
    agent: AgentHandle | None = None

    def out(self, name: str) -> str:
        """Path of a file that does not exist."""
        path = self.folder / "out" / name
        shutil.rmtree(path.parent, ignore_errors=True)
        path.parent.mkdir()
        return str(path)


@dataclass
class AgentHandle:
    """The agent on loopback; if its calls are counted, files and a signal select which one raises.

    It is not that of support/agents.py, whose import loads modules before they are rewritten.
    """

    folder: Path
    is_injected: bool
    process: subprocess.Popen[str] | None = None
    port: int = 0

    @property
    def state(self) -> Path:
        """Its state directory."""
        return self.folder / "state"

    def start(self) -> None:
        """Start it and wait until it is ready."""
        self.folder.mkdir(exist_ok=True)
        code = "from edgebench.agent.entry import run; raise SystemExit(run())"
        if self.is_injected:
            code = f"import runpy; runpy.run_path({__file__!r}, run_name='agent')"
        words = ["--state", str(self.state), "--config", str(self.folder / "config")]
        words += ["serve", "--listen", "127.0.0.1:0", "--no-advertise", "--name", "board"]
        with (self.folder / "log.txt").open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", code, *words],
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                env=os.environ | {"INJECTED_AGENT": str(self.folder)},
            )
        assert self.process.stdout is not None
        readable, _, _ = select.select([self.process.stdout], [], [], ROUND_S)
        line = self.process.stdout.readline() if readable else ""
        assert line.startswith("ready "), (self.folder / "log.txt").read_text()
        self.port = int(line.split()[-1])

    def stop(self) -> None:
        """End it."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(30)

    def log(self) -> str:
        """Its log."""
        return (self.folder / "log.txt").read_text(errors="replace")

    def status(self) -> str:
        """The holder of its lease; raises if the agent has ended."""
        import asyncio

        from edgebench.agent.control import send_request
        from edgebench.protocol.messages import Status, StatusAsk
        from edgebench.system.control_address import ControlAddress

        status = asyncio.run(send_request(ControlAddress(self.state), StatusAsk(), Status))
        return status.lease_holder or ""

    def pairing(self) -> str:
        """A string that pairs one host."""
        import asyncio
        import secrets

        from edgebench.agent.control import send_request
        from edgebench.protocol import identity
        from edgebench.protocol.messages import PairingOpen, PairingReady
        from edgebench.system.control_address import ControlAddress

        secret = secrets.token_bytes(identity.SECRET_BYTES)
        certificate = identity.pairing_identity(secret).certificate_pem
        request = PairingOpen(certificate, identity.PAIRING_VALID_S)
        ready = asyncio.run(send_request(ControlAddress(self.state), request, PairingReady))
        string = identity.PairingString(("127.0.0.1",), ready.port, ready.fingerprint, secret)
        return str(string)

    def tell(self, armed: tuple[Site, int] | None) -> Counter[Site]:
        """Arm a call, or none; the calls that were counted since the last time."""
        assert self.process is not None
        counts = self.folder / "counts.json"
        counts.unlink(missing_ok=True)
        (self.folder / "armed.json").write_text(json.dumps(armed))
        self.process.send_signal(signal.SIGUSR1)
        deadline_s = time.monotonic() + ROUND_S
        while not counts.exists():
            assert time.monotonic() < deadline_s, "the agent does not answer"
            time.sleep(0.01)
        return Counter(json.loads(counts.read_text()))


def serve_injected_agent() -> int:
    """In the agent's process: count and arm calls as the files state, and serve."""
    calls = Calls()
    calls.install()
    folder = Path(os.environ["INJECTED_AGENT"])

    def obey(*_: object) -> None:
        counts = folder / "counts.part"
        counts.write_text(json.dumps(calls.counts))
        armed = json.loads((folder / "armed.json").read_text())
        calls.counts.clear()
        calls.armed, calls.fired = (None if armed is None else tuple(armed)), False
        counts.replace(folder / "counts.json")

    signal.signal(signal.SIGUSR1, obey)
    from edgebench.agent.entry import run

    return run()


Words = Callable[[World], list[str]]


@dataclass(frozen=True)
class Command:
    """A command line of the host, made anew for each round."""

    words: Words
    share: float = 1.0
    """Part of its calls that are drawn, relative to those of the others."""
    is_measuring: bool = False
    """Whether it needs the agent."""
    during: Callable[[Path], None] | None = None
    """What a thread in its process does meanwhile; it gets the file of the standard output."""


def _compare(world: World) -> list[str]:
    return ["compare", world.runs[0], "--against", world.runs[1], "--allow", "all"]


def _fetch_pages(output: Path) -> None:
    """Fetch everything that `edgebench serve` serves, and press Ctrl-C."""
    deadline_s = time.monotonic() + ROUND_S / 2
    lines: list[str] = []
    with suppress(OSError, ValueError, IndexError):
        while not lines and time.monotonic() < deadline_s:
            time.sleep(0.02)
            lines = output.read_text().splitlines()
        address = json.loads(lines[0])["url"].rstrip("/")
        pages = ["/", "/app.js", "/state.json", "/history"]
        pages += [f"/runs/{path.name}{more}" for path in RUNS.iterdir() for more in ("", "/report")]
        for page in pages[:8]:
            with suppress(OSError, HTTPException):  # a page that breaks off does not count
                urllib.request.urlopen(address + page, timeout=10).read()
    os.kill(os.getpid(), signal.SIGINT)


COMMANDS: dict[str, Command] = {
    "runs": Command(lambda _: ["runs"]),
    "runs --json": Command(lambda _: ["runs", "--json"]),
    "show": Command(lambda w: ["show", w.runs[1]]),
    "show --all": Command(lambda w: ["show", "--all", *w.runs[:3]]),
    "show --json": Command(lambda w: ["show", w.runs[1], "--json"]),
    "verify": Command(lambda w: ["verify", w.runs[1]]),
    "verify --rejudge": Command(lambda w: ["verify", w.runs[0], "--rejudge"]),
    "compare": Command(_compare),
    "report": Command(lambda w: ["report", *w.runs[:2], "-o", w.out("report.html")]),
    "history": Command(lambda w: ["history", "-o", w.out("history.html")]),
    "tag": Command(lambda w: ["tag", w.runs[0], "tagged"]),
    "note": Command(lambda w: ["note", w.runs[0], "a note"]),
    "prune": Command(lambda _: ["prune", "--keep-last", "1"]),
    "bundle": Command(lambda w: ["bundle", *w.runs[:2], "-o", w.out("runs.zip")]),
    "show bundle": Command(lambda w: ["show", str(w.folder / "bundle.zip")]),
    "store merge": Command(
        lambda w: ["store", "merge", str(w.folder / "bundle.zip"), "--store", w.out("store")]
    ),
    **{
        f"export {form}": Command(
            lambda w, form=form: ["export", *w.runs[:2], "--format", form, "-o", w.out("file")]  # type: ignore[misc]
        )
        for form in ("csv", "parquet", "perfetto", "chrome", "bmf", "junit", "markdown")
    },
    "schema": Command(lambda _: ["schema"]),
    "meters": Command(lambda _: ["meters"]),
    "meters record": Command(
        lambda w: [
            *("meters", "record", "synthetic:constant,power=1", "--duration", "0.3s"),
            *("--output", w.out("recording")),
        ]
    ),
    "meters import": Command(
        lambda w: [
            *("meters", "import", str(w.folder / "trace.csv"), "--time", "t:s", "--power", "p:W"),
            *("--output", w.out("recording"), "--json"),
        ]
    ),
    "campaign plan": Command(
        lambda w: ["campaign", "plan", str(w.folder / "campaign.toml")], is_measuring=True
    ),
    "serve": Command(lambda _: ["serve", "--port", "0", "--json"], share=0.5, during=_fetch_pages),
    "devices": Command(
        lambda _: ["devices", "--timeout", "0.3s", "--json"], is_measuring=True, share=0.5
    ),
    "pair": Command(
        lambda w: ["pair", "--replace", w.agent.pairing() if w.agent else ""], is_measuring=True
    ),
    "collect": Command(lambda _: ["collect", "--on", "board"], is_measuring=True),
    "bench": Command(
        lambda _: ["bench", "digits_int8.onnx", "--on", "board", *QUICK],
        is_measuring=True,
        share=0.3,
    ),
    "bench --json": Command(
        lambda w: [
            *("bench", "digits_int8.onnx", "--on", "board", *QUICK, "--json"),
            *("--meter", "synthetic:constant,power=1", "--idle", "0.2s"),
            *("--export", w.out("runs.csv")),
        ],
        is_measuring=True,
        share=0.2,
    ),
    "campaign run": Command(
        lambda w: ["campaign", "run", str(w.folder / "campaign.toml")],
        is_measuring=True,
        share=0.2,
    ),
    "deploy": Command(
        lambda w: ["deploy", *(w.folder / "deploy.txt").read_text().split(), "--uninstall"],
        share=0.5,
    ),
}


@dataclass
class Ended:
    """How a command ended."""

    code: int
    """Exit code; negative: a signal, or the time was over."""
    out: str
    err: str
    has_fired: bool
    counts: Counter[Site] = field(default_factory=Counter)
    duration_s: float = 0.0


def run_here(
    words: Sequence[str], folder: Path, command: Command, armed: tuple[Site, int] | None
) -> Ended:
    """Run a command of the host in a fork of this process."""
    out, err, fired, counts = (folder / name for name in ("out.txt", "err.txt", "fired", "counts"))
    for path in (out, err, fired, counts):
        path.unlink(missing_ok=True)
    assert threading.active_count() == 1, "a fork has no other threads"
    began_s = time.monotonic()
    if (pid := os.fork()) == 0:
        code = 70
        try:
            for number, path in ((1, out), (2, err)):
                os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            CALLS.counts.clear()
            CALLS.armed, CALLS.fired, CALLS.on_fire = armed, False, fired.touch
            code = _command_here(words, command, out)
            if armed is None:
                counts.write_text(json.dumps(CALLS.counts))
        finally:
            os._exit(code)
    deadline_s = began_s + ROUND_S
    status = None
    while time.monotonic() < deadline_s:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            break
        time.sleep(0.005)
    else:
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
    return Ended(
        os.waitstatus_to_exitcode(status or 0),
        out.read_text(errors="replace"),
        err.read_text(errors="replace"),
        fired.exists(),
        Counter(json.loads(counts.read_text())) if counts.exists() else Counter(),
        time.monotonic() - began_s,
    )


def _command_here(words: Sequence[str], command: Command, out: Path) -> int:
    """In the fork: run the command as its entry point does."""
    from edgebench.host.cli.main import main
    from edgebench.system.command_process import report_strays

    sys.argv = ["edgebench", *words]
    report_strays()
    if command.during is not None:
        threading.Thread(target=command.during, args=(out,), daemon=True).start()
    code = main(words)
    gc.collect()
    sys.stdout.flush()
    sys.stderr.flush()
    return code


def faults_of(words: Sequence[str], ended: Ended) -> list[str]:
    """What is wrong with how a command ended."""
    marks = ("Traceback", "Exception ignored", "Fatal Python error")
    faults = [f"{mark!r} on stderr" for mark in marks if mark in ended.err]
    if ended.code not in EXIT_CODES and not (words[0] == "serve" and ended.code == 130):
        faults.append(f"exit code {ended.code}")
    errors = [line for line in ended.err.splitlines() if line.startswith("error: ")]
    # A campaign continues after a run that fails, and lists it.
    is_listed = words[0] == "campaign" and "failed: " in ended.out
    if ended.code in (1, 2) and not errors and not is_listed:
        faults.append("no error line")
    if len(errors) > 1 and words[0] not in ("bench", "collect", "verify", "energy"):
        faults.append(f"{len(errors)} error lines")
    if len(set(errors)) < len(errors):
        faults.append("an error twice")
    if "--json" in words and words[0] != "serve":
        try:
            json.loads(ended.out)
        except ValueError:
            faults.append("stdout is not one document")
    return faults


@dataclass
class Tally:
    """Rounds of one command."""

    fired: int = 0
    failed: int = 0
    """Rounds in which the command failed; in the others it continued without what failed."""
    wrong: int = 0


@contextmanager
def new_world(names: Sequence[str], *, is_agent_injected: bool) -> Iterator[World]:
    """A store with runs, and an agent if any of the commands needs it."""
    needs_agent = any(COMMANDS[name].is_measuring for name in names)
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="injected")))
        home = folder / "home"
        home.mkdir()
        os.environ |= {
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_DATA_HOME": str(home / "data"),
            "XDG_STATE_HOME": str(home / "state"),
            "COLUMNS": "160",
            "OPENBLAS_NUM_THREADS": "1",
        }
        for name in ("EDGEBENCH_DEBUG", "EDGEBENCH_STORE", "SSH_AUTH_SOCK"):
            os.environ.pop(name, None)
        runs = sorted(path.name for path in RUNS.iterdir())
        shutil.copytree(RUNS, home / "data" / "edgebench" / "runs")
        _preload(names)
        world = World(folder, runs)
        (folder / "campaign.toml").write_text(
            'schema = 1\nname = "one"\nrepeats = 1\n[axes]\nmodel = ["digits_int8.onnx"]\n'
            'device = ["board"]\n[settings]\npreset = "quick"\nduration_s = 0.1\n'
            "min_query_count = 20\nwarmup_query_count = 5\nis_checked = false\n"
        )
        rows = "".join(f"{i / 100},{1 + i % 2}\n" for i in range(500))
        (folder / "trace.csv").write_text("t,p\n" + rows)
        if needs_agent:
            world.agent = AgentHandle(folder / "agent", is_agent_injected)
            world.agent.start()
            stack.callback(world.agent.stop)
            paired = run_here(["pair", world.agent.pairing()], folder, COMMANDS["pair"], None)
            assert paired.code == 0, paired.err
        if {"show bundle", "store merge"} & set(names):
            bundle = ["bundle", *runs[:2], "-o", str(folder / "bundle.zip")]
            made = run_here(bundle, folder, COMMANDS["bundle"], None)
            assert made.code == 0, made.err
        if "deploy" in names:
            _start_sshd(folder, stack)
        yield world


def _start_sshd(folder: Path, stack: ExitStack) -> None:
    """A server to log in to, where possible; deploy is left out elsewhere."""
    import getpass
    import socket

    from support.ssh_home import configure_ssh
    from support.sshd import Account, new_key, ssh_server

    if os.geteuid() != 0 or not shutil.which("sshd", path="/usr/sbin:/sbin"):
        COMMANDS.pop("deploy", None)
        return
    new_key(folder / "login")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    account = Account(getpass.getuser(), folder, folder / "login")
    lines = [f"AuthorizedKeysFile {folder}/login.pub", "StrictModes no"]
    server = stack.enter_context(
        ssh_server(folder / "sshd", account, address="127.0.0.1", port=port, lines=lines)
    )
    ssh = configure_ssh(Path(os.environ["HOME"]))
    os.environ["PATH"] = f"{ssh.parent}:{os.environ['PATH']}"
    (Path(os.environ["HOME"]) / ".ssh" / "known_hosts").write_text(server.known_hosts_line)
    target = f"{account.name}@127.0.0.1:{port} -i {folder}/login"
    (folder / "deploy.txt").write_text(target)


def _preload(names: Sequence[str]) -> None:
    """Load what these commands load, so that each fork has it."""
    from importlib import import_module

    from edgebench.host.cli import main

    for name in {name.split()[0] for name in names}:
        import_module(f"edgebench.host.cli.{name}")
        for loaded in main._LOADED.get(name, ()):
            import_module(loaded)
    import_module("pyarrow.parquet")
    if "bench" in names:
        for name in ("pandas", "scipy.stats", "paramiko", "uvicorn", "starlette"):
            import_module(name)
    gc.collect()
    gc.freeze()  # a collection in a fork copies no page of what was loaded here


def _settled(world: World) -> list[str]:
    """What is wrong with the agent after a round; waits until a run in progress has ended."""
    assert world.agent is not None
    deadline_s = time.monotonic() + ROUND_S / 2
    while True:
        try:
            holder = world.agent.status()
        except Exception as exc:  # whatever it is, the agent does not respond
            text = f"the agent does not answer: {exc}"
            if world.agent.process is not None and world.agent.process.poll() is not None:
                world.agent.start()
            return [text]
        if not holder:
            return []
        if time.monotonic() > deadline_s:
            return [f"the lease is held by {holder}"]
        time.sleep(0.05)


def play(options: argparse.Namespace, world: World, names: Sequence[str]) -> int:
    """Draw the rounds and play them; the number of wrong ones."""
    random_ = random.Random(options.seed)
    rounds: list[tuple[float, str, tuple[Site, int]]] = []
    wrong = 0
    reached: set[Site] = set()
    for name in names:
        command = COMMANDS[name]
        if options.agent:
            assert world.agent is not None
            world.agent.tell(None)
        ended = run_here(command.words(world), world.folder, command, None)
        counts = ended.counts
        if options.agent:
            assert world.agent is not None
            _settled(world)
            counts = world.agent.tell(None)
        faults = faults_of(command.words(world), ended)
        if faults or ended.code not in (0, 3, 5, 130):
            print(f"{name}: without an exception: {ended.code} {faults}: {ended.err[-500:]}")
            wrong += 1
            continue
        reached |= set(counts)
        print(
            f"{name}: {len(counts)} sites, {sum(counts.values())} calls, {ended.duration_s:.1f} s"
        )
        for site, count in counts.items():
            times = {1, count, *(random_.randint(1, count) for _ in range(options.times))}
            for number in times:
                rank = random_.random() / command.share
                rounds.append((rank if number > 1 else rank / 4, name, (site, number)))
    total = len(CALLS.sites)
    print(f"{len(reached)} sites reached of {total} calls in the source; {len(rounds)} rounds")
    rounds.sort()
    tallies = {name: Tally() for name in names}
    limit_s = time.monotonic() + options.seconds
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    for number, (_, name, armed) in enumerate(rounds[: options.count]):
        if stop.is_set() or time.monotonic() > limit_s:
            print(f"ended behind {number} of {min(len(rounds), options.count)} rounds")
            break
        if number % PROGRESS_ROUNDS == 0:
            print(f"{time.strftime('%H:%M')}: {number} rounds, {wrong} wrong", flush=True)
        wrong += _round(options, world, name, armed, tallies[name])
    for name, tally in tallies.items():
        print(f"{name}: {tally.fired} raised, {tally.failed} failed, {tally.wrong} wrong")
    fired = sum(tally.fired for tally in tallies.values())
    print(f"{fired} exceptions raised, {wrong} wrong")
    if world.agent is not None:
        ended = run_here(["collect", "--on", "board"], world.folder, COMMANDS["collect"], None)
        if ended.code not in (0, 3):
            print(f"not collected: {ended.code}: {ended.err}")
            wrong += 1
        if "Traceback" in world.agent.log():
            print(f"agent: a traceback in its log: {world.agent.log()[-3000:]}")
            wrong += 1
    return wrong


def _round(
    options: argparse.Namespace,
    world: World,
    name: str,
    armed: tuple[Site, int],
    tally: Tally,
) -> int:
    command = COMMANDS[name]
    words = command.words(world)
    if options.agent:
        assert world.agent is not None
        world.agent.tell(armed)
    ended = run_here(words, world.folder, command, None if options.agent else armed)
    faults = faults_of(words, ended)
    if options.agent:
        assert world.agent is not None
        world.agent.tell(None)
    if command.is_measuring:
        faults += _settled(world)
    tally.fired += ended.has_fired or options.agent
    tally.failed += ended.code != 0
    if faults:
        tally.wrong += 1
        print(f"WRONG {name}, {armed[0]} call {armed[1]}: {'; '.join(faults)}")
        print("    " + "\n    ".join(ended.err.splitlines()[-12:]), flush=True)
    elif options.verbose:
        first = next((line for line in ended.err.splitlines() if "error: " in line), "")
        print(f"{name}, {armed[0]} call {armed[1]}: {ended.code} {first[:150]}", flush=True)
    return bool(faults)


def main() -> int:
    """Play the rounds; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description="One plain exception at a time.")
    parser.add_argument("--count", type=int, default=10_000, help="most rounds")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no round after this time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--times", type=int, default=2, help="drawn calls of each site")
    parser.add_argument("--only", action="append", metavar="NAME", help="these commands")
    parser.add_argument("--agent", action="store_true", help="raise in the agent")
    parser.add_argument("--verbose", action="store_true", help="print every round")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    names = options.only or list(COMMANDS)
    if options.agent:
        names = [name for name in names if COMMANDS[name].is_measuring]
    with new_world(names, is_agent_injected=options.agent) as world:
        return int(play(options, world, [name for name in names if name in COMMANDS]) > 0)


if __name__ == "__main__":
    raise SystemExit(main())
if __name__ == "agent":
    raise SystemExit(serve_injected_agent())
