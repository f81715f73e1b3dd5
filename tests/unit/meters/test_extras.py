"""Libraries of single instruments: asked for by their driver alone, and named as they are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from edgebench.agent.runtimes import onnx
from edgebench.host.imports import jls_file
from edgebench.meters import bulk
from edgebench.meters.joulescope import device as joulescope
from edgebench.meters.options import install
from edgebench.meters.scpi import link as scpi

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[3]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
COMMANDS = (scpi.INSTALL, joulescope.INSTALL, jls_file.INSTALL, bulk.INSTALL)
LIBRARIES = ("pyvisa", "pyvisa_py", "pyjoulescope_driver", "pyjls", "serial", "usb")


@pytest.mark.parametrize("command", COMMANDS)
def test_command_that_is_shown_installs_something(command: str) -> None:
    """An extra was renamed, and the command in the message installs nothing."""
    match = re.match(r"pip install '\S+\[(\w+)\]'", command)
    assert match is not None
    assert EXTRAS[match[1]]
    assert match[1] in EXTRAS["dev"][0], "the tests need it"
    assert f"| `{match[1]}` |" in (ROOT / "docs/dependencies.md").read_text()


@pytest.mark.parametrize("page", ["README.md", "docs/meters.md", "docs/dependencies.md"])
def test_pages_install_from_a_checkout(page: str) -> None:
    """Somebody asks an index for edgebench, which is on none, or gets another project."""
    text = (ROOT / page).read_text()
    assert "pip install 'edgebench" not in text
    for extras in re.findall(r"pip install '\.\[([\w,]+)\]'", text):
        assert set(extras.split(",")) <= set(EXTRAS)


@pytest.mark.parametrize("command", [jls_file.INSTALL, onnx.INSTALL, install("serial")])
def test_commands_install_from_a_checkout(command: str) -> None:
    """The command that a message shows fails, for edgebench is on no index."""
    assert re.fullmatch(r"pip install '\.\[\w+\]' \(from a checkout\)", command)


def test_table_of_meters_needs_none_of_them() -> None:
    """An agent without a meter does not start, or starts half a second later."""
    code = (
        "import sys, edgebench.meters.registry, edgebench.host.imports.session; "
        f"print(sorted(set({LIBRARIES!r}) & set(sys.modules)))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout == "[]\n"
