"""Reports of FNIRSI's testers, 64 bytes each way.

    to the tester    AA command 0 … 0 checksum
    from the tester  AA 04, four samples of 15 bytes, 0, checksum
    a sample         voltage i32 / 1e5, current i32 / 1e5, D+ u16 / 1e3, D- u16 / 1e3, 1,
                     temperature i16 / 10; little-endian

Reports and samples are not numbered, so a lost report shows only as a lower sample rate.

Source: baryluk/fnirsi-usb-power-data-logger, fnirsi_logger.py (samples; the first samples are
garbage); fqueze/usb-power-profiling, usb-power-profiling.js (commands, checksum, a second of
samples for each command).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from edgebench.meters.base import Floats
from edgebench.meters.hid import REPORT_BYTES

INIT, START = 0x81, 0x82
SAMPLES = 4
"""Samples per report."""
_MARK, _DATA = 0xAA, 0x04
_SAMPLE = np.dtype(
    [
        ("voltage", "<i4"),
        ("current", "<i4"),
        ("d_plus", "<u2"),
        ("d_minus", "<u2"),
        ("one", "u1"),
        ("temperature", "<i2"),
    ]
)
_SAMPLES_AT = 2
_VOLT, _AMPERE = 1e-5, 1e-5
_POLYNOMIAL, _INITIAL = 0x39, 0x42


def _table() -> bytes:
    """CRC remainder of each byte, most significant bit first."""
    entries = []
    for byte in range(256):
        for _ in range(8):
            byte = byte << 1 ^ (_POLYNOMIAL if byte & 0x80 else 0)
        entries.append(byte & 0xFF)
    return bytes(entries)


_REMAINDERS = _table()


def checksum(report: bytes) -> int:
    """CRC-8 over bytes 1 to 62: polynomial 0x39, initial value 0x42, no reflection."""
    crc = _INITIAL
    for byte in report[1 : REPORT_BYTES - 1]:
        crc = _REMAINDERS[crc ^ byte]
    return crc


def command(number: int) -> bytes:
    """Report that carries a command to the tester."""
    report = bytes([_MARK, number]).ljust(REPORT_BYTES - 1, b"\0")
    return report + bytes([checksum(report)])


def is_data(report: bytes) -> bool:
    """Whether a report contains samples; testers also send other reports."""
    return report[1] == _DATA


def samples_of(report: bytes) -> tuple[Floats, Floats]:
    """Voltage and current of a report with samples; each of shape (4,)."""
    samples: NDArray[np.void] = np.frombuffer(report, _SAMPLE, SAMPLES, _SAMPLES_AT)
    return samples["voltage"] * _VOLT, samples["current"] * _AMPERE


@dataclass(slots=True)
class ReportFramer:
    """Finds complete reports with a correct checksum in a byte stream."""

    _skipped_bytes: int = 0
    """Bytes skipped since the last valid report."""
    _waiting: bytes = b""

    def feed(self, data: bytes) -> list[tuple[bytes, int]]:
        """Return complete reports, each with the number of invalid bytes before it."""
        self._waiting += data
        reports, at = [], 0
        while len(self._waiting) - at >= REPORT_BYTES:
            report = self._waiting[at : at + REPORT_BYTES]
            if report[0] == _MARK and report[-1] == checksum(report):
                reports.append((report, self._skipped_bytes))
                self._skipped_bytes = 0
                at += REPORT_BYTES
            else:
                self._skipped_bytes += 1
                at += 1
        self._waiting = self._waiting[at:]
        return reports

    def finish(self) -> int:
        """Return the number of invalid bytes at the end, 0 if only an incomplete report is left."""
        damaged_bytes = self._skipped_bytes + len(self._waiting) if self._skipped_bytes else 0
        self._skipped_bytes, self._waiting = 0, b""
        return damaged_bytes
