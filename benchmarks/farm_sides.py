"""Processes that `farm_scale.py` starts: agents, a host that watches, and announcers.

    farm_sides.py agents CERTIFICATE COUNT           COUNT agents that send samples to a watcher
    farm_sides.py replayers CERTIFICATE COUNT RUN    COUNT agents whose runs take no time
    farm_sides.py watcher CONFIG SECONDS             a host that watches devices
    farm_sides.py announcer FIRST COUNT              COUNT announcements by mDNS

Agents print their addresses. The watcher reads the addresses of devices from standard input, and
prints its figures. A replayer's run consists of the files in the directory RUN, with the id and the
specification that the host has requested. Agents and announcers run until their standard input
ends.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import random
import re
import resource
import ssl
import sys
import tempfile
import time
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from zeroconf import IPVersion, ServiceInfo
from zeroconf.asyncio import AsyncZeroconf

from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.transports.mdns import SERVICE_TYPE
from edgebench.host.watch import Absence, Batch, Update, watch
from edgebench.protocol import messages as m
from edgebench.protocol.codec import MAX_PAYLOAD_BYTES, decode, encode
from edgebench.protocol.device import DeviceDescription, SystemDescription
from edgebench.protocol.identity import new_identity
from edgebench.protocol.live import WATCH_HZ, pack_samples
from edgebench.protocol.plain import from_plain, to_plain
from edgebench.protocol.record import Outcome, Phase
from edgebench.protocol.traces import RECORD_FILE, SPOOL_FILES

SEAT = "machine"
SETTLE_S = 5.0
"""Time for which a host watches before it is measured."""
BATCH_S = 1.0
PHASES = (Phase.STARTING, Phase.LOADING, Phase.WARMING_UP, Phase.MEASURING, Phase.SPOOLING)
"""Phases that a run of a replayer reports."""
Behave = Callable[[ServerConnection], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class WatchFigures:
    """Cost of watching devices, and the delays of their samples."""

    device_count: int
    batch_count: int
    absence_count: int
    connect_s: float
    """Time until every device had reported its state."""
    cpu_ratio: float
    """CPU time of all threads of the process, divided by the elapsed time."""
    bytes_per_device: float
    """Growth of the process's proportional set size, compared with the size before the first
    connection."""
    delay_s_p50: float
    delay_s_p99: float
    """Time from a sample to its delivery, by the clock of this machine; percentiles of all samples.
    """


def main(words: Sequence[str]) -> None:
    """Run the kind of process that the first argument names."""
    allow_many_files()
    if words[0] == "agents":
        asyncio.run(serve_agents(Path(words[1]), int(words[2]), tell))
    elif words[0] == "replayers":
        replay = partial(replay_runs, Path(words[3]))
        asyncio.run(serve_agents(Path(words[1]), int(words[2]), replay))
    elif words[0] == "watcher":
        devices = [KnownDevice(*line) for line in json.loads(sys.stdin.readline())]
        figures = asyncio.run(watch_devices(devices, HostFiles(Path(words[1])), float(words[2])))
        print(json.dumps(asdict(figures)))
    else:
        asyncio.run(announce(int(words[1]), int(words[2])))


def allow_many_files() -> None:
    """Raise the limit on open files to the hard limit."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


