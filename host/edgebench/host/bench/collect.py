"""A finished run, fetched from its device, analysed and stored."""

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
    claimed,
    mark_lost,
    read_expectation,
)
from edgebench.host.store.index import note_run
from edgebench.host.store.layout import RAW_DIRECTORY, Store
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
"""Called with a run's id and what is wrong with it."""


@dataclass(frozen=True, slots=True)
class HostRecord:
    """What the host itself recorded during a run; nothing, when it was away."""

    probes: list[list[ClockProbe]]
    meter_trouble: str | None = None
    """Why its meter ended early."""


def collect(
    client: Client,
    store: Store,
    run_id: str,
    beside: HostRecord,
    finish: Finish = finish,
    *,
    is_kept: bool = False,
    on_stored: Callable[[Run], None] | None = None,
) -> Run:
    """Store a finished run that waits on the device, also one that failed.

    The device forgets the run only after it is safe here, and after `on_stored` was called with it;
    or it keeps the run until another host has it.

    Raises:
        RunSetAside: the run cannot be analysed; its files are here, and no longer on the device.
        RunNotStored: the store cannot be written.
        RemoteProtocolError: the device calls a run what no host of ours would.
    """
    try:
        run = _store(client, store, run_id, beside, finish)
    except RunSetAside:
        client.acknowledge(run_id)  # of another host's runs as well: no host can analyse it
        raise
    except RunDamaged:
        raise  # the store is all right, what the device sent is not
    except StoreError as exc:
        raise RunNotStored(f"run {run_id} stays on the device: {exc}") from exc
    if on_stored is not None:
        on_stored(run)
    if not is_kept:
        client.acknowledge(run_id)
    return run


def analyse_set_aside(store: Store, *, on_doubt: OnProblem, finish: Finish = finish) -> list[Run]:
    """Analyse the runs again that were set aside; the runs that are stored now, failed ones too.

    Raises:
        StoreError: the store cannot be read or written.
    """
    runs: list[Run] = []
    for kept in runs_set_aside(store):
        try:
            with store.incoming(kept.run_id) as directory, claimed(directory):
                copy_back(kept, directory)  # the evidence stays as it is until there is a run
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
    """Probes that an earlier process of this machine has left in a run's directory, by group."""
    with suppress(RunDamaged):  # then it was not written to its end
        if groups := read_clock(directory):
            return groups
    expectation = read_expectation(directory)
    return [list(expectation.probes)] if expectation and expectation.probes else []


def settle_lost(client: Client, store: Store) -> list[IncompleteRun]:
    """Mark or remove the runs of this device that it no longer has; which they are.

    The lease must be ours: then no other command starts one meanwhile.

    Raises:
        TransportError: the link failed.
        StoreError: the store cannot be read or written.
    """
    listing = client.list_runs()
    if len(listing.finished) >= MAX_LISTED_RUNS:
        return []  # it may have more
    on_device = {*listing.finished, listing.running}
    return mark_lost(
        store,
        Whereabouts(client.device.id, client.via, client.agent, client.seat),
        on_device={run_id for run_id in on_device if run_id is not None},
    )


def check_run_id(run_id: str) -> None:
    """Check the id of a run before it names a file.

    Raises:
        RemoteProtocolError: the device calls a run what no host would.
    """
    if not RUN_ID.fullmatch(run_id):
        raise RemoteProtocolError(f"malformed run id: {run_id[:80]!r}")


def failure_of(run: Run) -> EdgebenchError | None:
    """The error that a stored run failed with; None for one that measured something."""
    if run.failure is None:
        return None
    error = error_from_code(ErrorCode[run.failure.code.upper()], run.failure.message)
    error.run_id = run.run_id
    return error


def _store(client: Client, store: Store, run_id: str, beside: HostRecord, finish: Finish) -> Run:
    """Fetch and store a finished run; the device keeps it."""
    check_run_id(run_id)
    if store.has(run_id):  # the process that stored it was killed before it said so
        store.settle()
        return store.run(run_id)
    if (error := known_error(store, run_id)) is not None:  # or set it aside, as this one would
        raise error
    with store.incoming(run_id) as directory, claimed(directory):
        client.fetch_run(run_id, directory / RAW_DIRECTORY)
        write_clock(directory, beside.probes or left_probes(directory))
        run = _finished(store, run_id, directory, beside.meter_trouble, finish)
    note_run(store, run_id, run)
    return run


def _finished(
    store: Store, run_id: str, directory: Path, meter_trouble: str | None, finish: Finish
) -> Run:
    """Analyse a run whose files are all here, or set it aside.

    Raises:
        RunSetAside: the run cannot be analysed.
        RunDamaged: the run cannot be analysed, and too many are set aside already.
        StoreError: the store cannot be written, which is no fault of the run.
        OSError: a file cannot be read or written, which is no fault of the run.
    """
    try:
        return _analysed(run_id, directory, meter_trouble, finish)
    except OSError:
        raise
    except Exception as exc:  # whatever it is, the next command must not fetch the run again
        error = named_error(exc, "analysis")
        if isinstance(error, StoreError) and not isinstance(error, RunDamaged):
            raise
        raise set_aside(store, run_id, error, software()) from exc


def _analysed(run_id: str, directory: Path, meter_trouble: str | None, finish: Finish) -> Run:
    unpack_facts(directory)
    run = finish(directory, meter_trouble)
    if run.run_id != run_id:
        raise RunDamaged(f"its record is that of run {run.run_id[:80]!r}")
    return run
