"""The script that runs on the device: it removes what it makes, and needs nothing else."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.agents import wait_until
from support.tools import need_tool

from edgebench.host.devices import on_device
from edgebench.host.devices.on_device import DeployRecord, Places, UninstallReport, WheelFile
from edgebench.meters.wiring import NOTHING
from edgebench.system.paths import traceback_directory

SCRIPT = Path(on_device.__file__)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home directory without any of the agent's files."""
    return tmp_path


@pytest.fixture
def places(home: Path) -> Places:
    """Places of the files in that home."""
    return Places({"HOME": str(home)})


def tree(folder: Path) -> set[str]:
    """All paths below a folder."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


def fill(places: Places) -> None:
    """Create what a deploy and an agent leave behind."""
    on_device.make_room(places, [])
    for folder in (places.venv, places.wheels, *places.agents_own):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "file").touch()
    places.log.touch()
    places.pid.write_text("1\n")


def ask(home: Path, **request: object) -> dict[str, Any]:
    """The script's reply, as the host receives it."""
    result = subprocess.run(
        [sys.executable, "-I", "-", json.dumps(request)],
        input=SCRIPT.read_bytes(),
        capture_output=True,
        env={"HOME": str(home)},
        timeout=60,
        check=True,
    )
    line = result.stdout.decode().splitlines()[-1]
    answer: dict[str, Any] = json.loads(line.removeprefix(on_device.ANSWER_MARK))
    return answer


