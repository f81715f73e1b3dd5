"""Emulated third-party meters through the command line: a whole run, and a separate recording."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support.agents import Host, end_local_agent
from support.commands import METERED
from support.nvml import fake_gpu
from support.otii import OtiiEmulator
from support.plugs import KasaEmulator, ShellyEmulator, TasmotaEmulator
from support.ptdaemon import PtdEmulator
from support.scpi import Server, Supply
from support.tools import need_runtime
from support.undisturbed import undisturbed

from edgebench.host.result.reasons.alignment import clocks_not_aligned
from edgebench.host.result.reasons.energy import settling, unsampled_activity, window_too_short
from edgebench.host.store.power_file import PowerFile
from edgebench.meters.synthetic.follow import WorkerTime

pytestmark = pytest.mark.slow
MODEL = "digits_int8.tflite"


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """A host whose local agent is ended afterwards."""
    need_runtime("ai-edge-litert")
    made = Host(tmp_path_factory.mktemp("instruments"))
    yield made
    end_local_agent(made)


def measured(host: Host, meter: str, *words: str) -> dict[str, Any]:
    """The document of a run with this meter and these options, with all of its samples."""

    def attempt() -> dict[str, Any]:
        said = host.run("bench", MODEL, *METERED, *words, "--meter", meter, "--json")
        assert said.returncode in (0, 3), said.stderr
        (document,) = json.loads(said.stdout)["runs"]
        found: dict[str, Any] = document
        return found

    return undisturbed(attempt, _lost)


def _lost(document: dict[str, Any]) -> str | None:
    """What other load did: lost samples, a late load code, latencies that are steady too late."""
    energy = document["metrics"]["energy"]
    if not energy["refusal"]:
        return None
    ids = [reason["id"] for reason in energy["refusal"]]
    first = energy["refusal"][0]
    is_of_the_machine = (
        first["subject"] == "loss"
        or ids[0] == clocks_not_aligned.id
        or (ids[0] == unsampled_activity.id and first["facts"]["rate_hz"] == 4000)
        # A plug needs a minute, however steady the loop is.
        or (ids == [window_too_short.id, settling.id] and first["facts"]["needed_s"] < 1)
    )
    refused: str = energy["refused"]
    return refused if is_of_the_machine else None


def flickering_supply() -> Supply:
    """A supply of 5 W whose last digit changes: one that never changes measures nothing."""
    return Supply({"MEAS:POW?": lambda place: b"+5.00%dE+00" % (place % 2)})


@pytest.mark.alone
@pytest.mark.parametrize(
    ("make", "text", "power_w"),
    [
        (
            lambda: Server(flickering_supply()),
            "scpi:{address},query=MEAS:POW?,rate=50,gain=0.1%,offset=0.001",
            5.0,
        ),
        (
            lambda: Server(flickering_supply()),
            "scpi:{address},query=MEAS:POW?,mean=0.02",
            5.0,
        ),
        (
            lambda: PtdEmulator(interval_s=0.02, power_w=lambda time_s: 22.95 + 1e-3 * time_s),
            "ptdaemon:{address}",
            22.95,
        ),
    ],
)
def test_run_has_the_energy_of_the_instrument(
    host: Host, make: Callable[[], AbstractContextManager[Any]], text: str, power_w: float
) -> None:
    """Otherwise the windows, clock or boundary of a meter could be unknown in a run."""
    # Long enough for other load that takes a part of the loop before it is steady.
    with make() as instrument:
        document = measured(host, text.format(address=instrument.address), "--duration", "1s")
    energy = document["metrics"]["energy"]
    assert energy["refused"] is None
    assert energy["power_w_mean"] == pytest.approx(power_w, rel=0.01)
    assert energy["sync"]["method"] == "probes"
    assert energy["u95_absolute_j"] > 0
    throughput = document["metrics"]["throughput_per_s"]
    assert energy["gross_j_per_inference"] == pytest.approx(power_w / throughput, rel=0.2)


@pytest.mark.alone(is_exclusive=True)  # its power follows every worker of this machine
def test_run_without_a_meter_looks_like_one_with_it_and_says_that_it_is_none(host: Host) -> None:
    """Otherwise a newcomer's first run would confuse, or its synthetic numbers be published."""
    document = measured(host, "synthetic")
    energy = document["metrics"]["energy"]
    assert energy["refused"] is None
    seen = {one["method"]: one["error_ns"] for one in energy["sync"]["tried"]}
    assert seen["coded_load"] is not None, energy["sync"]
    assert energy["boundary"] == "synthetic"
    assert energy["power_w_mean"] > energy["power_w_idle"] + 0.3
    assert energy["net_j_per_inference"] > 0
    findings = {one["id"]: one for one in document["verdict"]["rules"]}
    assert document["verdict"]["state"] == "suspect"
    assert findings["energy"]["outcome"] == "fail"
    assert "simulated, not measured" in findings["energy"]["detail"]
    assert findings["energy_sync"]["outcome"] == "pass"


