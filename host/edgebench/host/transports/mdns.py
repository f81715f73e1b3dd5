"""Discovery by mDNS of agents that announce themselves on the local network."""

from __future__ import annotations

import time

from zeroconf import IPVersion, ServiceBrowser, ServiceInfo, ServiceListener, Zeroconf

from edgebench.host.transports.base import Announcement, Endpoint
from edgebench.protocol.text import printable

SERVICE_TYPE = "_edgebench._tcp.local."
SETTLE_S = 0.3
"""If no new announcement arrives for this time, no further announcements are expected."""
LEAST_S = 0.8
RESOLVE_TIMEOUT_MS = 1000


def listen(timeout_s: float) -> list[Announcement]:
    """Collect announcements for at most `timeout_s` seconds; end early when no more arrive.

    The records are read from zeroconf's cache after all announcements have arrived. If hundreds of
    devices respond at once, resolving each service in the callback of the `ServiceBrowser` would
    lose a fifth of the services.
    """
    try:
        zeroconf = Zeroconf(ip_version=IPVersion.All if _has_ipv6() else IPVersion.V4Only)
    except (OSError, RuntimeError):  # no network at all, so no agent can be found
        return []
    try:
        names = _Names()
        ServiceBrowser(zeroconf, SERVICE_TYPE, names)
        begin_s = now_s = time.monotonic()
        while now_s - begin_s < timeout_s:
            time.sleep(0.05)
            now_s = time.monotonic()
            is_settled = names.current and now_s - names.changed_s > SETTLE_S
            if is_settled and now_s - begin_s > min(LEAST_S, timeout_s):
                break
        resolved = [_resolve(zeroconf, name) for name in sorted(names.current)]
    finally:
        zeroconf.close()
    return [announcement for announcement in resolved if announcement is not None]


class _Names(ServiceListener):
    def __init__(self) -> None:
        self.current: set[str] = set()
        self.changed_s = time.monotonic()

    def add_service(self, zc: Zeroconf, type_: str, name: str) -> None:
        self.current.add(name)
        self.changed_s = time.monotonic()

    def remove_service(self, zc: Zeroconf, type_: str, name: str) -> None:
        self.current.discard(name)

    def update_service(self, zc: Zeroconf, type_: str, name: str) -> None:
        self.changed_s = time.monotonic()


def _resolve(zeroconf: Zeroconf, name: str) -> Announcement | None:
    info = ServiceInfo(SERVICE_TYPE, name)
    is_known = info.load_from_cache(zeroconf) or info.request(zeroconf, RESOLVE_TIMEOUT_MS)
    if not is_known or info.port is None:
        return None
    text = {
        key.decode("ascii", "replace"): printable((value or b"").decode("utf-8", "replace")[:200])
        for key, value in info.properties.items()
    }
    addresses = tuple(info.parsed_addresses())
    shown = text.get("name", printable(name[:200]))
    endpoint = Endpoint(shown, text.get("pin", ""), addresses, info.port)
    return Announcement(text.get("id", ""), endpoint, next_step="run `edgebench-agent pair` on it")


def _has_ipv6() -> bool:
    try:
        with open("/proc/net/if_inet6", encoding="ascii") as file:
            return any(not line.rstrip().endswith("lo") for line in file)
    except OSError:
        return False
