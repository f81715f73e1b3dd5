"""A phone without Python gets a kit and real wheels, and measures: by hand, as root.

    python tests/system/phone_kit.py [--machine aarch64]

Makes a kit twice from Debian's packages, and compares the bytes. Deploys it with the wheels of all
runtimes to an emulated phone that has Android's shell and toolbox and nothing else of Linux,
deploys again, measures models with each runtime and compares their outputs with the reference's,
and uninstalls. With another machine than this one, the phone's Python and all of the agent run
under qemu-user (package qemu-user-static) on a named CPU. Prints what was seen; ends with 1 if
anything is not as it should be. Two minutes natively, 15 under emulation.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.adb_phones import adb_server, phone
from support.agents import Host
from system.arm64.emulated_board import BINFMT, BOARD_CPUINFO, CPU, MAGIC, QEMU

MODELS = {
    "litert": "digits_int8.tflite",
    "tflite": "digits_int8.tflite",
    "onnx": "digits_int8.onnx",
}
HANDLER = "edgebench-phone"
LIMIT_BYTES = 12 * 10**6
"""Most that a kit may take, compressed."""
QUICK = ("--quick", "--runs=1", "--duration", "1s", "--min-queries", "64", "--timeout", "10m")


def build(host: Host, machine: str, folder: Path) -> Path:
    """Make the kit twice."""
    made = []
    for name in ("first.whl", "second.whl"):
        begin_s = time.monotonic()
        output = ("--output", str(folder / name))
        result = host.run("kit", "build", "--machine", machine, *output, timeout_s=1200)
        assert result.returncode == 0, result.stderr
        step(f"kit made in {time.monotonic() - begin_s:.0f} s:\n{result.stdout}")
        made.append((folder / name).read_bytes())
    assert made[0] == made[1], "the same packages give other bytes"
    assert len(made[0]) <= LIMIT_BYTES
    step(f"the same {len(made[0]):,} bytes twice")
    return folder / "first.whl"


def play(machine: str, folder: Path) -> None:
    """Everything that is to be shown."""
    is_emulated = machine != platform.machine()
    settings: dict[str, Any] = {
        "machine": machine,
        "cpuinfo": BOARD_CPUINFO,
        "variables": {"QEMU_CPU": CPU},
    }
    host = Host(folder / "host")
    kit = build(host, machine, folder)
    with ExitStack() as stack:
        adb = stack.enter_context(adb_server())
        stack.enter_context(patch.dict(os.environ, adb.environment))
        if is_emulated:
            stack.enter_context(handled())
        made = stack.enter_context(phone(adb, is_bare=True, **settings if is_emulated else {}))
        target = f"adb:{made.serial}"
        for sends in (True, False):
            begin_s = time.monotonic()
            result = host.run("deploy", target, "--kit", str(kit), timeout_s=1800)
            assert result.returncode == 0, result.stderr
            step(f"deploy: {time.monotonic() - begin_s:.0f} s\n{result.stderr}{result.stdout}")
            assert ("sending" in result.stderr) is sends
        for runtime, model in MODELS.items():
            words = ("bench", model, "--on", "pixel-8", "--runtime", runtime, *QUICK, "--json")
            result = host.run(*words, timeout_s=1800)
            assert result.returncode in (0, 3), result.stderr
            [document] = json.loads(result.stdout)["runs"]
            rules = {rule["id"]: rule for rule in document["verdict"]["rules"]}
            step(f"{runtime}: {document['verdict']['status']}; {rules['agreement']['detail']}")
            assert rules["agreement"]["outcome"] == "pass"
            assert document["device"]["arch"] == machine
            assert document["emulated"] is is_emulated
        result = host.run("deploy", target, "--uninstall")
        assert result.returncode == 0, result.stderr
        step(f"{result.stdout}left behind: {made.leftovers()}")
        assert made.leftovers() == []


@contextmanager
def handled() -> Iterator[None]:
    """Programs for Arm run under qemu, which the kernel opens now: a phone has no such file."""
    if not (BINFMT / "register").exists():
        sys.exit(f"error: mount binfmt_misc: mount -t binfmt_misc binfmt_misc {BINFMT}")
    (BINFMT / "register").write_text(f":{HANDLER}:M::{MAGIC[0]}:{MAGIC[1]}:{QEMU}:PF")
    try:
        yield
    finally:
        (BINFMT / HANDLER).write_text("-1")


def step(text: str) -> None:
    """Print what was seen."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def main() -> int:
    """Show it; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description="A kit on a phone without Python.")
    parser.add_argument("--machine", default=platform.machine(), choices=("aarch64", "x86_64"))
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="eb-kit-") as folder:
        play(options.machine, Path(folder))
    print("all as it should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
