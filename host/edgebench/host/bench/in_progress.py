"""A run in progress, as the host that started it or one that follows it listens to it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from edgebench.host.bench.cancellation import Cancellation
from edgebench.host.client import Client
from edgebench.protocol.clock import ClockProbe
from edgebench.protocol.errors import TransportError
from edgebench.protocol.messages import Progress, RunEnded, Telemetry
from edgebench.protocol.record import Phase

OnNotice = Callable[[Progress | Telemetry], None]

PROBED_WARMUP_S = 0.5
"""A warm-up of at least so long has room for probes; in the timed loop nobody asks anything."""


def probing(client: Client, probes: list[list[ClockProbe]], on_notice: OnNotice) -> OnNotice:
    """Probe the device's clock right before and right after the timed loop, and pass notices on."""

    def watch(notice: Progress | Telemetry) -> None:
        on_notice(notice)
        if not isinstance(notice, Progress) or notice.reached is not None:
            return
        has_room = (notice.expected_s or 0.0) >= PROBED_WARMUP_S
        if notice.phase is Phase.SPOOLING or (notice.phase is Phase.WARMING_UP and has_room):
            probes.append(client.probe_clock())

    return watch


def wait_for_end(
    client: Client, run_id: str, on_notice: OnNotice, cancellation: Cancellation
) -> tuple[RunEnded, bool]:
    """The end of the run, and whether this process requested it."""

    def stop() -> None:
        with suppress(TransportError):  # whoever follows the run hears of it
            client.request_cancel(run_id)

    is_interrupted = False
    with cancellation.performing(stop):
        while True:
            try:
                for notice in client.follow_run():
                    if isinstance(notice, RunEnded):
                        return notice, is_interrupted or cancellation.is_requested
                    on_notice(notice)
            except KeyboardInterrupt:
                if is_interrupted:
                    raise  # the second time, the user does not want to wait
                is_interrupted = True
                client.request_cancel(run_id)
