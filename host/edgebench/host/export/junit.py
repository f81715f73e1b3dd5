"""JUnit XML: a test case for each run; the test case fails if the run is invalid.

The schema allows properties only for test suites, so each run is a suite with a single test case,
and its numbers are properties. A run that failed on its device is an error; an invalid run is a
failure with its reasons. A suspect run passes; the label `suspect` is in its properties and its
output. A set that is invalid because the results of its runs differ too much is a separate suite,
which fails.

Source: jenkinsci/xunit-plugin, junit-10.xsd
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO
from xml.etree.ElementTree import Element, ElementTree, SubElement, indent

from edgebench.host.export.exported import ExportedRun, exported_numbers, reasons, sets_of
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.verdict import State
from edgebench.protocol.text import printable


def write(runs: Sequence[ExportedRun], out: BinaryIO) -> None:
    """Write a test suite for each run, and for each set that is invalid as a whole."""
    root = Element("testsuites", name="edgebench")
    for run in runs:
        _add_suite(root, run.run)
    for together in sets_of(runs):
        if together.verdict.is_refused and together.counted:
            _add_set(root, together)
    for counted in ("tests", "failures", "errors"):
        root.set(counted, str(sum(int(suite.get(counted, "0")) for suite in root)))
    for element in root.iter():  # XML cannot represent most control characters
        element.attrib = {name: printable(text) for name, text in element.attrib.items()}
        element.text = element.text and printable(element.text, keep_lines=True)
    indent(root, " ")
    ElementTree(root).write(out, encoding="utf-8", xml_declaration=True)
    out.write(b"\n")


def _add_suite(root: Element, run: Run) -> None:
    is_failed = run.failure is not None
    is_invalid = run.verdict.is_refused and not is_failed
    device, runtime = run.device.name, run.runtime.name
    suite = SubElement(
        root,
        "testsuite",
        name=f"edgebench.{device}.{runtime}",
        tests="1",
        failures=str(int(is_invalid)),
        errors=str(int(is_failed)),
        timestamp=run.created_utc.partition("+")[0],
        id=run.run_id,
    )
    properties = SubElement(suite, "properties")
    for name, value in _properties(run):
        SubElement(properties, "property", name=name, value=value)
    case = SubElement(
        suite,
        "testcase",
        classname=f"edgebench.{device}.{runtime}",
        name=f"{run.model.name} {run.spec.scenario.value}",
    )
    lines = reasons(run.verdict)
    text = "\n".join(lines)
    if run.failure is not None:
        message = run.failure.message
        SubElement(case, "error", type=run.failure.code, message=message).text = text
    elif is_invalid:
        first = run.verdict.failures[0].id if run.verdict.failures else State.INVALID.value
        SubElement(case, "failure", type=first, message=lines[0] if lines else "").text = text
    elif run.verdict.state is not State.VALID:
        SubElement(case, "system-out").text = f"{run.marks.label}\n{text}"


def _add_set(root: Element, run_set: RunSet) -> None:
    """Add a failing suite for an invalid set whose own runs are valid or suspect."""
    run, lines = run_set.first, reasons(run_set.verdict)
    class_name = f"edgebench.{run_set.device}.{run_set.runtime}"
    suite = SubElement(
        root,
        "testsuite",
        name=class_name,
        tests="1",
        failures="1",
        errors="0",
        timestamp=run.created_utc.partition("+")[0],
        id=run_set.set_id or "",
    )
    name = f"{run_set.model} {run.spec.scenario.value}, {len(run_set.counted)} runs together"
    case = SubElement(suite, "testcase", classname=class_name, name=name)
    kind, message = run_set.verdict.failures[0].id, lines[0]
    SubElement(case, "failure", type=kind, message=message).text = "\n".join(lines)


def _properties(run: Run) -> list[tuple[str, str]]:
    """Facts of a run, then each number in its unit, with its 95 % interval."""
    properties = [
        ("run_id", run.run_id),
        ("verdict", run.headline_state.value),
        ("label", run.marks.label),
        ("model_sha256", run.model.sha256 or ""),
        ("runtime_version", run.runtime.version),
    ]
    for number in exported_numbers(run):
        properties.append((number.metric.path, f"{number.value:.17g}"))
        if number.interval is not None:
            bounds = " ".join(f"{bound:.17g}" for bound in number.interval)
            properties.append((f"{number.metric.path}.interval_95", bounds))
    return properties
