"""A host and a device on two machines: found, paired, measured on; a stranger gets nothing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.agents import AgentProcess, Host, wait_until
from support.commands import IMPATIENT, started
from support.netns import Namespace, two_machines
from support.tools import need_root, need_runtime, need_tool

from edgebench.protocol.identity import parse_pairing_string

MODEL = "digits_int8.tflite"
QUICK = (
    *("--quick", "--runs=1", "--duration", "0.2s", "--min-queries", "50"),
    *("--warmup", "5", "--warmup-duration", "0.05s"),
)

AS_IT_IS = (sys.executable, "-m", "edgebench.host.cli")


@dataclass(frozen=True)
class Network:
    """The host's machine, and the device with its agent."""

    here: Namespace
    there: Namespace
    agent: AgentProcess

    def run(self, host: Host, *words: str) -> subprocess.CompletedProcess[str]:
        """Run `edgebench` on the host's machine."""
        return host.run(*words, prefix=self.here.prefix)

    def devices(self, host: Host) -> dict[str, dict[str, Any]]:
        """What `edgebench devices` lists, by name, without the host's own machine."""
        result = self.run(host, "devices", "--json")
        assert result.returncode == 0, result.stderr
        found = {device["name"]: device for device in json.loads(result.stdout)["devices"]}
        del found["local"]
        return found


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    """An agent on a machine of its own, on all its addresses."""
    need_root()
    need_tool("ip")
    with two_machines() as (here, there):
        agent = AgentProcess(
            tmp_path / "agent", ["--name", "board"], prefix=there.prefix, listen=":7747"
        )
        agent.start()
        try:
            yield Network(here, there, agent)
        finally:
            agent.kill()


def test_device_on_another_machine_is_found_paired_and_measured(
    network: Network, host: Host
) -> None:
    """Otherwise the first hour with a device would fail: not found, not paired, or not usable."""
    need_runtime("ai-edge-litert")
    found = network.devices(host)
    assert {name: device["access"] for name, device in found.items()} == {"board": "not paired"}
    assert found["board"]["address"] == "10.77.0.2:7747"

    string = network.agent.pairing_string()
    assert parse_pairing_string(string).addresses[0] == "10.77.0.2"
    paired = network.run(host, "pair", string)
    assert paired.returncode == 0, paired.stderr
    assert "paired with board" in paired.stdout

    result = network.run(host, "bench", MODEL, "--on", "board", *QUICK, "--json")
    assert result.returncode in (0, 3), result.stderr
    (document,) = json.loads(result.stdout)["runs"]
    assert document["device"]["name"] == "board"
    assert document["metrics"]["latency_ns"]["count"] >= 50

    (board,) = network.devices(host).values()
    assert board["access"] == "ready"
    assert board["system"]["device"]["id"] == document["device"]["id"]


def test_link_that_goes_down_is_one_error_and_one_hint(network: Network, host: Host) -> None:
    """Otherwise a pulled cable, without FIN or RST, would show the traceback of a ping."""
    need_runtime("ai-edge-litert")
    assert network.run(host, "pair", network.agent.pairing_string()).returncode == 0
    words = (
        *("bench", MODEL, "--on", "board", "--quick", "--runs=1", "--duration", "60s"),
        *("--scenario", "server", "--qps", "100"),  # it waits more than it computes
    )
    program = IMPATIENT if "EDGEBENCH_TESTS_SEEDS" not in os.environ else AS_IT_IS
    with started([*network.here.prefix, *program, *words], host) as command:

        def is_running() -> bool:
            assert command.poll() is None, command.communicate()
            return network.agent.status().running is not None

        wait_until(is_running, "the device runs")
        network.here.unplug()
        output, errors = command.communicate(timeout=90)
    assert (command.returncode, output) == (1, ""), errors
    error, hint = [line for line in errors.splitlines() if not line.startswith("run: ")]
    assert error.startswith("error: connection to board")
    assert hint.startswith("hint: ")


def test_second_host_that_is_not_paired_gets_nothing(
    network: Network, host: Host, tmp_path: Path
) -> None:
    """Otherwise anyone on the network could use a device, or take its pairing."""
    string = network.agent.pairing_string()
    assert network.run(host, "pair", string).returncode == 0
    stranger = Host(tmp_path / "stranger")
    listed = Path("config", "edgebench", "host", "devices.json")
    second_use = network.run(stranger, "pair", string)
    assert second_use.returncode == 1
    assert "used already, or is older than ten minutes" in second_use.stderr
    assert not (stranger.folder / listed).exists()

    # It knows the device by name, address and pin, as a user does who has read the list.
    shutil.copy(host.folder / listed, stranger.folder / listed)
    refused = network.run(stranger, "bench", MODEL, "--on", "board", *QUICK)
    assert refused.returncode == 1
    assert "does not accept this host's identity" in refused.stderr
    assert "hint: pair again" in refused.stderr
    assert not (stranger.folder / "data" / "edgebench" / "runs").exists()
    assert network.agent.status().models_count == 0
    assert len(network.agent.status().paired_hosts) == 1


def test_somebody_without_a_certificate_is_told_nothing(network: Network) -> None:
    """Otherwise the agent would respond to anyone who opens a connection."""
    text = subprocess.run(
        [*network.here.prefix, "python3", "-c", _KNOCK, network.there.address],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    ).stdout
    assert text.strip() == "nothing"


_KNOCK = """
import socket, ssl, sys
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
with socket.create_connection((sys.argv[1], 7747), timeout=10) as plain:
    try:
        with context.wrap_socket(plain) as secured:
            secured.sendall(b"GET / HTTP/1.1\\r\\nHost: x\\r\\n\\r\\n")
            print(secured.recv(1000) or "nothing")
    except (ssl.SSLError, ConnectionError):
        print("nothing")
"""
