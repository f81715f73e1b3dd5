"""Libraries of single instruments: asked for by their driver alone, and named as they are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from edgebench.agent.runtimes import onnx
from edgebench.host.power.imports import jls_file
from edgebench.meters import bulk, nvml
from edgebench.meters.base import AbsentMeter
from edgebench.meters.joulescope import device as joulescope
from edgebench.meters.options import install
from edgebench.meters.registry import DRIVERS, extras_of, find_meter
from edgebench.meters.scpi import link as scpi

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[3]
METERS_PAGE = (ROOT / "docs/meters.md").read_text()
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
EXAMPLES = {
    example.partition(":")[0]: example
    for example in re.findall(r"^\| `\w+` \| `(\S+)` \|", METERS_PAGE, re.MULTILINE)
}
"""A meter of each driver, as the page names it."""
COMMANDS = (
    *(scpi.INSTALL, joulescope.INSTALL, jls_file.INSTALL, bulk.INSTALL, nvml.INSTALL),
    install("serial"),
)
LIBRARIES = ("pyvisa", "pyvisa_py", "pyjoulescope_driver", "pyjls", "serial", "usb", "pynvml")


@pytest.mark.parametrize("command", COMMANDS)
def test_command_that_is_shown_installs_something(command: str) -> None:
    """An extra was renamed, and the command in the message installs nothing."""
    match = re.match(r"pip install -e '\S+\[(\w+)\]'", command)
    assert match is not None
    assert EXTRAS[match[1]]
    needed = {package.split(">=")[0] for package in EXTRAS[match[1]]}
    by_host = {package.split(">=")[0] for package in EXTRAS["host"]}
    assert match[1] in EXTRAS["dev"][0] or needed <= by_host, "the tests need it"
    assert f"| `{match[1]}` |" in (ROOT / "docs/dependencies.md").read_text()


@pytest.mark.parametrize("name", DRIVERS)
def test_extra_of_a_driver_is_what_it_asks_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device to which a meter is deployed gets another library than its driver needs, or none."""
    for library in LIBRARIES:
        monkeypatch.setitem(sys.modules, library, None)
    found = find_meter(EXAMPLES[name]).open()
    said = found.reason if isinstance(found, AbsentMeter) else ""
    extra = DRIVERS[name].extra
    assert (install(extra) in said) if extra else ("pip install" not in said), said


@pytest.mark.parametrize("page", ["README.md", "docs/meters.md", "docs/dependencies.md"])
def test_pages_install_from_a_checkout(page: str) -> None:
    """Somebody asks an index for edgebench, which is on none, or gets another project."""
    text = (ROOT / page).read_text()
    assert "pip install 'edgebench" not in text
    for extras in re.findall(r"pip install (?:-e )?'\.\[([\w,]+)\]'", text):
        assert set(extras.split(",")) <= set(EXTRAS)


@pytest.mark.parametrize("command", [jls_file.INSTALL, onnx.INSTALL, install("serial")])
def test_commands_install_from_a_checkout(command: str) -> None:
    """The command that a message shows fails, for edgebench is on no index."""
    assert re.fullmatch(r"pip install (-e )?'\.\[\w+\]' \(from a checkout\)", command)


def test_meters_with_one_library_need_one_extra() -> None:
    """Two meters on serial ports bring pyserial twice, or one without a library brings an extra."""
    assert extras_of(["um25c:/dev/rfcomm0", "rapl", "ppk2:,supply=3.3", "scpi:x"]) == (
        *("scpi", "serial"),
    )


def test_table_of_meters_needs_none_of_them() -> None:
    """An agent without a meter does not start, or starts half a second later."""
    code = (
        "import sys, edgebench.meters.registry, edgebench.host.power.imports.importer; "
        f"print(sorted(set({LIBRARIES!r}) & set(sys.modules)))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout == "[]\n"
