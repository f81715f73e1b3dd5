"""Files that people reported elsewhere, as recreated beside this checkout."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.tools import need_shared

from edgebench.host.power.imports.importer import import_file


def test_agx_orins_log_has_the_sum_of_its_rails(tmp_path: Path) -> None:
    """Otherwise the rail of the 5 V system, 3.9 of 13.5 W, would be the board's power."""
    path = need_shared("cases/01-tegrastats-agx-orin") / "d11c_tegrastats_agx_orin.txt"
    [channel] = import_file(path, tmp_path / "session").channels()
    assert channel.energy_j == pytest.approx(13.5 * channel.duration_s, rel=2e-3)


def test_analysers_error_value_is_no_power(tmp_path: Path) -> None:
    """Otherwise six samples of -2 W, of an analyser without a cable, would make 3.44 W 2.90 W."""
    path = need_shared("cases/04-ptdaemon-minus-two") / "d10g_ptd_minus_two.spl.txt"
    session = import_file(path, tmp_path / "session")
    assert session.facts.loss.lost_count == 6
    assert session.is_trusted is False
    [channel] = session.channels()
    assert channel.power_w_mean == pytest.approx(3.44, rel=0.01)
