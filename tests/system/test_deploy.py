"""`edgebench deploy` over a real SSH server, to accounts that edgebench has never used."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.agents import Host, wait_until
from support.marked import MarkedDirectory, set_traps
from support.site import SYSTEM_PYTHON, Site, fresh_site, need_machines
from support.tools import need_tool

from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.wheel_file import write_wheel

MODEL = "digits_int8.onnx"
BOARD_MODEL = "digits_int8.tflite"
QUICK = (
    *("--quick", "--runs=1", "--duration", "0.2s", "--min-queries", "50"),
    *("--warmup", "5", "--warmup-duration", "0.05s"),
)
METER = "synthetic:constant,power=1"
ABSENT = "um25c:/dev/rfcomm-of-nobody"
"""A meter on a serial port that does not exist; its library has to be installed."""
SERVED = f"\nmeters    {METER}, {ABSENT}\n"
"""Lines in the report of a deploy."""


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Site, dict[str, str]]]:
    """A device before its first deploy, and the files of its account."""
    need_machines()
    with fresh_site(tmp_path_factory.mktemp("site")) as made:
        yield made, made.account.listing()


@pytest.fixture(scope="module")
def deployed(machines: tuple[Site, dict[str, str]], wheels: Path) -> Site:
    """A device `board` with a deployed agent, meters and the firmware bridge.

    Every test leaves it in this state, except the last one, which uninstalls.
    """
    made, _ = machines
    meters = ("--meter", METER, "--meter", ABSENT)
    words = ("--wheels", str(wheels), "--runtime", "onnx", "--name", "board")
    # Files in the home of the account, where a login begins, are not run.
    marks = made.account.home / "marks"
    traps = set_traps(made.account.home, marks, Path(SYSTEM_PYTHON))
    result = made.deploy(*words, *meters, "--bridge")
    assert marks.read_text() == ""
    for path in (*traps, marks):
        path.unlink()
    assert result.returncode == 0, result.stderr
    assert SERVED in result.stdout
    assert f"\nwarning   meter {ABSENT} is not available yet: no such file: " in result.stdout
    return made


def known(host: Host) -> list[KnownDevice]:
    """The devices that a host knows."""
    return list(HostFiles(host.folder / "config" / "edgebench" / "host").devices())


def packages_of(site: Site) -> Path:
    """The packages of the environment in use, which is the only one there."""
    [found] = (site.account.home / ".local/share/edgebench").glob("agent-venv*/lib/*/site-packages")
    return found


def agent_pid(site: Site) -> int:
    """The pid that deploy recorded, which must be a running agent."""
    pid = int((site.account.home / ".local/share/edgebench/agent.pid").read_text())
    assert "edgebench-agent" in Path(f"/proc/{pid}/cmdline").read_text()
    return pid


def is_running(pid: int) -> bool:
    """Whether the process still runs; a process that only waits for init does not."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes() != b""
    except OSError:
        return False


def test_deployed_device_measures_with_the_meter_beside_it(deployed: Site) -> None:
    """Otherwise deploying would end well and leave a device without its meter, or of no use."""
    words = ("--meter", f"agent:{METER}", "--idle", "0.5s")
    result = deployed.run("bench", MODEL, "--on", "board", *QUICK, *words, "--json")
    assert result.returncode in (0, 3), result.stderr
    (document,) = json.loads(result.stdout)["runs"]
    assert document["metrics"]["energy"]["power_w_mean"] == pytest.approx(1)
    assert document["device"]["name"] == "board"
    assert document["runtime"]["name"] == "onnx"
    (device,) = known(deployed.host)
    assert device.deployed_to == deployed.target
    assert device.addresses[0] == deployed.server.address
    assert (packages_of(deployed) / "serial/__init__.py").exists(), "for the absent meter"


def test_device_with_the_bridge_measures_boards(deployed: Site) -> None:
    """Otherwise the wheel could lack the bridge, its firmware, or the entry point for it."""
    need_tool("qemu-system-arm")
    result = deployed.run("bench", BOARD_MODEL, "--on", "board/qemu:mps2-an386", "--json")
    assert result.returncode == 0, result.stderr
    (document,) = json.loads(result.stdout)["runs"]
    assert document["metrics"]["instructions_per_inference"] > 0


