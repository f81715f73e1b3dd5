"""Smart plugs that are made up, down to the bytes on their sockets; faults are asked for.

ShellyEmulator   generation 3 (or 1): web server, and the same methods over a WebSocket, which is
                 the way that aioshelly takes
TasmotaEmulator  web server
KasaEmulator     the scrambled JSON of port 9999
"""

from __future__ import annotations

import http
import json
import socket
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response
from websockets.sync.server import Server, ServerConnection, serve

from edgebench.meters.kasa import scrambled, unscrambled
from support.threaded import TcpServer, Threaded

MAC = "A8032ABE54DC"


@dataclass(slots=True, kw_only=True)
class WebPlug(Threaded):
    """A plug with a web server."""

    power_w: float = 22.9
    is_on: bool = True
    status: int = 200
    """Of every page: 401 where a password is wanted."""
    answered: int = 0
    """Pages so far."""
    silent_after: int | None = None
    """Pages after which every other one fails with an error of the server."""
    paths: list[str] = field(default_factory=list[str])
    _server: Server = field(init=False)

    @property
    def address(self) -> str:
        """As a meter takes it."""
        return f"127.0.0.1:{self._server.socket.getsockname()[1]}"

    @property
    def port(self) -> int:
        """Of the web server."""
        return int(self._server.socket.getsockname()[1])

    def _open(self) -> None:
        self._server = serve(self.talk, "127.0.0.1", 0, process_request=self._page)

    def _run(self) -> None:
        self._server.serve_forever()

    def _stop(self) -> None:
        self._server.shutdown()

    def _close(self) -> None:
        """The server has closed its socket itself."""

    def _page(self, connection: ServerConnection, request: Request) -> Response | None:
        if "Upgrade" in request.headers:
            return None
        self.paths.append(request.path)
        self.answered += 1
        parts = urlsplit(request.path)
        asked = {name: values[0] for name, values in parse_qs(parts.query).items()}
        found = self.page(parts.path, asked)
        is_failing = self.silent_after is not None and self.answered > self.silent_after
        status = 500 if is_failing else self.status if found is not None else 404
        body = json.dumps(found).encode()
        headers = Headers({"Content-Type": "application/json", "Content-Length": str(len(body))})
        headers["Connection"] = "close"
        return Response(status, http.HTTPStatus(status).phrase, headers, body)

    def page(self, path: str, asked: dict[str, str]) -> Any:
        """Content of a page; None where there is none."""
        raise NotImplementedError

    def talk(self, connection: ServerConnection) -> None:
        """A WebSocket."""


@dataclass(slots=True, kw_only=True)
class ShellyEmulator(WebPlug):
    """A Shelly Plug S of generation 3, or of generation 1."""

    generation: int = 3
    components: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """Others than the one outlet."""

    def page(self, path: str, asked: dict[str, str]) -> Any:
        """Pages of the generation."""
        if path == "/shelly":
            return self.method("Shelly.GetDeviceInfo", {}) if self.generation > 1 else self._old()
        if self.generation == 1:
            meter = {"power": self.power_w, "overpower": 0.0, "is_valid": True, "total": 12345}
            return meter if path == "/meter/0" else None
        if not path.startswith("/rpc/"):
            return None
        return self.method(path.removeprefix("/rpc/"), {k: int(v) for k, v in asked.items()})

    def method(self, name: str, params: dict[str, Any]) -> Any:
        """Result of an RPC method; None where there is none."""
        status = {"switch:0": self._switch()} if not self.components else self.components
        if name == "Shelly.GetDeviceInfo":
            return {
                "name": None,
                "id": "shellyplugsg3-a8032abe54dc",
                "mac": MAC,
                "slot": 0,
                "model": "S3PL-00112EU",
                "gen": self.generation,
                "fw_id": "20250924-123456/1.7.1",
                "ver": "1.7.1",
                "app": "PlugSG3",
                "auth_en": False,
                "auth_domain": None,
            }
        if name == "Shelly.GetStatus":
            return {"sys": {"mac": MAC, "uptime": 11081}, "wifi": {"rssi": -54}, **status}
        if name == "Shelly.GetConfig":
            return {
                "sys": {"device": {"name": None, "mac": MAC}, "cfg_rev": 1},
                "switch:0": {"id": 0, "name": None, "autorecover_voltage_errors": False},
            }
        if name == "Shelly.GetComponents":
            return {"components": [], "cfg_rev": 1, "offset": 0, "total": 0}
        kind, _, verb = name.partition(".")
        return status.get(f"{kind.lower()}:{params.get('id', 0)}") if verb == "GetStatus" else None

    def talk(self, connection: ServerConnection) -> None:
        """JSON-RPC, a message for each question."""
        with suppress(ConnectionClosed):
            for message in connection:
                asked = json.loads(message)
                result = self.method(asked["method"], asked.get("params") or {})
                answer = {"id": asked["id"], "src": "shellyplugsg3", "dst": asked.get("src")}
                refusal = {"error": {"code": 404, "message": f"No handler for {asked['method']}"}}
                connection.send(json.dumps(answer | ({"result": result} if result else refusal)))

    def _switch(self) -> dict[str, Any]:
        return {
            "id": 0,
            "source": "init",
            "output": self.is_on,
            "apower": self.power_w if self.is_on else 0.0,
            "voltage": 230.1,
            "freq": 50.0,
            "current": round(self.power_w / 230.1, 3),
            "aenergy": {"total": 1234.5, "by_minute": [380.0, 381.0, 379.0], "minute_ts": 1},
            "temperature": {"tC": 38.4, "tF": 101.1},
        }

    def _old(self) -> dict[str, Any]:
        return {
            "type": "SHPLG-S",
            "mac": MAC,
            "auth": False,
            "num_outputs": 1,
            "num_meters": 1,
            "fw": "20230913-113421/v1.14.0-gcb84623",
        }


