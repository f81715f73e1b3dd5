"""The wheel of edgebench-agent, packed from its files as they are installed here.

Works alike for a checkout and for an installed edgebench, and without a build tool. The same
files give the same bytes, so that a device that has the wheel is not sent it again.

Source: https://packaging.python.org/en/latest/specifications/binary-distribution-format/
"""

from __future__ import annotations

import base64
import hashlib
import re
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from edgebench.protocol.distributions import AGENT_DISTRIBUTION
from edgebench.protocol.errors import UsageError
from edgebench.protocol.paths import APPLICATION
from edgebench.protocol.runtime import RUNTIME_PACKAGES

PORTIONS = ("protocol", "device_profiles", "meters", "agent")
"""Portions of the distribution."""
RUNTIMES = tuple(RUNTIME_PACKAGES)
"""Extras that bring a runtime; also the names of the runtimes."""
_EPOCH = (1980, 1, 1, 0, 0, 0)
"""Earliest time that a zip file can hold."""
_WHEEL = "Wheel-Version: 1.0\nGenerator: edgebench\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_COPIED = ("METADATA", "entry_points.txt", "licenses/LICENSE")
"""Metadata that a wheel has as the build backend wrote it."""


def build_wheel(directory: Path) -> Path:
    """Write the wheel into this directory; its path.

    Raises:
        UsageError: the agent is not installed here, but only on the path.
    """
    own = _own()
    stem = f"{AGENT_DISTRIBUTION.replace('-', '_')}-{own.version}"
    info = f"{stem}.dist-info"
    members = dict(_sources())
    for name in _COPIED:
        if text := own.read_text(name):
            members[f"{info}/{name}"] = text.encode()
    members[f"{info}/WHEEL"] = _WHEEL.encode()
    members[f"{info}/RECORD"] = _record(members, f"{info}/RECORD").encode()
    path = directory / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, data in members.items():
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o100644 << 16
            wheel.writestr(entry, data)
    return path


def normalized(text: str) -> str:
    """Name of a package in the form that compares, from a requirement or a wheel's file name.

    >>> normalized("tflite-runtime>=2.13; extra == 'x'"), normalized("tflite_runtime-2.14-cp311")
    ('tflite-runtime', 'tflite-runtime')

    Source: https://packaging.python.org/en/latest/specifications/name-normalization/
    """
    match = re.match(r"[A-Za-z0-9._]+(?:-[A-Za-z][A-Za-z0-9._]*)*", text.strip())
    return re.sub(r"[-_.]+", "-", match[0] if match else text).lower()


def _own() -> Distribution:
    try:
        return distribution(AGENT_DISTRIBUTION)
    except PackageNotFoundError as exc:
        raise UsageError(
            f"{AGENT_DISTRIBUTION} is not installed here, so it cannot be packed"
        ) from exc


def _sources() -> Iterator[tuple[str, bytes]]:
    for portion in PORTIONS:
        spec = find_spec(f"{APPLICATION}.{portion}")
        if spec is None or not spec.submodule_search_locations:
            raise UsageError(f"this installation has no part {APPLICATION}.{portion}")
        for root in map(Path, spec.submodule_search_locations):
            for path in sorted(root.rglob("*")):
                if path.is_file() and not _is_litter(path.relative_to(root)):
                    name = f"{APPLICATION}/{portion}/{path.relative_to(root).as_posix()}"
                    yield name, path.read_bytes()


def _is_litter(path: Path) -> bool:
    """Whether Python or an editor left the file there."""
    return any(part.startswith((".", "__pycache__")) for part in path.parts) or path.name[-1] == "~"


def _record(members: dict[str, bytes], own_name: str) -> str:
    lines = []
    for name, data in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).decode().rstrip("=")
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join(lines) + f"{own_name},,\n"
