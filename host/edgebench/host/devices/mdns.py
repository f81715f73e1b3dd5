"""Agents that announce themselves on the local network."""

from __future__ import annotations

import time
from dataclasses import dataclass

from zeroconf import IPVersion, ServiceBrowser, ServiceInfo, ServiceListener, Zeroconf

SERVICE_TYPE = "_edgebench._tcp.local."
SETTLE_S = 0.3
"""After this long without a new answer, everybody who is going to answer has."""
LEAST_S = 0.8
RESOLVE_TIMEOUT_MS = 1000


@dataclass(frozen=True, slots=True)
class Advertised:
    """What an agent announces; nothing of it is proven before a connection is made."""

    name: str
    id: str
    pin: str
    arch: str
    software: str
    addresses: tuple[str, ...]
    port: int


def discover(timeout_s: float) -> list[Advertised]:
    """Listen for announcements; ends early when no new ones come.

    Answers are taken from the cache after they have all arrived: asking for each one from the
    browser's callback loses a fifth of them when hundreds answer at once.
    """
    try:
        zeroconf = Zeroconf(ip_version=IPVersion.All if _has_ipv6() else IPVersion.V4Only)
    except (OSError, RuntimeError):  # no network at all: nobody can be heard
        return []
    try:
        names = _Names()
        ServiceBrowser(zeroconf, SERVICE_TYPE, names)
        _wait(names, timeout_s)
        found = [_resolve(zeroconf, name) for name in sorted(names.found)]
    finally:
        zeroconf.close()
    return [advertised for advertised in found if advertised is not None]


class _Names(ServiceListener):
    def __init__(self) -> None:
        self.found: set[str] = set()
        self.changed_s = time.monotonic()

    def add_service(self, zc: Zeroconf, type_: str, name: str) -> None:
        self.found.add(name)
        self.changed_s = time.monotonic()

    def remove_service(self, zc: Zeroconf, type_: str, name: str) -> None:
        self.found.discard(name)

    def update_service(self, zc: Zeroconf, type_: str, name: str) -> None:
        self.changed_s = time.monotonic()


def _wait(names: _Names, timeout_s: float) -> None:
    begin_s = time.monotonic()
    while time.monotonic() - begin_s < timeout_s:
        time.sleep(0.05)
        now_s = time.monotonic()
        is_settled = names.found and now_s - names.changed_s > SETTLE_S
        if is_settled and now_s - begin_s > min(LEAST_S, timeout_s):
            return


def _resolve(zeroconf: Zeroconf, name: str) -> Advertised | None:
    info = ServiceInfo(SERVICE_TYPE, name)
    is_known = info.load_from_cache(zeroconf) or info.request(zeroconf, RESOLVE_TIMEOUT_MS)
    if not is_known or info.port is None:
        return None
    text = {
        key.decode("ascii", "replace"): _decode(value) for key, value in info.properties.items()
    }
    return Advertised(
        name=text.get("name", name),
        id=text.get("id", ""),
        pin=text.get("pin", ""),
        arch=text.get("arch", ""),
        software=text.get("software", ""),
        addresses=tuple(info.parsed_addresses()),
        port=info.port,
    )


def _decode(value: bytes | None) -> str:
    text = (value or b"").decode("utf-8", "replace")[:200]
    return "".join(char if char.isprintable() else "?" for char in text)


def _has_ipv6() -> bool:
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as file:
            return any(not line.rstrip().endswith("lo") for line in file)
    except OSError:
        return False
