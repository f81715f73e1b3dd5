"""The guides do what they say: each command is carried out, or has a reason why it is not."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.agents import AgentProcess, Host
from support.guides import ROOT, Reader, shell_commands
from support.ppk2 import Ppk2Emulator
from support.tools import need_runtime, need_tool

DOCS = ROOT / "docs"
MODELS = ROOT / "host/edgebench/host/builtin_models"
PPK2 = "/dev/ttyACM0"
RUN_ENDS = (0, 3)
"""A run on this machine may be invalid."""
OUTCOMES = (0, 3, 4, 5)
SERVED = "edgebench-agent serve"

NOT_CARRIED_OUT = {
    "getting-started.md": {
        "python3 -m venv .venv": "installs; tests/system/install/from_wheels.py does",
        ".venv/bin/pip install ./agent '.[all]'": "installs; from_wheels.py does",
        "source .venv/bin/activate": "has nothing to activate without the two before",
    },
    "first-meter.md": {
        "edgebench energy last --trace recording.csv --gain 0.5%": "needs the recording of an "
        "instrument; tests/cli/test_trace.py makes one",
    },
    "first-microcontroller.md": {
        "sudo apt install qemu-system-arm": "installs; .ci/run does",
        "edgebench bridge list --confirm": "would talk to the boards of whoever runs the tests",
        "edgebench bench model.tflite --on pi5/nucleo-l4r5zi": "needs a board; "
        "tests/loopback/test_serial_boards.py has one on a pseudo-terminal",
        "edgebench bench --on pi5/maker": "needs a board; test_serial_boards.py has one",
        "edgebench compare BASE --against CANDIDATE --fail-on 0.5%": "compares two revisions of a "
        "model; tests/loopback/test_boards.py does with docs/ci-gate.md",
    },
    "first-raspberry-pi.md": {
        "edgebench deploy pi@raspberrypi.local": "needs an account on another machine; "
        "tests/system/test_deploy.py has one behind a real SSH server",
    },
    "suspect.md": {},
    "first-campaign.md": {},
    "security.md": {},
    "add-a-runtime.md": {"pip install ./onnx-plain": "the wheel is unpacked instead"},
}
"""Commands by page, with the reason. test_documentation.py parses them."""


@pytest.fixture
def reader(host: Host, tmp_path: Path) -> Reader:
    """A reader with models under the names that the pages use."""
    need_runtime("ai-edge-litert")
    need_tool("bash")
    for name in ("model", "old"):
        shutil.copy(MODELS / "digits_fp32.tflite", tmp_path / f"{name}.tflite")
    shutil.copy(MODELS / "digits_int8.tflite", tmp_path / "new.tflite")
    return Reader(host, tmp_path)


@pytest.fixture
def raspberrypi(tmp_path: Path, host: Host) -> Iterator[AgentProcess]:
    """An agent of that name, with which the reader is paired."""
    agent = AgentProcess(tmp_path / "agent", options=["--name", "raspberrypi"]).start()
    host.lab.pair(agent.pairing_string())
    yield agent
    agent.kill()


def read_through(
    reader: Reader, page: str, codes: Callable[[str], tuple[int, ...]] = lambda _: RUN_ENDS
) -> None:
    """Carry out every command of a page in its order, but those with a reason."""
    left_out = dict(NOT_CARRIED_OUT[page])
    with ExitStack() as running:
        for command in shell_commands(DOCS / page):
            if command in left_out:
                del left_out[command]
            elif command.startswith(SERVED):
                running.enter_context(reader.left_running(command, "ready"))
            else:
                reader.type(command, codes(command))
    assert left_out == {}, "not on the page any more"


def test_getting_started_without_a_board(reader: Reader) -> None:
    """A newcomer's first ten minutes end with an error."""
    simulated = "raspberry-pi-5-bare"
    reader.stands_for = {
        f"serve --simulate {simulated}": f"serve --listen 127.0.0.1:0 --simulate {simulated}",
        "--sustained 1m": "--sustained 3s",
        "--pairs 6": "--pairs 2",
    }
    read_through(
        reader,
        "getting-started.md",
        lambda command: OUTCOMES if "--against" in command else RUN_ENDS,
    )
    assert len(reader.done) > 12


