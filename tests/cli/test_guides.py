"""The commands of the guides are executed in the order in which a reader types them.

All pages share one host, one agent and one simulated Raspberry Pi. The tables below hold the
changes made to commands, and the commands that are not executed with the reason.
`test_documentation.py` parses the commands of all pages.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from support.agents import AgentProcess, Host, end_local_agent
from support.failures import assert_one_error
from support.ppk2 import Ppk2Emulator
from support.tools import need_runtime, need_tool

from edgebench.host.bench.builtin import find_model
from edgebench.host.cli import demo
from edgebench.host.cli.main import main
from edgebench.host.store.annotations import annotate
from edgebench.host.store.layout import Store
from edgebench.protocol.identity import parse_pairing_string

ROOT = Path(__file__).parents[2]
EXECUTED = (
    "getting-started.md",
    "tour.md",
    "README.md",
    "first-raspberry-pi.md",
    "first-meter.md",
    "first-microcontroller.md",
    "first-campaign.md",
    "suspect.md",
    "report.md",
    "bundles.md",
    "export.md",
    "history.md",
    "results.md",
)
SHORT = (
    *("--runs", "1", "--duration", "0.1s", "--min-queries", "50"),
    *("--warmup", "2", "--warmup-duration", "0.05s"),
    *("--no-check", "--cooldown", "0s"),
)
"""Options of every `bench`, in the place of those that the page has."""
SHORTER = {
    "--against": ("--pairs", "1", *SHORT[2:]),
    "--sustained": ("--sustained", "1s", "--no-check", "--cooldown", "0s"),
    "--profile": SHORT[2:],
    "--accuracy": ("--accuracy-samples", "10"),
    "--meter": ("--idle", "0.5s"),
}
"""Options of those with this one; `--meter` and `--accuracy` have the others as well."""
DEMO_S = 1.0
"""Length of the run of `edgebench demo`; test_demo.py has one that heats the board."""
ENOUGH = {"meters selftest": ("--duration", "1s"), "meters record": ("--duration", "0.2s")}
REPLACED = {
    "BASE": "before",
    "BASELINE": "before",
    "CANDIDATE": "after",
    "resnet8.tflite": "digits_int8.tflite",
    "pi5": "*",
}
"""Words of a page, and runs of the store that they stand for."""
FILES = {
    "model.tflite": "digits_int8.tflite",
    "int8.tflite": "digits_int8.tflite",
    "fp32.tflite": "digits_fp32.tflite",
    "old.tflite": "digits_fp32.tflite",
    "new.tflite": "digits_int8.tflite",
    "other.tflite": "digits_fp32.tflite",
    "model.onnx": "digits_int8.onnx",
}
"""Files that a reader has, as copies of built-in models."""
TAGS = {
    "20261123-031049-420b03bc": ("metered",),
    "20261123-031112-2510a256": ("before", "baseline", "nightly"),
    "20261123-031114-392467a9": ("after", "candidate"),
}
"""Runs that a reader has."""
SET = "set-4daa8f8e"
"""Set of the last two."""

NOT_EXECUTED = {
    r"make (bench|test)": "CI runs it first of all",
    r"python3 -m venv .*|source .*|.*pip install .*": "installs packages: CI's first step, and "
    "tests/system/install/from_wheels.py",
    r"sudo apt install .*": "installs packages of the system",
    r"edgebench deploy .*": "needs SSH to a device: tests/system/test_deploy.py",
    r"edgebench .*--on pi5.*": "needs a microcontroller or a Pi with a power chip: test_boards.py",
    r"edgebench bridge list.*": "opens what is at the serial ports of this machine: test_bridge.py",
    r"edgebench bench .*--sync coded_load.*": "plays its code for 20 s: test_trace.py",
    r"edgebench energy last .*": "needs the file that an instrument recorded then: test_trace.py",
    r"edgebench bench .*--metric energy_j": "needs a meter that sees the load: test_energy.py",
    r"edgebench bench .*--governor .*": "needs root and a CPU with governors: test_bench.py",
    r"edgebench campaign watch": "ends with the campaign: tests/loopback/test_campaign.py",
    r"edgebench report int8-or-fp32": "needs a campaign of that name: first-campaign.md",
    r"edgebench compare night.zip --against last": "needs two like runs: test_compare.py",
}
"""Commands that no test can execute here, and why; a test elsewhere has the emulated hardware."""

ENDINGS = {
    "bench": (0, 3, 4, 5),
    "compare": (0, 4, 5),
    "history": (0, 4, 5),
    "changes": (0, 4, 5),
    "campaign": (0, 3),
    "meters": (0, 3),
}
"""Exit codes of a command that did what it should; a machine that is busy makes runs invalid."""
PROGRAMS = r"(edgebench|edgebench-agent|make|pip|python3|sudo|source|eval|\.venv/bin/\w+) .*"


def page_path(name: str) -> Path:
    """A page of docs/, or the README."""
    return ROOT / name if name == "README.md" else ROOT / "docs" / name


def lines_of(name: str) -> list[str]:
    """The commands in the blocks of a page, without their comments."""
    text = page_path(name).read_text()
    blocks = re.findall(r"^```(\w*)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    shell = [block for language, block in blocks if not language]
    lines = [line for block in shell for line in re.sub(r"\\\n\s*", "", block).splitlines()]
    return [line.partition(" #")[0].strip() for line in lines if re.fullmatch(PROGRAMS, line)]


def reason(line: str) -> str | None:
    """Why this command is not executed; None if it is."""
    return next((why for text, why in NOT_EXECUTED.items() if re.fullmatch(text, line)), None)


@dataclass(frozen=True)
class Reader:
    """A user who types the commands of a page."""

    host: Host
    ports: dict[str, str]
    """Ports of a page, and those of the emulators."""
    running: ExitStack
    raspberry: AgentProcess
    pairing: list[str] = field(default_factory=list[str])
    """Strings that `edgebench-agent pair` has printed, and nobody used."""
    executed: list[list[str]] = field(default_factory=list[list[str]])
    """Words of `serve` and `bench`: two pages may have the same, once they are short."""

    def execute(self, line: str, said: pytest.CaptureFixture[str]) -> None:
        """Execute one command; it must end as expected."""
        program, *words = shlex.split(line)
        if program == "edgebench-agent":
            self._agent(words)
            return
        words = shortened_command([self._replaced(word) for word in words])
        if words[0] == "bench" and self._is_repeated(words):
            return
        try:
            code = main(words)
        except SystemExit as exc:
            code = int(exc.code or 0)
        out, err = said.readouterr()
        assert_one_error(words, code, err)
        assert code in ENDINGS.get(words[0], (0,)), f"{line}\n{shlex.join(words)}\n{err}\n{out}"

    def _replaced(self, word: str) -> str:
        if word.startswith("edgebench://"):
            return self.pairing.pop() if self.pairing else self.raspberry.pairing_string()
        if word.startswith("set-"):
            return SET
        for port, emulator in self.ports.items():
            word = word.replace(port, emulator)
        return REPLACED.get(word, word)

    def _is_repeated(self, words: Sequence[str]) -> bool:
        is_repeated = sorted(words) in self.executed
        self.executed.append(sorted(words))
        return is_repeated

    def _agent(self, words: Sequence[str]) -> None:
        """`serve` keeps running; `pair` prints the input of the next command."""
        command = [sys.executable, "-m", "edgebench.agent", *words]
        environment = os.environ | self.host.environment
        if words[0] == "serve":
            if self._is_repeated(words):
                return
            command += ["--listen", "127.0.0.1:0", "--no-advertise"]
            process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
            self.running.callback(process.wait)
            self.running.callback(process.kill)
            assert process.stdout is not None
            self.running.enter_context(process.stdout)
            assert process.stdout.readline().startswith("ready ")
        else:
            done = subprocess.run(
                command, env=environment, check=True, capture_output=True, text=True
            )
            if words[0] == "pair":
                printed = parse_pairing_string(done.stdout.split()[0])
                self.pairing.append(str(replace(printed, addresses=("127.0.0.1",))))


def shortened_command(words: Sequence[str]) -> list[str]:
    """The command with options that shorten it."""
    command = " ".join(words[:2])
    if words[0] != "bench":
        return [*words, *ENOUGH.get(command, ())]
    if any("qemu:" in word for word in words):
        return [*words, "--no-check", "--runs", "1"]
    chosen = [option for option in SHORTER if option in words]
    short = [] if chosen and chosen[0] not in ("--meter", "--accuracy") else [*SHORT]
    short += [word for option in chosen for word in SHORTER[option]]
    kept = list(words)
    for option in ("--runs", "--duration", "--pairs", "--sustained"):
        if option in kept and option in short:
            at = kept.index(option)
            del kept[at : at + 2]
    return [*kept, *short]


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    """A reader with a simulated Raspberry Pi and an emulated PPK2."""
    need_runtime("ai-edge-litert")
    with ExitStack() as running:
        folder = Path(running.enter_context(TemporaryDirectory(prefix="edgebench-guides-")))
        host = Host(folder)
        running.callback(end_local_agent, host)
        options = ["--name", "raspberrypi", "--simulate", "raspberry-pi-5-cooled"]
        agent = AgentProcess(folder / "agent", options=options).start()
        running.callback(agent.kill)
        host.lab.pair(agent.pairing_string())
        store = Store(folder / "data/edgebench")
        for run_id, tags in TAGS.items():
            shutil.copytree(ROOT / "tests/fixtures/runs/v7" / run_id, store.runs / run_id)
            annotate(store, run_id, partial(replace, tags=tags))
        ppk2 = running.enter_context(Ppk2Emulator())
        yield Reader(host, {"/dev/ttyACM0": str(ppk2.path)}, running, agent)


@pytest.fixture
def place(reader: Reader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Folder in which the reader types, with the files that the pages name."""
    for name, value in (reader.host.environment | {"BROWSER": "true"}).items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("EDGEBENCH_STORE", raising=False)
    monkeypatch.setattr(demo, "SUSTAINED_S", DEMO_S)
    monkeypatch.chdir(tmp_path)
    for name, model in FILES.items():
        shutil.copy(find_model(model).path, name)
    shape = (20, 8, 8, 1)
    np.savez("set.npz", x=np.zeros(shape, np.float32), y=np.zeros(20, np.int64))
    page = page_path("first-campaign.md").read_text()
    [text] = re.findall(r"^```toml\n(.*?)^```", page, re.DOTALL | re.MULTILINE)
    Path("night.toml").write_text(shortened(text))
    return tmp_path


