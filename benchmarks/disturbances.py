"""Is a planted disturbance the first cause in the verdict, and does the first advice remove it?

    python benchmarks/disturbances.py [--only NAME…] [--tries 3] [--patience 60] [--smoke]

Twelve disturbances are planted in real runs, with a real agent, a real worker and real traces. A
simulated board (planted_agent.py) has the disturbances that this machine cannot have: heat, a weak
supply, a governor, two types of cores. For each disturbance, the table has the number of failed
rules of the set, its causes, whether the first cause is right, the first advice, and whether the
cause is gone after the advice was followed.

Each advice is followed exactly as it is printed. The first command in the advice is run; without a
command, the original command is run again. If the advice names an action by which a person would
remove the disturbance (`Disturbance.person`), the disturbance is removed: "end other programs" ends
the planted process, and "improve the cooling" cools the simulated board. A disturbance that the
advice does not name stays. METER in a command is replaced by the meter of the original command.

The model runs on CPU 1, and host and instruments run on the other CPUs, unless the disturbance
needs several CPUs for the model. If other programs of the machine are a cause too, the trial is
repeated, with at most `--tries` tries in all; the last try counts.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import psutil
from common import (
    LoopbackAgent,
    add_patience,
    claim,
    claims_table,
    machine,
    parse,
    report,
    table,
    wait_until_quiet,
)
from planted_agent import MENDED_FILE

from edgebench.agent.runtimes.trivial_models import TRIVIAL_MODELS
from edgebench.host.analysis.verdict.cause import Cause
from edgebench.host.analysis.verdict.diagnosis import Diagnosis, diagnose
from edgebench.host.lab import Lab
from edgebench.host.show.verdict import advice_against, evidence_words
from edgebench.host.stored_run import StoredSet

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.activity import SUPPLY_V, Activity
from support.ppk2 import Faults, Ppk2Emulator

FIRST_RIGHT_BAR, CLEARED_BAR = 11, 10
"""Minimum numbers of trials for the two claims: first cause right, and cause gone after the advice.
Source: issue 40, "Must show", item 1."""
CPU = "1"
MODEL = "digits_fp32.tflite"
QUICK = ("--quick", "--runs", "5", "--runtime", "litert", "--no-check", "--cpus", CPU)
LONG = ("--runs", "1", "--runtime", "litert", "--no-check", "--cpus", CPU)
PAUSE_S = 1.5
WORKED_S = 3.0
"""A worker that has used this much CPU time has reached its timed loop."""
DEAD_SIZE, DEAD_BIAS = 1024, 1000.0
"""Size and bias of a layer. The bias makes all outputs of the layer zero, unless the inputs are far
larger than inputs that are drawn at random."""


@dataclass(frozen=True, slots=True)
class PlantedSite:
    """Folder and agent of a trial, for planting a disturbance."""

    folder: Path
    agent: LoopbackAgent


Plant = Callable[[PlantedSite], AbstractContextManager[Callable[[], None]]]
"""Context manager that plants a disturbance, and yields a function that removes the disturbance."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """A disturbance, and the measurement in which it is planted."""

    name: str
    causes: frozenset[Cause]
    """Causes that are right for this disturbance."""
    words: Callable[[PlantedSite], Sequence[str]]
    """Arguments of `bench`, without the device."""
    plant: Plant = lambda _: nullcontext(lambda: None)
    person: str = ""
    """If this pattern matches the advice, a person who follows the advice removes the
    disturbance."""
    board: str = ""
    """Simulated board; empty: this machine."""


class PlantedAgent(LoopbackAgent):
    """An agent of planted_agent.py."""

    def _command(self, *words: str) -> list[str]:
        command = super()._command(*words)
        begin = command.index("--state")
        script = str(Path(__file__).with_name("planted_agent.py"))
        return [command[0], script, *command[begin:]]


def governed(duration: str, *options: str) -> Sequence[str]:
    """Arguments of `bench` for a run on the board with a governor."""
    return (MODEL, *LONG, "--duration", duration, "--cooldown", "0s", *options)


def quick(model: str = MODEL) -> Callable[[PlantedSite], Sequence[str]]:
    """Function that returns the arguments of `bench` for five quick runs."""
    return lambda _: (model, *QUICK)


@contextmanager
def spinning(_: PlantedSite) -> Iterator[Callable[[], None]]:
    """A process that computes on the model's CPU."""
    process = subprocess.Popen(
        ["taskset", "-c", CPU, sys.executable, "-c", "while True: sum(range(1000))"]
    )

    def remove() -> None:
        process.kill()
        process.wait()

    try:
        yield remove
    finally:
        remove()


