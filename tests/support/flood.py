"""Floods of connections to an agent on loopback, from many addresses, and an agent held back."""

from __future__ import annotations

import os
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from tempfile import mkdtemp

from support.tools import need_tool

OPEN_LIMIT = 2000
"""Connections of a flood that are open at the same time."""
_PERIOD_US = 100_000
_CPU_GROUPS = (Path("/sys/fs/cgroup"), Path("/sys/fs/cgroup/cpu"))


@cache
def _program() -> Path:
    """The program that floods, compiled: one in Python would take a CPU from the agent."""
    need_tool("gcc")
    path = Path(mkdtemp(prefix="edgebench-flood-")) / "flood"
    source = Path(__file__).with_name("flood.c")
    subprocess.run(["gcc", "-O2", "-Wall", "-Werror", "-o", str(path), str(source)], check=True)
    return path


def client_hello() -> bytes:
    """The first message of a TLS client, as OpenSSL makes it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    sent = ssl.MemoryBIO()
    try:
        context.wrap_bio(ssl.MemoryBIO(), sent).do_handshake()
    except ssl.SSLWantReadError:
        return sent.read()
    raise AssertionError("the handshake waits for an answer")


@contextmanager
def flood(
    port: int, folder: Path, *, addresses: int, per_s: float, content: bytes = b"\x16"
) -> Iterator[None]:
    """So many connections a second, from 127.0.0.2 and those after it, that each send this."""
    file = folder / f"flood-{len(content)}"
    file.write_bytes(content)
    words = [str(port), str(addresses), str(per_s), str(OPEN_LIMIT), str(file)]
    with subprocess.Popen(
        [str(_program()), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield
        finally:
            output, _ = process.communicate("", timeout=30)
    sent = int(output.split()[1])
    assert sent > 0, "nothing was flooded"


@contextmanager
def held_to(share: float, pid: int) -> Iterator[None]:
    """Have the kernel hold a process to a share of one CPU, as root.

    Raises:
        OSError: there are no control groups here, or others own them.
    """
    name, quota_us = f"edgebench-flood-{os.getpid()}", round(share * _PERIOD_US)
    root = next(path for path in _CPU_GROUPS if (path / "cgroup.procs").exists())
    group = root / name
    group.mkdir()
    try:
        if (group / "cpu.max").exists():
            (group / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
        else:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        (group / "cgroup.procs").write_text(str(pid))
        yield
        (root / "cgroup.procs").write_text(str(pid))
    finally:
        group.rmdir()
