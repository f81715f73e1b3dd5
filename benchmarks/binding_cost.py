"""Time that the Python binding of a runtime adds to an inference, compared with a loop in C.

    python benchmarks/binding_cost.py [--rounds 7] [--duration 0.2] [--short]

Theory of operation. These sides are compared, for the trivial model with which every run measures
its binding, and for the built-in models:

    binding     the worker's timed loop around the driver's call: the latency that a run reports
    no options  ONNX Runtime only: as `binding`, but the library creates the run options in each
                call
    ctypes      the worker's timed loop around the C function, called with Python's ctypes
    C           a loop in C around the C function
    C, module   ONNX Runtime only: a loop in C around the C function in the Python module's own copy
                of the library. This copy exports no functions, but passes its C interface to
                libraries of custom operators.

Each round is a new process, in which each side has three turns; the order of the sides is random in
each turn. Differences and ratios are computed within a round. Inputs and threads are the same on
all sides. If the outputs of two sides are not identical bit for bit, the benchmark ends with an
error.
"""

from __future__ import annotations

import argparse
import ctypes
import gc
import json
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from common import Spread, claim, claims_table, machine, paired_ratios, parse, report, spread, table
from native_calls import native_call, words_of

from edgebench.agent.runtimes.c_calls import CCall, NotExported, onnx_call
from edgebench.agent.runtimes.registry import find_runtime
from edgebench.agent.runtimes.trivial_models import TRIVIAL_MODELS
from edgebench.agent.worker.binding import measure_binding
from edgebench.agent.worker.inputs import make_inputs
from edgebench.agent.worker.loop import Calls, run_closed
from edgebench.protocol.runtime import LoadOptions

HERE = Path(__file__).resolve().parent
BUILT_IN = HERE.parent / "host" / "edgebench" / "host" / "builtin_models"
TRIVIAL = "trivial"
RUNTIMES = {"tflite": "tflite", "litert": "tflite", "onnx": "onnx"}
"""Runtimes and their file formats."""
BINDING, NO_OPTIONS, CTYPES, C, C_MODULE = "binding", "no options", "ctypes", "C", "C, module"
STATED = ("stated p50", "stated c_p50")
TURNS = 3
WARMUP_S = 0.05
MAX_CALLS = 1_000_000
CTYPES_BAR = 1.02
"""If the ratio of `binding` to `ctypes` is at most this value, a driver that uses ctypes would not
be noticeably faster."""
TIMEOUT_S = 120.0

P50s = dict[str, float]
"""Maps each side to its median invocation time, nanoseconds."""


def main() -> None:
    """Run the comparison and print it; with the argument `round`, run a single round of it."""
    if len(sys.argv) > 1 and sys.argv[1] == "round":
        print(json.dumps(one_round(*sys.argv[2:])))
        return
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--duration", type=float, default=0.2, metavar="SECONDS")
    options = parse(parser, smoke={"rounds": 1, "duration": 0.02}, rounds=3, duration=0.05)
    began = machine()
    with tempfile.TemporaryDirectory(prefix="edgebench-") as folder:
        loop = compile_loop(Path(folder))
        seen = {
            (runtime, model.stem): rounds_of(runtime, model, loop, options)
            for runtime, suffix in RUNTIMES.items()
            for model in models_of(suffix, Path(folder))[: 2 if options.smoke else None]
        }
    report("The binding", lines(seen, options), began)


