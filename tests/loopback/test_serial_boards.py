"""Boards at serial ports through a real agent: our firmware on pseudo-terminals."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from support.agents import AgentProcess, Host, wait_until
from support.board_double import BoardDouble, BoardHabits, InterfaceDouble, StreamingDouble
from support.firmware_process import built
from support.target_runs import assert_boards_only_beside_boards
from support.terminal_board import TerminalBoard
from support.wake_words import sound, wake_model, wav

from edgebench.firmware_bridge.generate import generate
from edgebench.host.analysis.compare.comparability import check_comparable
from edgebench.host.bench.verify import verify
from edgebench.host.devices.health import CheckState
from edgebench.host.result.verdict import RuleOutcome, State
from edgebench.host.show.hints import hint_for
from edgebench.protocol.errors import (
    NoBoardProfiler,
    NotComparable,
    OwnModelOnly,
    UsageError,
)
from edgebench.protocol.messages import SeatState
from edgebench.protocol.record import Outcome
from edgebench.protocol.spec import SpecChanges

MODEL = "digits_int8.tflite"
FOREIGN = BoardHabits(
    name_line="m-name-dut-[maker]",
    input_bytes=490,
    buffer_bytes=1000,
    outputs=("0.084",) * 12,
    inference_us=200,
)
"""Third-party firmware, which has the keyword model in it."""
SHORT: SpecChanges = {
    "duration_s": 0.3,
    "min_query_count": 5,
    "warmup_duration_s": 0.05,
    "warmup_query_count": 1,
}

FEW: SpecChanges = {**SHORT, "max_query_count": 50}


@dataclass(slots=True)
class FailingDouble(BoardDouble):
    """A board whose firmware can be set to fail in the middle of a run."""

    windows_left: int = 1 << 30

    def _infer(self, arguments: list[str]) -> None:
        self.windows_left -= 1
        if self.windows_left < 0:
            self._say("e-[the sensor does not answer]")
        else:
            BoardDouble._infer(self, arguments)


@dataclass
class Desk:
    """An agent with two boards at its ports."""

    binary: Path
    folder: Path
    agent: AgentProcess
    host: Host
    boards: dict[str, subprocess.Popen[str]] = field(
        default_factory=dict[str, subprocess.Popen[str]]
    )
    foreign: TerminalBoard = field(default_factory=lambda: TerminalBoard(FailingDouble(FOREIGN)))
    streaming: TerminalBoard = field(
        default_factory=lambda: TerminalBoard(
            InterfaceDouble(StreamingDouble(), sounds={"short.wav": 40})
        )
    )
    """Wake-word firmware behind an interface board with a sound of 1.3 s."""

    def port(self, name: str) -> Path:
        """Path of a board's port."""
        return self.folder / f"tty-{name}"

    def plug_in(self, name: str) -> None:
        """Start a board; its port is there then."""
        command = [str(self.binary), "--board", name, "--link", str(self.port(name))]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        assert process.stdout.readline()
        self.boards[name] = process

    def unplug(self, name: str) -> None:
        """End a board, and its port with it.

        The link goes first: another test may get a terminal with the number of this one's.
        """
        self.port(name).unlink()
        process = self.boards.pop(name)
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()

    def unplug_all(self) -> None:
        """End all boards."""
        for name in list(self.boards):
            self.unplug(name)

    def seat(self, name: str) -> SeatState | None:
        """A seat as the agent has it."""
        return {seat.name: seat for seat in self.agent.status().seats}.get(name)

    @property
    def device(self) -> str:
        """Name of the agent, as the host has it."""
        return self.host.devices[0].name


@pytest.fixture(scope="module")
def desk() -> Iterator[Desk]:
    """The agent, with one board that has a name of the user's."""
    binary = built("posix", "gcc")
    with TemporaryDirectory(prefix="edgebench-") as name, ExitStack() as stack:
        folder = Path(name)
        agent, host = AgentProcess(folder / "agent"), Host(folder / "host")
        desk = Desk(binary, folder, agent, host)
        stack.callback(desk.unplug_all)
        for board in ("alpha", "beta"):
            desk.plug_in(board)
        named = f"left={desk.port('beta')}"
        stack.enter_context(desk.foreign)
        stack.enter_context(desk.streaming)
        hears = f"hears={desk.streaming.path},play=short.wav"
        boards = (str(desk.port("alpha")), named, desk.foreign.path, hears)
        agent.options = [word for one in boards for word in ("--board", one)]
        agent.start()
        stack.callback(agent.kill)
        host.lab.pair(agent.pairing_string())
        yield desk


