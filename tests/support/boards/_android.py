"""Commands of a made-up phone: the output of each is in sim/, where a test changes it."""

from __future__ import annotations

from collections.abc import Mapping

from support.boards._parts import Part

_SCRIPT = """\
#!/bin/sh
sim="$(dirname "$0")/../../sim"
name="$(basename "$0")"
for word in "$@"; do name="$name-$word"; done
if [ -f "$sim/$name" ]; then exec cat "$sim/$name"; fi
if [ "${name%%-*}" = getprop ]; then echo; exit; fi
if [ "${name%%-get-*}" = settings ]; then echo null; exit; fi
if [ "$1" = put ]; then echo "$4" > "$sim/settings-get-$2-$3"; exit; fi
echo "Can't find service: $1"
"""
_CMD = """\
#!/bin/sh
sim="$(dirname "$0")/../../sim"
mode="$sim/settings-get-global-airplane_mode_on"
grep -Eq 'version.sdk\\]: \\[[3-9][0-9]\\]' "$sim/getprop" || set -- connectivity
case "$*" in
"connectivity airplane-mode enable") echo 1 > "$mode" ;;
"connectivity airplane-mode disable") echo 0 > "$mode" ;;
*) echo "Unknown command: airplane-mode"; exit 255 ;;
esac
"""
_SETPROP = """\
#!/bin/sh
sim="$(dirname "$0")/../../sim"
echo "$2" > "$sim/getprop-$1"
if [ -f "$sim/on-setprop" ]; then . "$sim/on-setprop"; fi
"""
COMMANDS: Mapping[str, str] = {
    **{f"system/bin/{name}": _SCRIPT for name in ("getprop", "dumpsys", "settings")},
    "system/bin/setprop": _SETPROP,
    "system/bin/cmd": _CMD,
    "system/bin/sh": '#!/bin/sh\nexec /bin/sh "$@"\n',
}
"""A phone before Android 11 has no airplane mode in `cmd`. `setprop` runs sim/on-setprop, if a test
has put it there, with the property and its value."""


def properties(values: Mapping[str, str]) -> Part:
    """The output of getprop, with irrelevant properties added."""
    every = {"persist.sys.timezone": "Europe/Berlin", **values, "sys.boot_completed": "1"}
    return {
        "system/build.prop": "# begin common build properties\n",
        "sim/getprop": "".join(f"[{name}]: [{value}]\n" for name, value in every.items()),
    }


def battery(
    status: int,
    *,
    plugged: str = "",
    level: int = 81,
    temp: int = 291,
    millivolts: int = 4231,
    is_faked: bool = False,
    has_dock: bool = False,
) -> Part:
    """The output of `dumpsys battery`; `plugged` is AC, USB or Wireless."""
    lines = ["Current Battery Service state:"]
    lines += ["  (UPDATES STOPPED -- use 'reset' to restart)"] if is_faked else []
    plugs = ("AC", "USB", "Wireless", *(["Dock"] if has_dock else []))
    lines += [f"  {plug} powered: {str(plug == plugged).lower()}" for plug in plugs]
    lines += [
        *("  Max charging current: 500000", "  Max charging voltage: 5000000"),
        *("  Charge counter: 3412000", f"  status: {status}", "  health: 2", "  present: true"),
        *(f"  level: {level}", "  scale: 100", f"  voltage: {millivolts}"),
        *(f"  temperature: {temp}", "  technology: Li-ion"),
    ]
    return {"sim/dumpsys-battery": "\n".join(lines) + "\n"}


def power(wakefulness: str, *, saver: str = "0") -> Part:
    """The output of `dumpsys power` and `settings get global low_power`."""
    return {
        "sim/dumpsys-power": "POWER MANAGER (dumpsys power)\n\nPower Manager State:\n"
        f"  mDirty=0x0\n  mWakefulness={wakefulness}\n  mWakefulnessChanging=false\n"
        "  mIsPowered=true\n  mPlugType=2\n",
        "sim/settings-get-global-low_power": f"{saver}\n",
    }


def display(brightness: int, *, mode: int = 1, airplane: str = "null") -> Part:
    """Settings of the screen, by default adaptive, and airplane mode, by default never set."""
    return {
        "sim/settings-get-system-screen_brightness": f"{brightness}\n",
        "sim/settings-get-system-screen_brightness_mode": f"{mode}\n",
        "sim/settings-get-global-airplane_mode_on": f"{airplane}\n",
    }


def temperature(name: str, kind: int, value: str, status: int = 0) -> str:
    """One line of the thermal service."""
    return f"\tTemperature{{mValue={value}, mType={kind}, mName={name}, mStatus={status}}}\n"


def threshold(name: str, kind: int, *hot: str) -> str:
    """Limits of one temperature by severity: none, light, moderate, severe and so on."""
    cold = ", ".join(["NaN"] * 7)
    return (
        f"\tTemperatureThreshold{{mType={kind}, mName={name}, mHotThrottlingThresholds="
        f"[{', '.join(hot)}], mColdThrottlingThresholds=[{cold}]}}\n"
    )


def thermal(
    status: int,
    current: str,
    *,
    cached: str = "",
    thresholds: str = "",
    is_overridden: bool = False,
    is_ready: bool = True,
    is_cached_last: bool = False,
) -> Part:
    """The output of `dumpsys thermalservice`; releases differ in the order of its blocks."""
    stale = f"Cached temperatures:\n{cached}"
    blocks = [
        f"IsStatusOverride: {str(is_overridden).lower()}\n",
        "ThermalEventListeners:\n\tcallbacks: 2\n\tkilled: false\n",
        f"Thermal Status: {status}\n",
        *([] if is_cached_last else [stale]),
        f"HAL Ready: {str(is_ready).lower()}\n",
        *([f"Current temperatures from HAL:\n{current}"] if is_ready else []),
        *([stale] if is_cached_last else []),
        "Current cooling devices from HAL:\n"
        "\tCoolingDevice{mValue=0, mType=5, mName=tpu_cooling}\n",
        *([f"Temperature static thresholds from HAL:\n{thresholds}"] if thresholds else []),
    ]
    return {"sim/dumpsys-thermalservice": "".join(blocks)}
