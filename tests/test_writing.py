"""One way to write files that must survive a power cut, and a list of the other writes."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ROOMS = ("protocol", "system", "meters", "agent", "host", "firmware_bridge")
HOME = "system/edgebench/system/whole_files.py"
_CALLS = {"write_text", "write_bytes", "mkdir", "makedirs", "fsync", "fdatasync"}
_MODULES = ("shutil.copy", "shutil.move", "os.link", "os.replace", "os.rename")

SYNCED_LATER = "in a directory that is synced as a whole before it gets its final name"
TRANSIENT = "of a run in progress, or of this process alone"
CACHE = "a cache or a log: whole, or noticed and made again"
OUTPUT = "for a person or another tool, and made again at any time"
KERNEL = "not a disk: files of the kernel, devices, sockets"
LOCK = "a lock, or the name of a socket or process"
RENAMED = "a rename of what is synced, in a directory that is synced behind it"
OTHER_WAYS = {
    "agent/edgebench/agent/artifacts.py": (2, CACHE),
    "agent/edgebench/agent/confine/apply.py": (4, KERNEL),
    "agent/edgebench/agent/confine/probe.py": (1, TRANSIENT),
    "agent/edgebench/agent/confine/view.py": (3, KERNEL),
    "agent/edgebench/agent/daemon.py": (1, LOCK),
    "agent/edgebench/agent/files.py": (1, SYNCED_LATER),
    "agent/edgebench/agent/governor.py": (2, KERNEL),
    "agent/edgebench/agent/log.py": (3, CACHE),
    "agent/edgebench/agent/run.py": (2, SYNCED_LATER),
    "agent/edgebench/agent/simulated_seats.py": (2, TRANSIENT),
    "agent/edgebench/agent/spool.py": (3, RENAMED),
    "agent/edgebench/agent/telemetry/process.py": (2, TRANSIENT),
    "agent/edgebench/agent/telemetry/sampler.py": (1, SYNCED_LATER),
    "agent/edgebench/agent/telemetry/trace.py": (1, SYNCED_LATER),
    "agent/edgebench/agent/worker/checks.py": (2, SYNCED_LATER),
    "agent/edgebench/agent/worker/limits.py": (1, KERNEL),
    "agent/edgebench/agent/worker/main.py": (1, SYNCED_LATER),
    "agent/edgebench/agent/worker/process.py": (2, TRANSIENT),
    "agent/edgebench/agent/worker/record_file.py": (2, SYNCED_LATER),
    "agent/edgebench/agent/worker/sync_line.py": (2, KERNEL),
    "firmware_bridge/edgebench/firmware_bridge/console.py": (1, OUTPUT),
    "firmware_bridge/edgebench/firmware_bridge/detection.py": (2, LOCK),
    "firmware_bridge/edgebench/firmware_bridge/driver.py": (1, TRANSIENT),
    "firmware_bridge/edgebench/firmware_bridge/generate.py": (1, OUTPUT),
    "host/edgebench/host/campaign/cluster/lab.py": (1, TRANSIENT),
    "host/edgebench/host/campaign/cluster/lanes.py": (2, TRANSIENT),
    "host/edgebench/host/campaign/cluster/remote_files.py": (1, TRANSIENT),
    "host/edgebench/host/campaign/journal.py": (1, RENAMED),
    "host/edgebench/host/client.py": (1, SYNCED_LATER),
    "host/edgebench/host/devices/health.py": (1, RENAMED),
    "host/edgebench/host/devices/kits.py": (1, TRANSIENT),
    "host/edgebench/host/devices/lab_file.py": (2, "a new file must not replace another one"),
    "host/edgebench/host/devices/locked.py": (1, LOCK),
    "host/edgebench/host/devices/on_device.py": (10, "stands alone on the device, and syncs it"),
    "host/edgebench/host/devices/packages.py": (2, RENAMED),
    "host/edgebench/host/devices/pairing.py": (1, TRANSIENT),
    "host/edgebench/host/devices/ssh_command.py": (1, TRANSIENT),
    "host/edgebench/host/transports/ssh.py": (1, TRANSIENT),
    "host/edgebench/host/export/files.py": (1, "a pipe or a device"),
    "host/edgebench/host/export/mlperf.py": (6, OUTPUT),
    "host/edgebench/host/kit/debian.py": (5, TRANSIENT),
    "host/edgebench/host/store/bundle.py": (1, "an entry of an archive"),
    "host/edgebench/host/store/bundle_file.py": (2, TRANSIENT),
    "host/edgebench/host/store/change.py": (3, SYNCED_LATER),
    "host/edgebench/host/store/files.py": (3, SYNCED_LATER),
    "host/edgebench/host/store/host_file.py": (2, SYNCED_LATER),
    "host/edgebench/host/store/layout.py": (4, SYNCED_LATER),
    "host/edgebench/host/store/live.py": (2, CACHE),
    "host/edgebench/host/store/power.py": (1, SYNCED_LATER),
    "host/edgebench/host/store/removal.py": (1, RENAMED),
    "host/edgebench/host/store/set_aside.py": (3, RENAMED),
    "host/edgebench/host/transports/local.py": (1, CACHE),
    "meters/edgebench/meters/hid.py": (1, KERNEL),
    "meters/edgebench/meters/spool.py": (1, SYNCED_LATER),
    "system/edgebench/system/command_process.py": (1, KERNEL),
    "system/edgebench/system/control_address.py": (1, LOCK),
    "system/edgebench/system/unforeseen.py": (2, CACHE),
}
"""Calls by file that write, rename or make directories in another way, and why they may.

A number may only become smaller, and no file may be added: who announces something uses
`edgebench.system.whole_files` (docs/decisions/0060-power-cuts.md).
"""


def calls_in(path: Path) -> list[ast.Call]:
    """Calls of a module that change files."""
    tree = ast.parse(path.read_text())
    return [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _changes(node)]


def _changes(call: ast.Call) -> bool:
    function = ast.unparse(call.func)
    name = function.rpartition(".")[2]
    if function == "os.open":
        return not re.search("O_RDONLY|O_PATH", ast.unparse(call))
    if name == "open":
        texts = [str(word.value) for word in ast.walk(call) if isinstance(word, ast.Constant)]
        return any(set(text) <= set("rwaxbt+") and set(text) & set("wax+") for text in texts)
    if name in ("replace", "rename") and not function.startswith("os."):
        return len(call.args) == 1 and not call.keywords  # of a path: the others take more
    return name in _CALLS or (function.startswith(_MODULES) and name != "copyfileobj")


def test_other_ways_of_writing_become_fewer() -> None:
    """Otherwise a new file would be announced before it is on disk, and emptied by a power cut."""
    found = Counter[str]()
    lines: dict[str, list[int]] = {}
    for room in ROOMS:
        for path in sorted((ROOT / room).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            if name != HOME and (calls := calls_in(path)):
                found[name], lines[name] = len(calls), [call.lineno for call in calls]
    allowed = {name: count for name, (count, _) in OTHER_WAYS.items()}
    changed = {name for name in found | allowed if found[name] != allowed.get(name)}
    assert {name: lines.get(name) for name in changed} == {}, "see OTHER_WAYS"
