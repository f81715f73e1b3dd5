"""The energy counter of a GPU, by NVIDIA's own Python client on a made-up library."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.agents import wait_until
from support.nvml import GPU_IS_LOST, NOT_SUPPORTED, FakeGpu, fake_gpu
from support.recordings import Decoded, decoded

from edgebench.host.analysis.energy.site import site_of
from edgebench.meters.base import AbsentMeter, Capability, Channel, Flag, Header, MeterInfo
from edgebench.meters.nvml import NvmlDecoder
from edgebench.meters.registry import find_meter
from edgebench.meters.uncertainty import Kind

CAPTURE = Path(__file__).parents[2] / "fixtures/nvml/h200.csv.gz"
PHASES_NS = (
    *(34623655397, 42623765059, 54623810390, 62623968589),
    *(74633124489, 82633229050, 94640649429, 99640775131),
)
"""Starts of its phases, and the end of the last phase; see the README next to it."""


@pytest.fixture
def gpu(tmp_path: Path) -> Iterator[FakeGpu]:
    """A board of 40 W."""
    pytest.importorskip(
        "pynvml", reason="nvidia-ml-py is not installed: the driver reads the counter by it"
    )
    with fake_gpu(tmp_path / "gpu") as found:
        yield found


def opened(text: str = "nvml") -> Header:
    """Header of a meter that must open."""
    meter = find_meter(text)
    header = meter.open()
    meter.close()
    assert isinstance(header, Header), header
    return header


def refused(text: str = "nvml") -> str:
    """Why the meter cannot be used."""
    found = find_meter(text).open()
    assert isinstance(found, AbsentMeter)
    return found.reason


def test_board_is_one_for_nvidias_own_client(gpu: FakeGpu) -> None:
    """Otherwise our library could have an interface that only our driver understands."""
    import pynvml

    client: Any = pynvml
    client.nvmlInit()
    handle = client.nvmlDeviceGetHandleByIndex(0)
    assert client.nvmlDeviceGetName(handle) == "NVIDIA RTX 2000 Ada Generation"
    before_mj, began_s = client.nvmlDeviceGetTotalEnergyConsumption(handle), time.monotonic()
    threading.Event().wait(0.5)
    passed_s = time.monotonic() - began_s
    passed_mj = client.nvmlDeviceGetTotalEnergyConsumption(handle) - before_mj
    client.nvmlShutdown()
    assert passed_mj == pytest.approx(40_000 * passed_s, rel=0.35)


def test_power_is_what_the_counter_rises_by(gpu: FakeGpu, tmp_path: Path) -> None:
    """Otherwise a unit would be wrong by a thousand, or a change be late by over an update."""
    meter = find_meter("nvml:0")
    assert isinstance(meter.open(), Header)
    with meter.session(tmp_path / "r") as session:
        began_s = time.monotonic()
        threading.Event().wait(2.1)
        gpu.be(power_w=100.0)
        changed_s = time.monotonic()
        threading.Event().wait(2.1)
        ended_s = time.monotonic()
    meter.close()
    assert session.trouble is None
    found = decoded(tmp_path / "r")
    assert (found.begin_ns[1:] == found.time_ns[:-1]).all()
    energy_j = float((found.power_w * (found.time_ns - found.begin_ns)).sum() / 1e9)
    # The board sees a change of its file at the next request, half a second late at most.
    expected_j = 40 * (changed_s - began_s) + 100 * (ended_s - changed_s)
    assert energy_j == pytest.approx(expected_j, abs=0.6 * 60 + 0.1 * 100)
    assert found.power_w[1] == pytest.approx(40, rel=0.25)


def test_header_says_what_is_counted(gpu: FakeGpu) -> None:
    """Otherwise a board's energy would pass for the device's, or its sensor for a good sensor."""
    header = opened("nvml:GPU-00000000-made-up")
    assert (header.info.vendor, header.info.firmware) == ("NVIDIA", "575.64.05")
    assert site_of(header).boundary == "GPU board"
    assert header.capability.is_averaging
    assert header.capability.min_window_s == 10.0
    assert Kind.MODEL not in {term.kind for term in header.uncertainty}
    gpu.be(name="NVIDIA A100-SXM4-80GB")
    [model] = [term.value for term in opened().uncertainty if term.kind is Kind.MODEL]
    assert model == 0.25


def test_gpu_that_cannot_be_measured_says_why(gpu: FakeGpu) -> None:
    """Otherwise the idle one of two GPUs would be measured, or an old GPU be a traceback."""
    gpu.be(count=2)
    assert refused() == (
        "2 NVIDIA GPUs are installed, select a GPU: nvml:0 (NVIDIA RTX 2000 Ada Generation), "
        "nvml:1 (NVIDIA RTX 2000 Ada Generation)"
    )
    assert opened("nvml:1").info.serial.startswith("GPU-00000001")
    assert "NVML error: " in refused("nvml:7")
    gpu.be(code=NOT_SUPPORTED, name="Quadro K620")
    assert refused().startswith("Quadro K620 has no energy counter: Volta and newer")
    with pytest.raises(Exception, match="by number or UUID"):
        find_meter("nvml:first")


@pytest.mark.parametrize("text", ["nvml", "nvml:0"])
def test_machine_without_a_gpu_says_so(gpu: FakeGpu, text: str) -> None:
    """Otherwise the user would have to choose among no GPUs."""
    gpu.be(count=0)
    assert refused(text) == "NVIDIA's driver is installed, but there is no GPU"


def test_gpu_that_falls_off_the_bus_costs_nothing_that_was_read(
    gpu: FakeGpu, tmp_path: Path
) -> None:
    """Otherwise a recording would be lost with the GPU, or go on with zeros."""
    meter = find_meter("nvml")
    meter.open()
    with meter.session(tmp_path / "r") as session:
        threading.Event().wait(2.0)
        gpu.be(code=GPU_IS_LOST)
        wait_until(lambda: session.trouble, "the next question is refused")
    meter.close()
    assert session.trouble == "NVML error: GPU is lost"
    found = decoded(tmp_path / "r")
    assert len(found.power_w) >= 2
    assert found.power_w == pytest.approx(40, rel=0.25)


def counted(*readings: tuple[int, bytes | None]) -> Decoded:
    """Decode these readings."""
    import msgpack

    from edgebench.meters.base import Packet

    capability = Capability(
        driver="nvml",
        channels=(Channel("GPU", "GPU board"),),
        rate_hz=2.0,
        is_averaging=True,
        clock_domain="host:monotonic",
    )
    header = Header(driver="nvml", info=MeterInfo(vendor="", model=""), capability=capability)
    decoder = NvmlDecoder(header)
    for reading in readings:
        decoder.feed(Packet(reading[0], reading[0], msgpack.packb([reading])))
    return Decoded(decoder.finish(), decoder.loss())


def test_driver_that_is_loaded_anew_counts_from_zero() -> None:
    """Otherwise a counter that goes back would give negative power, or look wrapped."""
    second = 1_000_000_000
    found = counted((0, b"9000"), (second, b"10000"), (2 * second, b"500"), (3 * second, b"1500"))
    assert found.power_w[[0, 2]].tolist() == [1.0, 1.0]
    assert np.isnan(found.power_w[1])
    assert found.flags.tolist() == [0, Flag.MISSING, 0]


def test_machine_without_a_driver_says_so() -> None:
    """Otherwise a machine without a GPU would show a traceback."""
    pytest.importorskip(
        "pynvml", reason="nvidia-ml-py is not installed: the driver reads the counter by it"
    )
    code = (
        "from edgebench.meters.registry import find_meter; print(find_meter('nvml').open().reason)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    if "GPUs are installed" in said.stdout:
        pytest.skip("this machine has NVIDIA GPUs")
    assert said.stdout == "no NVIDIA driver on this machine: libnvidia-ml.so.1 not found\n"


def test_counter_of_a_real_gpu_is_the_integral_of_its_power() -> None:
    """Otherwise the counter of an H200 would have another unit, or lose an interval.

    Within 2 %: over a phase of 5 to 12 s the two readings differ by up to 0.7 %, and the counter
    changes ten times a second.
    """
    rows = np.genfromtxt(CAPTURE, delimiter=",", names=True)
    times_ns, counter_mj = rows["time_ns"].astype(np.int64), rows["energy_mj"].astype(np.int64)
    polled = np.searchsorted(times_ns, np.arange(times_ns[0], times_ns[-1], 5 * 10**8))
    found = counted(*((int(times_ns[row]), b"%d" % counter_mj[row]) for row in polled))
    assert not found.flags.any()
    energies_j = found.power_w * (found.time_ns - found.begin_ns) / 1e9
    assert energies_j.sum() == pytest.approx((counter_mj[polled[-1]] - counter_mj[0]) / 1e3)
    for begin_ns, end_ns in pairwise(PHASES_NS):
        inside = (begin_ns <= found.begin_ns) & (found.time_ns <= end_ns)
        first_ns, last_ns = found.begin_ns[inside][0], found.time_ns[inside][-1]
        phase = (first_ns <= times_ns) & (times_ns <= last_ns)
        powers_mw = rows["power_instant_mw"][phase]
        reported_j = np.diff(times_ns[phase]) @ (powers_mw[1:] + powers_mw[:-1]) / 2e12
        assert energies_j[inside].sum() == pytest.approx(reported_j, rel=0.02)