def shortened(campaign: str) -> str:
    """The campaign of the page, with two runs instead of twenty."""
    for old, new in (
        ("repeats = 5", "repeats = 1"),
        ("threads = [1, 2]", "threads = [1]"),
        ('duration = "10s"', 'duration = "0.1s"\nmin_queries = 50\ncooldown = "0s"'),
    ):
        assert old in campaign
        campaign = campaign.replace(old, new)
    return campaign


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", EXECUTED)
def test_commands_of_a_page_work_in_their_order(
    name: str, reader: Reader, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise a newcomer who follows the page would get an error."""
    if any("qemu:" in line for line in lines_of(name)):
        need_tool("qemu-system-arm")
    for line in lines_of(name):
        if reason(line) is None:
            reader.execute(line, capsys)


def test_every_reason_is_one_of_a_command_that_there_is() -> None:
    """Otherwise the list would excuse a command that the page no longer has, or a whole page."""
    lines = {name: lines_of(name) for name in EXECUTED}
    every = [line for found in lines.values() for line in found]
    assert [
        text for text in NOT_EXECUTED if not any(re.fullmatch(text, one) for one in every)
    ] == []
    for name, found in lines.items():
        assert [line for line in found if reason(line) is None], name
    guide = [line for line in lines["getting-started.md"] if reason(line)]
    assert [line for line in guide if line.startswith("edgebench")] == []