@contextmanager
def mendable(site: PlantedSite) -> Iterator[Callable[[], None]]:
    """The disturbance of the agent's simulated board; a file `mended` removes it."""
    mended = site.folder / "agent" / "state" / MENDED_FILE
    mended.unlink(missing_ok=True)
    yield mended.touch


@contextmanager
def powersave(site: PlantedSite) -> Iterator[Callable[[], None]]:
    """Set the governor of the simulated board to `powersave`; only an advised command resets it."""
    [path] = (site.folder / "agent" / "state").glob("simulated/**/policy0/scaling_governor")
    path.write_text("powersave\n")
    yield lambda: None


@contextmanager
def pausing(site: PlantedSite) -> Iterator[Callable[[], None]]:
    """Stop all processes of the agent once in each run, as in a paused virtual machine."""
    over = threading.Event()

    def watch() -> None:
        paused: set[int] = set()
        daemon = psutil.Process(site.agent.pid)
        while not over.wait(0.05):
            with suppress(psutil.Error):
                family = [daemon, *daemon.children(recursive=True)]
                for process in family[1:]:
                    times = process.cpu_times()
                    if process.pid not in paused and times.user + times.system > WORKED_S:
                        paused.add(process.pid)
                        pause(family)

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield over.set
    finally:
        over.set()
        thread.join()


def pause(processes: Sequence[psutil.Process]) -> None:
    """Stop processes for `PAUSE_S`."""
    for process in processes:
        with suppress(psutil.Error):
            process.suspend()
    time.sleep(PAUSE_S)
    for process in processes:
        with suppress(psutil.Error):
            process.resume()


def port(site: PlantedSite) -> Path:
    """Stable path of the meter's port: a link like those that udev creates."""
    return site.folder / "ttyPPK2"


@contextmanager
def unplugging(site: PlantedSite) -> Iterator[Callable[[], None]]:
    """A meter that is unplugged during the loop; its current follows the work of the device."""
    with ExitStack() as stack:
        activity = stack.enter_context(Activity(site.folder / "agent"))
        activity.begin(rest_a=3e-3, work_a=17e-3, noise_a=1e-4, seed=1)

        def plug(faults: Faults) -> None:
            unit = Ppk2Emulator(faults=faults)
            unit.waveform = lambda time_s: activity.waveform(unit, time_s)
            stack.enter_context(unit)
            port(site).unlink(missing_ok=True)
            port(site).symlink_to(unit.path)

        plug(Faults(gone_after_s=7.0))
        yield lambda: plug(Faults())


def dead_model(site: PlantedSite) -> Sequence[str]:
    """Arguments of `bench` for a model whose outputs are all zero for drawn inputs.

    FILE.npz gets inputs for which the outputs are not zero.
    """
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    draw = np.random.default_rng(1)
    weights = draw.random((DEAD_SIZE, DEAD_SIZE)).astype(np.float32)
    constants = {"w": weights, "b": np.float32(DEAD_BIAS)}
    values = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, DEAD_SIZE]) for name in "xy"
    ]
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["x", "w"], ["product"]),
            helper.make_node("Sub", ["product", "b"], ["shifted"]),
            helper.make_node("Relu", ["shifted"], ["y"]),
        ],
        "dead",
        values[:1],
        values[1:],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    model.ir_version = 8
    path = site.folder / "dead.onnx"
    onnx.save(model, str(path))
    inputs = 10 * draw.random((16, 1, DEAD_SIZE)).astype(np.float32)
    np.savez(site.folder / "FILE.npz", x=inputs)
    return str(path), "--quick", "--runs", "5", "--runtime", "onnx", "--cpus", CPU


