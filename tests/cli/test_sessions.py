"""`edgebench show DIR` and `verify DIR`: a recording of a meter, opened again."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.agents import Host
from support.commands import Run, Said
from support.fnirsi import FnirsiEmulator
from support.ppk2 import Faults, Ppk2Emulator, constant
from support.records import RUN_ID, store_run

from edgebench.host.store.layout import Store
from edgebench.host.store.power import KEY

METER = "synthetic:square,low=0.2,high=1,period=0.1,noise=0.01"


@pytest.fixture
def recorded(edgebench: Run, tmp_path: Path) -> tuple[Path, Said]:
    """A recording, and what was printed of it as JSON."""
    folder = tmp_path / "session"
    words = ("--duration", "0.5s", "--output", str(folder), "--json")
    return folder, edgebench("meters", "record", METER, *words)


def test_recording_is_shown_as_it_was_printed(edgebench: Run, recorded: tuple[Path, Said]) -> None:
    """Otherwise the energy of a recording would be lost with the terminal it was printed on."""
    folder, printed = recorded
    said = edgebench("show", str(folder), "--json")
    assert (said.code, said.err) == (0, "")
    assert json.loads(said.out) == json.loads(printed.out)
    assert "mW" in edgebench("show", str(folder)).out


def test_recording_without_samples_is_shown_out_of_its_bytes(
    edgebench: Run, recorded: tuple[Path, Said]
) -> None:
    """Otherwise the meter's bytes could not be read after a crash of the host or a full disk."""
    folder, printed = recorded
    (folder / "power.parquet").unlink()
    path = folder / "meter.spool"
    path.write_bytes(path.read_bytes()[:-3])
    said = edgebench("show", str(folder), "--json")
    assert said.code == 0, said.err
    plain, before = json.loads(said.out), json.loads(printed.out)
    assert 0 < plain["channels"][0]["energy_j"] <= before["channels"][0]["energy_j"]
    assert "cut off as by a crash" in plain["checks"][0]["detail"]
    assert [one.name for one in folder.iterdir()] == ["meter.spool"], "showing writes nothing"
    said = edgebench("verify", str(folder))
    assert said.code == 1
    assert "samples of meter.spool" in said.out


def test_recording_of_the_store_goes_by_its_id(edgebench: Run) -> None:
    """Otherwise a recording without a named directory could not be found again."""
    plain = json.loads(edgebench("meters", "record", METER, "--duration", "0.3s", "--json").out)
    session_id = os.path.basename(plain["directory"])
    for command in ("show", "verify"):
        said = edgebench(command, session_id)
        assert (said.code, said.err) == (0, "")


def test_directory_that_is_taken_is_no_full_disk(
    edgebench: Run, recorded: tuple[Path, Said]
) -> None:
    """Otherwise users would delete measurements to free space on a disk that has it."""
    folder, _ = recorded
    said = edgebench("meters", "record", METER, "--duration", "0.3s", "--output", str(folder))
    assert said.code != 0
    assert "hint: choose another directory" in said.err
    assert "df -h" not in said.err


def test_good_recording_is_verified(edgebench: Run, recorded: tuple[Path, Said]) -> None:
    """Otherwise every recording would be doubted."""
    folder, _ = recorded
    said = edgebench("verify", str(folder))
    assert (said.code, said.err) == (0, "")
    assert said.out == f"verified: {folder}: every number follows from the raw files\n"
    plain = json.loads(edgebench("verify", str(folder), "--json").out)
    assert plain == {"directory": str(folder), "differences": []}


@pytest.mark.parametrize("what", ["row", "energy", "spool"])
def test_changed_recording_is_not_verified(
    edgebench: Run, recorded: tuple[Path, Said], what: str
) -> None:
    """Otherwise edits of a sample, a row group's energy or the meter's bytes would go unnoticed."""
    folder, _ = recorded
    path = folder / "power.parquet"
    table = pq.read_table(path)
    facts = json.loads(pq.read_metadata(path).metadata[KEY.encode()])
    if what == "spool":
        spool = folder / "meter.spool"
        spool.write_bytes(spool.read_bytes() + b"\xff" * 40)
    else:
        rows = table.to_pylist()
        if what == "row":
            rows[100]["watts_w"] *= 1.001
        else:
            facts["groups"][0]["energy_j"] *= 0.5
        schema = table.schema.with_metadata({KEY: json.dumps(facts)})
        pq.write_table(pa.Table.from_pylist(rows, schema), path)
    said = edgebench("verify", str(folder))
    assert said.code == 1, said.out
    expected = {"row": "power.parquet", "energy": "groups[0].energy_j", "spool": "loss.trouble"}
    assert said.out.startswith(f"{expected[what]}: stored ")