def test_second_deploy_sends_nothing_and_keeps_name_port_pairing_and_meters(
    deployed: Site, wheels: Path
) -> None:
    """Otherwise an upgrade would copy 50 MB again, or change the device's identity or meters."""
    before, old_pid = known(deployed.host), agent_pid(deployed)
    result = deployed.deploy("--wheels", str(wheels), "--runtime", "onnx")
    assert result.returncode == 0, result.stderr
    assert "already installed" in result.stderr
    assert "sending" not in result.stderr
    assert SERVED in result.stdout
    assert "next: edgebench bench --quick --on board" in result.stdout
    assert known(deployed.host) == before
    assert agent_pid(deployed) != old_pid
    wait_until(lambda: not is_running(old_pid), "the old agent is gone")


def test_deploy_runs_nothing_of_the_working_directory(
    deployed: Site, wheels: Path, tmp_path: Path
) -> None:
    """Otherwise files where the command is run would be executed with the user's rights."""
    directory = MarkedDirectory(tmp_path, Path(sys.executable))
    directory.set_traps()
    deploy = Path(sys.executable).with_name("edgebench"), "deploy", deployed.target
    key = ("--identity-file", str(deployed.account.key))
    subprocess.run(
        [*deployed.here.prefix, *deploy, *key, "--wheels", str(wheels), "--runtime", "onnx"],
        cwd=directory.marked,
        env=directory.environment | deployed.host.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )
    assert directory.marks() == []


def test_upgrade_of_the_agent_alone_installs_only_that(deployed: Site, wheels: Path) -> None:
    """Otherwise each new agent would unpack all packages again, or not be installed at all."""
    data = deployed.account.home / ".local/share/edgebench"
    (own,) = (data / "agent-wheels").glob("edgebench_agent-*.whl")
    record = json.loads((data / "agent-deployed.json").read_text())
    for wheel in record["installed"]:
        if wheel["name"] == own.name:
            wheel["sha256"] = "0" * 64
    (data / "agent-deployed.json").write_text(json.dumps(record))
    own.write_bytes(b"an older one")
    module = packages_of(deployed) / "edgebench/agent/cli.py"
    module.write_text("raise SystemExit('overwritten')\n")
    written_ns = (packages_of(deployed) / "numpy/__init__.py").stat().st_mtime_ns

    result = deployed.deploy("--wheels", str(wheels), "--runtime", "onnx")
    assert result.returncode == 0, result.stderr
    assert "sending 1 of " in result.stderr
    assert not module.exists(), "the environment of before is removed"
    assert "overwritten" not in (packages_of(deployed) / "edgebench/agent/cli.py").read_text()
    library = packages_of(deployed) / "numpy/__init__.py"
    assert library.stat().st_mtime_ns == written_ns, "it was copied, not installed"


def test_agent_of_before_runs_again_if_the_new_one_does_not_start(
    deployed: Site, wheels: Path, tmp_path: Path
) -> None:
    """Otherwise a dependency that does not fit the board would take it out of the farm."""
    for path in wheels.iterdir():
        (tmp_path / path.name).symlink_to(path)
    info = "websockets-99.dist-info"
    broken = {
        "websockets/__init__.py": b"raise ImportError('does not fit this board')\n",
        f"{info}/METADATA": b"Metadata-Version: 2.1\nName: websockets\nVersion: 99\n",
    }
    write_wheel(tmp_path / "websockets-99-py3-none-any.whl", info, broken)
    before, packages = known(deployed.host), packages_of(deployed)
    result = deployed.deploy("--wheels", str(tmp_path), "--runtime", "onnx")
    assert result.returncode == 1, result.stderr
    assert "does not fit this board" in result.stderr
    assert "the previous agent runs again" in result.stderr
    assert packages_of(deployed) == packages
    assert known(deployed.host) == before
    result = deployed.run("bench", MODEL, "--on", "board", *QUICK)
    assert result.returncode in (0, 3), result.stderr


def test_second_host_pairs_with_the_agent_that_is_there(
    deployed: Site, wheels: Path, tmp_path: Path
) -> None:
    """Otherwise deploying from another computer would take the device away from the first one."""
    second = deployed.trusting(tmp_path / "second")
    words = ("--wheels", str(wheels), "--runtime", "onnx", "--name", "board")
    result = deployed.deploy(*words, host=second)
    assert result.returncode == 0, result.stderr
    assert known(second)[0].pin == known(deployed.host)[0].pin
    for host in (second, deployed.host):
        assert deployed.run("bench", MODEL, "--on", "board", *QUICK, host=host).returncode in (0, 3)


