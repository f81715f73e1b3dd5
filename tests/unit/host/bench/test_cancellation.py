"""An end of measurements that any thread may request."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator

import pytest

from edgebench.host.bench.cancellation import Cancellation, Interrupted, holding_interrupts
from edgebench.protocol.errors import TargetError


@pytest.fixture
def _python_answers() -> Iterator[None]:
    """Let Python handle Ctrl-C, also where a runner of the tests ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_action_is_performed_once_and_only_while_it_is_wanted() -> None:
    """Otherwise a run that has ended would be stopped, or the next run on that device."""
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
    """Otherwise a run that starts in the moment of the request would go on to its end."""
    done: list[str] = []
    cancellation = Cancellation()
    cancellation.request()
    with cancellation.performing(lambda: done.append("late")):
        assert done == ["late"]


@pytest.mark.usefixtures("_python_answers")
def test_first_interrupt_is_held_and_the_second_is_not() -> None:
    """Otherwise a run that has ended would stay on its device, or Ctrl-C be lost for good."""
    with holding_interrupts() as is_pressed:
        assert not is_pressed.is_set()
        signal.raise_signal(signal.SIGINT)
        assert is_pressed.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("_python_answers")
def test_block_that_fails_after_ctrl_c_is_interrupted() -> None:
    """Otherwise a run that is refused would swallow the key, and the next run would begin."""

    def fail(*, is_pressed: bool) -> None:
        with holding_interrupts():
            if is_pressed:
                signal.raise_signal(signal.SIGINT)
            raise TargetError("refused")

    with pytest.raises(Interrupted):
        fail(is_pressed=True)
    with pytest.raises(TargetError, match="refused"):
        fail(is_pressed=False)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("_python_answers")
def test_handler_of_before_acknowledges_the_key_and_comes_back() -> None:
    """Otherwise the user would see nothing happen, or the next command not be cancelled."""
    acknowledged: list[int] = []

    def acknowledge(number: int, _: object) -> None:
        acknowledged.append(number)
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, acknowledge)
    with holding_interrupts() as is_pressed:
        pass
    assert signal.getsignal(signal.SIGINT) is acknowledge
    assert not is_pressed.is_set()
    with holding_interrupts() as is_pressed:
        signal.raise_signal(signal.SIGINT)
    assert (acknowledged, is_pressed.is_set()) == ([signal.SIGINT], True)


def test_other_threads_have_nothing_to_hold() -> None:
    """Otherwise a lane of a farm would end in an error of the signal module."""
    pressed: list[bool] = []

    def work() -> None:
        with holding_interrupts() as is_pressed:
            pressed.append(is_pressed.is_set())

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert pressed == [False]
