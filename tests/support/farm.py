"""A farm on one machine: agents with simulated boards and hosts, each in a network of its own.

    switch ─┬─ host: makes the campaign; store and journal are on a small disk of its own
            ├─ rack0: agent, seats; its state is on a small disk of its own
            ├─ rack1 …
            ├─ scheduler, lab1, lab2: on Dask, if the farm has labs; the host then only coordinates

Every process is supervised as by systemd. Some devices have a synthetic meter, some an emulated
PPK2 whose cable can be pulled out. What is counted (the book of starts) lies outside of all this.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from itertools import cycle, islice
from pathlib import Path

from edgebench.agent.control import send_request
from edgebench.host.campaign.campaign import Campaign
from edgebench.host.campaign.cluster.lab import LAB_DIRECTORY
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import EdgebenchError, NoSuchCampaign
from edgebench.protocol.identity import (
    PAIRING_VALID_S,
    SECRET_BYTES,
    PairingString,
    pairing_identity,
)
from edgebench.protocol.messages import PairingOpen, PairingReady, Status, StatusAsk
from edgebench.system.control_address import ControlAddress
from support.agents import Host, wait_until
from support.disks import small_disk
from support.leftovers import MARK
from support.netns import Namespace, Network, switched_network
from support.ppk2 import Ppk2Emulator
from support.starts import StartBook
from support.supervised import Supervised

PORT = 7747
SCHEDULER_PORT = 8786
SEATS = (3, 3, 2, 2, 2)
BOARDS = ("imx8mp-evk", "rock-5b", "raspberry-pi-5-cooled")
AGENT_DISK_BYTES = 48 * 2**20
STORE_DISK_BYTES = 256 * 2**20
METERS = ("ppk2", "synthetic", "", "")
"""Meters of the devices, in turn: emulated, computed, none."""
MODELS = ("digits_int8.onnx", "digits_fp32.onnx")
THREADS = (1, 2, 3, 4)

ENDS = (0, 1, 3)
"""Exit codes of a campaign that has come to its end."""
HOST_COMMAND = """
import sys
from edgebench.host.cli.main import main
from edgebench.host.transports import link
link.WEBSOCKET_OPTIONS.update(ping_interval=2.0, ping_timeout=4.0)
sys.exit(main(sys.argv[1:]))
"""
"""`edgebench` that notices a silent device in six seconds; the real one takes 40."""
_PAIR = """
import sys
from edgebench.host.lab import Lab
for text in sys.argv[2:]:
    Lab().pair(text)
Lab().export_lab(sys.argv[1])
"""


class Unit(Ppk2Emulator):
    """A PPK2 that loses samples while nobody reads, as a real one does: its host may be killed."""

    def send(self, data: bytes, step: int = 65536) -> None:
        """To the host, as far as it has room."""
        with suppress(BlockingIOError):
            while data:
                data = data[os.write(self._master, data[:step]) :]


class Cable:
    """A PPK2 whose cable can be pulled out and put in again: the port keeps its name."""

    def __init__(self, port: Path) -> None:
        self._port = port
        self._unit: Unit | None = None

    @property
    def meter(self) -> str:
        """The meter as the farm file names it."""
        return f"ppk2:{self._port},supply=3.3"

    def plug(self) -> None:
        """Put it in."""
        if self._unit is None:
            self._unit = Unit().__enter__()
            self._port.symlink_to(self._unit.path)

    def pull(self) -> None:
        """Pull it out."""
        if self._unit is not None:
            self._port.unlink()
            self._unit.__exit__()
            self._unit = None


@dataclass
class Rack:
    """An agent with its seats, on a machine of its own."""

    name: str
    machine: Namespace
    folder: Path
    seats: tuple[str, ...]
    process: Supervised

    @property
    def state(self) -> Path:
        """The agent's state directory, a disk of its own."""
        return self.folder / "state"

    @property
    def config(self) -> Path:
        """The agent's configuration directory."""
        return self.folder / "config"

    @property
    def disk(self) -> Path:
        """The small disk that its state is on."""
        return self.state

    @property
    def devices(self) -> tuple[str, ...]:
        """Names of its devices at the host."""
        return tuple(f"{self.name}-simulated/{seat}" for seat in self.seats)

    def status(self) -> Status:
        """What the agent says of itself.

        Raises:
            EdgebenchError: it does not answer.
        """
        return asyncio.run(send_request(ControlAddress(self.state), StatusAsk(), Status))

    def is_ready(self) -> bool:
        """Whether it answers."""
        try:
            self.status()
        except (EdgebenchError, OSError):
            return False
        return True

    def pairing_string(self) -> str:
        """What `edgebench-agent pair` prints."""
        secret = secrets.token_bytes(SECRET_BYTES)
        request = PairingOpen(pairing_identity(secret).certificate_pem, PAIRING_VALID_S)
        ready = asyncio.run(send_request(ControlAddress(self.state), request, PairingReady))
        return str(PairingString((self.machine.address,), PORT, ready.fingerprint, secret))


