"""The campaign file: read strictly, with the line of what is wrong."""

from __future__ import annotations

from inspect import signature
from pathlib import Path

import pytest

from edgebench.host.bench.request import new_request
from edgebench.host.campaign.spec import DEFAULT_RETRY, Settings, load_spec
from edgebench.protocol.errors import UsageError
from edgebench.protocol.spec import SpecChanges

GOOD = """\
schema = 1
name = "int8-or-fp32"
repeats = 3
budget_s = 3600

[axes]
model = ["digits_fp32.tflite", "digits_int8.tflite"]
threads = [1, 2]

[settings]
duration_s = 10
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


def written(folder: Path, text: str) -> Path:
    """A campaign file."""
    path = folder / "campaign.toml"
    path.write_text(text)
    return path


def test_file_is_read(tmp_path: Path) -> None:
    """A setting is dropped, or taken for another."""
    spec = load_spec(written(tmp_path, GOOD))
    assert spec.axes.threads == (1, 2)
    assert spec.axes.device == ("local",)
    assert spec.settings.given() == {"preset": "default", "duration_s": 10.0, "meter": "farm"}
    assert (spec.exclude[0].model, spec.exclude[0].threads) == ("*fp32*", 2)
    assert spec.include[0].model == "digits_int8.onnx"
    assert spec.retry == {"worker_died": 2, "invalid": 1}
    least = load_spec(written(tmp_path, 'schema = 1\nname = "a"\n[axes]\nmodel = ["m"]\n'))
    assert least.retry == DEFAULT_RETRY


@pytest.mark.parametrize(
    ("before", "after", "complaint"),
    [
        ("schema = 1", "schema = 2", ":1: schema: schema is 2, expected 1"),
        ("schema = 1", "", ":1: schema: is missing; the file begins with schema = 1"),
        ("repeats = 3", "repeats = 0", ":3: repeats: must be 1..999, got 0"),
        ("repeats = 3", "repeat = 3", ":3: repeat: no such key; available: schema, name, axes,"),
        ("budget_s = 3600", "budget_s = -1", ":4: budget_s: must be 0 to 604800 s"),
        ('"int8-or-fp32"', '""', ":2: name: must be 1 to 64 printable characters, got ''"),
        ('"digits_int8.tflite"]', '"digits_fp32.tflite"]', ":7: axes.model: has a level twice"),
        ("threads = [1, 2]", 'threads = ["1"]', ":8: axes.threads[0]: expected int, got str"),
        ("threads = [1, 2]", "device = []", ":8: axes.device: must name a device"),
        ("threads = [1, 2]", 'runtime = ["all"]', ":8: axes.runtime: must name the runtimes"),
        ("duration_s = 10", "duration = 10", ":11: settings.duration: no such key"),
        ("worker_died = 2", "died = 2", ":22: retry.died: no such kind of error; available: "),
        ("invalid = 1", "invalid = 10", ":23: retry.invalid: must be 0..9, got 10"),
    ],
)
def test_mistakes_are_told_with_their_line(
    tmp_path: Path, before: str, after: str, complaint: str
) -> None:
    """A night of measurements is made with a setting that nobody wrote."""
    assert before in GOOD
    with pytest.raises(UsageError, match=r"campaign\.toml:") as caught:
        load_spec(written(tmp_path, GOOD.replace(before, after, 1)))
    assert complaint in str(caught.value)


def test_file_of_the_documentation_is_one(tmp_path: Path) -> None:
    """The example that everybody begins with is refused."""
    page = Path(__file__).parents[4] / "docs" / "campaigns.md"
    spec = load_spec(written(tmp_path, page.read_text().split("```toml\n")[1].split("```")[0]))
    assert spec.axes.device == ("pi4", "label:jetson")


def test_every_setting_is_one_of_bench() -> None:
    """A setting is read, and nothing takes it."""
    taken = signature(new_request).parameters.keys() | SpecChanges.__annotations__.keys()
    assert Settings.__dataclass_fields__.keys() <= taken


def test_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    """A wrong path ends in a traceback."""
    with pytest.raises(UsageError, match=r"campaign file not readable: No such file.*none\.toml"):
        load_spec(tmp_path / "none.toml")
