"""A meter next to the device, and everything that may go wrong with it."""

from __future__ import annotations

import asyncio
import re
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support.powercap import Counter
from support.recordings import decoded

from edgebench.agent import metering as metering_module
from edgebench.agent.metering import MeterRecorder, require_served, why_not_there
from edgebench.meters import registry
from edgebench.meters.base import AbsentMeter, Header
from edgebench.meters.options import Options
from edgebench.meters.synthetic import device
from edgebench.meters.synthetic.device import Synthetic, make_meter
from edgebench.protocol.errors import TargetError, UsageError
from edgebench.protocol.record import MeterFacts

SYNTHETIC = "synthetic:constant,power=2"


def record(meter: str | None, path: Path) -> MeterRecorder:
    """A recording from its beginning to its end, with nothing in between."""
    metering = MeterRecorder(meter, path)

    async def run() -> None:
        async with metering:
            assert metering.trouble is None or not path.exists()

    asyncio.run(run())
    return metering


class Broken(Synthetic):
    """A meter whose library may raise any error at any point."""

    where = "open"

    def open(self) -> Header:
        if self.where == "open":
            raise RuntimeError("firmware\nis odd")
        return super().open()

    def close(self) -> None:
        if self.where == "close":
            raise OSError(5, "Input/output error")


@pytest.fixture
def broken(monkeypatch: pytest.MonkeyPatch) -> type[Broken]:
    """Replace the synthetic meter."""

    def make(options: Options) -> Broken:
        return Broken(make_meter(options)._settings)

    monkeypatch.setattr(device, "make_meter", make)
    return Broken


def test_recording_is_where_the_run_is(tmp_path: Path) -> None:
    """Otherwise the meter's data would stay on the device."""
    counter = Counter(tmp_path / "root")
    counter.show(1)
    metering = record(f"rapl:{tmp_path / 'root'}", tmp_path / "meter.spool")
    assert metering.facts == MeterFacts(f"rapl:{tmp_path / 'root'}")
    assert decoded(tmp_path / "meter.spool").power_w[0] == 0.0


def test_run_without_a_meter_has_no_facts_of_one(tmp_path: Path) -> None:
    """Otherwise every run would report that its meter is fine, or that it has failed."""
    assert record(None, tmp_path / "meter.spool").facts is None
    assert list(tmp_path.iterdir()) == []


def test_meter_that_is_missing_is_told(tmp_path: Path) -> None:
    """Otherwise a host would look for a recording that was never made, without a reason."""
    metering = record(f"rapl:{tmp_path}", tmp_path / "meter.spool")
    reason = registry.find_meter(f"rapl:{tmp_path}").open()
    assert isinstance(reason, AbsentMeter)
    assert metering.trouble == reason.reason


def test_meter_that_breaks_costs_no_run(tmp_path: Path, broken: type[Broken]) -> None:
    """Otherwise a fault in a driver's library would end the run, or the agent."""
    metering = record(SYNTHETIC, tmp_path / "meter.spool")
    assert metering.trouble == "firmware is odd"