def tiny_model(site: PlantedSite) -> Sequence[str]:
    """Arguments of `bench` for a model that consists of an addition."""
    path = site.folder / "addition.tflite"
    path.write_bytes(TRIVIAL_MODELS["tflite"])
    return str(path), *QUICK


DISTURBANCES = (
    Disturbance(
        name="another process",
        causes=frozenset({Cause.OTHER_PROGRAMS}),
        words=quick(),
        plant=spinning,
        person="end other programs",
    ),
    Disturbance(
        name="99 threads",
        causes=frozenset({Cause.TOO_MANY_THREADS}),
        words=lambda _: (MODEL, *QUICK, "--threads", "99"),
    ),
    Disturbance(
        name="throttling",
        causes=frozenset({Cause.HEAT}),
        words=lambda _: (MODEL, *LONG, "--sustained", "30s", "--cooldown", "0s"),
        plant=mendable,
        person="improve the cooling",
        board="planted-heat",
    ),
    Disturbance(
        name="under-voltage",
        causes=frozenset({Cause.POWER_SUPPLY}),
        words=lambda _: (MODEL, *LONG, "--duration", "20s", "--cooldown", "0s"),
        plant=mendable,
        person="stronger power supply",
        board="planted-supply",
    ),
    Disturbance(
        name="governor",
        causes=frozenset({Cause.CLOCK_FREQUENCY}),
        words=lambda _: governed("10s"),
        plant=powersave,
        board="planted-governor",
    ),
    Disturbance(
        name="moves between big and little",
        causes=frozenset({Cause.OTHER_CORES}),
        words=lambda _: (MODEL, *LONG[:-2], "--duration", "20s", "--cooldown", "0s"),
        board="planted-cores",
    ),
    Disturbance(
        name="too short",
        causes=frozenset({Cause.TOO_SHORT}),
        words=lambda _: (MODEL, *LONG, "--duration", "1ms", "--min-queries", "10"),
    ),
    Disturbance(name="tiny model", causes=frozenset({Cause.TOO_SMALL}), words=tiny_model),
    Disturbance(name="constant output", causes=frozenset({Cause.INPUTS}), words=dead_model),
    Disturbance(
        name="VM pause",
        causes=frozenset({Cause.PAUSED}),
        words=lambda _: (MODEL, *LONG, "--duration", "8s"),
        plant=pausing,
        person="keep the virtual machine or container from being paused",
    ),
    Disturbance(
        name="meter unplugged",
        causes=frozenset({Cause.METER}),
        words=lambda site: (
            *(MODEL, *LONG, "--duration", "6s", "--meter"),
            f"ppk2:{port(site)},supply={SUPPLY_V}",
        ),
        plant=unplugging,
        person="the meter's cable",
    ),
    Disturbance(
        name="cold device",
        causes=frozenset({Cause.WARMING_UP}),
        words=quick(),
        board="planted-cold",
    ),
)


