"""A made-up RAPL counter under a made-up /sys."""

from __future__ import annotations

from pathlib import Path

RANGE_UJ = 262143328850
"""max_energy_range_uj of many Intel processors."""


class Counter:
    """A zone whose counter the test sets."""

    def __init__(self, root: Path, index: int = 0, name: str = "package-0") -> None:
        self._folder = root / f"sys/class/powercap/intel-rapl:{index}"
        self._folder.mkdir(parents=True)
        (self._folder / "name").write_text(f"{name}\n")
        (self._folder / "max_energy_range_uj").write_text(f"{RANGE_UJ}\n")
        self.show(0)

    def show(self, energy_uj: object) -> None:
        """Set the counter, in place: the driver keeps the file open."""
        with (self._folder / "energy_uj").open("w") as file:
            file.write(f"{energy_uj}\n")
