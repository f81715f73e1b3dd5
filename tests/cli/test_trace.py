"""The command bench --sync coded_load without a meter, and edgebench energy for its recording."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
from support.agents import Host, end_local_agent
from support.apart import apart
from support.commands import Measured, Run
from support.instrument_files import course_of, sampled, truth_j
from support.tools import need_runtime
from support.undisturbed import undisturbed

from edgebench.host.power.metering import CHIP_S
from edgebench.host.store.files import read_record
from edgebench.host.store.layout import Store

pytestmark = pytest.mark.alone  # next to other load, the load code is played late

MODEL = "digits_int8.tflite"
COLUMNS = ("--time", "Zeit:s", "--power", "Leistung:mW")
SHORT = (
    *("--quick", "--runtime", "litert", "--duration", "1s", "--min-queries", "50"),
    *("--warmup", "2", "--warmup-duration", "0.05s", "--no-check", "--cooldown", "0s"),
)


@pytest.fixture(scope="module")
def coded(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Measured:
    """One run of this machine that played the load code."""
    need_runtime("ai-edge-litert")

    def attempt() -> Measured:
        host = Host(tmp_path_factory.mktemp("coded"))
        result = host.run("bench", MODEL, *SHORT, "--sync", "coded_load", "--json")
        end_local_agent(host)
        return Measured(host, result.stdout, result.stderr, result.returncode)

    with apart(request.config, tmp_path_factory):
        return undisturbed(attempt, _disturbance)


def _disturbance(measured: Measured) -> str | None:
    """What spoils the run, or so many chips that too few changes are left for the alignment."""
    if measured.code == 3:
        return "the run is invalid"
    assert measured.code == 0, measured.err
    directory = Store(measured.host.folder / "data" / "edgebench").directory(measured.run_id)
    worker = read_record(directory).worker
    assert worker is not None
    chips_s = np.concatenate([np.diff(code.edges_ns) / 1e9 for code in worker.sync.codes])
    late_count = int((np.abs(chips_s - CHIP_S) > 0.2 * CHIP_S).sum())
    return f"{late_count} of {len(chips_s)} chips were late" if late_count > 5 else None


@pytest.fixture
def recording(coded: Measured, tmp_path: Path) -> Path:
    """An instrument's recording of the run, as a spreadsheet in Europe writes it."""
    directory = Store(coded.host.folder / "data" / "edgebench").directory(coded.run_id)
    samples = sampled(
        course_of(directory), rate_hz=2000.0, zero_s=1e6, drift_ppm=120.0, noise_w=0.02
    )
    path = tmp_path / "export.csv"
    rows = zip(samples.time_s, samples.power_w, strict=True)
    text = "".join(f"{at_s:.4f};{1e3 * power_w:.3f}\n" for at_s, power_w in rows)
    path.write_text("Zeit;Leistung\n" + text.replace(".", ","))
    return path


def test_run_plays_the_code_and_is_idle_around_it(coded: Measured) -> None:
    """Otherwise a file could not be aligned, or there would be no idle power for a net energy."""
    document = coded.document
    assert document["spec"]["load_code_chip_s"] == pytest.approx(0.02)
    assert document["spec"]["idle_duration_s"] == pytest.approx(2.0)
    assert len(document["conditions"]["marks"]["codes"]) == 2
    assert document["metrics"]["energy"] is None


def test_file_beside_a_run_gives_its_energy(coded: Measured, recording: Path) -> None:
    """Otherwise the only command for instruments without a driver would not work."""
    host, run_id = coded.host, coded.run_id
    words = ("energy", run_id, "--trace", str(recording))
    refused = host.run(*words)
    assert refused.returncode == 2
    assert "columns found: 'Zeit', 'Leistung'" in refused.stderr
    assert f"edgebench {shlex.join((*words, *COLUMNS))}" in refused.stderr
    unsure = host.run(*words, *COLUMNS)
    assert unsure.returncode == 0, unsure.stderr
    assert "samples are instants, because --samples was not given" in unsure.stdout
    said = host.run(*words, *COLUMNS, "--samples", "means", "--gain", "0.5%")
    assert said.returncode == 0, said.stderr
    assert "coded_load, within" in said.stdout
    document = json.loads(host.run("show", run_id, "--json").stdout)
    energy = document["metrics"]["energy"]
    directory = Store(host.folder / "data" / "edgebench").directory(run_id)
    off_j = abs(energy["gross_j_per_inference"] - truth_j(directory))
    assert off_j <= energy["u95_absolute_j"]
    assert energy["net_j_per_inference"] == pytest.approx(0.75 * truth_j(directory), rel=0.01)
    assert host.run("verify", run_id).returncode == 0
    page = host.run("show", run_id).stdout
    assert "export.csv, CSV, SHA-256" in page
    assert "no offset of the instrument" in page
    assert re.search(r"J ±0\.\d+ %", host.run("runs").stdout)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--trace-rate", "10"), "--trace-rate is for an instrument that edgebench does not"),
        (("--sync", "probes"), "--sync needs a meter: --meter METER"),
        (("--sync", "coded_load", "--trace-rate", "0"), "--trace-rate must be above 0"),
        (("--sync", "coded_load", "--trace-rate", "0.1"), "chip"),
        (("--idle", "1s"), "--idle needs a meter"),
    ],
)
def test_option_that_makes_no_sense_is_refused(
    edgebench: Run, words: tuple[str, ...], reason: str
) -> None:
    """Otherwise a run of ten minutes would have a file that cannot be aligned with it."""
    said = edgebench("bench", MODEL, *words)
    assert said.code == 2, said.err
    assert reason in said.err.splitlines()[0]
