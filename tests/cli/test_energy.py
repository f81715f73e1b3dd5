"""Runs of bench --meter in the document, on the page and in the comparison."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
from support.agents import Host, end_local_agent
from support.commands import METERED, Measured, Run
from support.metered import store_metered_run
from support.records import RUN_ID
from support.tools import need_runtime

from edgebench.host.result.document import from_document, to_document
from edgebench.host.store.layout import Store

MODEL = "digits_int8.tflite"
METER = "synthetic:square,low=0.5,high=1.5,period=0.004"
"""Power with a short period, so that an incomplete one in a window changes little: otherwise the
net energy, which is 0, might be below zero by more than its uncertainty."""
DESIGNED = {
    *("gross_j_per_inference", "net_j_per_inference", "u95_absolute_j", "u95_comparative_j"),
    *("power_w_mean", "power_w_idle", "power_w_peak", "sync", "boundary", "meter"),
}
"""Keys of `energy` in design.md, which scripts depend on."""
EXIT_CODES = {"worse": 4, "equivalent": 0, "better": 0, "inconclusive": 5}


@pytest.fixture(scope="module")
def metered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Measured]:
    """One metered run of this machine; its local agent is ended afterwards."""
    need_runtime("ai-edge-litert")
    host = Host(tmp_path_factory.mktemp("metered"))
    words = ("bench", MODEL, *METERED, "--meter", METER, "--battery", "18.5Wh", "--json")
    result = host.run(*words)
    yield Measured(host, result.stdout, result.stderr, result.returncode)
    end_local_agent(host)


def store_of(host: Host) -> Store:
    """The store of this host."""
    return Store(host.folder / "data" / "edgebench")


def store_side(host: Host, name: str, ratio: float, **changes: object) -> list[str]:
    """Eight stored runs whose energy is scaled by this factor; their ids."""
    store = store_of(host)
    if not store.run_ids():
        store_metered_run(store)
    made, ids = store.document(RUN_ID), []
    for number in range(8):
        document = deepcopy(made) | {"run_id": f"20260103-00000{number}-{name}"}
        document["model"] |= {"name": f"{name}.tflite", "sha256": name}
        energy = document["metrics"]["energy"]
        energy["gross_j_per_inference"] *= ratio * (1 + number / 1e4)
        energy |= changes
        folder = store.runs / document["run_id"]
        folder.mkdir()
        (folder / "run.json").write_text(json.dumps(document))
        ids.append(document["run_id"])
    return ids


def test_metered_run_has_every_key_of_the_design(metered: Measured) -> None:
    """Otherwise a script would miss a documented key, or read a number where a reason belongs."""
    assert metered.code == 0, metered.err
    energy = metered.document["metrics"]["energy"]
    assert energy.keys() >= DESIGNED
    assert energy["sync"].keys() >= {"method", "error_ns"}
    numbers = DESIGNED - {"sync", "boundary", "meter"}
    assert {name for name in numbers if not isinstance(energy[name], float)} == set()
    assert energy["refused"] is None
    assert energy["boundary"] == "synthetic"
    assert energy["gross_j_per_inference"] * energy["inferences_per_j"] == pytest.approx(1)
    assert energy["power_w_peak"] == pytest.approx(1.5)
    assert metered.document["spec"]["load_code_chip_s"] is not None


def test_refused_energy_has_the_same_keys(tmp_path: Path, metered: Measured) -> None:
    """Otherwise reading a refused energy would raise a KeyError or yield zero."""
    store = Store(tmp_path)
    store_metered_run(store, trouble="serial port /dev/ttyACM0 is gone")
    refused = store.document(RUN_ID)["metrics"]["energy"]
    assert refused.keys() == metered.document["metrics"]["energy"].keys()
    told = {name for name, value in refused.items() if value not in (None, [])}
    assert told == {"meter", "settings_sha256", "checks", "refusal", "refused", "refused_by"}
    assert refused["refused_by"] == "meter"
    assert refused["refused"] == "complete: serial port /dev/ttyACM0 is gone"


def test_document_is_plain_json(metered: Measured) -> None:
    """Otherwise NaN, which is no JSON, would make other languages refuse the whole file."""

    def refuse(text: str) -> float:
        raise AssertionError(text)

    json.loads(metered.out, parse_constant=refuse)


def test_document_that_is_read_and_written_again_is_the_same_text(metered: Measured) -> None:
    """Otherwise tagging a metered run would change its numbers, and `verify` would report it."""
    again = to_document(from_document(metered.document))
    assert json.dumps(again) == json.dumps(metered.document)


def test_battery_is_in_the_document_and_on_the_page(metered: Measured) -> None:
    """Otherwise watt-hours would be read as joules, or the estimate lack the capacity."""
    energy = metered.document["metrics"]["energy"]
    battery = energy["battery"]
    assert battery["capacity_j"] == 18.5 * 3600
    expected = 18.5 * 3600 / energy["gross_j_per_inference"]
    assert battery["inference_count"] == pytest.approx(expected)
    shown = metered.host.run("show", metered.run_id)
    assert shown.returncode == 0, shown.stderr
    (line,) = [line for line in shown.stdout.splitlines() if line.startswith("battery")]
    assert "of continuous inference, with the stated capacity of 66.6 kJ" in line


def test_metered_run_is_verified(metered: Measured) -> None:
    """The joules of a run follow from its stored data."""
    verified = metered.host.run("verify", metered.run_id)
    assert (verified.returncode, verified.stderr) == (0, "")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--battery", "18.5Wh"), "--battery needs a meter: --meter METER"),
        (("--idle", "2s"), "--idle needs a meter: --meter METER"),
        (("--sync", "edge"), "--sync needs a meter: --meter METER"),
        (("--sync", "auto"), "--sync needs a meter: --meter METER"),
        (("--meter", METER, "--sync", "telepathy"), "unknown synchronisation 'telepathy'"),
        (("--meter", METER, "--battery", "18"), "not a capacity of a battery: '18'"),
        (("--metric", "energy_j"), "--metric needs --against B"),
        (
            ("--against", "digits_fp32.tflite", "--metric", "energy_j"),
            "metric energy.gross_j_per_inference needs a meter: --meter METER",
        ),
        (
            ("--against", "digits_fp32.tflite", "--meter", METER, "--metric", "joules"),
            "metric 'joules' cannot be compared; comparable metrics",
        ),
        (
            ("--against", "digits_fp32.tflite", "--meter", METER, "--metric", "energy.duration_s"),
            "metric 'energy.duration_s' cannot be compared; comparable metrics: energy_j",
        ),
        (
            ("--against", MODEL, "--meter", METER, "--metric", "energy.phases.load.energy_j"),
            "metric 'energy.phases.load.energy_j' cannot be compared: its uncertainty",
        ),
        (("--meter", "agent:wattson"), "unknown meter 'wattson'"),
        (
            ("--meter", METER, "--on", "a", "--on", "b"),
            f"meter {METER} is wired to one device, not to a, b; for a meter of each",
        ),
        (("--meter", "hwmon:/nowhere"), "meter hwmon cannot be used: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_senseless_energies_are_refused(edgebench: Run, words: tuple[str, ...], said: str) -> None:
    """Otherwise an option without effect would be accepted, or a run made for nothing."""
    found = edgebench("bench", MODEL, *words)
    assert found.code == 2
    (error,) = [line for line in found.err.splitlines() if "error:" in line]
    assert said in error
    assert "Traceback" not in found.err
    assert "run: " not in found.err


def test_hints_about_meters_lead_to_the_meters(edgebench: Run) -> None:
    """Otherwise an error about a meter would lead to the help of bench."""
    for meter in ("wattson", "agent:wattson", "hwmon:/nowhere"):
        said = edgebench("bench", MODEL, "--meter", meter)
        hint = said.err.splitlines()[-1]
        assert (
            hint == "hint: see which meters are available, and why others are not: edgebench meters"
        )


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("edge", "edge: not applicable to a meter with the clock meter:synthetic"),
        ("probes", "probes: not applicable to a meter with the clock meter:synthetic"),
        ("shared_clock", "shared_clock: not applicable to a meter with the clock meter:synthetic"),
    ],
)
def test_way_that_cannot_be_had_refuses_the_energy(
    metered: Measured, method: str, reason: str
) -> None:
    """Otherwise another method than requested would be used, or the latencies lost."""
    result = metered.host.run(
        "bench", MODEL, *METERED, "--meter", METER, "--sync", method, "--json"
    )
    assert result.returncode == 3, result.stderr
    (document,) = json.loads(result.stdout)["runs"]
    energy = document["metrics"]["energy"]
    assert energy["refused"] == f"the clocks of meter and device could not be aligned; {reason}"
    assert (energy["sync"]["method"], energy["sync"]["asked"]) == (None, method)
    assert document["metrics"]["latency_ns"]["p50"] > 0
    assert document["verdict"]["state"] == "suspect"
    assert reason in result.stderr


def test_way_that_was_asked_for_is_named(metered: Measured) -> None:
    """Otherwise the document would name the best method instead."""
    words = ("--meter", METER, "--sync", "arrival", "--json")
    result = metered.host.run("bench", MODEL, *METERED, *words)
    (document,) = json.loads(result.stdout)["runs"]
    sync = document["metrics"]["energy"]["sync"]
    assert (sync["method"], sync["asked"]) == ("arrival", "arrival")
    assert sync["error_ns"] > 0
    assert document["conditions"]["marks"]["codes"] == []
    is_invalid = document["verdict"]["state"] == "invalid"
    assert result.returncode == (3 if is_invalid else 0), result.stderr


@pytest.mark.parametrize(("ratio", "outcome"), [(1.1, "worse"), (1.0, "equivalent")])
def test_stored_energies_are_compared(
    edgebench: Run, host: Host, ratio: float, outcome: str
) -> None:
    """Otherwise a model that takes a tenth more energy would pass the gate of a build."""
    before, after = store_side(host, "before", 1.0), store_side(host, "after", ratio)
    words = ("compare", *before, "--against", *after, "--metric", "energy_j")
    said = edgebench(*words)
    assert (said.code, said.err) == (EXIT_CODES[outcome], "")
    assert outcome in said.out
    assert "note: the interval includes ±" in said.out
    (found,) = json.loads(edgebench(*words, "--json").out)["comparisons"]
    assert found["metric"] == "energy.gross_j_per_inference"
    assert found["result"]["rules"]["instrument_ratio"] > 0


@pytest.mark.parametrize(
    ("changes", "code", "said", "next_step"),
    [
        ({"meter": "other"}, 2, "they differ in the meter (", "edgebench bench A --against B"),
        ({"boundary": "wall"}, 2, "they differ in the meter (", "edgebench bench A --against B"),
        (
            {"gross_j_per_inference": None, "refused": "loss: 9 samples"},
            1,
            "has no energy.gross_j_per_inference: loss: 9 samples",
            "measure again",
        ),
    ],
)
def test_energies_that_cannot_be_compared_are_one_line(
    edgebench: Run, host: Host, changes: dict[str, Any], code: int, said: str, next_step: str
) -> None:
    """Otherwise two boundaries would be ranked, or a refused energy end in a traceback."""
    before = store_side(host, "before", 1.0)
    after = store_side(host, "after", 1.0)
    path = store_of(host).runs / after[2] / "run.json"
    document = json.loads(path.read_text())
    document["metrics"]["energy"] |= changes
    path.write_text(json.dumps(document))
    found = edgebench("compare", *before, "--against", *after, "--metric", "energy_j")
    assert (found.code, found.out) == (code, "")
    error, hint = found.err.splitlines()
    assert said in error
    assert next_step in hint


@pytest.mark.slow
def test_energies_of_two_models_are_measured_and_compared(metered: Measured) -> None:
    """Pairs that are measured with a meter can be compared by energy, not only by latency.

    Which model takes less depends on this machine.
    """
    result = metered.host.run(
        *("bench", MODEL, "--against", "digits_fp32.tflite", "--pairs", "6", *METERED),
        *("--duration", "0.2s", "--idle", "0.1s", "--sync", "arrival"),
        *("--meter", METER, "--metric", "energy_j", "--json"),
    )
    document = json.loads(result.stdout)
    assert len(document["runs"]) == 12
    (found,) = document["comparisons"]
    assert result.returncode == EXIT_CODES[found["result"]["outcome"]], result.stderr
    assert found["metric"] == "energy.gross_j_per_inference"
    assert found["result"]["rules"]["design"] == "paired"
    assert found["result"]["rules"]["instrument_ratio"] > 0
    again = metered.host.run("compare", found["comparison_id"], "--metric", "energy_j", "--json")
    assert again.returncode == result.returncode
    assert json.loads(again.stdout)["comparisons"] == document["comparisons"]