@dataclass
class HostMachine:
    """A machine with a host, whose store is a disk of its own: it coordinates, or is a lab host."""

    name: str
    machine: Namespace
    host: Host
    errors: Path
    process: Supervised | None = None
    """Its process, if it is a lab host."""

    @property
    def disk(self) -> Path:
        """The disk that its store is on."""
        return self.host.folder / "data"

    @property
    def store(self) -> Store:
        """The store of its runs; a lab host's are on their way."""
        root = self.host.lab.store.root
        return Store(root if self.process is None else root / LAB_DIRECTORY)

    @property
    def temporary(self) -> Path:
        """Directory for its temporary files."""
        return self.host.folder / "tmp"

    def words(self, *words: str) -> list[str]:
        """A command line of the host, on its machine."""
        return [*self.machine.prefix, sys.executable, "-c", HOST_COMMAND, *words]


@dataclass
class SchedulerMachine:
    """A machine with the scheduler of the lab hosts."""

    machine: Namespace
    process: Supervised

    @property
    def address(self) -> str:
        """Address as `--cluster` takes it."""
        return f"tcp://{self.machine.address}:{SCHEDULER_PORT}"


@dataclass
class Farm:
    """Everything."""

    folder: Path
    network: Network
    book: StartBook
    host: HostMachine
    """Host that makes the campaign."""
    racks: list[Rack] = field(default_factory=list[Rack])
    labs: list[HostMachine] = field(default_factory=list[HostMachine])
    scheduler: SchedulerMachine | None = None
    cables: dict[str, Cable] = field(default_factory=dict[str, Cable])
    """Meters that can be pulled out, by device."""

    @property
    def metered(self) -> tuple[str, ...]:
        """Devices with a meter, which a host records."""
        return tuple(device for device, meter in zip(self.devices, cycle(METERS)) if meter)

    @property
    def devices(self) -> list[str]:
        """Names of all devices."""
        return [name for rack in self.racks for name in rack.devices]

    @property
    def hosts(self) -> list[HostMachine]:
        """The machines that have a store."""
        return [self.host, *self.labs]

    def campaign(self) -> Campaign | None:
        """The campaign; None before it is begun."""
        try:
            return self.host.host.lab.campaign()
        except NoSuchCampaign:
            return None

    def run_campaign(self, file: Path) -> Supervised:
        """Make a campaign, resumed whenever its process ends, until nothing is left."""

        def words() -> list[str]:
            action = ["run", str(file)] if self.campaign() is None else ["resume"]
            cluster = ["--cluster", self.scheduler.address] if self.scheduler else []
            return self.host.words("campaign", *action, *cluster)

        def is_done(code: int) -> bool:
            campaign = self.campaign()
            return code in ENDS and campaign is not None and campaign.state().is_over

        return Supervised(words, self.environment_of(self.host), self.host.errors, is_done).start()

    def environment_of(self, host: HostMachine) -> dict[str, str]:
        """Variables of a process of a host."""
        return host.host.environment | {MARK: str(self.folder), "TMPDIR": str(host.temporary)}


