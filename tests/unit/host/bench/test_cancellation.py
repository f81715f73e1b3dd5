"""An end of measurements that any thread may ask for."""

from __future__ import annotations

import pytest

from edgebench.host.bench.cancellation import Cancellation, Interrupted


def test_action_is_performed_once_and_only_while_it_is_wanted() -> None:
    """A run that has ended is stopped, or the next one on that device."""
    done: list[str] = []
    cancellation = Cancellation()
    cancellation.check()
    with cancellation.performing(lambda: done.append("early")):
        pass
    with cancellation.performing(lambda: done.append("wanted")):
        cancellation.request()
        cancellation.request()
    assert done == ["wanted"]
    with pytest.raises(Interrupted):
        cancellation.check()


def test_action_that_comes_after_the_request_is_performed_at_once() -> None:
    """A run that starts in the moment of the request goes on to its end."""
    done: list[str] = []
    cancellation = Cancellation()
    cancellation.request()
    with cancellation.performing(lambda: done.append("late")):
        assert done == ["late"]
