"""Libraries of single instruments: imported by their driver alone, and named as they are."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from edgebench.agent.runtimes import onnx
from edgebench.host.power.imports import jls_file
from edgebench.host.serve import server
from edgebench.meters import bulk, nvml
from edgebench.meters.base import AbsentMeter
from edgebench.meters.joulescope import device as joulescope
from edgebench.meters.registry import DRIVERS, extras_of, find_meter
from edgebench.meters.scpi import link as scpi
from edgebench.protocol.distributions import install_command
from edgebench.protocol.runtime import RUNTIME_PACKAGES

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[3]
METERS_PAGE = (ROOT / "docs/meters.md").read_text()
EXTRAS = {
    name: tomllib.loads((ROOT / path).read_text())["project"]["optional-dependencies"]
    for name, path in (
        ("edgebench", "pyproject.toml"),
        ("edgebench-agent", "agent/pyproject.toml"),
    )
}
"""Extras of both distributions, with what each brings."""
HOST_PACKAGES = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["metadata"][
    "hooks"
]["custom"]["dependencies"]
EXAMPLES = {
    example.partition(":")[0]: example
    for example in re.findall(r"^\| `\w+` \| `(\S+)` \|", METERS_PAGE, re.MULTILINE)
}
"""A meter of each driver, as named by the page."""
COMMANDS = (
    *(scpi.INSTALL, joulescope.INSTALL, jls_file.INSTALL, bulk.INSTALL, nvml.INSTALL),
    *(install_command("serial"), server.INSTALL),
)
LIBRARIES = ("pyvisa", "pyvisa_py", "pyjoulescope_driver", "pyjls", "serial", "usb", "pynvml")


@pytest.mark.parametrize("command", [*COMMANDS, onnx.INSTALL])
def test_command_that_is_shown_installs_something(command: str) -> None:
    """Otherwise the command in a message would install nothing once an extra is renamed."""
    match = re.fullmatch(r"pip install '([\w-]+)\[(\w+)\]'", command)
    assert match is not None
    distribution, extra = match.groups()
    assert EXTRAS[distribution][extra]
    needed = {package.split(">=")[0] for package in EXTRAS[distribution][extra]}
    of_dev = re.findall(r"[\w-]+", EXTRAS["edgebench"]["dev"][0])
    by_host = {package.split(">=")[0] for package in HOST_PACKAGES}
    assert extra in [*of_dev, *RUNTIME_PACKAGES] or needed <= by_host, "the tests need it"
    assert f"`{extra}`" in (ROOT / "docs/dependencies.md").read_text()


@pytest.mark.parametrize("extra", sorted(EXTRAS["edgebench"]))
def test_extra_of_a_host_is_the_agents_of_the_same_name(extra: str) -> None:
    """Otherwise `pip install 'edgebench[usb]'` would differ from what a device gets."""
    if extra in EXTRAS["edgebench-agent"]:
        assert EXTRAS["edgebench"][extra] == [f"edgebench-agent[{extra}]"]
    else:
        assert extra in ("all", "dev", "jls", "labgrid", "cluster", "plot", "serve", "kit", "phone")


@pytest.mark.parametrize("name", DRIVERS)
def test_extra_of_a_driver_is_what_it_asks_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a device would get another library than its meter's driver needs, or none."""
    for library in LIBRARIES:
        monkeypatch.setitem(sys.modules, library, None)
    found = find_meter(EXAMPLES[name]).open()
    said = found.reason if isinstance(found, AbsentMeter) else ""
    extra = DRIVERS[name].extra
    assert (install_command(extra) in said) if extra else ("pip install" not in said), said


@pytest.mark.parametrize(
    "page", ["README.md", "agent/README.md", "docs/meters.md", "docs/dependencies.md"]
)
def test_pages_name_extras_that_there_are(page: str) -> None:
    """Otherwise pip would not know the extra of a command on our pages."""
    text = (ROOT / page).read_text()
    named = re.findall(r"pip install (?:\S+ )*?'(edgebench|edgebench-agent|\.)\[([\w,]+)\]'", text)
    assert named or "pip install" not in text
    for distribution, extras in named:
        assert set(extras.split(",")) <= set(EXTRAS[distribution.replace(".", "edgebench")])


def test_pages_install_a_checkout_whole() -> None:
    """Otherwise half of the checkout would come from an index, as a stranger's project."""
    pages = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md"))
    commands = [
        line for page in pages for line in re.findall(r"pip install [^`\n]+", page.read_text())
    ]
    of_checkout = [command for command in commands if re.search(r"[ ']\.(\[|'|$)", command)]
    assert of_checkout
    assert [command for command in of_checkout if "./agent" not in command] == []


def test_meters_with_one_library_need_one_extra() -> None:
    """Otherwise meters on serial ports would bring pyserial twice.

    Or a meter without a library would bring an extra.
    """
    assert extras_of(["um25c:/dev/rfcomm0", "rapl", "ppk2:,supply=3.3", "scpi:x"]) == (
        *("scpi", "serial"),
    )


def test_table_of_meters_needs_none_of_them() -> None:
    """Otherwise an agent without a meter would not start, or start half a second later."""
    code = (
        "import sys, edgebench.meters.registry, edgebench.host.power.imports.importer; "
        f"print(sorted(set({LIBRARIES!r}) & set(sys.modules)))"
    )
    said = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout == "[]\n"