def test_it_imports_nothing_but_the_standard_library() -> None:
    """Otherwise it would end with ModuleNotFoundError on every device."""
    imported = {
        name.split(".")[0]
        for node in ast.walk(ast.parse(SCRIPT.read_text()))
        for name in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported <= set(sys.stdlib_module_names)


def test_it_answers_from_standard_input(home: Path) -> None:
    """Otherwise a script fed to `python -` would not run, or its reply not be the last line."""
    facts = ask(home, verb="look")
    assert facts["agent"] == f"{home}/.local/share/edgebench/agent-venv-2/bin/edgebench-agent"
    assert tree(home) == set(), "looking changes nothing"


def test_removing_leaves_what_was_there_before(home: Path, places: Places) -> None:
    """Otherwise the user's home directory would keep our directories, or lose its own."""
    (home / ".local").mkdir()
    before = tree(home)
    fill(places)
    on_device.make_room(places, [])  # the second deploy finds its own directories
    assert on_device.remove(places) == UninstallReport(was_there=True)
    assert tree(home) == before
    assert on_device.remove(places) == UninstallReport(was_there=False)


def test_removing_keeps_what_others_have_put_beside_it(home: Path, places: Places) -> None:
    """Otherwise a directory that we made, and that others use by now, would be removed."""
    fill(places)
    other = home / ".config" / "other"
    other.mkdir()
    (places.data / "runs").mkdir()
    assert on_device.remove(places).was_there
    assert tree(home) == {".config", ".config/other", ".local", ".local/share",
                          ".local/share/edgebench", ".local/share/edgebench/runs"}  # fmt: skip


def test_removing_keeps_an_agent_that_is_older_than_the_first_deploy(places: Places) -> None:
    """Otherwise the device's own runs would be lost with an agent deployed for a try."""
    state, config = places.agents_own
    state.mkdir(parents=True)
    (state / "run").touch()
    fill(places)
    assert on_device.remove(places).kept == (str(state),)
    assert (state / "run").exists()
    assert not config.exists()


def test_wheels_that_are_not_named_are_removed(places: Places) -> None:
    """Otherwise pip would take a newer numpy of an earlier deploy that does not fit the rest."""
    on_device.make_room(places, [])
    for name in ("a.whl", "b.whl"):
        (places.wheels / name).write_bytes(b"abc")
    on_device.make_room(places, ["b.whl"])
    digest = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    assert places.held() == (WheelFile("b.whl", 3, digest),)  # FIPS 180-4, SHA-256 of "abc"


def test_damaged_record_counts_as_none(places: Places) -> None:
    """Otherwise an ill-timed power cut would make a deploy to the device impossible."""
    on_device.make_room(places, [])
    places.record.write_text('{"created": [')
    assert places.read_record() == DeployRecord()
    on_device.make_room(places, [])
    assert places.read_record().installed == ()


def test_bridge_is_known_after_an_install_that_failed(home: Path, places: Places) -> None:
    """Otherwise the next deploy would leave the boards behind the device without their bridge."""
    assert ask(home, verb="look")["has_bridge"] is None, "nobody has said"
    ask(home, verb="make_room", keep=[], has_bridge=True)
    places.write_record(installed=())  # as before an environment is made anew
    assert ask(home, verb="look")["has_bridge"] is True
    ask(home, verb="make_room", keep=[], has_bridge=False)
    assert ask(home, verb="look")["has_bridge"] is False


def test_record_of_an_older_deploy_is_read(places: Places) -> None:
    """Otherwise an upgrade would reinstall everything, and uninstalling leave directories."""
    on_device.make_room(places, [])
    wheel = {"name": "b.whl", "size_bytes": 3, "sha256": "0"}
    places.record.write_text(json.dumps({"created": ["/x"], "installed": [wheel]}))
    expected = DeployRecord(("/x",), (WheelFile("b.whl", 3, "0"),), "agent-venv", listen="")
    assert places.read_record() == expected, "it has let the agent listen on all addresses"


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that are ended with the test."""
    started: list[subprocess.Popen[bytes]] = []
    yield started
    for process in started:
        process.kill()
        process.wait()


def test_agent_under_an_emulator_is_ours_too(
    home: Path, places: Places, processes: list[subprocess.Popen[bytes]]
) -> None:
    """Otherwise the second deploy to an emulated board would find "another agent is running"."""
    for program in (places.python, home / "other" / "bin" / "python"):
        program.parent.mkdir(parents=True)
        program.write_text("import time; time.sleep(60)")
        # As the kernel shows it: the emulator, the program's path, and its arguments.
        words = ["/usr/bin/qemu-aarch64-static", str(program), "serve"]
        processes.append(subprocess.Popen(words, executable=sys.executable))
    ours, other = (process.pid for process in processes)
    for pid in (ours, other):
        wait_until(lambda pid=pid: Path(f"/proc/{pid}/cmdline").read_bytes() != b"", "it began")
    assert list(on_device._agents(places)) == [ours]


def test_only_our_agent_is_stopped(
    places: Places, processes: list[subprocess.Popen[bytes]]
) -> None:
    """Otherwise a process with the old pid, or the agent of another user, would be killed."""
    on_device.make_room(places, [])
    (places.venv / "bin").mkdir(parents=True)
    places.python.symlink_to(sys.executable)
    sleep = "import time; time.sleep(60)"
    for program, word in ((sys.executable, "serve"), (places.python, "worker")):
        processes.append(subprocess.Popen([program, "-S", "-c", sleep, word]))
    ours = subprocess.Popen([places.python, "-S", "-c", sleep, "serve"])
    places.pid.write_text(f"{processes[0].pid}\n")
    # A program's arguments are visible a moment after it has started.
    wait_until(lambda: Path(f"/proc/{ours.pid}/cmdline").read_bytes() != b"", "agent has begun")
    assert on_device.stop(places).error is None
    assert ours.wait(0) == -15
    assert [process.poll() for process in processes] == [None, None]
    assert not places.pid.exists()


AGENT = """#!/bin/sh
if [ $1 = status ]; then exec /bin/cat {home}/status.json; fi
echo "$@" > {home}/words
echo "warning: meter um25c:/dev/rfcomm0 is not there yet"
echo "ready board"
exec /bin/sleep 60
"""


@pytest.fixture
def agent(home: Path, places: Places) -> Iterator[Path]:
    """A dummy agent, which runs once it is started, and serves what `status.json` lists."""
    on_device.make_room(places, [])
    places.agent.parent.mkdir(parents=True)
    places.python.symlink_to(sys.executable)
    places.agent.write_text(AGENT.format(home=home))
    places.agent.chmod(0o755)
    yield home / "status.json"
    if places.pid.exists():
        os.kill(int(places.pid.read_text()), signal.SIGKILL)


def test_agent_is_told_what_it_serves_and_is_heard(home: Path, agent: Path, places: Places) -> None:
    """Otherwise a run could not use a configured meter, or its absence would not be reported."""
    places.log.write_text("warning: of an earlier agent\n")
    meters = ["um25c:/dev/rfcomm0", "rapl"]
    words = ["--name", "x"]
    answer = ask(
        home,
        verb="start",
        words=words,
        listen="",
        meters=meters,
        sync_line="gpio:/v",
        at_boot=False,
    )
    assert answer["error"] is None
    assert answer["warnings"] == ["meter um25c:/dev/rfcomm0 is not there yet"]
    served = (home / "words").read_text()
    wired = f"--meter {meters[0]} --meter rapl --sync-line gpio:/v"
    assert served == f"serve --log {places.log} --name x {wired}\n"
    assert places.log.read_text().startswith("warning: of an earlier agent\n"), "it is kept"


def test_what_an_agent_served_outlives_it(home: Path, agent: Path, places: Places) -> None:
    """Otherwise a deploy after a reboot would lose the meters.

    Or a deploy to a running agent would trust an old list.
    """
    assert ask(home, verb="look")["meters"] == [], "nobody has said"
    ask(home, verb="start", words=[], listen="", meters=["rapl"], sync_line=NOTHING, at_boot=False)
    on_device.make_room(places, [])
    facts = ask(home, verb="look")
    assert (facts["meters"], facts["sync_line"]) == (["rapl"], NOTHING)
    agent.write_text(json.dumps({"meters": [], "sync_line": "gpio:/v"}))
    facts = ask(home, verb="look")
    assert (facts["meters"], facts["sync_line"]) == ([NOTHING], "gpio:/v")


@pytest.mark.parametrize(
    ("script", "limit_s", "error"),
    [
        ("sleep 60", 0.2, "the agent was not ready after 0.2 s"),
        ("echo importing; sleep 60", 0.4,
         "the agent was not ready after 0.4 s; the last line of its log: importing"),
        ("exit 7", 20.0, "the agent ended with status 7 and no output"),
        ("echo 'error: no room' >&2; exit 1", 20.0, "no room"),
    ],
)  # fmt: skip
def test_agent_that_does_not_start_says_what_was_waited_for(
    places: Places, monkeypatch: pytest.MonkeyPatch, script: str, limit_s: float, error: str
) -> None:
    """Otherwise "no output" would be the only report of an agent that hangs or ends silently."""
    on_device.make_room(places, [])
    places.agent.parent.mkdir(parents=True)
    places.agent.write_text(f"#!/bin/sh\n{script.replace('sleep', 'exec sleep')}\n")
    places.agent.chmod(0o755)
    monkeypatch.setattr(on_device, "START_TIMEOUT_S", limit_s)
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # this process is not the script's
    assert on_device.start(places, [], "", [], None, at_boot=False).error == error
    assert places.log.exists()
    assert not places.pid.exists()


def test_system_without_confstr_has_an_unknown_c_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a deploy to Android, whose Python lacks the function, would be a traceback."""
    monkeypatch.delattr(os, "confstr")
    assert on_device.describe_interpreter().libc in ("unknown libc", "musl")


def test_full_disk_is_told_apart(places: Places) -> None:
    """Otherwise the user would see pip's text for a full disk as any other failure."""
    code = "print('ERROR: [Errno 28] No space left on device'); raise SystemExit(1)"
    with pytest.raises(OSError, match="No space left"):
        on_device._run([sys.executable, "-c", code])


def test_error_is_the_line_that_says_so() -> None:
    """Otherwise the user would see pip's last line, an advertisement for a newer pip."""
    text = "Looking\nERROR: No matching distribution found for numpy\n\n[notice] new release\n"
    assert on_device._last_line(text) == "No matching distribution found for numpy"
    assert on_device._last_line("one\ntwo\n") == "two"
    assert on_device._last_line("") == ""


def test_tracebacks_of_the_agent_are_removed(home: Path, places: Places) -> None:
    """Otherwise our files would stay in the user's home, or a host's own files be lost."""
    on_device.make_room(places, [])
    environment = {"HOME": str(home)}
    assert Places(environment).tracebacks == Path(traceback_directory(environment))
    places.tracebacks.mkdir(parents=True)
    for name in ("edgebench-agent-1.txt", "edgebench-1.txt"):
        (places.tracebacks / name).touch()
    on_device.remove(places)
    assert [path.name for path in places.tracebacks.iterdir()] == ["edgebench-1.txt"]


COMMAND = ["/home/a b/bin/edgebench-agent", "serve", "--name", '50% of "$x" \\', "--listen", ":1"]
"""Words with everything that systemd, cron or a shell would take apart."""
PRINT = "import json, sys; print(json.dumps(sys.argv[1:]))"


def test_unit_is_one_that_systemd_accepts(tmp_path: Path, places: Places) -> None:
    """Otherwise the agent would not start at boot, or start under another name."""
    need_tool("systemd-analyze")
    environment = {"XDG_DATA_HOME": "/x y/%n", "HOME": "/root"}
    text = on_device.unit_text(["/bin/true", *COMMAND[1:]], places, environment, "default.target")
    unit = tmp_path / on_device.UNIT
    unit.write_text(text)
    result = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(unit)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"SYSTEMD_LOG_LEVEL": "info"},
    )
    assert (result.returncode, result.stderr) == (0, "")
    assert r'"50%% of \"$$x\" \\"' in text
    assert 'Environment="XDG_DATA_HOME=/x y/%%n"' in text


