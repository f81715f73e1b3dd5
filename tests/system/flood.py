"""Strangers open connections to an agent with hardly any CPU, and its host connects: run by hand.

    python tests/system/flood.py [--tries 100] [--addresses 32] [--per-address 200] [--share 0.05]

As root, as the agent is held to a share of one CPU by a control group. Half of the connections send
one byte, half a whole ClientHello; none sends more. Prints how long each connection of the host
took: connect, handshake, the agent's description of itself. A connection that fails, or takes more
than ten seconds, is printed with its error, and the script ends with 1.

tests/loopback/test_floods.py is the short form.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.agents import AgentProcess, Host
from support.flood import client_hello, flood, held_to

from edgebench.protocol.errors import EdgebenchError

LIMIT_S = 10.0
PAUSE_S = 0.1


def main() -> int:
    """Flood and connect; 1 if the host was ever kept out."""
    parser = argparse.ArgumentParser(description="A host connects to an agent that is flooded.")
    parser.add_argument("--tries", type=int, default=100, metavar="N")
    parser.add_argument("--addresses", type=int, default=32, metavar="N")
    parser.add_argument("--per-address", type=float, default=200.0, metavar="PER_SECOND")
    parser.add_argument("--share", type=float, default=0.05, help="CPU of the agent")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="edgebench-flood-") as name, ExitStack() as stack:
        folder = Path(name)
        agent = AgentProcess(folder / "agent", options=["--name", "board"]).start()
        stack.callback(agent.kill)
        host = Host(folder / "host")
        host.lab.pair(agent.pairing_string())
        stack.enter_context(held_to(options.share, agent.pid))
        for content in (b"\x16", client_hello()):
            per_s = options.addresses * options.per_address / 2
            stack.enter_context(
                flood(agent.port, folder, addresses=options.addresses, per_s=per_s, content=content)
            )
        began_s, used_s = time.monotonic(), agent.cpu_s()
        took_s = [_connect(host) for _ in range(options.tries)]
        share = (agent.cpu_s() - used_s) / (time.monotonic() - began_s)
        rss_mb = agent.resident_bytes() / 1e6
    well = sorted(one for one in took_s if one is not None and one <= LIMIT_S)
    print(f"connected within {LIMIT_S:g} s: {len(well)} of {options.tries}")
    if well:
        print(f"median {well[len(well) // 2]:.2f} s, slowest {well[-1]:.2f} s")
    print(f"agent: {share:.1%} of a CPU, {rss_mb:.0f} MB resident")
    return 0 if len(well) == options.tries else 1


def _connect(host: Host) -> float | None:
    """Time that one connection took; None where it failed."""
    time.sleep(PAUSE_S)
    began_s = time.monotonic()
    try:
        with host.lab.connect("board") as client:
            client.probe_clock(1)
    except EdgebenchError as exc:
        print(f"after {time.monotonic() - began_s:.1f} s: {type(exc).__name__}: {exc}")
        return None
    return time.monotonic() - began_s


if __name__ == "__main__":
    sys.exit(main())
