"""Tables for the terminal: complete, and safe whatever a device or a file is called."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest
from rich.console import Console, RenderableType
from support.records import (
    CREATED_UTC,
    DEVICE,
    ENVIRONMENT,
    RUN_ID,
    WARMUP_COUNT,
    latencies,
    run_record,
    worker_record,
)

from edgebench.host.document import Queries, build_document
from edgebench.host.show.tables import (
    devices_table,
    results_table,
    run_page,
    runs_table,
    verdict_lines,
)
from edgebench.host.show.units import ABSENT
from edgebench.host.store.index import row_of
from edgebench.protocol.device import RuntimeReport, SystemDescription

CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
EVIL = "a\x1b[2J\x07\u202eb\r[red]c[/red]"


def document(count: int = 500) -> dict[str, Any]:
    """The document of a made-up run with so many queries."""
    latency_ns = latencies(count)
    end_ns = 1_000_000 + latency_ns.cumsum()
    queries = Queries(end_ns - latency_ns, end_ns, min(WARMUP_COUNT, count - 1))
    record = run_record(worker_record(latency_ns))
    return build_document(record, queries, created_utc=CREATED_UTC, clock=None)


def printed(what: RenderableType) -> str:
    """What a terminal without colours gets."""
    out = io.StringIO()
    Console(file=out, width=200, color_system=None, highlight=False).print(what)
    return out.getvalue()


def test_results_show_the_interval_and_the_verdict() -> None:
    """A number is printed without its uncertainty."""
    text = printed(results_table([document()]))
    assert re.search(r"±\d+\.\d %", text)
    assert "valid" in text
    assert "digits.tflite" in text
    assert "490" in text, "the number of timed queries"


def test_percentile_without_an_interval_is_a_dash() -> None:
    """A p99 of twenty queries is printed as a number."""
    text = printed(results_table([document(20)]))
    assert text.count(ABSENT) >= 2


def test_page_of_a_run_shows_every_rule() -> None:
    """A rule that failed is not shown."""
    made = document()
    text = printed(run_page(made))
    for rule in made["verdict"]["rules"]:
        assert rule["id"] in text
    for expected in (RUN_ID, "digits.tflite", "xnnpack", DEVICE.soc):
        assert expected in text


def test_reasons_are_the_rules_that_failed() -> None:
    """A person reads that a run is invalid, and not why."""
    made = document(20)
    lines = verdict_lines(made)
    assert any("queries, at least 100" in line for line in lines)
    assert all(line.startswith("invalid: digits.tflite on tflite: ") for line in lines)
    assert verdict_lines(document()) == []


@pytest.mark.parametrize("place", ["device", "model", "runtime"])
def test_names_cannot_reach_the_terminal(place: str) -> None:
    """A device or a file clears the screen, hides its name, or turns the text around."""
    made = document()
    made[place]["name"] = EVIL
    for what in (results_table([made]), runs_table([row_of(made)]), run_page(made)):
        text = printed(what)
        assert not CONTROL.search(text), repr(CONTROL.search(text))
        assert place == "runtime" or "[red]" in text, "markup in a name is text"


def test_descriptions_of_a_device_cannot_reach_the_terminal() -> None:
    """What a device says about its chip and its system moves the cursor."""
    from dataclasses import replace

    from edgebench.host.devices.discovery import Access, Found

    made = document()
    made["device"] |= {"soc": EVIL, "os": EVIL}
    made["environment"] |= {"virtualization": EVIL}
    assert not CONTROL.search(printed(run_page(made)))
    runtime = RuntimeReport(EVIL, ("tflite",), reason=EVIL, install=EVIL)
    system = SystemDescription(replace(DEVICE, name=EVIL, profile=EVIL), ENVIRONMENT, (runtime,))
    found = Found(EVIL, EVIL, Access.READY, EVIL, EVIL, system)
    assert not CONTROL.search(printed(devices_table([found])))