def test_line_of_crontab_is_the_command(tmp_path: Path, places: Places) -> None:
    """Otherwise the agent would not start at boot, or start with other options."""
    command = [sys.executable, "-c", PRINT, *COMMAND]
    line = on_device.cron_line(command, places, {"XDG_STATE_HOME": "/x y"})
    when, _, text = line.partition(" ")
    assert when == "@reboot"
    assert "%" not in text.replace(r"\%", "")
    places.log.parent.mkdir(parents=True, exist_ok=True)
    # As cron does: the escapes are removed, and a shell runs the rest.
    subprocess.run(["sh", "-c", text.replace(r"\%", "%")], check=True, timeout=60)
    assert json.loads(places.log.read_text()) == COMMAND


def test_service_of_openrc_is_the_command(places: Places) -> None:
    """Otherwise the agent would not start at boot, or start with other options."""
    command = [sys.executable, "-c", PRINT, *COMMAND]
    script = on_device.openrc_text(command, places, {"XDG_STATE_HOME": "/x 'y"})
    # As OpenRC does: a shell reads the script, and what a variable holds once more.
    words = "eval supervise $supervise_daemon_args; eval $command $command_args"
    show = f'supervise() {{ printf "%s\\n" "$2"; }}; {script}\n{words}'
    result = subprocess.run(
        ["sh", "-c", show], check=True, timeout=60, capture_output=True, text=True
    )
    assert script.startswith("#!/sbin/openrc-run\n")
    assert result.stdout.splitlines() == ["XDG_STATE_HOME=/x 'y", json.dumps(COMMAND)]
