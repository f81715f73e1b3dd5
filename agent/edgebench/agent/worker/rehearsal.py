"""What is done with the outputs after the timed loop, tried before it.

A model whose outputs cannot be kept is refused at once, not after a minute of measuring. The first
inference's outputs stand for all: they say what type and size the others have.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from edgebench.agent.runtimes.text import library_line
from edgebench.protocol.errors import (
    DatasetRefused,
    EdgebenchError,
    ModelRefused,
    NoSpace,
    OutputsTooLarge,
)
from edgebench.protocol.sizes import format_distinct_sizes
from edgebench.protocol.traces import COLUMN_BYTES, QUERY_COLUMNS

if TYPE_CHECKING:
    from edgebench.protocol.runtime import Tensor

KEEP_FREE_BYTES = 2**20
"""Room on the disk for what is small: the record, the worker's log."""
_T = TypeVar("_T")


def attempt(what: str, action: Callable[[], _T]) -> _T:
    """The result of an action whose failure refuses the model.

    Args:
        what: What cannot be done with the model then, as an error begins.
        action: The action; it may run code of a library that raises what it likes.

    Raises:
        ModelRefused: it failed.
        OSError: of the file system, not of the model.
    """
    try:
        return action()
    except (EdgebenchError, OSError, MemoryError):
        raise
    except Exception as exc:  # each library has its own exceptions
        raise ModelRefused(f"{what}: {type(exc).__name__}: {library_line(exc)}") from exc


def refuse_outputs(outputs: Sequence[Tensor], sample_count: int) -> int:
    """Refuse a data set whose outputs cannot be kept; else the size of all of them, bytes.

    Args:
        outputs: Outputs for one sample.
        sample_count: Samples of the data set.

    Raises:
        DatasetRefused: they are no numbers.
        OutputsTooLarge: they are more than is kept.
    """
    # Imported here: numpy is part of what the runtime's import takes.
    from edgebench.agent.worker.checks import MAX_OUTPUT_BYTES

    if kinds := [str(one.dtype) for one in outputs if one.dtype.kind not in "biuf"]:
        raise DatasetRefused(f"outputs for a data set have to be numbers, the model has {kinds[0]}")
    size = sum(one.nbytes for one in outputs) * sample_count
    if size > MAX_OUTPUT_BYTES:
        takes, limit = format_distinct_sizes(size, MAX_OUTPUT_BYTES)
        raise OutputsTooLarge(
            f"outputs for the {sample_count} samples of the data set take {takes}, limit {limit}"
        )
    return size


def trace_bytes(query_count: int) -> int:
    """Size of the trace of so many inferences."""
    return query_count * COLUMN_BYTES * len(QUERY_COLUMNS)


def refuse_full_disk(directory: Path, size_bytes: int) -> None:
    """Refuse a run whose files will not fit on the disk.

    Args:
        directory: Directory of the run.
        size_bytes: Size of what it will write.

    Raises:
        NoSpace: there is less room.
    """
    needed = size_bytes + KEEP_FREE_BYTES
    if (free := shutil.disk_usage(directory).free) < needed:
        writes, has = format_distinct_sizes(needed, free)
        raise NoSpace(f"the run will write {writes}, disk has {has} free: {directory}")
