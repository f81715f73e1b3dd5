"""USB cable testers, which measure in both directions and can be plugged in backwards.

A device only draws power, so negative power means that the tester is reversed, not that the device
supplies power.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

from edgebench.protocol.errors import UsageError

T = TypeVar("T")

BACKWARDS_W = 0.01
"""Largest power in W, positive or negative, that a tester may show without a load."""


def only_tester(
    testers: Sequence[T],
    known: Collection[tuple[int, int]],
    serial: str,
    hint: str,
    what: str = "USB tester",
) -> T:
    """Return the only matching tester.

    Args:
        testers: Matching testers.
        known: Vendor and product ids that were searched for.
        serial: Serial number that was searched for; empty: any.
        hint: Text on how to select a tester. The error about several testers contains this text
            after the words "select a" and the last word of `what`.
        what: Name of the kind of tester, used in messages.

    Raises:
        UsageError: no tester matches, or several do.
    """
    if not testers:
        ids = ", ".join(f"{vendor:04x}:{product:04x}" for vendor, product in sorted(known))
        which = f"with serial number {serial} " if serial else ""
        raise UsageError(f"no {what} {which}is connected; looked for {ids}")
    if len(testers) > 1:
        kind = what.split()[-1]
        raise UsageError(f"{len(testers)} such {kind}s are connected, select a {kind}{hint}")
    return testers[0]


def sign_of(is_reversed: bool) -> int:
    """Factor 1 or -1 that makes the power drawn by the device positive."""
    return -1 if is_reversed else 1


def refuse_backwards(power_w: float, *, is_reversed: bool) -> None:
    """Reject a tester that would record negative energy.

    Args:
        power_w: Present power, with the sign that would be recorded.
        is_reversed: Whether the user gave the option `reversed`.

    Raises:
        UsageError: the power is below zero by more than `BACKWARDS_W`.
    """
    if power_w < -BACKWARDS_W:
        advice = "leave out" if is_reversed else "add"
        raise UsageError(
            f"power flows backwards through the tester ({power_w:.3g} W): turn it round, or "
            f"{advice} `,reversed`"
        )
