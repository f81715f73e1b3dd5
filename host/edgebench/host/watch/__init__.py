"""Watching of many agents at once: states of devices, and samples of temperature and clock."""

from edgebench.host.watch.farm import watch
from edgebench.host.watch.update import Absence, Batch, StateChange, Update

__all__ = ["Absence", "Batch", "StateChange", "Update", "watch"]
