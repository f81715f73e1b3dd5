"""Tries out, before the timed loop, the steps that process the outputs after the loop.

A model whose outputs cannot be kept is refused at once, not after a minute of measuring. The trial
uses the outputs of the first inference, because all outputs have the same type and size.
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
"""Free space for the small files: the record and the worker's log."""
_T = TypeVar("_T")


def attempt(what: str, action: Callable[[], _T]) -> _T:
    """Run an action and return its result; if the action fails, the model is refused.

    Args:
        what: Beginning of the error message; it names the failed step.
        action: The action. It may run code of a library, and so raise any type of exception.

    Raises:
        ModelRefused: the action failed.
        OSError: the action failed because of the file system, not because of the model.
    """
    try:
        return action()
    except (EdgebenchError, OSError, MemoryError):
        raise
    except Exception as exc:  # libraries raise many types
        raise ModelRefused(f"{what}: {type(exc).__name__}: {library_line(exc)}") from exc


def refuse_outputs(outputs: Sequence[Tensor], sample_count: int) -> int:
    """Refuse a data set whose outputs cannot be kept; returns the size of all outputs, bytes.

    Args:
        outputs: Outputs for a sample.
        sample_count: Number of samples in the data set.

    Raises:
        DatasetRefused: the outputs are not numbers.
        OutputsTooLarge: the outputs are larger than the limit.
    """
    # Imported here: numpy counts as part of the runtime's import.
    from edgebench.agent.worker.checks import MAX_OUTPUT_BYTES

    if kinds := [str(output.dtype) for output in outputs if output.dtype.kind not in "biuf"]:
        raise DatasetRefused(f"outputs for a data set must be numbers, the model has {kinds[0]}")
    size = sum(output.nbytes for output in outputs) * sample_count
    if size > MAX_OUTPUT_BYTES:
        takes, limit = format_distinct_sizes(size, MAX_OUTPUT_BYTES)
        raise OutputsTooLarge(
            f"outputs for the {sample_count} samples of the data set take {takes}, limit {limit}"
        )
    return size


def trace_bytes(query_count: int) -> int:
    """Size of the trace of this many inferences, bytes."""
    return query_count * COLUMN_BYTES * len(QUERY_COLUMNS)


def refuse_full_disk(directory: Path, size_bytes: int) -> None:
    """Refuse a run whose files do not fit on the disk.

    Args:
        directory: Directory of the run.
        size_bytes: Size of the files that the run will write.

    Raises:
        NoSpace: the disk has less free space than the files need.
    """
    needed = size_bytes + KEEP_FREE_BYTES
    if (free := shutil.disk_usage(directory).free) < needed:
        writes, has = format_distinct_sizes(needed, free)
        raise NoSpace(f"the run will write {writes}, disk has {has} free: {directory}")
