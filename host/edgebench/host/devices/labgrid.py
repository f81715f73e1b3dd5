"""Labels for devices from the places (allocatable devices) of a labgrid coordinator.

    [labgrid]
    coordinator = "lab-server:20408"
    tag = "edgebench"               # a place tagged edgebench=pi5 is the device pi5 (default)

    [labgrid.place]                 # or a mapping from the place's name
    board-7 = "pi5"
    nucleo-rack = "rack/nucleo"

A place without the tag and without a mapping stands for the device with the same name, if such a
device exists. Tags of a place become labels (`board=rpi5`). The user who has
acquired a place is shown, but only the lease of the agent locks the device.

The places are read from the coordinator with a single gRPC call. This file describes only the
fields of the reply that are needed. labgrid itself is not imported, because it depends on a fork of
pyserial, and the fork overwrites pyserial's files.

Source: labgrid 26.0, labgrid/remote/proto/labgrid-coordinator.proto.
"""

from __future__ import annotations

import getpass
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from edgebench.host.devices.discovery import named
from edgebench.host.devices.farm import Farm, LabgridTable, why_no_label
from edgebench.host.devices.files import KnownDevice
from edgebench.protocol.distributions import HOST_DISTRIBUTION, install_command
from edgebench.protocol.errors import (
    EdgebenchError,
    NoSuchDevice,
    PackagesMissing,
    RemoteProtocolError,
    Unreachable,
    UsageError,
)
from edgebench.protocol.text import one_line, printable

DEFAULT_PORT = 20408
"""Port of a coordinator. Source: labgrid 26.0, labgrid/remote/config.py and
labgrid-coordinator --help."""
TIMEOUT_S = 3.0
_METHOD = "/labgrid.Coordinator/GetPlaces"
_MAX_TEXT = 200


@dataclass(frozen=True, slots=True)
class LabgridPlace:
    """A labgrid place that stands for a device."""

    name: str
    tags: Mapping[str, str]
    acquired_by: str | None = None
    """User who has acquired the place, as `HOST/USER`; None if the place is free."""

    def labels(self, naming_tag: str) -> tuple[str, ...]:
        """Tags of the place as words for `--on label:WORD`, except the tag that names the device.

        Tags that are not valid labels are left out.
        """
        tags = sorted((key, value) for key, value in self.tags.items() if key != naming_tag)
        words = (f"{key}={value}" if value else key for key, value in tags)
        return tuple(word for word in words if why_no_label(word) is None)

    @property
    def is_taken(self) -> bool:
        """Whether another user has acquired the place."""
        return self.acquired_by not in (None, own_name())


@dataclass(frozen=True, slots=True)
class LabgridPlaces:
    """The labgrid places that stand for devices of this host."""

    by_device: Mapping[str, LabgridPlace] = field(default_factory=dict[str, LabgridPlace])
    """Maps the name of each device to its place."""
    doubts: tuple[EdgebenchError, ...] = ()
    """Errors that prevent the use of a place, or of all places."""


NO_PLACES = LabgridPlaces()


def own_name() -> str:
    """The name of this user in labgrid, as `HOST/USER`.

    Source: labgrid 26.0, `ClientSession.gethostname` and `getuser`.
    """
    host = os.environ.get("LG_HOSTNAME") or socket.gethostname()
    return f"{host}/{os.environ.get('LG_USERNAME') or getpass.getuser()}"


def places_of(table: LabgridTable | None, paired: Sequence[KnownDevice]) -> LabgridPlaces:
    """The places that stand for devices of this host; errors are put into `doubts`, not raised."""
    if table is None:
        return NO_PLACES
    try:
        places = read_places(table.coordinator)
    except EdgebenchError as exc:
        return LabgridPlaces(doubts=(exc,))
    by_device: dict[str, LabgridPlace] = {}
    doubts: list[EdgebenchError] = []
    for place in sorted(places, key=lambda place: place.name):
        try:
            name = table.place.get(place.name) or place.tags.get(table.tag)
            by_name = (device for device in paired if device.name == place.name)
            device = named(paired, name) if name else next(by_name, None)
        except NoSuchDevice as exc:
            if place.name in table.place:  # a tag may name a device of another host
                doubts.append(NoSuchDevice(f"labgrid place {place.name} is not used: {exc}"))
            continue
        if device is None:
            continue  # not a device of this host
        if device.name in by_device:
            other = by_device[device.name].name
            what = f"place {other} is already assigned to {device.name}"
            doubts.append(UsageError(f"labgrid place {place.name} is not used: {what}"))
            continue
        by_device[device.name] = place
    known = {place.name for place in places}
    doubts += [
        UsageError(f"labgrid at {table.coordinator} has no place {name}")
        for name in table.place
        if name not in known
    ]
    return LabgridPlaces(by_device, tuple(doubts))


