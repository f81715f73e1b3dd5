"""Stores reports of runtime probes, for use as long as the system does not change.

A probe imports a runtime and runs a model with it. Without stored reports, every agent that a
command starts would probe the built-in runtimes, which takes two seconds of CPU time right before a
measurement.
"""

from __future__ import annotations

import glob
import hashlib
import json
import os
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from edgebench.agent.confine.paths import ACCELERATOR_DEVICES
from edgebench.protocol.device import RuntimeReport
from edgebench.protocol.errors import EdgebenchError
from edgebench.protocol.plain import from_plain, to_plain
from edgebench.system.paths import cache_directory
from edgebench.system.python_start import INTERPRETER
from edgebench.system.variables import listed_variables
from edgebench.system.whole_files import make_directory, write_whole

FILE_NAME = "runtimes.json"
MAX_CIRCUMSTANCES = 32
"""Maximum number of circumstances (states of packages, variables and devices) for which reports are
stored; the oldest are dropped first."""
_AGENT_DIRECTORY = Path(__file__).resolve().parents[1]


def read_reports() -> dict[str, RuntimeReport]:
    """Maps the name of a runtime to its report, if one was made in the current circumstances."""
    with suppress(OSError, ValueError, LookupError, TypeError, EdgebenchError):
        reports = _read(_path())[_circumstances()]
        return {
            str(name): from_plain(report, RuntimeReport) for name, report in dict(reports).items()
        }
    return {}


def keep_reports(reports: Iterable[RuntimeReport]) -> None:
    """Store reports for later agents; errors of the disk are ignored."""
    path = _path()
    with suppress(OSError):
        others: dict[str, object] = {}
        with suppress(OSError, ValueError, TypeError):
            others = dict(_read(path))
        others.pop(key := _circumstances(), None)
        newest = dict(list(others.items())[-(MAX_CIRCUMSTANCES - 1) :])
        newest[key] = {report.name: to_plain(report) for report in reports}
        make_directory(path.parent)
        write_whole(path, json.dumps(newest))


def installed_state() -> tuple[float, ...]:
    """Times of the last changes to packages and system libraries, seconds since 1970."""
    packages = (place for place in sys.path if place.endswith("-packages"))
    return _changed(*packages, "/etc/ld.so.cache", "/lib", "/usr/lib")


def _changed(*paths: str | Path) -> tuple[float, ...]:
    times: list[float] = []
    for path in paths:
        with suppress(OSError):
            times.append(Path(path).stat().st_mtime)
    return tuple(times)


def _circumstances() -> str:
    """Digest of everything that determines the report of a built-in runtime."""
    boot = ""
    with suppress(OSError):  # a kernel update may add or remove a driver
        boot = Path("/proc/sys/kernel/random/boot_id").read_text()
    everything = (
        (INTERPRETER, sys.version, sys.path, boot, os.geteuid()),
        installed_state(),
        _changed(
            *sorted(_AGENT_DIRECTORY.glob("runtimes/*.py")),
            *sorted(_AGENT_DIRECTORY.glob("confine/*.py")),
        ),
        sorted(listed_variables(os.environ).items()),
        [path for pattern in ACCELERATOR_DEVICES for path in sorted(glob.glob(pattern))],
    )
    return hashlib.sha256(json.dumps(everything).encode()).hexdigest()


def _path() -> Path:
    return Path(cache_directory(os.environ)) / FILE_NAME


def _read(path: Path) -> Mapping[str, Mapping[str, object]]:
    kept: Mapping[str, Mapping[str, object]] = json.loads(path.read_bytes())
    return kept
