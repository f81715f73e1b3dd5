"""The marks that a worker makes for a meter: pulses on a line, and the load code.

    load   pulses, code   warm-up   pulse [timed loop] pulse   pulses, code   results

No mark is made inside the timed loop: a pulse has ended when the loop starts, and the next pulse
begins after the loop has ended.
"""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import replace

from edgebench.agent.worker.job import Job, Pipe
from edgebench.agent.worker.load_code import chips_of, code_s, play, shifts_of
from edgebench.agent.worker.loop import wait_until
from edgebench.agent.worker.stop import STOP, StopRequested
from edgebench.agent.worker.sync_line import SyncLine, open_line, pulse
from edgebench.protocol.errors import TargetError
from edgebench.protocol.record import Phase, SyncFacts
from edgebench.protocol.spec import RunSpec

FIRST_SPACING_NS = (10_000_000, 20_000_000, 15_000_000)
"""Intervals of the pulses before the warm-up; all different, so that a lost pulse is detected."""
SECOND_SPACING_NS = FIRST_SPACING_NS[::-1]
"""Intervals of the pulses after the timed loop, in reverse order to distinguish both sequences."""

QUIET_S = 0.25
"""Idle time before the load code, because threads of a runtime may spin after an inference.

Measured on a 2-core AMD EPYC: threads of ONNX Runtime spin for 40 ms, and threads of LiteRT do not.
On a small board, they may spin longer."""


def are_wanted(spec: RunSpec) -> bool:
    """Whether a meter records the run."""
    has_code = spec.load_code_chip_s is not None
    return has_code or spec.meter is not None or spec.idle_duration_s > 0


class Marks:
    """Makes the marks and records their times; a sync line that fails never ends a run."""

    def __init__(self, job: Job, pipe: Pipe) -> None:
        self._pipe = pipe
        self._line: SyncLine | None = None
        self.facts = SyncFacts()
        self._chip_s = job.spec.load_code_chip_s
        # Drawn before the run, because the device has to be idle right before and after a code.
        self._codes = [
            (chips_of(job.run_id, number), shifts_of(job.run_id, number))
            for number in (range(2) if self._chip_s else ())
        ]
        """Chips (active or idle) and edge shifts of the codes that have not been played yet."""
        if job.sync_line and are_wanted(job.spec):
            try:
                self._line = open_line(job.sync_line)
            except TargetError as exc:
                self.facts = SyncFacts(line=job.sync_line, error=str(exc))
            else:
                self.facts = SyncFacts(line=job.sync_line, latency_ns=self._line.latency_ns)

    def before_warmup(self) -> None:
        """Make the first marks.

        Raises:
            StopRequested: a stop was requested during the marks.
        """
        self._make(FIRST_SPACING_NS)

    def pulse(self) -> None:
        """Make a complete pulse if there is a sync line; a stop does not cut the pulse short."""
        if self._line is None:
            return
        try:
            mark = pulse(self._line)
        except OSError as exc:
            self.close()
            self.facts = replace(self.facts, error=f"sync line lost: {exc.strerror}")
        else:
            self.facts = replace(self.facts, pulses=(*self.facts.pulses, mark))

    def after_loop(self) -> None:
        """Make the last marks; a stop ends them without an error, because the loop is complete."""
        with suppress(StopRequested):
            self._make(SECOND_SPACING_NS)

    def close(self) -> None:
        """Release the line; may be called twice."""
        if self._line is not None:
            self._line.close()
            self._line = None

    def _make(self, spacing_ns: tuple[int, ...]) -> None:
        if self._line is None and self._chip_s is None:
            return
        pulses_s = sum(spacing_ns) / 1e9 if self._line else 0.0
        play_s = QUIET_S + code_s(self._chip_s) if self._chip_s else 0.0
        self._pipe.phase(Phase.SYNCING, pulses_s + play_s)
        due_ns = time.perf_counter_ns()
        for after_ns in (0, *spacing_ns) if self._line else ():
            due_ns += after_ns
            wait_until(due_ns)
            self.pulse()
        if self._chip_s is not None:
            with STOP.armed():
                time.sleep(QUIET_S)
                code = play(*self._codes.pop(0), self._chip_s)
            self.facts = replace(self.facts, codes=(*self.facts.codes, code))
