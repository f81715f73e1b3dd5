#!/usr/bin/env python3
"""Drives the POSIX firmware as MLPerf Tiny's Python runner does; by hand, as it takes minutes.

    python tests/system/firmware_runner.py [kws01 vww01 ic01 ad01 sww01]

Models come from ../shared/models under their upstream names, without an ID or an encoding given.
Inputs are MLPerf Tiny's samples where there are some, else noise. The results of every window must
be those of LiteRT's reference kernels, to three digits. Source of steps, chunks and patterns:
mlcommons/tiny, `benchmark/runner` (device_under_test.py, serial_device.py, script.py).
"""

from __future__ import annotations

import argparse
import queue
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import numpy as np
import serial

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.firmware_process import built
from support.reference_kernels import MODELS, Reference
from support.tools import SHARED

SAMPLES = SHARED / "models/mlperf_tiny/samples"
INPUT_BYTES = {"kws01": 490, "vww01": 27648, "ic01": 3072, "ad01": 2560, "sww01": 1200}
WINDOWS = {"kws01": "70 10", "vww01": "20 5", "ic01": "20 5", "ad01": "1500 10", "sww01": "70 10"}
TIMEOUT_S = 5.0
STRIDE_BYTES = 512
"""From one window of an ad01 recording to the next."""


class Runner:
    """A line with a reader of its own, which waits 5 s for each line, as the runner's does."""

    def __init__(self, path: str) -> None:
        self._port = serial.Serial(path, 115200, timeout=0.1)
        self._lines: queue.Queue[str] = queue.Queue()
        self._is_open = True
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        line = ""
        while self._is_open:
            char = self._port.read(1).decode()
            if char == "\n":
                self._lines.put(line)
                line = ""
            elif char not in "\r\0":
                line += char

    def command(self, text: str) -> list[str]:
        """Lines of the reply that are not empty, with `m-ready`."""
        self._port.write(text.encode())
        self._port.write(b"%")
        lines: list[str] = []
        while not any("m-ready" in line for line in lines[-1:]):
            if line := self._lines.get(timeout=TIMEOUT_S):
                lines.append(line)
        return lines

    def load(self, data: bytes, chunk_bytes: int) -> list[str]:
        """The reply to the last part."""
        self.command(f"db load {len(data)}")
        result: list[str] = []
        for at in range(0, len(data), chunk_bytes):
            result = self.command(f"db {data[at : at + chunk_bytes].hex()}")
        return result

    def close(self) -> None:
        self._is_open = False
        self._reader.join()
        self._port.close()


def inputs(model_id: str) -> list[bytes]:
    """Five inputs as the runner sends them, real ones first."""
    size = INPUT_BYTES[model_id]
    recording = SAMPLES / "ad01/normal_id_01_00000000_hist_librosa.bin"
    if model_id == "ad01" and recording.exists():
        data = recording.read_bytes()
        return [data[at : at + size] for at in range(0, 5 * STRIDE_BYTES, STRIDE_BYTES)]
    sample = SAMPLES / f"{model_id}_reference_submission/sample_0.bin"
    noise = np.random.default_rng(0)
    real = [sample.read_bytes()] if sample.exists() else []
    return [*real, *(noise.bytes(size) for _ in range(5 - len(real)))]


def expected(model_id: str, reference: Reference, sent: bytes) -> np.ndarray[Any, Any]:
    """Results by LiteRT for the inputs that the runner sent."""
    scale, zero = reference.input["quantization"]
    floats = np.frombuffer(sent, np.float32) if model_id == "ad01" else None
    if floats is not None:
        values = np.clip(np.round(floats / np.float32(scale)) + zero, -128, 127).astype(np.int8)
    elif model_id in ("vww01", "ic01"):
        values = (np.frombuffer(sent, np.uint8) ^ 0x80).view(np.int8)
    else:
        values = np.frombuffer(sent, np.int8)
    outputs = np.frombuffer(
        reference.outputs(values.reshape(reference.input["shape"])), np.int8
    ).astype(np.float64)
    scale, zero = reference.output["quantization"]
    results: np.ndarray[Any, Any] = (outputs - zero) * scale
    if floats is None:
        return results
    return np.array([np.mean((results - floats) ** 2)])


def run(model_id: str, posix: Path, folder: Path, *, is_energy: bool) -> str:
    """Results of five windows."""
    file = SHARED / "models" / MODELS[model_id]
    blob, pin = folder / f"{model_id}.blob", folder / f"{model_id}.pin"
    pin.unlink(missing_ok=True)
    generator = [sys.executable, "-m", "edgebench.firmware_bridge.generate"]
    subprocess.run([*generator, file, "--output", blob], check=True, stdout=subprocess.DEVNULL)
    reference = Reference(file.read_bytes())
    options = ["--energy", "--pin", str(pin)] if is_energy else []
    words = [str(posix), "--model", str(blob), *options]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        runner = Runner(process.stdout.readline().strip())
        try:
            assert re.match(r"^m-name-dut-\[([^]]+)]$", runner.command("name")[0])
            assert f"m-model-[{model_id}]" in runner.command("profile")
            laps = [line for line in runner.command("timestamp") if line.startswith("m-lap-us-")]
            assert len(laps) == (not is_energy)
            rates: list[float] = []
            worst = 0.0
            for sent in inputs(model_id):
                loaded = runner.load(sent, 26 if is_energy else 31)
                assert loaded == ["m-load-done", "m-ready"], loaded
                said = runner.command(f"infer {WINDOWS[model_id]}")
                said_again = runner.command("results")
                (found,) = (line for line in said if re.match(r"^m-results-\[([^]]+)\]$", line))
                assert said_again == [found, "m-ready"]
                results = np.array([float(x) for x in found[11:-1].split(",") if x.strip()])
                should = expected(model_id, reference, sent)
                assert results.shape == should.shape, (results, should)
                worst = max(worst, float(np.max(np.abs(results - should))))
                times = [int(line[9:]) for line in said if re.match(r"^m-lap-us-([0-9]+)$", line)]
                assert len(times) == (0 if is_energy else 2)
                if times:
                    count = int(WINDOWS[model_id].split()[0])
                    rates.append(count / ((times[1] - times[0]) / 1e6))
            assert worst <= 0.00051, f"{model_id}: results differ by {worst}"
        finally:
            runner.close()
            process.kill()
    if not is_energy:
        return f"{np.median(rates):.0f} inferences/s; results differ by {worst:.4f} at most"
    edges = len(pin.read_text("utf-8").split())
    assert edges == 12, "one at the reset, one for `timestamp`, ten of windows"
    return f"{edges} pulses; results differ by {worst:.4f} at most"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", default=list(INPUT_BYTES), metavar="ID")
    options = parser.parse_args()
    posix = built("posix", "gcc")
    with tempfile.TemporaryDirectory() as folder:
        for model_id in options.models:
            for is_energy in (False, True):
                mode = "energy" if is_energy else "performance"
                text = run(model_id, posix, Path(folder), is_energy=is_energy)
                print(f"{model_id}, {mode}: {text}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