async def stdin_ended() -> None:
    """Wait until the process that started this process has ended, or has closed the pipe."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_reader(sys.stdin, ended.set)
    await ended.wait()


# Agents.


async def serve_agents(certificate: Path, count: int, behave: Behave) -> None:
    """Serve `count` agents with separate identities; all trust the host with this certificate."""
    places = []
    with tempfile.TemporaryDirectory(prefix="edgebench-") as folder:
        for number in range(count):
            name = f"agent-{os.getpid()}-{number}"
            identity = new_identity(name)
            path = Path(folder) / "identity.pem"
            path.write_text(identity.key_pem + identity.certificate_pem)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.minimum_version = ssl.TLSVersion.TLSv1_3
            context.verify_mode = ssl.CERT_REQUIRED
            context.num_tickets = 0
            context.load_cert_chain(path)
            context.load_verify_locations(certificate)
            server = await serve(
                behave, "127.0.0.1", 0, ssl=context, compression=None, ping_interval=20.0
            )
            port = next(iter(server.sockets)).getsockname()[1]
            places.append((name, name, identity.fingerprint, ["127.0.0.1"], port))
    print(json.dumps(places), flush=True)
    await stdin_ended()
    os._exit(0)  # without closing each of a thousand connections


async def tell(connection: ServerConnection) -> None:
    """Send a watcher the last ten samples once a second, as an agent does during a run."""
    device = DeviceDescription(
        "0011223344556677", "board", "generic-arm64", "aarch64", "bcm2712", "Linux"
    )
    state = m.SeatState(SEAT, device, "host", 1.0, "20261123T000000Z-00000000", 50.0)
    with suppress(ConnectionClosed):
        for answer in (m.Welcome(m.PROTOCOL_VERSION, "agent", device), m.Seats((state,))):
            number = decode(await connection.recv(decode=False)).number
            await connection.send(encode(number, answer))
        count = round(WATCH_HZ * BATCH_S)
        next_s = time.monotonic() + random.uniform(0, BATCH_S)
        while True:
            next_s += BATCH_S
            await asyncio.sleep(next_s - time.monotonic())
            now_ns = time.perf_counter_ns()
            gap_ns = round(1e9 / WATCH_HZ)
            rows = [(now_ns - back * gap_ns, 50.0, 1.5e9) for back in reversed(range(count))]
            notice = m.SeatReadings(SEAT, count, state.running, 1.25)
            await connection.send(encode(number, notice, pack_samples(rows)))


async def replay_runs(run: Path, connection: ServerConnection) -> None:
    """Serve a host that measures; each run ends as soon as it is requested.

    Args:
        run: Directory with the files that each run has, and with `system.json`, the description of
            the device.
        connection: Connection to the host.
    """
    system = from_plain(json.loads((run / "system.json").read_bytes()), SystemDescription)
    record = json.loads((run / RECORD_FILE).read_bytes())
    files = {path.name: path.read_bytes() for path in run.iterdir() if path.name in SPOOL_FILES}

    async def send(number: int, message: m.Message, payload: bytes = b"") -> None:
        await connection.send(encode(number, message, payload))

    with suppress(ConnectionClosed):
        async for data in connection:
            assert isinstance(data, bytes)
            frame = decode(data)
            number, ask = frame.number, frame.message
            if isinstance(ask, m.Hello):
                await send(number, m.Welcome(m.PROTOCOL_VERSION, "agent", system.device, SEAT))
            elif isinstance(ask, m.SeatList):
                await send(number, m.Seats((m.SeatState(SEAT, system.device),)))
            elif isinstance(ask, m.Describe):
                await send(number, m.Described(system))
            elif isinstance(ask, m.Acquire):
                await send(number, m.Granted(ask.ttl_s))
            elif isinstance(ask, m.Probe):
                now_ns = time.perf_counter_ns()
                await send(number, m.ProbeReply(now_ns, time.perf_counter_ns()))
            elif isinstance(ask, m.ModelOffer):
                await send(number, m.ModelState(ask.sha256, ask.size_bytes, is_complete=True))
            elif isinstance(ask, m.RunStart):
                record |= {"run_id": ask.run_id, "spec": to_plain(ask.spec)}
                files[RECORD_FILE] = json.dumps(record).encode()
                await send(number, m.RunAccepted(ask.run_id))
                for phase in PHASES:
                    await send(number, m.Progress(ask.run_id, phase))
                await send(number, m.RunEnded(ask.run_id, Outcome.COMPLETED))
            elif isinstance(ask, m.RunList):
                await send(number, m.RunListing(()))
            elif isinstance(ask, m.RunOpen):
                spooled = tuple(
                    m.SpooledFile(name, len(content), hashlib.sha256(content).hexdigest())
                    for name, content in files.items()
                )
                await send(number, m.RunFiles(ask.run_id, spooled))
            elif isinstance(ask, m.FileRead):
                content = files[ask.name][ask.offset_bytes :][:MAX_PAYLOAD_BYTES]
                await send(number, m.FileData(ask.offset_bytes), content)
            else:
                await send(number, m.Done())


# The host.


async def watch_devices(
    devices: Sequence[KnownDevice], files: HostFiles, duration_s: float
) -> WatchFigures:
    """Watch until all devices are connected and for `SETTLE_S` more, then measure the cost.

    Args:
        devices: Devices to watch.
        files: Files of the host.
        duration_s: Duration for which the cost is measured.
    """
    files.identity_path()
    before_bytes, began_s = proportional_bytes(), time.monotonic()
    updates = watch(devices, files)
    waiting, absence_count = {device.name for device in devices}, 0
    async for update in updates:
        absence_count += isinstance(update, Absence)
        waiting.discard(update.device)
        if not waiting:
            break
    connect_s = time.monotonic() - began_s
    await take(updates, SETTLE_S)
    grown_bytes = proportional_bytes() - before_bytes
    cpu_s, begin_s = time.process_time(), time.monotonic()
    batches = await take(updates, duration_s)
    ratio = (time.process_time() - cpu_s) / (time.monotonic() - begin_s)
    delays = sorted(
        array("d", ((at_ns - time_ns) / 1e9 for at_ns, times in batches for time_ns in times))
    )
    return WatchFigures(
        device_count=len(devices),
        batch_count=len(batches),
        absence_count=absence_count,
        connect_s=connect_s,
        cpu_ratio=ratio,
        bytes_per_device=grown_bytes / len(devices),
        delay_s_p50=delays[len(delays) // 2],
        delay_s_p99=delays[len(delays) * 99 // 100],
    )


async def take(
    updates: AsyncIterator[Update], duration_s: float
) -> list[tuple[int, tuple[int, ...]]]:
    """For each batch that arrives in `duration_s`, its delivery time and its samples' times, ns."""
    taken = []
    end_s = time.monotonic() + duration_s
    async for update in updates:
        if isinstance(update, Batch):
            taken.append((time.perf_counter_ns(), update.samples.time_ns))
        if time.monotonic() >= end_s:
            break
    return taken


