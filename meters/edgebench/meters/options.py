"""The address of a meter with its options, as written on the command line: `ADDRESS,supply=3.3`."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgebench.protocol.errors import UsageError

MILLIVOLTS_FROM = 100.0
"""Above this supply voltage, the error message suggests that the user meant millivolts, because no
small device has a supply of 100 V."""


def split_name(text: str) -> tuple[str, str]:
    """Split a meter's text into the driver's name, and the address with its options.

    >>> split_name("ppk2:/dev/ttyACM0,supply=3.3"), split_name("fnirsi,reversed")
    (('ppk2', '/dev/ttyACM0,supply=3.3'), ('fnirsi', ',reversed'))
    """
    name = text.partition(":")[0].partition(",")[0]
    return name, text[len(name) :].removeprefix(":")


def with_absolute_paths(text: str) -> str:
    """Make the paths in a meter's text absolute, so that it is valid in any working directory.

    An address is a path if it starts with ./ or ../, as in `ppk2:./port`, or if a file of this name
    exists. The option `root` is always a path.

    >>> with_absolute_paths("hwmon:INA226,root=/srv"), with_absolute_paths("scpi:TCPIP::10.0.0.7")
    ('hwmon:INA226,root=/srv', 'scpi:TCPIP::10.0.0.7')
    """
    name, rest = split_name(text)
    if not rest:
        return text
    address, *options = rest.split(",")
    if address.startswith(("./", "../")) or (address and os.path.exists(address)):
        address = os.path.abspath(address)
    options = [
        f"root={os.path.abspath(option.removeprefix('root='))}"
        if option.startswith("root=")
        else option
        for option in options
    ]
    separator = ":" if text[len(name)] == ":" else ""
    return f"{name}{separator}{','.join((address, *options))}"


def meant_of(text: str, served: Sequence[str]) -> str | None:
    """Find the only meter whose text starts with `text`; None if no meter or several match.

    >>> meant_of("ppk2", ("rapl", "ppk2:/dev/ttyACM0,supply=3.3"))
    'ppk2:/dev/ttyACM0,supply=3.3'
    """
    candidates = [name for name in served if text and name.startswith(text)]
    return candidates[0] if len(candidates) == 1 else None


def check_supply(supply_v: float | None, limits_v: tuple[float, float], what: str) -> None:
    """Reject a supply voltage outside the limits.

    Args:
        supply_v: Requested voltage; None is accepted.
        limits_v: Lowest and highest voltage.
        what: Subject and verb of the error message, such as "PPK2 gives". In the message, the
            limits follow these words.

    Raises:
        UsageError: the voltage is outside the limits.
    """
    low_v, high_v = limits_v
    if supply_v is None or low_v <= supply_v <= high_v:
        return
    text = f"{what} {low_v} to {high_v} V, got {supply_v:g} V"
    if supply_v > MILLIVOLTS_FROM:
        text += f"; write volts, not mV: supply={supply_v / 1000:g}"
    raise UsageError(text)


@dataclass(slots=True)
class Options:
    """Options of a meter, read by name; `finish` rejects options that the driver did not read."""

    driver: str
    address: str
    values: dict[str, str] = field(default_factory=dict[str, str])
    _known: list[str] = field(default_factory=list[str])

    @classmethod
    def parse(cls, driver: str, text: str) -> Options:
        """Split the text at its commas. The first part is the address unless it contains "=".

        After the address, a part without "=" is a switch (an option without a value). A VISA
        address may contain a comma itself, as in TCPIP::192.168.1.5::hislip0,4880::INSTR.

        Raises:
            UsageError: an option is given twice.
        """
        address, *rest = text.split(",")
        if rest and "::" in rest[0] and "=" not in rest[0]:
            address = f"{address},{rest.pop(0)}"
        if "=" in address:
            address, rest = "", [address, *rest]
        values: dict[str, str] = {}
        for part in filter(None, rest):
            name, _, value = (word.strip() for word in part.partition("="))
            if name in values:
                raise UsageError(f"meter {driver}: {name} is given twice")
            values[name] = value
        return cls(driver, address, values)

    def number(self, name: str, default: float | None = None) -> float | None:
        """Value of a numeric option; the default if the option is not given.

        Raises:
            UsageError: the value is not a finite number.
        """
        text = self.text(name)
        if text is None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = math.nan
        if not math.isfinite(value):
            raise UsageError(f"meter {self.driver}: {name} must be a number, got {text!r}")
        return value

    def positive(self, name: str) -> float | None:
        """Value of an option that must be greater than 0; None if it is not given.

        Raises:
            UsageError: the value is not a number above 0.
        """
        value = self.number(name)
        if value is not None and value <= 0:
            raise UsageError(f"meter {self.driver}: {name} must be above 0, got {value:g}")
        return value

    def ratio(self, name: str) -> float | None:
        """Value of a ratio in the notation of data sheets, 0.1% or 0.001; None if it is not given.

        Raises:
            UsageError: the value is not a ratio between 0 and 1.
        """
        text = self.text(name)
        if text is None:
            return None
        try:
            value = float(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
        except ValueError:
            value = -1.0
        if not 0 < value < 1:
            words = f"{name} must be a ratio like 0.1% or 0.001, got {text!r}"
            raise UsageError(f"meter {self.driver}: {words}")
        return value

    def within(self, name: str, default: float, limits: tuple[float, float]) -> float:
        """Value of a numeric option between the two limits, inclusive.

        Raises:
            UsageError: the value is not a number, or outside the limits.
        """
        value = self.number(name)
        value = default if value is None else value
        low, high = limits
        if not low <= value <= high:
            words = f"{name} must be {low:g} to {high:g}, got {value:g}"
            raise UsageError(f"meter {self.driver}: {words}")
        return value

    def rate(self, name: str, default_hz: int) -> int:
        """Samples per second as a whole number, such as 500 or 100k.

        Raises:
            UsageError: the value is not a whole number, with or without a k.
        """
        text = self.text(name)
        if text is None:
            return default_hz
        number, factor = (text[:-1], 1000) if text.endswith("k") else (text, 1)
        if not (number.isascii() and number.isdigit()):
            raise UsageError(f"meter {self.driver}: {name} must be like 100k or 500, got {text!r}")
        return int(number) * factor

    def choice(self, name: str, usual: str, other: str) -> bool:
        """Whether the option has the value `other` instead of the default `usual`.

        Raises:
            UsageError: the value is neither of the two.
        """
        text = self.text(name, usual)
        if text not in (usual, other):
            raise UsageError(
                f"meter {self.driver}: {name} must be {usual} or {other}, got {text!r}"
            )
        return text == other

    def switch(self, name: str) -> bool:
        """Whether an option that takes no value is given.

        Raises:
            UsageError: the option has a value.
        """
        text = self.text(name)
        if text:
            raise UsageError(
                f"meter {self.driver}: {name} takes no value, got {text!r}: write the name "
                "alone, or leave it out"
            )
        return text is not None

    def text(self, name: str, default: str | None = None) -> str | None:
        """Text of an option, or the default."""
        self._known.append(name)
        return self.values.get(name, default)

    def where(self) -> tuple[Path, str]:
        """Root of the file system, and name of the selected meter (empty if none is selected).

        An address that starts with a slash is the root. Otherwise the address selects a meter, and
        the option `root` may name the root.
        """
        root = self.text("root", "/") or "/"
        if self.address.startswith("/"):
            return Path(self.address), ""
        return Path(root), self.address

    def root(self) -> Path:
        """Root of the file system, for a driver that has a single meter per machine.

        Raises:
            UsageError: the address does not start with a slash.
        """
        root, choice = self.where()
        if choice:
            raise UsageError(
                f"meter {self.driver} takes only a directory as address, got {choice!r}"
            )
        return root

    def finish(self) -> Options:
        """Reject options that the driver did not read; return these options.

        Raises:
            UsageError: an option is unknown.
        """
        unknown = sorted(set(self.values) - set(self._known))
        if unknown:
            known = f"available: {', '.join(self._known)}" if self._known else "it takes none"
            raise UsageError(f"meter {self.driver} has no option {unknown[0]!r}; {known}")
        return self