def campaign_text(devices: Sequence[str], run_count: int, repeats: int, run_s: float) -> str:
    """A campaign file of so many runs of this length, dealt out to the devices."""
    cells = [(model, threads) for threads in THREADS for model in MODELS]
    dealt = [(device, *cell) for cell in cells for device in devices][: run_count // repeats]
    assert len(dealt) * repeats == run_count, "as many runs as were asked for"
    added = "".join(
        f'[[include]]\nmodel = "{model}"\ndevice = "{device}"\nthreads = {threads}\n'
        'scenario = "server"\n'
        for device, model, threads in dealt
    )
    return f"""\
schema = 1
name = "chaos"
repeats = {repeats}
wait_s = 300
[axes]
model = ["{MODELS[0]}"]
device = ["{devices[0]}"]
[[exclude]]
model = "*"
{added}
[settings]
preset = "quick"
duration_s = {run_s * repeats}
min_query_count = {10 * repeats}
target_qps = 200
warmup_query_count = 2
warmup_duration_s = 0.05
is_checked = false
cooldown_timeout_s = 0
meter = "farm"
sync = "arrival"
idle_duration_s = 0.3
"""


@contextmanager
def farm(folder: Path, seats: Sequence[int] = SEATS, labs: int = 0) -> Iterator[Farm]:
    """A farm of agents with so many seats each, which all are ready and paired.

    Args:
        folder: Everything is in it.
        seats: Number of devices of each agent.
        labs: Number of labs, each of which offers all devices; 0: the host measures itself.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        network = stack.enter_context(switched_network())
        made = Farm(
            folder, network, StartBook(folder / "starts"), _host(folder / "host", network, stack)
        )
        for number, count in enumerate(seats):
            made.racks.append(_rack(f"rack{number}", count, made, stack))
        made.labs = [
            _host(folder / f"lab{number}", network, stack) for number in range(1, labs + 1)
        ]
        for rack in made.racks:
            wait_until(rack.is_ready, f"{rack.name} is ready")
        _pair(made)
        _wire(made, stack)
        if labs:
            _begin_labs(made, stack)
        yield made


def _host(folder: Path, network: Network, stack: ExitStack) -> HostMachine:
    made = HostMachine(folder.name, network.add(), Host(folder), folder / "stderr.txt")
    stack.enter_context(small_disk(made.disk, STORE_DISK_BYTES))
    made.temporary.mkdir()
    return made


def _rack(name: str, count: int, farm: Farm, stack: ExitStack) -> Rack:
    machine, own = farm.network.add(), farm.folder / name
    boards = list(islice(cycle(BOARDS), count))
    process = Supervised(
        lambda: [
            *(*machine.prefix, sys.executable, "-m", "edgebench.agent"),
            *("--state", str(own / "state"), "--config", str(own / "config")),
            *("serve", "--listen", f":{PORT}", "--name", name, "--no-advertise"),
            *(word for board in boards for word in ("--simulate", board)),
        ],
        farm.book.environment | {MARK: str(farm.folder)},
        own / "stderr.txt",
    )
    rack = Rack(name, machine, own, tuple(boards), process)
    stack.enter_context(small_disk(rack.state, AGENT_DISK_BYTES))
    process.start()
    stack.callback(process.stop, signal.SIGKILL)
    return rack


def _pair(farm: Farm) -> None:
    """Pair with all agents, from the machine of the host or the first lab host; others join."""
    strings = [rack.pairing_string() for rack in farm.racks]
    first, *others = farm.labs or [farm.host]
    lab = farm.folder / "lab.json"
    subprocess.run(
        [*first.machine.prefix, sys.executable, "-c", _PAIR, str(lab), *strings],
        env=os.environ | first.host.environment,
        check=True,
        timeout=120,
    )
    for other in others:
        other.host.lab.join_lab(lab)


def _wire(farm: Farm, stack: ExitStack) -> None:
    """Write the farm files, with the meters, and plug them in."""
    lines = ["schema = 1", "quarantine_after = 0", "parallel = 64"]
    for number, (device, meter) in enumerate(zip(farm.devices, cycle(METERS), strict=False)):
        if meter == "ppk2":
            cable = Cable(farm.folder / f"meter{number}")
            cable.plug()
            stack.callback(cable.pull)
            farm.cables[device] = cable
            meter = cable.meter
        elif meter == "synthetic":
            meter = f"synthetic:follow,seed={number}"
        if meter:
            lines.append(f"[device.{json.dumps(device)}]\nmeter = {json.dumps(meter)}")
    for host in farm.hosts:
        host.host.config.mkdir(parents=True, exist_ok=True)
        (host.host.config / "farm.toml").write_text("\n".join(lines) + "\n")


def _begin_labs(farm: Farm, stack: ExitStack) -> None:
    """Start the scheduler and the lab hosts."""
    machine = farm.network.add()
    address = ("--host", machine.address, "--port", str(SCHEDULER_PORT))
    process = Supervised(
        lambda: [
            *(*machine.prefix, sys.executable, "-m", "distributed.cli.dask_scheduler"),
            *(*address, "--no-dashboard"),
        ],
        {MARK: str(farm.folder)},
        farm.folder / "scheduler" / "stderr.txt",
    )
    farm.scheduler = SchedulerMachine(machine, process)
    devices = [word for device in farm.devices for word in ("--on", device)]
    words = ["lab", "work", farm.scheduler.address, *devices]
    for lab in farm.labs:
        own = ("--name", lab.name, "--host", lab.machine.address)
        lab.process = Supervised(
            partial(lab.words, *words, *own), farm.environment_of(lab), lab.errors
        )
    for one in (process, *(lab.process for lab in farm.labs if lab.process is not None)):
        one.start()
        stack.callback(one.stop, signal.SIGKILL)
    for lab in farm.labs:
        wait_until(partial(_is_taken, lab), f"{lab.name} is ready")


def _is_taken(lab: HostMachine) -> bool:
    return lab.errors.exists() and "ready: lab" in lab.errors.read_text(errors="replace")
