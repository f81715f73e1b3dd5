"""`edgebench bridge`: ports, firmware, console."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from support.agents import Host
from support.elf_bytes import elf
from support.firmware_process import built

from edgebench.host.show.boards import print_ports
from edgebench.protocol.bridge import PortReport

DOCS = Path(__file__).resolve().parents[2] / "docs/bring-your-own-board.md"
FAKE = """#!/bin/sh
echo "$0 $@" >> {log}
echo "** Programming Finished **"
exit {status}
"""


def fake_tool(folder: Path, name: str, status: int) -> Path:
    """A tool on PATH that only records how it is called; its records."""
    log = folder / "calls.txt"
    (folder / name).write_text(FAKE.format(log=log, status=status))
    (folder / name).chmod(0o755)
    return log


def run(folder: Path, *words: str, text: str = "", path: str = "/bin:/usr/bin") -> tuple[int, str]:
    """Exit code, and what a command prints on both of its outputs."""
    environment = {**Host(folder / "host").environment, "PATH": path}
    result = subprocess.run(
        [sys.executable, "-m", "edgebench.host.cli", "bridge", *words],
        input=text,
        capture_output=True,
        text=True,
        check=False,
        env=environment,
        timeout=120,
    )
    return result.returncode, result.stdout + result.stderr


def test_ports_are_listed_for_programs_and_for_people(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise a list could be empty, hide the user of a port, or have undocumented keys."""
    code, text = run(tmp_path, "list", "--json")
    document = json.JSONDecoder().raw_decode(text)[0]
    assert code == 0
    assert list(document) == ["ports"]
    nucleo = PortReport(
        path="/dev/ttyACM0",
        usb_id="0483:374b",
        serial_number="066A",
        text="ST-LINK of a Nucleo or Discovery board",
        is_candidate=True,
        used_by=("python (7)",),
    )
    print_ports([nucleo], as_json=True, is_confirmed=False)
    [port] = json.loads(capsys.readouterr().out)["ports"]
    [keys] = re.findall(r'^`\{"ports": \[\{(.*)\}\]\}`\.$', DOCS.read_text(), re.MULTILINE)
    assert ", ".join(f'"{key}"' for key in port) == keys
    assert all(list(one) == list(port) for one in document["ports"])
    print_ports([nucleo], as_json=False, is_confirmed=False)
    shown = capsys.readouterr()
    for word in ("/dev/ttyACM0", "066A", "unknown", "python (7)"):
        assert word in shown.out
    assert "edgebench bridge list --confirm" in shown.err
    print_ports([replace(nucleo, board="nucleo")], as_json=False, is_confirmed=True)
    err = capsys.readouterr().err
    assert "next: measure on this board: edgebench bench --on local/nucleo" in err


def test_firmware_is_written_by_a_tool_on_path(tmp_path: Path) -> None:
    """Otherwise another command than the one shown would run, or a failed tool count as success."""
    log = fake_tool(tmp_path, "openocd", 0)
    image, path = tmp_path / "kit.elf", f"{tmp_path}:/bin:/usr/bin"
    image.write_bytes(elf(0x0800_0000))
    flash = ("flash", "nucleo-l4r5zi", str(image))
    code, text = run(tmp_path, *flash, "--dry-run", path=path)
    assert (code, log.exists()) == (0, False)
    assert "st_nucleo_l4.cfg" in text
    code, text = run(tmp_path, *flash, path=path)
    assert code == 0
    assert f"written: {image}" in text
    assert "verify reset exit" in log.read_text()
    fake_tool(tmp_path, "openocd", 3)
    code, text = run(tmp_path, *flash, path=path)
    assert (code, "failed with status 3" in text) == (1, True)
    fake_tool(tmp_path, "picotool", 0)
    code, text = run(tmp_path, "flash", "rp2040-pico", path=path)
    assert code == 0
    assert "serial line of the board: pins GP0 and GP1; connect a 3.3 V serial adapter" in text
    assert "next: check that the board is found: edgebench bridge list --confirm" in text
    code, text = run(tmp_path, "flash", "toaster", str(image), path=path)
    assert (code, "nucleo-l4r5zi" in text) == (2, True)


def test_console_sends_lines_and_prints_replies(tmp_path: Path) -> None:
    """Otherwise the user would have to type the terminator, or would see no reply."""
    with subprocess.Popen([str(built("posix", "gcc"))], stdout=subprocess.PIPE, text=True) as board:
        assert board.stdout is not None
        port = board.stdout.readline().strip()
        code, text = run(tmp_path, "console", port, text="name\n\nprofile%\n")
        board.kill()
    assert code == 0
    assert text.index("m-name-dut-[edgebench-posix]") < text.index("m-model-[none]")
    code, text = run(tmp_path, "console", str(tmp_path / "ttyACM9"))
    assert (code, "no such serial port" in text) == (1, True)
