"""Power that a meter records reaches the store, and becomes joules or a reason why not."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from support.agents import AgentProcess, Host
from support.commands import METERED
from support.powercap import Counter
from support.ppk2 import Faults, Ppk2Emulator
from support.tools import need_runtime
from support.undisturbed import undisturbed
from support.watchers import wait_until_measuring

from edgebench.host.bench.verify import verify
from edgebench.host.show.tables import SUSPECT_MARK
from edgebench.host.store.index import list_runs
from edgebench.host.store.power_file import read_power_facts

WATTS = 10.0
MODEL = "digits_int8.tflite"
IN_LOOP = ("--duration", "2s")
"""For a meter that is lost in the timed loop: before it, the run would be stopped."""
IDLE_S = 3.0
SLOW = ("--duration", "6s", "--idle", f"{IDLE_S:g}s")
"""For a meter whose windows are 2 s at least: the latencies of a busy machine may be steady in the
last third of the loop only."""
SQUARE = "synthetic:square,low=0.5,high=1.5,period=0.1"


def document_of(result: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    """The only run that `bench --json` printed."""
    (document,) = json.loads(result.stdout)["runs"]
    found: dict[str, Any] = document
    return found


def rules_of(document: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """Outcome and detail by rule."""
    return {one["id"]: (one["outcome"], one["detail"]) for one in document["verdict"]["rules"]}


def is_number(name: str, value: object) -> bool:
    """Whether this key of `metrics.energy` contains a result in joules."""
    return value not in (None, []) and name not in (
        *("meter", "supply_v", "settings_sha256"),
        *("checks", "refusal", "refused", "refused_by", "boundary", "channels", "sync"),
    )


def store_root(host: Host) -> Path:
    """Root of the host's store."""
    return host.folder / "data" / "edgebench"


def incoming(host: Host) -> list[Path]:
    """What is left of runs that did not reach the store."""
    folder = store_root(host) / "incoming"
    return list(folder.iterdir()) if folder.exists() else []


def net_of(energy: dict[str, Any]) -> float:
    """Joules per inference without idle, computed here; the run has the same, or a reason for none.

    Of a constant power it is about 0; a value below 0 by more than the uncertainty is refused.
    """
    idle_w, count = energy["power_w_idle"], energy["inference_count"]
    expected_j: float = energy["gross_j_per_inference"] - idle_w * energy["duration_s"] / count
    if energy["net_j_per_inference"] is None:
        assert expected_j < 0
        refused = "the device used more power while it was idle than during the run"
        assert energy["net_refused"] == refused
    else:
        assert energy["net_j_per_inference"] == pytest.approx(expected_j)
        assert energy["net_refused"] is None
    return expected_j


def disturbance(result: subprocess.CompletedProcess[str], counter: Counter) -> str | None:
    """What another process did to a run with a polled counter; None: nothing.

    The counter stood still, or was read too late to tell that from a loss, or the latencies were
    steady for less time than a window takes.
    """
    energy = document_of(result)["metrics"]["energy"]
    if energy["refused"] is None:
        late_limit_s = 0.03 * min(energy["duration_s"], IDLE_S)
        late = counter.late_s > late_limit_s
        return f"counter stood still for {counter.late_s:.3f} s" if late else None
    is_of_the_machine = re.match("loss: |window of .* is too short", energy["refused"])
    return energy["refused"] if is_of_the_machine else None


