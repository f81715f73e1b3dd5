"""One test of MLPerf's load generator, in a process of its own: its logger is process-wide.

    python loadgen_run.py SCENARIO PERCENTILE QUERY_COUNT TARGET_LATENCY_NS FOLDER

Prints the latencies that it traced and what it made of them, as JSON.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import mlperf_loadgen as lg

SERVER_QUERIES_PER_S = 20_000


def main(scenario: str, p: float, query_count: int, target_ns: int, folder: Path) -> None:
    sut = lg.ConstructSUT(answer, lambda: None)
    library = lg.ConstructQSL(1, 1, lambda _: None, lambda _: None)
    lg.StartTestWithLogSettings(
        sut,
        library,
        make_settings(scenario, p, query_count, target_ns),
        make_log_settings(folder),
        "",
    )
    trace = (folder / "mlperf_log_trace.json").read_text()
    found = details(folder / "mlperf_log_detail.txt")
    json.dump(
        {
            "latency_ns": [int(word) for word in re.findall(r'"complete_ns":(\d+)', trace)],
            "met": found["early_stopping_met"],
            "text": found["early_stopping_result"],
            "estimate_ns": found.get("early_stopping_latency_ss"),
            "estimate_ns_p99": found.get("early_stopping_latency_ms"),
        },
        sys.stdout,
    )


def answer(samples: Any) -> None:
    """The system under test: done at once."""
    lg.QuerySamplesComplete([lg.QuerySampleResponse(sample.id, 0, 0) for sample in samples])


def make_settings(scenario: str, p: float, query_count: int, target_ns: int) -> Any:
    settings = lg.TestSettings()
    settings.scenario = getattr(lg.TestScenario, scenario)
    settings.mode = lg.TestMode.PerformanceOnly
    settings.min_query_count = settings.max_query_count = query_count
    settings.min_duration_ms = 0
    settings.single_stream_target_latency_percentile = p
    settings.single_stream_expected_latency_ns = 1000
    settings.server_target_latency_percentile = p
    settings.server_target_latency_ns = target_ns
    settings.server_target_qps = SERVER_QUERIES_PER_S
    return settings


def make_log_settings(folder: Path) -> Any:
    output = lg.LogOutputSettings()
    output.outdir = str(folder)
    output.copy_summary_to_stdout = False
    settings = lg.LogSettings()
    settings.log_output = output
    settings.enable_trace = True
    return settings


def details(path: Path) -> dict[str, Any]:
    """The last value of every key of a detail log."""
    lines = [json.loads(line.removeprefix(":::MLLOG ")) for line in path.read_text().splitlines()]
    return {line["key"]: line["value"] for line in lines}


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]), Path(sys.argv[5]))
