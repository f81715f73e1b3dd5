"""Runs that differ in more than the model are compared only where that is allowed."""

from __future__ import annotations

import re

import pytest
from support.changes import changed
from support.records import CREATED_UTC, latencies, run_record, traces_of, worker_record

from edgebench.host.analysis.compare.comparability import (
    KEYS,
    check_comparable,
    differences,
    fingerprint,
)
from edgebench.host.analysis.run import analyse_run
from edgebench.host.result.facts import CommandFacts
from edgebench.protocol.device import AndroidSystem
from edgebench.protocol.errors import UsageError
from edgebench.protocol.record import AndroidGroups, CpuQuota, EmulatorFacts, FirmwareFacts
from edgebench.protocol.spec import Engine, RunSpec, Scenario

RUN = analyse_run(
    run_record(worker_record(latencies())),
    traces_of(latencies()),
    created_utc=CREATED_UTC,
    clock=None,
)
SERVED = changed(RUN, {"spec": RunSpec("tflite", scenario=Scenario.SERVER, target_qps=10.0)})
EMULATOR = EmulatorFacts("QEMU", "7.2.22", "mps2-an386", instruction_ns=8.0)
BOARD = changed(
    RUN, {"conditions.firmware": FirmwareFacts("nucleo", "1", "ab" * 32, emulator=EMULATOR)}
)
"""A device that timed itself."""
PHONE = changed(
    RUN,
    {
        "environment.android": AndroidSystem("shiba", "Pixel 8", "16", 36, None, "ab" * 32),
        "conditions.scheduling.android": AndroidGroups("/", None, None),
    },
)
RUN_WITH = {
    "target_qps": SERVED,
    "firmware": BOARD,
    "emulator": BOARD,
    **dict.fromkeys(("android_build", "android_group"), PHONE),
}
"""Runs with keys that others do not have."""
OTHERS: dict[str, tuple[str, object]] = {
    "device": ("device.id", "something else"),
    "arch": ("device.arch", "something else"),
    "os": ("device.os", "something else"),
    "cpu": ("environment.cpu.model", "something else"),
    "usable_cpus": ("environment.cpu.usable_count", 3),
    "memory": ("environment.memory_total_bytes", 5),
    "kernel": ("environment.kernel", "something else"),
    "virtualization": ("environment.virtualization", "something else"),
    "android_build": ("environment.android.fingerprint_sha256", "ef" * 32),
    "android_group": ("conditions.scheduling.android.cpuset", "/background"),
    "python": ("environment.python", "something else"),
    "packages": ("environment.packages", {"something": "else"}),
    "firmware": ("conditions.firmware.sha256", "cd" * 32),
    "emulator": ("conditions.firmware.emulator.version", "8.2.0"),
    "model_source": ("model.sha256", None),
    "runtime": ("runtime.name", "something else"),
    "runtime_version": ("runtime.version", "something else"),
    "delegates_used": ("runtime.delegates_used", ("something else",)),
    "scenario": ("spec.scenario", Scenario.OFFLINE),
    "engine": ("spec.engine", Engine.LOADGEN),
    "threads": ("spec.threads", 7),
    "delegate": ("spec.delegate", "something else"),
    "signature": ("spec.signature", "something else"),
    "samples_per_query": ("spec.samples_per_query", 7),
    "target_qps": ("spec.target_qps", 7.0),
    "sample_count": ("spec.sample_count", 7),
    "input_shapes": ("spec.input_shapes", {"ids": (1, 128)}),
    "inputs": ("spec.inputs_sha256", "ff" * 32),
    "duration": ("spec.duration_s", 7.0),
    "cpus": ("conditions.scheduling.cpus", (7,)),
    "cpu_quota": ("conditions.scheduling.quotas", (CpuQuota(0.5, 0.1),)),
    "policy": ("conditions.scheduling.policy", "something else"),
    "governor": ("conditions.before.governors", ("something else",)),
    "supply": ("conditions.supply_v", 1.8),
    "airplane_mode": ("spec.is_airplane_mode", True),
    "screen_brightness": ("spec.screen_brightness", 40),
    "kind": ("kind", "profile"),
    "emulated": ("emulated", True),
    "simulated": ("simulated", True),
}
"""Where a run holds each key of a fingerprint, and a different value for it."""