@pytest.mark.alone
def test_constant_power_gives_its_joules(host: Host, tmp_path: Path) -> None:
    """Otherwise the window, the count or a unit could be wrong.

    Joules per inference are power times mean time.
    """
    counter = Counter(tmp_path / "root")
    words = ("bench", MODEL, *METERED, *SLOW)

    def measure() -> subprocess.CompletedProcess[str]:
        with counter.burning(WATTS):
            return host.run(*words, "--meter", f"rapl:{tmp_path / 'root'}", "--json")

    result = undisturbed(measure, lambda result: disturbance(result, counter))
    document = document_of(result)
    energy = document["metrics"]["energy"]
    assert result.returncode == 0, (result.stderr, energy)
    run = host.lab.run()
    timed = run.queries[document["metrics"]["warmup"]["query_count"] :]
    mean_s = (timed["end_ns"] - timed["start_ns"]).mean() / 1e9
    assert energy["gross_j_per_inference"] == pytest.approx(WATTS * mean_s, rel=0.05)
    assert energy["inference_count"] == len(timed)
    assert energy["energy_delay_js"] == pytest.approx(energy["gross_j_per_inference"] * mean_s)
    assert energy["sync"]["method"] == "probes"
    assert energy["boundary"] == "package"
    idle_w = [energy["power_w_idle_before"], energy["power_w_idle_after"]]
    assert idle_w == pytest.approx([WATTS, WATTS], rel=0.05)
    assert energy["power_w_mean"] == pytest.approx(WATTS, rel=0.05)
    assert abs(net_of(energy)) < 0.1 * energy["gross_j_per_inference"]
    table = pq.read_table(run_directory(host, document) / "power.parquet")
    times = table["time_ns"].to_pylist()
    assert times[0] < run.queries["start_ns"].iloc[0] < run.queries["end_ns"].iloc[-1] < times[-1]


def run_directory(host: Host, document: dict[str, Any]) -> Path:
    """Where a run is stored."""
    return host.lab.store.directory(document["run_id"])


def test_meter_of_this_machine_is_refused_for_another(paired: Host) -> None:
    """Otherwise the host's own power would be printed as the device's."""
    result = paired.run("bench", "digits_int8.tflite", "--on", "board", "--meter", "rapl")
    assert result.returncode == 2
    assert "meter rapl measures this machine, not board" in result.stderr


def test_meter_with_wires_may_measure_another_machine(paired: Host) -> None:
    """Otherwise a PPK2 next to the board would be refused, or be refused after the first run."""
    with Ppk2Emulator() as emulator:
        for _ in range(2):
            [run] = paired.lab.bench(
                "digits_int8.tflite",
                runs=1,
                on=["board"],
                runtime="litert",
                duration_s=0.5,
                min_query_count=10,
                warmup_duration_s=0.1,
                is_checked=False,
                idle_duration_s=0.5,
                meter=f"ppk2:{emulator.path},supply=3.3",
            )
    facts = read_power_facts(paired.lab.store.directory(run.id))
    assert facts.header.info.model == "Power Profiler Kit II"
    assert facts.loss.received_count > 10_000
    assert (facts.loss.lost_count, facts.loss.trouble) == (0, None)
    assert (paired.lab.store.directory(run.id) / "raw/meter.spool").exists()


@contextmanager
def lost_in_the_loop(host: Host) -> Iterator[Ppk2Emulator]:
    """A meter that is pulled out in the timed loop of the first run."""

    def pull() -> None:
        wait_until_measuring(store_root(host) / "agent")
        emulator.faults = Faults(gone_after_s=0.0)

    with Ppk2Emulator() as emulator, ThreadPoolExecutor(1) as pool:
        pulled = pool.submit(pull)
        yield emulator
        pulled.result()


class Cable:
    """The port of a meter by the name that udev gives it, until it is taken away."""

    def __init__(self, folder: Path, emulator: Ppk2Emulator) -> None:
        self._path = folder / "ttyACM0"
        self._path.symlink_to(emulator.path)
        self.meter = f"ppk2:{self._path},supply=3.3"

    def remove(self) -> None:
        """Remove the link, as the pseudo-terminal's own name may be another's by now."""
        self._path.unlink()


def assert_energy_is_refused(document: dict[str, Any]) -> None:
    """Assert that everything but the energy is there."""
    metrics = document["metrics"]
    energy = metrics["energy"]
    assert metrics["latency_ns"]["count"] > 10
    assert metrics["latency_ns"]["p50"] > 0
    assert "is gone" in energy["refused"]
    assert [name for name, value in energy.items() if is_number(name, value)] == []
    assert document["verdict"]["state"] == "suspect"
    rules = rules_of(document)
    outcome, detail = rules["meter"]
    assert outcome == "fail"
    assert "is gone" in detail
    assert rules["energy"][0] == "fail"
    assert rules["complete"][0] == "pass"


