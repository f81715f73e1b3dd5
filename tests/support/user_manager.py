"""systemd's service manager of one account, without systemd as the first process.

It runs in a mount namespace of its own, where the system looks as if systemd had booted it, with a
tree of control groups for the account. The account lingers, as after `loginctl enable-linger`.
"""

from __future__ import annotations

import os
import pwd
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from support.agents import wait_until
from support.sshd import Account

_MAKE = """
set -e
mount --make-rprivate /
mount -t cgroup2 none /sys/fs/cgroup
for place in /run/systemd /run/user /var/lib/systemd; do
    mkdir -p $place; mount -t tmpfs none $place
done
mkdir -p /run/systemd/system /var/lib/systemd/linger
touch /var/lib/systemd/linger/$1
mkdir -m 700 /run/user/$2; chown $1 /run/user/$2
echo ready
exec sleep infinity
"""
_BOOT = """
mkdir -p /sys/fs/cgroup/$1/manager; chown -R $1 /sys/fs/cgroup/$1
echo $$ > /sys/fs/cgroup/$1/manager/cgroup.procs
exec setpriv --reuid $1 --regid $1 --init-groups env -i HOME=$3 PATH=/usr/bin:/bin \
    XDG_RUNTIME_DIR=/run/user/$2 /lib/systemd/systemd --user --log-target=console
"""


@dataclass
class UserManager:
    """The account's manager, which can be ended and started as by a reboot."""

    account: Account
    holder: subprocess.Popen[str]
    """Process that keeps the mount namespace."""
    manager: subprocess.Popen[bytes] | None = None

    @property
    def prefix(self) -> tuple[str, ...]:
        """Words before a command that is to run in the namespace."""
        return ("nsenter", f"--target={self.holder.pid}", "--mount")

    @property
    def uid(self) -> str:
        """Number of the account."""
        return str(pwd.getpwnam(self.account.name).pw_uid)

    def boot(self) -> None:
        """Start the manager, as the system does at boot for an account that lingers."""
        words = (self.account.name, self.uid, str(self.account.home))
        self.manager = subprocess.Popen(
            [*self.prefix, "sh", "-c", _BOOT, "sh", *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: self.control("is-system-running") == 0, "the manager runs")

    def shut_down(self) -> None:
        """End all processes of the account at once, as when the power is cut."""
        for pid in self.account.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.manager is not None:
            self.manager.wait(30)
            self.manager = None
        wait_until(lambda: not self.account.processes(), "the account's processes end")

    def control(self, *words: str) -> int:
        """Exit code of `systemctl --user`."""
        user = ("setpriv", "--reuid", self.account.name, "--regid", self.account.name)
        runtime = f"XDG_RUNTIME_DIR=/run/user/{self.uid}"
        command = ("--init-groups", "env", runtime, "systemctl", "--user", *words)
        result = subprocess.run(
            [*self.prefix, *user, *command], capture_output=True, timeout=60, check=False
        )
        return result.returncode


@contextmanager
def user_manager(account: Account) -> Iterator[UserManager]:
    """The manager of an account, running."""
    uid = str(pwd.getpwnam(account.name).pw_uid)
    holder = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", _MAKE, "sh", account.name, uid],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "ready\n"
    made = UserManager(account, holder)
    try:
        made.boot()
        yield made
    finally:
        made.shut_down()
        holder.kill()
        holder.communicate()
        for group in ("init.scope", "app.slice", "manager", ""):
            with suppress(OSError):
                (Path("/sys/fs/cgroup") / account.name / group).rmdir()
