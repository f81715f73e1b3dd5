"""Hostile and odd model files through a real agent: one clear line each, and the agent survives."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.agents import AgentProcess, Host, wait_until
from support.onnx_bytes import addition
from support.tools import need_runtime, need_shared

from edgebench.host.bench.builtin import find_model
from edgebench.host.bench.model import open_model
from edgebench.host.cli.progress import ProgressWatcher
from edgebench.protocol.errors import EdgebenchError, ModelNotFetched, WorkerTimeout
from edgebench.protocol.spec import Limits

pytestmark = pytest.mark.timeout(240)

LOAD_TIMEOUT_S = 4.0
QUICK: dict[str, Any] = {
    "duration_s": 0.02,
    "min_query_count": 20,
    "warmup_query_count": 1,
    "warmup_duration_s": 0.0,
    "sample_count": 4,
}
GROWTH_LIMIT_BYTES = 8 * 2**20
RUNTIMES = {"tflite": ("litert", "tflite"), "onnx": ("onnx",)}
PACKAGES = {"litert": "ai-edge-litert", "tflite": "tflite-runtime", "onnx": "onnxruntime"}
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""Characters that move a cursor, colour a terminal or turn text around."""


@dataclass
class Ending:
    """How the run of a file ended on a runtime."""

    line: str = ""
    """Message to the user, as the command line prints it."""
    error: EdgebenchError | None = None
    verdict: str = ""


@dataclass
class Bench:
    """An agent that survives all of this, and a host that is paired with it."""

    agent: AgentProcess
    host: Host
    resident_bytes_before: int = 0
    """The agent's memory after good models were run on every runtime."""
    endings: dict[str, dict[str, Ending]] = field(default_factory=dict)
    """By folder, then by `FILE on RUNTIME`."""

    def measure_good(self) -> int:
        """Measure good models on every runtime, and return the agent's memory afterwards.

        Memory is compared after the same work: an agent that has just sent a long trace has more.
        """
        good = [find_model(name).path for name in ("digits_int8.tflite", "digits_int8.onnx")]
        assert all(ending.verdict for ending in self.measure(*good).values())
        return self.agent.resident_bytes()

    def measure(self, *models: Path) -> dict[str, Ending]:
        """Measure these files on every runtime that loads them."""
        limits = Limits(load_timeout_s=LOAD_TIMEOUT_S)
        with ProgressWatcher(is_quiet=False) as watcher:
            self.host.lab.bench(
                *models,
                runs=1,
                on=["board"],
                runtime="all",
                limits=limits,
                watcher=watcher.notify,
                **QUICK,
            )
        ended = {
            one.title: Ending(line=f"error: {one.title}: {one.error}", error=one.error)
            for one in watcher.failures
        }
        for run in watcher.runs:
            what = f"{run.model.name} on {run.runtime.name}"
            assert what not in ended
            ended[what] = Ending(verdict=run.verdict.state.value)
        return ended

    def ended(self, folder: str) -> dict[str, Ending]:
        """How the runs of all files of a corpus folder ended; each is measured once."""
        if folder not in self.endings:
            self.endings[folder] = self._end_all(folder)
        return self.endings[folder]

    def _end_all(self, folder: str) -> dict[str, Ending]:
        refused: dict[str, Ending] = {}
        sent: list[Path] = []
        for path in corpus(folder):
            try:
                sent.append(open_model(path).path)
            except ModelNotFetched as error:  # refused by the host, before a device is used
                ending = Ending(line=f"error: {error}", error=error)
                refused |= {f"{path.name} on {name}": ending for name in RUNTIMES[folder]}
        return refused | self.measure(*sent)


def corpus(folder: str) -> list[Path]:
    """The model files of a folder."""
    files = sorted(need_shared(f"models/bad/{folder}").iterdir())
    return [path for path in files if path.suffix in (".tflite", ".onnx")]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    """One agent for the whole corpus; every runtime has been used once."""
    for package in PACKAGES.values():
        need_runtime(package)
    folder = tmp_path_factory.mktemp("bad")
    agent = AgentProcess(folder / "agent", options=["--name", "board"]).start()
    made = Bench(agent, Host(folder / "host"))
    try:
        made.host.lab.pair(agent.pairing_string())
        made.resident_bytes_before = made.measure_good()
        yield made
    finally:
        agent.kill()


@pytest.mark.parametrize("folder", ["onnx", "tflite"])
def test_every_bad_file_ends_in_one_clear_line(bench: Bench, folder: str) -> None:
    """Otherwise a hostile file could measure as valid, crash something, or end unreadably."""
    ended = bench.ended(folder)
    expected = {f"{path.name} on {name}" for path in corpus(folder) for name in RUNTIMES[folder]}
    assert set(ended) == expected
    problems = {}
    for what, ending in ended.items():
        if ending.error is None:
            if ending.verdict != "invalid":
                problems[what] = f"measured as {ending.verdict}"
        elif not ending.line.isprintable() or len(str(ending.error)) < 15:
            problems[what] = f"not one clear line: {ending.line!r}"
    assert problems == {}


def test_odd_but_valid_files_are_measured_or_refused_in_one_clear_line(bench: Bench) -> None:
    """Otherwise an unusual but correct model could hang or crash the agent."""
    ended = bench.ended("odd_but_valid")
    for what, ending in ended.items():
        if ending.error is not None:
            assert ending.line.isprintable(), what
            assert len(str(ending.error)) >= 15, what
    measured = sum(ending.error is None for ending in ended.values())
    assert measured >= len(ended) / 2, {what: e.line for what, e in ended.items() if e.error}


