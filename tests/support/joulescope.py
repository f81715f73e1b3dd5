"""The vendor's driver object, made up, with a Joulescope behind it; faults are asked for.

Blocks are published when the test says so. The vendor's own recorder is driven with it in the
tests, which says whether its blocks are ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Waveform = Callable[[Floats], Floats]
TICK_HZ = 2_000_000
UTC_SECOND = 1 << 30
"""Times are 34Q30 since 2018."""
FIRST_TICK = 123_456_000
OnBlock = Callable[[str, Any], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Faults:
    """What goes wrong; places count samples at the rate asked for."""

    lost_blocks: tuple[int, ...] = ()
    """Indexes of the blocks that every signal loses."""
    lost_of: tuple[tuple[str, int], ...] = ()
    """Topic and number of blocks that only this signal loses."""
    no_value_at: tuple[int, ...] = ()
    beyond_at: tuple[int, ...] = ()
    """Current of 12 A."""
    refused: str = ""
    """End of topics that cannot be published to."""
    is_mute: bool = False
    """It times out when it is opened."""


@dataclass(slots=True)
class FakeDriver:
    """What `pyjoulescope_driver.Driver()` gives."""

    current: Waveform = lambda time_s: np.full(len(time_s), 0.1)
    voltage: Waveform = lambda time_s: np.full(len(time_s), 3.3)
    inputs: Callable[[Floats], NDArray[np.uint8]] = lambda time_s: np.zeros(len(time_s), np.uint8)
    """A bit for each digital input."""
    faults: Faults = field(default_factory=Faults)
    paths: list[str] = field(default_factory=lambda: ["u/js220/002557"])
    block_samples: int = 800
    input_step: int = 2
    """Ticks between two samples of a digital input."""
    published: dict[str, Any] = field(default_factory=dict[str, Any])
    history: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    """All that was published, in order, by the topic without its device."""
    opened: list[tuple[str, Any]] = field(default_factory=list[tuple[str, Any]])
    closed: list[str] = field(default_factory=list[str])
    is_final: bool = False
    subscribed: dict[str, list[OnBlock]] = field(default_factory=dict[str, list[OnBlock]])
    range_number: int | str = 4
    """Range of the current, automatic, of a JS110 180 mA; 0: off, the device has no supply."""
    range_choice: int | str = 0
    """Range of the current that is chosen by hand, not of a JS110; 0 is off."""
    voltage_range: int | str = 0
    """The widest; 1 is less of a JS110, 5 V, and of the others one that is chosen, 2 V."""
    block_count: int = 0
    """Published or lost."""

    def device_paths(self) -> list[str]:
        """What is connected."""
        return list(self.paths)

    def open(self, device_prefix: str, mode: Any = None, timeout: float | None = None) -> None:
        """Take a device."""
        if self.faults.is_mute:
            raise TimeoutError(f"jsdrv_open timed out | {device_prefix}")
        self.opened.append((device_prefix, mode))

    def close(self, device_prefix: str, timeout: float | None = None) -> None:
        """Give it back."""
        if device_prefix not in self.paths:
            raise TimeoutError(f"jsdrv_close timed out | {device_prefix}")
        self.closed.append(device_prefix)

    def publish(self, topic: str, value: Any, timeout: float | None = None) -> None:
        """Set something."""
        if self.faults.refused and topic.endswith(self.faults.refused):
            raise RuntimeError(f"jsdrv_publish failed 5 PARAMETER_INVALID | {topic}")
        self.published[topic] = value
        self.history.append((topic.split("/", 3)[3], value))

    def query(self, topic: str, timeout: float | None = None) -> Any:
        """Ask for something."""
        if topic.endswith("c/fw/version"):
            return 1 << 24 | 2 << 16 | 3
        if topic.endswith("s/i/range/mode") or ("/js110/" in topic and "s/i/range" in topic):
            return self.published.get(topic, self.range_number)
        if "/s/v/range/" in topic:
            return self.published.get(topic, self.voltage_range)
        if topic.endswith("s/i/range/select"):
            return self.published.get(topic, self.range_choice)
        raise TimeoutError(f"jsdrv_query timed out | {topic}")

    def subscribe(self, topic: str, flags: Any, fn: OnBlock, timeout: float | None = None) -> None:
        """Call `fn` with whatever is published."""
        self.subscribed.setdefault(topic, []).append(fn)

    def unsubscribe(self, topic: str, fn: OnBlock, timeout: float | None = None) -> None:
        """No more."""
        self.subscribed[topic] = [one for one in self.subscribed[topic] if one is not fn]

    def finalize(self, timeout: float | None = None) -> None:
        """Let go of USB."""
        self.is_final = True

    def unplug(self) -> None:
        """The cable is pulled out."""
        path = self.paths.pop(0)
        self._tell("@/!remove", path)

    def push(self, count: int) -> None:
        """Publish the next blocks of each signal that is on."""
        for _ in range(count):
            number, self.block_count = self.block_count, self.block_count + 1
            if number not in self.faults.lost_blocks:
                for topic, block in self.blocks(number):
                    if (topic, number) not in self.faults.lost_of:
                        self._tell(f"{self.paths[0]}/{topic}", block)

    def blocks(self, number: int) -> list[tuple[str, dict[str, Any]]]:
        """What a block's time has, in the order in which it comes."""
        rate_hz = self.published.get(f"{self.paths[0]}/h/fs", TICK_HZ)
        step = TICK_HZ // rate_hz
        first = FIRST_TICK + number * self.block_samples * step
        index = number * self.block_samples + np.arange(self.block_samples)
        time_s = index / rate_hz
        limit_v = 15.0 if self._is_wide else 2.0
        current_a, voltage_v = self.current(time_s).copy(), self.voltage(time_s).clip(max=limit_v)
        current_a[np.isin(index, self.faults.beyond_at)] = 12.0
        power_w = current_a * voltage_v
        power_w[np.isin(index, self.faults.no_value_at)] = np.nan
        ticks = np.arange(0, self.block_samples * step, self.input_step)
        bits = self.inputs((first - FIRST_TICK + ticks) / TICK_HZ)
        found = [
            (f"s/{letter}/!data", _block(first, step, values.astype(np.float32)))
            for letter, values in (("i", current_a), ("v", voltage_v), ("p", power_w))
        ]
        found += [
            (
                f"s/gpi/{place}/!data",
                _block(first, self.input_step, np.packbits(bits >> place & 1, bitorder="little")),
            )
            for place in range(4)
        ]
        is_on = {topic for topic, value in self.published.items() if value == 1}
        return [
            (topic, block)
            for topic, block in found
            if f"{self.paths[0]}/{topic.replace('!data', 'ctrl')}" in is_on
        ]

    @property
    def _is_wide(self) -> bool:
        chosen = [value for topic, value in self.published.items() if "/s/v/range/" in topic]
        return (chosen[-1] if chosen else self.voltage_range) in (0, "auto", "15 V")

    def _tell(self, topic: str, value: Any) -> None:
        for fn in self.subscribed.get(topic, []):
            fn(topic, value)


def _block(first: int, step: int, data: NDArray[Any]) -> dict[str, Any]:
    return {
        "sample_id": first,
        "utc": round(first / TICK_HZ * UTC_SECOND),
        "field_id": 1,
        "index": 0,
        "sample_rate": TICK_HZ,
        "decimate_factor": step,
        "time_map": {"offset_time": 0, "offset_counter": 0, "counter_rate": float(TICK_HZ)},
        "data": data,
    }
