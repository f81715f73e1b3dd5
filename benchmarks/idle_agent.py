"""Start-up time, memory and CPU time of an idle agent.

    python benchmarks/idle_agent.py [--rounds 15] [--duration 120] [--short]

The agent listens on TLS and announces itself by mDNS. Each round starts the agent twice in the same
new directories. At the first start, the agent has no identity, and creates one; the second start
uses this identity. Start-up time is the time from the start of the process to its `ready` line.

After these rounds, an agent runs without a connection. After ten seconds, its memory is read from
/proc/PID/status and /proc/PID/smaps_rollup. The CPU time of all its threads is read from the
kernel's CPU clock of the process, at the beginning and at the end of --duration. Finally, a model
of 50 MB is pushed, and the memory of the agent is read again.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import tempfile
import time
from pathlib import Path

from common import NAME, LoopbackAgent, Spread, claim, claims_table, machine, parse, report, spread

SETTLE_S = 10.0
PUSHED_BYTES = 50_000_000
MEMORY_MB, CPU_PERCENT, READY_S = 40.0, 0.2, 0.5


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--duration", type=float, default=120.0, metavar="SECONDS")
    options = parse(parser, smoke={"rounds": 1, "duration": 1}, rounds=3, duration=20)
    began = machine()
    with tempfile.TemporaryDirectory(prefix="edgebench-") as name:
        folder = Path(name)
        first, warm = starts(folder, options.rounds)
        rows = [
            bounded("ready, identity exists (s)", warm.text(), warm.median, READY_S),
            claim("ready, first start (s)", first.text()),
            *idle_rows(folder / "0", options.duration),
        ]
    report("An idle agent", [claims_table(rows)], began)


def starts(folder: Path, rounds: int) -> tuple[Spread, Spread]:
    """Seconds to the `ready` line, for starts without an identity and for starts with one."""
    first: list[float] = []
    warm: list[float] = []
    for number in range(rounds):
        for values in (first, warm):
            with LoopbackAgent(folder / str(number)) as agent:
                values.append(agent.ready_s)
    return spread(first), spread(warm)


def idle_rows(folder: Path, duration_s: float) -> list[list[str]]:
    """Memory and CPU time of an agent without a connection, and its memory after a push."""
    with LoopbackAgent(folder) as agent:
        time.sleep(SETTLE_S)
        resident, proportional = memory_mb(agent.pid)
        begin, begin_cpu_s = time.perf_counter(), cpu_s(agent.pid)
        time.sleep(duration_s)
        used_s = cpu_s(agent.pid) - begin_cpu_s
        percent = 100 * used_s / (time.perf_counter() - begin)
        rows = [
            bounded("resident memory (MB)", f"{resident:.1f}", resident, MEMORY_MB),
            claim("proportional memory, PSS (MB)", f"{proportional:.1f}"),
            bounded(f"CPU over {duration_s:.0f} s (%)", f"{percent:.3f}", percent, CPU_PERCENT),
        ]
        push(agent, folder)
        time.sleep(SETTLE_S)
        resident, proportional = memory_mb(agent.pid)
        return [*rows, claim("resident memory after a push of 50 MB (MB)", f"{resident:.1f}")]


def push(agent: LoopbackAgent, folder: Path) -> None:
    """Push a random model to the agent."""
    data = os.urandom(PUSHED_BYTES)
    path = folder / "model.bin"
    path.write_bytes(data)
    with agent.lab(folder / "host").connect(NAME) as client:
        client.acquire()
        client.push_model(path, hashlib.sha256(data).hexdigest())
        client.release()


def bounded(text: str, figure: str, value: float, limit: float) -> list[str]:
    """A claim that a value is at most its limit."""
    return claim(text, figure, f"≤ {limit:g}", value <= limit)


def memory_mb(pid: int) -> tuple[float, float]:
    """Resident and proportional set size, in units of 10^6 bytes."""
    resident = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
    proportional = re.search(r"^Pss:\s+(\d+) kB", rollup, re.MULTILINE)
    assert resident is not None
    assert proportional is not None
    return int(resident[1]) * 1024 / 1e6, int(proportional[1]) * 1024 / 1e6


def cpu_s(pid: int) -> float:
    """CPU time of all threads of a process, including threads that have ended.

    The number of the clock is computed from the process id, as clock_getcpuclockid(3) does.
    Source: linux/include/linux/posix-timers_types.h, `CPUCLOCK_SCHED`.
    """
    return time.clock_gettime((~pid << 3) | 2)


if __name__ == "__main__":
    main()
