"""Times of a model's operators, from the ticks that a board counted."""

from __future__ import annotations

from collections.abc import Sequence

from edgebench.firmware_bridge.blob import OperatorSource
from edgebench.firmware_bridge.facts import BoardProfile, FirmwareInfo
from edgebench.protocol.record import OperatorTime
from edgebench.protocol.target import TargetProfile

CYCLE_COUNTERS = frozenset({"cyccnt", "cyccnt-internal", "systick", "ccount", "cycle_count"})
"""Values of `tick_source` for counters of processor cycles; not valid in an emulator."""


def operator_times(
    profile: BoardProfile,
    sources: Sequence[OperatorSource | None],
    info: FirmwareInfo | None,
    *,
    instruction_ns: float | None,
) -> TargetProfile:
    """Convert a board's ticks to times of the operators, without the time of reading the counter.

    Args:
        profile: Ticks of the operators.
        sources: For each operator of the firmware, the model's operator, which gives the name. If
            the entry is None, the firmware gives the name.
        info: Facts of the firmware.
        instruction_ns: Virtual time of an instruction on an emulated board; None for a real board.
    """
    ns_per_tick = 1e9 / profile.tick_rate_hz
    is_named = len(sources) == len(profile.operators)
    has_cycles = info is not None and info.tick_source in CYCLE_COUNTERS and not instruction_ns
    operators: list[OperatorTime] = []
    for index, operator in enumerate(profile.operators):
        ticks = max(0.0, operator.ticks / profile.run_count - profile.reading_ticks)
        source = sources[index] if is_named else None
        operators.append(
            OperatorTime(
                index=index,
                operator=source.operator if source else operator.kind,
                name=source.name if source else "",
                place=info.kernels or "" if info else "",
                count=profile.run_count,
                total_ns=round(ticks * profile.run_count * ns_per_tick),
                instructions=ticks * ns_per_tick / instruction_ns if instruction_ns else None,
                cycles=ticks if has_cycles else None,
            )
        )
    return TargetProfile(tuple(operators), profile.reading_ticks * ns_per_tick)