def test_meter_that_is_pulled_out_costs_the_energy_alone(host: Host, tmp_path: Path) -> None:
    """Otherwise a loose cable would lose the latencies, or joules of half a run be printed."""
    need_runtime("ai-edge-litert")
    with lost_in_the_loop(host) as emulator:
        cable = Cable(tmp_path, emulator)
        words = ("bench", MODEL, *METERED, *IN_LOOP, "--meter", cable.meter, "--json")
        result = host.run(*words)
        assert result.returncode == 3, result.stderr
        document = document_of(result)
        assert_energy_is_refused(document)
        assert "is gone" in result.stderr
        facts = read_power_facts(run_directory(host, document))
        assert facts.loss.trouble is not None
        assert "is gone" in facts.loss.trouble
        verified = host.run("verify", document["run_id"])
        assert verified.returncode == 0, verified.stdout
        shown = host.run("show", document["run_id"]).stdout
        assert "refused: complete: serial port" in shown
        cable.remove()
        again = host.run(*words)
    assert again.returncode == 2
    error, hint = [line for line in again.stderr.splitlines() if not line.startswith("run: ")]
    assert error.startswith("error: meter ppk2 cannot be used: no such serial port: ")
    assert hint == "hint: see which meters are available, and why others are not: edgebench meters"
    assert incoming(host) == []
    assert host.lab.store.run_ids() == [document["run_id"]]


def test_runs_before_the_meter_was_lost_are_printed(host: Host, tmp_path: Path) -> None:
    """Otherwise the table of an hour would be lost when the meter fails before the last model."""
    need_runtime("ai-edge-litert")
    with lost_in_the_loop(host) as emulator:
        meter = f"ppk2:{emulator.path},supply=3.3"
        result = host.run(
            "bench", MODEL, "digits_fp32.tflite", *METERED, *IN_LOOP, "--meter", meter
        )
    assert result.returncode == 1, result.stderr
    (row,) = [line for line in result.stdout.splitlines() if MODEL in line]
    header = next(line for line in result.stdout.splitlines() if "energy" in line)
    end = header.index("energy/inference") + len("energy/inference")
    # On a quiet machine, the energy is suspect unlike the headline.
    assert row[:end].split()[-1].rstrip(SUSPECT_MARK) == "refused"
    assert "digits_fp32.tflite" not in result.stdout
    lines = result.stderr.splitlines()
    (suspect,) = [line for line in lines if line.startswith("suspect") and "refused" in line]
    assert "energy refused: complete: serial port " in suspect
    assert "is gone" in suspect
    error, hint = lines[-2:]
    assert error.startswith("error: meter does not record: serial port ")
    assert "edgebench meters" in hint
    assert "Traceback" not in result.stderr
    assert incoming(host) == []
    (run_id,) = host.lab.store.run_ids()
    assert_energy_is_refused(host.lab.store.document(run_id))


def test_meter_that_falls_silent_in_the_first_idle_phase_ends_the_run(host: Host) -> None:
    """Otherwise the whole run would be made, for a minute or an hour, and have no energy."""
    need_runtime("ai-edge-litert")
    with Ppk2Emulator(faults=Faults(stall_at_s=0.2, stall_s=120.0)) as emulator:
        meter = f"ppk2:{emulator.path},supply=3.3"
        began_s = time.monotonic()
        result = host.run(
            *("bench", MODEL, "--meter", meter, "--duration", "60s", "--min-queries", "10"),
            *("--idle", "3s", "--cooldown", "0"),
        )
        passed_s = time.monotonic() - began_s
    assert result.returncode == 1, result.stderr
    assert passed_s < 50
    error, hint = result.stderr.splitlines()[-2:]
    assert error == (
        "error: run stopped before its first inference: the meter sent nothing for 2 s"
    )
    assert "edgebench meters" in hint
    assert incoming(host) == []
    [row] = list_runs(host.lab.store)
    assert (row.verdict, hint.split()[-1]) == ("failed", row.run_id)


@dataclass(frozen=True)
class MeterAgent:
    """An agent that serves meters: a counter, one that is missing, and a synthetic one."""

    agent: AgentProcess
    counter: Counter
    rapl: str
    missing: str


