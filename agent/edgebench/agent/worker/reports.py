"""Reports of a worker on its pipe, validated before use.

A worker may be hostile as soon as it reads its model. So its reports are restricted:

- the lines are bounded in number, size and value;
- phases must come in order;
- no report extends the time limit of the run, which `timeouts` computes from the job.

This module does no I/O and reads no clock. The caller passes the time of each line.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any, cast

from edgebench.agent.runtimes.text import library_line
from edgebench.agent.worker import timeouts
from edgebench.agent.worker.job import COMPLETE, REACHED, WAITING, Job
from edgebench.agent.worker.timeouts import PHASES, phase_limit_s, run_limit_s
from edgebench.protocol.bounds import MAX_COUNT, MAX_TIME_NS
from edgebench.protocol.errors import (
    EdgebenchError,
    RemoteProtocolError,
    WorkerDied,
    error_from_code,
)
from edgebench.protocol.plain import from_plain
from edgebench.protocol.record import Confinement, Phase, PhaseProgress

MAX_LINE_BYTES = 16 * 1024
MAX_PIPE_BYTES = 256 * 1024
"""Initial limit on the total bytes of a worker's lines; it grows by `PIPE_BYTES_PER_S` per
second."""
PIPE_BYTES_PER_S = 1024
"""Bytes that a worker may send for each second of its life, beyond `MAX_PIPE_BYTES`. For
comparison, a worker sends a line of progress of 100 bytes once a second."""
REACHED_LEAST_S = 0.2
"""Shortest interval between two lines of progress that are passed to the caller; lines in between
are dropped."""


@dataclass(frozen=True, slots=True)
class PhaseStart:
    """Start of a phase of the worker."""

    phase: Phase
    expected_s: float | None
    time_ns: int


class WorkerReports:
    """State of a worker, according to its reports."""

    def __init__(self, job: Job, begin_s: float) -> None:
        """Create the state of a worker that is starting.

        Args:
            job: Job of the worker.
            begin_s: The time now, seconds; later times must be from the same clock.
        """
        self._job = job
        self._begin_s = begin_s
        self._run_end_s = begin_s + run_limit_s(job)
        self._step = 0
        self._phase_begin_s = begin_s
        self._phase_limit_s = phase_limit_s(job, Phase.STARTING)
        self._received_bytes = 0
        self._last_report_s = self._reached_s = begin_s
        self._has_waited = False
        self._is_phase_reached = False
        self.confinement: Confinement | None = None
        """Confinement that the worker reports before it reads the model. None before that report,
        and always None for a target."""
        self.failure: EdgebenchError | None = None
        """Failure that the worker reported; None if it reported none."""
        self.is_complete = False
        """Whether the worker's record is final, regardless of how the worker ends."""

    def go(self, now_s: float) -> None:
        """Start the time limits of the run; until this call, the worker only waits."""
        self._run_end_s = now_s + run_limit_s(self._job)
        self._begin(self._phase_limit_s, now_s)

    @property
    def phase(self) -> Phase:
        """The current phase."""
        return PHASES[self._step]

    @property
    def limit_s(self) -> float:
        """Time limit of the current phase, seconds, for error messages."""
        return self.deadline_s - self._phase_begin_s

    @property
    def deadline_s(self) -> float:
        """Time at which the worker is killed, unless it enters a later phase before that time."""
        end_s = min(self._phase_begin_s + self._phase_limit_s, self._run_end_s)
        if self._is_dataset_of_a_target:
            return min(end_s, self._last_report_s + timeouts.CHECK_TIMEOUT_S)
        return end_s

    @property
    def _is_dataset_of_a_target(self) -> bool:
        return self.phase is Phase.CHECKING and self._job.target is not None

    def take(self, line: bytes, now_s: float) -> PhaseStart | PhaseProgress | None:
        """Process a line; return the phase that it starts, the progress to forward, or None.

        Raises:
            WorkerDied: the line is malformed, out of order, or exceeds the limit of bytes.
        """
        self._received_bytes += len(line)
        if self._received_bytes > MAX_PIPE_BYTES + PIPE_BYTES_PER_S * (now_s - self._begin_s):
            raise WorkerDied(f"worker sent more than {MAX_PIPE_BYTES} bytes of reports")
        try:
            return self._take(line, now_s)
        except (
            *(ValueError, KeyError, TypeError, OverflowError, RecursionError),
            RemoteProtocolError,
        ) as exc:
            raise WorkerDied("worker sent an unreadable message") from exc

    def _take(self, line: bytes, now_s: float) -> PhaseStart | PhaseProgress | None:
        parsed: object = json.loads(line)
        if not isinstance(parsed, dict):
            raise TypeError(line)
        fields = cast(dict[str, Any], parsed)
        if WAITING in fields:
            if self._has_waited or self._step:
                raise WorkerDied("worker reported its start twice")
            self._has_waited = True
            if fields[WAITING] is not None:
                self.confinement = from_plain(fields[WAITING], Confinement)
            return None
        if COMPLETE in fields:
            if self.phase is not Phase.CHECKING or self.is_complete:
                raise WorkerDied("worker reported the end of its checks out of order")
            self.is_complete = True
            self._begin(timeouts.COMPLETE_TIMEOUT_S, now_s)
            return None
        if "failed" in fields:
            text = library_line(fields["failed"])
            self.failure = error_from_code(int(fields["code"]), text)
            return None
        if REACHED in fields:
            return self._reached(from_plain(fields[REACHED], PhaseProgress), now_s)
        return self._phase(fields, now_s)

    def _reached(self, reached: PhaseProgress, now_s: float) -> PhaseProgress | None:
        if not 0 <= reached.done <= reached.total <= MAX_COUNT:
            raise ValueError(reached)
        self._last_report_s = now_s
        is_last = reached.done == reached.total and not self._is_phase_reached
        if not is_last and now_s - self._reached_s < REACHED_LEAST_S:
            return None
        self._is_phase_reached = self._is_phase_reached or is_last
        self._reached_s = now_s
        return reached

    def _phase(self, fields: dict[str, Any], now_s: float) -> PhaseStart:
        phase, time_ns, expected_s = Phase(fields["phase"]), fields["time_ns"], fields["expected_s"]
        if type(time_ns) is not int or not 0 <= time_ns <= MAX_TIME_NS:
            raise ValueError(time_ns)
        if expected_s is not None:
            if isinstance(expected_s, bool) or not isinstance(expected_s, (int, float)):
                raise TypeError(expected_s)
            expected_s = float(expected_s)
            if not (math.isfinite(expected_s) and expected_s >= 0):
                raise ValueError(expected_s)
        if self.is_complete or phase not in PHASES[self._step + 1 :]:
            raise WorkerDied(f"worker reported the phase {phase.value} after {self.phase.value}")
        self._step = PHASES.index(phase, self._step + 1)
        self._last_report_s, self._is_phase_reached = now_s, False
        self._reached_s = now_s - REACHED_LEAST_S
        self._begin(phase_limit_s(self._job, phase, expected_s or 0.0), now_s)
        if expected_s is not None:  # limited by its timeout, which the job bounds
            expected_s = min(expected_s, self._phase_limit_s)
        return PhaseStart(phase, expected_s, time_ns)

    def _begin(self, limit_s: float, now_s: float) -> None:
        self._phase_begin_s, self._phase_limit_s = now_s, limit_s
