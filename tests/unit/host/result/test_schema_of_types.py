"""Types that have to have the same fields, so that none is added to only one of them."""

from __future__ import annotations

from dataclasses import fields
from enum import Enum
from typing import get_type_hints

import pytest

from edgebench.host.power.metering import OpenMeter
from edgebench.host.result.facts import EnergyRequest
from edgebench.protocol.spec import RunSpec, SpecChanges

NOT_CHOSEN = {"runtime", "preset"}
"""Fields of a specification that a request has under other names."""
OF_A_METER = {"meter", "idle_duration_s", "load_code_chip_s"}
"""Fields that follow from the meter."""
HINTS = get_type_hints(RunSpec)


def test_every_field_of_a_specification_can_be_chosen_or_follows_from_the_meter() -> None:
    """Otherwise a field would be added to the specification that no user can set."""
    names = {field.name for field in fields(RunSpec)}
    assert names > NOT_CHOSEN | OF_A_METER
    assert SpecChanges.__annotations__.keys() == names - NOT_CHOSEN - OF_A_METER


@pytest.mark.parametrize("name", SpecChanges.__annotations__)
def test_choice_has_the_type_of_its_field(name: str) -> None:
    """Otherwise a type checker would accept a text where the specification takes a number."""
    hint = HINTS[name]
    is_choice = isinstance(hint, type) and issubclass(hint, Enum)
    expected = hint | str | None if is_choice else hint | None
    assert get_type_hints(SpecChanges)[name] == expected


def test_meter_sets_the_fields_that_nobody_chooses() -> None:
    """Otherwise a setting that a meter needs would be missing, and its energies be refused."""
    agent = OpenMeter(
        request=EnergyRequest(meter="agent:ppk2", idle_duration_s=7.0), meter=None, header=None
    )
    chosen, made = RunSpec(""), agent.spec(RunSpec(""), is_duration_fixed=False)
    differing = {name for name in HINTS if getattr(chosen, name) != getattr(made, name)}
    assert differing == OF_A_METER
