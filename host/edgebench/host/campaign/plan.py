"""The plan of a campaign defines its cells, and the ids and the order of the runs.

The plan is made once, from the campaign file and the current devices, and then stored. Later edits
of the file have no effect on the campaign.
"""

from __future__ import annotations

import random
import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime, timezone
from fnmatch import fnmatchcase
from functools import reduce
from itertools import product
from math import prod
from operator import and_, getitem
from pathlib import Path
from typing import Any

from edgebench.host.bench.builtin import find_model
from edgebench.host.campaign.spec import (
    MAX_CELLS,
    MAX_COMBINATIONS,
    MAX_REPEATS,
    MAX_RUNS,
    CampaignSpec,
    Levels,
    Pattern,
)
from edgebench.host.result.document import RUN_ID_TIME
from edgebench.host.result.facts import SET_PREFIX, SetMember
from edgebench.protocol.errors import UsageError

ID_PREFIX = "c"
_RUN_ID = re.compile(r"\d{8}-\d{6}-(c[0-9a-f]{6})-(\d{4})-(\d{3})-(\d{2})")
MAX_ATTEMPT = 99

Level = str | float | None
"""Value of an axis; None stands for the value in `[settings]`, or for bench's default."""

ChooseDevices = Callable[[str], Sequence[str]]
"""Returns the names of the devices that a word of `--on` selects."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell(Levels):
    """A model on a device in a configuration."""

    number: int
    model: str
    """Path, or name of a built-in model."""
    device: str
    """Name of a device, as in the option `--on`."""

    @property
    def levels(self) -> dict[str, Level]:
        """The value of each axis in this cell, without model and device."""
        return {axis.name: getattr(self, axis.name) for axis in fields(Levels)}

    @property
    def factors(self) -> dict[str, Level]:
        """The value of each axis in this cell."""
        return {"model": self.model, "device": self.device, **self.levels}


@dataclass(frozen=True, slots=True, order=True)
class PlannedRun:
    """A run of the plan, which may need several attempts."""

    cell: int
    repeat: int
    """Index of the run among the runs of its cell, from 0."""


@dataclass(frozen=True, slots=True)
class AttemptName:
    """The campaign, planned run and attempt that are encoded in the id of a run."""

    campaign: str
    planned: PlannedRun
    attempt: int
    """Number of the attempt, from 1."""

    def run_id(self, now: datetime) -> str:
        """Id of the run; like every id, it begins with the time."""
        return (
            f"{now.strftime(RUN_ID_TIME)}-{self.campaign}-{self.planned.cell:04d}"
            f"-{self.planned.repeat:03d}-{self.attempt:02d}"
        )


def attempt_name(run_id: str) -> AttemptName | None:
    """Parse the id of a run; None if it is not the id of a campaign's run."""
    match = _RUN_ID.fullmatch(run_id)
    if match is None:
        return None
    campaign, cell, repeat, attempt = match.groups()
    return AttemptName(campaign, PlannedRun(int(cell), int(repeat)), int(attempt))


def is_of_campaign(run_id: str, campaign: str) -> bool:
    """Whether a run belongs to this campaign, by its id."""
    name = attempt_name(run_id)
    return name is not None and name.campaign == campaign


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignPlan:
    """The complete plan of a campaign, as stored in plan.json."""

    id: str
    name: str
    created_utc: str
    file: str
    spec: CampaignSpec
    cells: tuple[Cell, ...]
    digests: dict[str, str] = field(default_factory=dict)
    """Maps the name of each model in the cells to its SHA-256."""

    def settings(self, number: int) -> str:
        """Settings of a cell that distinguish cells of the same model, device and runtime."""
        return ", ".join(
            _setting(name, level)
            for name, level in self.cells[number].levels.items()
            if name != "runtime" and len({cell.levels[name] for cell in self.cells}) > 1
        )

    @property
    def planned(self) -> list[PlannedRun]:
        """All runs of the plan, with the repeats of each cell."""
        repeats = range(self.spec.repeats)
        return [PlannedRun(cell.number, repeat) for cell in self.cells for repeat in repeats]

    @property
    def devices(self) -> list[str]:
        """Names of the devices, without duplicates."""
        return list(dict.fromkeys(cell.device for cell in self.cells))

    def order(self, device: str) -> list[PlannedRun]:
        """The runs on a device, in rounds over all cells, each round in a new random order.

        A drift of the device, for example of its temperature, thus affects all cells alike. Source:
        randomised complete block design, as in Abedi & Brecht, Conducting repeatable experiments in
        highly variable cloud computing environments (2017).
        """
        cells = [cell.number for cell in self.cells if cell.device == device]
        chance = random.Random(f"{self.spec.seed} {device}")
        order: list[PlannedRun] = []
        for repeat in range(self.spec.repeats):
            chance.shuffle(cells)
            order += [PlannedRun(cell, repeat) for cell in cells]
        return order

    def member(self, planned: PlannedRun) -> SetMember | None:
        """Position of a run in the set of its cell; None if a cell has a single run."""
        if self.spec.repeats == 1:
            return None
        set_id = f"{SET_PREFIX}{self.id}-{planned.cell:04d}"
        return SetMember(set_id, planned.repeat, self.spec.repeats)