@dataclass(frozen=True, slots=True)
class PlantedTrial:
    """A disturbance, with the sets before and after the first advice was followed."""

    disturbance: Disturbance
    before: StoredSet
    advice: str
    after: StoredSet | None
    """None if the advice could not be followed."""
    try_count: int

    @property
    def causes(self) -> list[str]:
        """Names of the causes before the advice was followed, the first cause first."""
        return [name_of(diagnosis) for diagnosis in diagnose(self.before.verdict)]

    @property
    def is_right(self) -> bool:
        """Whether the first cause is the disturbance."""
        return self.causes[:1] in [[cause.value] for cause in self.disturbance.causes]

    @property
    def is_disturbed(self) -> bool:
        """Whether other programs of the machine, which were not planted, are a cause."""
        others = Cause.OTHER_PROGRAMS
        before = () if others in self.disturbance.causes else (self.before,)
        sets = [*before, *([self.after] if self.after is not None else [])]
        diagnoses = (diagnosis for run_set in sets for diagnosis in diagnose(run_set.verdict))
        return any(diagnosis.cause is others for diagnosis in diagnoses)

    @property
    def is_cleared(self) -> bool:
        """Whether the first cause was right, and is gone after the advice was followed."""
        if self.after is None or not self.is_right:
            return False
        left = {diagnosis.cause for diagnosis in diagnose(self.after.verdict)}
        return not left & self.disturbance.causes


def name_of(diagnosis: Diagnosis) -> str:
    """The id of a cause in a verdict."""
    return diagnosis.summary.cause


