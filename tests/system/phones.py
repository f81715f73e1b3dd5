"""Four phones without Python get a kit and real wheels, and measure: by hand, as root.

    python tests/system/phones.py [--machine aarch64] [--board android_phone]... [--offline]

Makes a kit twice from Debian's packages, and compares the bytes. Lists three phones that cannot be
used: unauthorised, offline, without shell_v2. Then, on a phone of each release of Android
(`support.boards`), which has Android's shell and toolbox, and nothing else of Linux: deploys the
kit with the wheels of all runtimes, deploys again, measures models with each runtime, compares
their outputs with the reference's and the telemetry with the golden file, measures a model for
longer (`--sustained`), and uninstalls. With another machine than this one, the phone's Python and
all of the agent run under qemu-user (package qemu-user-static) on a named CPU. With --offline, the
kit and the wheels are taken into a network namespace that has nothing but its loopback. Prints the
findings; ends with 1 if anything is not as it should be. Two minutes a phone natively, 15 under
emulation.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.adb_phones import AdbProcess, EmulatedPhone, adb_server, phone
from support.adbd import AdbdSettings
from support.agents import Host, wait_until
from support.site import SYSTEM_PYTHON, interpreter_of
from system.arm64.emulated_board import BINFMT, BOARD_CPUINFO, CPU, MAGIC, QEMU

from edgebench.host.devices.packages import fetch
from edgebench.host.stored_run import StoredRun

MODELS = {
    "litert": "digits_int8.tflite",
    "tflite": "digits_int8.tflite",
    "onnx": "digits_int8.onnx",
}
HANDLER = "edgebench-phone"
LIMIT_BYTES = 12 * 10**6
"""Most that a kit may take, compressed."""
QUICK = ("--quick", "--runs=1", "--duration", "1s", "--min-queries", "64", "--timeout", "10m")
SUSTAINED = ("--runs=1", "--sustained", "20s", "--timeout", "20m")
GOLDEN = Path(__file__).parents[1] / "unit/agent/telemetry/golden"
MOVING = ("cpu.", "worker.", "memory.", "pressure.")
"""Sensors of /proc, which is this machine's own."""


@dataclass(frozen=True)
class Expected:
    """What a run on a phone must report."""

    name: str
    os: str
    profile: str
    rules: Mapping[str, str]
    """Outcome by rule."""


PHONES = {
    "android_8": Expected(
        "moto-g-5-plus",
        "Android 8.0.0 (API 26)",
        "generic-android",
        {"charging": "pass", "screen": "pass", "power_saver": "pass", "thermal_status": "unknown"},
    ),
    "android_11": Expected(
        "sm-m315f",
        "Android 11 (API 30)",
        "generic-android",
        {
            "charging": "unknown",  # `dumpsys battery` reports an override
            "screen": "fail",
            "power_saver": "fail",
            "thermal_status": "unknown",
        },
    ),
    "android_phone": Expected(
        "pixel-8",
        "Android 14 (API 34)",
        "google-pixel-8",
        {"charging": "fail", "screen": "pass", "power_saver": "pass", "thermal_status": "pass"},
    ),
    "android_16": Expected(
        "sm-s911b",
        "Android 16 (API 36)",
        "samsung-galaxy-s23",
        {"charging": "pass", "screen": "fail", "power_saver": "pass", "thermal_status": "unknown"},
    ),
}


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


def list_unusable(host: Host, adb: AdbProcess) -> None:
    """Phones that cannot be used have their reason in `devices`, and one line from `deploy`."""
    plain = AdbdSettings("")
    with (
        phone(adb, is_namespaced=False, settings=replace(plain, is_authorised=False)) as locked,
        phone(adb, is_namespaced=False, settings=replace(plain, is_silent=True)) as silent,
        phone(adb, is_namespaced=False, settings=replace(plain, features=("cmd",))) as old,
    ):
        wait_until(lambda: locked.state() == "unauthorized", "the phone asks for its owner")
        listed = host.run("devices", "--timeout", "0s")
        step(f"{listed.stdout}{listed.stderr}")
        phones = ((locked, "unauthorised"), (silent, "offline"), (old, "without shell_v2"))
        for made, words in phones:
            result = host.run("deploy", f"adb:{made.serial}")
            step(result.stderr)
            assert result.returncode == 1
            [error] = [line for line in result.stderr.splitlines() if line.startswith("error: ")]
            assert f"adb:{made.serial} is {words}" in error, error
            assert words in listed.stdout