def fault_of_plan(plan: CampaignPlan) -> str | None:
    """The first violated limit of a stored plan; None if the plan is valid."""
    if not 1 <= plan.spec.repeats <= MAX_REPEATS:
        return f"repeats must be 1..{MAX_REPEATS}, got {plan.spec.repeats}"
    if not 1 <= len(plan.cells) <= MAX_CELLS:
        return f"a plan must have 1..{MAX_CELLS} cells, got {len(plan.cells)}"
    if [cell.number for cell in plan.cells] != list(range(len(plan.cells))):
        return "cells of the plan are not numbered consecutively from 0"
    return None


def new_plan(
    spec: CampaignSpec, file: Path, choose: ChooseDevices, now: datetime | None = None
) -> CampaignPlan:
    """Plan the campaign of a campaign file, with the current devices.

    Raises:
        UsageError: a model cannot be read, or the number of cells or runs is out of bounds.
        NoSuchDevice: a word selects no device.
    """
    cells = _cells(spec, file, choose)
    if not 1 <= len(cells) <= MAX_CELLS:
        raise UsageError(f"campaign must have 1..{MAX_CELLS} cells, got {len(cells)}: {file}")
    if (count := len(cells) * spec.repeats) > MAX_RUNS:
        what = f"{count} ({len(cells)} cells × {spec.repeats} repeats)"
        raise UsageError(f"campaign must have 1..{MAX_RUNS} runs, got {what}: {file}")
    names = dict.fromkeys(cell.model for cell in cells)
    moment = now or datetime.now(timezone.utc)
    return CampaignPlan(
        id=f"{ID_PREFIX}{secrets.token_hex(3)}",
        name=spec.name,
        created_utc=moment.isoformat(timespec="seconds"),
        file=str(file.absolute()),
        spec=replace(
            spec, settings=spec.settings.with_files(lambda name: _path_of(name, file.parent))
        ),
        cells=tuple(cells),
        digests={name: find_model(name).sha256 for name in names},
    )


def _cells(spec: CampaignSpec, file: Path, choose: ChooseDevices) -> list[Cell]:
    """All combinations of the axes that are not excluded, then the added cells, without duplicates.

    Raises:
        UsageError: the number of combinations or cells exceeds its limit.
    """
    axes = spec.axes
    devices = dict.fromkeys(name for word in axes.device for name in choose(word))
    others = [axis.name for axis in fields(Levels)]
    levels: list[tuple[Level, ...]] = [axes.model, tuple(devices)]
    # An axis without levels has a single level: the value in the settings.
    settings = vars(spec.settings)
    levels += [getattr(axes, name) or (settings[name],) for name in others]
    names = ["model", "device", *others]
    # Counted before any combination is made, because a small file may request 10^9.
    count = prod(map(len, levels))
    limit = MAX_COMBINATIONS if spec.exclude else MAX_CELLS
    if count > limit:
        axis_levels = zip(names, levels, strict=True)
        sizes = " × ".join(f"{len(axis)} {name}" for name, axis in axis_levels if len(axis) > 1)
        what = "combinations" if spec.exclude else "cells"
        raise UsageError(f"campaign must have 1..{limit} {what}, got {count} ({sizes}): {file}")

    masks = [
        {level: _matching(spec.exclude, name, level) for level in axis}
        for name, axis in zip(names, levels, strict=True)
    ]
    paths = {name: _path_of(name, file.parent) for name in axes.model}
    cells: dict[tuple[object, ...], Cell] = {}
    for combination in product(*levels):
        if reduce(and_, map(getitem, masks, combination)):
            continue  # an exclusion matches every level
        chosen: dict[str, Any] = dict(zip(names, combination, strict=True))
        chosen["model"] = paths[chosen["model"]]
        cell = Cell(number=len(cells), **chosen)
        cells.setdefault(tuple(cell.factors.values()), cell)
    for addition in spec.include:
        model = _path_of(addition.model, file.parent)
        chosen = {name: getattr(addition, name) for name in others}
        chosen = {
            name: settings[name] if level is None else level for name, level in chosen.items()
        }
        for device in choose(addition.device):
            cell = Cell(number=len(cells), model=model, device=device, **chosen)
            cells.setdefault(tuple(cell.factors.values()), cell)
            if len(cells) > MAX_CELLS:
                raise UsageError(f"campaign has more than {MAX_CELLS} cells: {file}")
    return list(cells.values())


def _setting(name: str, level: Level) -> str:
    """Name of an axis, followed by its value as text, with the unit.

    >>> _setting("threads", 4), _setting("delegate", None), _setting("supply_v", 1.8)
    ('threads 4', 'delegate default', 'supply 1.8 V')
    """
    if name == "supply_v" and level is not None:
        return f"supply {level:g} V"
    return f"{name.removesuffix('_v')} {'default' if level is None else level}"


def _matching(patterns: Sequence[Pattern], axis: str, level: Level) -> int:
    """Bit mask of the patterns that match a value of an axis.

    A pattern that does not name the axis matches any value; an empty pattern matches no value.
    """
    mask = 0
    for bit, pattern in enumerate(patterns):
        text = getattr(pattern, axis)
        if pattern != Pattern() and (text is None or _fits(text, level)):
            mask |= 1 << bit
    return mask


def _fits(wanted: str | float, level: Level) -> bool:
    if isinstance(wanted, str) and isinstance(level, str):
        return fnmatchcase(level, wanted)
    return wanted == level


def _path_of(name: str, folder: Path) -> str:
    """Path of a file, relative to the campaign file; the unchanged name if the file is missing."""
    path = folder / name
    return str(path.absolute()) if path.is_file() else name
