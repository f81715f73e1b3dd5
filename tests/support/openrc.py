"""A system that OpenRC has booted: it shares files, devices and network with this machine.

    this machine            a holder: mount namespace with an overlay of /      each boot
    deploy ─ ssh, loopback ───────────────────────────────────────▶ processes of their own, OpenRC
                                                                     as the first of them

What is written there is kept from one boot to the next, in memory, and is gone with the holder.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.agents import wait_until

PACKAGES = ("openrc", "librc1", "libeinfo1")
RUNLEVELS = ("sysinit", "boot", "default", "nonetwork", "shutdown")
_MAKE = """
set -e
mount --make-rprivate /
cd "$1"; mkdir layers root
mount -t tmpfs none layers; mkdir layers/upper layers/work
mount -t overlay none -o lowerdir=/,upperdir=layers/upper,workdir=layers/work root
for package in "$2"/*.deb; do
    dpkg --fsys-tarfile "$package" | tar -x --keep-directory-symlink -C root
done
for level in $3; do mkdir -p root/etc/runlevels/$level; done
echo 'rc_sys="lxc"' >> root/etc/rc.conf; touch root/etc/insserv.conf
mount -t tmpfs none root/root
mount --rbind /dev root/dev; mount --bind /tmp root/tmp; mount --rbind /sys root/sys
echo ready
exec sleep infinity
"""
_BOOT = """
cd "$1"
mount -t tmpfs none root/run; mkdir -m 755 root/run/sshd
mount -t proc proc root/proc
exec chroot root /sbin/openrc-init
"""


@dataclass
class OpenRcSystem:
    """The system, which can be switched off and on."""

    folder: Path
    holder: subprocess.Popen[str]
    first: subprocess.Popen[bytes] | None = None
    """Process that waits for the first one of the system."""

    @property
    def prefix(self) -> tuple[str, ...]:
        """Words before a command that is to run there."""
        assert self.first is not None
        children = Path(f"/proc/{self.first.pid}/task/{self.first.pid}/children").read_text()
        [init] = children.split()
        return ("nsenter", f"--target={init}", "--mount", "--pid", "--root", "--wd=/")

    def boot(self) -> None:
        """Switch it on, and wait until its default runlevel is reached."""
        outside = ("nsenter", f"--target={self.holder.pid}", "--mount")
        inside = ("unshare", "--mount", "--pid", "--fork", "--kill-child")
        self.first = subprocess.Popen(
            [*outside, *inside, "sh", "-ec", _BOOT, "sh", self.folder],
            stdin=subprocess.DEVNULL,
            stdout=(self.folder / "console").open("ab"),
            stderr=subprocess.STDOUT,
        )
        wait_until(lambda: self.level() == "default", "the default runlevel is reached")

    def cut_power(self) -> None:
        """End all that runs there, at once."""
        assert self.first is not None
        self.first.kill()
        self.first.wait(30)
        self.first = None

    def level(self) -> str:
        """Its runlevel; empty while it boots."""
        try:
            return self.output("cat", "/run/openrc/softlevel").strip()
        except (ValueError, OSError, subprocess.CalledProcessError):
            return ""

    def output(self, *words: str) -> str:
        """Output of a command there."""
        command = [*self.prefix, *words]
        result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        return result.stdout


@contextmanager
def openrc_system(folder: Path) -> Iterator[OpenRcSystem]:
    """A system with Debian's OpenRC, switched on."""
    packages = folder / "packages"
    packages.mkdir(parents=True)
    command = ["apt-get", "download", "-o", "APT::Sandbox::User=root", *PACKAGES]
    subprocess.run(command, cwd=packages, check=True, capture_output=True, timeout=300)
    holder = subprocess.Popen(
        ["unshare", "--mount", "sh", "-c", _MAKE, "sh", folder, packages, " ".join(RUNLEVELS)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == "ready\n"
    made = OpenRcSystem(folder, holder)
    try:
        made.boot()
        yield made
    finally:
        if made.first is not None:
            made.cut_power()
        holder.kill()
        holder.communicate()
