"""The driver of targets, which time themselves, if it is installed.

This is the only place of the agent that looks for the driver. The firmware bridge registers it.
"""

from __future__ import annotations

from edgebench.protocol.device import RuntimeReport
from edgebench.protocol.errors import TargetDriverMissing
from edgebench.protocol.extension import first_installed
from edgebench.protocol.target import ENTRY_POINT_GROUP, TargetDriver


def find_driver() -> TargetDriver:
    """The driver that is installed with the agent.

    Raises:
        TargetDriverMissing: no driver is installed.
    """
    driver: TargetDriver | None = first_installed(ENTRY_POINT_GROUP)
    if driver is None:
        raise TargetDriverMissing("the firmware bridge is not installed here")
    return driver


def runtime_report() -> RuntimeReport:
    """Describe the runtime of targets."""
    driver = find_driver()
    return RuntimeReport(driver.runtime, driver.formats, driver.version, is_target=True)