def play(
    board: str, host: Host, adb: AdbProcess, packages: Sequence[str], settings: dict[str, Any]
) -> None:
    """One phone, from its first deploy until nothing of it is left.

    `packages` are the options of `deploy` for the kit and the wheels.
    """
    expected = PHONES[board]
    with phone(adb, is_bare=True, board=board, **settings) as made:
        target = f"adb:{made.serial}"
        for sends in (True, False):
            begin_s = time.monotonic()
            result = host.run("deploy", target, *packages, timeout_s=1800)
            assert result.returncode == 0, result.stderr
            step(f"deploy: {time.monotonic() - begin_s:.0f} s\n{result.stderr}{result.stdout}")
            assert ("sending" in result.stderr) is sends
        for runtime, model in MODELS.items():
            document = bench(host, expected.name, model, "--runtime", runtime, *QUICK)
            rules = {rule["id"]: rule for rule in document["verdict"]["rules"]}
            step(f"{runtime}: {document['verdict']['state']}; {rules['agreement']['detail']}")
            assert rules["agreement"]["outcome"] == "pass"
        document = bench(host, expected.name, MODELS["litert"], *SUSTAINED)
        check(document, expected, made)
        step(
            f"sustained: {document['verdict']['state']}; {document['metrics']['thermal']['reason']}"
        )
        compare_telemetry(host, document, board)
        result = host.run("deploy", target, "--uninstall")
        assert result.returncode == 0, result.stderr
        step(f"{result.stdout}left behind: {made.leftovers()}")
        assert made.leftovers() == []


def bench(host: Host, name: str, *words: str) -> dict[str, Any]:
    """The document of one run."""
    result = host.run("bench", *words, "--on", name, "--json", timeout_s=3600)
    assert result.returncode in (0, 3), result.stderr
    document: dict[str, Any]
    [document] = json.loads(result.stdout)["runs"]
    return document


def check(document: dict[str, Any], expected: Expected, made: EmulatedPhone) -> None:
    """Compare what a run has recorded about its phone."""
    machine = made.machine or platform.machine()
    assert document["device"]["arch"] == machine
    assert document["emulated"] is (machine != platform.machine())
    assert document["environment"]["os"] == expected.os
    assert document["device"]["profile"] == expected.profile
    found = {rule["id"]: rule for rule in document["verdict"]["rules"]}
    for name in expected.rules:
        step(f"{name}: {found[name]['outcome']}; {found[name]['detail']}")
    assert {name: found[name]["outcome"] for name in expected.rules} == expected.rules


def compare_telemetry(host: Host, document: dict[str, Any], board: str) -> None:
    """Compare the telemetry of a run with what the sampler is known to read on this phone."""
    golden = json.loads((GOLDEN / f"{board}.json").read_text())
    run = StoredRun(host.lab.store, document["run_id"])
    seen = {
        name: None if math.isnan(value) else value
        for name, value in run.telemetry.groupby("sensor")["value"].last().items()
        if not str(name).startswith(MOVING)
    }
    known = {k: v for k, v in golden["values"].items() if not k.startswith(MOVING)}
    assert seen == known, (seen, known)
    step(f"{len(seen)} sensors as the golden file has them")


def play_offline(packages: Sequence[str], folder: Path, boards: Sequence[str]) -> int:
    """The same where no address but loopback can be reached; the exit code."""
    (folder / "wheels").mkdir()
    fetched = fetch(interpreter_of(SYSTEM_PYTHON), [*MODELS], folder / "wheels")
    words = [sys.executable, __file__, *(f"--board={board}" for board in boards), "--packages"]
    words += [*packages, "--wheels", str(fetched.files[-1].parent)]
    inside = ["unshare", "--net", "sh", "-ec", 'ip link set lo up; exec "$@"', "sh", *words]
    return subprocess.run(inside, check=False).returncode


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
    """Print a finding."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


def main() -> int:
    """Play the steps; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description="A kit on phones without Python.")
    parser.add_argument("--machine", default=platform.machine(), choices=("aarch64", "x86_64"))
    parser.add_argument("--board", action="append", choices=PHONES, help="default: all")
    parser.add_argument("--offline", action="store_true", help="in a network namespace")
    parser.add_argument("--packages", nargs=argparse.REMAINDER, help="options of `deploy`")
    options = parser.parse_args()
    settings: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="eb-kit-") as folder, ExitStack() as stack:
        host = Host(Path(folder) / "host")
        if options.packages is None:
            packages = ["--kit", str(build(host, options.machine, Path(folder)))]
        else:
            packages = options.packages
        if options.offline:
            return play_offline(packages, Path(folder), options.board or ["android_phone"])
        adb = stack.enter_context(adb_server())
        stack.enter_context(patch.dict(os.environ, adb.environment))
        if options.machine != platform.machine():
            stack.enter_context(handled())
            variables = {"QEMU_CPU": CPU}
            settings = {
                "machine": options.machine,
                "cpuinfo": BOARD_CPUINFO,
                "variables": variables,
            }
        list_unusable(host, adb)
        for board in options.board or PHONES:
            play(board, host, adb, packages, settings)
    print("all as it should be")
    return 0


if __name__ == "__main__":
    sys.exit(main())
