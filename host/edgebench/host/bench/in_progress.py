"""Watch a run in progress, from the host that started it or from a host that follows it."""

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
"""Minimum expected duration of a warm-up during which the device's clock is probed. In a shorter
warm-up, the probe could extend into the timed loop and disturb the measurement."""


def probing(client: Client, probes: list[list[ClockProbe]], on_notice: OnNotice) -> OnNotice:
    """Wrap `on_notice` to probe the device's clock right before and right after the timed loop."""

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
    """Wait for the run's end; return its last message, and whether this process stopped it."""

    def stop() -> None:
        with suppress(TransportError):  # `follow_run` raises it, too
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
                    raise  # at the second Ctrl-C, the user does not want to wait
                is_interrupted = True
                client.request_cancel(run_id)
