"""Readings of Android's services: heat, battery, screen, power saver and airplane mode.

Each reading runs the command `dumpsys`, which takes some ten milliseconds of CPU time, and more in
the service that it calls. Heat is therefore read every ten seconds, and the rest once a minute.
All values are also read at the start of the sampling, before the worker starts, and at the end,
after the worker has ended.

    android.thermal_status      0 none, 1 light, 2 moderate, 3 severe, 4 critical, 5 emergency,
                                6 shutdown; no reading while the status is overridden
    android.thermal_overridden  1 if the status is overridden, and therefore meaningless
    thermal.NAME.hal.temp_c     from the block of current temperatures; the cached block is stale.
                                NAME is the HAL's own name, which differs between makers. For the
                                types SKIN and BATTERY, the hottest zone is therefore also stored
                                with the type as NAME.
    android.battery_status      1 unknown, 2 charging, 3 discharging, 4 not charging, 5 full
    android.plugged             0 nothing, else the sum of 1 AC, 2 USB, 4 wireless, 8 dock
    android.battery_faked       1 while `dumpsys battery` is set to report fixed values; then the
                                battery's readings are invalid
    android.screen_on           1 awake, 0 asleep or dozing
    android.power_saver         1 on
    android.airplane_mode       1 on
    android.screen_brightness   0 to 255, as set; the actual light depends on the maker

Source: platform/frameworks/base, ThermalManagerService, BatteryService, PowerManagerService (the
methods that dump); `android.os.BatteryManager`, `android.os.Temperature`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path

from edgebench.agent.telemetry.source import Names, NoData
from edgebench.system.android_commands import run_command
from edgebench.system.android_settings import SETTINGS

HEAT_HZ, STATE_HZ = 0.1, 1 / 60
"""Rates at which the commands for heat, and the commands for the other state, are started."""
_HEAT = ("dumpsys", "thermalservice")
_TEMPERATURE = re.compile(
    r"Temperature\{mValue=([^,]+), mType=(-?\d+), mName=([^,}]+), mStatus=\d+\}"
)
_THRESHOLD = re.compile(
    r"TemperatureThreshold\{mType=(-?\d+), mName=([^,}]+), mHotThrottlingThresholds=\[([^\]]*)\]"
)
_NOT_READY = "HAL not ready"
_CURRENT = "Current temperatures from HAL:"
_NO_TEMPERATURES = {6, 7, 8}
"""Types of readings that are no temperatures, but voltage, current and percentage of the battery
(BCL)."""
_NAMED_TYPES = {2: "BATTERY", 3: "SKIN"}
_NOT_FITTED_C = -100.0
"""A reading at or below this temperature, or a reading of exactly 0, means that no sensor is
fitted."""
_MODERATE = 2
"""Index of the threshold from which the device slows down: ThrottlingSeverity.MODERATE."""
_ASLEEP = {"Asleep": 0.0, "Dozing": 0.0, "Awake": 1.0, "Dreaming": 1.0}
_PLUGS = (("AC", 1), ("USB", 2), ("Wireless", 4), ("Dock", 8))


def read_heat_c(root: Path, zone: str) -> float | None:
    """Temperature of a zone of the HAL, or of the type SKIN or BATTERY; None if not reported."""
    text = run_command(root, *_HEAT).text
    temp_c = dict(_temperatures(text)).get(f"{zone}.hal", math.nan)
    return None if math.isnan(temp_c) else temp_c


class AndroidHeatSource:
    """Status and temperatures of `dumpsys thermalservice`, available since Android 10."""

    name = "android_heat"
    rate_hz_max = HEAT_HZ

    def open(self, root: Path, worker_pid: int) -> AndroidHeat | NoData:
        """Read the service once, for the names of its temperatures."""
        output = run_command(root, *_HEAT)
        if output.failure:
            return NoData(output.failure)
        return AndroidHeat(root, output.text)


class AndroidHeat:
    """Reads the thermal service."""

    def __init__(self, root: Path, first: str) -> None:
        self._root = root
        self._zones = [name for name, _ in _temperatures(first)]
        self.constants = _thresholds(first)
        self.absent: dict[str, str] = {}
        if not self._zones:
            is_ready = _is_ready(first)
            self.absent["thermal.hal"] = "no current temperature" if is_ready else _NOT_READY
        if _is_overridden(first):
            self.absent["android.thermal_status"] = "overridden: cmd thermalservice reset"
        elif math.isnan(_status(first)):
            why = "not in dumpsys thermalservice" if _is_ready(first) else _NOT_READY
            self.absent["android.thermal_status"] = why
        zones = tuple(f"thermal.{name}.temp_c" for name in self._zones)
        self.sensors = ("android.thermal_status", "android.thermal_overridden", *zones)

    def read(self) -> Sequence[float]:
        """Thermal status; 1 if the status is overridden, else 0; temperature of each zone in °C."""
        output = run_command(self._root, *_HEAT)
        if output.failure:
            return [math.nan] * len(self.sensors)
        temps_c = dict(_temperatures(output.text))
        status = [_status(output.text), float(_is_overridden(output.text))]
        return [*status, *(temps_c.get(name, math.nan) for name in self._zones)]


def _status(text: str) -> float:
    found = re.search(r"^\s*Thermal Status: (\d)\s*$", text, re.MULTILINE)
    if found is None or not _is_ready(text) or _is_overridden(text):
        return math.nan
    return float(found[1])


def _is_ready(text: str) -> bool:
    """Whether the service reports that its hardware abstraction layer (HAL) is ready."""
    return "HAL Ready: true" in text


def _is_overridden(text: str) -> bool:
    return re.search(r"^\s*IsStatusOverride: true\s*$", text, re.MULTILINE) is not None


def _temperatures(text: str) -> list[tuple[str, float]]:
    """Names and temperatures of the current block; NaN for a sensor that is not fitted."""
    if not _is_ready(text) or _CURRENT not in text:
        return []
    # The block ends at the next line with other indentation.
    block = re.match(r"(?:\s*Temperature\{.*\}\s*\n?)*", text.split(_CURRENT, 1)[1].lstrip("\n"))
    names, temps_c = Names(), list[tuple[str, float]]()
    hottest: dict[str, float] = {}
    for value, kind, name in _TEMPERATURE.findall(block[0] if block else ""):
        if int(kind) in _NO_TEMPERATURES:
            continue
        temp_c = _celsius(value)
        temps_c.append((_zone(names, name), temp_c))
        if alias := _NAMED_TYPES.get(int(kind)):
            hottest[alias] = max((temp_c, hottest.get(alias, temp_c)), key=_or_lowest)
    own = {name for name, _ in temps_c}
    named = [(f"{alias}.hal", temp_c) for alias, temp_c in hottest.items()]
    return temps_c + [(name, temp_c) for name, temp_c in named if name not in own]


def _or_lowest(temp_c: float) -> float:
    return -math.inf if math.isnan(temp_c) else temp_c


def _zone(names: Names, name: str) -> str:
    """Name of a zone, such as `VIRTUAL-SKIN.hal`; a second zone of that name gets `.hal1`."""
    number = names.next(name).rpartition(".")[2]
    return f"{name}.hal{'' if number == '0' else number}"


def _celsius(text: str) -> float:
    try:
        temp_c = float(text)
    except ValueError:
        return math.nan
    return temp_c if temp_c != 0 and temp_c > _NOT_FITTED_C else math.nan


def _thresholds(text: str) -> dict[str, float]:
    """Maps each zone to the temperature from which the device slows down."""
    limits: dict[str, float] = {}
    for kind, name, listed in _THRESHOLD.findall(text):
        values = [_celsius(value.strip()) for value in listed.split(",")]
        if len(values) <= _MODERATE or math.isnan(values[_MODERATE]):
            continue
        limits.setdefault(f"thermal.{name}.hal.throttle_c", values[_MODERATE])
        if alias := _NAMED_TYPES.get(int(kind)):
            key = f"thermal.{alias}.hal.throttle_c"
            limits[key] = min(values[_MODERATE], limits.get(key, math.inf))
    return limits


class AndroidStateSource:
    """Battery, screen, power saver and airplane mode."""

    name = "android_state"
    rate_hz_max = STATE_HZ

    def open(self, root: Path, worker_pid: int) -> AndroidState:
        """Call each service once, to find the services that are denied."""
        return AndroidState(root)


class AndroidState:
    """Reads services; a denied service is absent, and is not called again."""

    sensors = (
        *("android.battery_status", "android.plugged", "android.battery_faked"),
        *("android.battery_temp_c", "android.battery_volts_v", "android.battery_ratio"),
        *("android.screen_on", "android.power_saver"),
        *("android.airplane_mode", "android.screen_brightness"),
    )

    def __init__(self, root: Path) -> None:
        self._root = root
        self.constants: dict[str, float] = {}
        self.absent: dict[str, str] = {}
        self._denied: set[str] = set()
        for (name, *words), sensor in (
            (_BATTERY, "android.battery"),
            (_POWER, "android.screen_on"),
            (_SAVER, "android.power_saver"),
            (_AIRPLANE_MODE, "android.airplane_mode"),
            (_BRIGHTNESS, "android.screen_brightness"),
        ):
            output = run_command(root, name, *words)
            if output.failure:
                self._denied.add(sensor)
                self.absent[sensor] = output.failure

    def read(self) -> Sequence[float]:
        """Values as in the table of this module; NaN if a service reports nothing."""
        battery = self._output("android.battery", _BATTERY)
        power = self._output("android.screen_on", _POWER)
        saver = self._output("android.power_saver", _SAVER)
        airplane_mode = self._output("android.airplane_mode", _AIRPLANE_MODE)
        brightness = self._output("android.screen_brightness", _BRIGHTNESS).strip()
        return [
            *_battery(battery),
            _screen(power),
            _switch(saver),
            _switch(airplane_mode),
            float(brightness) if re.fullmatch(r"\d{1,5}", brightness) else math.nan,
        ]

    def _output(self, sensor: str, words: tuple[str, ...]) -> str:
        return "" if sensor in self._denied else run_command(self._root, *words).text


_BATTERY, _POWER = ("dumpsys", "battery"), ("dumpsys", "power")
_SAVER = ("settings", "get", "global", "low_power")
_AIRPLANE_MODE = SETTINGS["airplane_mode"].get
_BRIGHTNESS = SETTINGS["brightness"].get


def _battery(text: str) -> list[float]:
    """Values of the battery; NaN if a value is not reported.

    In order: status; plugs; 1 if the values are faked, else 0; temperature in °C; voltage in V;
    charge as a ratio.
    """
    if not text:
        return [math.nan] * 6
    is_faked = "UPDATES STOPPED" in text
    values = dict(re.findall(r"^\s*([\w ]+): (\S+)\s*$", text, re.MULTILINE))
    if is_faked:
        return [math.nan, math.nan, 1.0, math.nan, math.nan, math.nan]
    known = [bit for name, bit in _PLUGS if values.get(f"{name} powered") == "true"]
    is_reported = any(f"{name} powered" in values for name, _ in _PLUGS)
    level, scale = _number(values, "level"), _number(values, "scale")
    return [
        _number(values, "status"),
        float(sum(known)) if is_reported else math.nan,
        0.0,
        _number(values, "temperature") / 10,
        _number(values, "voltage") / 1000,
        level / scale if scale > 0 else math.nan,
    ]


def _number(values: dict[str, str], name: str) -> float:
    text = values.get(name, "")
    return float(text) if re.fullmatch(r"-?\d{1,9}", text) else math.nan


def _screen(text: str) -> float:
    found = re.search(r"^\s*mWakefulness=(\w+)\s*$", text, re.MULTILINE)
    return _ASLEEP.get(found[1], math.nan) if found else math.nan


def _switch(text: str) -> float:
    """0 or 1; the text `null`, which means that the setting was never changed, is 0."""
    return {"1": 1.0, "0": 0.0, "null": 0.0}.get(text.strip(), math.nan)
