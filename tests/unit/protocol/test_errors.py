"""The error tree: what the wire, the exit code and the documentation rely on."""

from __future__ import annotations

import pickle
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgebench.protocol import errors
from edgebench.protocol.errors import (
    MAX_TEXT,
    EdgebenchError,
    ErrorCode,
    LocalProtocolError,
    ProtocolError,
    StoreError,
    TargetError,
    error_from_code,
    os_error_as,
)


def all_errors() -> list[type[EdgebenchError]]:
    """Every error class of the module."""
    found = [value for value in vars(errors).values() if isinstance(value, type)]
    return [kind for kind in found if issubclass(kind, EdgebenchError)]


def drawn_tree() -> dict[str, str]:
    """Parent by class name, as the module's docstring draws it; a level is four columns wide."""
    parents: dict[str, str] = {}
    stack: list[str] = []
    for line in (errors.__doc__ or "").splitlines():
        match = re.match(r"^    ((?:│   |    |├── |└── )*)([A-Z]\w+)", line)
        if match is None:
            continue
        level = len(match[1]) // 4
        stack[level:] = [match[2]]
        parents[match[2]] = stack[level - 1] if level else "Exception"
    return parents


def test_drawn_tree_is_the_tree_of_the_classes() -> None:
    """Otherwise the drawing in the docstring would show a wrong parent, or miss a class."""
    assert drawn_tree() == {kind.__name__: kind.__mro__[1].__name__ for kind in all_errors()}


def test_codes_are_never_renumbered() -> None:
    """Otherwise an older host would read an error as a different one."""
    assert {code.name: code.value for code in ErrorCode} == {
        "UNKNOWN": 0,
        "USAGE": 1,
        "TARGET": 2,
        "RUNTIME_UNAVAILABLE": 3,
        "MODEL_REFUSED": 4,
        "WORKER_DIED": 5,
        "WORKER_TIMEOUT": 6,
        "LEASE_HELD": 7,
        "NO_SPACE": 8,
        "PROTOCOL": 9,
        "INTERNAL": 10,
        "NOT_PAIRED": 11,
        "TOO_HOT": 12,
        "GOVERNOR_REFUSED": 13,
        "SETTING_REFUSED": 30,
        "INPUTS_REFUSED": 14,
        "INFERENCE_FAILED": 15,
        "DATASET_REFUSED": 16,
        "NO_SUCH_DEVICE": 17,
        "SAMPLE_SHAPE_REFUSED": 18,
        "SAMPLE_TYPE_REFUSED": 19,
        "SAMPLES_CLIPPED": 20,
        "OUTPUTS_TOO_LARGE": 21,
        "RUN_STOPPED": 22,
        "DEVICE_GONE": 23,
        "DATASET_TOO_SLOW": 24,
        "TARGET_DRIVER_MISSING": 25,
        "DELEGATE_REFUSED": 26,
        "SIGNATURE_REFUSED": 28,
        "EXTERNAL_DATA_REFUSED": 29,
        "BOARD_MODEL_REFUSED": 31,
        "OTHER_BOARD": 32,
        "NO_BOARD_PROFILER": 33,
    }


@pytest.mark.parametrize(
    "kind",
    [kind for kind in all_errors() if "code" in vars(kind) and kind is not EdgebenchError],
    ids=lambda kind: kind.__name__,
)
def test_error_with_a_code_of_its_own_survives_the_wire(kind: type[EdgebenchError]) -> None:
    """Otherwise the host would see another class than the agent raised, with the wrong hint."""
    expected = LocalProtocolError if kind is ProtocolError else kind
    found = error_from_code(int(kind.code), "what failed: 3, limit 2")
    assert type(found) is expected
    assert str(found) == "what failed: 3, limit 2"


@pytest.mark.parametrize("code", list(ErrorCode))
def test_every_code_becomes_an_error(code: ErrorCode) -> None:
    """Otherwise a code would have no class, and the host would crash over it."""
    assert isinstance(error_from_code(code, "text"), EdgebenchError)


@pytest.mark.parametrize("code", [27, 999, -1, 2**63])
def test_unknown_code_survives(code: int) -> None:
    """Otherwise an error of a newer agent would crash an older host."""
    assert ErrorCode(code) is ErrorCode.UNKNOWN
    assert type(error_from_code(code, "newer trouble")) is TargetError


@given(st.text(max_size=2000))
def test_text_from_the_other_side_becomes_one_printable_line(text: str) -> None:
    """Otherwise a device could clear, or fill, the terminal on which its error is shown."""
    line = str(error_from_code(int(ErrorCode.TARGET), text))
    assert line.isprintable()
    assert len(line) <= MAX_TEXT


def test_only_the_link_and_a_held_lease_are_worth_another_try() -> None:
    """Otherwise a campaign would repeat what can never work, or give up what would."""
    retryable = {kind.__name__ for kind in all_errors() if kind.retryable}
    links = {"TransportError", "Unreachable", "AgentBusy", "LinkLost", "LinkTimeout"}
    phones = {"PhoneUnavailable", "AgentNotStarted"}  # unplugged, locked, or restarted
    assert retryable == links | phones | {"LeaseHeld"}


@pytest.mark.parametrize(
    ("error", "place", "expected"),
    [
        (OSError(2, "No such file", "/x"), None, "not readable: No such file: /x"),
        (OSError(2, "No such file", "/x"), "/y", "not readable: No such file: /y"),
        (OSError("Corrupt snappy data"), None, "not readable: Corrupt snappy data"),
        (OSError("Corrupt snappy data"), "/y", "not readable: Corrupt snappy data: /y"),
        (OSError(), None, "not readable"),
    ],
)
def test_error_of_the_system_has_its_reason_and_place(
    error: OSError, place: str | None, expected: str
) -> None:
    """Otherwise a file that a library cannot read would be reported as `None: None`."""
    with pytest.raises(StoreError) as caught, os_error_as(StoreError, "not readable", place):
        raise error
    assert str(caught.value) == expected


def test_no_error_shadows_a_builtin() -> None:
    """Otherwise `except TimeoutError` would catch the wrong class."""
    import builtins

    assert not {kind.__name__ for kind in all_errors()} & set(dir(builtins))


def test_every_error_arrives_in_another_process_as_it_was() -> None:
    """Otherwise an error of a lab host would end the coordinator, as it cannot be made again."""
    for kind in all_errors():
        error = kind.__new__(kind)
        error.args = ("a text",)
        error.__dict__ |= {"run_id": "20260102-030405-0123abcd", "waited_s": 3.0, "meant": "x"}
        arrived = pickle.loads(pickle.dumps(error))
        assert type(arrived) is kind
        assert (arrived.args, arrived.__dict__) == (error.args, error.__dict__)
