"""The energy of a run as its page shows it."""

from __future__ import annotations

import io
from copy import deepcopy
from typing import Any

import pytest
from rich.console import Console
from support.metered import store_metered_run
from support.records import CREATED_UTC, RUN_ID, latencies, run_record, traces_of, worker_record

from edgebench.host.analysis.run import analyse_run
from edgebench.host.result.document import from_document
from edgebench.host.show.energy import energy_lines
from edgebench.host.show.page import run_page
from edgebench.host.store.layout import Store

Document = dict[str, Any]

WIDE = """\
energy         209.932 µJ ±0.030 % per inference, gross, 4,763 inferences/J, over 4990 in 0.524 s
               104.956 µJ ±0.061 % per inference, net of idle power
power          mean 1.99981 W ±0.030 %, idle 1.00000 W ±<0.01 %, highest sample 2.00 W (uncertainty unknown)
uncertainty    ±63 nJ absolute, ±63 nJ in comparisons of runs with this meter (k = 2); mainly edges of the window 30 nJ, sampling of the window 9.4 nJ (k = 1)
per inference  only the mean: an inference takes 104 µs, this meter, synchronised to 91.3 µs, resolves 20 ms
phases         load 600.00 mJ ±0.037 % at 1.50 W; warmup none, too short for this meter; steady 1.04756 J ±0.030 % at 2.00 W
battery        3.17e+08 inferences or 9:15:03 (±0.030 %) of continuous inference, with the stated capacity of 66.6 kJ
meter          edgebench synthetic, nothing is measured; boundary: synthetic
clocks         coded_load, within 91.3 µs; other methods: arrival 2.00 ms
"""  # noqa: E501  # as wide as a wide terminal prints it
NARROW = """\
energy         209.932 µJ ±0.030 % per inference, gross, 4,763 inferences/J,
               over 4990 in 0.524 s
               104.956 µJ ±0.061 % per inference, net of idle power
power          mean 1.99981 W ±0.030 %, idle 1.00000 W ±<0.01 %, highest sample
               2.00 W (uncertainty unknown)
uncertainty    ±63 nJ absolute, ±63 nJ in comparisons of runs with this meter (k
               = 2); mainly edges of the window 30 nJ, sampling of the window
               9.4 nJ (k = 1)
per inference  only the mean: an inference takes 104 µs, this meter,
               synchronised to 91.3 µs, resolves 20 ms
phases         load 600.00 mJ ±0.037 % at 1.50 W; warmup none, too short for
               this meter; steady 1.04756 J ±0.030 % at 2.00 W
battery        3.17e+08 inferences or 9:15:03 (±0.030 %) of continuous
               inference, with the stated capacity of 66.6 kJ
meter          edgebench synthetic, nothing is measured; boundary: synthetic
clocks         coded_load, within 91.3 µs; other methods: arrival 2.00 ms
"""
REFUSED_NARROW = """\
energy        refused: complete: serial port /dev/ttyACM0 is gone: device
              reports readiness to read but returned no data
meter         edgebench synthetic, nothing is measured
"""
REFUSED_WIDE = """\
energy        refused: complete: serial port /dev/ttyACM0 is gone: device reports readiness to read but returned no data
meter         edgebench synthetic, nothing is measured
"""  # noqa: E501  # as wide as a wide terminal prints it


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Document:
    """A run whose energy is known."""
    store = Store(tmp_path_factory.mktemp("made"))
    store_metered_run(store)
    return store.document(RUN_ID)


@pytest.fixture(scope="module")
def refused(tmp_path_factory: pytest.TempPathFactory) -> Document:
    """A run whose meter was pulled out."""
    store = Store(tmp_path_factory.mktemp("refused"))
    gone = "serial port /dev/ttyACM0 is gone: device reports readiness to read but returned no data"
    store_metered_run(store, trouble=gone)
    return store.document(RUN_ID)


def shown(document: Document, width: int) -> str:
    """The energy part of a run's page, without trailing spaces."""
    out = io.StringIO()
    console = Console(file=out, width=width, color_system=None, highlight=False)
    console.print(run_page(from_document(document), width))
    lines = [f"{line.rstrip()}\n" for line in out.getvalue().splitlines()]
    first = next(n for n, line in enumerate(lines) if line.startswith("energy "))
    return "".join(lines[first : lines.index("\n", first)])


def changed(document: Document, **energy: object) -> Document:
    """The document with another energy."""
    found = deepcopy(document)
    found["metrics"]["energy"] |= energy
    return found


@pytest.mark.parametrize(("width", "expected"), [(80, NARROW), (160, WIDE)])
def test_energy_is_shown_with_all_that_it_depends_on(
    made: Document, width: int, expected: str
) -> None:
    """Otherwise a number would lack its uncertainty, meter or clocks, or a line would be cut."""
    assert shown(made, width) == expected