class CpuTrace:
    """Current of a device whose CPU time is watched during a block: 0.1 A, and 0.2 A more."""

    def __init__(self) -> None:
        self._over = threading.Event()
        self._looks: list[tuple[float, float]] = []
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> CpuTrace:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _watch(self) -> None:
        cpu_time = WorkerTime()
        while not self._over.wait(0.002):
            self._looks.append((time.monotonic(), cpu_time() / 1e9))

    def currents(self, edges_s: NDArray[np.float64]) -> list[float]:
        """Means between these times, ampere."""
        busy_s = np.interp(edges_s, *np.array(self._looks).T)
        return [float(one) for one in 0.1 + 0.2 * np.diff(busy_s) / np.diff(edges_s)]


@pytest.mark.alone(is_exclusive=True)  # its power follows every worker of this machine
@pytest.mark.parametrize(
    ("model", "rate_hz", "duration", "jitter_s"),
    [
        ("Ace", 20_000, "1s", None),
        # The rates of the clocks are known to the time between the codes.
        ("Arc", 4000, "8s", 0.25e-3),
    ],
)
def test_run_with_a_unit_that_has_a_clock_of_its_own_is_aligned(
    host: Host, model: str, rate_hz: int, duration: str, jitter_s: float | None
) -> None:
    """Otherwise the energy of an Otii would be no number, or that of another moment."""
    unit = OtiiEmulator(model=model, rate_hz=rate_hz, drift_ppm=300.0)
    with CpuTrace() as trace, unit as server:
        server.currents = trace.currents
        words = "--idle", "2s", "--duration", duration
        document = measured(host, f"otii:{server.address}", *words)
    energy = document["metrics"]["energy"]
    assert energy["refused"] is None
    seen = {one["method"]: one["error_ns"] for one in energy["sync"]["tried"]}
    assert seen["coded_load"] is not None, energy["sync"]
    assert energy["power_w_idle"] == pytest.approx(0.1 * 3.7, rel=0.05)
    assert energy["power_w_mean"] > 0.2 * 3.7
    assert 0 < energy["net_j_per_inference"] < energy["gross_j_per_inference"]
    # Few instants: the loop has random gaps, which are no part of its energy.
    assert document["spec"]["jitter_s"] == jitter_s
    assert (energy["gaps_s"] is not None) == (jitter_s is not None)


def test_run_with_a_plug_has_its_power_and_says_what_an_energy_takes(host: Host) -> None:
    """Otherwise a plug would fail in a run, or a single second of it would count as an energy."""
    with ShellyEmulator(power_w=23.0) as plug:
        document = measured(host, f"shelly:{plug.address},rate=5")
    energy = document["metrics"]["energy"]
    assert "too short" in energy["refused"]
    assert "60 s" in energy["refused"]
    assert energy["gross_j_per_inference"] is None
    assert document["metrics"]["latency_ns"]["p50"] > 0
    findings = {one["id"]: one["outcome"] for one in document["verdict"]["rules"]}
    assert (findings["meter"], findings["energy"]) == ("pass", "fail")
    recorded = PowerFile.open(host.folder / "data/edgebench/runs" / document["run_id"])
    begin_ns, end_ns = recorded.span_ns("plug")
    assert end_ns - begin_ns > 2e9, "all of the run"
    energy_j = recorded.energy_j("plug", begin_ns, end_ns)
    assert energy_j == pytest.approx(23.0 * (end_ns - begin_ns) / 1e9)


@pytest.mark.parametrize(
    ("make", "name"),
    [(ShellyEmulator, "shelly"), (TasmotaEmulator, "tasmota"), (KasaEmulator, "kasa")],
)
def test_recording_of_a_plug_is_trusted_as_far_as_it_goes(
    host: Host,
    tmp_path: Path,
    make: Callable[[], ShellyEmulator | TasmotaEmulator | KasaEmulator],
    name: str,
) -> None:
    """Otherwise a recording would have no energy, or an energy without uncertainty."""
    with make() as plug:
        plug.power_w = 23.0
        words = ("meters", "record", f"{name}:{plug.address},rate=2", "--duration", "3s")
        said = host.run(*words, "--output", str(tmp_path / "r"), "--json")
    assert said.returncode == 0, said.stderr
    (channel,) = json.loads(said.stdout)["channels"]
    assert channel["power_w_mean"] == pytest.approx(23.0)
    assert channel["power_w_mean_u95_absolute"] > 0.5


def test_recording_of_a_gpu_by_nvidias_client(host: Host, tmp_path: Path) -> None:
    """The library is found in the place where a user has it."""
    pytest.importorskip(
        "pynvml", reason="nvidia-ml-py is not installed: the driver reads the counter by it"
    )
    with fake_gpu(tmp_path / "gpu") as gpu, pytest.MonkeyPatch.context() as patch:
        gpu.be(power_w=40.0)
        for variable, value in gpu.environment.items():
            patch.setenv(variable, value)
        words = ("meters", "record", "nvml", "--duration", "3s", "--json")
        said = host.run(*words, "--output", str(tmp_path / "r"))
    assert said.returncode == 0, said.stderr
    (channel,) = json.loads(said.stdout)["channels"]
    assert channel["power_w_mean"] == pytest.approx(40.0, rel=0.1)
