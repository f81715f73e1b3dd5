"""A run of a microcontroller that timed windows and single inferences, as the host stores it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from edgebench.host.analysis.measurement import TargetTraces
from edgebench.host.analysis.run import analyse_target
from edgebench.host.export.exported import ExportedRun
from edgebench.host.show.sentences import described
from edgebench.host.store import files
from edgebench.host.store.layout import RAW_DIRECTORY
from edgebench.protocol.plain import to_plain
from edgebench.protocol.record import (
    FirmwareFacts,
    ModelFacts,
    Outcome,
    OutputFacts,
    RunRecord,
    RuntimeFacts,
    TargetMemory,
    TargetRecord,
    Window,
)
from edgebench.protocol.spec import Engine, RunSpec
from edgebench.protocol.traces import RECORD_FILE
from support.energy import events
from support.records import CREATED_UTC, DEVICE, ENVIRONMENT, RUN_ID

MODEL = ModelFacts("kws.tflite", "a" * 64, "tflite", 53936, "int8")
COUNT = 100
"""Inferences of a window: 105 ms each, by a counter of 80 MHz."""


def window(number: int) -> Window:
    """A window of ten seconds and a half by a counter of microseconds, one after another."""
    begin_ns = number * 12_000_000_000 + 1_000_000_000
    return Window(begin_ns, begin_ns + 10_510_000_000, COUNT, 10_510_000, 1e6)


BOARD = TargetRecord(
    model=MODEL,
    runtime=RuntimeFacts("firmware", "1.0"),
    inputs=(),
    outputs=(),
    firmware=FirmwareFacts("nucleo", "1.0", "b" * 64, 80e6),
    memory=TargetMemory(flash_bytes=100_000, ram_bytes=40_000, arena_bytes=16_000),
    output=OutputFacts("c" * 64, is_finite=True, sample_count=5),
    warmup_count=10,
    windows=tuple(map(window, range(5))),
    is_interrupted=False,
    inference_ticks=tuple(8_400_000 + 7 * (number % 13) for number in range(5 * COUNT)),
)


def stored_board_run(directory: Path, target: TargetRecord = BOARD) -> ExportedRun:
    """Store a run of this board in a directory, and read it again."""
    spec = RunSpec("firmware", engine=Engine.TARGET, duration_s=50.0, min_query_count=COUNT)
    record = RunRecord(
        RUN_ID, "host", spec, MODEL, DEVICE, ENVIRONMENT, Outcome.COMPLETED, target=target
    )
    marks = events(("starting", 0.2), ("loading", 0.4), ("measuring", 0.9), ("spooling", 60.0))
    record = replace(record, events=marks)
    (directory / RAW_DIRECTORY).mkdir(parents=True)
    (directory / RAW_DIRECTORY / RECORD_FILE).write_text(json.dumps(to_plain(record)))
    run = analyse_target(record, TargetTraces(), created_utc=CREATED_UTC, clock=None)
    run = replace(run, verdict=described(run.verdict))
    files.write_run(directory, run)
    return ExportedRun(run, directory)
