"""`edgebench-agent` with and without a running agent."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agents import AgentProcess, Host, wait_until
from support.digits import FOLDER
from support.tools import need_runtime

from edgebench.agent.agent import AgentSettings
from edgebench.agent.cli import main
from edgebench.meters.wiring import Wiring
from edgebench.protocol.identity import parse_pairing_string
from edgebench.simulation.boards import BOARDS


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """The agent's command line in this process: exit code, stdout, stderr."""
    try:
        code = main(words)
    except SystemExit as exc:
        code = int(exc.code or 0)
    said = capsys.readouterr()
    return code, said.out, said.err


@pytest.mark.parametrize("command", ["status", "pair"])
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_command_without_a_running_agent_says_so_and_what_to_do(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str, options: tuple[str, ...]
) -> None:
    """Otherwise the user would see a traceback instead of the message that no agent runs."""
    code, out, err = run(capsys, "--state", str(tmp_path), command, *options)
    assert (code, out) == (1, "")
    error, hint = err.splitlines()
    assert error == f"error: no agent responds at {tmp_path / 'agent.sock'}"
    assert hint.startswith("hint: ")
    assert "edgebench-agent serve" in hint


@pytest.mark.parametrize("board", ["pi", "imx8mp-evk:²"])
@pytest.mark.parametrize("command", ["serve", "pair"])
def test_unknown_simulated_board_says_where_they_are_listed(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, board: str, command: str
) -> None:
    """Otherwise the hint would point to a help text that lists no boards."""
    words = ("--state", str(tmp_path / "s"), command, "--simulate", board)
    code, _, err = run(capsys, *words)
    error, hint = err.splitlines()
    assert (code, error.split(":")[0]) == (2, "error")
    assert hint == "hint: see all arguments: edgebench-agent serve --help"
    assert not (tmp_path / "s").exists()


@pytest.mark.parametrize(
    ("option", "variable", "value", "said"),
    [
        (
            *("--sync-line", "EDGEBENCH_SYNC_LINE", "ttyS0"),
            "error: a sync line is gpio:/PATH or uart:/PATH, got 'ttyS0'",
        ),
        ("--meter", "EDGEBENCH_METERS", "rapl; rapple", "error: unknown meter "),
    ],
)
def test_wiring_that_makes_no_sense_is_refused_when_the_agent_starts(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    option: str,
    variable: str,
    value: str,
    said: str,
) -> None:
    """Otherwise it would be found after the first run, or only from a traceback."""
    words = ("--state", str(tmp_path / "s"), "serve", "--local")
    by_option = run(capsys, *words, option, value)
    monkeypatch.setenv(variable, value)
    for code, out, err in (by_option, run(capsys, *words)):
        error, hint = err.splitlines()
        assert (code, out) == (2, "")
        assert error.startswith(said)
        assert hint == "hint: see all arguments: edgebench-agent serve --help"


