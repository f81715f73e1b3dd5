"""Outlines of stored recordings."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.energy import header, recorded

from edgebench.host.analysis.energy.outline import PowerOutline
from edgebench.host.store import power, power_outline
from edgebench.host.store.layout import POWER_OUTLINE_FILE
from edgebench.host.store.power_outline import read_outline
from edgebench.meters.base import Channel
from edgebench.protocol.errors import RunDamaged

COUNT = 5000
TWO = header(Channel("cpu", "soc"), Channel("gpu", "soc"))


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make a recording of a few thousand samples count as long, with many row groups."""
    monkeypatch.setattr(power, "GROUP_ROWS", 600)
    monkeypatch.setattr(power, "OUTLINED_ROWS", 1000)
    monkeypatch.setattr(power, "OUTLINE_ROWS", 16)
    monkeypatch.setattr(power_outline, "OUTLINE_ROWS", 16)


def same(one: PowerOutline, other: PowerOutline) -> bool:
    """Whether two outlines are equal."""
    return all(
        np.allclose(getattr(one, name), getattr(other, name), rtol=1e-12, atol=0.0)
        for name in power.OUTLINE_COLUMNS
    )


@pytest.mark.usefixtures("small")
def test_stored_outline_is_that_of_the_samples(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A recording of an older edgebench, without an outline, gives the same picture."""
    draw = np.random.default_rng(3)
    time_ns = np.arange(COUNT, dtype=np.int64) * 1_000_000
    file = recorded(tmp_path, time_ns, draw.random(COUNT), draw.random(COUNT) + 5, of=TWO)
    stored = [read_outline(file, name) for name in ("cpu", "gpu")]
    assert [len(one) for one in stored] == [len(stored[0])] * 2
    assert stored[0].high_w.max() < stored[1].low_w.min()
    (tmp_path / POWER_OUTLINE_FILE).unlink()
    monkeypatch.setattr(power_outline, "MAX_BLOCKS", -(-COUNT // 16))
    for name, one in zip(("cpu", "gpu"), stored, strict=True):
        assert same(one, read_outline(file, name))


@pytest.mark.usefixtures("small")
def test_outline_has_no_more_blocks_than_a_picture_needs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a day of a fast meter would have millions of blocks."""
    time_ns = np.arange(COUNT, dtype=np.int64) * 1_000_000
    file = recorded(tmp_path, time_ns, np.ones(COUNT))
    monkeypatch.setattr(power_outline, "MAX_BLOCKS", 100)
    outline = read_outline(file, "supply")
    assert 50 <= len(outline) <= 100
    assert (outline.begin_ns[0], outline.end_ns[-1]) == (time_ns[0], time_ns[-1])


def test_short_recording_has_no_outline_and_a_block_for_each_piece(tmp_path: Path) -> None:
    """Most runs have a few thousand samples; nothing is written twice for them."""
    file = recorded(tmp_path, np.arange(10, dtype=np.int64) * 1000, np.arange(10.0))
    assert not (tmp_path / POWER_OUTLINE_FILE).exists()
    outline = read_outline(file, "supply")
    np.testing.assert_allclose(outline.mean_w, np.arange(9) + 0.5)


@pytest.mark.usefixtures("small")
def test_shorter_recording_in_its_place_takes_the_outline_away(tmp_path: Path) -> None:
    """Otherwise a picture would show the power of a recording that is gone."""
    recorded(tmp_path, np.arange(COUNT, dtype=np.int64) * 1000, np.ones(COUNT))
    file = recorded(tmp_path, np.arange(10, dtype=np.int64) * 1000, np.full(10, 7.0))
    assert read_outline(file, "supply").high_w.max() == 7.0


@pytest.mark.usefixtures("small")
def test_damaged_outline_is_reported(tmp_path: Path) -> None:
    """Otherwise a damaged file would be drawn."""
    file = recorded(tmp_path, np.arange(COUNT, dtype=np.int64) * 1000, np.ones(COUNT))
    (tmp_path / POWER_OUTLINE_FILE).write_bytes(b"PAR1")
    with pytest.raises(RunDamaged, match="power-outline"):
        read_outline(file, "supply")
