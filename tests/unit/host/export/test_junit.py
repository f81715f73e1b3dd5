"""JUnit XML: read by an independent library, and checked against Jenkins' schema."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from junitparser import JUnitXml, TestSuite
from support.exports import (
    HOSTILE,
    INVALID,
    PLAIN,
    Stored,
    judged,
    renamed,
    set_of,
    written,
)

from edgebench.host.export.exported import ExportedRun
from edgebench.host.result.run import Failure
from edgebench.host.result.verdict import State

ALLOWED = {
    "testsuites": ({"testsuite"}, set(), {"name", "time", "tests", "failures", "errors"}),
    "testsuite": (
        {"testsuite", "properties", "testcase", "system-out", "system-err"},
        {"name", "tests", "failures", "errors"},
        {"group", "time", "skipped", "timestamp", "hostname", "id", "package", "file", "url"},
    ),
    "testcase": (
        {"skipped", "error", "failure", "system-out", "system-err"},
        {"name"},
        {"time", "classname", "group"},
    ),
    "properties": ({"property"}, set(), set()),
    "property": (set(), {"name", "value"}, set()),
    "failure": (set(), set(), {"type", "message"}),
    "error": (set(), set(), {"type", "message"}),
    "system-out": (set(), set(), set()),
}
"""Children, required and optional attributes of each element, after junit-10.xsd."""


def check(element: ElementTree.Element) -> None:
    """Check an element and all its descendants against the rules."""
    children, required, optional = ALLOWED[element.tag]
    assert {child.tag for child in element} <= children
    assert required <= set(element.attrib) <= required | optional
    for child in element:
        check(child)


def suites(data: bytes) -> list[TestSuite]:
    """The suites as a library reads them, once the rules of the schema hold."""
    check(ElementTree.fromstring(data))
    return list(JUnitXml.fromstring(data))


def test_valid_and_suspect_runs_pass_and_invalid_ones_fail(stored: Stored) -> None:
    """Otherwise a pipeline would be green with a refused number."""
    [plain], [invalid] = stored(PLAIN), stored(INVALID)
    failed = replace(
        invalid,
        run=replace(invalid.run, failure=Failure(code="worker_died", message="killed <by> 9")),
    )
    runs = [judged(plain, State.VALID), plain, invalid, failed]
    found = suites(written("junit", runs))
    assert [(one.tests, one.failures, one.errors) for one in found] == [
        *[(1, 0, 0)] * 2,
        (1, 1, 0),
        (1, 0, 1),
    ]
    root = ElementTree.fromstring(written("junit", runs))
    assert [root.get(name) for name in ("tests", "failures", "errors")] == ["4", "1", "1"]
    [failure] = next(iter(found[2])).result
    assert failure.type == invalid.run.verdict.failures[0].id
    assert all(rule.id in failure.text for rule in invalid.run.verdict.failures)
    [error] = next(iter(found[3])).result
    assert (error.type, error.message) == ("worker_died", "killed <by> 9")
    assert "suspect" in next(iter(found[1])).system_out


@pytest.mark.parametrize(("slowest_ns", "failed"), [(1020, 0), (9000, 1)])
def test_set_without_a_number_fails(slowest_ns: int, failed: int, stored: Stored) -> None:
    """Otherwise a pipeline of passing runs would be green although the set's number is refused."""
    [one] = stored(PLAIN)
    runs = set_of(one, "a", (1000, 1010, 1020, 1015, slowest_ns))
    found = suites(written("junit", runs))
    assert sum(suite.failures for suite in found) == failed
    assert len(found) == len(runs) + failed
    for suite in found[len(runs) :]:
        [case] = suite
        assert case.name == "a single_stream, 5 runs together"
        [failure] = case.result
        assert failure.type == "between_runs_floor"


def test_numbers_are_properties_with_their_intervals(metered: ExportedRun) -> None:
    """Otherwise a dashboard of test results would have no number to show."""
    [suite] = suites(written("junit", [metered]))
    found = {one.name: one.value for one in suite.properties()}
    summary, energy = metered.run.metrics.latency_ns, metered.run.metrics.energy
    assert summary is not None
    assert energy is not None
    assert float(found["latency_ns.p50"]) == summary.p50
    assert found["latency_ns.p50.interval_95"] == "{} {}".format(*summary.p50_ci95 or ())
    assert float(found["energy.gross_j_per_inference"]) == energy.gross_j_per_inference
    assert "synthetic power" in found["label"]


@pytest.mark.parametrize("name", [HOSTILE, "]]></testcase>", "&lt;\ufffe\x00"])
def test_hostile_name_is_text_in_xml(name: str, stored: Stored) -> None:
    """Otherwise a name would close an element, or no parser would accept the file."""
    [one] = [renamed(one, name) for one in stored(PLAIN)]
    [suite] = suites(written("junit", [one]))
    [case] = list(suite)
    assert case.name.startswith(name.replace("\ufffe", "?").replace("\x00", "?"))
