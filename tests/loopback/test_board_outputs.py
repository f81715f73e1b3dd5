"""Given inputs, accuracy and agreement of boards: our firmware in QEMU and on a pseudo-terminal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from numpy.typing import NDArray
from support import int8_models
from support.agents import AgentProcess, Host
from support.firmware_process import built
from support.tools import need_tool
from support.watchers import worker_pid

from edgebench.host.analysis.verdict.table import was_stopped
from edgebench.host.bench import events
from edgebench.host.bench.cancellation import Cancellation, Interrupted
from edgebench.host.bench.dataset import open_dataset
from edgebench.host.bench.request import new_request
from edgebench.host.bench.verify import verify
from edgebench.host.result.verdict import RuleOutcome, State
from edgebench.protocol.errors import DatasetTooSlow, InputsRefused
from edgebench.protocol.messages import Progress
from edgebench.protocol.record import Phase, PhaseProgress, ProgressUnit

if TYPE_CHECKING:
    from edgebench.host.result.run import Run
    from edgebench.protocol.spec import SpecChanges

MODEL = "digits_int8.tflite"
SHORT: SpecChanges = {
    "duration_s": 0.5,
    "min_query_count": 5,
    "warmup_duration_s": 0.05,
    "warmup_query_count": 1,
}
TWELVE: SpecChanges = {**SHORT, "dataset_sample_count": 12}
PROFILED_TWELVE: SpecChanges = {**TWELVE, "is_profiled": True}


class Notes:
    """Record the progress of phases, and call a function after three samples of a data set."""

    def __init__(self, action: Callable[[], None] | None = None) -> None:
        self.reached: list[tuple[Phase, PhaseProgress]] = []
        self.references: list[tuple[str, bool]] = []
        """Names of references not requested, and whether they are announced as measured."""
        self._action = action

    def __call__(self, event: events.MeasurementEvent) -> None:
        """Record the notice, and raise every failure."""
        events.raise_failures(event)
        if isinstance(event, (events.ReferenceAdded, events.ReferenceSkipped)):
            self.references.append((event.model, isinstance(event, events.ReferenceAdded)))
        elif isinstance(event, events.PhaseReport):
            self._reach(event.progress)

    def _reach(self, progress: Progress) -> None:
        """Record the progress, and call the function after three samples."""
        if progress.reached is None:
            return
        self.reached.append((progress.phase, progress.reached))
        is_sample = progress.reached.unit is ProgressUnit.SAMPLES
        if self._action is not None and is_sample and progress.reached.done >= 3:
            self._action()
            self._action = None


@pytest.fixture(scope="module")
def desk() -> Iterator[tuple[Host, AgentProcess]]:
    """A host with one agent, which has QEMU and a board at a port."""
    need_tool("qemu-system-arm")
    binary = built("posix", "gcc")
    with TemporaryDirectory(prefix="edgebench-") as name, ExitStack() as stack:
        folder = Path(name)
        command = [str(binary), "--board", "alpha", "--link", str(folder / "tty")]
        board = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        stack.callback(board.kill)
        assert board.stdout is not None
        assert board.stdout.readline()
        agent, made = AgentProcess(folder / "agent"), Host(folder / "host")
        agent.options = ["--board", str(folder / "tty")]
        agent.start()
        stack.callback(agent.kill)
        made.lab.pair(agent.pairing_string())
        yield made, agent


@pytest.fixture(scope="module")
def host(desk: tuple[Host, AgentProcess]) -> Host:
    """The host of the desk."""
    return desk[0]


def place(host: Host, seat: str) -> str:
    """A seat of the agent."""
    return f"{host.devices[0].name}/{seat}"


def outputs_of(host: Host, run: Run) -> dict[str, NDArray[Any]]:
    """Outputs that are stored with a run."""
    with np.load(host.lab.store.directory(run.run_id) / "raw/answers.npz") as file:
        return dict(file)


@pytest.mark.parametrize("seat", ["qemu:mps2-an386", "alpha"])
def test_board_runs_a_data_set_and_agrees_with_the_reference(host: Host, seat: str) -> None:
    """Otherwise the accuracy could be of other samples, or a wrong bit could go unnoticed.

    With a profile, whose phase comes before that of the data set.
    """
    notes = Notes()
    (stored,) = host.lab.bench(
        MODEL,
        on=[place(host, seat)],
        accuracy="digits",
        watcher=notes,
        **PROFILED_TWELVE,
    )
    run = stored.result
    accuracy, agreement = run.metrics.accuracy, run.metrics.agreement
    assert accuracy is not None
    assert agreement is not None
    assert run.metrics.profile is not None
    assert run.metrics.profile.operators
    kept = outputs_of(host, run)
    index = kept["dataset_index"]
    assert len(set(index)) == accuracy.sample_count == 12
    right = (
        kept["dataset.0"].reshape(12, -1).argmax(axis=1)
        == open_dataset("digits").labels["y"][index]
    )
    assert accuracy.value == right.mean() > 0.8
    assert (agreement.fraction_equal, agreement.distinct_count) == (1.0, 5)
    assert re.fullmatch(r"litert \d+\.\d+\.\d+ BUILTIN_REF", agreement.reference)
    limits = {one.id: one.limit for one in run.verdict.rules}
    assert (limits["agreement_of_all"], limits["dataset_complete"]) == (0.0, 12.0)
    assert verify(host.lab.store, run.run_id) == []
    ends = {(phase, one.unit) for phase, one in notes.reached if one.done == one.total}
    assert (Phase.CHECKING, ProgressUnit.SAMPLES) in ends
    assert any(one.unit is ProgressUnit.WINDOWS for _, one in notes.reached)
    # A real board's model and inputs cross its serial line.
    assert seat != "alpha" or (Phase.LOADING, ProgressUnit.BYTES) in ends


@pytest.mark.parametrize("kind", ["stream", "two_inputs", "uint8_split"])
def test_model_with_variables_or_several_inputs_agrees_with_the_reference(
    host: Host, tmp_path: Path, kind: str
) -> None:
    """Otherwise a window's last inference would be compared with the first one of the reference."""
    path = tmp_path / f"{kind}.tflite"
    path.write_bytes(getattr(int8_models, kind)(np.random.default_rng(7)))
    (stored,) = host.lab.bench(path, on=[place(host, "alpha")], **SHORT)
    agreement = stored.result.metrics.agreement
    assert agreement is not None
    assert agreement.fraction_equal == 1.0
    assert agreement.distinct_count == 5