def compile_loop(folder: Path) -> Path:
    """Compile the C loop to a library."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise SystemExit("no C compiler")
    library = folder / "native_loop.so"
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", library, HERE / "native_loop.c"]
    subprocess.run(list(map(str, command)), check=True)
    return library


def models_of(suffix: str, folder: Path) -> list[Path]:
    """Files of the trivial model and of the built-in models, in the format with this suffix."""
    trivial = folder / f"{TRIVIAL}.{suffix}"
    trivial.write_bytes(TRIVIAL_MODELS[suffix])
    return [trivial, *(BUILT_IN / f"digits_{kind}.{suffix}" for kind in ("int8", "fp32"))]


def rounds_of(
    runtime: str, model: Path, loop: Path, options: argparse.Namespace
) -> dict[str, list[float]]:
    """Run all rounds; returns the medians of each side, round by round."""
    rounds: list[P50s] = []
    for number in range(options.rounds):
        words = (runtime, model, loop, options.duration, number)
        done = subprocess.run(
            [sys.executable, str(HERE / "binding_cost.py"), "round", *map(str, words)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        if done.returncode:
            raise SystemExit(f"{runtime} {model.name} ended with {done.stderr[-2000:]}")
        rounds.append(json.loads(done.stdout.splitlines()[-1]))
    print(runtime, model.name, file=sys.stderr)
    return {side: [one[side] for one in rounds] for side in rounds[0]}


def one_round(runtime: str, path: str, loop: str, duration_s: str, seed: str) -> P50s:
    """Run a round in this process; returns the median of each side."""
    driver = find_runtime(runtime)
    driver.import_library()
    model = driver.load(path, LoadOptions(threads=1))
    values = make_inputs(model.inputs, seed=0, memory_bytes=2**30)
    model.set_inputs(values)
    model.invoker()()
    expected = model.read_outputs()[0].tobytes()
    calls = Calls(model.prepare([values]), model.invoker(), model.reader())
    in_python: dict[str, Calls] = {BINDING: calls}
    if runtime == "onnx":
        bound: Any = calls.invoke
        without = partial(bound.func, bound.args[0], None)
        in_python[NO_OPTIONS] = Calls(calls.set_inputs, without, calls.read_outputs)
    in_c: dict[str, CCall] = {}
    try:
        # LiteRT's only C function is that of another class; see harness_overhead.py.
        if runtime != "litert":
            in_c[C] = native_call(runtime, model, path, 1, values)
        if runtime == "onnx":
            in_c[C_MODULE] = onnx_call(module_base(loop), model, path, 1, values[0])
    except NotExported as exc:
        print(exc, file=sys.stderr)
    for side, native in in_c.items():
        if native.invoker()() or native.read_output() != expected:
            raise SystemExit(f"{side}: other outputs than the binding's")
    if C in in_c:
        in_python[CTYPES] = Calls(calls.set_inputs, in_c[C].invoker(), calls.read_outputs)
    found = in_turns(in_python, in_c, ctypes.CDLL(loop), float(duration_s), int(seed))
    if Path(path).stem == TRIVIAL:
        facts = measure_binding(driver, ())
        stated = zip(STATED, (facts.p50_ns, facts.c_p50_ns), strict=True)
        found |= {name: value for name, value in stated if value is not None}
    return found


def module_base(loop: str) -> Any:
    """The C interface of the library inside of ONNX Runtime's Python module."""
    import onnxruntime

    base = ctypes.CDLL(loop).onnx_api_base  # loaded first, or it is unloaded with the options
    onnxruntime.SessionOptions().register_custom_ops_library(loop)
    base.restype = ctypes.POINTER(ctypes.c_void_p)
    return base()


def in_turns(
    in_python: Mapping[str, Calls],
    in_c: Mapping[str, CCall],
    loop: ctypes.CDLL,
    duration_s: float,
    seed: int,
) -> P50s:
    """Median of each side over its turns."""
    sides: dict[str, Callable[[float], float]] = {
        **{name: partial(python_p50, calls) for name, calls in in_python.items()},
        **{name: partial(c_p50, loop, native) for name, native in in_c.items()},
    }
    draw = random.Random(seed)
    medians: dict[str, list[float]] = {name: [] for name in sides}
    for side in sides.values():
        side(WARMUP_S)
    for _ in range(TURNS):
        for name in draw.sample(list(sides), len(sides)):
            medians[name].append(sides[name](duration_s))
    return {name: statistics.median(values) for name, values in medians.items()}


def python_p50(calls: Calls, duration_s: float) -> float:
    """Median invocation time in the worker's timed loop, nanoseconds."""
    times = run_closed(
        calls, [0] * 65536, duration_ns=int(duration_s * 1e9), min_count=100, max_count=MAX_CALLS
    )
    spans = zip(times.invoke_start_ns, times.invoke_end_ns, strict=True)
    return statistics.median(end - start for start, end in spans)