def test_recording_of_an_older_version_is_verified(edgebench: Run, tmp_path: Path) -> None:
    """Otherwise the wording of a later version would count as a change; its energy is unsure."""
    words = ("--duration", "0.5s", "--output", str(tmp_path / "session"), "--json")
    with Ppk2Emulator(waveform=constant(0.01)) as emulator:
        name = f"ppk2:{emulator.path},supply=3.3"
        printed = json.loads(edgebench("meters", "record", name, *words).out)
    path = tmp_path / "session" / "power.parquet"
    table = pq.read_table(path)
    facts = json.loads(pq.read_metadata(path).metadata[KEY.encode()])
    assert all(group.pop("between_j") is not None for group in facts["groups"])
    pq.write_table(table.replace_schema_metadata({KEY: json.dumps(facts)}), path)
    said = edgebench("verify", str(path.parent))
    assert said.code == 0, said.out
    assert json.loads(edgebench("show", str(path.parent), "--json").out) == printed


def test_recording_that_ended_early_is_verified_and_refused(edgebench: Run, tmp_path: Path) -> None:
    """Otherwise facts from the live session would count as differences, or the refusal be lost."""
    folder = tmp_path / "session"
    faults = Faults(gone_after_s=0.4)
    with Ppk2Emulator(waveform=constant(10e-3), faults=faults) as emulator:
        meter = f"ppk2:{emulator.path},supply=3.3"
        edgebench("meters", "record", meter, "--duration", "0.8s", "--output", str(folder))
    said = edgebench("show", str(folder))
    assert said.code == 3
    assert "is gone" in said.out
    assert "mW" not in said.out
    said = edgebench("verify", str(folder))
    assert (said.code, said.err) == (0, "")


def test_import_is_shown_and_has_nothing_to_verify(edgebench: Run, tmp_path: Path) -> None:
    """Otherwise an imported file would be verified against nothing."""
    path, folder = tmp_path / "trace.csv", tmp_path / "session"
    path.write_text("t_s,power_W\n0,2.0\n1.5,2.0\n")
    edgebench("meters", "import", str(path), "--output", str(folder))
    assert "3.00 J ±17 %" in edgebench("show", str(folder)).out
    said = edgebench("verify", str(folder))
    assert said.code == 2
    assert said.err.startswith(f"error: nothing to verify: {folder} has samples, but no raw bytes")


@pytest.mark.parametrize("command", ["show", "verify"])
def test_directory_that_is_no_recording_is_one_line(
    edgebench: Run, host: Host, command: str, tmp_path: Path
) -> None:
    """Otherwise a misspelt directory would be a traceback or another run, or a run's be refused."""
    store = Store(host.folder / "data" / "edgebench")
    store_run(store, RUN_ID)
    said = edgebench(command, str(tmp_path / "nothing"))
    assert said.code == 2
    error, hint = said.err.splitlines()
    assert error.startswith(f"error: neither a meter recording nor a run: {tmp_path}/nothing")
    assert f"edgebench {command} --help" in hint
    said = edgebench(command, str(store.directory(RUN_ID)))
    assert (said.code, said.err) == (0, "")
    assert RUN_ID in said.out


def test_name_of_a_run_goes_before_that_of_a_directory(
    edgebench: Run, host: Host, recorded: tuple[Path, Said], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a directory named like a part of an id would hide the run."""
    folder, _ = recorded
    store_run(Store(host.folder / "data" / "edgebench"), RUN_ID)
    monkeypatch.chdir(folder.parent)
    assert edgebench("verify", folder.name).out.startswith(f"verified: {folder.name}: ")
    folder.rename(folder.parent / RUN_ID[-6:])
    assert edgebench("verify", RUN_ID[-6:]).out.startswith(f"verified: {RUN_ID}: ")
    assert edgebench("verify", f"./{RUN_ID[-6:]}").out.startswith(f"verified: {RUN_ID[-6:]}: ")


def test_damaged_samples_are_one_line(edgebench: Run, recorded: tuple[Path, Said]) -> None:
    """A file that is no Parquet is reported without a traceback."""
    folder, _ = recorded
    (folder / "power.parquet").write_bytes(b"PAR1")
    for command in ("show", "verify"):
        said = edgebench(command, str(folder))
        assert said.code == 1
        assert len(said.err.splitlines()) == 2
        assert "power.parquet" in said.err


@pytest.mark.parametrize("name", ["meter.spool", "power.parquet"])
@pytest.mark.parametrize("command", ["show", "verify"])
def test_what_is_no_file_is_not_waited_for(
    edgebench: Run, tmp_path: Path, name: str, command: str
) -> None:
    """Otherwise opening a directory that contains a pipe would block for ever."""
    folder = tmp_path / "session"
    folder.mkdir()
    os.mkfifo(folder / name)
    said = edgebench(command, str(folder))
    assert said.code == 1
    assert said.err.startswith(f"error: not a file: {folder / name}\nhint: ")


def test_recording_of_swapped_wires_is_refused(edgebench: Run, tmp_path: Path) -> None:
    """Otherwise negative joules would be printed, with their uncertainty."""
    folder = tmp_path / "session"
    with FnirsiEmulator(waveform=lambda time_s: (5.0, 0.5 if time_s < 0.1 else -0.5)) as emulator:
        meter = f"fnirsi:{emulator.path}"
        said = edgebench("meters", "record", meter, "--duration", "0.6s", "--output", str(folder))
    assert said.code == 3
    assert "the meter's wires are reversed" in said.out
    assert " J" not in said.out
