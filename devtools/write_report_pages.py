"""Make a report of every kind from real runs, for the pictures of the docs and for review.

    python devtools/write_report_pages.py FOLDER

Runs are measured on this machine, on two simulated boards and on a microcontroller in QEMU. The
script starts the agents of the simulated boards. The script takes about ten minutes. It writes the
store and a page of each kind to FOLDER. Runs that are in the store already are not measured again,
so that pages can be made again in seconds.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import edgebench.host

MODELS = Path(edgebench.host.__file__).parent / "builtin_models"
INT8, FP32, ONNX = "digits_int8.tflite", "digits_fp32.tflite", "digits_fp32.onnx"
BOARDS = {"pi": "raspberry-pi-5-bare", "rock": "rock-5b"}
"""Maps the name of each agent to its simulated board. Each board has its own agent, because the
meter of an agent measures a single board."""
METERED = ("--meter", "synthetic:follow")
SHORT = ("--duration", "5s", "--cooldown", "0s")
CAMPAIGN = """\
schema = 1
name = "int8-or-fp32"
repeats = 5

[axes]
model = ["digits_fp32.tflite", "digits_int8.tflite", "digits_fp32.onnx"]
device = ["pi-simulated", "rock-simulated"]
threads = [1]

[settings]
duration_s = 1
min_query_count = 320
cooldown_timeout_s = 0
accuracy = "digits"
meter = "agent:synthetic:follow"
"""


class Workshop:
    """A folder with a store, and with the directories of the host and of the agents."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self.store = self.folder / "store"
        self._environment = os.environ | {
            "XDG_CONFIG_HOME": str(self.folder / "config"),
            "XDG_DATA_HOME": str(self.folder / "data"),
            "EDGEBENCH_STORE": str(self.store),
        }

    def edgebench(self, *words: str) -> int:
        """Run a command of edgebench; returns its exit code."""
        print("edgebench", *words, flush=True)
        command = [sys.executable, "-m", "edgebench.host.cli", *words]
        done = subprocess.run(
            command, cwd=self.folder, env=self._environment, stdout=subprocess.DEVNULL, check=False
        )
        return done.returncode

    @contextmanager
    def agent(self, name: str, board: str) -> Iterator[None]:
        """Run the agent of a simulated board, paired with this host, inside the block."""
        agent = [sys.executable, "-m", "edgebench.agent", "--state", str(self.folder / name)]
        listen = ["--listen", "127.0.0.1:0", "--no-advertise", "--name", name, *METERED]
        process = subprocess.Popen(
            [*agent, "serve", *listen, "--simulate", board],
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith("ready ")
            pair = subprocess.run(
                [*agent, "pair"], env=self._environment, capture_output=True, text=True, check=True
            )
            self.edgebench("pair", pair.stdout.splitlines()[0])
            yield
        finally:
            process.terminate()
            process.wait(30)

    def measure(self, tag: str, *words: str) -> None:
        """Measure, and tag the new runs, unless the store has runs with this tag."""
        if self.edgebench("show", tag) in (0, 3):
            return
        before = set(self._runs())
        self.edgebench("bench", *words)
        for run_id in sorted(set(self._runs()) - before):
            self.edgebench("tag", run_id, tag)

    def _runs(self) -> list[str]:
        runs = self.store / "runs"
        return [one.name for one in runs.iterdir()] if runs.exists() else []

    def report(self, name: str, *words: str) -> None:
        """Write a page."""
        self.edgebench("report", *words, "-o", str(self.folder / f"{name}.html"))


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    shop = Workshop(folder)
    for model in (INT8, FP32, ONNX):
        shutil.copy(MODELS / model, folder)
    shop.measure("profiled", ONNX, "--profile", "--quick")
    invalid = ("--scenario", "server", "--qps", "300", "--target-latency", "0.001ms")
    shop.measure("refused", INT8, *invalid, "--runs", "1", *SHORT, *METERED)
    (folder / "broken.tflite").write_bytes((MODELS / INT8).read_bytes()[:9000])
    shop.measure("broken", "broken.tflite", "--runs", "1", *SHORT)
    shop.measure("baseline", FP32, *SHORT, *METERED)
    shop.measure("candidate", INT8, *SHORT, *METERED)
    shop.measure("emulated", INT8, "--on", "qemu:mps2-an386", "--quick", "--duration", "1s")
    make_history(shop)
    with ExitStack() as agents:
        for name, board in BOARDS.items():
            agents.enter_context(shop.agent(name, board))
        # Not INT8: on a fast machine it reaches the limit of a sustained run within the minute.
        shop.measure("throttled", ONNX, "--on", "pi-simulated", "--sustained", "1m", *METERED)
        campaign = folder / "night.toml"
        campaign.write_text(CAMPAIGN)
        if not (shop.store / "campaigns").exists():
            shop.edgebench("campaign", "run", str(campaign))
    write_pages(shop)
    return 0


def make_history(shop: Workshop) -> None:
    """Measure a model on 14 nights; from the ninth night on, a slower export of it is measured."""
    model = shop.folder / "nightly.tflite"
    for night in range(14):
        shutil.copy(MODELS / (INT8 if night < 8 else FP32), model)
        # Runs of a set share its duration and its queries, so both grow with the number of runs.
        count = 5 if night % 4 == 0 else 1
        length = ("--duration", f"{count}s", "--min-queries", f"{1024 * count}")
        words = ("--runs", f"{count}", *length, "--cooldown", "0s")
        shop.measure(f"night-{night}", model.name, *words)


def write_pages(shop: Workshop) -> None:
    """Write a page of each kind."""
    pages: dict[str, Sequence[str]] = {
        "run": ["throttled"],
        "profile": ["profiled"],
        "invalid": ["refused"],
        "failed": ["broken"],
        "set": ["candidate"],
        "side-by-side": ["baseline", "candidate"],
        "board": ["emulated"],
        "campaign": ["int8-or-fp32"],
        "history": ["night-13"],
        "anonymous": ["throttled", "--anonymous"],
    }
    for name, words in pages.items():
        shop.report(name, *words)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
