"""The server of Qoitech's Otii with one unit, made up down to its lines; faults are asked for."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from support.threaded import TcpServer

DEVICE = "Arc512031204843494E3130393033313036"


class Refused(Exception):
    """The server answers with this error code."""


@dataclass(slots=True, kw_only=True)
class OtiiEmulator(TcpServer):
    """A server, logged in, with an Ace or an Arc."""

    current_a: Callable[[int], float | None] = lambda index: 0.1
    """Of the sample with this number; None: a value that is none."""
    currents: Callable[[NDArray[np.float64]], list[float]] | None = None
    """Instead, of the samples between these times of the host's monotonic clock."""
    rate_hz: int = 50_000
    drift_ppm: float = 0.0
    """Error of the unit's clock."""
    model: str = "Ace"
    is_main_on: bool = True
    license: str | None = "Automation"
    names: tuple[str, ...] = ("bench",)
    gone_after: int | None = None
    """The connection is cut when so many samples were fetched."""
    is_chatty: bool = False
    """Tells of progress before each answer."""
    commands: list[str] = field(default_factory=list[str])
    enabled: set[str] = field(default_factory=set[str])
    began_s: float | None = None
    ended_s: float | None = None
    fetched_count: int = 0
    """Samples that were fetched."""

    @property
    def is_recording(self) -> bool:
        """Whether nobody has stopped it."""
        return self.began_s is not None and self.ended_s is None

    def _serve(self, connection: socket.socket) -> None:
        about = {"otii_version": "3.5.5", "protocol_version": "0.2", "server": "otii-server"}
        self._send(connection, {"type": "information", "info": "connected", "data": about})
        heard = b""
        while not self._over.is_set():
            try:
                data = connection.recv(65536)
            except TimeoutError:
                continue
            if not data:
                return
            *lines, heard = (heard + data).split(b"\r\n")
            for line in lines:
                self._answer(connection, json.loads(line))
            if self.gone_after is not None and self.fetched_count >= self.gone_after:
                return

    def _send(self, connection: socket.socket, message: dict[str, Any]) -> None:
        connection.settimeout(5.0)
        connection.sendall(json.dumps(message).encode() + b"\r\n")
        connection.settimeout(0.05)

    def _answer(self, connection: socket.socket, request: dict[str, Any]) -> None:
        about = {"cmd": request["cmd"], "trans_id": request["trans_id"]}
        self.commands.append(request["cmd"])
        if self.is_chatty:
            self._send(
                connection, {"type": "progress", "cmd": request["cmd"], "progress_value": 0.5}
            )
        try:
            data = self._obey(request["cmd"], request.get("data") or {})
        except Refused as exc:
            self._send(connection, about | {"type": "error", "errorcode": str(exc), "data": {}})
        else:
            self._send(connection, about | {"type": "response"} | ({"data": data} if data else {}))

    def _obey(self, command: str, data: dict[str, Any]) -> dict[str, Any]:
        if command.startswith(("arc_", "project_", "recording_")) and self.license is None:
            raise Refused("No license")
        plain: dict[str, dict[str, Any]] = {
            "otii_is_logged_in": {"logged_in": True},
            "otii_get_licenses": {"licenses": [self._license()]},
            "otii_reserve_license": {},
            "otii_return_license": {},
            "otii_get_devices": {"devices": self._devices()},
            "otii_get_active_project": {"project_id": -1},
            "otii_create_project": {"project_id": 1},
            "arc_add_to_project": {},
            "arc_get_main": {"value": self.is_main_on},
            "arc_get_main_voltage": {"value": 3.7},
            "arc_get_channel_samplerate": {"value": self.rate_hz},
            "arc_get_version": {"hw_version": "1.2", "fw_version": "2.1.4"},
            "project_get_last_recording": {"recording_id": 7, "name": "Recording 1"},
        }
        if command in plain:
            return plain[command]
        if command == "arc_enable_channel":
            self.enabled.add(data["channel"])
        elif command == "project_start_recording":
            self.began_s, self.ended_s = time.monotonic(), None
        elif command == "project_stop_recording":
            self.ended_s = time.monotonic()
        elif command == "recording_get_channel_data_count":
            return {"count": self._due()}
        elif command == "recording_get_channel_data":
            return self._values(data["index"], data["count"])
        else:
            raise Refused("Invalid command")
        return {}

    def _license(self) -> dict[str, Any]:
        found = {"id": 1234, "type": self.license or "Standard", "available": True}
        return found | {"reserved_to": "", "hostname": ""}

    def _devices(self) -> list[dict[str, Any]]:
        return [
            {"device_id": f"{DEVICE}{place}", "name": name, "type": self.model}
            for place, name in enumerate(self.names)
        ]

    def _due(self) -> int:
        if self.began_s is None or "mc" not in self.enabled:
            return 0
        return int(((self.ended_s or time.monotonic()) - self.began_s) * self._true_rate_hz)

    @property
    def _true_rate_hz(self) -> float:
        """Samples per second of the host's clock."""
        return self.rate_hz * (1 + self.drift_ppm * 1e-6)

    def _values(self, index: int, count: int) -> dict[str, Any]:
        places = range(index, min(index + count, self._due()))
        values: list[Any] = [self.current_a(at) for at in places]
        if self.currents is not None and self.began_s is not None:
            edges = np.arange(places.start, places.stop + 1)
            values = self.currents(self.began_s + edges / self._true_rate_hz)
        self.fetched_count += len(values)
        return {
            "data_type": "analog",
            "timestamp": index / self.rate_hz,
            "interval": 1 / self.rate_hz,
            "values": values,
        }