def test_none_counts_for_more_than_the_environment(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an account with meters for every agent could have no device without a meter."""
    started: list[AgentSettings] = []
    monkeypatch.setattr("edgebench.agent.daemon.run_daemon", started.append)
    monkeypatch.setenv("EDGEBENCH_METERS", "rapl")
    monkeypatch.setenv("EDGEBENCH_SYNC_LINE", "gpio:/nonexistent")
    words = ("--state", str(tmp_path / "s"), "serve", "--local")
    assert run(capsys, *words, "--meter", "none", "--sync-line", "none") == (0, "", "")
    assert started[0].wiring == Wiring()


@pytest.mark.parametrize("command", ["serve", "pair"])
def test_agent_without_simulated_boards_says_where_they_are(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    """Otherwise --simulate or --help would end in a traceback on a device that was deployed to."""
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: ())
    words = ("--state", str(tmp_path / "s"), command, "--simulate", "imx8mp-evk")
    assert run(capsys, *words) == (
        1,
        "",
        "error: the simulated boards are not installed here\n"
        "hint: run the command on a host, which has all packages of edgebench\n",
    )
    assert not (tmp_path / "s").exists()
    code, out, _ = run(capsys, command, "--help")
    assert (code, "imx8mp-evk" in out) == (0, False)


def test_simulated_board_is_never_this_machine(host: Host) -> None:
    """Otherwise a trial of the simulation would leave a made-up board on this machine."""
    words = ("serve", "--simulate", "raspberry-pi-5-bare", "--listen", "127.0.0.1:0")
    agent = [sys.executable, "-m", "edgebench.agent"]
    environment = os.environ | host.environment
    process = subprocess.Popen(
        [*agent, *words, "--no-advertise"], stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("ready raspberry-pi-5-bare-simulated")
        listed = host.run("devices", "--json", "--timeout", "0.1s").stdout
        assert "raspberry" not in json.dumps(json.loads(listed)["devices"][0])
        paired = subprocess.run(
            [*agent, "pair", "--simulate", "raspberry-pi-5-bare"],
            capture_output=True,
            text=True,
            env=environment,
            check=False,
        )
        assert paired.stdout.startswith("edgebench://"), paired.stderr
    finally:
        process.terminate()
        process.communicate(timeout=30)


def test_simulated_board_on_the_state_of_this_machine_is_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise --state would turn it into this machine all the same."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    state = str(tmp_path / "edgebench/agent")
    code, _, err = run(capsys, "--state", state, "serve", "--simulate", "imx8mp-evk")
    assert (code, err.splitlines()[0]) == (
        2,
        f"error: a simulated board cannot use the state directory of this machine: {state}",
    )


def test_every_simulated_board_is_known_before_anything_is_made(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Otherwise the first of two agents would be created before the second board is refused."""
    state = tmp_path / "state"
    words = ("serve", "--simulate", "imx8mp-evk", "--simulate", "imx8mp-evk:seven")
    code, out, _ = run(capsys, "--state", str(state), *words)
    assert (code, out) == (2, "")
    assert not state.exists()


@pytest.mark.parametrize("command", ["status", "pair"])
def test_state_that_is_no_directory_is_an_error_and_no_traceback(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    """A --state that is a file is reported without a traceback."""
    (tmp_path / "file").write_text("")
    code, out, err = run(capsys, "--state", str(tmp_path / "file"), command)
    assert (code, out) == (1, "")
    assert [line.split(":")[0] for line in err.splitlines()] == ["error", "hint"]


@pytest.mark.parametrize("words", [("--help",), ("serve", "--help"), ("pair", "--help")])
def test_help_is_there(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    """Otherwise a user on a device without a network could not look anything up."""
    code, out, err = run(capsys, *words)
    assert (code, err) == (0, "")
    assert "usage: edgebench-agent" in out


def test_help_lists_the_simulated_boards(capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise a board would exist that users cannot find."""
    _, out, _ = run(capsys, "serve", "--help")
    # argparse breaks lines after hyphens.
    assert all(name in "".join(out.split()) for name in BOARDS)


def test_documentation_lists_the_simulated_boards() -> None:
    """Otherwise a new board would be missing from the table, or a removed board stay in it."""
    text = (Path(__file__).parents[2] / "docs/throttling.md").read_text()
    table = text[text.index("| board |") :]
    assert [line.split("`")[1] for line in table.splitlines() if "`" in line] == list(BOARDS)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("frobnicate",),
        ("serve", "--frobnicate"),
        ("serve", "--simul", "x"),
        ("pair", "--js"),
        ("status", "--js"),
        ("stop", "--simul", "x"),
    ],
)
def test_wrong_words_are_exit_code_2(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """Otherwise a misspelt option would start an agent with other settings."""
    code, out, err = run(capsys, *words)
    assert (code, out) == (2, "")
    error, hint = err.splitlines()
    assert error.startswith("error: ")
    assert hint.startswith("hint: see all arguments: edgebench-agent --help")


@pytest.mark.parametrize("listen", ["7747", "host", ":", ":65536", ":-1", "host:port", ""])
def test_wrong_address_is_exit_code_2(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, listen: str
) -> None:
    """Otherwise an agent would listen on another address than its owner gave."""
    code, out, err = run(capsys, "--state", str(tmp_path / "s"), "serve", "--listen", listen)
    assert (code, out) == (2, "")
    assert err.startswith("error: --listen takes [ADDRESS]:PORT, got ")
    assert not (tmp_path / "s").exists()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AgentProcess]:
    """An agent that is paired with no host."""
    agent = AgentProcess(tmp_path_factory.mktemp("agent"), options=["--name", "board"])
    agent.start()
    yield agent
    agent.kill()


def said(running: AgentProcess, *words: str) -> subprocess.CompletedProcess[str]:
    """The output of the agent's command line."""
    return subprocess.run(
        running.command(*words), capture_output=True, text=True, check=False, timeout=60
    )


def test_status_tells_how_the_agent_is(running: AgentProcess) -> None:
    """The state of a running agent is printed for the owner of the device."""
    result = said(running, "status")
    assert (result.returncode, result.stderr) == (0, "")
    lines = dict(line.split(maxsplit=1) for line in result.stdout.splitlines())
    assert lines["device"].startswith("board (")
    assert f"pid {running.pid}," in lines["agent"]
    assert lines["port"] == str(running.port)
    assert (lines["lease"], lines["running"], lines["hosts"]) == ("free", "nothing", "none paired")
    assert lines.get("user", "").startswith("root: ") is (os.geteuid() == 0)


def test_status_as_json_is_one_document(running: AgentProcess) -> None:
    """Otherwise a script that watches a farm would have to parse a table."""
    result = said(running, "status", "--json")
    assert (result.returncode, result.stderr) == (0, "")
    status = json.loads(result.stdout)
    assert (status["pid"], status["port"], status["running"]) == (running.pid, running.port, None)


def test_pair_prints_the_string_alone_on_stdout(running: AgentProcess) -> None:
    """Otherwise a script could not read the string, or a person would not learn how to use it."""
    result = said(running, "pair")
    assert result.returncode == 0, result.stderr
    string = parse_pairing_string(result.stdout)
    assert result.stdout == f"{string}\n"
    assert string.port == running.port
    assert f"edgebench pair '{string}'" in result.stderr
    assert "10 minutes" in result.stderr


def test_every_pairing_string_is_another_one(running: AgentProcess) -> None:
    """Otherwise two hosts would share a secret."""
    strings = [json.loads(said(running, "pair", "--json").stdout)["pairing"] for _ in "ab"]
    secrets = {parse_pairing_string(string).secret for string in strings}
    assert len(secrets) == 2


def test_second_agent_on_one_state_is_refused(running: AgentProcess) -> None:
    """Otherwise two agents would share a spool and delete each other's runs."""
    result = said(running, "serve", "--local")
    assert (result.returncode, result.stdout) == (1, "")
    error, hint = result.stderr.splitlines()
    assert error == f"error: another agent is running with the state in {running.state}"
    assert f"edgebench-agent status (process {running.pid})" in hint
    assert "kill" not in hint, "that may be the reader's own measurement"
    assert "edgebench-agent --state DIR serve" in hint
    assert "edgebench-agent stop" not in hint, "that stops a run"


def test_taken_port_is_an_error_and_no_traceback(running: AgentProcess, tmp_path: Path) -> None:
    """Otherwise the user would see a traceback instead of the message that the port is taken."""
    other = AgentProcess(tmp_path)
    address = f"127.0.0.1:{running.port}"
    result = said(other, "serve", "--listen", address, "--no-advertise")
    assert (result.returncode, result.stdout) == (1, "")
    error, hint = result.stderr.splitlines()
    assert error.startswith(f"error: cannot listen on {address}: ")
    assert hint.startswith("hint: ")


def test_stopped_agent_ends_with_0_and_leaves_no_socket(tmp_path: Path) -> None:
    """Otherwise a service manager would treat every stop as a failure."""
    agent = AgentProcess(tmp_path).start()
    assert (agent.state / "agent.sock").exists()
    assert agent.stop() == 0
    assert not (agent.state / "agent.sock").exists()
    assert agent.errors() == ""


def test_socket_is_for_its_owner_only(running: AgentProcess) -> None:
    """Otherwise any user of the device could pair hosts with its agent."""
    assert (running.state / "agent.sock").stat().st_mode & 0o777 == 0o600
    assert running.state.stat().st_mode & 0o077 == 0


def test_what_is_not_wired_yet_is_a_warning(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise every run would lack its energy or its marks, and no warning would precede it."""
    monkeypatch.setattr("edgebench.agent.daemon.run_daemon", lambda settings: None)
    (tmp_path / "value").touch()
    (tmp_path / "port").touch()
    there = (f"gpio:{tmp_path}/value", f"ppk2:{tmp_path}/port,supply=3.3")
    absent = ("gpio:/nonexistent", "ppk2:/dev/absent,supply=3.3")
    for (line, meter), count in ((there, 0), (absent, 2)):
        words = ("serve", "--local", "--sync-line", line, "--meter", meter)
        code, _, err = run(capsys, "--state", str(tmp_path / "s"), *words)
        assert (code, len(err.splitlines())) == (0, count), err
    assert err.splitlines() == [
        "warning: sync line gpio:/nonexistent: no such file; runs will lack sync marks",
        "warning: meter ppk2:/dev/absent,supply=3.3 is not available yet: no such file: "
        "/dev/absent; runs will lack energy values",
    ]


def test_log_is_a_file_and_who_may_not_start_is_told(tmp_path: Path) -> None:
    """Otherwise a deployed agent's errors would be lost, or a start error hidden in a log."""
    log, words = tmp_path / "agent.log", ("--state", str(tmp_path / "s"), "serve", "--local")
    command = [sys.executable, "-m", "edgebench.agent", *words, "--log", str(log)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        try:
            wait_until(lambda: log.exists() and "ready " in log.read_text(), "agent serves")
            second = subprocess.run(command, capture_output=True, text=True)
        finally:
            process.terminate()
        assert process.communicate()[0] == b""
    assert second.returncode == 1
    assert second.stderr.startswith("error: another agent is running")
    assert len(log.read_text().splitlines()) == 1


MODEL = str(FOLDER / "digits_fp32.onnx")


def test_check_of_a_runtime_prints_a_line_for_each_check(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Otherwise the author of a driver would not see which promise it keeps."""
    need_runtime("onnxruntime")
    code, out, err = run(capsys, "check-runtime", "onnx", MODEL)
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) == 10
    assert lines[0].split()[:2] == ["pass", "load"]
    assert lines[-1].split()[1] == "confinement"


def test_check_of_a_runtime_that_fails_ends_with_1_and_a_hint(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Otherwise a job that checks a driver would pass whatever the driver does."""
    need_runtime("onnxruntime")
    broken = tmp_path / "broken.onnx"
    broken.write_bytes(b"no model")
    code, out, err = run(capsys, "check-runtime", "onnx", str(broken), "--json")
    document = json.loads(out)
    assert code == 1
    assert [row["outcome"] for row in document["checks"]] == ["fail", "unknown"]
    assert document["runtime"] == "onnx"
    error, hint = err.splitlines()
    assert error == "error: onnx fails 1 of 2 checks"
    assert hint.endswith(f"edgebench-agent check-runtime onnx {broken}")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("nothing", MODEL), 1, "error: unknown runtime 'nothing'; available: "),
        (("onnx", "/nowhere.onnx"), 2, "error: no such model file: /nowhere.onnx"),
    ],
)
def test_check_of_what_is_not_there_is_one_line_and_a_hint(
    capsys: pytest.CaptureFixture[str], words: tuple[str, str], code: int, said: str
) -> None:
    """Otherwise a misspelt name would end in a traceback."""
    ended, out, err = run(capsys, "check-runtime", *words)
    error, hint = err.splitlines()
    assert (ended, out) == (code, "")
    assert error.startswith(said)
    assert hint.startswith("hint: ")
