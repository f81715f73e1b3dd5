"""Ctrl-C while a command is still loading: one line, exit code 130, and never a traceback."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from support.agents import Host
from support.commands import started

MARK = b"."
BENCH = ("bench", "digits_int8.tflite", "--duration", "60s")
RUN = "import sys; from edgebench.host.cli import entry; sys.exit(entry.run())"
MOMENTS: tuple[tuple[float, Sequence[str]], ...] = (
    (0.02, ("runs",)),
    (0.05, ("show", "last")),
    (0.1, ("meters",)),
    (0.15, ("compare", "a", "--against", "b")),
    (0.2, ("devices",)),
    (0.2, BENCH),
    (0.3, BENCH),
    (0.4, (*BENCH, "--json")),
)
"""Seconds after which a command is interrupted, while it loads."""
IS_LONG = "EDGEBENCH_TESTS_SEEDS" in os.environ
ANY_MOMENTS_S = [0.02 + i / 10 for i in range(30)] if IS_LONG else [1.0, 2.0]
"""From the first import to the middle of a measurement; before it Python itself answers."""
Outcome = tuple[int, str, str]


def interrupted(host: Host, entry: str, words: Sequence[str], after_s: float) -> Outcome:
    """Exit code, stdout and stderr of a program interrupted this long after its start.

    It does what its console script does, and writes a mark as soon as it guards itself: before
    that, Python itself handles the signal. On a machine that has finished by then, the program is
    started again and interrupted earlier.
    """
    code = f"""
import os, sys
import {entry} as entry
guard = entry.exit_when_interrupted
def guard_and_mark():
    guard()
    os.write(1, {MARK!r})
    entry.exit_when_interrupted = guard
entry.exit_when_interrupted = guard_and_mark
sys.exit(entry.run())
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words],
        env=os.environ | host.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.read(1) == MARK
    time.sleep(after_s)
    is_late = process.poll() is not None
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    if is_late:
        return interrupted(host, entry, words, after_s / 2)
    return process.returncode, out.decode(), err.decode()


def test_command_that_is_interrupted_while_it_loads_says_so(host: Host) -> None:
    """Otherwise Ctrl-C in the first half second would end in a pandas traceback, or be lost."""
    with ThreadPoolExecutor(4) as pool:
        results = pool.map(
            lambda case: interrupted(host, "edgebench.host.cli.entry", case[1], case[0]), MOMENTS
        )
        for (moment_s, words), (code, _, err) in zip(MOMENTS, results, strict=True):
            assert (code, err) == (130, "interrupted\n"), f"{words[0]} after {moment_s} s"


def test_bench_that_is_interrupted_at_any_moment_says_so(host: Host) -> None:
    """Otherwise Ctrl-C in the agent's start, an upload or a measurement would be a traceback."""
    for moment_s in ANY_MOMENTS_S:
        code, out, err = interrupted(host, "edgebench.host.cli.entry", BENCH, moment_s)
        last = err.splitlines()[-1]
        assert (code, last[:11]) == (130, "interrupted"), f"after {moment_s} s: {err}"
        assert (out != "") == ("kept in" in last), f"after {moment_s} s: {err}"
        assert not {"Traceback", "error:", "hint:"} & set(err.split()), f"after {moment_s} s: {err}"


def test_agent_that_is_interrupted_while_it_loads_says_so(host: Host, tmp_path: Path) -> None:
    """Otherwise Ctrl-C right after `edgebench-agent serve` would end in an asyncio traceback."""

    def result(after_s: float) -> Outcome:
        words = ("--state", str(tmp_path / f"{after_s}"), "serve", "--local")
        return interrupted(host, "edgebench.agent.entry", words, after_s)

    moments_s = (0.02, 0.1, 0.2, 0.4)
    with ThreadPoolExecutor(4) as pool:
        for moment_s, (code, out, err) in zip(moments_s, pool.map(result, moments_s), strict=True):
            # An agent that is about to serve is stopped, too, before it has printed "ready".
            expected = [(0, "")] if out.startswith("ready") else [(0, ""), (130, "interrupted\n")]
            assert (code, err) in expected, f"after {moment_s} s"


def test_pairs_that_are_interrupted_are_compared_as_far_as_they_go(host: Host) -> None:
    """Otherwise the pairs that were made would have no outcome, or end as complete."""
    words = "bench digits_int8.tflite --duration 0.1s --min-queries 64 --against digits_fp32.tflite"
    lines: list[str] = []
    with started([sys.executable, "-c", RUN, *words.split()], host) as process:
        assert process.stderr is not None
        for line in process.stderr:
            lines.append(line)
            if line.startswith("done: 3/20"):
                process.send_signal(signal.SIGINT)
                break
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "is undecided against digits_int8.tflite" in out, out + "".join(lines)
    assert " pairs are left out: not made" in out
    assert f"to improve: make 6 pairs: edgebench {words} --pairs 6\n" in out
    assert err.splitlines()[-1].startswith("interrupted: ")
