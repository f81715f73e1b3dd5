"""The energy counter that the driver of NVIDIA GPUs provides, through NVML.

Theory of operation. GPUs since Volta count the energy of their board in millijoules, from the
loading of the driver: `nvmlDeviceGetTotalEnergyConsumption`. Power is the difference of two
readings divided by the time between them, so a value is a mean, never an instant. The counter has
64 bits and does not wrap around, so a value below the previous value means that the driver was
reloaded. The counter is updated about ten times per second, at unknown times. The counter is read
only twice per second, so that the unknown times of its updates matter less.

The board is the GPU with its memory and regulators; the counter excludes the rest of the computer.

Source: https://docs.nvidia.com/deploy/nvml-api (the counter, Volta or newer);
https://ml.energy/blog/energy/measurement/thermally-stable-profiling-for-accurate-gpu-energy-measurement
(updates every 100 ms); https://arxiv.org/abs/2312.02741 (sensors are within 5 %; the sensors of
A100 and H100 measure during a quarter of the time).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from edgebench.meters.base import Capability, Channel, Header, MeterInfo
from edgebench.meters.instrument import InstrumentMeter
from edgebench.meters.options import Options
from edgebench.meters.polled import (
    HOST_CLOCK,
    Point,
    PolledDecoder,
    PolledSession,
    Reading,
    number,
    timed,
)
from edgebench.meters.uncertainty import Kind, UncertaintyTerm, Unit, term
from edgebench.protocol.distributions import install_command
from edgebench.protocol.errors import EdgebenchError, TargetError, UsageError
from edgebench.protocol.text import one_line

INSTALL = install_command("nvml")
RATE_HZ = 2.0
UPDATE_S = 0.1
MIN_WINDOW_S = 100 * UPDATE_S
_SENSOR_RATIO = 0.05
_PART_TIME_RATIO = 0.25
"""Assumed error if the sensor measures only during a quarter of the time and the load varies in
step with the sensor. The paper corrected errors of 35 % on average, and of up to 65 %."""
_PART_TIME = re.compile(r"\b(A100|A30|H100|H200|GH200)\b")
_PAPER = "arXiv 2312.02741"


class Gpu:
    """A GPU, reached through the driver's library. The library stays open until `close`."""

    def __init__(self, choice: str) -> None:
        """Open the library and find the GPU.

        Args:
            choice: GPU number or UUID; empty: the only GPU.

        Raises:
            TargetError: the driver, the GPU or its energy counter is missing.
            UsageError: there are several GPUs, and none is selected.
        """
        try:
            import pynvml
        except ImportError:
            raise TargetError(
                f"nvidia-ml-py is not installed, meter nvml needs it: {INSTALL}"
            ) from None
        self._nvml: Any = pynvml
        self._is_open = False
        try:
            pynvml.nvmlInit()
            self._is_open = True
            self._handle: Any = self._find(choice)
            self.name = str(pynvml.nvmlDeviceGetName(self._handle))
            self.uuid = str(pynvml.nvmlDeviceGetUUID(self._handle))
            self.driver = str(pynvml.nvmlSystemGetDriverVersion())
        except pynvml.NVMLError as exc:
            self.close()
            raise TargetError(self._refusal(exc)) from exc
        except EdgebenchError:
            self.close()
            raise

    def energy_mj(self) -> bytes:
        """Energy counter in mJ, as text.

        Raises:
            TargetError: the GPU is gone, or has no energy counter.
        """
        try:
            return b"%d" % self._nvml.nvmlDeviceGetTotalEnergyConsumption(self._handle)
        except self._nvml.NVMLError as exc:
            raise TargetError(self._refusal(exc)) from exc

    def close(self) -> None:
        """Release the library; may be called twice."""
        if self._is_open:
            self._is_open = False
            self._nvml.nvmlShutdown()

    def _find(self, choice: str) -> Any:
        nvml = self._nvml
        if choice.startswith(("GPU-", "MIG-")):
            return nvml.nvmlDeviceGetHandleByUUID(choice)
        count = int(nvml.nvmlDeviceGetCount())
        if count == 0:
            raise TargetError("NVIDIA's driver is installed, but there is no GPU")
        if not choice and count != 1:
            names = [
                f"nvml:{index} ({nvml.nvmlDeviceGetName(nvml.nvmlDeviceGetHandleByIndex(index))})"
                for index in range(count)
            ]
            raise UsageError(f"{count} NVIDIA GPUs are installed, select a GPU: {', '.join(names)}")
        return nvml.nvmlDeviceGetHandleByIndex(int(choice or 0))

    def _refusal(self, exc: Any) -> str:
        nvml = self._nvml
        if exc.value == nvml.NVML_ERROR_LIBRARY_NOT_FOUND:
            return "no NVIDIA driver on this machine: libnvidia-ml.so.1 not found"
        if exc.value == nvml.NVML_ERROR_DRIVER_NOT_LOADED:
            return "NVIDIA's driver is installed, but not loaded: run nvidia-smi to see why"
        if exc.value == nvml.NVML_ERROR_NOT_SUPPORTED:
            what = getattr(self, "name", "this GPU")
            return f"{what} has no energy counter: Volta and newer have one, Jetsons do not"
        return f"NVML error: {one_line(exc)}"


