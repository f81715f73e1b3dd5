"""A small farm on which everything fails once: the short form of tests/system/farm_chaos.py."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.farm import farm
from support.farm_chaos import FarmChaos, Fault, Kind
from support.tools import need_root, need_runtime, need_tool

FAULTS = (
    Fault(Kind.HOST, 0.0),
    Fault(Kind.METER, 0.0, duration_s=1.0),
    Fault(Kind.WORKER, 0.0),
    Fault(Kind.LINK, 0.9, duration_s=1.0),
    Fault(Kind.AGENT, 0.5),
)


@pytest.mark.timeout(600)
def test_every_planned_run_is_there_once_whatever_is_killed(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Otherwise a run could be missing or measured twice, or a process be left over."""
    need_root()
    need_tool("ip", "mount")
    need_runtime("onnxruntime")
    with farm(Path(tmp_path_factory.mktemp("farm")), seats=(2, 2)) as made:
        report = FarmChaos(made, run_count=12, repeats=3, faults=FAULTS, run_s=0.3).play()
    assert report.violations == []
    assert len(report.hits) == len(FAULTS)
    assert report.start_count <= 12 + len(FAULTS)
