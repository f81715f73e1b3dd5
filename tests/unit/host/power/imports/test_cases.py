"""Files that people reported elsewhere, as recreated beside this checkout."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.tools import need_shared

from edgebench.host.power.imports.importer import AS_IT_IS, import_file
from edgebench.host.power.stored import StoredSession
from edgebench.host.result.facts import ImportOptions
from edgebench.protocol.errors import FileRefused


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


def read_case(
    folder: str, name: str, directory: Path, options: ImportOptions = AS_IT_IS
) -> StoredSession:
    """The session of a case's file."""
    return import_file(need_shared(f"cases/{folder}") / name, directory / "session", options)


def test_statistics_of_a_joulescope_have_the_energy_of_their_own_column(tmp_path: Path) -> None:
    """The last value of the file's energy column is the energy of all rows."""
    name = "d01_joulescope_stats.csv"
    session = read_case("12-joulescope-statistics", name, tmp_path)
    path = need_shared("cases/12-joulescope-statistics") / name
    known_j = float(path.read_text().split()[-1].rpartition(",")[2])
    assert session.channels()[0].energy_j == pytest.approx(known_j, rel=1e-5)


def test_longer_part_of_a_time_that_falls_back_is_read(tmp_path: Path) -> None:
    """Otherwise 120 rows before the clock fell back by 2400 s would be lost."""
    session = read_case("13-time-falls-back", "d02_joulescope_time_back.csv", tmp_path)
    [note] = session.verdict.reading
    assert (note.id, note.facts["row_count"], note.facts["left_count"]) == ("part_used", 120, 80)


def test_missing_counts_of_a_battlab_are_lost_samples(tmp_path: Path) -> None:
    """Otherwise the six samples that the instrument lost would be hidden by --rate."""
    options = ImportOptions(rate_hz=1000.0, supply_v=3.3)
    session = read_case("14-sample-counter", "d04_sample_counter.csv", tmp_path, options)
    assert session.facts.loss.lost_count == 6


@pytest.mark.parametrize("name", ["d07_quoted_decimal_commas.csv", "d07b_ha_quoted_commas.csv"])
def test_decimal_commas_in_quotes_are_read(name: str, tmp_path: Path) -> None:
    """Otherwise numbers in the language of a user's profile could not be read."""
    [channel] = read_case("15-quoted-decimal-commas", name, tmp_path).channels()
    assert channel.power_w_mean == pytest.approx(2.53, abs=0.01)


def test_six_rows_of_one_time_are_spread(tmp_path: Path) -> None:
    """Otherwise five of six samples would take no time."""
    [channel] = read_case("21-rows-of-one-time", "d05_pymonsoon_six.csv", tmp_path).channels()
    assert channel.duration_s == pytest.approx(0.6, rel=1e-3)
    assert channel.power_w_mean == pytest.approx(0.484, rel=1e-3)


def test_export_without_rows_is_refused(tmp_path: Path) -> None:
    """Otherwise an export of nothing would be an energy of 0 J."""
    options = ImportOptions(supply_v=3.3)
    with pytest.raises(FileRefused, match="fewer than two samples"):
        read_case("23-export-without-rows", "d06_ppk_header_only.csv", tmp_path, options)