def with_places(farm: Farm, places: LabgridPlaces, paired: Sequence[KnownDevice]) -> Farm:
    """Add the tags of the places to a farm, as labels of its devices."""
    if farm.labgrid is None:
        return farm
    devices = dict(farm.device)
    for name, place in places.by_device.items():
        entry = farm.entry(named(paired, name))
        labels = dict.fromkeys((*entry.labels, *place.labels(farm.labgrid.tag)))
        devices[name] = replace(entry, labels=tuple(labels))
    return replace(farm, device=devices)


def read_places(coordinator: str) -> list[LabgridPlace]:
    """Read all places of a coordinator.

    Args:
        coordinator: Address, as `HOST` or `HOST:PORT`.

    Raises:
        PackagesMissing: gRPC is not installed here.
        Unreachable: the coordinator does not respond.
        RemoteProtocolError: the server that responds is not a coordinator.
    """
    try:
        import grpc

        reply_class = _reply_class()
    except ModuleNotFoundError as exc:
        install = install_command("labgrid", HOST_DISTRIBUTION)
        what = f"cannot read labgrid places: {exc.name} is not installed: {install}"
        raise PackagesMissing(what) from exc
    has_port = coordinator.rpartition(":")[2].isdecimal()
    address = coordinator if has_port else f"{coordinator}:{DEFAULT_PORT}"
    with grpc.insecure_channel(address) as channel:
        ask = channel.unary_unary(_METHOD, response_deserializer=reply_class.FromString)
        try:
            reply = ask(b"", timeout=TIMEOUT_S)
        except grpc.RpcError as exc:
            code: Any = exc.code()
            detail = one_line(exc.details() or code.name, _MAX_TEXT)
            if code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED):
                text = f"labgrid coordinator {address} does not respond: {detail}"
                raise Unreachable(text) from exc
            text = f"{address} is not a labgrid coordinator: {detail}"
            raise RemoteProtocolError(text) from exc
    return [
        LabgridPlace(
            name=_clean(place.name),
            tags={_clean(key): _clean(value) for key, value in place.tags.items()},
            acquired_by=_clean(place.acquired) or None,
        )
        for place in reply.places
    ]


def _reply_class() -> Any:
    """Make the protobuf class of the coordinator's reply, with only the fields used here."""
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    kinds = descriptor_pb2.FieldDescriptorProto
    text, message = kinds.TYPE_STRING, kinds.TYPE_MESSAGE
    optional, many = kinds.LABEL_OPTIONAL, kinds.LABEL_REPEATED
    file = descriptor_pb2.FileDescriptorProto(
        name="edgebench/labgrid.proto", package="edgebench.labgrid", syntax="proto3"
    )
    place = file.message_type.add(name="Place")
    place.field.add(name="name", number=1, type=text, label=optional)
    tags = ".edgebench.labgrid.Place.TagsEntry"
    place.field.add(name="tags", number=4, type=message, label=many, type_name=tags)
    place.field.add(name="acquired", number=6, type=text, label=optional)
    entry = place.nested_type.add(name="TagsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=text, label=optional)
    entry.field.add(name="value", number=2, type=text, label=optional)
    reply = file.message_type.add(name="GetPlacesResponse")
    name = ".edgebench.labgrid.Place"
    reply.field.add(name="places", number=1, type=message, label=many, type_name=name)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    descriptor = pool.FindMessageTypeByName("edgebench.labgrid.GetPlacesResponse")
    return message_factory.GetMessageClass(descriptor)


def _clean(text: str) -> str:
    return printable(one_line(text, _MAX_TEXT))
