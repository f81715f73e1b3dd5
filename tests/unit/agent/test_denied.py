"""Facts that the system withholds from the agent, one at a time: it does without."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from support.denied import FILES, denied_files, no_load

from edgebench.agent.coolest import Coolest
from edgebench.agent.system import describe_device, describe_environment, is_emulated, load_1m
from edgebench.agent.telemetry.source import NoData
from edgebench.agent.telemetry.sources import SOURCES
from edgebench.agent.worker.facts import proportional_bytes, read_moment


def look(state: Path) -> None:
    """Request everything that an agent, a worker and a sampler request."""
    assert describe_device(state).id
    assert describe_environment().cpu.usable_count >= 1
    assert not is_emulated()
    assert read_moment().monotonic_ns > 0
    assert proportional_bytes() != 0
    for source in SOURCES:
        reader = source().open(Path("/"), os.getpid())
        assert isinstance(reader, NoData) or len(reader.read()) == len(reader.sensors)


@pytest.mark.parametrize("pattern", FILES)
def test_no_file_is_needed(tmp_path: Path, pattern: str) -> None:
    """Otherwise one unreadable file would keep the agent from starting, or prevent a run."""
    with denied_files(pattern):
        look(tmp_path)


def test_what_cannot_be_read_is_none(tmp_path: Path) -> None:
    """Otherwise the memory would have 0 bytes, which every model exceeds."""
    with denied_files(*FILES):
        look(tmp_path)
        environment = describe_environment()
    assert environment.memory_total_bytes is None
    assert environment.memory_available_bytes is None
    assert environment.swap_used_bytes is None
    assert (environment.cpu.model, environment.cpu.features) == ("unknown", None)


@pytest.mark.parametrize("is_there", [True, False], ids=["refused", "absent"])
def test_device_without_a_load_average_has_no_idle_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_there: bool
) -> None:
    """Otherwise the agent of a warm phone, which reports no load, would not start."""
    if is_there:
        monkeypatch.setattr(os, "getloadavg", no_load)
    else:
        monkeypatch.delattr(os, "getloadavg")
    assert load_1m() is None
    found = Coolest(tmp_path / "coolest.json", "this")
    found.see_at_start(60.0, 45.0)
    assert found.temp_c is None, "it may be hot"
    found.see_at_start(40.0, 45.0)
    assert found.temp_c == 40.0