def test_given_inputs_are_quantised_as_the_model_says(host: Host, tmp_path: Path) -> None:
    """Otherwise real values would be cut to integers, or a window would use generated inputs."""
    on = [place(host, "qemu:mps2-an386")]

    def given(values: NDArray[Any], name: str) -> Run:
        np.savez(tmp_path / "given.npz", **{name: values})
        inputs = tmp_path / "given.npz"
        (stored,) = host.lab.bench(MODEL, on=on, inputs=inputs, is_checked=False)
        return stored.result

    (drawn,) = host.lab.bench(MODEL, on=on, is_checked=False)
    (spec,) = drawn.result.conditions.inputs
    assert spec.scale is not None
    numbers = np.random.default_rng(3).integers(-128, 128, (2, *spec.shape[1:]), dtype=np.int8)
    as_they_are = given(numbers, spec.name)
    real = given(spec.scale * (numbers.astype(np.float32) - (spec.zero_point or 0)), spec.name)
    digests = [one.conditions.output_sha256 for one in (drawn.result, as_they_are, real)]
    assert digests[0] != digests[1] == digests[2]
    assert real.conditions.sample_count == 2
    assert real.conditions.inputs_clipped_ratio == 0.0
    assert real.metrics.agreement is None
    with pytest.raises(InputsRefused, match="no input 'other'"):
        given(numbers, "other")


def test_data_set_that_takes_too_long_is_refused_before_the_windows(host: Host) -> None:
    """Otherwise the user would wait for a day before learning that it would have taken two."""
    on = [place(host, "qemu:mps2-an386")]
    with pytest.raises(DatasetTooSlow, match=r"360 samples .* limit 0.01 s") as refused:
        host.lab.bench(MODEL, on=on, accuracy="digits", dataset_limit_s=0.01)
    run = host.lab.run(refused.value.run_id or "").result
    assert run.failure is not None
    assert run.failure.phase is Phase.WARMING_UP


def test_interrupted_data_set_keeps_what_was_run(host: Host) -> None:
    """Otherwise the outputs of hours would be lost, or pass for those of all samples."""
    cancellation = Cancellation()
    request = new_request([MODEL], on=[place(host, "qemu:mps2-an386")], accuracy="digits", **SHORT)
    with pytest.raises(Interrupted) as interrupted:
        host.lab.measure(request, Notes(cancellation.request), cancellation)
    run = interrupted.value.run
    assert run is not None
    assert run.metrics.accuracy is not None
    assert 3 <= run.metrics.accuracy.sample_count < 360
    (rule,) = [one for one in run.verdict.rules if one.id == "dataset_complete"]
    assert (rule.outcome, rule.limit) == (RuleOutcome.FAIL, 360.0)
    assert "stopped before it was done" in rule.detail
    assert was_stopped(run)
    assert run.verdict.state is State.SUSPECT
    assert verify(host.lab.store, run.run_id) == []


def test_worker_that_dies_in_a_data_set_leaves_its_windows(desk: tuple[Host, AgentProcess]) -> None:
    """Otherwise the measurement of an hour would be lost with the data set after it."""
    host, agent = desk
    notes = Notes(lambda: os.kill(worker_pid(agent), signal.SIGKILL))
    (stored,) = host.lab.bench(
        MODEL, on=[place(host, "qemu:mps2-an386")], accuracy="digits", watcher=notes, **SHORT
    )
    run = stored.result
    assert notes.references == [("digits_fp32.tflite", False)], "announced once, as left out"
    assert run.metrics.instructions_per_inference is not None
    assert run.metrics.accuracy is None
    (rule,) = [one for one in run.verdict.rules if one.id == "dataset_complete"]
    assert (rule.value, rule.limit) == (0.0, 360.0)
    assert "SIGKILL while checking the outputs" in rule.detail
    assert run.verdict.state is State.SUSPECT
    assert not was_stopped(run)
