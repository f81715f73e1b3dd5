"""Data of a Raspberry Pi's firmware: vcgencmd, its counterpart in /sys, and the hwmon chip."""

from __future__ import annotations

from collections.abc import Mapping

from support.boards._parts import Part, folder

RAILS = (
    ("3V7_WL_SW", 0, 0.07709848, 8, 3.70422100),
    ("3V3_SYS", 1, 0.08880138, 9, 3.31027500),
    ("1V8_SYS", 2, 0.17468180, 10, 1.79853500),
    ("DDR_VDD2", 3, 0.03025594, 11, 1.10842900),
    ("DDR_VDDQ", 4, 0.00097605, 12, 0.60659320),
    ("1V1_SYS", 5, 0.18444220, 13, 1.10622900),
    ("0V8_SW", 6, 0.35234640, 14, 0.80292040),
    ("VDD_CORE", 7, 0.94657990, 15, 0.72097620),
    ("0V8_AON", 16, 0.00537236, 19, 0.79706330),
    ("3V3_DAC", 17, 0.00012211, 20, 3.30733200),
    ("3V3_ADC", 18, 0.00030528, 21, 3.30916400),
    ("HDMI", 22, 0.02515236, 23, 5.11478000),
)
"""Rail, channel and amperes, channel and volts, of the Raspberry Pi 5's power chip."""

_SCRIPT = """\
#!/bin/sh
# Values lie in sim/ at the root of the tree, where a test changes them.
sim="$(dirname "$0")/../../sim"
before= after=
case "$*" in
get_throttled) file=get_throttled before=throttled= ;;
measure_temp) file=measure_temp before=temp= after="'C" ;;
"measure_clock arm") file=measure_clock_arm before="frequency(@index@)=" ;;
"measure_volts core") file=measure_volts_core before=volt= after=V ;;
pmic_read_adc) file=pmic_read_adc ;;
*) file=. ;;
esac
if [ ! -d "$sim" ]; then
    echo "Can't open device file: /dev/vcio" >&2
    exit 255
fi
if [ ! -f "$sim/$file" ]; then
    echo 'error=1 error_msg="Command not registered"'
    exit 255
fi
printf '%s%s%s\\n' "$before" "$(cat "$sim/$file")" "$after"
"""


def vcgencmd(clock_index: int) -> Mapping[str, str]:
    """The command; the index in its clock's name differs between boards."""
    return {"usr/bin/vcgencmd": _SCRIPT.replace("@index@", str(clock_index))}


def firmware(
    *, throttled: int, throttled_sysfs: int | None, temp_c: float, arm_hz: int, core_v: float
) -> Part:
    """The values of vcgencmd, and the bare hex in /sys, which is as old as the last query.

    A Raspberry Pi 5 has no `soc:firmware`, so no such file: None.
    """
    twin = "sys/devices/platform/soc/soc:firmware/get_throttled"
    return {
        **folder(
            "sim",
            {
                "get_throttled": hex(throttled),
                "measure_temp": temp_c,
                "measure_clock_arm": arm_hz,
                "measure_volts_core": f"{core_v:.4f}",
            },
        ),
        **({} if throttled_sysfs is None else {twin: f"{throttled_sysfs:x}\n"}),
    }


def pmic() -> Part:
    """Lines of `pmic_read_adc`: currents first, then voltages, and two without a current."""
    lines = {24: ("EXT5V_V", "volt(24)=5.11478000V"), 25: ("BATT_V", "volt(25)=0.00488280V")}
    for rail, current, amperes, volt, volts in RAILS:
        lines[current] = (f"{rail}_A", f"current({current})={amperes:.8f}A")
        lines[volt] = (f"{rail}_V", f"volt({volt})={volts:.8f}V")
    text = "".join(f"{name:>14} {value}\n" for _, (name, value) in sorted(lines.items()))
    return {"sim/pmic_read_adc": text}
