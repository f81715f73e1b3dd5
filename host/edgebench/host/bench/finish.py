"""Compute the result of a fetched run, in a separate process if several devices are measured.

The analysis of a million queries holds Python's global interpreter lock for up to a third of a
second. During that time, a thread that reads a meter loses samples, and clock probes take longer.
For example, the meter's buffer of 64 KiB holds 160 ms of samples at a PPK2's rate.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime, timezone
from pathlib import Path
from queue import SimpleQueue
from typing import IO

from edgebench.host.analysis.arithmetic import strict_arithmetic
from edgebench.host.analysis.run import analyse_failure, analyse_run, analyse_target, fit_clock
from edgebench.host.result.document import created_utc, from_document, to_document
from edgebench.host.result.run import Run
from edgebench.host.show.sentences import described
from edgebench.host.store.files import (
    file_digests,
    read_clock,
    read_facts,
    read_record,
    read_target_traces,
    read_traces,
    unpack_telemetry,
    unpack_traces,
    write_clock,
    write_events,
    write_run,
)
from edgebench.host.store.layout import CLOCK_FILE, RAW_DIRECTORY, RUN_FILE
from edgebench.host.store.power import remove_power
from edgebench.host.store.recording import open_recording, write_power
from edgebench.meters.base import Recording
from edgebench.protocol.clock import ClockProbe
from edgebench.protocol.errors import (
    EdgebenchError,
    MeasurementError,
    RunDamaged,
    StoreError,
    Unforeseen,
    error_from_code,
)
from edgebench.protocol.record import RunRecord
from edgebench.protocol.traces import METER_FILE
from edgebench.system.command_process import report_strays
from edgebench.system.python_start import python_command
from edgebench.system.unforeseen import named_error

Finish = Callable[[Path, "str | None"], Run]
"""Function with the signature of `finish`, which computes and writes the result of a run."""
END_TIMEOUT_S = 2.0
"""Time that the process has to exit before it is killed. A run whose analysis is cut short stays on
its device, and is fetched again."""
TRIES = 2
_HOST_ERRORS = {
    kind.__name__: kind for kind in (MeasurementError, RunDamaged, StoreError, Unforeseen)
}
"""Maps names to error classes, for errors that have no code because no agent sends them."""


def finish(directory: Path, trouble: str | None = None) -> Run:
    """Compute the result of a run from the files in its directory, and write run.json.

    The outcome is a result or one of these errors, whatever files the device has sent.

    Args:
        directory: Directory with the agent's files under raw/, clock probes, and the host's files.
        trouble: Why the recording of the host's meter ended early; None if it did not end early.

    Raises:
        RunDamaged: a file is malformed, or an unforeseen exception ended the analysis.
        MeasurementError: the numbers contradict each other.
        OSError: a file cannot be read or written.
    """
    try:
        with strict_arithmetic():
            return _finished(directory, trouble)
    except (EdgebenchError, OSError):
        raise
    except Exception as exc:  # MemoryError and RecursionError among them
        raise RunDamaged(str(named_error(exc, "analysis"))) from exc


def _finished(directory: Path, trouble: str | None) -> Run:
    record = read_record(directory)
    probes = _kept_probes(directory)
    remove_power(directory)
    write_events(directory, record.events)
    now = datetime.now(timezone.utc).isoformat(timespec="seconds")
    made_utc, clock = created_utc(record.run_id) or now, fit_clock(probes, record)
    if record.target is not None:
        unpack_telemetry(directory, record)
        if recording := _recording(directory, record, trouble):
            write_power(directory, recording)
        target_traces = read_target_traces(directory)
        run = analyse_target(record, target_traces, created_utc=made_utc, clock=clock)
    elif record.worker is None:
        # A meter's recording stays under raw/: without inferences, no energy can be computed.
        unpack_telemetry(directory, record)
        facts = read_facts(directory)
        run = analyse_failure(record, facts, created_utc=made_utc, clock=clock)
    else:
        queries = unpack_traces(directory, record)
        if recording := _recording(directory, record, trouble):
            write_power(directory, recording)
        traces = read_traces(directory, record, queries)
        run = analyse_run(record, traces, created_utc=made_utc, clock=clock)
    run = replace(run, files=file_digests(directory), verdict=described(run.verdict))
    from_document(to_document(run))  # raises if the stored run could not be read again
    write_run(directory, run)
    return run


def _kept_probes(directory: Path) -> list[list[ClockProbe]]:
    """Clock probes of the run; an empty file replaces a file of probes that is not readable.

    The file is unreadable if the machine lost power while an earlier version of edgebench wrote it.
    """
    with suppress(RunDamaged):
        if (directory / CLOCK_FILE).exists():
            return read_clock(directory)
    write_clock(directory, [])
    return []


def _recording(directory: Path, record: RunRecord, trouble: str | None) -> Recording | None:
    """Open the meter's recording, which the agent, this host or another host has made.

    If the host lost its connection, the end of its recording is unknown; no energy is computed for
    a window that is not completely recorded.
    """
    path = directory / RAW_DIRECTORY / METER_FILE
    if not path.exists():
        return None
    return open_recording(path, record.metered.trouble if record.metered else trouble)


class FinishingProcess:
    """Computes results of runs in a separate process, one result at a time, for several threads.

    If the separate process dies, a second process repeats the analysis, because a user may have
    killed the first process. If the second process dies, too, for example because the run is too
    large for the memory, an error is raised. The separate process exits when this process exits.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = _started()

    def __enter__(self) -> FinishingProcess:
        return self

    def __exit__(self, *_: object) -> None:
        _end(self._process)

    def finish(self, directory: Path, trouble: str | None = None) -> Run:
        """Compute and write the result of a run, like the function `finish`.

        Raises:
            MeasurementError: the process died twice.
        """
        request = json.dumps({"directory": str(directory.absolute()), "trouble": trouble}) + "\n"
        with self._lock:
            answer, status = b"", 0
            for _ in range(TRIES):
                answer = self._ask(request.encode())
                if answer:
                    break
                ended, self._process = self._process, _started()
                status = _end(ended)
        if not answer:
            raise MeasurementError(f"analysis of run {directory.name} ended with status {status}")
        # Raise the error of the other process, if any.
        reply = FinishReply(**json.loads(answer))
        if reply.code is not None:
            kind = _HOST_ERRORS.get(reply.kind)
            raise kind(reply.text) if kind else error_from_code(reply.code, reply.text)
        if reply.errno is not None:
            raise OSError(reply.errno, os.strerror(reply.errno), reply.path)
        return from_document(json.loads((directory / RUN_FILE).read_bytes()))

    def _ask(self, request: bytes) -> bytes:
        """Send a request and return the reply, which is empty if the process has died."""
        requests, answers = _pipes(self._process)
        with suppress(BrokenPipeError):
            requests.write(request)
            requests.flush()
            return answers.readline()
        return b""


