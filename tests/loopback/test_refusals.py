"""What cannot be measured is refused with the same message, whichever way it was requested."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.agents import AgentProcess, Host
from support.tools import need_runtime

from edgebench.host.bench.events import DeviceFailed, MeasurementEvent, RunFailed
from edgebench.protocol.errors import EdgebenchError, LeaseHeld

SHORT: dict[str, Any] = {
    "preset": "quick",
    "duration_s": 0.3,
    "warmup_duration_s": 0.05,
    "min_query_count": 5,
    "is_checked": False,
}
REFUSED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "CPU": ({"cpus": (900,)}, ("--cpus", "900")),
    "runtime that does not exist": ({"runtime": "onxx"}, ("--runtime", "onxx")),
    "runtime of another format": ({"runtime": "onnx"}, ("--runtime", "onnx")),
    "meter that is not served": ({"meter": "agent:rapl"}, ("--meter", "agent:rapl")),
    "meter without a driver": ({"meter": "nometer"}, ("--meter", "nometer")),
    "meter of this machine": ({"meter": "battery"}, ("--meter", "battery")),
    "idle time without a meter": ({"idle_duration_s": 2.0}, ("--idle", "2s")),
    "temperature of the air": ({"ambient_c": 200.0}, ("--ambient", "200")),
    "scenario": ({"scenario": "burst"}, ("--scenario", "burst")),
    "threads": ({"threads": 0}, ("--threads", "0")),
    "priority": ({"priority": "highest"}, ("--priority", "highest")),
    "data set": ({"accuracy": "nowhere.npz"}, ("--accuracy", "nowhere.npz")),
    "inputs": ({"inputs": "nowhere.npz"}, ("--inputs", "nowhere.npz")),
}
MODEL = "digits_int8.tflite"


@pytest.fixture
def other(agent: AgentProcess, tmp_path: Path) -> Host:
    """Another host that is paired with the agent."""
    made = Host(tmp_path / "other")
    made.lab.pair(agent.pairing_string())
    return made


def campaign_file(path: Path, device: str, model: str, settings: dict[str, Any]) -> Path:
    """A campaign of one run with these settings."""
    axes = {
        name: settings.pop(name) for name in ("runtime", "scenario", "threads") if name in settings
    }

    def toml(value: Any) -> str:
        if isinstance(value, tuple):
            return str(list(value))
        return str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')

    lines = ["schema = 1", 'name = "refused"', "repeats = 1", "wait_s = 0", "[axes]"]
    lines += [f'model = ["{model}"]', f'device = ["{device}"]']
    lines += [f"{name} = [{toml(value)}]" for name, value in axes.items()]
    lines += ["[settings]", *(f"{name} = {toml(value)}" for name, value in settings.items())]
    path.write_text("\n".join(lines) + "\n")
    return path


def refusal_of_campaign(host: Host, file: Path) -> str:
    """Why a campaign, its device or its run was refused."""
    reasons: list[EdgebenchError] = []

    def keep(event: MeasurementEvent) -> None:
        if isinstance(event, (RunFailed, DeviceFailed)):
            reasons.append(event.error)

    try:
        campaign = host.lab.begin_campaign(file, keep)
        host.lab.resume_campaign(campaign.plan.id, keep)
    except EdgebenchError as exc:
        reasons.append(exc)
    [reason] = reasons
    return str(reason)


@pytest.mark.parametrize("case", REFUSED)
def test_request_is_refused_alike(paired: Host, tmp_path: Path, case: str) -> None:
    """Otherwise a request that `bench` refuses would waste a night as a campaign."""
    need_runtime("ai-edge-litert")
    settings, words = REFUSED[case]
    with pytest.raises(EdgebenchError) as refused:
        paired.lab.bench(MODEL, on=["board"], runs=1, **(SHORT | settings))
    file = campaign_file(tmp_path / "c.toml", "board", MODEL, SHORT | settings)
    assert refusal_of_campaign(paired, file) == str(refused.value)
    result = paired.run("bench", MODEL, "--on", "board", "--runs", "1", "--quick", *words)
    assert result.returncode == 2, result.stderr
    assert str(refused.value) in result.stderr
    assert paired.lab.runs()["run_id"].empty


def test_device_that_is_not_there_is_refused_alike(paired: Host, tmp_path: Path) -> None:
    """Otherwise a misspelt name would be waited for, or collected from another device."""
    with pytest.raises(EdgebenchError) as refused:
        paired.lab.bench(MODEL, on=["bord"], runs=1, **SHORT)
    file = campaign_file(tmp_path / "c.toml", "bord", MODEL, dict(SHORT))
    assert refusal_of_campaign(paired, file) == str(refused.value)
    with pytest.raises(EdgebenchError) as refused_too:
        paired.lab.collect(["bord"])
    assert str(refused_too.value) == str(refused.value)
    for command in ("bench", "collect"):
        result = paired.run(command, "--on", "bord")
        assert result.returncode == 2
        assert str(refused.value) in result.stderr


def test_device_in_use_is_refused_alike(paired: Host, other: Host, tmp_path: Path) -> None:
    """Otherwise two commands would measure on one device at the same time."""
    with other.lab.connect("board") as holder:
        holder.acquire()
        with pytest.raises(LeaseHeld) as by_bench:
            paired.lab.bench(MODEL, on=["board"], runs=1, **SHORT)
        with pytest.raises(LeaseHeld) as by_collect:
            paired.lab.collect(["board"])
        file = campaign_file(tmp_path / "c.toml", "board", MODEL, dict(SHORT))
        texts = [str(by_bench.value), str(by_collect.value), refusal_of_campaign(paired, file)]
    # The rest of the text is the time of the lease.
    assert len({text.partition("silent")[0] for text in texts}) == 1, texts
    assert texts[0].startswith("device is in use by ")
