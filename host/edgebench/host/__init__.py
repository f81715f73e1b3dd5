"""The host part of edgebench: finds and measures devices, judges and stores the results.

from edgebench.host import Lab

lab = Lab()
run = lab.bench("model.tflite", preset="quick")[0]
run.queries["latency_ns"].median()
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers accept this name; importing it from typing takes 5 ms
if TYPE_CHECKING:
    from edgebench.host.lab import Lab
    from edgebench.host.notebook import NotebookProgress
    from edgebench.host.stored_run import StoredRun, StoredSet

__all__ = ["Lab", "NotebookProgress", "StoredRun", "StoredSet"]


def __getattr__(name: str) -> object:
    # Imported lazily, because the command line imports this package and must not load pandas.
    if name in __all__:
        from importlib import import_module

        room = {"Lab": "lab", "NotebookProgress": "notebook"}.get(name, "stored_run")
        return getattr(import_module(f"edgebench.host.{room}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