def _started() -> subprocess.Popen[bytes]:
    python = python_command(__name__)
    return subprocess.Popen(
        python.words,
        cwd=python.directory,
        env=python.environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        start_new_session=True,  # Ctrl-C must end a measurement, not its analysis
    )


def _end(process: subprocess.Popen[bytes]) -> int:
    """End a process, close its pipes, and return its exit status."""
    requests, answers = _pipes(process)
    with suppress(BrokenPipeError):  # the process was killed
        requests.close()
    try:
        process.wait(END_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
    answers.close()
    return process.wait()


def _pipes(process: subprocess.Popen[bytes]) -> tuple[IO[bytes], IO[bytes]]:
    requests, answers = process.stdin, process.stdout
    assert requests is not None
    assert answers is not None
    return requests, answers


@dataclass(frozen=True, slots=True)
class FinishReply:
    """Reply of the analysing process: error of the analysis; no field is set after a success."""

    code: int | None = None
    """Code of an `EdgebenchError`."""
    kind: str = ""
    """Name of the error's class."""
    text: str = ""
    errno: int | None = None
    """Number of an `OSError`."""
    path: str | None = None
    """Path of the file that the `OSError` is about."""


def _answer(line: bytes) -> FinishReply:
    request = json.loads(line)
    try:
        finish(Path(request["directory"]), request["trouble"])
    except EdgebenchError as exc:
        return FinishReply(code=int(exc.code), kind=type(exc).__name__, text=str(exc))
    except OSError as exc:
        return FinishReply(errno=exc.errno or 0, path=exc.filename)
    except Exception as exc:
        error = named_error(exc)
        return FinishReply(code=int(error.code), kind=type(error).__name__, text=str(error))
    return FinishReply()


def main() -> None:
    """Handle requests, one per line, until standard input ends."""
    report_strays()
    lines: SimpleQueue[bytes] = SimpleQueue()
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libraries may print to stdout
        threading.Thread(target=_read, args=(lines,), daemon=True).start()
        while True:
            reply = json.dumps(asdict(_answer(lines.get()))).encode()
            with suppress(BrokenPipeError):  # the host was killed; `_read` ends this process
                answers.write(reply + b"\n")
                answers.flush()


def _read(lines: SimpleQueue[bytes]) -> None:
    """Queue requests; exit this process when the host process ends, even during an analysis.

    A process that continued would write to a directory into which a restarted host fetches the run
    again.
    """
    for line in sys.stdin.buffer:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
