"""Emulated boards through a real agent and a real QEMU: measured, compared, and refused."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.agents import AgentProcess, Host, end_local_agent
from support.target_runs import assert_boards_only_beside_boards
from support.tools import need_tool
from support.traces import assert_is_read_back

from edgebench.firmware_bridge.board_fit import firmware_memory
from edgebench.host.bench.verify import verify
from edgebench.host.export.exported import find_exported
from edgebench.host.result.run import Run
from edgebench.host.result.verdict import State
from edgebench.protocol.spec import Engine

ROOT = Path(__file__).resolve().parents[2]
GATE = ROOT / "examples/instruction-gate.sh"
MODEL = "digits_int8.tflite"
BOARD = "mps2-an386"
PLACE = f"qemu:{BOARD}"
CAMPAIGN = f"""\
schema = 1
name = "both"
repeats = 2
[axes]
model = ["{MODEL}"]
device = ["local", "{PLACE}"]
[settings]
preset = "quick"
duration_s = 1.0                # of both runs together
min_query_count = 8
is_checked = false
cooldown_timeout_s = 0
"""


@contextmanager
def own_host() -> Iterator[Host]:
    """A host with an agent of its own, whose socket path is as short as the kernel requires."""
    with TemporaryDirectory(prefix="edgebench-", ignore_cleanup_errors=True) as folder:
        made = Host(Path(folder))
        yield made
        end_local_agent(made)


@pytest.fixture
def host() -> Iterator[Host]:
    """A host whose own agent has QEMU."""
    need_tool("qemu-system-arm")
    with own_host() as made:
        yield made


def measured(host: Host, *, is_profiled: bool = False) -> Run:
    """A run of the model on the emulated board."""
    (run,) = host.lab.bench(MODEL, on=[PLACE], is_profiled=is_profiled)
    return run.result


def path_of(host: Host, run: Run) -> Path:
    """Directory of a stored run."""
    return host.lab.store.directory(run.run_id)


def gate(host: Host, action: str, folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    """The example of docs/ci-gate.md, as the job of a repository runs it."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    return subprocess.run(
        [str(GATE), action, MODEL, str(folder), *options],
        env=os.environ | host.environment | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=170,
        check=False,
    )


def instructions(directory: Path) -> float:
    """Instructions per inference, from a run's directory."""
    metrics = json.loads((directory / "run.json").read_bytes())["metrics"]
    return float(metrics["instructions_per_inference"])


def slowed(sources: Path, folder: Path, board: str, spins: int) -> None:
    """Build firmware into a folder, each inference of which spins for so many turns."""
    path = ROOT / "devtools/build_firmware.py"
    spec = importlib.util.spec_from_file_location("build_firmware", path)
    assert spec is not None
    assert spec.loader is not None
    building = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = building  # where dataclasses look for their module
    spec.loader.exec_module(building)
    shutil.copytree(ROOT / "firmware_bridge/firmware", sources)
    inference = sources / "device/inference.c"
    call = "\t\tmodel_run(&device.model);\n\t\tuint64_t now"
    text = inference.read_text()
    assert text.count(call) == 1
    spin = f"\t\tfor (volatile uint32_t spin = 0; spin < {spins}; spin++) {{}}\n"
    inference.write_text(text.replace(call, spin + call))
    folder.mkdir()
    command = building.BOARDS[board].command(folder / f"{board}.elf")
    subprocess.run(command, cwd=sources, check=True)


def assert_profile_and_memory(run: Run) -> None:
    """The operators add up to the inference, and the firmware reports its memory."""
    assert (run.kind, run.verdict.state) == ("profile", State.VALID), run.verdict.failures
    profile, memory = run.metrics.profile, run.metrics.target_memory_bytes
    assert profile is not None
    assert profile.error is None
    names = [operator.operator for operator in profile.operators]
    assert names[0] == "DEPTHWISE_CONV_2D", "as the model's file names it"
    assert profile.sum_instructions_per_inference == pytest.approx(
        run.metrics.instructions_per_inference, rel=0.001
    )
    assert memory is not None
    flash_bytes, ram_bytes = 19_616, 5_680
    assert (memory.flash, memory.ram) == (flash_bytes, ram_bytes), "as in docs/firmware.md"
    code_bytes, data_bytes, stack_bytes = firmware_memory(BOARD)
    assert (memory.firmware_flash, memory.firmware_ram, memory.stack) == (
        code_bytes,
        data_bytes,
        stack_bytes,
    )
    assert memory.stack_peak is not None
    assert 100 < memory.stack_peak < stack_bytes
    assert memory.flash_total == flash_bytes + code_bytes
    assert memory.ram_total == ram_bytes + data_bytes + memory.stack_peak


def test_board_is_measured_like_any_device(host: Host) -> None:
    """Otherwise a board could lack its latency, vary between runs, or fail to verify."""
    run, second = measured(host), measured(host, is_profiled=True)
    assert run.verdict.state is State.VALID, run.verdict.failures
    assert (run.emulated, run.device.arch) == (True, "cortex-m4")
    assert (run.metrics.latency_ns, run.metrics.throughput_per_s) == (None, None)
    count = run.metrics.instructions_per_inference
    assert count is not None
    assert 1e4 < count < 1e7
    assert second.metrics.instructions_per_inference == pytest.approx(count, abs=10)
    assert_profile_and_memory(second)
    firmware = run.conditions.firmware
    assert firmware is not None
    assert firmware.sha256 is not None
    assert firmware.emulator is not None
    assert firmware.emulator.machine == BOARD
    console = path_of(host, run) / "raw/console.log"
    texts = [json.loads(line)["text"] for line in console.read_text().splitlines()]
    assert f"edgebench-{BOARD}" in "".join(texts)
    assert verify(host.lab.store, run.run_id) == []
    compared = host.run("compare", run.run_id, "--against", second.run_id, "--allow", "kind")
    assert (compared.returncode, "exact" in compared.stdout + compared.stderr) == (0, True)
    shown = host.run("show", run.run_id).stdout
    assert "EMULATED" in shown
    assert f"{count:,.0f}" in shown


