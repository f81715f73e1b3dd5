"""Unforeseen ends of commands: one line, one document, and the measured runs."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import pytest

from edgebench.host.cli.main import main
from edgebench.host.lab import Lab
from edgebench.protocol.errors import Unreachable
from edgebench.system.exit_code import ExitCode


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Directory of the tracebacks; signal handlers are restored afterwards."""
    for name in ("STATE", "DATA", "CONFIG"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    monkeypatch.delenv("EDGEBENCH_DEBUG", raising=False)
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}
    yield tmp_path / "STATE" / "edgebench" / "tracebacks"
    for number, handler in before.items():
        signal.signal(number, handler)


def fail(*_: object, **__: object) -> NoReturn:
    """Raise an arbitrary error, as a library may."""
    raise Exception("no\nreason")


def test_command_ends_in_one_line(
    state: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise it would end in a traceback."""
    monkeypatch.setattr(Lab, "measure", fail)
    assert main(["bench", "digits_int8.onnx"]) == ExitCode.FAILED
    out, err = capsys.readouterr()
    (file,) = state.iterdir()
    error, hint = err.splitlines()
    assert error == f"error: unforeseen Exception: no reason; traceback: {file}"
    assert hint.startswith("hint: report this error, with the traceback file")
    assert out == ""
    assert 'raise Exception("no\\nreason")' in file.read_text()


@pytest.mark.parametrize("command", ["bench", "collect"])
def test_document_is_the_only_one(
    command: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise a script would read no document, or two."""
    monkeypatch.setattr(Lab, "measure", fail)
    monkeypatch.setattr(Lab, "collect", fail)
    assert main([command, "--json"]) == ExitCode.FAILED
    document = json.loads(capsys.readouterr().out)
    assert (document["runs"], document["sets"]) == ([], [])
    (error,) = document["errors"]
    assert error["code"] == "unforeseen"
    assert error["message"].startswith("unforeseen Exception: no reason; traceback: ")


def test_fault_in_the_report_of_an_error_is_a_document_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise runs that cannot be printed would leave a script without any document."""

    def unreachable(*_: object, **__: object) -> NoReturn:
        raise Unreachable("no answer")

    monkeypatch.setattr(Lab, "measure", unreachable)
    monkeypatch.setattr("edgebench.host.cli.bench_report.report_runs", fail)
    assert main(["bench", "--json"]) == ExitCode.FAILED
    out, err = capsys.readouterr()
    (error,) = json.loads(out)["errors"]
    assert error["code"] == "unforeseen"
    assert sum(line.startswith("error: ") for line in err.splitlines()) == 1


def test_file_that_cannot_be_read_is_a_document(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise a system error would be a line on stderr only, and a script read nothing."""

    def denied(*_: object, **__: object) -> NoReturn:
        raise PermissionError(13, "Permission denied", "/x")

    monkeypatch.setattr("edgebench.host.cli.runs.run", denied)
    assert main(["runs", "--json"]) == ExitCode.FAILED
    out, err = capsys.readouterr()
    assert json.loads(out)["error"]["message"] == "cannot read or write /x: Permission denied"
    assert err.splitlines()[0] == "error: cannot read or write /x: Permission denied"
