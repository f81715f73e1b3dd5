"""A phone with Android as the device of an agent, described by its system properties.

On a phone, the agent is a process of adb's shell or of an app. The agent reads files under /proc
and /sys as on any Linux system; it reads the names of the device from system properties. Commands
report the state of battery, screen and heat; this state is part of the telemetry
(`telemetry/sources/android.py`).

Source: https://source.android.com/docs/core/architecture/configuration/add-system-properties;
platform/frameworks/base, `android.os.Build`.
"""

from __future__ import annotations

import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from edgebench.agent.cooldown import Thermometer
from edgebench.agent.surroundings import LinuxSurroundings
from edgebench.agent.system import describe_device, device_identity
from edgebench.device_profiles.match import DeviceIdentity, match_profile
from edgebench.device_profiles.schema import Profile
from edgebench.meters.charging import mark_path
from edgebench.protocol.device import AndroidSystem, DeviceDescription, Environment
from edgebench.protocol.errors import SettingRefused, TargetError
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.text import one_line
from edgebench.system.android_commands import run_command
from edgebench.system.android_settings import ChangedSettings, recover

SHELL_UID = 2000
"""User id of adb's shell. Source: platform/system/core, android_filesystem_config.h, AID_SHELL."""
FRESH_S, KEPT_S = 10.0, 60.0
"""Age above which a temperature is read again, and age above which it is no longer reported.
Without the first limit, the agent would start a command every second while a client watches the
phone."""
LATEST_WAIT_S = 0.5
"""Maximum time for which a reply waits for a new temperature; `dumpsys` takes some tens of
milliseconds."""
SETTINGS_MARK = "phone-settings"
"""File in the state directory with the settings that a run has changed."""
_PROPERTY = re.compile(r"^\[([^\]\n]+)\]: \[(.*?)\]$", re.MULTILINE | re.DOTALL)
_NAME = re.compile(r"[^a-z0-9]+")


def parse_properties(text: str) -> dict[str, str]:
    r"""Parse the output of getprop(1); a value may have several lines.

    >>> parse_properties("[ro.product.model]: [Pixel 8]\n[a]: [1\n2]\n")
    {'ro.product.model': 'Pixel 8', 'a': '1\n2'}
    """
    return dict(_PROPERTY.findall(text))


def read_properties(root: Path = Path("/")) -> dict[str, str]:
    """All properties that this process may read; empty if getprop fails."""
    return parse_properties(run_command(root, "getprop").text)


@dataclass(frozen=True, slots=True)
class AndroidProperties:
    """The system properties of an Android device."""

    values: Mapping[str, str]

    def _first(self, *names: str) -> str | None:
        return next((one_line(text) for name in names if (text := self.values.get(name))), None)

    @property
    def device(self) -> str | None:
        """Name of the hardware, in the form that profiles use."""
        return self._first("ro.product.device", "ro.product.vendor.device")

    @property
    def model(self) -> str | None:
        """Marketing name of the device; None if it has no such property."""
        return self._first("ro.product.model", "ro.product.vendor.model")

    @property
    def soc(self) -> str | None:
        """Maker and name of the system on a chip; before API 31, the name from older properties."""
        name = self._first("ro.soc.model")
        if name is None:
            return self._first("ro.board.platform", "ro.hardware")
        maker = self._first("ro.soc.manufacturer")
        return f"{maker} {name}" if maker else name

    @property
    def serial(self) -> str:
        """Serial number; empty if this process may not read it."""
        return self._first("ro.serialno", "ro.boot.serialno") or ""

    @property
    def os(self) -> str:
        """Name of the operating system: Android 16 (API 36)."""
        release, api_level = self._first("ro.build.version.release"), self.api_level
        name = f"Android {release}" if release else "Android"
        return name if api_level is None else f"{name} (API {api_level})"

    @property
    def api_level(self) -> int | None:
        """API level of the system."""
        text = self._first("ro.build.version.sdk") or ""
        return int(text) if re.fullmatch(r"[0-9]{1,4}", text) else None

    @property
    def is_emulator(self) -> bool:
        """Whether the device is the emulator of Android's tools."""
        return "1" in (self.values.get("ro.kernel.qemu"), self.values.get("ro.boot.qemu"))

    def system(self) -> AndroidSystem:
        """The facts about the system that are recorded in a run's environment."""
        fingerprint = self._first("ro.build.fingerprint")
        return AndroidSystem(
            device=self.device,
            model=self.model,
            release=self._first("ro.build.version.release"),
            api_level=self.api_level,
            security_patch=self._first("ro.build.version.security_patch"),
            fingerprint_sha256=(
                None if fingerprint is None else hashlib.sha256(fingerprint.encode()).hexdigest()
            ),
            is_shell=os.geteuid() == SHELL_UID,
        )


