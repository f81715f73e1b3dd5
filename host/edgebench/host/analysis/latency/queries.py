"""Trace of the queries, and the latency of a query as each scenario defines it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.protocol.bounds import MAX_TIME_NS
from edgebench.protocol.errors import MeasurementError
from edgebench.protocol.spec import RunSpec, samples_per_query

Nanoseconds = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Queries:
    """One row per inference, in issue order, warm-up first; all columns have shape (n,).

    Attributes:
        scheduled_ns: Due time of the inference's query, device clock.
        start_ns: Time before its inputs were copied in.
        invoke_start_ns: Time when the inputs were in place.
        invoke_end_ns: Time when the model returned.
        end_ns: Time after the outputs were copied out.
        sample: Index of the prepared input.
        warmup_count: Number of rows, from the first, that were issued as warm-up.
    """

    scheduled_ns: Nanoseconds
    start_ns: Nanoseconds
    invoke_start_ns: Nanoseconds
    invoke_end_ns: Nanoseconds
    end_ns: Nanoseconds
    sample: NDArray[np.int64]
    warmup_count: int

    def __len__(self) -> int:
        return len(self.end_ns)

    @property
    def invoke_ns(self) -> Nanoseconds:
        """Duration of each invocation, shape (n,), warm-up included."""
        return self.invoke_end_ns - self.invoke_start_ns

    def check(self) -> None:
        """Reject an impossible trace.

        Raises:
            MeasurementError: the columns differ in length, a span ends before it starts, a query
                starts before it is due, inferences overlap, or a time is beyond the range of a
                clock.
        """
        columns = self.start_ns, self.invoke_start_ns, self.invoke_end_ns, self.end_ns
        if len({len(column) for column in (*columns, self.scheduled_ns, self.sample)}) > 1:
            raise MeasurementError("query trace has columns of different length")
        moments = np.stack(columns, axis=1).ravel()
        if np.any(moments[1:] < moments[:-1]):
            raise MeasurementError("query trace is not in order: the device clock went backwards")
        if np.any(self.start_ns < self.scheduled_ns):
            raise MeasurementError("query trace is not in order: a query started before it was due")
        if np.any(self.scheduled_ns[1:] < self.scheduled_ns[:-1]):
            raise MeasurementError(
                "query trace is not in order: a query was due before its predecessor"
            )
        # The first and the last of ordered times are the extremes; their difference must also fit.
        if len(moments) and not (
            self.scheduled_ns[0] >= -MAX_TIME_NS and moments[-1] <= MAX_TIME_NS
        ):
            raise MeasurementError("query trace has a time beyond the range of a clock")

    def span_ns(self, first_row: int, *, is_paused: bool) -> int:
        """Duration of the inferences from this row on, nanoseconds.

        Args:
            first_row: First row; at least one row follows.
            is_paused: Whether the loop paused between queries. If so, the time between inferences
                is left out.
        """
        passed_ns = int(self.end_ns[-1] - self.start_ns[first_row])
        return passed_ns - int(np.sum(self.gaps_ns(first_row))) if is_paused else passed_ns

    def gaps_ns(self, first_row: int) -> Nanoseconds:
        """Time between each inference from this row on and the next, shape (rows - 1,)."""
        gaps_ns: Nanoseconds = self.start_ns[first_row + 1 :] - self.end_ns[first_row:-1]
        return gaps_ns

    def query_ns(self, spec: RunSpec, first_row: int) -> Nanoseconds | None:
        """Latency of each query from this row on, as the scenario defines it, shape (queries,).

        In single-stream and server, a latency lasts from the due time to the outputs. In
        multi-stream, it lasts from the due time to the outputs of the last sample. Offline runs
        have None, because the run is a single query.

        Source: mlcommons/inference, loadgen/README.md, table of scenarios.
        """
        if spec.scenario.traits.is_one_query:
            return None
        group = samples_per_query(spec)
        ends, due = self.end_ns[first_row:], self.scheduled_ns[first_row:]
        return ends[group - 1 :: group] - due[: len(due) - group + 1 : group]
