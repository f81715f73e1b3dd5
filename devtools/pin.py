"""Write constraints.txt: the package versions that CI and `make` install, for each Python version.

    python devtools/pin.py PYTHON...

For each interpreter, a new environment is made with the newest versions that the project allows.
The outputs of `pip freeze` are merged, with a marker where Python versions differ. The address of a
package index is not written to the file.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
HEADER = "# Made by devtools/pin.py; what CI and `make` install. Not a list of requirements.\n"


def main(pythons: list[str]) -> int:
    found: dict[str, dict[str, str]] = defaultdict(dict)
    for python in pythons:
        version, pins = _freeze(python)
        for name, pin in pins.items():
            found[name][version] = pin
    versions = sorted({v for by_version in found.values() for v in by_version}, key=_numbers)
    lines = [
        line
        for name in sorted(found, key=str.lower)
        for line in _lines(name, found[name], versions)
    ]
    (ROOT / "constraints.txt").write_text(HEADER + "\n".join(lines) + "\n")
    return 0


def _freeze(python: str) -> tuple[str, dict[str, str]]:
    """Version of an interpreter, and the pinned packages of a new environment for it."""
    with tempfile.TemporaryDirectory(prefix="edgebench-pin-") as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        pip = [f"{folder}/bin/python", "-m", "pip", "--quiet"]
        subprocess.run(
            [*pip, "install", "--quiet", "--quiet", f"{ROOT}/agent", f"{ROOT}[dev]"], check=True
        )
        frozen = subprocess.run(
            [*pip, "freeze", "--exclude", "edgebench", "--exclude", "edgebench-agent"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        code = "import sys; print('%d.%d' % sys.version_info[:2])"
        version = subprocess.run(
            [f"{folder}/bin/python", "-c", code], check=True, capture_output=True, text=True
        ).stdout.strip()
    return version, dict(line.split("==") for line in frozen.splitlines() if "==" in line)


def _lines(name: str, pins: dict[str, str], versions: list[str]) -> list[str]:
    """A single line if all Python versions have the same pin, else a line for each pin."""
    if len(set(pins.values())) == 1:
        return [f"{name}=={next(iter(pins.values()))}"]
    lines = []
    for pin in dict.fromkeys(pins[version] for version in versions if version in pins):
        members = [version for version in versions if pins.get(version) == pin]
        marker = _marker(members, versions)
        lines.append(f"{name}=={pin}{marker}")
    return lines


def _marker(members: list[str], versions: list[str]) -> str:
    """Environment marker that selects `members` out of all Python `versions`.

    The marker has no bound at the oldest and at the newest version, so that a newer Python gets the
    newest pins.
    """
    parts = []
    if members[0] != versions[0]:
        parts.append(f'python_version >= "{members[0]}"')
    if members[-1] != versions[-1]:
        after = versions[versions.index(members[-1]) + 1]
        parts.append(f'python_version < "{after}"')
    return f" ; {' and '.join(parts)}" if parts else ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
