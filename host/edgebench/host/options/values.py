"""Parse the values that users type: durations, sizes, temperatures, rates and others."""

from __future__ import annotations

import argparse
import os
import re

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

_NUMBER = r"\d{1,18}(?:\.\d{1,18})?"
_SECONDS = {"h": 3600.0, "min": 60.0, "m": 60.0, "sec": 1.0, "s": 1.0, "ms": 1e-3}
_LENGTH = rf"({_NUMBER})\s*(ms|min|m|sec|s|h)\s*"
_MINUTES = {"m": 1, "min": 1, "h": 60, "d": 24 * 60, "w": 7 * 24 * 60}
_BYTES = {"": 1, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}


def name_list(names: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> list[str]:
    """The names as a list of strings; the argument may also be a single name.

    >>> name_list("all"), name_list(("pi4", "pi5"))
    (['all'], ['pi4', 'pi5'])
    """
    return [str(name) for name in ([names] if isinstance(names, (str, os.PathLike)) else names)]


def seconds(text: str) -> float:
    """A duration: 500ms, 60s, 2min, 20m, 1m30s, 1.5h, or plain seconds.

    >>> seconds("20m"), seconds("500ms"), seconds("3"), seconds("1m30s"), seconds("1h 2min")
    (1200.0, 0.5, 3.0, 90.0, 3720.0)
    """
    words = text.strip()
    if re.fullmatch(_NUMBER, words, re.ASCII):
        return float(words)
    parts = re.findall(_LENGTH, words, re.ASCII)
    units = [_SECONDS[unit] for _, unit in parts]
    is_descending = units == sorted(set(units), reverse=True)  # 30s1m is a typing mistake
    if not parts or not re.fullmatch(f"(?:{_LENGTH})+", words, re.ASCII) or not is_descending:
        raise argparse.ArgumentTypeError(f"not a duration: {text!r}; write 500ms, 60s or 1m30s")
    return sum(float(number) * unit for (number, _), unit in zip(parts, units, strict=True))


def moment(text: str) -> datetime:
    """A point in time: an age (12h, 2d, 3w), or a local date (2026-11-22, or with a time).

    >>> moment("2026-11-22T10:00").isoformat()[:16]
    '2026-11-22T10:00'
    """
    from datetime import datetime, timedelta  # only here: slow to import

    if match := re.fullmatch(r"(\d{1,5})\s*(min|[mhdw])", text.strip(), re.ASCII):
        ago = timedelta(minutes=int(match[1]) * _MINUTES[match[2]])
        return datetime.now().astimezone() - ago
    try:
        return datetime.fromisoformat(text.strip()).astimezone()
    except (ValueError, OverflowError, OSError):
        message = f"not a time: {text!r}; write 2d, 12h or 2026-11-22"
        raise argparse.ArgumentTypeError(message) from None


def latency(text: str) -> float:
    """A duration with its unit; the unit is required, because 40 alone could mean milliseconds.

    >>> latency("40ms")
    0.04
    """
    if text.strip()[-1:].isdigit():
        raise argparse.ArgumentTypeError(f"a latency needs its unit: {text!r}; write {text}ms")
    return seconds(text)


def whole(text: str) -> int:
    """Parse an integer of any size; the command checks the range.

    >>> whole("4"), whole("-1")
    (4, -1)
    """
    try:
        return int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a whole number: {text!r}; example: 4") from None


def real(text: str) -> float:
    """Parse a number of any size; the command checks the range.

    >>> real("50"), real("-0.5")
    (50.0, -0.5)
    """
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a number: {text!r}; write 0.5") from None


def volts(text: str) -> float:
    """A voltage: 3.3, 3.3V.

    >>> volts("3.3"), volts("5 V")
    (3.3, 5.0)
    """
    try:
        return float(text.strip().removesuffix("V").removesuffix("v"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"not a voltage: {text!r}; write 3.3") from None


def column_or_volts(text: str) -> str | float:
    """A constant voltage, or the name of a column with voltages.

    >>> column_or_volts("3.3V"), column_or_volts("bus V")
    (3.3, 'bus V')
    """
    try:
        return float(text.removesuffix("V"))
    except ValueError:
        return text


def celsius(text: str) -> float:
    """A temperature: 22, 21.5C, -5°C.

    >>> celsius("22"), celsius("21.5 °C")
    (22.0, 21.5)
    """
    match = re.fullmatch(rf"(-?{_NUMBER})\s*°?[cC]?", text.strip(), re.ASCII)
    if match is None:
        raise argparse.ArgumentTypeError(f"not a temperature in °C: {text!r}; example: 22")
    return float(match[1])


def offset(text: str) -> tuple[float, str]:
    """Offset of an instrument in A or W: 30uA, 1.5mW.

    >>> offset("1mA"), offset("1.5 mW")
    ((0.001, 'A'), (0.0015, 'W'))
    """
    match = re.fullmatch(rf"({_NUMBER})\s*([munµ]?)([AW])", text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"not an offset: {text!r}; examples: 30uA, 1mW")
    parts = {"": 1.0, "m": 1e3, "u": 1e6, "µ": 1e6, "n": 1e9}
    return float(match[1]) / parts[match[2]], match[3]


def hertz(text: str) -> float:
    """A rate: 10, 0.5Hz.

    >>> hertz("10"), hertz("0.5 Hz")
    (10.0, 0.5)
    """
    match = re.fullmatch(rf"({_NUMBER})\s*(?:hz)?", text.strip().lower(), re.ASCII)
    if match is None:
        raise argparse.ArgumentTypeError(f"not a rate in Hz: {text!r}; example: 10")
    return float(match[1])


def capacity(text: str) -> float:
    """Capacity of a battery, in joules: 18.5Wh, 66.6kJ, or 5000mAh@3.85V.

    >>> capacity("2Wh"), capacity("1kJ"), round(capacity("1000mAh@3.7V"))
    (7200.0, 1000.0, 13320)
    """
    match = re.fullmatch(
        rf"({_NUMBER})\s*(?:(wh|kj|j)|(mah|ah)\s*@\s*({_NUMBER})\s*v)",
        text.strip().lower(),
        re.ASCII,
    )
    if match is None or not float(match[1]) or (match[4] and not float(match[4])):
        hint = "examples: 18.5Wh, 66.6kJ, 5000mAh@3.85V"
        raise argparse.ArgumentTypeError(f"not a capacity of a battery: {text!r}; {hint}")
    if match[2]:
        return float(match[1]) * {"wh": 3600.0, "kj": 1000.0, "j": 1.0}[match[2]]
    return float(match[1]) * {"mah": 3.6, "ah": 3600.0}[match[3]] * float(match[4])


def size_bytes(text: str) -> int:
    """A size: 512M, 4GiB, or plain bytes.

    >>> size_bytes("512M"), size_bytes("4GiB")
    (536870912, 4294967296)
    """
    match = re.fullmatch(rf"({_NUMBER})\s*([kmgt]?)(?:i?b)?", text.strip().lower())
    if match is None:
        raise argparse.ArgumentTypeError(f"not a size: {text!r}; write 512M or 4GiB")
    return int(float(match[1]) * _BYTES[match[2]])


def numbers(text: str) -> tuple[int, ...]:
    """Numbers and ranges: 2,3 or 0-3.

    >>> numbers("2,3"), numbers("0-2,5")
    ((2, 3), (0, 1, 2, 5))
    """
    from edgebench.protocol.spec import MAX_CPUS  # only here: keeps --help fast

    chosen: list[int] = []
    for part in text.split(","):
        match = re.fullmatch(r"\s*(\d{1,6})(?:-(\d{1,6}))?\s*", part)
        if match is None:
            raise argparse.ArgumentTypeError(
                f"not a list of numbers: {text!r}; examples: 2,3 or 0-3"
            )
        first, last = int(match[1]), int(match[2] or match[1])
        if last >= MAX_CPUS:  # checked first: a short range could expand to a million numbers
            raise argparse.ArgumentTypeError(f"must be 0..{MAX_CPUS - 1}, got {part.strip()}")
        if last < first:
            raise argparse.ArgumentTypeError(f"not a range: {part.strip()!r}; write 0-3")
        chosen += range(first, last + 1)
    return tuple(dict.fromkeys(chosen))


def names(text: str) -> tuple[str, ...]:
    """Names that are separated by commas.

    >>> names("nightly,pi5")
    ('nightly', 'pi5')
    """
    return tuple(text.split(","))


def input_shape(text: str) -> tuple[str, tuple[int, ...]]:
    """The shape of an input by its name: input=1x128.

    >>> input_shape("ids=1x128"), input_shape("serving_default_x:0=1X3x224x224")
    (('ids', (1, 128)), ('serving_default_x:0', (1, 3, 224, 224)))
    """
    match = re.fullmatch(r"(.+)=(\d{1,12}(?:[xX]\d{1,12})*)", text.strip(), re.ASCII)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"not the shape of an input: {text!r}; example: input=1x128"
        )
    return match[1], tuple(map(int, match[2].lower().split("x")))


def percent(text: str) -> float:
    """A percentage above 0, converted to a ratio.

    >>> percent("3%"), percent("0.5")
    (0.03, 0.005)
    """
    match = re.fullmatch(r"(\d{1,6}(?:\.\d{1,9})?)\s*%?", text.strip())
    if match is None or not float(match[1]):
        raise argparse.ArgumentTypeError(f"not a percentage above 0: {text!r}; example: 3%")
    return float(match[1]) / 100
