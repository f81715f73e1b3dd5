"""Telemetry sources, each in its own file."""

from pathlib import Path

from edgebench.agent.telemetry.source import TelemetrySource
from edgebench.agent.telemetry.sources.android import AndroidHeatSource, AndroidStateSource
from edgebench.agent.telemetry.sources.cooling import CoolingSource
from edgebench.agent.telemetry.sources.cpu import CpuSource
from edgebench.agent.telemetry.sources.cpufreq import CpufreqSource
from edgebench.agent.telemetry.sources.devfreq import DevfreqSource
from edgebench.agent.telemetry.sources.hwmon import HwmonSource
from edgebench.agent.telemetry.sources.iio_rails import IioRailsSource
from edgebench.agent.telemetry.sources.memory import MemorySource
from edgebench.agent.telemetry.sources.power_supply import PowerSupplySource
from edgebench.agent.telemetry.sources.pressure import PressureSource
from edgebench.agent.telemetry.sources.raspberry_pi import RaspberryPiSource
from edgebench.agent.telemetry.sources.thermal import ThermalSource
from edgebench.agent.telemetry.sources.worker import WorkerSource
from edgebench.agent.telemetry.sources.x86_throttle import X86ThrottleSource
from edgebench.system.android_commands import is_android

SOURCES: tuple[type[TelemetrySource], ...] = (
    ThermalSource,
    CoolingSource,
    HwmonSource,
    CpufreqSource,
    DevfreqSource,
    RaspberryPiSource,
    X86ThrottleSource,
    IioRailsSource,
    PowerSupplySource,
    MemorySource,
    PressureSource,
    CpuSource,
    WorkerSource,
)
"""Sources for any Linux system; a source without data on this device reports the reason."""
ANDROID_SOURCES: tuple[type[TelemetrySource], ...] = (AndroidHeatSource, AndroidStateSource)
"""Sources that read services of Android."""


def sources_under(root: Path) -> tuple[type[TelemetrySource], ...]:
    """The sources for the system under this root directory."""
    return (*SOURCES, *ANDROID_SOURCES) if is_android(root) else SOURCES
