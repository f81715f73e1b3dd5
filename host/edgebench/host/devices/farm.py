"""The farm file: labels of the devices, the meters wired to them, and the degree of parallelism.

A farm of two devices::

    schema = 1
    parallel = 8                    # devices that are measured at the same time
    quarantine_after = 3            # consecutive failures until a device is left out; 0 for never

    [device.pi5]                    # name under which the device was paired, or its id
    labels = ["pi", "bench-2"]
    meter = "ppk2:/dev/ttyACM0,supply=5.0"

    [device.local]                  # adds this machine to the farm
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from edgebench.host.devices.files import KnownDevice
from edgebench.host.devices.names import LOCAL_NAME
from edgebench.protocol.errors import StoreError
from edgebench.protocol.toml_text import Complaint, TomlText, strict_converter
from edgebench.system.paths import user_paths

SCHEMA_VERSION = 1
FARM_FILE = "farm.toml"
FARM_VARIABLE = "EDGEBENCH_FARM"
MAX_PARALLEL = 64
DEFAULT_PARALLEL = 16
DEFAULT_QUARANTINE_AFTER = 3
"""Default number of consecutive failures after which a device is quarantined. Two failures are not
enough, because a loose cable may cause one failure, and plugging it in again may cause a second
one."""
MAX_QUARANTINE_AFTER = 1000
MAX_SIZE_BYTES = 2**20


@dataclass(frozen=True, slots=True, kw_only=True)
class FarmDevice:
    """Facts about a device that the operator has entered."""

    labels: tuple[str, ...] = ()
    """Words for the selection of devices by `--on label:WORD`."""
    meter: str | None = None
    """Energy meter wired to the device, as a value of `--meter`; None if there is no meter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabgridTable:
    """A labgrid coordinator, and those of its places that correspond to devices of this host."""

    coordinator: str
    """Address, as `HOST` or `HOST:PORT`."""
    tag: str = "edgebench"
    """Key of a place's tag; the value of the tag is the name of a device of this host."""
    place: Mapping[str, str] = field(default_factory=dict[str, str])
    """Maps the name of each labgrid place to the name of its device."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Farm:
    """Content of the farm file."""

    schema: int = SCHEMA_VERSION
    parallel: int = DEFAULT_PARALLEL
    """Maximum number of devices that are measured at the same time."""
    quarantine_after: int = DEFAULT_QUARANTINE_AFTER
    """Number of consecutive failures after which a device is quarantined; 0 means never."""
    device: Mapping[str, FarmDevice] = field(default_factory=dict)
    """Maps the name or id of each listed device to its entry."""
    labgrid: LabgridTable | None = None
    """Labgrid as a further source of labels; None if the file configures no labgrid."""

    def entry(self, device: KnownDevice) -> FarmDevice:
        """Entry of a device; an empty entry if the file does not list it."""
        return self.device.get(device.name) or self.device.get(device.id) or FarmDevice()

    @property
    def has_this_machine(self) -> bool:
        """Whether this machine is a device of the farm."""
        return LOCAL_NAME in self.device


def farm_path(config: Path | None = None) -> Path:
    """Path of the farm file: $EDGEBENCH_FARM, or farm.toml in the configuration directory."""
    if given := os.environ.get(FARM_VARIABLE):
        return Path(given)
    return (config or Path(user_paths(os.environ).host_config)) / FARM_FILE


def load_farm(path: Path) -> Farm:
    """Read a farm file; the farm is empty if the file does not exist.

    Raises:
        StoreError: the file cannot be read.
        UsageError: the file is not TOML, violates the schema, or a value is out of bounds.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_SIZE_BYTES + 1)
    except FileNotFoundError:
        return Farm()
    except OSError as exc:
        raise StoreError(f"farm file not readable: {exc.strerror}: {path}") from exc
    if len(content) > MAX_SIZE_BYTES:
        raise StoreError(f"farm file not readable: over {MAX_SIZE_BYTES} bytes: {path}")
    return parse_farm(content.decode("utf-8", "replace"), str(path))


def parse_farm(text: str, name: str) -> Farm:
    """Parse the text of a farm file.

    Raises:
        UsageError: the text is not TOML, violates the schema, or a value is out of bounds.
    """
    source = TomlText(text, name)
    farm = source.structured(source.table(SCHEMA_VERSION), Farm, strict_converter())
    for key, value, least, most in (
        ("parallel", farm.parallel, 1, MAX_PARALLEL),
        ("quarantine_after", farm.quarantine_after, 0, MAX_QUARANTINE_AFTER),
    ):
        if not least <= value <= most:
            raise source.error(Complaint((key,), f"must be {least}..{most}, got {value}"))
    for device, entry in farm.device.items():
        for number, label in enumerate(entry.labels):
            if (what := why_no_label(label)) is not None:
                raise source.error(Complaint(("device", device, "labels", number), what))
    return farm


def why_no_label(label: str) -> str | None:
    """Reason why a word cannot be a label; None if it can be a label."""
    is_word = label and not set(label) & set(", :") and label.isprintable()
    return None if is_word else f"must be a word without commas, colons and spaces, got {label!r}"
