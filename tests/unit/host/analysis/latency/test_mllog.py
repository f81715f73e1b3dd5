"""LoadGen's own log: its result is read, and anything else is refused."""

from __future__ import annotations

import json

import pytest
from support.tools import need_shared

from edgebench.host.analysis.latency.mllog import read_result
from edgebench.protocol.errors import MeasurementError


def line(key: str, value: object) -> str:
    """Return one line of a detail log."""
    return f":::MLLOG {json.dumps({'key': key, 'value': value, 'time_ms': 1.0})}\n"


LOG = (
    line("generic_message", "Starting")
    + line("generic_message", "Ending")
    + "Logging allocation detected\n"
    + line("result_query_count", 5)
    + line("result_query_count", 64)
    + line("result_50.00_percentile_latency_ns", 10)
    + line("early_stopping_latency_ss", 12)
    + line("num_errors", 2)
    + line("result_validity", "VALID")
)


def test_result_is_the_last_value_of_each_key() -> None:
    """Otherwise the first of two values would be reported, or a non-entry cause a traceback."""
    result = read_result(LOG)
    assert result
    assert (result.is_valid, result.query_count, result.p50_ns) == (True, 64, 10)
    assert (result.early_stopping_p90_ns, result.early_stopping_p99_ns) == (12, None)
    assert result.error_count == 2


def test_invalid_result_has_its_reason_on_one_line() -> None:
    """Otherwise a run that LoadGen calls invalid would be valid here."""
    log = LOG + line("result_validity", "INVALID") + line("result_invalid_reason", "too\n short ")
    result = read_result(log)
    assert result
    assert (result.is_valid, result.invalid_reason) == (False, "too short")


@pytest.mark.parametrize("log", ["", "text\n", line("num_errors", 0)])
def test_log_without_an_end_has_no_result(log: str) -> None:
    """Otherwise a stopped LoadGen would have a valid result, or its queries would be lost."""
    assert read_result(log) is None


@pytest.mark.parametrize("text", ["{", "[]", '{"a":1}', ""])
def test_damaged_line_is_refused(text: str) -> None:
    """Otherwise a log that was edited would end in a traceback."""
    with pytest.raises(MeasurementError, match="damaged"):
        read_result(f":::MLLOG {text}\n")


def test_known_line_is_read() -> None:
    """Otherwise the format of the real log would be misunderstood."""
    known = json.loads(need_shared("known_answers/measurement.json").read_text())["mllog_line"]
    result = read_result(known["line"] + "\n" + line("result_validity", "VALID"))
    assert result
    assert result.error_count == 0
