"""The reason why a recording ended early is kept with it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.lpm01a import END, stream_bytes

from edgebench.host.analysis.energy.checks import check_recording
from edgebench.host.store.power_file import read_power_facts
from edgebench.host.store.recording import write_power
from edgebench.meters.base import Header, MeterInfo, Packet, Recording
from edgebench.meters.lpm01a.datasheet import capability
from edgebench.meters.lpm01a.settings import Lpm01aSettings, Lpm01aSetup
from edgebench.meters.spool import SpoolWriter
from edgebench.protocol.plain import to_plain

SETUP = Lpm01aSetup(rate_hz=1000)
HEADER = Header(
    driver="lpm01a",
    info=MeterInfo(vendor="a", model="b"),
    capability=capability("lpm01a", SETUP, ""),
    facts=to_plain(Lpm01aSettings(setup=SETUP, supply_v=3.3)),
)
MESSAGE = b"\xf0\xf1Overcurrent\xff\xff" + END


@pytest.mark.parametrize(
    ("told", "by_session", "kept"),
    [
        (MESSAGE, None, "error reported by the meter: Overcurrent"),
        (MESSAGE, "the meter sent nothing for 2 s", "error reported by the meter: Overcurrent"),
        (b"", "the meter sent nothing for 2 s", "the meter sent nothing for 2 s"),
        (b"", None, None),
    ],
)
def test_reason_of_the_meter_goes_before_what_the_session_saw(
    tmp_path: Path, told: bytes, by_session: str | None, kept: str | None
) -> None:
    """Otherwise the meter's reason would be lost, and a truncated recording would look whole."""
    path = tmp_path / "recording"
    data = stream_bytes(np.full(1500, 1e-3), rate_hz=1000, is_ascii=False)
    with SpoolWriter(path, HEADER) as writer:
        writer.append(Packet(0, 1, data + told))
    write_power(tmp_path, Recording(path, HEADER, by_session))
    assert read_power_facts(tmp_path).loss.trouble == kept


@pytest.mark.parametrize(
    ("behind", "torn_bytes", "words"),
    [
        (b"", 0, "3000 samples"),
        (bytes(30), 30, "cut off as by a crash: the last 30 bytes are an incomplete packet"),
        (b"\x01" * 7, 7, "cut off as by a crash: the last 7 bytes are an incomplete packet"),
        (b"\xff" * 50, 0, "the recording of the meter is damaged: the last 50 bytes, from byte "),
    ],
)
def test_end_of_the_recording_is_told(
    tmp_path: Path, behind: bytes, torn_bytes: int, words: str
) -> None:
    """Otherwise half a recording would pass for all, or a crash would cost what came before it."""
    path = tmp_path / "recording"
    data = stream_bytes(np.full(3000, 1e-3), rate_hz=1000, is_ascii=False)
    with SpoolWriter(path, HEADER) as writer:
        writer.append(Packet(0, 1, data))
    path.write_bytes(path.read_bytes() + behind)
    facts = write_power(tmp_path, Recording(path, HEADER))
    assert facts.loss.torn_bytes == torn_bytes
    assert read_power_facts(tmp_path).loss == facts.loss
    complete = check_recording(HEADER, facts.loss, 0)[0]
    assert words in complete.detail
    assert complete.is_passed is not ("damaged" in words)


def test_power_of_no_device_ends_the_recording_and_not_the_run(tmp_path: Path) -> None:
    """Otherwise one number in a recording would overflow the energy and cost the whole run."""
    settings = to_plain(Lpm01aSettings(setup=SETUP, supply_v=1e17))
    header = replace(HEADER, facts=settings)
    path = tmp_path / "recording"
    with SpoolWriter(path, header) as writer:
        writer.append(Packet(0, 1, stream_bytes(np.full(1500, 1e-3), rate_hz=1000, is_ascii=False)))
    trouble = write_power(tmp_path, Recording(path, header)).loss.trouble
    assert trouble is not None
    assert "damaged: a power of 1e+14 W, limit 1e+09 W" in trouble