def test_board_at_a_port_is_a_seat_with_its_own_name(desk: Desk) -> None:
    """Otherwise a board would have to be configured before it can be measured."""
    seats = {seat.name: seat for seat in desk.agent.status().seats}
    assert set(seats) == {"machine", "alpha", "left", "maker", "hears"}
    assert (seats["alpha"].device.profile, seats["alpha"].device.os) == ("generic-mcu", "none")
    (stored,) = desk.host.lab.bench(MODEL, on=[f"{desk.device}/alpha"], runs=1, **SHORT)
    run = stored.result
    assert run.metrics.throughput_per_s is not None
    assert run.conditions.firmware is not None
    assert run.conditions.firmware.name == "edgebench-alpha"
    assert verify(desk.host.lab.store, run.run_id) == []


def test_boards_run_side_by_side_but_never_beside_the_bridge(desk: Desk) -> None:
    """Otherwise boards would wait for each other, or their bridge disturb a run of the machine."""
    with ExitStack() as stack:
        machine, one, other = (
            stack.enter_context(desk.host.lab.connect(place))
            for place in (desk.device, f"{desk.device}/alpha", f"{desk.device}/left")
        )
        assert_boards_only_beside_boards(machine, one, other)


def test_board_that_leaves_and_comes_back_has_its_seat(desk: Desk) -> None:
    """Otherwise another board could continue the history of one that was unplugged."""
    before = desk.seat("left")
    assert before is not None
    desk.unplug("beta")
    wait_until(lambda: (s := desk.seat("left")) and s.gone_for_s is not None, "it has left")
    desk.plug_in("beta")
    wait_until(lambda: (s := desk.seat("left")) and s.gone_for_s is None, "it is back")
    after = desk.seat("left")
    assert after is not None
    assert after.device.id == before.device.id


def test_model_that_a_board_came_with_is_measured_without_a_file(desk: Desk) -> None:
    """Otherwise third-party firmware could not be measured, or its model pass for a file."""
    place = f"{desk.device}/maker"
    with pytest.raises(OwnModelOnly, match="kws01") as refused:
        desk.host.lab.bench(MODEL, on=[place], runs=1, **SHORT)
    assert hint_for(refused.value).endswith(f": edgebench bench --on {place}")
    profiled: SpecChanges = {**FEW, "is_profiled": True}
    with pytest.raises(NoBoardProfiler, match="its firmware is not edgebench's") as unprofiled:
        desk.host.lab.bench(on=[place], **profiled)
    assert "edgebench bridge flash BOARD" in hint_for(unprofiled.value)
    # So few queries would be windows of 2 ms; they are no rows of a trace here.
    (stored,) = desk.host.lab.bench(on=[place], runs=1, **FEW)
    run = stored.result
    assert (run.model.name, run.model.sha256, run.model.format) == ("kws01", None, "firmware")
    assert [one.shape for one in run.conditions.inputs] == [(1, 49, 10, 1)]
    rules = {rule.id: rule.outcome for rule in run.verdict.rules}
    assert rules["known_model"] is RuleOutcome.UNKNOWN
    assert rules["inputs_read_back"] is rules["enough_time"] is RuleOutcome.PASS
    assert isinstance(desk.foreign.board, FailingDouble)
    assert desk.foreign.board.violations == []
    assert verify(desk.host.lab.store, run.run_id) == []
    shown = desk.host.run("show", run.run_id).stdout
    assert "without a file or a hash" in shown
    (other,) = desk.host.lab.bench(MODEL, on=[f"{desk.device}/alpha"], runs=1, **SHORT)
    with pytest.raises(NotComparable, match=r"differ in model_source \(firmware / file\)$"):
        check_comparable([run], [other.result], ["device", "firmware", "arch"])


def test_board_that_came_with_its_model_is_checked_with_that(desk: Desk) -> None:
    """Otherwise an intact board could not be checked, or would be sent a model that it refuses."""
    (found,) = desk.host.lab.check(f"{desk.device}/maker")
    assert (found.state, found.model, found.reason) == (CheckState.WELL, "kws01", "")


def test_campaign_names_the_model_in_a_firmware_by_a_word(desk: Desk) -> None:
    """Otherwise such a board would be in no campaign, or be given a file that it never runs."""
    plan = desk.folder / "campaign.toml"
    axes = f'model = ["{MODEL}", "firmware"]\ndevice = ["{desk.device}/maker"]'
    settings = "duration_s = 0.3\nmin_query_count = 5\nwarmup_query_count = 1"
    plan.write_text(
        f'schema = 1\nname = "own"\nrepeats = 1\n[axes]\n{axes}\n[settings]\n{settings}\n'
    )
    said = desk.host.run("campaign", "run", str(plan))
    assert said.returncode == 1, "one of them takes no model"
    assert "accepts no model: its firmware contains kws01" in said.stdout
    told = json.loads(desk.host.run("campaign", "status", "--json").stdout)
    assert {row["model"]: row["state"] for row in told["runs"]} == {
        MODEL: "failed",
        "firmware": "measured",
    }


