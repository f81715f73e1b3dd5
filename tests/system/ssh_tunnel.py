"""Deploy to a device behind a jump host, measure through the tunnel, uninstall: by hand, as root.

    python tests/system/ssh_tunnel.py [--runtime onnx]

Three machines, of which the host's reaches only the middle one. The account on the device is new,
and needs Debian's Python. Prints each command with its output; ends with 1 where one fails, where
the host has an open port, or where the uninstall leaves something. It takes three minutes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.site import SYSTEM_PYTHON, interpreter_of
from support.sshd import fresh_account
from support.tunnels import TunnelSite, tunnel_site

from edgebench.host.devices.packages import fetch

QUICK = ("--quick", "--runs=1", "--duration", "0.5s", "--min-queries", "50")


def main() -> int:
    """Play the steps; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description="Deploy through a jump host.")
    parser.add_argument("--runtime", default="onnx")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tunnel") as name:
        folder = Path(name)
        folder.chmod(0o755)  # the account reads its key's public half here
        wheels = fetch(interpreter_of(SYSTEM_PYTHON), [options.runtime], folder).files[-1].parent
        with (
            fresh_account(folder / "account") as account,
            tunnel_site(folder, account) as site,
        ):
            before = account.listing()
            install = ("--wheels", str(wheels), "--runtime", options.runtime)
            wrong = play(site, ("deploy", "board", *install))
            wrong += play(
                site, ("bench", "digits_int8.onnx", "--on", site.host.devices[0].name, *QUICK)
            )
            wrong += [f"open on the host: {port}" for port in site.listeners(site.here)]
            outside = [port for port in site.listeners(site.there) if port.endswith(":1E43")]
            print("the agent's port on the device:", *outside)
            wrong += play(site, ("deploy", "board", *install))
            wrong += play(site, ("deploy", "board", "--uninstall"))
            if account.listing() != before:
                wrong.append("the uninstall leaves something")
    print(*wrong or ["nothing is wrong"], sep="\n")
    return 1 if wrong else 0


def play(site: TunnelSite, words: tuple[str, ...]) -> list[str]:
    """Run a command and show it; what is wrong with it."""
    print("$ edgebench", *words, flush=True)
    result: subprocess.CompletedProcess[str] = site.run(*words)
    print(result.stdout + result.stderr, flush=True)
    return [] if result.returncode in (0, 3) else [f"ended with {result.returncode}: {words}"]


if __name__ == "__main__":
    sys.exit(main())
