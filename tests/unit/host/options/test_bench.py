"""The table of options: it has the fields of the types, and its output is read back."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import get_args, get_type_hints

import pytest

from edgebench.host.bench.request import BenchOptions, PairOptions
from edgebench.host.campaign.spec import SETTING_KEYS, Settings
from edgebench.host.cli import bench
from edgebench.host.cli.options import options_of
from edgebench.host.options.bench import (
    COMPARISON,
    OPTIONS,
    SECTIONS,
    SETTINGS,
    BenchOption,
    words_of,
)
from edgebench.protocol.errors import UsageError
from edgebench.protocol.spec import PRESETS, Engine, RunSpec, SpecChanges

WITHOUT_OPTION = {
    *("max_query_count", "target_percentile", "sample_count"),
    *("inputs_sha256", "dataset_sha256"),  # Follow from --inputs and --accuracy
    *("limits", "is_sustained"),  # --timeout, --memory-limit and --sustained have their own
}
"""Settings that exist only in Python."""
ELSEWHERE = {"on", "wait_s", "runs", "extra_runs"}
"""Settings that a campaign file has outside of `[settings]`, or not at all."""
VALUES: dict[str, object] = {
    "on": ("pi5", "label:pi"),
    "cpus": (2, 3),
    "input_shapes": {"a": (1, 2), "b=c": (4,)},
    "memory_limit_bytes": 3 * 2**30,
    "duration_s": 7.5,
    "target_latency_s": 0.05,
    "jitter_s": 0.001,
    "margin_ratio": 0.03,
    "metrics": ("energy_j", "latency_ns.p50"),
    "allowed": ("os",),
    "battery_capacity_j": 66600.0,
    "supply_v": 1.8,
    "ambient_c": 21.5,
}
"""Values of options whose kind needs a special value, by field."""


def value_of(option: BenchOption) -> object:
    """A value that the option takes."""
    if option.constant is not None:
        return option.constant
    if option.field in VALUES:
        return VALUES[option.field]
    return option.kind.read(option.completions[-1] if option.completions else "4")


def test_types_have_the_fields_of_the_table() -> None:
    """Otherwise an option of the command line would be missing in Python or in campaigns."""
    of_table = {option.field for option in SETTINGS}
    assert BenchOptions.__annotations__.keys() == of_table | WITHOUT_OPTION
    assert SpecChanges.__annotations__.keys() <= BenchOptions.__annotations__.keys()
    assert {field.name for field in fields(Settings)} == (of_table - ELSEWHERE) | {"is_sustained"}
    assert {option.field for option in SETTING_KEYS.values()} == of_table - ELSEWHERE
    of_comparison = {option.field for option in SECTIONS[COMPARISON]} - {"candidate"}
    assert of_comparison == PairOptions.__annotations__.keys() - BenchOptions.__annotations__.keys()


@pytest.mark.parametrize("option", SETTINGS, ids=lambda option: option.name)
def test_value_has_the_type_of_its_field(option: BenchOption) -> None:
    """Otherwise the command line would pass Python a value that its types do not allow."""
    hint = get_type_hints(BenchOptions)[option.field]
    kinds = [getattr(kind, "__origin__", kind) for kind in get_args(hint) or (hint,)]
    value = option.kind.read("4") if option.field == "idle_duration_s" else value_of(option)
    assert isinstance(value, tuple(kind for kind in kinds if isinstance(kind, type)))


@pytest.mark.parametrize("option", OPTIONS, ids=lambda option: option.name)
def test_printed_option_is_read_as_the_same_value(option: BenchOption) -> None:
    """Otherwise the advised command would measure something else."""
    value = value_of(option)
    words = [word for group in option.words(value) for word in group]
    options = bench.parser().parse_args(words)
    given = getattr(options, option.name)
    assert (option.join(given) if option.join is not None else given) == value
    assert words == [word for group in words_of({option.field: value}) for word in group]


def test_settings_are_those_of_the_line() -> None:
    """Otherwise a line of all options would lose some on its way into the request."""
    values = {option.field: value_of(option) for option in SETTINGS}
    words = [word for group in words_of(values) for word in group]
    assert bench._settings(bench.parser().parse_args(words)) == values


def test_completions_are_the_members_of_the_types() -> None:
    """Otherwise a scenario that is added later would not be completed."""
    for option in SETTINGS:
        hint = get_type_hints(RunSpec).get(option.field)
        if isinstance(hint, type) and issubclass(hint, Enum):
            members = [one.value for one in hint if one is not Engine.TARGET]
            assert list(option.completions) == members
    assert {option.name: option.completions for option in OPTIONS}["preset"] == tuple(PRESETS)


def test_excluded_options_exist_and_no_default_of_a_machine_excludes_one() -> None:
    """Otherwise a variable could contradict what is typed, and the command would be refused."""
    known = set(options_of(bench.parser()))
    excluded = {flag for option in OPTIONS for flag in option.excludes}
    assert excluded <= known
    of_machine = [option for option in OPTIONS if option.is_of_machine]
    assert not [option for option in of_machine if option.excludes or option.flag in excluded]


def test_variables_are_below_the_command_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise a forgotten variable would override the command line."""
    of_machine = {"COOLDOWN": "10m", "AMBIENT": "22C", "ON": "pi4,pi5", "METER": "", "SEED": "3"}
    for name, text in of_machine.items():
        monkeypatch.setenv(f"EDGEBENCH_{name}", text)
    options = bench.parser().parse_args(["--cooldown", "0s"])
    bench._take_defaults(options)
    taken = (options.cooldown, options.ambient, options.on, options.meter, options.seed)
    assert taken == (0.0, 22.0, ["pi4,pi5"], None, None)
    said = capsys.readouterr().err
    assert said == "from the environment: EDGEBENCH_ON, EDGEBENCH_AMBIENT\n"


def test_variable_that_makes_no_sense_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise the error would name an option that is not in the command."""
    monkeypatch.setenv("EDGEBENCH_COOLDOWN", "x")
    with pytest.raises(UsageError, match="EDGEBENCH_COOLDOWN: not a duration: 'x'; write 500ms"):
        bench._take_defaults(bench.parser().parse_args([]))
