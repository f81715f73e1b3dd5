"""Every model of the suites on every runtime that loads it: measured, or refused in one line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.agents import AgentProcess, Host
from support.cpu import has_saturating_kernels
from support.digits import PACKAGES
from support.tools import need_runtime, need_shared

from edgebench.agent.runtimes.registry import find_runtime
from edgebench.host.analysis.verdict.outputs import (
    FLOAT_AGREEMENT_LIMIT,
    QUANTIZED_AGREEMENT_LIMIT,
    SATURATION,
)
from edgebench.host.bench.verify import verify
from edgebench.protocol.errors import EdgebenchError

SETTINGS: dict[str, Any] = {
    "duration_s": 0.02,
    "min_query_count": 3,
    "warmup_duration_s": 0.02,
    "warmup_query_count": 2,
    "telemetry_rate_hz": 0.0,
    "sample_count": 2,  # reference kernels are up to a hundred times slower
}
REFUSED: frozenset[tuple[str, str]] = frozenset()
"""Runtime and model that are known to be refused; may only shrink."""
DISAGREES = frozenset({("litert", "coco_ssd_mobilenet_v1_uint8.tflite")})
"""Runtime and model whose outputs for noise are known to differ; may only shrink.

The outputs of the detector are lists, sorted by scores that are nearly equal for noise: kernels
that round differently find the same boxes in another order.
"""
SATURATES = frozenset({("onnx", "mobilenet_v1_0.25_224_qdq_int8.onnx")})
"""Runtime and model whose outputs are known to be wrong where `has_saturating_kernels`."""


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """One host and one agent for all models."""
    folder = tmp_path_factory.mktemp("models")
    agent = AgentProcess(folder / "agent", options=["--name", "board"]).start()
    host = Host(folder / "host")
    host.lab.pair(agent.pairing_string())
    yield host
    agent.kill()


def measured(host: Host, path: Path, runtime: str) -> dict[str, Any] | str:
    """The document of a run, or the one line that refused it."""
    try:
        [run] = host.lab.bench(path, runs=1, on=["board"], runtime=runtime, **SETTINGS)
    except EdgebenchError as exc:
        return str(exc)
    assert verify(host.lab.store, run.id) == []
    return run.document


def row(name: str, found: dict[str, Any] | str) -> str:
    """A line of the table that is shown when something is wrong."""
    if isinstance(found, str):
        return f"{name:44} refused: {found}"
    agreement = found["metrics"]["agreement"] or {}
    failed = [r["id"] for r in found["verdict"]["rules"] if r["outcome"] == "fail"]
    numbers = [agreement.get(key) for key in ("relative_rms", "top1_equal_ratio", "fraction_equal")]
    shown = " ".join("       -" if value is None else f"{value:8.2g}" for value in numbers)
    return f"{name:44} {shown} {found['verdict']['state']} {' '.join(failed)}"


@pytest.mark.timeout(600)
@pytest.mark.parametrize("runtime", list(PACKAGES))
def test_every_model_is_measured_or_refused_in_one_line(board: Host, runtime: str) -> None:
    """Otherwise a model would lack its number, its reason or a reference that agrees."""
    need_runtime(PACKAGES[runtime])
    (suffix,) = find_runtime(runtime).formats
    folders = [need_shared("models/suite"), need_shared("models/mlperf_tiny")]
    paths = [path for folder in folders for path in sorted(folder.rglob(f"*.{suffix}"))]
    found = {path.name: measured(board, path, runtime) for path in paths}
    table = "\n".join(row(name, what) for name, what in found.items())
    assert len(found) == len(paths) >= 5
    for name, what in found.items():
        if isinstance(what, str):
            assert (runtime, name) in REFUSED, table
            assert what.isprintable(), table
            continue
        failed = {r["id"] for r in what["verdict"]["rules"] if r["outcome"] == "fail"}
        assert what["verdict"]["state"] == "valid" or failed, table
        # Not at least three: queries of a warm-up that continued are cut.
        assert what["metrics"]["latency_ns"]["count"] > 0, table
        assert not failed & {"enough_queries", "timed_path"}, table
        agreement = what["metrics"]["agreement"]
        assert agreement is not None, table
        is_float = what["model"]["precision"] == "fp32"
        limit = FLOAT_AGREEMENT_LIMIT if is_float else QUANTIZED_AGREEMENT_LIMIT
        does_agree = agreement["relative_rms"] <= limit
        assert does_agree == ("agreement_of_all" not in failed), table
        if (runtime, name) in SATURATES and has_saturating_kernels():
            said = [r["detail"] for r in what["verdict"]["rules"] if r["id"] == "agreement"]
            assert "agreement" not in failed or SATURATION in said[0], table
            continue
        # Noise saturates some classifiers: every sample has the same output, which tests nothing.
        assert ("agreement" in failed) == (agreement["repeated_count"] > 0), table
        assert what["verdict"]["numbers"]["outputs"] != "valid" or "agreement" not in failed
        assert does_agree or (runtime, name) in DISAGREES, table
