"""Returns memory to the system, so that the daemon does not keep the peak memory of a run."""

from __future__ import annotations

import ctypes
import gc


def give_back() -> None:
    """Collect garbage, and have the C library return free pages to the kernel.

    Source: malloc_trim(3); C libraries without this function return no pages.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
