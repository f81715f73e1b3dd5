"""USB cable testers: they measure both directions, and can be inserted the wrong way round.

A device only takes power, so power that flows backwards is a cable the other way round, not a
device that gives some.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TypeVar

from edgebench.protocol.errors import UsageError

T = TypeVar("T")

BACKWARDS_W = 0.01
"""Less than that may be the offset of a meter with nothing behind it."""


def only_tester(
    testers: Sequence[T],
    known: Collection[tuple[int, int]],
    serial: str,
    hint: str,
    what: str = "USB tester",
) -> T:
    """The only tester among those that fit.

    Args:
        testers: Those that fit.
        known: Vendor and product of those that were looked for.
        serial: Serial number that was looked for; empty: any.
        hint: How to name one of several; follows "name one".
        what: What it is, for people.

    Raises:
        UsageError: there is none, or there are several.
    """
    if not testers:
        ids = ", ".join(f"{vendor:04x}:{product:04x}" for vendor, product in sorted(known))
        which = f"with serial number {serial} " if serial else ""
        raise UsageError(f"no {what} {which}is connected; looked for {ids}")
    if len(testers) > 1:
        raise UsageError(f"{len(testers)} such {what.split()[-1]}s are connected, name one{hint}")
    return testers[0]


def sign_of(is_reversed: bool) -> int:
    """Factor that makes the power which the device takes positive."""
    return -1 if is_reversed else 1


def refuse_backwards(power_w: float, *, is_reversed: bool) -> None:
    """Refuse a tester that would measure negative energies.

    Args:
        power_w: As read now, with the sign that it would be recorded with.
        is_reversed: What the user said of the cable.

    Raises:
        UsageError: the device would give power.
    """
    if power_w < -BACKWARDS_W:
        advice = "leave out" if is_reversed else "add"
        raise UsageError(
            f"power flows backwards through the tester ({power_w:.3g} W): turn it round, or "
            f"{advice} `,reversed`"
        )