def test_taken_port_is_one_clear_error(deployed: Site, wheels: Path) -> None:
    """Otherwise the agent would not start, and the reason would not be reported."""
    words = ("--wheels", str(wheels), "--runtime", "onnx")
    program = deployed.listen(7800)
    try:
        result = deployed.deploy(*words, "--port", "7800")
    finally:
        program.communicate(timeout=30)
    assert result.returncode == 1
    assert f"error: port 7800 is taken on {deployed.target}\nhint: choose" in result.stderr
    again = deployed.deploy(*words)
    assert again.returncode == 0
    assert SERVED in again.stdout, "no agent was running that could have said so"


def test_agent_that_measures_is_left_alone(deployed: Site, wheels: Path) -> None:
    """Otherwise deploying or removing would end a measurement in progress."""
    command = [sys.executable, "-m", "edgebench.host.cli", "bench", MODEL, "--on", "board"]
    command += ["--scenario", "server", "--qps", "100"]  # it waits more than it computes
    bench = subprocess.Popen(
        [*deployed.here.prefix, *command, "--duration", "60s"],
        env=os.environ | deployed.host.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        work = deployed.account.home / ".local/share/edgebench/agent/work"
        wait_until(lambda: any(work.iterdir()), "the run begins")
        for words in (("--wheels", str(wheels), "--runtime", "onnx"), ("--uninstall",)):
            result = deployed.deploy(*words)
            assert result.returncode == 1
            assert f"error: agent on {deployed.target} is in use by" in result.stderr
    finally:
        bench.send_signal(signal.SIGINT)
        bench.wait(60)
    assert agent_pid(deployed)


def test_name_of_another_device_is_refused(deployed: Site, wheels: Path) -> None:
    """Otherwise in a farm of devices named `raspberrypi`, each deploy would replace the last."""
    inventory = deployed.host.folder / "config/edgebench/host/devices.json"
    before = inventory.read_text()
    other = json.loads(before)[0] | {"name": "pi", "pin": "x" * 43, "deployed_to": "pi@10.0.0.9"}
    inventory.write_text(json.dumps([*json.loads(before), other]))
    try:
        result = deployed.deploy("--wheels", str(wheels), "--name", "pi")
    finally:
        inventory.write_text(before)
    assert result.returncode == 2
    assert "'pi' belongs to another device, pi@10.0.0.9" in result.stderr


def add_source(path: Path) -> None:
    """Add a package in source form that takes ten minutes to build."""
    files = {
        "setup.py": "import time; time.sleep(600)",
        "PKG-INFO": "Metadata-Version: 2.1\nName: ai-edge-litert\nVersion: 99.0\n",
    }
    with tarfile.open(path, "w:gz") as archive:
        for name, text in files.items():
            member = tarfile.TarInfo(f"{path.name.removesuffix('.tar.gz')}/{name}")
            member.size = len(text)
            archive.addfile(member, io.BytesIO(text.encode()))


def test_device_fetches_for_itself_when_the_host_has_no_network(site: Site, wheels: Path) -> None:
    """Otherwise a host without internet could not deploy to a device that has it."""
    configuration = site.account.home / ".config" / "pip" / "pip.conf"
    configuration.parent.mkdir(parents=True)
    configuration.write_text(f"[global]\nno-index = true\nfind-links = {site.account.home}/index\n")
    for path in (configuration.parent.parent, configuration.parent, configuration):
        shutil.chown(path, site.account.name, site.account.name)
    shutil.copytree(wheels, site.account.home / "index")
    add_source(site.account.home / "index" / "ai_edge_litert-99.0.tar.gz")
    before = site.account.listing()
    runtimes = ("--runtime", "onnx", "--runtime", "litert")
    result = site.deploy(*runtimes, "--name", "board", "--meter", ABSENT)
    assert result.returncode == 0, result.stderr
    assert (packages_of(site) / "serial/__init__.py").exists(), "for the meter"
    assert "note: runtime litert is left out" in result.stderr
    assert "installed from the package index of the device: onnx" in result.stderr
    assert site.deploy("--uninstall").returncode == 0
    # These two are not ours, and existed before.
    assert site.account.listing() == before


def test_uninstall_leaves_nothing(deployed: Site, machines: tuple[Site, dict[str, str]]) -> None:
    """Otherwise our files would remain in a user's home directory, or processes keep running."""
    _, before = machines
    result = deployed.deploy("--uninstall")
    assert result.returncode == 0, result.stderr
    assert f"removed the agent from {deployed.target}" in result.stdout
    assert deployed.account.listing() == before
    assert known(deployed.host) == []
    wait_until(lambda: not deployed.account.processes(), "everything of the account ends")
    assert deployed.account.temporary_files() == []
    again = deployed.deploy("--uninstall")
    assert again.returncode == 0
    assert "nothing was deployed" in again.stdout
