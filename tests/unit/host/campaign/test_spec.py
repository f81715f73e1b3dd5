"""The campaign file: read strictly, with the line of each mistake."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from edgebench.host.campaign.spec import (
    DEFAULT_RETRY,
    SETTING_KEYS,
    Settings,
    load_spec,
    renamed_settings,
)
from edgebench.host.cli.campaign import _print_new_names
from edgebench.protocol.errors import UsageError
from edgebench.protocol.plain import from_outside, to_plain
from edgebench.system.terminal import echo

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

GOOD = """\
schema = 1
name = "int8-or-fp32"
repeats = 3
budget_s = 3600

[axes]
model = ["digits_fp32.tflite", "digits_int8.tflite"]
threads = [1, 2]

[settings]
duration = "10s"
meter = "farm"

[[exclude]]
model = "*fp32*"
threads = 2

[[include]]
model = "digits_int8.onnx"

[retry]
worker_died = 2
invalid = 1
"""

LEAST = 'schema = 1\nname = "a"\n[axes]\nmodel = ["m"]\n'
"""The shortest valid file."""


def written(folder: Path, text: str) -> Path:
    """Return a campaign file."""
    path = folder / "campaign.toml"
    path.write_text(text)
    return path


def test_file_is_read(tmp_path: Path) -> None:
    """Otherwise a setting would be dropped, or taken for another."""
    spec = load_spec(written(tmp_path, GOOD))
    assert spec.axes.threads == (1, 2)
    assert spec.axes.device == ("local",)
    assert spec.settings.given() == {"duration_s": 10.0, "meter": "farm"}
    assert (spec.exclude[0].model, spec.exclude[0].threads) == ("*fp32*", 2)
    assert spec.include[0].model == "digits_int8.onnx"
    assert spec.retry == {"worker_died": 2, "invalid": 1}
    least = load_spec(written(tmp_path, LEAST))
    assert least.retry == DEFAULT_RETRY


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("schema = 1", "schema = 2", ":1: schema: schema is 2, expected 1"),
        ("schema = 1", "", ":1: schema: is missing; the file must begin with schema = 1"),
        ("repeats = 3", "repeats = 0", ":3: repeats: must be 1..999, got 0"),
        ("repeats = 3", "repeat = 3", ":3: repeat: no such key; available: schema, name, axes,"),
        ("budget_s = 3600", "budget_s = -1", ":4: budget_s: must be 0 to 604800 s"),
        ('"int8-or-fp32"', '""', ":2: name: must be 1 to 64 printable characters, got ''"),
        ('"digits_int8.tflite"]', '"digits_fp32.tflite"]', ":7: axes.model: has a level twice"),
        ("threads = [1, 2]", 'threads = ["1"]', ":8: axes.threads[0]: expected int, got str"),
        ("threads = [1, 2]", "device = []", ":8: axes.device: must name a device"),
        (
            "threads = [1, 2]",
            'runtime = ["all"]',
            ":8: axes.runtime: must list the runtimes by name",
        ),
        (
            'duration = "10s"',
            'length = "10s"',
            ":11: settings.length: no such key; available: runtime",
        ),
        ('duration = "10s"', 'duration = "10d"', ":11: settings.duration: not a duration: '10d'"),
        ('duration = "10s"', "target_latency = 5", ":11: settings.target_latency: a latency needs"),
        ('duration = "10s"', "no_check = 1", ":11: settings.no_check: expected true or false, got"),
        ('duration = "10s"', "duration_s = '9'", ":11: settings.duration_s: expected a number"),
        ('"farm"', '"farm"\nduration_s = 10', ":13: settings.duration_s: is set twice, under two"),
        ('"farm"', "5", ":12: settings.meter: expected str, got int"),
        ('"farm"', '"farm"\nthreads = 4', ":13: settings.threads: is also an axis"),
        ("worker_died = 2", "died = 2", ":22: retry.died: no such kind of error; available: "),
        ("invalid = 1", "invalid = 10", ":23: retry.invalid: must be 0..9, got 10"),
    ],
)
def test_mistakes_are_told_with_their_line(
    tmp_path: Path, before: str, after: str, complaint: str
) -> None:
    """Otherwise a night of measurements would be made with a setting that was not written."""
    assert before in GOOD
    with pytest.raises(UsageError, match=r"campaign\.toml:") as caught:
        load_spec(written(tmp_path, GOOD.replace(before, after, 1)))
    assert complaint in str(caught.value)


def test_file_of_the_documentation_is_one(tmp_path: Path) -> None:
    """Otherwise the example that every user begins with would be refused."""
    page = Path(__file__).parents[4] / "docs" / "campaigns.md"
    spec = load_spec(written(tmp_path, page.read_text().split("```toml\n")[1].split("```")[0]))
    assert spec.axes.device == ("pi4", "label:jetson")


def settings_of(folder: Path, lines: str) -> Settings:
    """Return the settings of a campaign file with these lines."""
    return load_spec(written(folder, f"{LEAST}[settings]\n{lines}")).settings


def test_settings_are_written_as_on_the_command_line(tmp_path: Path) -> None:
    """Otherwise a setting would have another name, or another unit, in a file."""
    lines = """\
        quick = true
        cooldown = "10m"
        target_latency = "50ms"
        idle = 2
        cpus = [2, 3]
        shape = ["ids=1x8"]
        no_check = true
        profile = false
        memory_limit = "1GiB"
        sustained = "20m"
    """
    settings = settings_of(tmp_path, lines)
    assert from_outside(to_plain(settings), Settings) == settings
    assert settings.given() == {
        "preset": "quick",
        "cooldown_timeout_s": 600.0,
        "target_latency_s": 0.05,
        "idle_duration_s": 2.0,
        "cpus": (2, 3),
        "input_shapes": {"ids": (1, 8)},
        "is_checked": False,
        "memory_limit_bytes": 2**30,
        "sustained_s": 1200.0,
    }


OLD = """\
preset = "quick"
engine = "native"
duration_s = 10
max_duration_s = 100
min_query_count = 10
warmup_query_count = 5
samples_per_query = 4
signature = "x"
target_qps = 5
target_latency_s = 0.05
seed = 1
cpus = [0, 1]
priority = "realtime"
governor = "performance"
is_airplane_mode = true
screen_brightness = 9
is_checked = false
is_sustained = true
telemetry_rate_hz = 1
cooldown_timeout_s = 0
accuracy = "digits"
reference = "digits_fp32.tflite"
inputs = "x.npz"
meter = "farm"
sync = "edge"
battery_capacity_j = 100
idle_duration_s = 2
ambient_c = 22
"""
"""Every setting that files had before settings were named as on the command line."""


def test_files_with_old_names_are_read(tmp_path: Path) -> None:
    """Otherwise a campaign of last week could not be made again."""
    assert settings_of(tmp_path, OLD).given() == {**tomllib.loads(OLD), "cpus": (0, 1)}


def test_old_names_are_reported_with_the_new_ones(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise the documentation would not have a name that a file has."""
    renamed = renamed_settings(written(tmp_path, f"{LEAST}[settings]\n{OLD}"))
    assert renamed["cooldown_timeout_s"] == "cooldown"
    assert renamed["is_sustained"] == "sustained"
    assert renamed.keys() == tomllib.loads(OLD).keys() - SETTING_KEYS.keys()
    assert set(renamed.values()) <= SETTING_KEYS.keys()
    _print_new_names(str(written(tmp_path, f"{LEAST}[settings]\nduration_s = 1\nseed = 2\n")), echo)
    assert "campaign.toml uses old names: duration_s is now duration\n" in capsys.readouterr().err
    _print_new_names(str(written(tmp_path, GOOD)), echo)
    assert capsys.readouterr().err == ""


def test_documentation_lists_every_setting() -> None:
    """Otherwise a setting could be found in error messages only."""
    page = Path(__file__).parents[4] / "docs" / "campaigns.md"
    [row] = re.findall(r"^\| `settings` \| ([^|]*) \|", page.read_text(), re.MULTILINE)
    assert re.findall(r"`(\w+)`", row) == list(SETTING_KEYS)


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """Otherwise a wrong path would end in a traceback."""
    with pytest.raises(UsageError, match=r"campaign file not readable: No such file.*none\.toml"):
        load_spec(tmp_path / "none.toml")
