"""Finds the drivers of runtimes, and reports which runtimes work on this machine.

Built-in drivers are listed in `BUILT_IN`; other packages register drivers under the entry-point
group `edgebench.runtimes`.
"""

from __future__ import annotations

import json
import os
import site
import subprocess
import sys
from contextlib import suppress
from dataclasses import replace
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory

from edgebench.agent.confine import AllowedPaths, Permissions, confine
from edgebench.agent.confine.paths import ACCELERATOR_DEVICES, READABLE_VARIABLE
from edgebench.agent.runtimes.kept_reports import keep_reports, read_reports
from edgebench.agent.runtimes.library import LibraryRuntime, has_module
from edgebench.agent.runtimes.onnx import OnnxRuntime
from edgebench.agent.runtimes.tflite import LiteRt, TfliteRuntime
from edgebench.agent.runtimes.trial import why_it_fails
from edgebench.protocol.device import RuntimeReport
from edgebench.protocol.errors import RemoteProtocolError, RuntimeUnavailable
from edgebench.protocol.plain import to_plain
from edgebench.protocol.runtime import Runtime, UsableRuntime
from edgebench.system.python_report import read_report
from edgebench.system.python_start import python_command
from edgebench.system.variables import worker_environment

ENTRY_POINT_GROUP = "edgebench.runtimes"
PROBE_TIMEOUT_S = 60.0
_OPEN = "open"
"""Command-line argument with which a probe runs unconfined."""
BUILT_IN: tuple[type[Runtime], ...] = (LiteRt, TfliteRuntime, OnnxRuntime)
"""Built-in drivers, in order of preference for a format."""


def known_runtimes() -> dict[str, Runtime]:
    """Every driver by name; the drivers are imported, but not their libraries.

    The name of a built-in driver is reserved: a third-party driver cannot replace it.
    """
    drivers = _built_in()
    for point in entry_points(group=ENTRY_POINT_GROUP):
        driver: Runtime = point.load()()
        drivers.setdefault(driver.name, driver)
    return drivers


def find_runtime(name: str) -> Runtime:
    """The driver of this name.

    Raises:
        RuntimeUnavailable: no driver has this name.
    """
    # Entry points are read only for other names: the metadata of every package costs 40 ms of CPU
    # time, in each worker.
    drivers = _built_in()
    if name not in drivers:
        drivers = known_runtimes()
    if name not in drivers:
        raise RuntimeUnavailable(f"unknown runtime {name[:40]!r}; available: {', '.join(drivers)}")
    return drivers[name]


def _built_in() -> dict[str, Runtime]:
    return {driver.name: driver for driver in (kind() for kind in BUILT_IN)}


def built_in_for(driver: Runtime) -> list[Runtime]:
    """Built-in drivers that share a format with this driver; empty if this driver is built in."""
    if type(driver) in BUILT_IN:
        return []
    return [other for other in _built_in().values() if set(other.formats) & set(driver.formats)]


def probe_all() -> tuple[RuntimeReport, ...]:
    """Report on every driver; a driver without a stored report is probed in its own process."""
    kept = read_reports()
    reports: list[RuntimeReport] = []
    lasting: list[RuntimeReport] = []
    for name, driver in known_runtimes().items():
        report = kept.get(name)
        if report is None or not _is_lasting(driver, report):
            report = probe(driver)
        reports.append(report)
        if _is_lasting(driver, report):
            lasting.append(report)
    if lasting != list(kept.values()):
        keep_reports(lasting)
    return tuple(reports)


def _is_lasting(driver: Runtime, report: RuntimeReport) -> bool:
    """Whether a report is valid until packages change: its library is packaged or missing.

    A report on a build tree or on a third-party driver is not stored, because the tree or the
    driver may change unnoticed. A report on a library that fails is not stored either, because the
    library may work the next time.
    """
    if type(driver) not in BUILT_IN or not isinstance(driver, LibraryRuntime):
        return False
    if report.is_usable:
        place = Path(report.library or "").parent
        return place.name.endswith("-packages")
    return not has_module(driver.module)


def probe_here(name: str) -> RuntimeReport:
    """Probe a driver in this process."""
    driver = find_runtime(name)
    probed = driver.probe()
    if isinstance(probed, UsableRuntime):
        # A third-party driver may run only some kinds of models, and has its own trial.
        library = f"{probed.distribution or name} {probed.version}"
        is_ours = isinstance(driver, BUILT_IN)
        reason = why_it_fails(driver, library) if is_ours else None
        return RuntimeReport(
            name,
            driver.formats,
            version=probed.version if reason is None else None,
            reason=reason,  # without a command: an installed library must not be replaced
            delegates=probed.delegates,
            distribution=probed.distribution,
            library=probed.library,
        )
    return RuntimeReport(name, driver.formats, reason=probed.reason, install=probed.install)


def probe(driver: Runtime) -> RuntimeReport:
    """Probe a driver in a temporary process, confined like a worker."""
    report = _probe_apart(driver)
    has_library = isinstance(driver, LibraryRuntime) and has_module(driver.module)
    if report.is_usable or not has_library or not _probe_apart(driver, is_confined=False).is_usable:
        return report
    reason = (
        f"{report.reason}; without confinement, the runtime works; list the directories of its "
        f"libraries in the agent's environment variable {READABLE_VARIABLE}"
    )
    return replace(report, reason=reason, install=None)


def _probe_apart(driver: Runtime, *, is_confined: bool = True) -> RuntimeReport:
    try:
        with TemporaryDirectory(prefix="edgebench-probe-") as directory:
            python = python_command(
                *("edgebench.agent.runtimes.registry", driver.name, directory),
                *(() if is_confined else (_OPEN,)),
                directory=directory,
                environment=worker_environment(os.environ, Path(directory)),
            )
            return read_report(python, RuntimeReport, timeout_s=PROBE_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        reason = f"import and first run of the library exceeded {PROBE_TIMEOUT_S:.0f} s"
    except subprocess.CalledProcessError as exc:
        reason = f"import or first run of the library crashed with status {exc.returncode}"
    except RemoteProtocolError as exc:
        reason = f"probe returned malformed output: {exc}"
    except OSError as exc:
        reason = f"the probe of the runtime did not start: {exc.strerror or exc}"
    return RuntimeReport(driver.name, driver.formats, reason=reason)


def _confine(directory: str) -> None:
    """Confine this process like a worker that may write to this directory."""
    cpu_s = PROBE_TIMEOUT_S * (os.cpu_count() or 1)
    paths = AllowedPaths(readable=(), writable=(directory,), devices=ACCELERATOR_DEVICES)
    # A kernel without the mechanisms makes no runtime unusable: a worker also runs without them.
    with suppress(Exception):
        confine(Permissions(paths, cpu_s=cpu_s))


def _leave_home(directory: str) -> None:
    """Use a directory as the home, because some vendors' libraries write a device id there.

    The function is called after the confinement, which needs the real home to decide which files a
    worker may read. Packages in the user's own site directory are still found.
    """
    os.environ.setdefault("PYTHONUSERBASE", site.getuserbase())
    os.environ["HOME"] = directory


if __name__ == "__main__":
    if _OPEN not in sys.argv:
        _confine(sys.argv[2])
    _leave_home(sys.argv[2])
    print(json.dumps(to_plain(probe_here(sys.argv[1]))))
