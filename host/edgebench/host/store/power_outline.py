"""Outline of a stored recording of power, for charts of recordings of any length."""

from __future__ import annotations

import math

import pyarrow as pa

from edgebench.host.analysis.energy.outline import OutlineBuilder, PowerOutline
from edgebench.host.store.arrow import to_numpy
from edgebench.host.store.layout import POWER_OUTLINE_FILE
from edgebench.host.store.parquet_file import Layout, open_parquet, read_columns
from edgebench.host.store.power import OUTLINE_COLUMNS, OUTLINE_ROWS
from edgebench.host.store.power_file import PowerFile
from edgebench.protocol.errors import RunDamaged

MAX_BLOCKS = 1 << 17
"""Maximum number of blocks of an outline; a screen has far fewer columns of pixels."""
_OUTLINE = Layout(
    {
        "channel": pa.int32(),
        **dict.fromkeys(("begin_ns", "end_ns"), pa.int64()),
        **dict.fromkeys(("low_w", "mean_w", "high_w"), pa.float64()),
    }
)


def read_outline(file: PowerFile, channel: str, finest: int | None = None) -> PowerOutline:
    """Outline of a channel; in a short recording, each block is a single sample interval.

    Args:
        file: The recording.
        channel: Name of the channel.
        finest: Maximum number of blocks to compute from the samples. If None, the stored outline is
            read; without a stored outline, at most `MAX_BLOCKS` blocks are computed.

    Raises:
        RunDamaged: the recording cannot be read.
    """
    path = file.path.with_name(POWER_OUTLINE_FILE)
    if path.exists() and finest is None:
        names = [channel.name for channel in file.header.capability.channels]
        with open_parquet(path, _OUTLINE, max_rows=_max_rows(file)) as outline:
            table = read_columns(outline, _OUTLINE)
        try:
            is_channel = to_numpy(table["channel"]) == names.index(channel)
            columns = [to_numpy(table[name])[is_channel] for name in OUTLINE_COLUMNS]
        except KeyError as exc:
            raise RunDamaged(f"outline of the power is damaged: no column {exc}: {path}") from exc
        begin_ns, end_ns, low_w, mean_w, high_w = columns
        return PowerOutline(begin_ns, end_ns, low_w, mean_w, high_w).coarser(MAX_BLOCKS)
    # A short recording, or a recording of an older edgebench.
    node_count = sum(group.node_count for group in file.facts.of(channel))
    builder = OutlineBuilder(max(1, math.ceil(node_count / (finest or MAX_BLOCKS))))
    for line in file.lines(channel):
        builder.add(line)
    return builder.outline()


def check_outline(file: PowerFile) -> None:
    """Check the footer of the outline of a recording, if the recording has an outline.

    Raises:
        RunDamaged: the outline has an unexpected layout.
    """
    path = file.path.with_name(POWER_OUTLINE_FILE)
    if path.exists():
        with open_parquet(path, _OUTLINE, max_rows=_max_rows(file)):
            pass


def _max_rows(file: PowerFile) -> int:
    """Maximum number of blocks that the outline of a recording can have.

    A row with a mean gives two segments of the power line, and the last block of a channel may be
    short.
    """
    row_count = sum(group.row_count for group in file.facts.groups)
    return 2 * row_count // OUTLINE_ROWS + 2 * len(file.header.capability.channels) + 2