@pytest.mark.parametrize("folder", ["onnx", "tflite", "odd_but_valid"])
def test_nothing_of_a_bad_file_is_left_on_the_device(bench: Bench, folder: str) -> None:
    """Otherwise workers, samplers or directories would pile up until the device is full."""
    bench.ended(folder)
    agent = psutil.Process(bench.agent.pid)
    wait_until(lambda: not agent.children(recursive=True), "workers and samplers are gone")
    assert list((bench.agent.state / "work").iterdir()) == []
    status = bench.agent.status()
    assert (status.running, status.spooled_count, status.lease_holder) == (None, 0, None)


def test_agent_does_not_grow_with_what_it_refuses(bench: Bench) -> None:
    """Otherwise each bad file would leave memory allocated, until the device runs out of it."""
    for folder in ("onnx", "tflite", "odd_but_valid"):
        bench.ended(folder)
    assert bench.measure_good() - bench.resident_bytes_before < GROWTH_LIMIT_BYTES


def test_agent_measures_a_good_model_after_all_of_this(bench: Bench) -> None:
    """Otherwise the agent could survive but be useless."""
    for folder in ("onnx", "tflite", "odd_but_valid"):
        bench.ended(folder)
    for name in ("digits_fp32.tflite", "digits_fp32.onnx"):
        for ending in bench.measure(find_model(name).path).values():
            assert ending.error is None, ending.line
    assert "Traceback" not in bench.agent.errors()


def test_endless_loop_is_stopped_when_its_time_is_over(bench: Bench) -> None:
    """Otherwise a model that never returns would hold the device for ever."""
    ending = bench.ended("onnx")["infinite_loop.onnx on onnx"]
    assert isinstance(ending.error, WorkerTimeout)
    assert f"after {LOAD_TIMEOUT_S:g} s" in str(ending.error)


@pytest.mark.parametrize("name", ["digits_fp32.tflite", "digits_fp32.onnx"])
def test_truncated_models_never_measure_as_valid(bench: Bench, name: str, tmp_path: Path) -> None:
    """Otherwise half of a file could kill the process inside a library, and the agent with it."""
    whole = find_model(name).path.read_bytes()
    paths = []
    for part in (0.25, 0.5, 0.75, 0.99):
        path = tmp_path / f"cut-{part}{Path(name).suffix}"
        path.write_bytes(whole[: int(len(whole) * part)])
        paths.append(path)
    for what, ending in bench.measure(*paths).items():
        assert ending.error is not None, f"{what} was measured as {ending.verdict}"
        assert ending.line.isprintable()
    assert bench.agent.status().running is None


def test_hand_made_model_that_answers_nan_is_invalid(bench: Bench, tmp_path: Path) -> None:
    """Otherwise a broken model would be printed with a number that looks good."""
    good, broken = tmp_path / "good.onnx", tmp_path / "broken.onnx"
    good.write_bytes(addition(1.0))
    broken.write_bytes(addition(float("nan")))
    ended = bench.measure(good, broken)
    rules = bench.host.lab.run("last").document["verdict"]["rules"]
    assert ended["broken.onnx on onnx"].verdict == "invalid"
    failed = {rule["id"] for rule in rules if rule["outcome"] == "fail"}
    assert "finite_outputs" in failed


AT_THE_COMMAND_LINE = [
    ("onnx/zip_bomb_512MiB.onnx", "onnx"),
    ("onnx/huge_const_40GB.onnx", "onnx"),
    ("onnx/external_traversal.onnx", "onnx"),
    ("tflite/truncated_half.tflite", "tflite"),
    ("tflite/huge_17TB.tflite", "litert"),
    ("tflite/zero_length.tflite", "litert"),
]


@pytest.mark.parametrize(("name", "runtime"), AT_THE_COMMAND_LINE)
def test_command_line_says_what_failed_and_what_to_do(
    bench: Bench, name: str, runtime: str
) -> None:
    """Otherwise the user or a script would get a traceback, exit code 0, or no remedy."""
    path = need_shared("models/bad") / name
    result = bench.host.run(
        *("bench", str(path), "--on", "board", "--runtime", runtime, "--timeout", "4s"),
        *("--quick", "--runs=1", "--duration", "0.1s", "--min-queries", "20"),
        *("--warmup", "1", "--warmup-duration", "0.05s", "--json"),
    )
    assert result.returncode == 1, result.stderr
    lines = result.stderr.splitlines()
    errors = [line for line in lines if line.startswith("error: ")]
    assert len(errors) == 1
    assert errors[0].startswith(f"error: {path.name} on {runtime}: ")
    assert errors[0].isprintable()
    hints = [line for line in lines if line.startswith("hint: ")]
    assert len(hints) == 1
    assert "edgebench" in hints[0]
    assert "Traceback" not in result.stderr
    document = json.loads(result.stdout)
    assert (document["runs"], document["sets"]) == ([], [])
    (error,) = document["errors"]
    assert (error["model"], error["runtime"], error["device"]) == (path.name, runtime, "board")
    assert errors == [f"error: {path.name} on {runtime}: {error['message']}"]
    assert hints == [f"hint: {error['hint']}"]


@pytest.mark.parametrize("name", ["evil_names.onnx", "evil_tensor_names.tflite"])
def test_names_inside_a_model_cannot_reach_the_terminal(bench: Bench, name: str) -> None:
    """Otherwise a model file could clear the screen or type for the user."""
    path = need_shared("models/bad/odd_but_valid") / name
    result = bench.host.run(
        *("bench", str(path), "--on", "board", "--quick", "--runs=1", "--duration", "0.1s"),
        *("--min-queries", "20", "--warmup", "1", "--warmup-duration", "0.05s", "--timeout", "10s"),
    )
    shown = bench.host.run("show", "last")
    for text in (result.stdout, result.stderr, shown.stdout, shown.stderr):
        assert not CONTROL.search(text), repr(CONTROL.search(text))
