"""A line for each run that was started but not stored, or that was set aside."""

from __future__ import annotations

from edgebench.host.result.units import format_duration
from edgebench.host.store.incomplete import IncompleteRun, IncompleteState
from edgebench.host.store.set_aside import SetAsideRun, reason_of
from edgebench.protocol.errors import EdgebenchError, RunNotStored, RunSetAside
from edgebench.protocol.sizes import format_bytes


def incomplete_line(run: IncompleteRun) -> str:
    """The run, its state, and which of its files are stored here."""
    which = f"run {run.run_id}"
    if run.expectation is not None:
        which += f" of {run.expectation.model} on {run.expectation.device}"
    if run.state is IncompleteState.IN_PROGRESS:
        return f"{which} is in progress"
    if run.state is IncompleteState.LOST:
        kept = contents(run)
        return (
            f"{which} is no longer on the device: it may have been stored elsewhere (another "
            f"--store), removed, or lost with its agent; kept here: {kept}"
        )
    return (
        f"{which} is not fetched; the next bench or collect on that device fetches it, or reports "
        "it lost"
    )


def contents(run: IncompleteRun) -> str:
    """The files of a run that are stored here, comma-separated.

    A recording alone yields no energy, because the times of the inferences were lost with the
    agent.
    """
    parts = list(run.files)
    if run.recording_s is not None:
        parts.insert(0, f"recording of {format_duration(run.recording_s)} of power")
    return ", ".join(parts) or "nothing"


def rejection_line(run_id: str, error: EdgebenchError) -> str:
    """Why a run of an earlier command is not stored, and where it remains."""
    if isinstance(error, (RunSetAside, RunNotStored)):  # the message names the run
        return str(error)
    return f"run {run_id} stays on the device: {error}"


def set_aside_line(run: SetAsideRun) -> str:
    """A run that was set aside, with its size and the reason."""
    which = f"run {run.run_id}"
    if run.expectation is not None:
        which += f" of {run.expectation.model} on {run.expectation.device}"
    size, reason = format_bytes(run.size_bytes), reason_of(run.fault)
    return f"{which} ({size}) is set aside, because it cannot be analysed: {reason}"
