"""Recordings that exist already, judged by their own samples."""

from __future__ import annotations

import logging
from pathlib import Path

import numpy as np
import pytest
from support.energy import SECOND_NS, header, recorded

from edgebench.host.power.imports.importer import import_file
from edgebench.host.power.stored import StoredSession, judge, stored_session
from edgebench.host.store import power
from edgebench.meters.base import Channel, Flag, LossReport, SampleBlock
from edgebench.meters.rails import TOTAL

IN, GPU, CPU = Channel("VDD_IN", "module"), Channel("VDD_GPU", "rail"), Channel("VDD_CPU", "rail")
PSYS, PACKAGE = Channel("psys", "platform"), Channel("package-0", "package")


def session_of(directory: Path, powers_w: dict[Channel, float], *total: str) -> StoredSession:
    """A stored recording in which each channel takes this power for two seconds."""
    time_ns = np.arange(0, 2 * SECOND_NS, SECOND_NS // 50)
    powers = [np.full(len(time_ns), power_w) for power_w in powers_w.values()]
    meter = header(*powers_w, facts={TOTAL: list(total)} if total else {})
    recorded(directory, time_ns, *powers, of=meter)
    with stored_session(directory) as session:
        return session


def test_rails_that_take_more_than_their_total_are_refused(tmp_path: Path) -> None:
    """Otherwise a recording would accept rails with swapped names, which a run refuses."""
    session = session_of(tmp_path, {IN: 1.5, GPU: 7.5, CPU: 2.0}, IN.name)
    assert session.is_trusted is False
    assert [(check.id, check.detail) for check in session.checks if check.is_passed is False] == [
        (
            "parts",
            "VDD_IN is 1.5 W, but includes VDD_GPU + VDD_CPU, which is 9.5 W: the names of the "
            "rails are wrong",
        )
    ]


def test_import_of_a_refused_recording_is_refused(tmp_path: Path) -> None:
    """Otherwise a recording whose rails have wrong names would be trusted once imported."""
    session = session_of(tmp_path, {IN: 1.5, GPU: 7.5, CPU: 2.0}, IN.name)
    imported = import_file(tmp_path / "power.parquet", tmp_path / "imported")
    assert imported.is_trusted is False
    assert imported.checks[-1] == session.checks[-1]


def test_total_that_stands_still_is_no_number(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise a laptop would take 0 J, and its processor 20."""
    caplog.set_level(logging.WARNING)
    session = session_of(tmp_path, {PSYS: 0.0, PACKAGE: 10.0})
    assert session.is_trusted is True
    assert [channel.name for channel in session.channels()] == ["package-0"]
    last = session.checks[-1]
    assert (last.id, last.is_passed) == ("parts", None)
    assert last.detail == "psys is left out, because its power is below that of its part package-0"


@pytest.mark.parametrize(
    ("powers_w", "total"),
    [
        ({IN: 3.0, GPU: 1.0, CPU: 1.0}, [IN.name]),
        ({PSYS: 15.0, PACKAGE: 10.0}, []),
        ({GPU: 1.0, CPU: 1.0}, []),
    ],
)
def test_rails_that_fit_are_all_numbers(
    tmp_path: Path, powers_w: dict[Channel, float], total: list[str]
) -> None:
    """Otherwise rails would be refused although they add up, or although they have no sum."""
    session = session_of(tmp_path, powers_w, *total)
    assert session.is_trusted is True
    assert "parts" not in [check.id for check in session.checks]
    assert len(session.channels()) == len(powers_w)


def test_mean_power_counts_no_rail_twice(tmp_path: Path) -> None:
    """Otherwise a board that takes 3 W would seem to take 5 W, its rails added to their total."""
    session = session_of(tmp_path, {IN: 3.0, GPU: 1.0, CPU: 1.0}, IN.name)
    assert [check.detail for check in session.checks if check.id == "direction"] == [
        "3 W on average"
    ]


def test_samples_without_numbers_have_no_time_in_the_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise power that flows back would pass, as the recording seems to begin in 1970."""
    monkeypatch.setattr(power, "GROUP_ROWS", 50)
    begin_ns = 1_790_000_000 * SECOND_NS
    blocks = [
        SampleBlock(
            channel=0,
            index0=first,
            time_ns=begin_ns + np.arange(first, first + 50) * (SECOND_NS // 50),
            power_w=np.full(50, power_w),
            flags=np.full(50, flag, np.uint8),
        )
        for first, power_w, flag in ((0, np.nan, Flag.MISSING), (50, -1.0, 0), (100, -1.0, 0))
    ]
    facts = power.write_blocks(tmp_path, header(), blocks, lambda: LossReport(received_count=150))
    [direction] = [check for check in judge(tmp_path, facts).checks if check.id == "direction"]
    assert direction.is_passed is False
    assert direction.detail.startswith("-0.99 W on average")
