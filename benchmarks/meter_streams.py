"""Ten PPK2 at full rate, recorded live and decoded on one core.

    python benchmarks/meter_streams.py [--streams 10] [--seconds 60] [--short]

Another process, on the other cores, writes the words of ten units to ten pseudo-terminals in real
time. Like a real unit, the process has a buffer for a tenth of a second of words; if the host does
not read them within this time, words are lost. This process is bound to a single core. A session
per unit records the bytes to a file, and then the files are decoded. Recording and decoding
together have to take less CPU time than the duration of the recording.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import tty
from contextlib import ExitStack, suppress
from pathlib import Path

from common import claim, claims_table, machine, parse, report
from meter_decode import CALIBRATION, CHUNK_BYTES, words

from edgebench.meters.base import Capability, Channel, Header, LossReport, MeterInfo, blocks_of
from edgebench.meters.ppk2.decoder import Ppk2Decoder, Ppk2Settings
from edgebench.meters.ppk2.words import RATE_HZ
from edgebench.meters.spool import read_packets
from edgebench.meters.stream import StreamSession
from edgebench.meters.transport import SerialTransport
from edgebench.protocol.plain import to_plain

WORD_BYTES = 4
PATIENCE_BYTES = CHUNK_BYTES
"""Buffer of a unit and its USB driver: a tenth of a second."""
TICK_S = 0.005
SETTINGS = Ppk2Settings(calibration=CALIBRATION, supply_v=3.3, is_source=True)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--streams", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parse(parser, smoke={"streams": 2, "seconds": 3}, seconds=10)
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
    report(f"{options.streams} PPK2 live on one core, {options.seconds:g} s", [lines], began)


def feed(masters: list[int], seconds: float) -> None:
    """Emulate the units: write their words in real time, with the buffer of a real unit."""
    data = words(2 * RATE_HZ)  # a whole number of periods of the counter in the words
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
    """Positions at which the pieces of a repeating stream begin."""
    return [at for at in (sent, (sent // period + 1) * period) if at < due]


def _write(master: int, data: bytes) -> bytes:
    """Write data; returns those bytes that are not written yet and fit into the buffer."""
    with suppress(BlockingIOError):
        data = data[os.write(master, data) :] if data else b""
    late = max(0, len(data) - PATIENCE_BYTES)
    return data[-(-late // WORD_BYTES) * WORD_BYTES :]


def record(ports: list[str], paths: list[Path], units: tuple[int, int]) -> float:
    """Record until the units have ended; returns the CPU time, seconds.

    Args:
        ports: Ports of the units.
        paths: Files of the recordings.
        units: Process of the units, and the pipe that starts it once all ports are open.
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
        time.sleep(0.5)  # for bytes in flight
    assert all(session.trouble is None for session in sessions), [s.trouble for s in sessions]
    return time.process_time() - began_s


def _nothing() -> None:
    """Send nothing, because the units stream all the time."""


def header() -> Header:
    """Header of each recording."""
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
    """Decode a recording, and return the report of its lost samples."""
    decoder = Ppk2Decoder(SETTINGS)
    for _ in blocks_of(decoder, read_packets(path)):
        pass
    return decoder.loss()


def summary(
    options: argparse.Namespace, found: list[LossReport], times_s: tuple[float, float]
) -> str:
    """Table of claims: no sample is lost, and a single core is enough."""
    expected = options.streams * int(options.seconds * RATE_HZ)
    received = sum(one.received_count for one in found)
    lost = sum(one.lost_count for one in found)
    desync = sum(one.desync_count for one in found)
    rates = [one.rate_error_ppm for one in found if one.rate_error_ppm is not None]
    rate = f"{min(rates):+.0f} to {max(rates):+.0f}" if rates else "not determined"
    record, decode = (time_s / options.seconds for time_s in times_s)
    return claims_table(
        [
            claim("samples received", f"{received:,}", f"{expected:,}", received == expected),
            claim(
                "recording + decoding, share of one core",
                f"{record:.1%} + {decode:.1%}",
                "< 100 %",
                record + decode < 1,
            ),
            claim("lost by the counters; framing lost", f"{lost}; {desync}"),
            claim("rate against the host's clock, ppm", rate),
        ]
    )


if __name__ == "__main__":
    main()