@dataclass(slots=True, kw_only=True)
class TasmotaEmulator(WebPlug):
    """A plug with Tasmota."""

    is_old: bool = False
    """Sensors are in Status 8."""
    decimals: int = 0
    energy: dict[str, Any] | None = None
    """Instead of that of one phase."""
    warning: str | None = None

    def page(self, path: str, asked: dict[str, str]) -> Any:
        """Answers of the command page."""
        if path != "/cm":
            return None
        if self.warning is not None:
            return {"WARNING": self.warning}
        command = asked.get("cmnd", "").strip()
        if command == "Status 0":
            return self._all() | self._sensors()
        if command == "Status":
            return {"Status": self._all()["Status"]}
        if command == "Status 8" or (command == "Status 10" and not self.is_old):
            return self._sensors()
        return {"Command": "Unknown"}

    def _all(self) -> dict[str, Any]:
        return {
            "Status": {"Module": 1, "DeviceName": "Gosund SP1", "Power": int(self.is_on)},
            "StatusFWR": {"Version": "14.2.0(tasmota)", "Hardware": "ESP8266EX"},
            "StatusNET": {"Hostname": "tasmota-1", "Mac": "5C:CF:7F:00:00:01"},
        }

    def _sensors(self) -> dict[str, Any]:
        power_w = round(self.power_w, self.decimals) if self.decimals else round(self.power_w)
        one = {"Total": 3.185, "Power": power_w, "Factor": 0.98, "Voltage": 230, "Current": 0.102}
        return {"StatusSNS": {"Time": "2026-01-01T00:00:00", "ENERGY": self.energy or one}}


@dataclass(slots=True, kw_only=True)
class KasaEmulator(TcpServer):
    """An HS110 of the second version, of the first, or a strip."""

    power_w: float = 22.9
    is_on: bool = True
    is_first: bool = False
    outlets: int = 0
    """Outlets of a strip; 0: a plug."""
    err_code: int = 0
    questions: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    @property
    def answered(self) -> int:
        """Number of requests that were answered."""
        return len(self.questions)

    def _serve(self, connection: socket.socket) -> None:
        connection.settimeout(0.5)
        heard = b""
        while data := connection.recv(4096):
            heard += data
            while len(heard) >= 4 and len(heard) >= 4 + (size := int.from_bytes(heard[:4], "big")):
                question, heard = heard[4 : 4 + size], heard[4 + size :]
                text = json.dumps(self._answer(json.loads(unscrambled(question)))).encode()
                for at in range(0, len(text), 1000):  # never all at once
                    head = len(text).to_bytes(4, "big") if at == 0 else b""
                    connection.sendall(head + scrambled(text)[at : at + 1000])

    def _answer(self, question: dict[str, Any]) -> dict[str, Any]:
        self.questions.append(question)
        answers: dict[str, Any] = {}
        for module, asked in question.items():
            if module in ("system", "emeter", "time"):
                answers[module] = {name: self._method(module, name) for name in asked}
            elif module != "context":
                answers[module] = {"err_code": -1, "err_msg": "module not support"}
        return answers

    def _method(self, module: str, name: str) -> dict[str, Any]:
        if (module, name) == ("system", "get_sysinfo"):
            return self._system()
        if name == "get_timezone":
            return {"index": 39, "err_code": 0}
        if name == "get_time":
            return {"year": 2026, "month": 1, "mday": 1, "hour": 0, "min": 0, "sec": 0} | {
                "err_code": 0
            }
        if (module, name) == ("emeter", "get_realtime"):
            if self.err_code:
                return {"err_code": self.err_code, "err_msg": "module not support"}
            if self.is_first:
                return {"current": 0.1, "voltage": 230.1, "power": self.power_w, "total": 1.2}
            return {
                "current_ma": 100,
                "voltage_mv": 230100,
                "power_mw": round(self.power_w * 1e3),
                "total_wh": 1200,
                "err_code": 0,
            }
        return {"err_code": -1, "err_msg": "module not support"}

    def _system(self) -> dict[str, Any]:
        model = "HS300(US)" if self.outlets else "HS110(EU)"
        found = {
            "sw_ver": "1.5.6 Build 191125 Rel.083345",
            "hw_ver": "2.0",
            "model": model,
            "deviceId": "8006E",
            "mac": "B0:95:75:00:00:01",
            "alias": "bench",
            "err_code": 0,
            "type": "IOT.SMARTPLUGSWITCH",
            "feature": "TIM:ENE",
            "rssi": -50,
            "led_off": 0,
            "oemId": "x",
            "hwId": "y",
            "dev_name": "Smart Wi-Fi Plug",
            "on_time": 12,
        }
        if not self.outlets:
            return found | {"relay_state": int(self.is_on)}
        children = [
            {"id": f"0{place}", "state": int(self.is_on), "alias": f"outlet {place}", "on_time": 1}
            for place in range(self.outlets)
        ]
        return found | {"children": children, "child_num": self.outlets}
