"""Hints: every error has a next step, and the step is a command."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.errors import LEAVES, made

from edgebench.host.cli.main import COMMANDS
from edgebench.host.devices.discovery import named
from edgebench.host.options.command import CommandLine
from edgebench.host.show.hints import hint_for
from edgebench.protocol import errors
from edgebench.protocol.errors import (
    BoardModelRefused,
    DirectoryTaken,
    EdgebenchError,
    ModelRefused,
    NoSuchMeter,
    NotPermitted,
    Permission,
    RunDamaged,
    StoreError,
    WorkerDied,
)


@pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.__name__)
def test_every_kind_of_error_has_a_hint(kind: type[EdgebenchError]) -> None:
    """Otherwise a user would read what failed, but not what to do."""
    hint = hint_for(made(kind))
    assert hint is not None
    assert "\n" not in hint
    assert any(word in hint for word in ("edgebench", "ssh ", "df -h")), "a hint holds a command"


@pytest.mark.parametrize("kind", LEAVES, ids=lambda kind: kind.__name__)
def test_commands_in_hints_exist(kind: type[EdgebenchError]) -> None:
    """Otherwise a hint would name a command that does not exist."""
    words = re.sub("[(:;]", " ", hint_for(made(kind))).split()
    named = [words[i + 1] for i, word in enumerate(words[:-1]) if word == "edgebench"]
    assert set(named) <= {*COMMANDS, "--help", "--version"}
    agent = [words[i + 1] for i, word in enumerate(words[:-1]) if word == "edgebench-agent"]
    assert set(agent) <= {"serve", "pair", "status", "stop", "new-identity"}


@pytest.mark.parametrize(
    ("error", "command", "words"),
    [
        (errors.WrongMeterOption("x"), "bench", "edgebench meters info --help"),
        (errors.UsageError("x"), "meters", "edgebench meters info --help"),
        (errors.UsageError("x"), "bench", "edgebench bench --help"),
        (errors.StoreError("x"), "meters", "--output DIR"),
        (errors.StoreError("x"), "bench", "--store DIRECTORY"),
        (errors.StoreError("x"), "tag", "make the store writable; or copy its runs"),
        (errors.StoreError("x"), "store merge", "repeat the merge, which resumes: edgebench"),
        (errors.MeterNotServed("x", "ppk2", meant="ppk2:/dev/x"), "bench", "agent:ppk2:/dev/x"),
        (errors.MeterNotServed("x", "ppk2"), "bench", "edgebench-agent serve --meter ppk2"),
        (NoSuchMeter("x", permission=Permission.SERIAL_PORT), "bench", "dialout $USER"),
        (NoSuchMeter("x", permission=Permission.USB_TESTER), "bench", "udev rule"),
        (NoSuchMeter("no permission to use serial port /dev/x"), "bench", "see which meters are"),
        (NotPermitted("x", Permission.USB_TESTER), "meters", "udev rule"),
        (DirectoryTaken("x"), "meters", "choose another directory: edgebench meters record"),
        (DirectoryTaken("x"), "bench", "--store DIRECTORY"),
        (errors.LeaseHeld("x"), "stop", "end the run from the host that started it, or"),
        (errors.LeaseHeld("x", is_by_this_host=True), "stop", "with Ctrl-C in its terminal"),
        (
            errors.LeaseHeld("x", is_by_this_host=True),
            "bench",
            "--wait 10m; or end your other command with Ctrl-C in its terminal",
        ),
        (
            errors.LeaseHeld("x", waited_s=5.0),
            "bench",
            "wait longer: edgebench bench MODEL --w",
        ),
        (
            errors.LeaseHeld("x", waited_s=1200.0),
            "bench",
            "--wait 200m; or end the run on the device",
        ),
        (
            errors.LeaseHeld("x"),
            "bench",
            "wait until the device is free: edgebench bench MODEL --wait 10m; or end the",
        ),
        (errors.DatasetIncomplete("x"), "bench", "n >= 1 samples, along the first axis of x"),
        (errors.DatasetNotFinite("x"), "bench", "np.isfinite"),
        (errors.SampleShapeRefused("x"), "bench", "without its batch dimension"),
        (errors.SampleTypeRefused("x"), "bench", "x.astype('float32')"),
        (errors.SamplesClipped("x"), "bench", "scale x"),
        (errors.OutputsTooLarge("x"), "bench", "fewer samples"),
        (errors.DatasetTooSlow("x"), "bench", "--accuracy-limit"),
        (StoreError("no space on /mnt/existing already: x"), "meters", "df -h"),
    ],
)
def test_hint_knows_the_command(error: EdgebenchError, command: str, words: str) -> None:
    """Otherwise a hint would name an option that the command lacks, or an irrelevant help page."""
    assert words in hint_for(error, CommandLine(command=command))


def test_damaged_run_can_be_removed() -> None:
    """The hint has the id of the run: `rm last` would remove the whole last command."""
    given = CommandLine(command="show", names={"RUN…": ("last",)}, store=("--store", "d"))
    damaged = RunDamaged("run is damaged")
    assert "edgebench rm" not in hint_for(damaged, given)
    damaged.damaged_id = "20260102-030405-0123abcd"
    assert hint_for(damaged, given).startswith(
        "remove the run: edgebench rm 20260102-030405-0123abcd --store d; or measure again: "
    )


def test_model_that_is_not_whole_is_copied_again(tmp_path: Path) -> None:
    """Otherwise the hint for half a download would be to try other runtimes."""
    path = tmp_path / "m.onnx"
    path.write_bytes(b"")
    given = CommandLine(command="bench", arguments=((str(path),),), names={"MODEL": (str(path),)})
    for error in (ModelRefused("no"), WorkerDied("killed by signal 11")):
        hint = hint_for(error, given)
        assert hint.startswith(
            "copy the file again, because it is empty; or measure another model: "
        )
    checked = CommandLine(command="check", names={"MODEL": (str(path),)})
    hint = hint_for(BoardModelRefused("no"), checked)
    assert hint.startswith("copy the file again, because it is empty; or check a built-in model: ")


def test_shape_and_inputs_are_both_left_out() -> None:
    """Otherwise the arrays of the file, which may be what does not fit, would stay."""
    words = (("m.onnx",), ("--shape", "x=1x2"), ("--inputs", "a.npz"), ("--threads", "2"))
    hint = hint_for(
        errors.InputsRefused("no input 'x'"), CommandLine(command="bench", arguments=words)
    )
    assert hint.endswith("to measure with random inputs: edgebench bench m.onnx --threads 2")


def test_file_that_was_not_named_is_not_inspected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the hint for several models would describe a file called MODEL."""
    monkeypatch.chdir(tmp_path)
    Path("MODEL").touch()
    assert "--runtime all" in hint_for(ModelRefused("no"), CommandLine(command="bench"))


def test_name_of_a_simulated_board_names_the_command_that_simulates_it() -> None:
    """Otherwise advice for a run of the demonstration would fail, and lead only to the devices."""
    with pytest.raises(errors.NoSuchDevice) as raised:
        named([], "raspberry-pi-5-bare-simulated")
    assert "edgebench-agent serve --simulate raspberry-pi-5-bare;" in hint_for(raised.value)
    with pytest.raises(errors.NoSuchDevice) as raised:
        named([], "raspberry-pi-5")
    assert hint_for(raised.value) == "see the list of devices: edgebench devices"
