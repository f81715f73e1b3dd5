"""Options of a deploy, what it keeps of the previous deploy, and what it reports."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from support.records import DEVICE, ENVIRONMENT
from support.shells import LocalShell
from support.tools import need_tool

from edgebench.host.cli import deploy as command
from edgebench.host.cli.main import main
from edgebench.host.devices import deploy as deploying
from edgebench.host.devices.account import Account
from edgebench.host.devices.deploy import (
    AgentOptions,
    DeployReport,
    DeployRequest,
    deploy_request,
)
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.devices.install import install
from edgebench.host.devices.on_device import (
    DeviceFacts,
    StepReport,
    WheelFile,
    describe_interpreter,
)
from edgebench.host.devices.target import SshTarget
from edgebench.host.lab import Lab
from edgebench.host.transports.ssh_program import SshAddress
from edgebench.protocol.device import RuntimeReport, SystemDescription
from edgebench.protocol.errors import PackagesMissing, TargetError, UsageError

REQUEST = DeployRequest(SshTarget(SshAddress("pi", "board")))
BOARD = KnownDevice("board", "id", "pin", ("10.0.0.9",), 7747)
WITH_BRIDGE = WheelFile("edgebench_agent-0.1.0-1bridge-py3-none-any.whl", 3, "0")
USABLE = RuntimeReport("litert", ("tflite",), "2.3")
LACKING = RuntimeReport(
    "onnx", ("onnx",), reason="onnxruntime needs libx", install="sudo apt install libx"
)


def device_facts() -> DeviceFacts:
    """Facts of a device to which nothing was deployed."""
    return DeviceFacts(describe_interpreter(), "board", "agent", "wheels", "log", 0)


def options_of(
    tmp_path: Path, request: DeployRequest, *, meters: tuple[str, ...], line: str | None
) -> AgentOptions:
    """The agent's options, on a device that had this wiring."""
    facts = replace(device_facts(), meters=meters, sync_line=line)
    return deploying._agent_options(HostFiles(tmp_path), request, facts)


@pytest.mark.parametrize(
    ("words", "said", "hint"),
    [
        (["--meter", "ppk3"], "unknown meter 'ppk3'", "edgebench meters"),
        (["--meter", "ppk2:,volts=3"], "has no option 'volts'", "edgebench meters info --help"),
        (
            ["--meter", "rapl", "--meter", "none"],
            "excludes all other meters",
            "edgebench deploy --help",
        ),
        (["--sync-line", "/dev/ttyS0"], "a sync line is gpio:", "edgebench deploy --help"),
    ],
)
def test_wrong_wiring_is_refused_before_anything_is_connected_to(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    said: str,
    hint: str,
) -> None:
    """Otherwise the device would lose its agent, as the new agent refuses to start."""
    monkeypatch.setattr(SshTarget, "connect", lambda *_: pytest.fail("connected"))
    assert main(["deploy", "pi@board", *words]) == 2
    error, advice = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ")
    assert said in error
    assert advice.startswith("hint: ")
    assert advice.endswith(hint)


@pytest.mark.parametrize(
    ("asked", "had", "given"),
    [
        ((), (), ()),
        ((), ("rapl",), ("rapl",)),
        (("hwmon",), ("rapl",), ("hwmon",)),
        (("none",), ("rapl",), ("none",)),
        ((), ("none",), ("none",)),
    ],
)
def test_meters_are_as_before_unless_others_are_named(
    tmp_path: Path, asked: tuple[str, ...], had: tuple[str, ...], given: tuple[str, ...]
) -> None:
    """Otherwise an upgrade would remove a device's meters, or nothing ever could."""
    request = deploy_request("pi@board", meters=asked)
    assert options_of(tmp_path, request, meters=had, line=None).meters == given


@pytest.mark.parametrize(
    ("asked", "given"),
    [(None, "gpio:/v"), ("uart:/dev/ttyS0", "uart:/dev/ttyS0"), ("none", "none")],
)
def test_line_is_as_before_unless_another_is_named(
    tmp_path: Path, asked: str | None, given: str
) -> None:
    """Otherwise an upgrade would cost every run its marks, or a cut line would stay named."""
    request = deploy_request("pi@board", sync_line=asked)
    assert options_of(tmp_path, request, meters=(), line="gpio:/v").sync_line == given


@pytest.mark.parametrize(
    ("asked", "recorded", "held", "given"),
    [
        (None, None, (), False),
        (None, None, (WITH_BRIDGE,), True),
        (None, True, (), True),
        (None, False, (WITH_BRIDGE,), False),
        (False, True, (WITH_BRIDGE,), False),
        (True, False, (), True),
    ],
)
def test_bridge_is_as_before_unless_it_is_asked_for(
    asked: bool | None, recorded: bool | None, held: tuple[WheelFile, ...], given: bool
) -> None:
    """Otherwise an upgrade would remove the bridge.

    This concerns a device whose environment is broken or comes from an index.
    """
    facts = DeviceFacts(
        *(describe_interpreter(), "board", "agent", "wheels", "log", 0),
        held=held,
        has_bridge=recorded,
    )
    request = deploy_request("pi@board", has_bridge=asked)
    assert deploying._has_bridge(request, facts) is given


def test_meters_bring_what_their_drivers_need() -> None:
    """Otherwise a PPK2 would be served by an agent without pyserial."""
    wired = AgentOptions("board", 7747, ("ppk2:/dev/ttyACM0,supply=3.3", "rapl"), None)
    assert deploying._extras(REQUEST, wired, has_bridge=False) == ("serial",)
    unmetered = replace(wired, meters=("none",))
    assert deploying._extras(REQUEST, unmetered, has_bridge=False) == ()
    assert deploying._extras(REQUEST, unmetered, has_bridge=True) == ("serial",)


