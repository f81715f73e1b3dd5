"""Makes the result of a run that was fetched; in a process of its own while others measure.

The analysis of a million queries holds Python's global lock for a third of a second at a time. A
meter that another lane reads meanwhile loses samples (its 64 KiB of buffer last 160 ms at a PPK2's
rate), and clock probes take longer.
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
"""Finishes a run in a directory; see `finish`."""
END_TIMEOUT_S = 2.0
"""Time to end by itself; a run that it is busy with stays on its device, and is fetched again."""
TRIES = 2
_HOST_ERRORS = {
    kind.__name__: kind for kind in (MeasurementError, RunDamaged, StoreError, Unforeseen)
}
"""Errors of files, which have no code: no agent sends them."""


def finish(directory: Path, trouble: str | None = None) -> Run:
    """Compute the result of a run from the files in its directory, and write run.json.

    Total: any files of a device end in a result, or in one of these errors.

    Args:
        directory: The agent's files under raw/, clock probes, and what the host recorded.
        trouble: Why the host's own meter ended early.

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
        # What a meter recorded stays under raw/: there is no inference that it could be divided by.
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
    from_document(to_document(run))  # a run that could not be read again is not stored
    write_run(directory, run)
    return run


def _kept_probes(directory: Path) -> list[list[ClockProbe]]:
    """Clock probes beside the run; an empty file of them is written where none are readable.

    They are not where a machine lost power while an earlier version wrote them.
    """
    with suppress(RunDamaged):
        if (directory / CLOCK_FILE).exists():
            return read_clock(directory)
    write_clock(directory, [])
    return []


def _recording(directory: Path, record: RunRecord, trouble: str | None) -> Recording | None:
    """What a meter recorded: the agent's, this host's, or one of a host that went away meanwhile.

    When the last one ended nobody knows; energy is refused for every window that it does not cover.
    """
    path = directory / RAW_DIRECTORY / METER_FILE
    if not path.exists():
        return None
    return open_recording(path, record.metered.trouble if record.metered else trouble)


class FinishingProcess:
    """Finishes runs in another process, one at a time, for several threads.

    One that dies is followed by a new one, which tries once more: somebody may have killed it. A
    run that ends that one too, as by its size, is an error. It ends with this process.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = _started()

    def __enter__(self) -> FinishingProcess:
        return self

    def __exit__(self, *_: object) -> None:
        _end(self._process)

    def finish(self, directory: Path, trouble: str | None = None) -> Run:
        """Finish a run, as `finish` does.

        Raises:
            MeasurementError: the process ended meanwhile, twice.
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
        _raise_error(FinishReply(**json.loads(answer)))
        return from_document(json.loads((directory / RUN_FILE).read_bytes()))

    def _ask(self, request: bytes) -> bytes:
        """Reply to one request; empty if the process has ended."""
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
        start_new_session=True,  # Ctrl-C ends a measurement, not its analysis
    )


def _end(process: subprocess.Popen[bytes]) -> int:
    """End a process, and close its pipes; its status."""
    requests, answers = _pipes(process)
    with suppress(BrokenPipeError):  # it was killed
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
    """What stopped the other process in finishing a run; nothing is set where nothing did."""

    code: int | None = None
    """Code of an error of edgebench's."""
    kind: str = ""
    """Name of its class."""
    text: str = ""
    errno: int | None = None
    """Number of an error of the system."""
    path: str | None = None
    """File that it is about."""


def _raise_error(reply: FinishReply) -> None:
    """Raise what the other process was stopped by, if anything."""
    if reply.code is not None:
        kind = _HOST_ERRORS.get(reply.kind)
        raise kind(reply.text) if kind else error_from_code(reply.code, reply.text)
    if reply.errno is not None:
        raise OSError(reply.errno, os.strerror(reply.errno), reply.path)


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
    """Answer one request a line until there are no more."""
    report_strays()
    lines: SimpleQueue[bytes] = SimpleQueue()
    with os.fdopen(os.dup(sys.stdout.fileno()), "wb") as answers:
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # a library may print something
        threading.Thread(target=_read, args=(lines,), daemon=True).start()
        while True:
            reply = json.dumps(asdict(_answer(lines.get()))).encode()
            with suppress(BrokenPipeError):  # the host was killed; `_read` is about to notice
                answers.write(reply + b"\n")
                answers.flush()


def _read(lines: SimpleQueue[bytes]) -> None:
    """Pass requests on; end the process with its host, whatever it is busy with.

    A host that comes back fetches the run again, into the directory that is written here.
    """
    for line in sys.stdin.buffer:
        lines.put(line)
    os._exit(0)


if __name__ == "__main__":
    main()