def proportional_bytes() -> int:
    """Proportional set size of this process. Source: proc(5), /proc/PID/smaps_rollup."""
    found = re.search(r"^Pss:\s+(\d+) kB", Path("/proc/self/smaps_rollup").read_text(), re.M)
    assert found is not None
    return int(found[1]) * 1024


# Announcements.


async def announce(first: int, count: int) -> None:
    """Announce agents as `edgebench-agent` does, on loopback only."""
    zeroconf = AsyncZeroconf(interfaces=["127.0.0.1"], ip_version=IPVersion.V4Only)
    for number in range(first, first + count):
        name = f"edgebench-{number:012d}"
        properties = {"id": f"{number:016x}", "name": f"board-{number}", "arch": "aarch64"}
        info = ServiceInfo(
            SERVICE_TYPE,
            f"{name}.{SERVICE_TYPE}",
            port=7747,
            properties=properties | {"pin": f"{number:043d}", "software": "edgebench-agent"},
            server=f"{name}.local.",
            parsed_addresses=[f"10.0.{number // 250}.{number % 250 + 1}"],
        )
        await zeroconf.async_register_service(info, cooperating_responders=True)
    print("ready", flush=True)
    await stdin_ended()
    await zeroconf.async_close()


if __name__ == "__main__":
    main(sys.argv[1:])
