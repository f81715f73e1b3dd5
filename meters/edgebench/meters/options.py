"""The address of a meter with its options, as people write it: `/dev/ttyACM0,supply=3.3`."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgebench.protocol.errors import UsageError

MILLIVOLTS_FROM = 100.0
"""No supply of a small device has so many volts: millivolts were meant."""


def split_name(text: str) -> tuple[str, str]:
    """A driver's name, and its address with its options.

    >>> split_name("ppk2:/dev/ttyACM0,supply=3.3"), split_name("fnirsi,reversed")
    (('ppk2', '/dev/ttyACM0,supply=3.3'), ('fnirsi', ',reversed'))
    """
    name = text.partition(":")[0].partition(",")[0]
    return name, text[len(name) :].removeprefix(":")


def with_absolute_paths(text: str) -> str:
    """Text of a meter with absolute paths, which is the same in every directory.

    An address is a path if it begins as one, or if there is such a file: `ppk2:./port`. Of the
    options, `root` is one.

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
    """The one of these meters whose text begins like this, as its driver's name does.

    >>> meant_of("ppk2", ("rapl", "ppk2:/dev/ttyACM0,supply=3.3"))
    'ppk2:/dev/ttyACM0,supply=3.3'
    """
    candidates = [one for one in served if text and one.startswith(text)]
    return candidates[0] if len(candidates) == 1 else None


def check_supply(supply_v: float | None, limits_v: tuple[float, float], what: str) -> None:
    """Refuse a voltage that the unit cannot have.

    Args:
        supply_v: As asked for; None is fine.
        limits_v: The lowest and the highest.
        what: Unit and verb before the limits, as in "PPK2 gives".

    Raises:
        UsageError: it is beyond the limits.
    """
    low_v, high_v = limits_v
    if supply_v is None or low_v <= supply_v <= high_v:
        return
    text = f"{what} {low_v} to {high_v} V, asked for {supply_v:g} V"
    if supply_v > MILLIVOLTS_FROM:
        text += f"; write volts, not mV: supply={supply_v / 1000:g}"
    raise UsageError(text)


@dataclass(slots=True)
class Options:
    """Options are taken one by one; what is left at the end was a mistake."""

    driver: str
    address: str
    values: dict[str, str] = field(default_factory=dict[str, str])
    _known: list[str] = field(default_factory=list[str])

    @classmethod
    def parse(cls, driver: str, text: str) -> Options:
        """Split the text; a word without "=" is the address, or a switch behind it.

        A VISA address may hold a comma itself: TCPIP::192.168.1.5::hislip0,4880::INSTR.

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
        """A number.

        Raises:
            UsageError: it is none.
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
        """A number above 0.

        Raises:
            UsageError: it is none.
        """
        value = self.number(name)
        if value is not None and value <= 0:
            raise UsageError(f"meter {self.driver}: {name} must be above 0, got {value:g}")
        return value

    def ratio(self, name: str) -> float | None:
        """A ratio as data sheets write it: 0.1% or 0.001.

        Raises:
            UsageError: it is none.
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
        """A number between these two.

        Raises:
            UsageError: it is none, or out of its limits.
        """
        value = self.number(name)
        value = default if value is None else value
        low, high = limits
        if not low <= value <= high:
            words = f"{name} must be {low:g} to {high:g}, got {value:g}"
            raise UsageError(f"meter {self.driver}: {words}")
        return value

    def rate(self, name: str, default_hz: int) -> int:
        """A whole number of samples a second, as in 500 or 100k.

        Raises:
            UsageError: it is none.
        """
        text = self.text(name)
        if text is None:
            return default_hz
        number, factor = (text[:-1], 1000) if text.endswith("k") else (text, 1)
        if not (number.isascii() and number.isdigit()):
            raise UsageError(f"meter {self.driver}: {name} must be like 100k or 500, got {text!r}")
        return int(number) * factor

    def choice(self, name: str, usual: str, other: str) -> bool:
        """Whether it is the other of two words.

        Raises:
            UsageError: it is neither.
        """
        text = self.text(name, usual)
        if text not in (usual, other):
            raise UsageError(
                f"meter {self.driver}: {name} must be {usual} or {other}, got {text!r}"
            )
        return text == other

    def switch(self, name: str) -> bool:
        """Whether the word is there.

        Raises:
            UsageError: it has a value.
        """
        text = self.text(name)
        if text:
            raise UsageError(
                f"meter {self.driver}: {name} is a word without a value, got {text!r}: leave it "
                "out, or write the word alone"
            )
        return text is not None

    def text(self, name: str, default: str | None = None) -> str | None:
        """Any text."""
        self._known.append(name)
        return self.values.get(name, default)

    def where(self) -> tuple[Path, str]:
        """Root of the file system, and which of the meters under it.

        An address that begins with a slash is the root; else there may be an option for it.
        """
        root = self.text("root", "/") or "/"
        if self.address.startswith("/"):
            return Path(self.address), ""
        return Path(root), self.address

    def root(self) -> Path:
        """Root of the file system, for a meter of which there is one.

        Raises:
            UsageError: there is another address.
        """
        root, choice = self.where()
        if choice:
            raise UsageError(f"meter {self.driver} takes no address but a root, got {choice!r}")
        return root

    def finish(self) -> Options:
        """Refuse options that were not used.

        Raises:
            UsageError: there is an unknown option.
        """
        unknown = sorted(set(self.values) - set(self._known))
        if unknown:
            known = f"available: {', '.join(self._known)}" if self._known else "it takes none"
            raise UsageError(f"meter {self.driver} has no option {unknown[0]!r}; {known}")
        return self
