"""Made-up boards, each read by the real sampler: what it sees is written down in golden/.

After a wanted change: EDGEBENCH_WRITE_GOLDEN=1 pytest tests/unit/agent/telemetry/test_boards.py,
and read what changed.
"""

from __future__ import annotations

import json
import math
import os
from pathlib import Path
from typing import Any

import pytest
from support.boards import BOARDS, make_board
from support.sampling import facts_of, last_values, sampling, wait_for_a_look

from edgebench.agent.android import AndroidProperties, identify, read_properties
from edgebench.agent.expectation import expect
from edgebench.agent.system import device_identity
from edgebench.agent.telemetry.job import SamplerJob
from edgebench.device_profiles.match import match_profile
from edgebench.system.android_commands import is_android

GOLDEN = Path(__file__).parent / "golden"
PID = 4321
CHANGING = ("cpu.", "worker.")
"""Sensors of differences, which on a tree that stands still are no number."""


def seen(root: Path, directory: Path) -> dict[str, Any]:
    """Return what the sampler sees of a board."""
    with sampling(directory, SamplerJob(PID, str(root), rate_hz=20.0)) as sampler:
        wait_for_a_look(sampler)
    facts = facts_of(directory)
    values = last_values(directory)
    return {
        "values": {
            name: None if math.isnan(values[name]) else values[name]
            for name in facts.sensors
            if not name.startswith(CHANGING)
        },
        "constants": facts.constants,
        "absent": {item.sensor: item.reason.replace(str(root), "") for item in facts.absent},
    }


@pytest.mark.parametrize("name", BOARDS)
def test_sampler_sees_what_the_board_shows(tmp_path: Path, name: str) -> None:
    """Otherwise a unit, a dead sensor or a renamed zone of one board would be misread unnoticed."""
    found = seen(make_board(tmp_path / "root", BOARDS[name]), tmp_path / "run")
    path = GOLDEN / f"{name}.json"
    if os.environ.get("EDGEBENCH_WRITE_GOLDEN"):
        GOLDEN.mkdir(exist_ok=True)
        path.write_text(json.dumps(found, indent=1) + "\n")
    assert found == json.loads(path.read_text())


@pytest.mark.parametrize("name", BOARDS)
def test_board_is_recognised_and_as_its_profile_says(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a board would have the profile of another, or lack a zone of its own profile."""
    board = BOARDS[name]
    root = make_board(tmp_path / "root", board)
    monkeypatch.setattr("platform.machine", lambda: board.machine)
    if is_android(root):
        profile = match_profile(identify(AndroidProperties(read_properties(root)), root))
    else:
        profile = match_profile(device_identity(root))
    assert profile.id == board.profile
    expected = expect(profile, root)
    known = {mismatch.key: mismatch.actual for mismatch in expected.mismatches}
    assert known == MISMATCHES.get(name, {})
    accelerators = {accelerator.devfreq: accelerator.kind for accelerator in expected.accelerators}
    assert accelerators == ACCELERATORS.get(name, {})


MISMATCHES = {
    "rock_5b": {"soc.cluster.2.freq_hz_max": "2352000000"},
    "imx8mp_evk": {"soc.cluster.0.freq_hz_max": "1600000000"},
}
"""What the made-up boards have on purpose."""
ACCELERATORS = {
    "rock_5b": {"fb000000.gpu": "gpu", "fdab0000.npu": "npu"},
    "jetson_orin_nano": {"17000000.gpu": "gpu"},
    "android_phone": {"1f000000.mali": "gpu"},
}
"""Accelerators whose clock can be read, by their devfreq."""
