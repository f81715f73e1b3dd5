"""The host: finds devices, measures on them, judges and keeps the results.

from edgebench.host import Lab

lab = Lab()
run = lab.bench("model.tflite", preset="quick")[0]
run.queries["latency_ns"].median()
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know this name; to import it from typing takes 5 ms
if TYPE_CHECKING:
    from edgebench.host.lab import Lab, StoredRun

__all__ = ["Lab", "StoredRun"]


def __getattr__(name: str) -> object:
    # The command line imports this package too, and must not pay for pandas.
    if name in __all__:
        from edgebench.host import lab

        return getattr(lab, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
