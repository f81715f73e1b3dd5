"""Watching many agents at once: their state, and samples of their temperature and clock."""

from edgebench.host.watch.farm import watch
from edgebench.host.watch.update import Absence, Batch, StateChange, Update

__all__ = ["Absence", "Batch", "StateChange", "Update", "watch"]