def name_of(model: str) -> str:
    """Derive a device name that is easy to type from the name of a model.

    >>> name_of("Pixel 8 Pro"), name_of("SM-S911B")
    ('pixel-8-pro', 'sm-s911b')
    """
    return _NAME.sub("-", model.lower()).strip("-")


class Latest:
    """The latest reading of a slow thermometer, which is read in a thread because it may hang."""

    def __init__(
        self, thermometer: Thermometer, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._thermometer, self._clock = thermometer, clock
        self._thread: threading.Thread | None = None
        self._read()

    def temp_c(self) -> float | None:
        """A reading that is at most `KEPT_S` old; None if there is none."""
        if self._age_s() > FRESH_S and not (self._thread and self._thread.is_alive()):
            self._thread = threading.Thread(target=self._read, daemon=True)
            self._thread.start()
        if self._age_s() > KEPT_S and self._thread:
            self._thread.join(LATEST_WAIT_S)
        return self._temp_c if self._age_s() <= KEPT_S else None

    def _age_s(self) -> float:
        return self._clock() - self._read_at_s

    def _read(self) -> None:
        self._temp_c, self._read_at_s = self._thermometer(), self._clock()


class AndroidSurroundings(LinuxSurroundings):
    """A Linux system that is Android; its properties are read once, because they do not change."""

    def __init__(
        self,
        properties: AndroidProperties,
        profile: Profile,
        device_id: str,
        *,
        state: Path,
        root: Path = Path("/"),
    ) -> None:
        super().__init__(profile, device_id, state=state, root=root)
        settings = state / SETTINGS_MARK
        for mark in (mark_path(), settings):
            recover(mark, root)  # an earlier agent may have been killed in a run
        self._settings = ChangedSettings(settings, root)
        self._properties = properties
        self._latest = Latest(self._thermometer) if self._thermometer else None

    def temp_c(self) -> float | None:
        """Temperature of the cool-down gate's zone, at most `KEPT_S` old; None if unknown."""
        return self._latest.temp_c() if self._latest else None

    def change_settings(self, spec: RunSpec) -> None:
        """Set the governor, airplane mode and brightness of the run."""
        wanted: dict[str, str] = {}
        if spec.is_airplane_mode:
            wanted["airplane_mode"] = "1"
        if spec.screen_brightness is not None:
            wanted |= {"brightness_mode": "0", "brightness": str(spec.screen_brightness)}
        super().change_settings(replace(spec, is_airplane_mode=False, screen_brightness=None))
        try:
            self._settings.change(wanted)
        except TargetError as exc:
            raise SettingRefused(str(exc)) from exc

    def restore_settings(self) -> None:
        """Restore the settings and the governor."""
        self._settings.restore()
        super().restore_settings()

    def environment(self) -> Environment:
        """The current conditions, from files and system properties."""
        environment = super().environment()
        layers = ["Android Emulator"] if self._properties.is_emulator else []
        layers += filter(None, [environment.virtualization])
        return replace(
            environment,
            os=self._properties.os,
            android=self._properties.system(),
            virtualization=" on ".join(layers) or None,
        )


def identify(properties: AndroidProperties, root: Path = Path("/")) -> DeviceIdentity:
    """Names of the device, from which its profile is chosen."""
    return replace(device_identity(root), system="android", adb_device=properties.device or "")


def describe_phone(
    properties: AndroidProperties, state: Path, name: str | None, root: Path = Path("/")
) -> DeviceDescription:
    """Describe this phone; without a readable serial number, a random id is stored in `state`."""
    named = name or name_of(properties.model or "") or None
    plain = describe_device(state, named, root, serial=properties.serial)
    return replace(
        plain,
        profile=match_profile(identify(properties, root)).id,
        soc=properties.soc or plain.soc,
        os=properties.os,
    )
