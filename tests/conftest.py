"""Fixtures: an agent, a host, and a host paired with an agent."""

from __future__ import annotations

import gc
import signal
import sys
from collections.abc import Generator, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from support.agents import AgentProcess, Host, end_local_agent
from support.apart import apart
from xdist.scheduler import LoadFileScheduling

ALONE = "mark.alone"
"""Text of a file with tests that run alone."""
LONG = ("system", "loopback", "cli", "contract")
"""Folders with files that take longest, and wait for other processes; the longest come first."""
SHORT = ("unit/meters", "unit/agent")
"""Folders with files that wait for less than a second at a time; all others compute."""
SINGLE = "system/test_benchmarks.py"
"""A file whose tests share nothing; as a whole, it would take as long as all others together."""
LAST_LONG = 0.9
"""Share of the order after which no long file begins: the last processes end at the same time."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Nothing is collected as garbage meanwhile: a fifth of the CPU time of each process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """The collected tests, a third of a million objects, are excluded from garbage collection."""
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Otherwise LIEF, which must leave nothing behind at the end, would print all that is left."""
    if "lief" in sys.modules:
        gc.unfreeze()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """`-m alone` imports only the files with the mark; importing all of them takes six seconds."""
    if config.option.markexpr != "alone" or collection_path.suffix != ".py":
        return None
    return None if ALONE in collection_path.read_text() else True


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Check the marks, and mix the files for the processes of `make test`."""
    for item in items:  # a file without the text would silently be lost by `-m alone`
        if item.get_closest_marker("alone") and ALONE not in item.path.read_text():
            raise pytest.UsageError(f"write pytest.{ALONE} into {item.path}: {item.nodeid} has it")
    if hasattr(config, "workerinput"):  # a process of xdist
        items[:] = mixed(items)


def unit_of(name: str) -> str:
    """What stays on one process: the file of a test, or the test itself. Relative to tests/."""
    name = name.removeprefix("tests/")
    file = name.partition("::")[0]
    return name if file == SINGLE else file


class Scheduling(LoadFileScheduling):  # type: ignore[misc]  # xdist has no types
    """`--dist loadfile`, but for the tests of one file, and for the few tests that run alone."""

    def _split_scope(self, nodeid: str) -> str:
        return nodeid if self.config.option.markexpr == "alone" else unit_of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadFileScheduling | None:
    """The scheduling of `make test`."""
    return Scheduling(config, log) if config.option.dist == "loadfile" else None


def mixed(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Spread the long files, and those that wait, evenly among those that compute.

    Files stay whole. Otherwise the cores would be idle in some stretches, and too few in others.
    """
    units: dict[str, list[pytest.Item]] = {}
    for item in items:
        units.setdefault(unit_of(item.nodeid), []).append(item)
    long, short = (
        [unit for folder in folders for unit in units if unit.startswith(f"{folder}/")]
        for folders in (LONG, SHORT)
    )
    computing = [unit for unit in units if unit not in {*long, *short}]
    places = {
        unit: share * number / len(units_of_kind)
        for units_of_kind, share in ((long, LAST_LONG), (short, 1.0), (computing, 1.0))
        for number, unit in enumerate(units_of_kind)
    }
    return [item for unit in sorted(places, key=places.__getitem__) for item in units[unit]]


# Started in the background of a script, this process and its children would ignore Ctrl-C.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _apart(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[None]:
    """Two tests that run alone may run at the same time, but none next to an exclusive test."""
    mark: pytest.Mark | None = request.node.get_closest_marker("alone")
    if mark is None:
        yield
        return
    is_exclusive = bool(mark.kwargs.get("is_exclusive"))
    with apart(request.config, tmp_path_factory, is_exclusive=is_exclusive):
        yield


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[AgentProcess]:
    """A running agent on loopback."""
    process = AgentProcess(tmp_path / "agent", options=["--name", "board"]).start()
    yield process
    process.kill()


@pytest.fixture
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host that knows no device; its local agent, if started, is ended by its pid.

    It is not in the test's own directory: with that long name, a socket's path exceeds 107 bytes.
    """
    made = Host(tmp_path_factory.mktemp("host") / "h")
    yield made
    end_local_agent(made)


@pytest.fixture
def paired(agent: AgentProcess, host: Host) -> Host:
    """A host that is paired with the agent, under the name `board`."""
    host.lab.pair(agent.pairing_string())
    return host
