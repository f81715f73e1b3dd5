"""A labgrid of our own on loopback: its real coordinator, exporter and client, in a venv of theirs.

They cannot be in ours: labgrid brings a fork of pyserial that overwrites pyserial's files.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from support.tools import skip_or_fail

LABGRID = "labgrid==26.0.1"
ROOT = Path(__file__).resolve().parents[2]
START_TIMEOUT_S = 60.0

_EXPORTED = """
board:
  NetworkService:
    address: 192.0.2.7
    username: root
"""
_ADD_PLACES = """
import sys
import grpc
from labgrid.remote.generated import labgrid_coordinator_pb2 as messages
from labgrid.remote.generated.labgrid_coordinator_pb2_grpc import CoordinatorStub
with grpc.insecure_channel(sys.argv[1]) as channel:
    stub = CoordinatorStub(channel)
    for word in sys.argv[2:]:
        name, _, tags = word.partition(":")
        stub.AddPlace(messages.AddPlaceRequest(name=name))
        found = dict(tag.split("=") for tag in tags.split(",") if tag)
        stub.SetPlaceTags(messages.SetPlaceTagsRequest(placename=name, tags=found))
        match = messages.AddPlaceMatchRequest(placename=name, pattern="desk/board/*")
        stub.AddPlaceMatch(match)
"""


def install_labgrid(folder: Path) -> Path:
    """Programs of a labgrid that was installed into this folder; skips where it cannot be."""
    programs = folder / "bin"
    wanted = [LABGRID, "-c", str(ROOT / "constraints.txt")]
    python = str(programs / "python")
    if (uv := shutil.which("uv")) is not None:
        make = [uv, "venv", "-q", "-p", sys.executable, str(folder)]
        install = [uv, "pip", "install", "-q", "-p", python, *wanted]
        if all(_run(command).returncode == 0 for command in (make, install)):
            return programs
    # uv does not read pip's configuration, which may be what names an index.
    shutil.rmtree(folder, ignore_errors=True)
    for command in (
        [sys.executable, "-m", "venv", str(folder)],
        [python, "-m", "pip", "install", "-q", *wanted],
    ):
        if (result := _run(command)).returncode:
            skip_or_fail(f"labgrid cannot be installed: {result.stderr.strip()[-200:]}")
    return programs


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, check=False)


@dataclass(frozen=True)
class Labgrid:
    """A running coordinator with an exporter."""

    programs: Path
    address: str

    def add_places(self, *words: str) -> None:
        """Add places, each as `NAME:KEY=VALUE,…`."""
        command = [str(self.programs / "python"), "-c", _ADD_PLACES, self.address, *words]
        subprocess.run(command, check=True, capture_output=True, timeout=60)

    def acquire(self, place: str, host: str, user: str) -> None:
        """Acquire a place as somebody, with labgrid's own client."""
        environment = os.environ | {
            "LG_COORDINATOR": self.address,
            "LG_HOSTNAME": host,
            "LG_USERNAME": user,
        }
        command = [str(self.programs / "labgrid-client"), "-p", place, "acquire"]
        subprocess.run(command, check=True, capture_output=True, timeout=60, env=environment)


@contextmanager
def running_labgrid(folder: Path) -> Iterator[Labgrid]:
    """A labgrid with one exporter, until the end."""
    programs = install_labgrid(folder / "venv")
    with socket.create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    (folder / "exported.yaml").write_text(_EXPORTED)
    commands = [
        ["labgrid-coordinator", "-l", address],
        ["labgrid-exporter", "-c", address, "-n", "desk", "exported.yaml"],
    ]
    processes: list[subprocess.Popen[bytes]] = []
    with (folder / "log.txt").open("wb") as log:
        try:
            for program, *options in commands:
                processes.append(
                    subprocess.Popen(
                        [str(programs / program), *options], cwd=folder, stdout=log, stderr=log
                    )
                )
                _wait_for(address)
            yield Labgrid(programs, address)
        finally:
            for process in reversed(processes):
                process.terminate()
                process.wait(30)


def _wait_for(address: str) -> None:
    host, _, port = address.rpartition(":")
    deadline_s = time.monotonic() + START_TIMEOUT_S
    while True:
        try:
            socket.create_connection((host, int(port)), timeout=1).close()
        except OSError:
            assert time.monotonic() < deadline_s, "the coordinator did not start"
            time.sleep(0.05)
        else:
            return