@pytest.mark.parametrize(("meters", "line"), [(("wattstick",), None), ((), "spi:/dev/x")])
def test_wiring_that_an_older_host_does_not_know_is_refused(
    meters: tuple[str, ...], line: str | None
) -> None:
    """Otherwise an agent that refuses to start, or serves less, would replace the old agent."""
    with pytest.raises(UsageError, match="; this setting is stored on pi@board; replace it"):
        deploying._extras(REQUEST, AgentOptions("board", 7747, meters, line), has_bridge=False)


def test_report_names_what_is_served_and_what_is_not_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Otherwise only after a day of measuring would an unplugged meter be noticed."""
    wired = ("synthetic", "um25c:/dev/rfcomm0")
    system = SystemDescription(DEVICE, ENVIRONMENT, (), meters=wired, sync_line="gpio:/v")
    command._report(DeployReport(BOARD, system, ("meter um25c:/dev/rfcomm0 is not there yet",)))
    assert capsys.readouterr().out.splitlines()[-3:] == [
        "meters    synthetic, um25c:/dev/rfcomm0",
        "line      gpio:/v",
        "warning   meter um25c:/dev/rfcomm0 is not there yet",
    ]


@pytest.mark.parametrize(
    ("runtimes", "code", "last"),
    [
        ((LACKING, USABLE), 0, "next: edgebench bench --quick --on board"),
        ((LACKING,), 1, "meters    none"),
        ((), 1, "meters    none"),
    ],
)
def test_deploy_that_leaves_no_runtime_fails_and_says_why(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    runtimes: tuple[RuntimeReport, ...],
    code: int,
    last: str,
) -> None:
    """Otherwise a script would go on with a device that can measure nothing."""
    report = DeployReport(BOARD, SystemDescription(DEVICE, ENVIRONMENT, runtimes))
    monkeypatch.setattr(Lab, "deploy", lambda *_, **__: report)
    assert main(["deploy", "pi@board"]) == code
    printed = capsys.readouterr()
    assert printed.out.splitlines()[-1] == last
    if code:
        error, hint = printed.err.splitlines()
        assert error.startswith("error: agent runs on board, but no runtime works there")
        assert hint.startswith("hint: ")
    if runtimes == (LACKING,):
        assert "; onnx: onnxruntime needs libx (sudo apt install libx)" in printed.err


def test_agent_that_does_not_start_says_where_its_log_is() -> None:
    """Otherwise the place of an ended agent's log on the device would be unknown."""
    facts = DeviceFacts(describe_interpreter(), "board", "agent", "wheels", "/home/agent.log", 0)
    account = SimpleNamespace(
        shell=SimpleNamespace(target="pi@board", listen=""),
        start=lambda *_, **__: StepReport("it was not ready after 60 s"),
    )
    options = AgentOptions("board", 7747, (), None)
    with pytest.raises(TargetError, match=r"not ready after 60 s; its log: /home/agent\.log$"):
        deploying._start(cast("Account", account), facts, options, print, at_boot=True)


@pytest.mark.parametrize(
    ("had", "shell", "given"),
    [
        (None, "", ""),
        (None, "127.0.0.1", "127.0.0.1"),
        ("127.0.0.1", "127.0.0.1", "127.0.0.1"),
        ("", "127.0.0.1", ""),
        ("127.0.0.1", "", ""),
    ],
)
def test_port_that_another_host_uses_stays_open(
    tmp_path: Path, had: str | None, shell: str, given: str
) -> None:
    """Otherwise a deploy through a tunnel would cut the device off from its network users."""

    class Tunnelled(LocalShell):
        listen = shell

    facts = replace(device_facts(), listen=had)
    assert deploying._listen(Tunnelled(tmp_path), facts) == given


def test_target_that_fails_keeps_no_other_from_its_turn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise a board that is off would end the deploy to a farm, or would not be named."""
    need_tool("ssh")
    targets = ("board@127.0.0.1:1", "board@127.0.0.2:1", "board@127.0.0.1:1")
    assert main(["deploy", *targets]) == 1
    *notes, error, hint = capsys.readouterr().err.splitlines()
    refused = "cannot reach {} port 1: Connection refused"
    assert notes == [
        f"note: {target} failed: {refused.format(address)}"
        for target, address in zip(targets[:2], ("127.0.0.1", "127.0.0.2"), strict=True)
    ]
    assert error == f"error: {refused.format('127.0.0.1')}"
    assert hint.startswith("hint: ")
    assert main(["deploy", *targets, "--name", "board"]) == 2
    error, _ = capsys.readouterr().err.splitlines()
    assert error.startswith("error: --name needs a single target, got board@127.0.0.1:1 ")


def test_system_without_runtimes_is_refused_before_anything_is_looked_for(tmp_path: Path) -> None:
    """Otherwise the reason would come after minutes of pip, in pip's words."""
    facts = device_facts()
    markers = replace(facts.interpreter.markers, platform_machine="riscv64")
    facts = replace(facts, interpreter=replace(facts.interpreter, markers=markers))
    account = Account(LocalShell(tmp_path), "python3")
    steps: list[str] = []
    with pytest.raises(PackagesMissing, match=r"no runtime for Python .* riscv64, .*RISC-V$"):
        install(account, facts, steps.append, runtimes=("onnx",), source=None)
    assert steps == []