def test_first_raspberry_pi(reader: Reader, raspberrypi: AgentProcess) -> None:
    """A command that works on this machine does not on a paired device."""
    del raspberrypi
    reader.stands_for = {
        "--sustained 20m": "--sustained 3s",
        "--cpus 2,3 --threads 2": "--cpus 0 --threads 1",
        " --governor performance": "",  # a virtual machine has none
    }
    read_through(reader, "first-raspberry-pi.md")


def test_first_meter(reader: Reader, raspberrypi: AgentProcess) -> None:
    """The options of a real meter's page are refused by its driver."""
    del raspberrypi
    with Ppk2Emulator() as emulator:
        reader.stands_for = {
            PPK2: str(emulator.path),
            "--duration 10s": "--duration 1s",
            "--against new.tflite": "--against new.tflite --pairs 2",
        }
        # The current of the emulator follows no run, so an energy is refused, and told.
        read_through(reader, "first-meter.md", lambda _: (0, 1, 3, 4, 5))


def test_first_microcontroller(reader: Reader) -> None:
    """The boards of the page are none of QEMU's, or their firmware is missing."""
    need_tool("qemu-system-arm")
    read_through(reader, "first-microcontroller.md")


def test_first_campaign(reader: Reader) -> None:
    """The file of the page has a key that is refused, or the campaign cannot be looked at."""
    page = (DOCS / "first-campaign.md").read_text()
    [text] = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    text = text.replace("repeats = 3", "repeats = 1").replace("duration_s = 10", "duration_s = 0.3")
    (reader.folder / "night.toml").write_text(text)
    read_through(reader, "first-campaign.md")
    assert len(reader.done) == 5


def test_what_to_do_when_a_run_is_suspect(reader: Reader) -> None:
    """The advice is a command that fails."""
    reader.type("edgebench bench model.tflite", RUN_ENDS)
    with Ppk2Emulator() as emulator:
        reader.stands_for = {
            PPK2: str(emulator.path),
            "--sustained 20m": "--sustained 3s",
            "--duration 5m": "--duration 1s",
            "--runs 10": "--runs 2",
            "--cpus 2,3 --threads 2": "--cpus 0 --threads 1",
            " --governor performance": "",
        }
        read_through(reader, "suspect.md")


def test_security(reader: Reader, raspberrypi: AgentProcess) -> None:
    """Whoever sells a device cannot make edgebench forget it."""
    del raspberrypi
    read_through(reader, "security.md")
    assert not reader.host.devices


def test_add_a_runtime(reader: Reader) -> None:
    """The example is no runtime any more, or an agent does not find it by its entry point."""
    need_runtime("onnxruntime")
    text = (DOCS / "add-a-runtime.md").read_text()
    blocks = re.findall(r"^```(?:toml|python)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    source, installed = reader.folder / "onnx-plain", reader.folder / "installed"
    source.mkdir()
    for name, block in zip(
        ("pyproject.toml", "onnx_plain.py", "onnx_plain_model.py"), blocks, strict=True
    ):
        (source / name).write_text(block)
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(reader.folder)]
    subprocess.run(build, cwd=source, check=True, capture_output=True)
    [wheel] = reader.folder.glob("*.whl")
    zipfile.ZipFile(wheel).extractall(installed)
    reader.variables = {"PYTHONPATH": str(installed)}
    read_through(reader, "add-a-runtime.md", lambda _: OUTCOMES)
    assert reader.type("edgebench runs --json", (0,)).count('"onnx-plain"') == 1
    assert "check of the outputs" not in reader.type("edgebench show plain", (0,))
