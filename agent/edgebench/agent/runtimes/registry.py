"""The runtimes that an agent knows, and the report on which of them work here.

Ours are listed below; others register under the entry-point group `edgebench.runtimes`.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from importlib.metadata import entry_points
from pathlib import Path

from edgebench.agent.runtimes.onnx import OnnxRuntime
from edgebench.agent.runtimes.tflite import LiteRt, TfliteRuntime
from edgebench.protocol.device import RuntimeReport
from edgebench.protocol.errors import RuntimeUnavailable
from edgebench.protocol.plain import from_plain, to_plain
from edgebench.protocol.runtime import Runtime, UsableRuntime

ENTRY_POINT_GROUP = "edgebench.runtimes"
PROBE_TIMEOUT_S = 60.0
BUILT_IN: tuple[type[Runtime], ...] = (LiteRt, TfliteRuntime, OnnxRuntime)
"""Built-in drivers, in order of preference for a format."""


def known_runtimes() -> dict[str, Runtime]:
    """Every driver by name; no library is imported, only the drivers themselves."""
    drivers = [kind() for kind in BUILT_IN]
    drivers += [point.load()() for point in entry_points(group=ENTRY_POINT_GROUP)]
    return {driver.name: driver for driver in drivers}


def find_runtime(name: str) -> Runtime:
    """The driver of this name.

    Raises:
        RuntimeUnavailable: there is none.
    """
    drivers = known_runtimes()
    if name not in drivers:
        raise RuntimeUnavailable(f"unknown runtime {name[:40]!r}: there are {', '.join(drivers)}")
    return drivers[name]


def probe_all() -> tuple[RuntimeReport, ...]:
    """Probe every driver, each in a throw-away process: some break by crashing."""
    return tuple(_probe_apart(driver) for driver in known_runtimes().values())


def installed_state() -> tuple[float, ...]:
    """When packages and system libraries last changed; a probe from before says nothing."""
    times = []
    packages = (place for place in sys.path if place.endswith("-packages"))
    for place in (*packages, "/etc/ld.so.cache", "/lib", "/usr/lib"):
        with suppress(OSError):
            times.append(Path(place).stat().st_mtime)
    return tuple(times)


def probe_here(name: str) -> RuntimeReport:
    """Probe one driver in this process."""
    driver = find_runtime(name)
    probed = driver.probe()
    if isinstance(probed, UsableRuntime):
        return RuntimeReport(name, driver.formats, probed.version, delegates=probed.delegates)
    return RuntimeReport(name, driver.formats, reason=probed.reason, install=probed.install)


def _probe_apart(driver: Runtime) -> RuntimeReport:
    command = [sys.executable, "-m", "edgebench.agent.runtimes.registry", driver.name]
    try:
        result = subprocess.run(
            command, capture_output=True, timeout=PROBE_TIMEOUT_S, check=True, text=True
        )
        return from_plain(json.loads(result.stdout.splitlines()[-1]), RuntimeReport)
    except subprocess.TimeoutExpired:
        reason = f"its import did not end within {PROBE_TIMEOUT_S:.0f} s"
    except subprocess.CalledProcessError as exc:
        reason = f"its import ended the process with status {exc.returncode}"
    except (IndexError, ValueError) as exc:
        reason = f"its probe said nothing readable: {exc}"
    return RuntimeReport(driver.name, driver.formats, reason=reason)


if __name__ == "__main__":
    print(json.dumps(to_plain(probe_here(sys.argv[1]))))
