"""`edgebench meters` with an instrument on a socket."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from support.commands import Run
from support.scpi import DataLogger, Faults, Server


def test_instrument_is_described_and_recorded(edgebench: Run, tmp_path: Path) -> None:
    """Otherwise the command line would split the address, which works from Python."""
    with Server(DataLogger(waveform=lambda time_s: np.full(len(time_s), 0.2))) as server:
        name = f"scpi:{server.address},rate=500"
        said = edgebench("meters", "info", name)
        assert said.code == 0
        for words in ("N6705C", "MY56000123", "means since the previous sample", "assumed"):
            assert words in said.out, words
        folder = tmp_path / "session"
        said = edgebench(
            "meters", "record", name, "--duration", "1s", "--output", str(folder), "--json"
        )
    assert said.code == 0, said.err
    [channel] = json.loads(said.out)["channels"]
    assert channel["power_w_mean"] == pytest.approx(0.66, rel=1e-5)
    assert channel["name"] == "output 1"


def test_instrument_that_refuses_is_one_line_and_a_hint(edgebench: Run, tmp_path: Path) -> None:
    """Otherwise the user would read a traceback of pyvisa."""
    with Server(DataLogger(), Faults(refused=("SENS:ELOG:FUNC:VOLT",))) as server:
        name = f"scpi:{server.address}"
        said = edgebench("meters", "record", name, "--output", str(tmp_path / "session"))
    assert said.code == 1
    assert "rejected its configuration: Settings conflict" in said.err
    assert "hint:" in said.err
    assert "Traceback" not in said.err
