"""Warning of `bundle` and `report` about failed runs, which `last` may name."""

from __future__ import annotations

from edgebench.system.terminal import echo

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgebench.host.store.address import Address


def warn_of_failed(runs: Iterable[Address]) -> None:
    """Warn of runs that failed and therefore have no numbers."""
    from edgebench.host.store.index import stored_summary

    for run in runs:
        failure = stored_summary(run.store, run.run_id).failure
        if failure is not None:
            echo(f"warning: run {run.run_id} failed ({failure}) and has no numbers")