def c_p50(loop: ctypes.CDLL, native: CCall, duration_s: float) -> float:
    """Median invocation time in a loop in C, nanoseconds."""
    loop.run_loop.restype = ctypes.c_int64
    begins, ends = ((ctypes.c_int64 * MAX_CALLS)() for _ in range(2))
    limits = ctypes.c_int64(int(duration_s * 1e9)), ctypes.c_int64(MAX_CALLS)
    gc.collect()
    count = loop.run_loop(native.function, words_of(native), *limits, begins, ends)
    return statistics.median(ends[index] - begins[index] for index in range(count))


def lines(
    seen: Mapping[tuple[str, str], Mapping[str, list[float]]], options: argparse.Namespace
) -> list[str]:
    """The tables, and the notes needed to read them."""
    head = ["runtime", "model", BINDING, C, "binding − C, ns", "binding / C", "ctypes / C"]
    head += ["no options / C", "C, module / C"]
    rows = [[*names, *cells(sides)] for names, sides in seen.items()]
    return [
        claims_table(claims_of(seen)),
        "",
        table(head, rows),
        "",
        "What a run states, by the trivial model:\n",
        table(
            ["runtime", "`binding.p50`", "`c_p50`", "`added`", "binding − C, ns"],
            [stated_cells(runtime, seen[runtime, TRIVIAL]) for runtime in RUNTIMES],
        ),
        "",
        f"{options.rounds} rounds of {TURNS} turns of {options.duration:g} s each; "
        "median (quartiles; extremes) of the rounds, in nanoseconds. LiteRT exports no C function "
        "that runs the same interpreter.",
    ]


def claims_of(seen: Mapping[tuple[str, str], Mapping[str, list[float]]]) -> list[list[str]]:
    """Claims about the binding of each runtime, over all built-in models."""
    found = []
    for runtime in RUNTIMES:
        sides = [one for (name, model), one in seen.items() if name == runtime and model != TRIVIAL]
        if any(CTYPES not in side for side in sides):
            continue
        ratio = joined(sides, BINDING, CTYPES)
        is_met = ratio.median <= CTYPES_BAR
        found.append(
            claim(f"{runtime}, binding / ctypes", ratio.text(3), f"≤ {CTYPES_BAR}", is_met)
        )
    return found


def joined(sides: Sequence[Mapping[str, list[float]]], above: str, below: str) -> Spread:
    """Spread of the ratios of two sides, over the rounds of several models."""
    return spread([a / b for side in sides for a, b in zip(side[above], side[below], strict=True)])


def cells(sides: Mapping[str, list[float]]) -> list[str]:
    """Cells of a row: medians of `binding` and `C`, and ratios of the sides to `C`."""
    binding = spread(sides[BINDING]).text(0)
    if C not in sides:
        return [binding, *["–"] * 6]
    return [
        binding,
        spread(sides[C]).text(0),
        differences(sides[BINDING], sides[C]).text(0),
        *(
            paired_ratios(sides[name], sides[C]).text(3) if name in sides else "–"
            for name in (BINDING, CTYPES, NO_OPTIONS, C_MODULE)
        ),
    ]


def stated_cells(runtime: str, sides: Mapping[str, list[float]]) -> list[str]:
    """Cells of a row: figures that a run reports, and the difference that the loops measured."""
    p50, c = STATED
    through = spread(sides[p50]).text(0)
    if c not in sides:
        return [runtime, through, "–", "–", "–"]
    return [
        runtime,
        through,
        spread(sides[c]).text(0),
        differences(sides[p50], sides[c]).text(0),
        differences(sides[BINDING], sides[C]).text(0),
    ]


def differences(above: Sequence[float], below: Sequence[float]) -> Spread:
    """The spread of the difference `above − below` over the rounds."""
    return spread([a - b for a, b in zip(above, below, strict=True)])


if __name__ == "__main__":
    main()