def test_meter_that_does_not_let_go_costs_no_run(
    tmp_path: Path, broken: type[Broken], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a cable pulled out at the last moment would lose what was recorded before."""
    monkeypatch.setattr(broken, "where", "close")
    metering = record(SYNTHETIC, tmp_path / "meter.spool")
    assert metering.trouble == "[Errno 5] Input/output error"
    assert (tmp_path / "meter.spool").exists()


@pytest.mark.parametrize("where", ["open", "close"])
def test_meter_that_hangs_holds_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Otherwise a bus that does not respond would hold the device, and the agent could not end."""
    if where == "open":
        monkeypatch.setattr(metering_module, "HANG_S", 0.5)
    released, is_closed, method = threading.Event(), threading.Event(), getattr(Synthetic, where)

    def hang(meter: Synthetic) -> Any:
        released.wait()
        return method(meter)

    if where == "open":
        monkeypatch.setattr(Synthetic, "close", lambda _: is_closed.set())
    monkeypatch.setattr(Synthetic, where, hang)
    metering = MeterRecorder(SYNTHETIC, tmp_path / "meter.spool")

    async def run() -> None:
        async with metering:
            monkeypatch.setattr(metering_module, "HANG_S", 0.5)  # not for the opening before

    asyncio.run(run())
    assert metering.trouble == f"the meter did not {where} within 0.5 s"
    is_closed.clear()
    released.set()
    if where == "open":
        assert is_closed.wait(10), "what was opened too late is closed"
    assert metering.trouble == f"the meter did not {where} within 0.5 s"


def test_disk_that_refuses_the_recording_costs_no_run(tmp_path: Path) -> None:
    """Otherwise a name that is taken, or a full disk, would end the run."""
    metering = record(SYNTHETIC, tmp_path / "gone" / "meter.spool")
    assert metering.trouble is not None
    assert "No such file or directory" in metering.trouble


def test_run_that_did_not_begin_was_not_recorded(tmp_path: Path) -> None:
    """Otherwise a device that was too hot to start would have a recording without trouble."""
    metering = MeterRecorder(SYNTHETIC, tmp_path / "meter.spool")
    assert metering.facts == MeterFacts(SYNTHETIC, "the run did not start")


def test_session_that_ended_early_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise energy would be computed from half a run."""

    def gone(*_: object) -> bytes:
        raise TargetError("the meter is gone")

    monkeypatch.setattr("edgebench.meters.synthetic.device.Generator.read", gone)
    assert record(SYNTHETIC, tmp_path / "meter.spool").trouble == "the meter is gone"


@pytest.mark.parametrize(
    ("limit", "value", "reason"),
    [
        ("LIMIT_BYTES", 1000, r"has [\d.]+ [KM]?i?B, limit 1000 B$"),
        ("KEPT_FREE_BYTES", 2**62, r"has [\d.]+ [KM]?i?B, and the disk has 10 B left for"),
    ],
)
def test_recording_that_takes_too_much_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, reason: str
) -> None:
    """Otherwise a full disk would lose the run, or the recording exceed what any host fetches."""
    monkeypatch.setattr(metering_module, "LOOK_S", 0.01)
    monkeypatch.setattr(metering_module, limit, value)
    if limit == "KEPT_FREE_BYTES":
        small = SimpleNamespace(f_bavail=10, f_frsize=1)
        monkeypatch.setattr("os.statvfs", lambda _: small)
    path = tmp_path / "meter.spool"
    metering = MeterRecorder(f"{SYNTHETIC},rate=200000", path)

    async def run() -> None:
        async with metering:
            for _ in range(6000):  # a minute; it takes as long as the first megabyte is buffered
                if metering.trouble is not None:
                    break
                await asyncio.sleep(0.01)
            ended = metering.trouble
            assert ended is not None
            assert re.search(reason, ended)

    asyncio.run(run())
    assert metering.trouble is not None
    assert re.search(reason, metering.trouble)
    assert len(decoded(path).power_w), "what was recorded before is kept"


def test_meter_that_hangs_as_it_is_ended_early_is_waited_for_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the run that a recording outgrew would wait for its meter twice."""
    monkeypatch.setattr(metering_module, "LOOK_S", 0.01)
    monkeypatch.setattr(metering_module, "HANG_S", 0.5)
    monkeypatch.setattr(metering_module, "LIMIT_BYTES", 0)
    released, closed = threading.Event(), 0

    def hang(_: Synthetic) -> None:
        nonlocal closed
        closed += 1
        released.wait()

    async def run() -> None:
        async with MeterRecorder(SYNTHETIC, tmp_path / "meter.spool") as metering:
            while metering.trouble is None:
                await asyncio.sleep(0.01)
        names = [one.name for one in threading.enumerate()]
        assert names.count("meter-close") == 1

    monkeypatch.setattr(Synthetic, "close", hang)
    asyncio.run(run())
    released.set()
    assert closed >= 1


def test_short_recording_goes_on_however_small_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a gauge of ten bytes a second would give no energy on a small card."""
    path = tmp_path / "meter.spool"
    path.write_bytes(b"\0" * 10)
    small = SimpleNamespace(f_bavail=10, f_frsize=1)
    monkeypatch.setattr("os.statvfs", lambda _: small)
    assert metering_module._why_too_long(path) is None
    path.write_bytes(b"\0" * 11)
    assert metering_module._why_too_long(path) is not None


def test_path_that_cannot_be_looked_at_is_not_there() -> None:
    """Otherwise a meter in a closed folder, or with an odd name, would cause a traceback."""
    name = "/" + "x" * 300  # longer than names may be, which is no "not found"
    said = f"meter hwmon:{name} is not available yet: File name too long: {name}"
    assert why_not_there(f"hwmon:{name}") == said


def test_run_may_ask_for_no_meter_that_the_owner_did_not_name() -> None:
    """Otherwise a host could open any serial port of the device, by a name of its choice."""
    require_served(None, ())
    require_served("rapl", ("ppk2:/dev/ttyACM0", "rapl"))
    with pytest.raises(UsageError, match="'rapl' is not served by this agent, which serves none"):
        require_served("rapl", ())
    served = ("rapl", "ppk2:/dev/ttyACM0")
    with pytest.raises(UsageError, match="which serves rapl, ppk2:/dev/ttyACM0"):
        require_served("ppk2:/dev/ttyACM1", served)
    with pytest.raises(UsageError, match=r"; use the full name: agent:ppk2:/dev/ttyACM0$"):
        require_served("ppk2", served)
    with pytest.raises(UsageError, match=r"which serves ppk2:a, ppk2:b$"):
        require_served("ppk2", ("ppk2:a", "ppk2:b"))
