"""What prevents `edgebench deploy` on a device: one clear error, and nothing left behind."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
from support.agents import Host
from support.disks import small_disk
from support.netns import two_machines
from support.site import Site, need_machines, trust
from support.sshd import fresh_account, new_key, ssh_server


def test_no_wheels_is_one_clear_error(site: Site, tmp_path: Path) -> None:
    """Otherwise a directory without the right wheels would end in a page of pip's output."""
    (tmp_path / "empty").mkdir()
    before = site.account.listing()
    result = site.deploy("--wheels", str(tmp_path / "empty"))
    assert result.returncode == 1
    assert "error: no wheels for Python 3." in result.stderr
    assert "hint: provide the wheels" in result.stderr
    assert len(result.stderr.splitlines()) == 4
    assert site.account.listing() == before


def test_missing_library_of_a_meter_is_one_clear_error(
    site: Site, wheels: Path, tmp_path: Path
) -> None:
    """Otherwise the agent could not open its meter, or all runtimes would be reported missing."""
    folder = tmp_path / "without"
    shutil.copytree(wheels, folder, ignore=shutil.ignore_patterns("pyserial-*"))
    before = site.account.listing()
    words = ("--wheels", str(folder), "--runtime", "onnx", "--meter", "um25c:/dev/rfcomm0")
    result = site.deploy(*words)
    assert result.returncode == 1
    (error,) = (line for line in result.stderr.splitlines() if line.startswith("error: "))
    assert error.startswith("error: no wheels for Python 3.")
    assert "pyserial" in error
    assert site.account.listing() == before


def test_unknown_host_key_is_refused(site: Site) -> None:
    """Otherwise the first machine to respond would get an agent, and the host's trust."""
    trust(site.host, "")
    result = site.deploy()
    key = f"[{site.server.address}]:{site.server.port}"
    assert result.returncode == 1
    assert f"error: host key of {key} is unknown" in result.stderr
    assert str(site.host.folder / ".ssh" / "known_hosts") in result.stderr
    login = f"-p {site.server.port} {site.account.name}@{site.server.address}"
    assert f"hint: log in by hand to see the cause: ssh {login}" in result.stderr
    assert (site.host.folder / ".ssh" / "known_hosts").read_text() == ""


def test_changed_host_key_is_refused(site: Site, tmp_path: Path) -> None:
    """Otherwise a man in the middle would not be noticed."""
    before = site.account.listing()
    other = tmp_path / "other-key"
    new_key(other)
    real = site.server.known_hosts_line
    trust(site.host, real.split()[0] + " " + other.with_suffix(".pub").read_text())
    result = site.deploy()
    assert result.returncode == 1
    assert "has changed" in result.stderr
    assert site.account.listing() == before


def test_refused_login_is_one_clear_error(site: Site, tmp_path: Path) -> None:
    """Otherwise a wrong key would end in a trace, or in a prompt that cannot be answered."""
    new_key(tmp_path / "wrong-key")
    result = site.run("deploy", site.target, "-i", str(tmp_path / "wrong-key"))
    assert result.returncode == 1
    assert f"error: {site.target} refuses this login" in result.stderr
    assert len(result.stderr.splitlines()) == 2


@pytest.mark.parametrize("address", ["10.77.0.9", "10.77.0.2:2223", "10.78.0.1"])
def test_machine_that_does_not_answer_is_one_clear_error(site: Site, address: str) -> None:
    """Otherwise a wrong address would end in a trace, or never."""
    result = site.run("deploy", f"pi@{address}")
    assert result.returncode == 1
    assert f"error: cannot reach {address.split(':')[0]} port" in result.stderr
    assert len(result.stderr.splitlines()) == 2


@pytest.mark.parametrize(
    ("answer", "told"), [("CPython Linux 3.9.2", "is CPython 3.9.2"), ("", "not found")]
)
def test_old_python_is_one_clear_error(site: Site, answer: str, told: str) -> None:
    """Otherwise a device without a suitable Python would be noticed only when pip fails."""
    python = site.account.home / "python"
    if answer:
        python.write_text(f"#!/bin/sh\necho edgebench-python {answer}\n")
        python.chmod(0o755)
    result = site.deploy("--python", str(python))
    assert result.returncode == 1
    assert f"error: no Python 3.10 or newer on {site.target}" in result.stderr
    assert told in result.stderr
    assert "hint: install Python on the device, or give its path" in result.stderr


def test_wheel_that_was_tampered_with_is_not_installed(site: Site, wheels: Path) -> None:
    """Otherwise a user with write access to the device's wheels could have code installed."""
    there = site.account.home / ".local" / "share" / "edgebench" / "agent-wheels"
    python = site.account.home / "python"
    is_install = """*'"verb": "install"'*"""
    python.write_text(
        f'#!/bin/sh\ncase "$*" in {is_install}) cd {there}; echo x | tee -a edgebench*.whl;; esac\n'
        'cd; exec python3 "$@"\n'
    )
    python.chmod(0o755)
    words = ("--wheels", str(wheels), "--runtime", "onnx", "--python", str(python))
    result = site.deploy(*words)
    assert result.returncode == 1
    (error,) = (line for line in result.stderr.splitlines() if line.startswith("error: "))
    said = rf"error: not installed on {site.target}: wheel edgebench\S* was changed: its sha256 is "
    assert re.match(said, error), error
    assert not list(there.parent.glob("agent-venv*/bin/edgebench-agent"))


def test_full_disk_is_noticed_before_anything_is_sent(tmp_path: Path, wheels: Path) -> None:
    """Otherwise the device would be left with half of the packages and no space."""
    need_machines()
    with (
        two_machines() as (here, there),
        fresh_account(tmp_path / "account") as account,
        small_disk(account.home / ".local", 30 * 2**20) as disk,
        ssh_server(tmp_path / "sshd", account, address=there.address, prefix=there.prefix) as sshd,
    ):
        shutil.chown(disk, account.name, account.name)
        host = Host(tmp_path / "host")
        trust(host, sshd.known_hosts_line)
        site = Site(here, there, account, sshd, host)
        result = site.deploy("--wheels", str(wheels), "--runtime", "onnx")
        assert result.returncode == 1
        assert f"error: disk full on {site.target}: 30 MiB free in " in result.stderr
        assert list(disk.iterdir()) == []
