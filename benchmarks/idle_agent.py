"""What an agent costs a device while nobody asks anything of it.

    python benchmarks/idle_agent.py [--rounds 15] [--duration 120]

An agent with its TLS door and its mDNS announcement is started with directories of its own. Each
round starts it once without an identity, which it then makes, and once again with it; the time is
from the start of the process to its `ready` line. The last one is left alone: after ten seconds
its memory is read from /proc/PID/status and /proc/PID/smaps_rollup, and its CPU time, of all
threads, by the kernel's clock of that process, at the beginning and the end of the wait. In the
end a model of 50 MB is pushed to it, and its memory is read once more.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import tempfile
import time
from pathlib import Path

from common import NAME, Agent, Spread, machine, report, spread, table

SETTLE_S = 10.0
PUSHED_BYTES = 50_000_000
MEMORY_MB, CPU_PERCENT, READY_S = 40.0, 0.2, 0.5


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--duration", type=float, default=120.0, metavar="SECONDS")
    options = parser.parse_args()
    began = machine()
    with tempfile.TemporaryDirectory(prefix="edgebench-") as name:
        folder = Path(name)
        first, warm = starts(folder, options.rounds)
        rows = [
            row("ready, identity exists (s)", warm, READY_S, warm.text()),
            ["ready, first start (s)", first.text(), "", ""],
            *idle_rows(folder / "0", options.duration),
        ]
    notes = f"\n{options.rounds} starts each; median (quartiles; extremes)."
    report("An idle agent", [table(["", "value", "bar", ""], rows), notes], began)


def starts(folder: Path, rounds: int) -> tuple[Spread, Spread]:
    """Seconds to the ready line: without an identity, and with one."""
    first: list[float] = []
    warm: list[float] = []
    for number in range(rounds):
        for values in (first, warm):
            with Agent(folder / str(number)) as agent:
                values.append(agent.ready_s)
    return spread(first), spread(warm)


def idle_rows(folder: Path, duration_s: float) -> list[list[str]]:
    """Memory and CPU of an agent that is left alone, and its memory after a push."""
    with Agent(folder) as agent:
        time.sleep(SETTLE_S)
        resident, proportional = memory_mb(agent.pid)
        begin, begin_cpu_s = time.perf_counter(), cpu_s(agent.pid)
        time.sleep(duration_s)
        used_s = cpu_s(agent.pid) - begin_cpu_s
        percent = 100 * used_s / (time.perf_counter() - begin)
        rows = [
            row("resident memory (MB)", resident, MEMORY_MB, f"{resident:.1f}"),
            ["proportional memory, PSS (MB)", f"{proportional:.1f}", "", ""],
            row(f"CPU over {duration_s:.0f} s (%)", percent, CPU_PERCENT, f"{percent:.3f}"),
        ]
        push(agent, folder)
        time.sleep(SETTLE_S)
        resident, proportional = memory_mb(agent.pid)
        return [*rows, ["resident after a push of 50 MB (MB)", f"{resident:.1f}", "", ""]]


def push(agent: Agent, folder: Path) -> None:
    """Bring a random model to the agent."""
    data = os.urandom(PUSHED_BYTES)
    path = folder / "model.bin"
    path.write_bytes(data)
    with agent.lab(folder / "host").connect(NAME) as client:
        client.acquire()
        client.push_model(path, hashlib.sha256(data).hexdigest())
        client.release()


def row(name: str, value: float | Spread, bar: float, text: str) -> list[str]:
    """A line of the table with its bar."""
    number = value.median if isinstance(value, Spread) else value
    return [name, text, f"≤ {bar:g}", "met" if number <= bar else "missed"]


def memory_mb(pid: int) -> tuple[float, float]:
    """Resident and proportional set size, in units of 10^6 bytes."""
    resident = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    proportional = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
    assert resident is not None
    assert proportional is not None
    return int(resident[1]) * 1024 / 1e6, int(proportional[1]) * 1024 / 1e6


def cpu_s(pid: int) -> float:
    """CPU time of all threads of a process, those that have ended too.

    The clock's number is made from the process id as clock_getcpuclockid(3) makes it.
    Source: linux/include/linux/posix-timers_types.h, `CPUCLOCK_SCHED`.
    """
    return time.clock_gettime((~pid << 3) | 2)


if __name__ == "__main__":
    main()
