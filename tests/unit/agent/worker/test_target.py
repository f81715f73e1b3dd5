"""The measurement of a target that fails between its windows and its checks."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
from support.board_double import BoardDouble, BoardHabits, VirtualLine
from support.digits import FOLDER

from edgebench.agent.worker import target as worker_target
from edgebench.agent.worker.job import Job, Pipe
from edgebench.agent.worker.timeouts import TARGET_WINDOWS
from edgebench.firmware_bridge.board import Board
from edgebench.firmware_bridge.board_model import sent_model
from edgebench.firmware_bridge.driver import BoardWithModel
from edgebench.firmware_bridge.generate import generate
from edgebench.protocol.errors import BoardSilent
from edgebench.protocol.record import ModelFacts, TargetRecord
from edgebench.protocol.spec import RunSpec

MODEL = FOLDER / "digits_int8.tflite"


class LostStackReply(BoardWithModel):
    """A board of which the reply about its stack is lost."""

    def output_bytes(self) -> bytes:
        """Outputs of the model's type, which other firmware prints as decimals."""
        return bytes(10)

    def stack_peak_bytes(self) -> int | None:
        """Fail as if the reply did not end."""
        raise BoardSilent("the reply to `x-info` does not end")


def test_lost_size_of_the_stack_costs_no_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a lost reply after the last window would fail a run of many minutes."""
    data = MODEL.read_bytes()
    double = BoardDouble(BoardHabits(input_bytes=64))
    board = Board(VirtualLine(double))
    board.connect()
    target = LostStackReply(board, sent_model(data, generate(data, model_id="digits")), tmp_path)
    driver = SimpleNamespace(runtime="firmware", version="1", open=lambda *_, **__: target)
    monkeypatch.setattr(worker_target, "find_driver", lambda: driver)
    model = ModelFacts(MODEL.name, "0" * 64, "tflite", len(data))
    spec = RunSpec("firmware", duration_s=1.0, warmup_duration_s=0.1, is_checked=False)
    job = Job("run", spec, model, str(MODEL), None, 2**30, os.getpid(), target="/dev/ttyFAKE")
    records: list[TargetRecord] = []
    with Path(os.devnull).open("wb") as sink:
        worker_target.measure_target(job, Pipe(sink.fileno()), tmp_path, keep=records.append)
    assert len(records[-1].windows) == TARGET_WINDOWS
    assert not records[-1].is_interrupted
    assert records[-1].memory.stack_peak_bytes is None