def test_slower_kernel_is_a_regression_by_one_run_a_side(
    host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a kernel 0.1 % slower in instructions would pass, or every change would fail.

    Runs as the job that guards a repository does: by its script, with a base run in a folder.
    """
    need_tool("arm-none-eabi-gcc")
    guarded = tmp_path / "guarded"
    base = guarded / "base"
    kept = gate(host, "keep", guarded)
    assert kept.returncode == 0, kept.stderr
    count = instructions(base)
    same = gate(host, "check", guarded)
    assert (same.returncode, "exact" in same.stdout) == (0, True), same.stdout + same.stderr
    share = 0.001
    spins = round(share * count / 6)  # a turn is a load, an add, a store, a branch …
    folder = tmp_path / "slowed"
    slowed(tmp_path / "sources", folder, BOARD, spins)
    monkeypatch.setenv("EDGEBENCH_FIRMWARE", str(folder))
    with own_host() as other:  # with an agent of its own, which has this variable
        worse = gate(other, "check", guarded, "--allow", "firmware")
    assert worse.returncode == 4, worse.stdout + worse.stderr
    [after] = (guarded / "candidate/runs").iterdir()
    assert instructions(after) == pytest.approx(count * (1 + share), rel=share / 2)
    refused = host.run("compare", str(base), "--against", str(after))
    assert (refused.returncode, "firmware" in refused.stderr) == (2, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "usage: "),
        (("check", MODEL), "usage: "),
        (("compare", MODEL, "{folder}"), "usage: "),
        (("check", MODEL, "{folder}"), "no base run in "),
    ],
)
def test_gate_that_is_called_wrongly_measures_and_removes_nothing(
    tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    """Otherwise a mistyped call would remove the candidate, or cost a run before it is reported."""
    kept = tmp_path / "candidate/kept"
    kept.mkdir(parents=True)
    result = subprocess.run(
        [str(GATE), *(word.format(folder=tmp_path) for word in words)],
        env={"PATH": "/bin:/usr/bin"},
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )
    assert (result.returncode, result.stderr.startswith(said)) == (2, True), result.stderr
    assert [path for path in tmp_path.rglob("*") if path != kept.parent] == [kept]


def test_campaign_measures_a_machine_and_a_board_of_it(host: Host, tmp_path: Path) -> None:
    """Otherwise a board would be measured as a machine, or each of its runs would take too long."""
    file = tmp_path / "campaign.toml"
    file.write_text(CAMPAIGN)
    result = host.run("campaign", "run", str(file), "--json")
    assert result.returncode in (0, 3), result.stderr
    table = host.lab.campaign("both").table()
    assert list(table["device"]) == ["local", "local", f"local/{PLACE}", f"local/{PLACE}"]
    assert list(table["state"]) == ["measured"] * 4
    assert list(table["latency_ns_p50"].notna()) == [True, True, False, False]
    counts = table["instructions_per_inference"]
    assert list(counts.notna()) == [False, False, True, True]
    # Each count is off by up to two ticks of the counter, and a tick is five instructions.
    assert counts[2] == pytest.approx(counts[3], abs=20)
    first, second = table["run_id"][2:]
    for run_id in (first, second):
        spec = host.lab.run(run_id).result.spec
        assert (spec.engine, spec.duration_s) == (Engine.TARGET, 0.5)
    compared = host.run("compare", first, "--against", second)
    assert (compared.returncode, "exact" in compared.stdout + compared.stderr) == (0, True)
    traces = [assert_is_read_back(one) for one in find_exported(host.lab.store, table["run_id"])]
    assert {len(trace.windows) > 0 for trace in traces} == {True, False}


def test_board_that_is_none_is_told_with_those_that_are(host: Host) -> None:
    """Otherwise a mistyped board name, or a machine without QEMU, would end in a traceback."""
    wrong = host.run("bench", MODEL, "--on", "qemu:mps2-an38")
    assert wrong.returncode != 0
    assert PLACE in wrong.stderr


def test_board_without_an_emulator_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the message would be that there is no such seat, not what is missing."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with own_host() as host:
        refused = host.run("bench", MODEL, "--on", PLACE)
    assert refused.returncode != 0
    assert "apt install qemu-system-arm" in refused.stderr


def test_boards_run_side_by_side_but_never_beside_their_machine(tmp_path: Path) -> None:
    """Otherwise emulators would disturb a run of the machine, or two boards would run in turn."""
    need_tool("qemu-system-arm")
    agent, host = AgentProcess(tmp_path / "agent"), Host(tmp_path / "host")
    with ExitStack() as stack:
        agent.start()
        stack.callback(agent.kill)
        host.lab.pair(agent.pairing_string())
        name = host.devices[0].name
        machine, one, other = (
            stack.enter_context(host.lab.connect(place))
            for place in (name, f"{name}/qemu:mps2-an385", f"{name}/qemu:mps3-an547")
        )
        assert_boards_only_beside_boards(machine, one, other)
