"""Warning that a name such as `last` also selected failed runs, for `bundle` and `report`."""

from __future__ import annotations

from edgebench.system.terminal import echo

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from collections.abc import Iterable

    from edgebench.host.store.address import Address


def warn_of_failed(runs: Iterable[Address]) -> None:
    """Warn of runs that failed and therefore have no numbers."""
    from contextlib import suppress

    from edgebench.protocol.errors import StoreError
    from edgebench.protocol.text import printable

    for address in runs:
        with suppress(StoreError):  # `verify` reports what is damaged
            failure = address.run().failure
            if failure is not None:
                code = printable(failure.code)
                echo(f"warning: run {address.run_id} failed ({code}) and has no numbers")
