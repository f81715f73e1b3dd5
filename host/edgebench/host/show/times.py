"""Times as people read them: local times, and times since an event. Files and JSON use UTC."""

from __future__ import annotations

from datetime import datetime

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from edgebench.host.result.run import Run

TO_THE_MINUTE = "%Y-%m-%d %H:%M %Z"
_UNITS = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))


def local_time(then_utc: str, layout: str = "%Y-%m-%d %H:%M:%S %Z") -> str:
    """Convert a time from a file to the time zone of this machine; other text is unchanged.

    Args:
        then_utc: ISO 8601.
        layout: For `datetime.strftime`.

    >>> local_time("yesterday")
    'yesterday'
    """
    try:
        then = datetime.fromisoformat(then_utc)
    except ValueError:  # a file that was changed by hand
        return then_utc
    if then.tzinfo is None:
        return then_utc
    return then.astimezone().strftime(layout)


def age(then_utc: str, now: datetime) -> str:
    """The time since `then_utc`, in the largest unit that fits.

    If `then_utc` is not a time, it is returned unchanged.

    >>> from datetime import timezone
    >>> age("2026-11-22T10:00:00+00:00", datetime(2026, 11, 23, 12, tzinfo=timezone.utc))
    '1 d'
    """
    try:
        passed_s = max(0.0, (now - datetime.fromisoformat(then_utc)).total_seconds())
    except (ValueError, TypeError):  # a file that was changed by hand
        return then_utc
    return in_largest_unit(passed_s)


def in_largest_unit(passed_s: float) -> str:
    """A duration in the largest unit that fits.

    >>> in_largest_unit(119), in_largest_unit(0.2)
    ('1 min', '0 s')
    """
    unit, length_s = next(unit for unit in _UNITS if passed_s >= unit[1] or unit[1] == 1)
    return f"{passed_s // length_s:.0f} {unit}"


def simulated_pace(run: Run) -> str:
    """Text for the end of a duration: how fast a simulated board heats up; often empty.

    If a simulated board that heats up 20 times as fast throttles after 10 s, a real board would do
    so after 200 s. The text is empty if the board heats up as fast as a real board.
    """
    pace = run.time_scale
    is_real = pace is None or pace == 1
    return "" if is_real else f" (heat runs {pace:g} × as fast as on a real board)"