def test_a_meter_that_reads_zero_is_shown(made: Document) -> None:
    """Otherwise `edgebench show` would end in a division by zero."""
    zero = changed(made, gross_j_per_inference=0.0, inferences_per_j=0.0)
    assert shown(zero, 160).startswith("energy         0 ±63 nJ per inference, gross, over")


@pytest.mark.parametrize(("width", "expected"), [(80, REFUSED_NARROW), (160, REFUSED_WIDE)])
def test_refused_energy_is_its_reason(refused: Document, width: int, expected: str) -> None:
    """Otherwise a zero, or a None, would be printed in place of a refused number."""
    assert shown(refused, width) == expected


def lines_of(document: Document) -> dict[str, str]:
    """Text by name; the line without a name is the net energy."""
    return dict(energy_lines(from_document(document).metrics.energy))


def test_net_that_is_not_there_says_why(made: Document) -> None:
    """Otherwise it would stay unknown that the device was not idle."""
    gone = dict.fromkeys(("net_j_per_inference", "power_w_idle", "net_u95_absolute_j"))
    found = lines_of(changed(made, **gone, net_refused="the device was not idle beside the run"))
    assert found[""] == "net: none, the device was not idle beside the run"
    assert found["power"] == (
        "mean 1.99981 W ±0.030 %, highest sample 2.00 W (uncertainty unknown)"
    )


def test_net_that_is_less_than_its_uncertainty_has_it_in_joules(made: Document) -> None:
    """Otherwise an unmeasurably small energy would have ±0 %, or millions of percent."""
    found = lines_of(changed(made, net_j_per_inference=-1e-9, net_u95_absolute_j=6e-8))
    assert found[""] == "-1 ±60 nJ per inference, net of idle power"
    found = lines_of(changed(made, net_j_per_inference=0.0, net_u95_absolute_j=6e-8))
    assert found[""] == "0 ±60 nJ per inference, net of idle power"


def test_battery_is_shown_only_where_one_was_stated(made: Document) -> None:
    """Otherwise a capacity would be invented, or days be shown as a date."""
    assert "battery" not in lines_of(changed(made, battery=None))
    battery = made["metrics"]["energy"]["battery"] | {"duration_s": 100 * 3600.0}
    found = lines_of(changed(made, battery=battery))["battery"]
    assert found == (
        "3.17e+08 inferences or 100 h (±0.030 %) of continuous inference, with the stated capacity "
        "of 66.6 kJ"
    )


def test_battery_lasts_as_long_as_anybody_can_tell(made: Document) -> None:
    """Otherwise an estimate that is an hour off would be shown to the second."""
    battery = made["metrics"]["energy"]["battery"] | {"u95_ratio": 0.12}
    found = lines_of(changed(made, battery=battery))["battery"]
    assert found == (
        "3.17e+08 inferences or 9.3 h (±12 %) of continuous inference, with the stated capacity of "
        "66.6 kJ"
    )


def test_single_inferences_are_shown_where_they_are_resolved(made: Document) -> None:
    """Otherwise percentiles of energy would be shown without their uncertainty."""
    resolved = {
        "count": 10, "p50_j": 0.002, "p50_u95_absolute_j": 2e-4, "p90_j": 0.003,
        "p90_u95_absolute_j": 2.4e-4, "u95_edges_j": 1e-4, "refused": None,
    }  # fmt: skip
    found = lines_of(changed(made, per_query=resolved))["per inference"]
    assert found == "p50 2.00 mJ ±10 %, p90 3.00 mJ ±8.0 %"


def test_run_of_before_some_uncertainties_is_shown(made: Document) -> None:
    """Otherwise a run of schema_version 5 would be reported as damaged."""
    older = deepcopy(made)
    energy = older["metrics"]["energy"]
    for name in ("power_w_idle_u95_absolute", "power_w_peak_u95_absolute"):
        del energy[name]
    energy["per_query"] = {
        "count": 10, "p50_j": 0.002, "p90_j": 0.003, "u95_edges_j": 1e-4, "refused": None
    }  # fmt: skip
    found = lines_of(older)
    assert "idle 1.00 W (uncertainty unknown)" in found["power"]
    unknown = "p50 2.00 mJ (uncertainty unknown), p90 3.00 mJ (uncertainty unknown)"
    assert found["per inference"] == unknown


def test_meter_without_uncertainty_is_called_that(made: Document) -> None:
    """Otherwise a file without any statement of its errors would look exact."""
    found = lines_of(changed(made, components_j={}, u95_absolute_j=0.0, u95_comparative_j=0.0))
    assert found["uncertainty"].endswith("components unknown")


def test_run_without_a_meter_has_no_line_of_energy() -> None:
    """Otherwise every run without a meter would be shown as a failure."""
    latency_ns = latencies()
    run = analyse_run(
        run_record(worker_record(latency_ns)),
        traces_of(latency_ns),
        created_utc=CREATED_UTC,
        clock=None,
    )
    assert run.metrics.energy is None
    assert energy_lines(run.metrics.energy) == []