def main() -> None:
    """Run the trials, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [disturbance.name for disturbance in DISTURBANCES]
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--tries", type=int, default=3, help="of a trial that others disturb")
    add_patience(parser)
    options = parse(parser, smoke={"tries": 1}, tries=1)
    planted = [disturbance for disturbance in DISTURBANCES if disturbance.name in options.only]
    if options.smoke:
        planted = [each for each in planted if each.name == "governor"]
        planted = [replace(each, words=lambda _: governed("0.1s", "--quick")) for each in planted]
    began = machine()
    trials = []
    for disturbance in planted:
        trial = last_try(disturbance, options.tries, options.patience)
        print("\n".join(text_of(trial)), file=sys.stderr, flush=True)
        trials.append(trial)
    report("Planted disturbances", lines_of(trials), began)


def last_try(disturbance: Disturbance, tries: int, patience_s: float) -> PlantedTrial:
    """Repeat a trial until no other programs disturb it, at most `tries` times."""
    for number in range(1, tries + 1):
        wait_until_quiet(patience_s)
        with tempfile.TemporaryDirectory(prefix="edgebench-") as folder:
            trial = plant_and_follow(disturbance, Path(folder), number)
        if not trial.is_disturbed:
            break
    return trial


@dataclass(frozen=True, slots=True)
class Planted:
    """A device with a planted disturbance."""

    lab: Lab
    words: Sequence[str]
    """The command that measures on the device."""
    remove: Callable[[], None]
    """Removes the disturbance."""


@contextmanager
def planted(disturbance: Disturbance, folder: Path) -> Iterator[Planted]:
    """Plant a disturbance, with agent, host and store in this folder."""
    usable = os.sched_getaffinity(0)
    for name in ("DATA", "CONFIG", "STATE"):
        os.environ[f"XDG_{name}_HOME"] = str(folder / name.lower())
    os.environ["EDGEBENCH_STORE"] = str(folder / "store")
    kind = PlantedAgent if disturbance.board else LoopbackAgent
    simulated = ("--simulate", disturbance.board) if disturbance.board else ()
    with ExitStack() as stack:
        agent = stack.enter_context(kind(folder / "agent", "--no-advertise", *simulated))
        # Host and instruments do not use the model's CPU.
        os.sched_setaffinity(0, usable - {int(CPU)} or usable)
        stack.callback(os.sched_setaffinity, 0, usable)
        lab = Lab()
        agent.pair(lab)
        # A board of another user on this network may be announced, but is not paired.
        paired = [device for device in lab.devices(0.1) if device.health is not None]
        [device] = [device.name for device in paired if device.name != "local"]
        site = PlantedSite(folder, agent)
        words = ["bench", *disturbance.words(site), "--on", device]
        yield Planted(lab, words, stack.enter_context(disturbance.plant(site)))


def plant_and_follow(disturbance: Disturbance, folder: Path, number: int) -> PlantedTrial:
    """Make a trial: plant, measure, follow the advice, and measure again."""
    with planted(disturbance, folder) as site:
        lab, words = site.lab, list(site.words)
        before = measured(lab, words, folder)
        if before is None:
            raise SystemExit(f"{disturbance.name}: nothing was measured")
        diagnosis = diagnose(before.verdict)[:1]
        advice = advice_against(before, diagnosis[0]) if diagnosis else None
        if advice is None:
            return PlantedTrial(disturbance, before, "", None, number)
        if disturbance.person and re.search(disturbance.person, str(advice)):
            site.remove()
        commands = [command for step in advice.steps for command in step.commands]
        again = next((list(command.words) for command in commands), words)
        if "METER" in again:
            again[again.index("METER")] = words[words.index("--meter") + 1]
        wait_until_quiet(10.0)
        after = measured(lab, again, folder) if again[0] == "bench" else None
        return PlantedTrial(disturbance, before, str(advice), after, number)


def measured(lab: Lab, words: Sequence[str], folder: Path) -> StoredSet | None:
    """The set that a command measures; None if it measures nothing."""
    return next(iter(measured_sets(lab, words, folder)), None)


def measured_sets(lab: Lab, words: Sequence[str], folder: Path) -> list[StoredSet]:
    """The sets that a command measures, a set for each model."""
    script = str(Path(sys.executable).with_name("edgebench"))
    done = subprocess.run(
        [script, *words, "--json"], capture_output=True, text=True, cwd=folder, timeout=1800
    )
    document = json.loads(done.stdout or "{}")
    ids = [run["run_id"] for run in document.get("runs", [])]
    if not ids:
        print(f"edgebench {' '.join(words)}: {done.stderr}", file=sys.stderr)
    return lab.sets([lab.run(run_id) for run_id in ids])


def text_of(trial: PlantedTrial) -> list[str]:
    """Lines of text about a trial, with all causes and their evidence."""
    after = ["  after: not followed"]
    if trial.after is not None:
        after = [f"  after: {trial.after.verdict.state.value}", *causes_of(trial.after)]
    name = f"{trial.disturbance.name} (try {trial.try_count})"
    return [name, *causes_of(trial.before), f"  advice: {trial.advice}", *after]


def causes_of(run_set: StoredSet) -> list[str]:
    """A line for each cause of a verdict, with its rules and its evidence."""
    lines: list[str] = []
    for diagnosis in diagnose(run_set.verdict):
        ids = ", ".join(finding.id for finding in diagnosis.findings)
        words = evidence_words(run_set, diagnosis)
        lines.append(f"  {diagnosis.summary.cause} ({ids}): {words}")
    return lines


def lines_of(trials: Sequence[PlantedTrial]) -> list[str]:
    """The tables of disturbances and of claims."""
    rows = [
        [
            trial.disturbance.name,
            str(sum(bool(finding.harmed) for finding in trial.before.verdict.failures)),
            ", ".join(trial.causes),
            "yes" if trial.is_right else "no",
            trial.advice.replace("|", "/"),
            "yes" if trial.is_cleared else "no",
        ]
        for trial in trials
    ]
    headers = ["planted", "failed rules", "causes", "first is right", "first advice", "clears it"]
    right = sum(trial.is_right for trial in trials)
    cleared = sum(trial.is_cleared for trial in trials)
    is_whole = len(trials) == len(DISTURBANCES)
    claims = [
        claim(name, f"{count} of {len(trials)}", f">= {bar}", count >= bar if is_whole else None)
        for name, count, bar in (
            ("the first cause is right", right, FIRST_RIGHT_BAR),
            ("the first advice clears it", cleared, CLEARED_BAR),
        )
    ]
    return [table(headers, rows), "", claims_table(claims)]


if __name__ == "__main__":
    main()
