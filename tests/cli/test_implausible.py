"""Sources that are broken in a plausible way, through the commands; some are from reports."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest
from support.agents import wait_until
from support.commands import Run
from support.powercap import RANGE_UJ, Counter
from support.recordings import decoded
from support.tools import need_shared

from edgebench.host.result.reasons.words import format_watts
from edgebench.protocol.traces import METER_FILE

WRAP_UJ = 2**37
"""Where the counters of some processors wrap, whatever their range says (amanusk/s-tui#29)."""


def recorded(edgebench: Run, meter: str, seconds: float = 2.0) -> tuple[int, str]:
    """Exit code and error of a recording without a run."""
    said = edgebench("meters", "record", meter, "--duration", f"{seconds}s")
    return said.code, said.err


def test_counter_that_stands_still_has_no_energy(edgebench: Run) -> None:
    """Otherwise a processor would take 0 J (RRZE-HPC/likwid#533)."""
    root = need_shared("cases/05-counter-that-stands-still/rapl")
    code, error = recorded(edgebench, f"rapl:{root}", 0.5)
    assert code == 3
    assert "the processor's energy counter does not advance" in error


def test_counter_that_wraps_early_has_no_energy(edgebench: Run, tmp_path: Path) -> None:
    """Otherwise 9 s would have 120 kJ (amanusk/s-tui#29)."""
    counter = Counter(tmp_path)
    zone = need_shared("cases/06-counter-wraps-early/rapl")
    ranges = [
        next(root.glob("sys/class/powercap/*/max_energy_range_uj")).read_text().strip()
        for root in (zone, tmp_path)
    ]
    assert ranges[0] == ranges[1], "the zone of the case"
    before_uj, after_uj = WRAP_UJ - 1_000_000, 1_000_000
    counter.show(before_uj)
    folder = tmp_path / "recording"

    def wrap() -> None:
        wait_until((folder / METER_FILE).exists, "the counter was read")
        time.sleep(0.3)
        counter.show(after_uj)

    thread = threading.Thread(target=wrap)
    thread.start()
    words = ("meters", "record", f"rapl:{tmp_path}", "--duration", "1.5s", "--output", str(folder))
    said = edgebench(*words)
    thread.join()
    found = decoded(folder / METER_FILE)
    [place] = np.flatnonzero(found.power_w)
    read_s = (found.time_ns[place] - found.begin_ns[place]) / 1e9  # a busy machine reads later
    power_w = (RANGE_UJ + 1 - before_uj + after_uj) / 1e6 / read_s
    assert found.power_w[place] == pytest.approx(power_w)
    assert said.code == 3
    assert f"1 sample left out: power of up to {format_watts(power_w)}, limit 36.8 kW" in said.err


def test_power_in_milliwatts_is_refused_when_the_meter_is_opened(edgebench: Run) -> None:
    """Otherwise a driver of another unit would be wrong by a thousand (OFS/linux-dfl#25)."""
    root = need_shared("cases/11-power-in-milliwatts/power_in_mw")
    code, error = recorded(edgebench, f"hwmon:root={root}")
    assert code == 2
    assert (
        "power1_input is 0.0271 W, but in1_input times curr1_input is 27.1 W, 1000 times" in error
    )
    assert "hint: " in error


@pytest.mark.parametrize(
    ("folder", "shown"),
    [
        ("ina3221_driver_folder", ["VDD_IN: ", "VDD_GPU_SOC: "]),
        (
            "ina3221_eio",
            [
                "VDD_IN: ",
                "VDD_CPU: ",
                "VDD_SOC (ina3221 hwmon2) has no in3_input",
            ],
        ),
    ],
)
def test_rails_are_found_by_both_ways_and_a_lost_channel_is_named(
    edgebench: Run, folder: str, shown: list[str]
) -> None:
    """Otherwise a board with an unconnected channel would have no meter (alumet-dev/alumet#212)."""
    root = need_shared("cases/25-ina3221-below-the-driver") / folder
    said = edgebench("meters", "info", f"hwmon:root={root}")
    assert said.code == 0, said.err
    for words in shown:
        assert words in said.out


def table(path: Path, power_mw: np.ndarray[tuple[int], np.dtype[np.float64]]) -> Path:
    """A file with these powers, a millisecond apart."""
    rows = enumerate(power_mw.tolist())
    path.write_text("time_ms,power_mW\n" + "".join(f"{row},{value:.6g}\n" for row, value in rows))
    return path


def noisy_mw(seed: int = 1) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """A second of idle, two of load and one of idle, with noise of 5 mW."""
    power_mw = np.full(4000, 500.0)
    power_mw[1000:3000] = 2000.0
    noisy: np.ndarray[tuple[int], np.dtype[np.float64]] = power_mw + np.random.default_rng(
        seed
    ).normal(0, 5, 4000)
    return noisy


def test_files_that_cannot_be_true_have_no_energy(edgebench: Run, tmp_path: Path) -> None:
    """Otherwise a clipped, a reversed or a hanging instrument would have an energy."""
    good = noisy_mw()
    held = good.copy()
    held[2000:2200] = held[2000]
    expected = {
        "clipped": (np.minimum(good, 1800.0), "the instrument's range seems to end there"),
        "reversed": (
            -good,
            "leads are reversed, or the sign of column 'power_mW' is",
        ),
        "held": (held, "199 samples left out: up to 200 in a row have the same value"),
    }
    assert edgebench("meters", "import", str(table(tmp_path / "good.csv", good))).code == 0
    for name, (power_mw, said) in expected.items():
        refused = edgebench("meters", "import", str(table(tmp_path / f"{name}.csv", power_mw)))
        assert refused.code == 3, name
        assert said in refused.err, name
