"""Entry point of the pytest plugin: options, fixture `edgebench_bench` and summary table.

pytest loads this module in every session of an environment with edgebench. So this module imports
no other module of edgebench. The first test that measures imports the other modules.
"""

from __future__ import annotations

import re

import pytest

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from collections.abc import Iterator

    from edgebench.host.pytest_plugin.bench import PytestBench

_PROPERTY = re.compile(r"edgebench\.(?:(\d+)\.)?(\w+)")
_REACTIONS = ("fail", "warn", "ignore")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options; all begin with --edgebench."""
    add = parser.getgroup("edgebench", "measurements (fixture edgebench_bench)").addoption
    add("--edgebench-on", metavar="DEVICE", default="local", help="device to measure on")
    add("--edgebench-store", metavar="DIR", help="directory of the results")
    baseline = "stored runs to compare each measurement with: a tag, set, run or directory"
    add("--edgebench-baseline", metavar="RUNS", help=baseline)
    pairs = "measure the baseline's model files again, in pairs with the models of the tests"
    add("--edgebench-pairs", action="store_true", help=pairs)
    margin = "smallest change for the worse that fails a test (default: 1%%)"
    add("--edgebench-fail-on", metavar="3%", help=margin)
    for name, default, text in (
        ("suspect", "warn", "reaction to a suspect measurement (default: warn)"),
        ("inconclusive", "fail", "reaction to an inconclusive comparison (default: fail)"),
    ):
        add(f"--edgebench-{name}", choices=_REACTIONS, default=default, help=text)


def pytest_configure(config: pytest.Config) -> None:
    """Check the options --edgebench-fail-on and --edgebench-pairs.

    Raises:
        UsageError: the margin is not a percentage, or there is no baseline to compare with.
    """
    if config.option.edgebench_pairs and config.option.edgebench_baseline is None:
        raise pytest.UsageError("--edgebench-pairs needs --edgebench-baseline RUNS")
    if config.option.edgebench_fail_on is not None:
        from argparse import ArgumentTypeError

        from edgebench.host.options.values import percent

        try:
            percent(config.option.edgebench_fail_on)
        except ArgumentTypeError as exc:
            raise pytest.UsageError(f"--edgebench-fail-on: {exc}") from exc
        if config.option.edgebench_baseline is None:
            raise pytest.UsageError("--edgebench-fail-on needs --edgebench-baseline RUNS")


@pytest.fixture
def edgebench_bench(request: pytest.FixtureRequest) -> PytestBench:
    """Measures a model on a device: `edgebench_bench("model.tflite", preset="quick")`.

    The fixture takes the options of `Lab.bench`. The test fails if the runs are invalid, or worse
    than the baseline. docs/ci-gate.md lists the options and has an example.
    """
    from edgebench.host.pytest_plugin.bench import PytestBench

    return PytestBench(request.config, request.node)


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print the measurements of all tests, including tests that ran in other processes."""
    rows = [
        (report.nodeid, measured)
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport) and report.when == "call"
        for measured in _measurements(report)
    ]
    if not rows:
        return
    from edgebench.host.pytest_plugin.summary import summary_lines

    terminalreporter.section("edgebench")
    for line in summary_lines(rows):
        terminalreporter.write_line(line)
    if config.getoption("numprocesses", None):
        terminalreporter.write_line(
            "measurements on the same device ran one after the other, so the tests waited for "
            "the device"
        )


def _measurements(report: pytest.TestReport) -> Iterator[dict[str, str]]:
    """Yield the recorded properties of each measurement of a test, in order."""
    measurements: dict[str | None, dict[str, str]] = {}
    for name, value in report.user_properties:
        if match := _PROPERTY.fullmatch(name):
            measurements.setdefault(match[1], {})[match[2]] = str(value)
    yield from measurements.values()
