"""Deploy to an account whose services systemd keeps, reboot it, and uninstall: by hand, as root.

    python tests/system/deploy_at_boot.py [--runtime onnx]

A real `systemd --user` in a mount namespace, an SSH server there, a new account. Checked:
the agent is a service, it starts again after SIGKILL and after all of the account has been ended
and its manager started again, `--no-boot` drops the unit, `--uninstall` leaves nothing. Ends with 1
where anything is wrong. It takes four minutes.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.agents import Host, wait_until
from support.site import SYSTEM_PYTHON, interpreter_of, trust
from support.sshd import fresh_account, ssh_server
from support.user_manager import user_manager

from edgebench.host.devices.packages import fetch

UNIT = ".config/systemd/user/edgebench-agent.service"


def main() -> int:
    """Play the steps."""
    parser = argparse.ArgumentParser(description="Deploy to stay, and reboot.")
    parser.add_argument("--runtime", default="onnx")
    options = parser.parse_args()
    wheels = (
        fetch(interpreter_of(SYSTEM_PYTHON), [options.runtime], Path(tempfile.mkdtemp()))
        .files[-1]
        .parent
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    with (
        tempfile.TemporaryDirectory(prefix="boot") as name,
        fresh_account(Path(name) / "account") as account,
        user_manager(account) as manager,
        ssh_server(
            Path(name) / "sshd", account, address="127.0.0.1", port=port, prefix=manager.prefix
        ) as server,
    ):
        host = Host(Path(name) / "host")
        trust(host, server.known_hosts_line)
        target = f"{account.name}@127.0.0.1:{port}"
        before = account.listing()

        def run(*words: str) -> str:
            result = host.run(*words)
            print("$ edgebench", *words, result.stdout + result.stderr, sep=" ", flush=True)
            assert result.returncode in (0, 3), result.returncode
            return result.stdout + result.stderr

        def agent_pid() -> int:
            """Main process of the unit."""
            words = Path(f"/proc/{manager.holder.pid}/root/sys/fs/cgroup/{account.name}")
            pids = (words / "manager/app.slice/edgebench-agent.service/cgroup.procs").read_text()
            return int(pids.split()[0])

        def is_ready() -> bool:
            result = host.run("devices", "--json", "--timeout", "0.1s")
            devices = json.loads(result.stdout)["devices"]
            return any(d["name"] == "board" and d["access"] == "ready" for d in devices)

        login = ("deploy", target, "--identity-file", str(account.key))
        install = (*login, "--wheels", str(wheels), "--runtime", options.runtime)
        quick = ("--quick", "--runs=1", "--duration", "0.5s", "--min-queries", "50")
        output = run(*install, "--name", "board", "--port", str(port + 1))
        assert "the agent starts at boot, by a systemd unit in this account" in output
        assert manager.control("is-enabled", "edgebench-agent") == 0
        pid = agent_pid()
        os.kill(pid, signal.SIGKILL)
        begin_s = time.monotonic()
        wait_until(is_ready, "systemd starts the agent again")
        print(f"killed: ready again after {time.monotonic() - begin_s:.1f} s", flush=True)
        manager.shut_down()
        assert not is_ready()
        manager.boot()
        wait_until(is_ready, "the agent starts at boot")
        print("rebooted: ready", flush=True)
        run("bench", "digits_int8.onnx", "--on", "board", *quick)
        run(*install)
        assert manager.control("is-active", "edgebench-agent") == 0
        run(*install, "--no-boot")
        assert not (account.home / UNIT).exists()
        assert is_ready()
        run(*install)
        run(*login, "--uninstall")
        assert account.listing() == before, set(account.listing()) ^ set(before)
        assert manager.control("is-active", "edgebench-agent") != 0
    print("nothing is wrong")
    return 0


if __name__ == "__main__":
    sys.exit(main())