def test_model_in_a_firmware_that_has_none_is_refused(desk: Desk) -> None:
    """Otherwise "firmware" would measure a device with whatever has that name."""
    with pytest.raises(UsageError, match="has no model in its firmware"):
        desk.host.lab.bench("firmware", on=[f"{desk.device}/alpha"], runs=1, **SHORT)


def test_our_own_firmware_is_measured_while_it_listens(tmp_path: Path) -> None:
    """Otherwise it would count as accepting models, or the times of its audio frames be lost."""
    link, blob, sounds = tmp_path / "tty", tmp_path / "blob", tmp_path / "sound.wav"
    blob.write_bytes(generate(wake_model(), model_id="sww01").data)
    sounds.write_bytes(wav(sound(2000)))
    words = [str(built("posix", "gcc")), "--streaming", "--link", str(link)]
    words += ["--model", str(blob), "--sound", str(sounds)]
    board = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert board.stdout is not None
    board.stdout.readline()
    options = ["--name", "desk", "--board", f"wake={link}"]
    agent = AgentProcess(tmp_path / "agent", options=options).start()
    try:
        host = Host(tmp_path / "host")
        host.lab.pair(agent.pairing_string())
        (stored,) = host.lab.bench(on=["desk/wake"], runs=1, **SHORT)
    finally:
        agent.kill()
        board.kill()
        board.communicate()
    run = stored.result
    windows, latency = run.metrics.windows, run.metrics.latency_ns
    assert windows is not None
    assert latency is not None
    assert (run.model.name, windows.count) == ("sww01", 5)
    assert windows.inference_count == latency.count, "each audio frame has a time"
    assert latency.p50 is not None
    assert 0 < latency.p50 < 32_000_000
    assert run.metrics.throughput_per_s is None, "it is the pace of the sound"
    assert run.verdict.state is not State.INVALID
    assert verify(host.lab.store, run.run_id) == []


def test_streaming_firmware_is_measured_by_the_sound_that_is_played_to_it(desk: Desk) -> None:
    """Otherwise streaming firmware would have no number, or only the pace of the sound."""
    (stored,) = desk.host.lab.bench(on=[f"{desk.device}/hears"], runs=1, **SHORT)
    run = stored.result
    windows, latency = run.metrics.windows, run.metrics.latency_ns
    assert windows is not None
    assert latency is not None
    assert (run.model.name, windows.count, windows.warmup_count) == ("sww01", 5, 0)
    assert windows.inference_count == 5 * 40, "each window has the sound once"
    assert (latency.count, latency.p50, latency.max) == (200, 2_510_000, 2_520_000)
    assert run.metrics.throughput_per_s is None, "it is the pace of the sound"
    rules = {rule.id: rule for rule in run.verdict.rules}
    assert rules["inputs_read_back"].outcome is RuleOutcome.NOT_APPLICABLE
    assert rules["enough_time"].outcome is RuleOutcome.PASS
    assert windows.resolution_ratio == pytest.approx(2 / 250)
    assert run.verdict.state is State.VALID
    assert verify(desk.host.lab.store, run.run_id) == []
    shown = desk.host.run("show", run.run_id).stdout
    assert "2.51 ms" in shown
    assert "captured by the device" in shown


def test_windows_before_a_failure_are_kept_with_its_reason(desk: Desk) -> None:
    """Otherwise an hour of windows would be lost with the last one, or end without a reason."""
    board = desk.foreign.board
    assert isinstance(board, FailingDouble)
    board.windows_left = 9  # the first inference, a trial, one for each output, and two windows
    try:
        (stored,) = desk.host.lab.bench(on=[f"{desk.device}/maker"], runs=1, **SHORT)
    finally:
        board.windows_left = 1 << 30
    run = stored.result
    assert run.metrics.windows is not None
    assert run.metrics.windows.count == 2
    complete = next(rule for rule in run.verdict.rules if rule.id == "complete")
    assert complete.outcome is RuleOutcome.FAIL
    assert complete.facts["ended"] == Outcome.INTERRUPTED.value
    assert "the sensor does not answer" in str(complete.facts["why"])
