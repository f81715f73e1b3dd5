"""Fetch a finished run from its device, analyse it and store it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from edgebench.host.bench.finish import Finish, finish
from edgebench.host.client import Client
from edgebench.host.result.run import Run
from edgebench.host.store.files import read_clock, write_clock
from edgebench.host.store.host_file import unpack_facts
from edgebench.host.store.incomplete import (
    IncompleteRun,
    Whereabouts,
    mark_lost,
    read_expectation,
)
from edgebench.host.store.index import note_run
from edgebench.host.store.layout import RAW_DIRECTORY, Store, locked_run
from edgebench.host.store.set_aside import (
    copy_back,
    known_error,
    remove_set_aside,
    runs_set_aside,
    set_aside,
    set_aside_error,
)
from edgebench.host.this_host import software
from edgebench.protocol.clock import ClockProbe
from edgebench.protocol.errors import (
    EdgebenchError,
    ErrorCode,
    RemoteProtocolError,
    RunDamaged,
    RunNotStored,
    RunSetAside,
    StoreError,
    error_from_code,
)
from edgebench.protocol.messages import MAX_LISTED_RUNS
from edgebench.protocol.record import RUN_ID
from edgebench.system.unforeseen import named_error

OnProblem = Callable[[str, EdgebenchError], None]
"""Called with the id of a run and its error."""


@dataclass(frozen=True, slots=True)
class HostRecord:
    """Data that the host recorded during a run; empty without a connection to the device."""

    probes: list[list[ClockProbe]]
    meter_trouble: str | None = None
    """Why the recording of the host's meter ended too early; None if it is complete."""


def collect(
    client: Client,
    store: Store,
    run_id: str,
    host_record: HostRecord,
    finish: Finish = finish,
    *,
    is_kept: bool = False,
    on_stored: Callable[[Run], None] | None = None,
) -> Run:
    """Store a finished or failed run that is on the device.

    The device deletes the run only after the run is stored here and `on_stored` has returned. If
    `is_kept`, the device keeps the run until another host has fetched it.

    Raises:
        RunSetAside: the run cannot be analysed; its files were moved from the device to this store.
        RunNotStored: the store cannot be written.
        RemoteProtocolError: the device sent a malformed run id.
    """
    try:
        run = _store(client, store, run_id, host_record, finish)
    except RunSetAside:
        client.acknowledge(run_id)  # even another host's run, because no host can analyse it
        raise
    except RunDamaged:
        raise  # the device sent damaged files; the store works
    except StoreError as exc:
        raise RunNotStored(f"run {run_id} stays on the device: {exc}") from exc
    if on_stored is not None:
        on_stored(run)
    if not is_kept:
        client.acknowledge(run_id)
    return run


def analyse_set_aside(store: Store, *, on_doubt: OnProblem, finish: Finish = finish) -> list[Run]:
    """Repeat the analysis of runs that were set aside, and store the runs.

    Returns:
        The runs that this call has stored, including failed runs.

    Raises:
        StoreError: the store cannot be read or written.
    """
    runs: list[Run] = []
    for kept in runs_set_aside(store):
        try:
            with store.incoming(kept.run_id) as directory, locked_run(directory):
                copy_back(kept, directory)  # the original files are kept until a run is stored
                run = _analysed(kept.run_id, directory, None, finish)
        except EdgebenchError as exc:
            store.forget_expected(kept.run_id)
            if isinstance(exc, StoreError) and not isinstance(exc, RunDamaged):
                raise
            on_doubt(kept.run_id, set_aside_error(store, kept.run_id, str(exc)))
            continue
        note_run(store, kept.run_id, run)
        remove_set_aside(store, [kept.run_id])
        runs.append(run)
    return runs


def left_probes(directory: Path) -> list[list[ClockProbe]]:
    """Groups of clock probes that an earlier process of this host left in a run's directory."""
    with suppress(RunDamaged):  # the file was not completely written
        if groups := read_clock(directory):
            return groups
    expectation = read_expectation(directory)
    return [list(expectation.probes)] if expectation and expectation.probes else []


def settle_lost(client: Client, store: Store) -> list[IncompleteRun]:
    """Mark runs as lost, or remove them, if this store expects them but the device lacks them.

    The caller must hold the lease, so that no other command can start a run.

    Returns:
        The lost runs.

    Raises:
        TransportError: the link failed.
        StoreError: the store cannot be read or written.
    """
    listing = client.list_runs()
    if len(listing.finished) >= MAX_LISTED_RUNS:
        return []  # the listing may be incomplete
    on_device = {*listing.finished, listing.running}
    return mark_lost(
        store,
        Whereabouts(client.device.id, client.via, client.agent, client.seat),
        on_device={run_id for run_id in on_device if run_id is not None},
    )


def check_run_id(run_id: str) -> None:
    """Check the id of a run before it is used as a file name.

    Raises:
        RemoteProtocolError: the id is malformed.
    """
    if not RUN_ID.fullmatch(run_id):
        raise RemoteProtocolError(f"malformed run id: {run_id[:80]!r}")


def failure_of(run: Run) -> EdgebenchError | None:
    """The error that a stored run failed with; None if the run did not fail."""
    if run.failure is None:
        return None
    error = error_from_code(ErrorCode[run.failure.code.upper()], run.failure.message)
    error.run_id = run.run_id
    return error


def _store(
    client: Client, store: Store, run_id: str, host_record: HostRecord, finish: Finish
) -> Run:
    """Fetch and store a finished run, without deleting it on the device."""
    check_run_id(run_id)
    if store.has(run_id):  # the process that stored it was killed before the acknowledgement
        store.settle()
        return store.run(run_id)
    if (error := known_error(store, run_id)) is not None:  # an earlier process set it aside
        raise error
    with store.incoming(run_id) as directory, locked_run(directory):
        client.fetch_run(run_id, directory / RAW_DIRECTORY)
        write_clock(directory, host_record.probes or left_probes(directory))
        run = _finished(store, run_id, directory, host_record.meter_trouble, finish)
    note_run(store, run_id, run)
    return run


def _finished(
    store: Store, run_id: str, directory: Path, meter_trouble: str | None, finish: Finish
) -> Run:
    """Analyse a run whose files have all been fetched; if the analysis fails, set the run aside.

    Raises:
        RunSetAside: the run cannot be analysed.
        RunDamaged: the run cannot be analysed, and too many runs are already set aside.
        StoreError: the store cannot be written, for a reason that is not due to the run.
        OSError: a file cannot be read or written, for a reason that is not due to the run.
    """
    try:
        return _analysed(run_id, directory, meter_trouble, finish)
    except OSError:
        raise
    except Exception as exc:  # on any error, the next command must not fetch the run again
        error = named_error(exc, "analysis")
        if isinstance(error, StoreError) and not isinstance(error, RunDamaged):
            raise
        raise set_aside(store, run_id, error, software()) from exc


def _analysed(run_id: str, directory: Path, meter_trouble: str | None, finish: Finish) -> Run:
    unpack_facts(directory)
    run = finish(directory, meter_trouble)
    if run.run_id != run_id:
        raise RunDamaged(f"the record belongs to another run, {run.run_id[:80]!r}")
    return run
