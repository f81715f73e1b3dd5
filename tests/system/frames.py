"""A million frames, valid and hostile, to a real agent: run by hand.

    python tests/system/frames.py [FRAMES]

Paired and unpaired peers connect to one agent over TLS, one conversation after another. Prints
rate, resident memory and open descriptors at each tenth; the first tenth is the warm-up. Ends with
1 if the memory then moves by more than 5 MB, or the descriptors are not level. A million frames
take about ten minutes.

tests/loopback/test_hostile_peers.py has the short form.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.agents import AgentProcess, Host
from support.frames import FrameCounts, exchange_frames
from support.wire import tls_context

from edgebench.protocol.identity import new_identity

MEMORY_LIMIT_BYTES = 5_000_000
SETTLE_S = 5.0
"""Time within which the agent has closed the connections of its peers."""


def descriptor_count(agent: AgentProcess) -> int:
    """Open files and sockets of the daemon."""
    return len(os.listdir(f"/proc/{agent.pid}/fd"))


def settled(count: Callable[[], int], expected: int) -> int:
    """The count, as soon as it is the expected one, or after a while."""
    deadline_s = time.monotonic() + SETTLE_S
    while (found := count()) != expected and time.monotonic() < deadline_s:
        time.sleep(0.05)
    return found


def is_flat(agent: AgentProcess, folder: Path, frame_count: int) -> bool:
    """Send the frames and print a line each tenth; whether memory and descriptors stay level."""
    host = Host(folder / "ada")
    host.lab.pair(agent.pairing_string())
    other = new_identity("stranger")
    (folder / "stranger.pem").write_text(other.key_pem + other.certificate_pem)
    conversations = exchange_frames(
        agent.port,
        paired=tls_context(host.folder / "config" / "edgebench" / "host" / "identity.pem"),
        stranger=tls_context(folder / "stranger.pem"),
        seed=13,
    )
    next(conversations)
    open_count = settled(lambda: descriptor_count(agent), 0)
    memory, descriptors, began_s, before = [], [], time.monotonic(), 0
    for tenth in range(1, 11):
        counts = FrameCounts()
        while counts.total < frame_count * tenth / 10:
            counts = next(conversations)
        now_s = time.monotonic()
        memory.append(agent.resident_bytes())
        descriptors.append(settled(lambda: descriptor_count(agent), open_count))
        print(
            f"{counts.total:>9} frames  {(counts.total - before) / (now_s - began_s):6.0f}/s  "
            f"{memory[-1] / 1e6:6.2f} MB  {descriptors[-1]} descriptors",
            flush=True,
        )
        began_s, before = time.monotonic(), counts.total
    print(counts)
    moved = max(abs(size - memory[0]) for size in memory)
    print(f"memory moved by {moved / 1e6:.2f} MB after the first tenth, limit 5 MB")
    return moved <= MEMORY_LIMIT_BYTES and set(descriptors) == {descriptors[0]}


def main() -> int:
    """Start an agent, and run the conversations; the exit code."""
    frame_count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        agent = AgentProcess(Path(name) / "agent", options=["--name", "board"]).start()
        try:
            return 0 if is_flat(agent, Path(name), frame_count) else 1
        finally:
            agent.kill()


if __name__ == "__main__":
    sys.exit(main())
