"""The driver of targets, which time themselves, if it is installed.

This is the only place of the agent that looks for the driver. The firmware bridge registers it.
"""

from __future__ import annotations

from edgebench.protocol.device import RuntimeReport
from edgebench.protocol.errors import TargetDriverMissing
from edgebench.protocol.target import ENTRY_POINT_GROUP, TargetDriver


def find_driver() -> TargetDriver:
    """The driver that is installed beside the agent.

    Raises:
        TargetDriverMissing: none is.
    """
    # Imported here: an agent without targets needs none of it.
    from importlib.metadata import entry_points

    for point in entry_points(group=ENTRY_POINT_GROUP):
        driver: TargetDriver = point.load()()
        return driver
    raise TargetDriverMissing("the firmware bridge is not installed here")


def runtime_report() -> RuntimeReport:
    """What runs models on targets."""
    driver = find_driver()
    return RuntimeReport(driver.runtime, driver.formats, driver.version, is_target=True)
