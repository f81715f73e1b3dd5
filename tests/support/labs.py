"""Two hosts of one lab, which want one device at the same time."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from edgebench.host.client import Client
from edgebench.host.store.files import read_record
from edgebench.host.store.layout import RAW_DIRECTORY
from support.agents import AgentProcess, Host
from support.started import SPEC, start

APART_S = 0.05
"""Longest time between the two requests for the device."""
WAIT_S = 60.0
SHORT = replace(SPEC, duration_s=0.02)
Window = tuple[int, int, str]
"""When a run began and ended, on the device's clock, and which it is."""


def lab_of_two(agent: AgentProcess, folder: Path) -> tuple[Host, Host]:
    """Two hosts, the second of which has only what the first has exported."""
    first, second = Host(folder / "first"), Host(folder / "second")
    first.lab.pair(agent.pairing_string())
    first.lab.export_lab(folder / "lab.json")
    second.lab.join_lab(folder / "lab.json")
    return first, second


def contend(hosts: Sequence[Host], folder: Path, tries: int, seed: int = 1) -> list[Window]:
    """Let each host make so many runs, all of them at nearly the same time; the runs in order."""
    gate = threading.Barrier(len(hosts), timeout=300)

    def measure(number: int, host: Host) -> list[Window]:
        chance = random.Random(f"{seed}/{number}")
        try:
            with host.lab.connect("board") as client:
                return [measure_once(client, chance) for _ in range(tries)]
        except BaseException:  # the others must not wait for this one
            gate.abort()
            raise

    def measure_once(client: Client, chance: random.Random) -> Window:
        gate.wait()
        time.sleep(chance.uniform(0.0, APART_S))
        client.acquire(WAIT_S)
        run_id = start(client, SHORT)
        list(client.follow_run())
        directory = folder / run_id
        (directory / RAW_DIRECTORY).mkdir(parents=True)
        client.fetch_run(run_id, directory / RAW_DIRECTORY)
        client.acknowledge(run_id)
        client.release()
        times = [event.time_ns for event in read_record(directory).events]
        return min(times), max(times), run_id

    with ThreadPoolExecutor(len(hosts)) as pool:
        futures = [pool.submit(partial(measure, *one)) for one in enumerate(hosts)]
        return sorted(window for future in futures for window in future.result())


def overlaps(windows: Sequence[Window]) -> list[tuple[str, str]]:
    """Runs that began before the one before them had ended."""
    pairs = itertools.pairwise(windows)
    return [(before[2], after[2]) for before, after in pairs if after[0] < before[1]]
