"""Access to the names, the labels and the health that this host stores for its devices."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from edgebench.host.devices.discovery import Access, DiscoveredDevice, PlaceState, named
from edgebench.host.devices.farm import Farm, load_farm
from edgebench.host.devices.files import HostFiles, KnownDevice
from edgebench.host.devices.health import HealthFiles
from edgebench.host.devices.labgrid import NO_PLACES, LabgridPlaces
from edgebench.host.devices.names import LOCAL_NAME, SEAT_MARK
from edgebench.host.devices.selection import ALL
from edgebench.protocol.errors import NoSuchDevice, UsageError

MAX_NAME = 64
"""Maximum length of a name that a user gives to a device; tables show names in a narrow column."""
_MARKS = frozenset(",:*?[]/\\'\"")
"""Characters with a special meaning in `--on`, in a shell or in the farm file."""


def recorder(
    farm: Farm, health: HealthFiles, places: LabgridPlaces = NO_PLACES
) -> Callable[[DiscoveredDevice, KnownDevice], DiscoveredDevice]:
    """Make a function that adds labels, health and labgrid place to a device's row in the list.

    The function also records in the health files that the device was reached.
    """

    def with_record(line: DiscoveredDevice, device: KnownDevice) -> DiscoveredDevice:
        if line.access is Access.READY:
            health.seen(device, line.seat.name if line.seat else "")
        labels = (farm.device.get(line.name) or farm.entry(device)).labels
        place = places.by_device.get(line.name) or places.by_device.get(device.name)
        state = None
        if place is not None:
            state = PlaceState(place.name, place.acquired_by if place.is_taken else None)
        return replace(line, labels=labels, health=health.of(device), place=state)

    return with_record


def take_over(
    files: HostFiles, health: HealthFiles, farm: Path, old: KnownDevice, new: KnownDevice
) -> None:
    """Move labels, meter and health of a device to its new entry after it was set up again.

    Raises:
        UsageError: the farm file is not valid.
        StoreError: a file cannot be read or written.
    """
    from edgebench.host.devices.farm_edit import rename_device

    health.move(old.pin, new.pin)
    files.forget(old)  # if its name differs from the new name
    if old.id != new.id and old.name not in load_farm(farm).device:
        with files.locked():
            rename_device(farm, old.id, new.name)


def rename(files: HostFiles, farm: Path, old: str, new: str) -> KnownDevice:
    """Rename a paired device, including its entries in the farm file.

    Raises:
        NoSuchDevice: no paired device has the old name, or several match it.
        UsageError: the new name is taken or invalid, or the device is this machine, or a seat of an
            agent.
        StoreError: a file cannot be read or written.
    """
    from edgebench.host.devices.farm_edit import rename_device

    is_word = new.isprintable() and not any(
        character.isspace() or character in _MARKS for character in new
    )
    if not 0 < len(new) <= MAX_NAME or not is_word or new.startswith("-"):
        raise UsageError(
            f"not a name: {new[:80]!r}; a name is a word of at most {MAX_NAME} characters "
            "without commas, colons, slashes, quotes, brackets and wildcards"
        )
    if new in (LOCAL_NAME, ALL):
        raise UsageError(f"name {new!r} is reserved")
    with files.locked():
        paired = files.devices()
        device = _agent(paired, old, "renamed")
        if device.name == new:
            return device
        for other in paired:
            if new in (other.name, other.id) and other.pin != device.pin:
                raise UsageError(f"name {new!r} is taken by the device at {other.endpoint.address}")
        rename_device(farm, device.name, new)
        renamed = replace(device, name=new)
        files.save([renamed if known.pin == device.pin else known for known in paired])
    return renamed


def label(
    files: HostFiles, farm: Path, name: str, *, add: Sequence[str], remove: Sequence[str]
) -> tuple[KnownDevice, tuple[str, ...]]:
    """Add and remove labels of a device or seat; return the device and its new labels.

    Raises:
        NoSuchDevice: no device matches the name, or several do.
        UsageError: a word cannot be a label, or the farm file is not valid.
        StoreError: a file cannot be read or written.
    """
    from edgebench.host.devices.farm_edit import change_labels

    if both := set(add) & set(remove):
        raise UsageError(f"label {min(both)!r} is both added and removed")
    with files.locked():
        device = named(files.devices(), name)
        return device, change_labels(farm, device, add=add, remove=remove)


def forget(files: HostFiles, health: HealthFiles, name: str) -> KnownDevice:
    """Remove a device's pairing and health; the device's entry in the farm file is kept.

    Raises:
        NoSuchDevice: no paired device has that name, or several match it.
        UsageError: the device is this machine, or a seat.
        StoreError: a file cannot be read or written.
    """
    device = _agent(files.devices(), name, "forgotten", is_whole=True)
    files.forget(device)
    health.forget(device.pin)
    return device


def _agent(
    paired: Sequence[KnownDevice], name: str, verb: str, *, is_whole: bool = False
) -> KnownDevice:
    """Find the paired device with this name.

    Raises:
        NoSuchDevice: no device matches the name, or `is_whole` is set and the name is only a part
            of the device's name or id.
        UsageError: the device is this machine, or a seat.
    """
    device = named(paired, name)
    if device.name == LOCAL_NAME:
        raise UsageError(f"device {LOCAL_NAME!r} is this machine and cannot be {verb}")
    if device.seat:
        agent = device.name.rpartition(SEAT_MARK)[0]
        raise UsageError(
            f"{device.name!r} is a device of the agent {agent!r}; only the agent can be {verb}"
        )
    if is_whole and name not in (device.name, device.id, device.pin):
        raise NoSuchDevice(f"no paired device is called {name!r}; did you mean {device.name!r}?")
    return device
