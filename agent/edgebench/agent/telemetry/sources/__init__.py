"""Telemetry sources, one file each."""

from edgebench.agent.telemetry.source import Source
from edgebench.agent.telemetry.sources.cooling import Cooling
from edgebench.agent.telemetry.sources.cpu import Cpu
from edgebench.agent.telemetry.sources.cpufreq import Cpufreq
from edgebench.agent.telemetry.sources.devfreq import Devfreq
from edgebench.agent.telemetry.sources.hwmon import Hwmon
from edgebench.agent.telemetry.sources.iio_rails import IioRails
from edgebench.agent.telemetry.sources.memory import Memory
from edgebench.agent.telemetry.sources.power_supply import PowerSupply
from edgebench.agent.telemetry.sources.pressure import Pressure
from edgebench.agent.telemetry.sources.raspberry_pi import RaspberryPi
from edgebench.agent.telemetry.sources.thermal import Thermal
from edgebench.agent.telemetry.sources.worker import Worker
from edgebench.agent.telemetry.sources.x86_throttle import X86Throttle

SOURCES: tuple[type[Source], ...] = (
    Thermal,
    Cooling,
    Hwmon,
    Cpufreq,
    Devfreq,
    RaspberryPi,
    X86Throttle,
    IioRails,
    PowerSupply,
    Memory,
    Pressure,
    Cpu,
    Worker,
)
"""All of them; a source that has nothing here says why."""
