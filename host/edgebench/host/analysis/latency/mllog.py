"""Detail log of MLPerf's LoadGen.

Each line is `:::MLLOG` and a JSON object with `key` and `value`. Keys may repeat; the results are
written last and once. Times in the log are the library's own and are not used.

Source: mlcommons/inference, loadgen/logging.cc and results.cc.
"""

from __future__ import annotations

import json
from typing import Any

from edgebench.host.result.latency import LoadgenResult
from edgebench.protocol.errors import MeasurementError

PREFIX = ":::MLLOG"


def read_result(log: str) -> LoadgenResult | None:
    """Result at the end of a detail log; None if LoadGen was stopped before its end.

    Raises:
        MeasurementError: a line is damaged.
    """
    values = dict(_entries(log))  # the last value of a repeated key counts
    if "result_validity" not in values:
        return None
    rate = values.get("result_samples_per_second", values.get("result_completed_samples_per_sec"))
    reason = values.get("result_invalid_reason")
    return LoadgenResult(
        is_valid=values["result_validity"] == "VALID",
        invalid_reason=None if reason is None else " ".join(str(reason).split()),
        query_count=_integer(values.get("result_query_count")),
        p50_ns=_integer(values.get("result_50.00_percentile_latency_ns")),
        p90_ns=_integer(values.get("result_90.00_percentile_latency_ns")),
        p99_ns=_integer(values.get("result_99.00_percentile_latency_ns")),
        # "ms" is MultiStream, whose rule needs the p99; the value is in nanoseconds.
        early_stopping_p90_ns=_integer(values.get("early_stopping_latency_ss")),
        early_stopping_p99_ns=_integer(values.get("early_stopping_latency_ms")),
        samples_per_s=None if rate is None else float(rate),
        error_count=_integer(values.get("num_errors")) or 0,
    )


def _entries(log: str) -> list[tuple[str, Any]]:
    entries = []
    for line in log.splitlines():
        if not line.startswith(PREFIX):
            continue
        try:
            entry = json.loads(line[len(PREFIX) :])
            entries.append((str(entry["key"]), entry["value"]))
        except (ValueError, KeyError, TypeError) as exc:
            raise MeasurementError(f"LoadGen's log is damaged: {line[:80]!r}") from exc
    return entries


def _integer(value: object) -> int | None:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None