class Nvml(InstrumentMeter[Gpu]):
    """The energy counter of a GPU of this machine."""

    name = "nvml"

    def _describe(self, connection: Gpu) -> Header:
        connection.energy_mj()  # raises if the GPU has no counter
        return Header(
            driver=self.name,
            info=MeterInfo(
                vendor="NVIDIA",
                model=connection.name,
                serial=connection.uuid,
                firmware=connection.driver,
            ),
            capability=Capability(
                driver=self.name,
                channels=(Channel("GPU", "GPU board"),),
                rate_hz=RATE_HZ,
                is_averaging=True,
                is_counter=True,
                clock_domain=HOST_CLOCK,
                loss_detection="wallclock",
                min_window_s=MIN_WINDOW_S,
            ),
            uncertainty=_uncertainty(connection.name),
        )

    def _record(self, connection: Gpu, header: Header, path: Path) -> PolledSession:
        return PolledSession(lambda: [timed(connection.energy_mj)], header, path)


class NvmlDecoder(PolledDecoder):
    """Turns the energy counter into mean powers."""

    def __init__(self, header: Header) -> None:
        super().__init__(header)
        self._last: tuple[int, int] | None = None

    def points(self, readings: list[Reading]) -> list[Point]:
        """Mean power since the last reading; no point for the first reading."""
        [(time_ns, content)] = readings
        now_mj, last = number(content), self._last
        if now_mj is not None:
            self._last = time_ns, now_mj
        if last is None or time_ns <= last[0]:
            return []
        if now_mj is None or now_mj < last[1]:  # the driver was reloaded
            return [Point.missing(time_ns, begin_ns=last[0])]
        power_w = (now_mj - last[1]) * 1e6 / (time_ns - last[0])
        return [Point(time_ns, power_w, begin_ns=last[0])]


def make_meter(options: Options) -> Nvml:
    """Create the meter of the GPU with this number or UUID, or of the only GPU."""
    choice = options.finish().address
    if choice and not choice.startswith(("GPU-", "MIG-")) and not choice.isdecimal():
        raise UsageError(f"select a GPU by number or UUID, as in nvml:0, got {choice!r}")
    return Nvml(lambda: Gpu(choice))


def _uncertainty(name: str) -> tuple[UncertaintyTerm, ...]:
    terms = [
        term(Kind.GAIN, _SENSOR_RATIO, f"{_PAPER}: sensors of 70 GPUs, in steady state"),
        term(Kind.EDGE, UPDATE_S, "updated ten times per second, at unknown times"),
        term(Kind.RESOLUTION, 1e-3, "a step of the counter", Unit.JOULE),
    ]
    if _PART_TIME.search(name):
        sensor = f"the sensor of an {name} measures only during a quarter of the time"
        where = f"assumed, {_PAPER}: {sensor}"
        terms.append(term(Kind.MODEL, _PART_TIME_RATIO, where))
    return tuple(terms)
