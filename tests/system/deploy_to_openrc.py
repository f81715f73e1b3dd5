"""Deploy to a system that OpenRC has booted, cut its power, and uninstall: by hand, as root.

    python tests/system/deploy_to_openrc.py [--runtime onnx]

Debian's OpenRC is the first process of a system with files and processes of its own, and an SSH
server that accepts root's login (`support.openrc`). Checked: the agent is a service in the default
runlevel, it starts again after SIGKILL and after a boot, `--no-boot` drops the service, an agent
that does not start leaves none, `--uninstall` leaves nothing. Ends with 1 where anything is wrong.
It takes two minutes.
"""

from __future__ import annotations

import argparse
import json
import socket
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.agents import Host, wait_until
from support.openrc import OpenRcSystem, openrc_system
from support.site import SYSTEM_PYTHON, interpreter_of, trust
from support.sshd import Account, new_key, ssh_server

from edgebench.host.devices.packages import fetch

SERVICE = "edgebench-agent"
QUICK = ("--quick", "--runs=1", "--duration", "0.5s", "--min-queries", "50")


class Trial:
    """A host and a system that it deploys to."""

    def __init__(self, folder: Path, system: OpenRcSystem, account: Account, port: int) -> None:
        self.host, self.system, self.account, self.port = Host(folder), system, account, port
        self.login = ("deploy", f"root@127.0.0.1:{port}", "--identity-file", str(account.key))

    def run(self, *words: str, is_right: bool = True) -> str:
        """Output of a command."""
        result = self.host.run(*words)
        print("$ edgebench", *words, result.stdout + result.stderr, sep=" ", flush=True)
        assert (result.returncode in (0, 3)) is is_right, result.returncode
        return result.stdout + result.stderr

    def is_ready(self) -> bool:
        """Whether its agent responds."""
        result = self.host.run("devices", "--json", "--timeout", "0.1s")
        devices = json.loads(result.stdout)["devices"]
        return any(d["name"] == "board" and d["access"] == "ready" for d in devices)

    def services(self) -> list[str]:
        """Services of the default runlevel."""
        return self.system.output("ls", "/etc/runlevels/default").split()

    def files(self) -> set[str]:
        """Files in the home directory and among the services."""
        return set(self.system.output("find", "/root", "/etc/init.d", "-xdev").splitlines())


def play(trial: Trial, install: tuple[str, ...]) -> None:
    """Deploy, end the agent, and deploy again without and with its start at boot."""
    output = trial.run(*install, "--name", "board", "--port", str(trial.port + 1))
    assert "the agent starts at boot, by an OpenRC service" in output
    assert trial.services() == [SERVICE]
    print(trial.system.output("rc-service", SERVICE, "status"))
    trial.system.output("pkill", "-KILL", "-f", "edgebench-agent serve --log")
    assert not trial.is_ready()
    begin_s = time.monotonic()
    wait_until(trial.is_ready, "OpenRC starts the agent again")
    print(f"killed: ready again after {time.monotonic() - begin_s:.1f} s", flush=True)
    trial.run("bench", "digits_int8.onnx", "--on", "board", *QUICK)
    trial.run(*install, "--no-boot")
    assert trial.services() == []
    assert trial.is_ready()
    trial.run(*install)
    assert trial.services() == [SERVICE]


def main() -> int:
    """Play the steps."""
    parser = argparse.ArgumentParser(description="Deploy to OpenRC, and boot.")
    parser.add_argument("--runtime", default="onnx")
    options = parser.parse_args()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="openrc-")))
        (folder / "wheels").mkdir()
        fetched = fetch(interpreter_of(SYSTEM_PYTHON), [options.runtime], folder / "wheels")
        key = folder / "account" / "login-key"
        new_key(key)
        account = Account("root", Path("/root"), key)
        system = stack.enter_context(openrc_system(folder / "system"))
        settings: dict[str, Any] = {
            "address": "127.0.0.1",
            "port": port,
            "lines": (f"AuthorizedKeysFile {key}.pub", "StrictModes no", "PermitRootLogin yes"),
        }
        trial = Trial(folder / "host", system, account, port)
        wheels = str(fetched.files[-1].parent)
        install = (*trial.login, "--wheels", wheels, "--runtime", options.runtime)
        with ssh_server(folder / "sshd", account, prefix=system.prefix, **settings) as server:
            trust(trial.host, server.known_hosts_line)
            before = trial.files()
            play(trial, install)
            system.cut_power()
        assert not trial.is_ready()
        system.boot()
        wait_until(trial.is_ready, "the agent starts at boot")
        print("power cut, booted: ready", flush=True)
        trial.run("bench", "digits_int8.onnx", "--on", "board", *QUICK)
        with ssh_server(folder / "sshd-2", account, prefix=system.prefix, **settings) as server:
            trust(trial.host, server.known_hosts_line)
            trial.run(*trial.login, "--uninstall")
        assert trial.services() == []
        assert trial.files() == before, trial.files() ^ before
    print("nothing is wrong")
    return 0


if __name__ == "__main__":
    sys.exit(main())
