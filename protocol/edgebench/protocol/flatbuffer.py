"""Reader of FlatBuffers files that were not verified.

Theory of operation. A table starts with the distance back to its vtable, which holds the offset of
every field; a vector starts with its length. Every access is checked to be within the file. The
total number of items is limited, so a file with circular references causes an error, not an endless
loop.

Source: https://flatbuffers.dev/internals/ (encoding).
"""

from __future__ import annotations

import struct
from mmap import mmap

MAX_ITEMS = 1_000_000
"""Maximum total number of list items read from a file; a real model has about ten thousand."""


class FlatbufferError(Exception):
    """The file violates the FlatBuffers encoding, or exceeds the limit of items."""


class FlatFile:
    """Content of a file, and the number of list items that may still be read from it."""

    def __init__(self, data: bytes | mmap, max_items: int = MAX_ITEMS) -> None:
        self.data = data
        self._items_left = max_items

    def root(self) -> FlatTable:
        """The root table, from which all other tables of the file can be reached."""
        return FlatTable(self, self.number("<I", 0))

    def number(self, form: str, at: int) -> int:
        """Read the integer at offset `at`; `form` is its struct format.

        Raises:
            FlatbufferError: the offset is outside of the file.
        """
        if at < 0:
            raise FlatbufferError  # struct would count from the end
        try:
            value: int = struct.unpack_from(form, self.data, at)[0]
        except struct.error as error:
            raise FlatbufferError from error
        return value

    def numbers(self, form: str, at: int, count: int) -> tuple[int, ...]:
        """Read `count` numbers from offset `at`; `form` is the struct format of a number.

        Raises:
            FlatbufferError: the list extends beyond the file, or the limit of items is exceeded.
        """
        self._items_left -= count
        if self._items_left < 0:
            raise FlatbufferError
        try:
            return struct.unpack_from(f"<{count}{form}", self.data, at)
        except struct.error as error:
            raise FlatbufferError from error


class FlatTable:
    """A table of a FlatBuffer; an absent field reads as 0 or empty."""

    def __init__(self, file: FlatFile, at: int) -> None:
        self._file = file
        self._at = at
        self._vtable = at - file.number("<i", at)

    def number(self, field: int, form: str = "<i", default: int = 0) -> int:
        """The integer in a field; `default` if the field is absent."""
        at = self._field(field)
        return self._file.number(form, at) if at else default

    def real(self, field: int) -> float:
        """The float32 number in a field; 0 if the field is absent."""
        return float(self.number(field, "<f"))

    def numbers(self, field: int, form: str = "i") -> tuple[int, ...]:
        """The vector of numbers in a field; `form` is the struct format of a number."""
        return self._file.numbers(form, *self.vector(field))

    def reals(self, field: int) -> tuple[float, ...]:
        """The vector of float32 numbers in a field."""
        return tuple(float(value) for value in self.numbers(field, "f"))

    def table(self, field: int) -> FlatTable | None:
        """The table in a field; None if the field is absent."""
        at = self._field(field)
        return FlatTable(self._file, at + self._file.number("<I", at)) if at else None

    def tables(self, field: int) -> list[FlatTable]:
        """The vector of tables in a field."""
        at, count = self.vector(field)
        starts = self._file.numbers("I", at, count)
        return [FlatTable(self._file, at + 4 * i + start) for i, start in enumerate(starts)]

    def vector(self, field: int) -> tuple[int, int]:
        """File offset and item count of the vector in a field; both 0 if the field is absent."""
        at = self._field(field)
        if not at:
            return 0, 0
        start = at + self._file.number("<I", at)
        return start + 4, self._file.number("<I", start)

    def content(self, field: int) -> bytes:
        """The bytes of the vector in a field; empty if the field is absent."""
        start, count = self.vector(field)
        if start + count > len(self._file.data):
            raise FlatbufferError
        return self._file.data[start : start + count]

    def _field(self, field: int) -> int:
        """File offset of a field; 0 if the field is absent."""
        entry = 4 + 2 * field
        if entry >= self._file.number("<H", self._vtable):
            return 0
        offset = self._file.number("<H", self._vtable + entry)
        return self._at + offset if offset else 0
