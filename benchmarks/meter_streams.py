"""Ten PPK2 at full rate, live, recorded and decoded on one core.

    python benchmarks/meter_streams.py [--streams 10] [--seconds 60]

Another process, on the other cores, writes the words of ten units to ten pseudo-terminals as time
passes. A unit waits for the host for a tenth of a second; what is not taken by then is lost, as it
is on a real one. This process is held to one core: a session for each unit moves bytes to a file,
as in any recording; then the files are decoded. Both together have to take less time than passed.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import tty
from contextlib import ExitStack, suppress
from pathlib import Path

from common import machine, report, table
from meter_decode import CALIBRATION, CHUNK_BYTES, words

from edgebench.meters.base import Capability, Channel, Header, LossReport, MeterInfo, blocks_of
from edgebench.meters.ppk2.decoder import Ppk2Decoder, Ppk2Settings
from edgebench.meters.ppk2.words import RATE_HZ
from edgebench.meters.spool import read_packets
from edgebench.meters.stream import StreamSession
from edgebench.meters.transport import SerialTransport
from edgebench.protocol.codec import to_plain

WORD_BYTES = 4
PATIENCE_BYTES = CHUNK_BYTES
"""What a unit and its USB driver hold for a host that does not read: a tenth of a second."""
TICK_S = 0.005
SETTINGS = Ppk2Settings(calibration=CALIBRATION, supply_v=3.3, is_source=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--streams", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    began = machine()
    cores = sorted(os.sched_getaffinity(0))
    ends = [os.openpty() for _ in range(options.streams)]
    for _, slave in ends:
        tty.setraw(slave)
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / str(number) for number in range(options.streams)]
        listening, ready = os.pipe()
        child = os.fork()
        if child == 0:
            os.sched_setaffinity(0, set(cores[1:]) or set(cores))
            os.read(listening, 1)
            feed([master for master, _ in ends], options.seconds)
            os._exit(0)
        os.sched_setaffinity(0, {cores[0]})
        record_s = record([os.ttyname(slave) for _, slave in ends], paths, (child, ready))
        began_s = time.process_time()
        found = [decode(path) for path in paths]
        decode_s = time.process_time() - began_s
    os.sched_setaffinity(0, set(cores))
    lines = summary(options, found, (record_s, decode_s))
    report(f"{options.streams} PPK2, live, on one core", [lines], began)


def feed(masters: list[int], seconds: float) -> None:
    """The units: words as time passes, and no more patience than a real one has."""
    data = words(2 * RATE_HZ)  # after which the counter is where it was
    period = len(data)
    waiting = [b"" for _ in masters]
    for master in masters:
        os.set_blocking(master, False)
    began_s, sent, total = time.monotonic(), 0, int(seconds * RATE_HZ) * WORD_BYTES
    while sent < total or any(waiting):
        due = min(int((time.monotonic() - began_s) * RATE_HZ) * WORD_BYTES, total)
        new = b"".join(data[at % period :][: due - at] for at in _starts(sent, due, period))
        sent = due
        waiting = [_write(master, old + new) for master, old in zip(masters, waiting, strict=True)]
        time.sleep(TICK_S)


def _starts(sent: int, due: int, period: int) -> list[int]:
    """Where pieces of a stream begin that repeats."""
    return [at for at in (sent, (sent // period + 1) * period) if at < due]


def _write(master: int, data: bytes) -> bytes:
    """What the host did not take, and still may."""
    with suppress(BlockingIOError):
        data = data[os.write(master, data) :] if data else b""
    late = max(0, len(data) - PATIENCE_BYTES)
    return data[-(-late // WORD_BYTES) * WORD_BYTES :]


def record(ports: list[str], paths: list[Path], units: tuple[int, int]) -> float:
    """Sessions until the units are done; the processor time that they took, seconds.

    Args:
        ports: Of the units.
        paths: Of the recordings.
        units: Their process, and a pipe that tells it that all are listened to.
    """
    began_s = time.process_time()
    with ExitStack() as stack:
        sessions = []
        for port, path in zip(ports, paths, strict=True):
            transport = SerialTransport(port, 115_200)
            stack.callback(transport.close)
            session = StreamSession(transport, header(), path, start=_nothing, stop=_nothing)
            sessions.append(stack.enter_context(session))
        os.write(units[1], b"!")
        os.waitpid(units[0], 0)
        time.sleep(0.5)  # for what is on the way
    assert all(session.trouble is None for session in sessions), [s.trouble for s in sessions]
    return time.process_time() - began_s


def _nothing() -> None:
    """The units stream all the time."""


def header() -> Header:
    """Of any of them."""
    capability = Capability(
        driver="ppk2",
        channels=(Channel("current", "supply of the device, as wired"),),
        rate_hz=RATE_HZ,
        is_averaging=False,
        clock_domain="meter:ppk2:unknown",
    )
    info = MeterInfo(vendor="Nordic Semiconductor", model="Power Profiler Kit II")
    return Header(driver="ppk2", info=info, capability=capability, facts=to_plain(SETTINGS))


def decode(path: Path) -> LossReport:
    """All of a recording."""
    decoder = Ppk2Decoder(SETTINGS)
    for _ in blocks_of(decoder, read_packets(path)):
        pass
    return decoder.loss()


def summary(
    options: argparse.Namespace, found: list[LossReport], times_s: tuple[float, float]
) -> str:
    """What came, and what it took."""
    expected = options.streams * int(options.seconds * RATE_HZ)
    received = sum(one.received_count for one in found)
    rates = [one.rate_error_ppm for one in found if one.rate_error_ppm is not None]
    rows = [
        ["samples sent", f"{expected:,}"],
        ["received", f"{received:,}"],
        ["lost, as the counters say", str(sum(one.lost_count for one in found))],
        ["framing lost", str(sum(one.desync_count for one in found))],
        ["rate against the host's clock (ppm)", f"{min(rates):+.0f} to {max(rates):+.0f}"],
        ["recording, of one core", f"{times_s[0] / options.seconds:.1%}"],
        ["decoding, of one core", f"{times_s[1] / options.seconds:.1%}"],
    ]
    return table([f"{options.seconds:g} s", "value"], rows)


if __name__ == "__main__":
    main()
