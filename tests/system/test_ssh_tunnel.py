"""A device that only SSH reaches, behind a jump host: TLS with pins through `ssh -W`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agents import AgentProcess, wait_until
from support.tunnels import TunnelSite, tunnel_site

MODEL = "digits_int8.onnx"
QUICK = (
    *("--runs=1", "--quick", "--duration", "0.2s", "--min-queries", "50"),
    *("--warmup", "5", "--warmup-duration", "0.05s"),
)
WATCH = (
    "import asyncio; from edgebench.host.devices.files import HostFiles; "
    "from edgebench.host.watch import watch\n"
    "async def main():\n"
    "    files = HostFiles()\n"
    "    async for update in watch(files.devices(), files):\n"
    "        print(update, flush=True)\n"
    "        break\n"
    "asyncio.run(main())"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TunnelSite]:
    """The machines, without an agent."""
    with tunnel_site(tmp_path_factory.mktemp("tunnel")) as made:
        yield made


@pytest.fixture(scope="module")
def agent(site: TunnelSite, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent on the device's loopback, paired through the tunnel."""
    folder = tmp_path_factory.mktemp("agent")
    made = AgentProcess(folder, prefix=site.there.prefix).start()
    try:
        site.pair(made)
        yield made
    finally:
        made.kill()


@pytest.fixture
def name(site: TunnelSite, agent: AgentProcess) -> str:
    """Name of the device."""
    [device] = site.host.devices
    assert (device.via, device.addresses) == ("ssh", ("board",))
    return device.name


def bench_processes(site: TunnelSite) -> list[int]:
    """Processes of `ssh` on the host's machine."""
    return [
        pid
        for pid in site.here.pids
        if Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].endswith(b"ssh")
    ]


def test_device_measures_and_no_port_is_open_on_the_host(
    site: TunnelSite, agent: AgentProcess, name: str
) -> None:
    """Otherwise the device could not be used, or others on the host would reach its agent."""
    words = ("bench", MODEL, "--on", name, "--json", *QUICK, "--duration", "3s")
    process = site.host.popen(*words, prefix=site.here.prefix)
    wait_until(lambda: any((agent.state / "work").iterdir()), "the run begins")
    assert site.listeners(site.here) == []
    loopback = f"0100007F:{agent.port:04X}"
    assert loopback in site.listeners(site.there)
    output, errors = process.communicate(timeout=170)
    assert process.returncode in (0, 3), errors
    [document] = json.loads(output)["runs"]
    assert document["metrics"]["latency_ns"]["count"] >= 50
    wait_until(lambda: not bench_processes(site), "the tunnels end with their connections")


def test_devices_lists_it_as_ready(site: TunnelSite, name: str) -> None:
    """Otherwise a farm behind a jump host would look as if it were off."""
    result = site.run("devices", "--json", "--timeout", "0.2s")
    [device] = [d for d in json.loads(result.stdout)["devices"] if d["name"] == name]
    assert device["access"] == "ready", device


def test_device_is_followed(site: TunnelSite, name: str) -> None:
    """Otherwise the watch of a farm would leave out what is behind a jump host."""
    output = subprocess.check_output(
        [*site.here.prefix, "env", *site._variables, sys.executable, "-c", WATCH],
        text=True, timeout=170, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert "Absence" not in output, output


def test_tunnel_that_breaks_leaves_the_run_to_be_collected(
    site: TunnelSite, agent: AgentProcess, name: str
) -> None:
    """Otherwise a run would be lost with the connection, or the error differ from that of TLS."""
    words = ("bench", MODEL, "--on", name, *QUICK, "--duration", "4s")
    process = site.host.popen(*words, prefix=site.here.prefix)
    wait_until(lambda: any((agent.state / "work").iterdir()), "the run begins")
    for pid in bench_processes(site):
        os.kill(pid, signal.SIGKILL)
    _, errors = process.communicate(timeout=170)
    assert process.returncode == 1
    assert "was lost" in errors
    assert "edgebench collect" in errors
    wait_until(lambda: any((agent.state / "spool").iterdir()), "the run ends on the device")
    result = site.run("collect", "--on", name)
    assert result.returncode in (0, 3), result.stderr
    assert not any((agent.state / "spool").iterdir())


def test_agent_that_is_stopped_is_named_as_over_tls(
    site: TunnelSite, agent: AgentProcess, name: str
) -> None:
    """Otherwise a device whose agent has ended would be reported as flooded, after ten seconds."""
    port = agent.port
    agent.stop()
    try:
        result = site.run("bench", MODEL, "--on", name)
        assert result.returncode == 1
        expected = f"error: cannot reach {name} (board:{port}): Connection refused"
        assert expected in result.stderr
    finally:
        agent.listen = f"127.0.0.1:{port}"
        agent.start()


def test_login_that_fails_is_named(site: TunnelSite, name: str) -> None:
    """Otherwise a key that was removed would look like an agent that is off."""
    config = site.host.folder / ".ssh" / "config"
    before = config.read_text()
    config.write_text(before.replace("User root", "User nobody", 1))
    try:
        result = site.run("bench", MODEL, "--on", name)
    finally:
        config.write_text(before)
    assert result.returncode == 1
    assert "error: board refuses this login: Permission denied (publickey)" in result.stderr
    assert "hint: log in by hand to see the cause: ssh board" in result.stderr
