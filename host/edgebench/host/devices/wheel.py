"""Packs the wheel of edgebench-agent from the files that are installed on this host.

No build tool is needed, and edgebench may be installed from a checkout or from a wheel. The same
files always result in the same bytes, so that a wheel is not sent again to a device that has it.

For a computer with attached microcontrollers, the wheel also contains the firmware bridge, and the
entry points by which the agent finds the bridge. The bridge is a further portion of the namespace
package. The build tag distinguishes the two wheels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, distribution, entry_points
from importlib.util import find_spec
from pathlib import Path

from edgebench.host.wheel_file import write_wheel
from edgebench.protocol import bridge
from edgebench.protocol import target as targets
from edgebench.protocol.distributions import AGENT_DISTRIBUTION
from edgebench.protocol.errors import UsageError
from edgebench.protocol.runtime import RUNTIME_PACKAGES
from edgebench.system.paths import APPLICATION

PORTIONS = ("protocol", "system", "device_profiles", "meters", "agent")
"""Portions (subpackages) of the namespace package `edgebench` that every wheel contains."""
BRIDGE = "firmware_bridge"
"""Subpackage from the host's distribution, packed for computers with attached microcontrollers."""
BRIDGE_TAG = "1bridge"
"""Build tag of a wheel with the bridge."""
BRIDGE_EXTRAS = ("serial",)
"""Extras of the agent that the bridge needs."""
RUNTIMES = tuple(RUNTIME_PACKAGES)
"""Names of the runtimes; each is also the name of the extra that installs the runtime."""
_COPIED = ("METADATA", "entry_points.txt", "licenses/LICENSE")
"""Metadata files that are copied as the build backend wrote them."""


def build_wheel(directory: Path, *, has_bridge: bool = False) -> Path:
    """Write the wheel, and return its path.

    Raises:
        UsageError: the agent is importable here, but not installed as a distribution.
    """
    try:
        installed = distribution(AGENT_DISTRIBUTION)
    except PackageNotFoundError as exc:
        raise UsageError(
            f"{AGENT_DISTRIBUTION} is not installed here, so it cannot be packed"
        ) from exc
    stem = f"{AGENT_DISTRIBUTION.replace('-', '_')}-{installed.version}"
    info = f"{stem}.dist-info"
    members = dict(_sources((*PORTIONS, BRIDGE) if has_bridge else PORTIONS))
    texts = {name: installed.read_text(name) or "" for name in _COPIED}
    # Entry points of the bridge are copied from this installation.
    for group in (targets.ENTRY_POINT_GROUP, bridge.ENTRY_POINT_GROUP) if has_bridge else ():
        texts["entry_points.txt"] += f"\n[{group}]\n"
        for point in entry_points(group=group):
            if point.value.startswith(f"{APPLICATION}.{BRIDGE}."):
                texts["entry_points.txt"] += f"{point.name} = {point.value}\n"
    members |= {f"{info}/{name}": text.encode() for name, text in texts.items() if text}
    tag = f"-{BRIDGE_TAG}" if has_bridge else ""
    path = directory / f"{stem}{tag}-py3-none-any.whl"
    write_wheel(path, info, members)
    return path


def is_with_bridge(name: str) -> bool:
    """Whether the wheel with this file name contains the bridge.

    >>> is_with_bridge("edgebench_agent-0.1.0-1bridge-py3-none-any.whl")
    True
    """
    return f"-{BRIDGE_TAG}-" in name


def _sources(portions: Sequence[str]) -> Iterator[tuple[str, bytes]]:
    for portion in portions:
        spec = find_spec(f"{APPLICATION}.{portion}")
        if spec is None or not spec.submodule_search_locations:
            raise UsageError(f"this installation lacks the package {APPLICATION}.{portion}")
        for root in map(Path, spec.submodule_search_locations):
            for path in sorted(root.rglob("*")):
                inner = path.relative_to(root)
                # Skip files that Python and editors leave.
                is_litter = any(part.startswith((".", "__pycache__")) for part in inner.parts)
                if path.is_file() and not is_litter and not inner.name.endswith("~"):
                    yield f"{APPLICATION}/{portion}/{inner.as_posix()}", path.read_bytes()
