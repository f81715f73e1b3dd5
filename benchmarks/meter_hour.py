"""Memory to record a PPK2 for an hour, and time to compute the energy of a window in the recording.

    python benchmarks/meter_hour.py [--hours 1] [--windows 50] [--folder DIR] [--short]

An emulated port delivers an hour of words as fast as they are read. Session, spool, decoder and
Parquet writer are those of `edgebench meters record`; they run in a separate process, whose peak
memory is reported. After the recording, the energy of random windows of every length is computed;
the file is opened again for each window. The folder needs 5 GB per hour.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from common import claim, claims_table, machine, parse, report, spread
from meter_decode import CALIBRATION, words

from edgebench.host.store.power_file import PowerFile
from edgebench.host.store.recording import write_power
from edgebench.meters.base import Capability, Channel, Header, MeterInfo
from edgebench.meters.ppk2.decoder import Ppk2Settings
from edgebench.meters.ppk2.words import RATE_HZ
from edgebench.meters.stream import StreamSession
from edgebench.protocol.plain import to_plain
from edgebench.protocol.traces import METER_FILE

CHUNK_BYTES = 40_000
CYCLE_S = 16
"""Period of the emulated stream, after which the counter in the words is at its first value again.
"""
CHANNEL = "current"
MEMORY_BAR_MB, WINDOW_BAR_S = 300, 2.0


class Port:
    """Emulated port that delivers the words of `seconds` seconds."""

    def __init__(self, seconds: int) -> None:
        self._data = words(CYCLE_S * RATE_HZ)
        self._left = seconds * RATE_HZ * 4
        self._at = 0

    @property
    def is_empty(self) -> bool:
        """Whether all words of the emulated port were read."""
        return not self._left

    def read(self, timeout_s: float) -> bytes:
        """The next bytes, or none after the timeout."""
        if not self._left:
            time.sleep(timeout_s)
            return b""
        size = min(CHUNK_BYTES, self._left, len(self._data) - self._at)
        part = self._data[self._at : self._at + size]
        self._at = (self._at + size) % len(self._data)
        self._left -= size
        return part

    def write(self, data: bytes) -> None:
        """Ignore a command."""

    def close(self) -> None:
        """Do nothing, because the emulated port has nothing to release."""


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--hours", type=float, default=1.0)
    parser.add_argument("--windows", type=int, default=50)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--make", action="store_true", help=argparse.SUPPRESS)
    options = parse(parser, smoke={"hours": 0.005, "windows": 2}, hours=0.1, windows=20)
    if options.make:
        make(options.folder, round(options.hours * 3600))
        return
    began = machine()
    with tempfile.TemporaryDirectory(prefix="edgebench-hour-", dir=options.folder) as name:
        command = [sys.executable, __file__, "--make", "--folder", name]
        made = subprocess.run(
            [*command, "--hours", str(options.hours)], check=True, capture_output=True, text=True
        )
        recorded_s, decoded_s, peak_mb = map(float, made.stdout.split())
        lines = rows(Path(name), options, recorded_s, decoded_s, peak_mb)
    report(f"{options.hours:g} h of a PPK2", lines, began)


def make(folder: Path, seconds: int) -> None:
    """Record and decode; prints both times and the peak memory."""
    begin_s = time.perf_counter()
    port, path = Port(seconds), folder / METER_FILE
    with StreamSession(port, header(), path, start=lambda: None, stop=lambda: None) as session:
        while not port.is_empty and session.trouble is None:
            time.sleep(0.05)
    recorded_s = time.perf_counter() - begin_s
    write_power(folder, session.recording())
    decoded_s = time.perf_counter() - begin_s - recorded_s
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(recorded_s, decoded_s, peak_mb)


def header() -> Header:
    """Header for the recording of a unit in source mode."""
    settings = Ppk2Settings(calibration=CALIBRATION, supply_v=3.3, is_source=True)
    return Header(
        driver="ppk2",
        info=MeterInfo(vendor="nobody", model="made up"),
        capability=Capability(
            driver="ppk2",
            channels=(Channel(CHANNEL, "made up"),),
            rate_hz=RATE_HZ,
            is_averaging=False,
            is_uniform=True,
            clock_domain="meter:made-up",
        ),
        facts=to_plain(settings),
    )


def rows(
    folder: Path,
    options: argparse.Namespace,
    recorded_s: float,
    decoded_s: float,
    peak_mb: float,
) -> list[str]:
    """The claims, and the amount of data from which they are computed."""
    file = PowerFile.open(folder)
    groups = file.facts.of(CHANNEL)
    begin_ns, end_ns = groups[0].first_ns, groups[-1].last_ns
    draw = np.random.default_rng(1)
    lengths_s = np.exp(
        draw.uniform(np.log(1e-3), np.log((end_ns - begin_ns) / 1e9), options.windows)
    )
    needed = []
    for length_s in lengths_s:
        first_ns = int(draw.uniform(begin_ns, end_ns - length_s * 1e9))
        at_s = time.perf_counter()
        PowerFile.open(folder).energy_j(CHANNEL, first_ns, first_ns + int(length_s * 1e9))
        needed.append(time.perf_counter() - at_s)
    found = spread(needed)
    raw_mb, parquet_mb = ((folder / n).stat().st_size / 1e6 for n in (METER_FILE, "power.parquet"))
    claims = [
        claim("peak memory, MB", f"{peak_mb:.0f}", f"≤ {MEMORY_BAR_MB}", peak_mb <= MEMORY_BAR_MB),
        claim(
            "energy of a window, s (the bar is for the maximum)",
            found.text(3),
            f"≤ {WINDOW_BAR_S:g}",
            found.extremes[1] <= WINDOW_BAR_S,
        ),
    ]
    return [
        claims_table(claims),
        f"\n{file.facts.loss.received_count:,} samples, {file.facts.loss.lost_count} lost; "
        f"recorded in {recorded_s:.0f} s, decoded and written in {decoded_s:.0f} s; "
        f"{raw_mb:.0f} MB raw, {parquet_mb:.0f} MB Parquet; "
        f"{options.windows} windows from 1 ms to the whole recording.",
    ]


if __name__ == "__main__":
    main()