@pytest.fixture(scope="module")
def board(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MeterAgent]:
    """One agent for all hosts."""
    need_runtime("ai-edge-litert")
    folder = tmp_path_factory.mktemp("board")
    counter = Counter(folder / "root")
    rapl, missing = f"rapl:{folder / 'root'}", f"rapl:{folder / 'empty'}"
    options = [word for name in (SQUARE, rapl, missing) for word in ("--meter", name)]
    agent = AgentProcess(folder / "agent", options=["--name", "board", *options]).start()
    yield MeterAgent(agent, counter, rapl, missing)
    agent.kill()


@pytest.fixture
def served(board: MeterAgent, host: Host) -> Host:
    """A host that is paired with the agent."""
    host.lab.pair(board.agent.pairing_string())
    return host


def on_board(host: Host, meter: str, *words: str) -> subprocess.CompletedProcess[str]:
    """A run there, with this meter of the agent's."""
    return host.run(
        *("bench", MODEL, "--on", "board", *METERED, "--meter", f"agent:{meter}", *words, "--json")
    )


@pytest.mark.alone
def test_meter_that_the_agent_polls_has_the_device_s_clock(board: MeterAgent, served: Host) -> None:
    """Otherwise probes would shift such a meter's time, or its bytes would give no energy here."""

    def measure() -> subprocess.CompletedProcess[str]:
        with board.counter.burning(WATTS):
            return on_board(served, board.rapl, *SLOW)

    result = undisturbed(measure, lambda result: disturbance(result, board.counter))
    document = document_of(result)
    energy = document["metrics"]["energy"]
    assert result.returncode == 0, (result.stderr, energy)
    assert (energy["sync"]["method"], energy["sync"]["error_ns"]) == ("shared_clock", 0)
    assert energy["power_w_mean"] == pytest.approx(WATTS, rel=0.05)
    assert abs(net_of(energy)) < 0.1 * energy["gross_j_per_inference"]
    assert verify(served.lab.store, document["run_id"]) == []


@pytest.mark.alone
def test_meter_with_a_clock_of_its_own_is_laid_over_the_run(served: Host) -> None:
    """Otherwise a stream that the agent recorded would be refused for lack of a clock."""
    result = on_board(served, SQUARE, "--battery", "1kJ")
    document = document_of(result)
    energy = document["metrics"]["energy"]
    assert result.returncode == 0, (result.stderr, energy)
    assert energy["sync"]["method"] in ("arrival", "coded_load")
    assert energy["power_w_mean"] == pytest.approx(1.0, rel=0.1)
    assert energy["battery"]["capacity_j"] == 1000.0
    assert energy["boundary"] == "synthetic"
    assert len(document["conditions"]["marks"]["codes"]) == 2
    assert verify(served.lab.store, document["run_id"]) == []


def test_meter_that_the_agent_does_not_serve_is_refused_before_the_run(served: Host) -> None:
    """Otherwise a model would be sent and the device wait, only to yield no energy."""
    result = on_board(served, "hwmon")
    error, hint = result.stderr.splitlines()
    (entry,) = json.loads(result.stdout)["errors"]
    assert (result.returncode, entry["code"]) == (2, "meter_not_served")
    assert (error, hint) == (f"error: {entry['message']}", f"hint: {entry['hint']}")
    assert error.startswith(
        f"error: the agent of board does not serve meter hwmon; it serves {SQUARE}, rapl:"
    )
    assert "edgebench-agent serve --meter hwmon" in hint
    assert incoming(served) == []
    assert served.lab.store.run_ids() == []


def test_served_meter_that_is_missing_costs_the_energy_alone(
    board: MeterAgent, served: Host
) -> None:
    """Otherwise a board without counters would lose its latencies, or the reason for no joules."""
    result = on_board(served, board.missing)
    assert result.returncode == 3, result.stderr
    document = document_of(result)
    energy, rules = document["metrics"]["energy"], rules_of(document)
    assert document["metrics"]["latency_ns"]["p50"] > 0
    assert energy["refused"] == "no RAPL zone under /sys/class/powercap: this kernel exposes none"
    assert rules["meter"] == ("fail", energy["refused"])
    assert (document["verdict"]["state"], rules["complete"][0]) == ("suspect", "pass")
    assert energy["refused"] in result.stderr
    assert verify(served.lab.store, document["run_id"]) == []