def test_every_part_of_a_fingerprint_is_in_a_run() -> None:
    """Otherwise a key would be `none` in every run, and two devices would be compared as one."""
    absent = {key for key, value in fingerprint(RUN).items() if value == "none"}
    only_others = {"firmware", "emulator", "android_build", "android_group", "screen_brightness"}
    only_others |= {"supply"}
    assert absent - only_others == {
        "virtualization",
        "delegate",
        "signature",
        "cpu_quota",
        "target_qps",
        "input_shapes",
        "inputs",
    }
    assert OTHERS.keys() == KEYS.keys()


@pytest.mark.parametrize("key", KEYS)
def test_difference_in_any_key_is_refused_by_its_name_and_may_be_allowed(key: str) -> None:
    """Otherwise a run under another governor or on another device would be called a regression."""
    run = RUN_WITH.get(key, RUN)
    path, value = OTHERS[key]
    other = changed(run, {path: value})
    shown = fingerprint(run)[key], fingerprint(other)[key]
    assert shown[0] != shown[1]
    with pytest.raises(UsageError, match=re.escape(f"differ in {key} ({' / '.join(shown)})")):
        check_comparable([run], [other])
    assert check_comparable([run], [other], allowed=[key]) == {key: shown}


@pytest.mark.parametrize(
    ("meter", "supply"),
    [
        ("lpm01a:/dev/ttyACM0,supply=1.8", "1.8 V"),
        ("ppk2:/dev/ttyACM0,supply=1.8", "none"),
        ("agent:lpm01a", "none"),
        ("meter-of-another-version,supply=1.8", "none"),
    ],
)
def test_older_run_has_the_voltage_of_its_meters_text(meter: str, supply: str) -> None:
    """Otherwise the same command would be refused with a baseline of before."""
    command = CommandFacts("command-1", (("digits_int8.tflite",), ("--meter", meter)))
    assert fingerprint(changed(RUN, {"command": command}))["supply"] == supply


def test_difference_is_shown_in_the_words_of_the_document() -> None:
    """Otherwise the user would read `Scenario.OFFLINE`, a tuple or a dictionary."""
    names = "scenario", "packages", "delegates_used", "governor", "duration", "emulated"
    found = fingerprint(RUN)
    assert [found[name] for name in names] == [
        "single_stream",
        "edgebench 0.1.0, tflite-runtime 2.14.0",
        "xnnpack",
        "performance",
        "0.01",
        "False",
    ]


def test_difference_within_one_side_is_refused_too() -> None:
    """Otherwise half of the baseline could have been measured with two threads."""
    other = changed(RUN, {"spec.threads": 2})
    with pytest.raises(UsageError, match=r"differ in threads \(1 / 2\)"):
        check_comparable([RUN, other], [RUN])


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("model.sha256", "ff" * 32),
        ("model.name", "other.tflite"),
        ("metrics.latency_ns.p50", 5),
        ("run_id", "another"),
        ("environment.load_1m", 0.3),
    ],
)
def test_what_is_measured_is_no_difference(path: str, value: object) -> None:
    """Otherwise two models could never be compared."""
    assert check_comparable([RUN], [changed(RUN, {path: value})]) == {}
    assert differences([RUN, RUN]) == {}


def test_side_of_two_models_is_refused() -> None:
    """Otherwise the median of two models would be compared with that of a third."""
    other = changed(RUN, {"model.sha256": "ff" * 32})
    with pytest.raises(UsageError, match="baseline has several models"):
        check_comparable([RUN, other], [RUN])


def test_unknown_key_is_refused() -> None:
    """Otherwise a mistyped --allow would silently allow nothing."""
    with pytest.raises(UsageError, match="unknown key 'freqency'; available: device"):
        check_comparable([RUN], [RUN], allowed=["freqency"])


def test_share_of_a_duration_is_that_duration() -> None:
    """Otherwise three runs that share 0.3 s could not be compared with one of 0.1 s."""
    shared = changed(RUN, {"spec.duration_s": 0.3 / 3})
    alone = changed(RUN, {"spec.duration_s": 0.1})
    assert shared.spec.duration_s != alone.spec.duration_s
    assert check_comparable([shared], [alone]) == {}
