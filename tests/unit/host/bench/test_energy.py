"""Energy of a stored run from a file that a separate instrument recorded."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.metered import (
    CODES,
    COUNT,
    WORK_W,
    codes_of,
    samples,
    store_coded_run,
    store_metered_run,
    write_trace_csv,
)
from support.ppk2_files import write_ppk2
from support.records import RUN_ID, latencies, put_into_store, run_record, worker_record

from edgebench.host.bench import energy as attaching
from edgebench.host.bench.energy import TraceOptions, add_energy
from edgebench.host.bench.verify import rejudge, verify
from edgebench.host.power.imports.importer import import_file
from edgebench.host.result.energy import SyncMethod, TraceAssumption
from edgebench.host.result.facts import HostFacts, ImportOptions, SetMember
from edgebench.host.show.energy import energy_lines
from edgebench.host.store.layout import RUN_FILE, Store
from edgebench.meters.uncertainty import Unit
from edgebench.protocol.digests import sha256_of
from edgebench.protocol.errors import (
    ColumnsUnknown,
    FileRefused,
    NoLoadCode,
    SamplesUnknown,
    StoreError,
    TraceOfAnotherRun,
    TraceRefused,
    UsageError,
)
from edgebench.system.whole_files import write_whole

MEANS = ImportOptions(is_averaging=True)
STATED = TraceOptions(columns=MEANS, gain_ratio=0.01)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store with one run that played the load code."""
    made = Store(tmp_path / "store")
    store_coded_run(made)
    return made


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    """Return what an instrument recorded during the run."""
    path = tmp_path / "trace.csv"
    write_trace_csv(path)
    return path


def content(directory: Path) -> dict[str, bytes]:
    """Return every file of a directory."""
    return {
        str(path.relative_to(directory)): path.read_bytes()
        for path in directory.rglob("*")
        if path.is_file()
    }


def test_energy_of_a_file_is_that_of_a_driven_meter(
    store: Store, trace: Path, tmp_path: Path
) -> None:
    """Otherwise a second implementation of energy would give another one, or another verdict."""
    run = add_energy(store, RUN_ID, trace, STATED)
    beside = Store(tmp_path / "metered")
    store_metered_run(beside, sync=SyncMethod.CODED_LOAD)
    driven, found = beside.run(RUN_ID).metrics.energy, run.metrics.energy
    assert driven is not None
    assert found is not None
    assert found.gross_j_per_inference == pytest.approx(driven.gross_j_per_inference, rel=1e-4)
    assert found.net_j_per_inference == pytest.approx(driven.net_j_per_inference, rel=1e-4)
    assert found.sync is not None
    assert found.sync.method is SyncMethod.CODED_LOAD
    # Twice the gain as a standard uncertainty, with hardly anything in addition.
    assert found.gross_j_per_inference is not None
    assert found.u95_absolute_j is not None
    ratio = found.u95_absolute_j / found.gross_j_per_inference
    assert 2 * 0.01 / 3**0.5 <= ratio < 0.013
    rules = {rule.id: rule.outcome.value for rule in run.verdict.rules}
    names = ("meter", "energy_sync", "energy_idle", "energy")
    assert {rules[name] for name in names} == {"pass"}


def test_run_keeps_the_file_and_verifies(store: Store, trace: Path) -> None:
    """Otherwise the file would be elsewhere next year, and the energy could not be recomputed."""
    before = content(store.directory(RUN_ID))
    run = add_energy(store, RUN_ID, trace, STATED)
    after = content(store.directory(RUN_ID))
    assert store.run(RUN_ID) == run
    assert verify(store, RUN_ID) == []
    assert rejudge(store, RUN_ID).metrics.energy == run.metrics.energy
    energy = run.metrics.energy
    assert energy is not None
    assert energy.trace is not None
    with trace.open("rb") as file:
        assert energy.trace.sha256 == sha256_of(file).hexdigest()
    kept = f"raw/trace-{energy.trace.sha256[:12]}/trace.csv"
    assert after[kept] == trace.read_bytes()
    changed = {name for name, data in before.items() if after[name] != data}
    assert changed == {RUN_FILE, "raw/host.json"}
    assert after.keys() - before.keys() == {kept, "power.parquet"}


@pytest.mark.parametrize("name", ["power.parquet", "trace"])
def test_trace_that_was_changed_does_not_verify(store: Store, trace: Path, name: str) -> None:
    """Otherwise a number in the file, or in its samples, could be corrected unnoticed."""
    add_energy(store, RUN_ID, trace, STATED)
    directory = store.directory(RUN_ID)
    [kept] = directory.glob("raw/trace-*/trace.csv")
    if name == "trace":
        kept.write_text(kept.read_text().replace("2000.0", "2500.0"))
    else:
        write_trace_csv(trace, work_w=1.5)
        other = Store(store.root.parent / "other")
        store_coded_run(other)
        add_energy(other, RUN_ID, trace, STATED)
        shutil.copy(other.directory(RUN_ID) / name, directory / name)
    [difference] = verify(store, RUN_ID)
    assert difference.key == "power.parquet"
    assert "trace-" in str(difference.computed)
    kept.unlink()
    [difference] = verify(store, RUN_ID)
    assert "is missing" in str(difference.computed)


def test_what_nobody_said_is_assumed_and_told(store: Store, trace: Path) -> None:
    """Otherwise an energy of ±0.1 % would be printed from a file whose gain is unknown."""
    run = add_energy(store, RUN_ID, trace, TraceOptions(columns=MEANS))
    energy = run.metrics.energy
    assert energy is not None
    assert energy.trace is not None
    assert energy.trace.assumed == (TraceAssumption.GAIN, TraceAssumption.OFFSET)
    assert energy.gross_j_per_inference is not None
    assert energy.u95_absolute_j is not None
    assert energy.u95_absolute_j / energy.gross_j_per_inference > 0.17
    told = TraceOptions(columns=MEANS, gain_ratio=0.001, offset=(0.1, Unit.WATT))
    energy = add_energy(store, RUN_ID, trace, told).metrics.energy
    assert energy is not None
    assert energy.trace is not None
    assert energy.trace.assumed == ()
    assert energy.components_j is not None
    assert energy.components_j["offset"] > 10 * energy.components_j["gain"]


def test_what_was_repaired_in_a_file_is_in_the_run_and_on_the_page(
    store: Store, trace: Path
) -> None:
    """Otherwise rows of a file would be left out unnoticed, as only `meters import` reports."""
    assert add_energy(store, RUN_ID, trace, STATED).metrics.energy is not None
    head, *rows = trace.read_text().splitlines()
    trace.write_text("\n".join([head, *rows[:10], "restarted", *rows[10:]]) + "\n")
    energy = add_energy(store, RUN_ID, trace, STATED).metrics.energy
    assert energy is not None
    assert energy.trace is not None
    notes = import_file(trace, store.root.parent / "session", MEANS).verdict.reading
    assert energy.trace.reading == notes
    assert [note.facts["first_line"] for note in notes] == [12]
    assert store.run(RUN_ID).metrics.energy == energy
    [shown] = [text for name, text in energy_lines(energy) if name == "reading"]
    assert "line 12" in shown
    assert verify(store, RUN_ID) == []


@pytest.mark.parametrize("columns", [ImportOptions(), ImportOptions(is_averaging=False)])
def test_samples_that_may_be_instants_are_refused(
    store: Store, trace: Path, columns: ImportOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a thousand instants per second would be in step with a tick, and 150 % off."""
    before = content(store.directory(RUN_ID))
    is_said = columns.is_averaging is not None
    monkeypatch.setattr("edgebench.host.analysis.energy.unsampled.U95_LIMIT_RATIO", 0.1)
    with pytest.raises(TraceRefused, match="instant") as caught:
        add_energy(store, RUN_ID, trace, TraceOptions(columns=columns))
    assert isinstance(caught.value, SamplesUnknown) is not is_said
    assert content(store.directory(RUN_ID)) == before


def test_file_of_another_time_leaves_the_run_as_it_was(
    store: Store, trace: Path, tmp_path: Path
) -> None:
    """Otherwise another run's file would give an energy, or its refusal cost what there was."""
    text = trace.read_text().splitlines()
    before = content(store.directory(RUN_ID))
    half = tmp_path / "half.csv"
    half.write_text("\n".join(text[: len(text) // 2]))
    with pytest.raises(TraceRefused, match="load codes are not in the trace"):
        add_energy(store, RUN_ID, half, STATED)
    slow = tmp_path / "slow.csv"
    slow.write_text("\n".join(text[:1] + text[1::50]))
    with pytest.raises(TraceRefused, match=r"20 samples per second, too few .* chips of 20 ms"):
        add_energy(store, RUN_ID, slow, STATED)
    late = tmp_path / "late.csv"  # begins right before the code: there is no idle time before
    late.write_text("\n".join(text[:1] + text[1950:]))
    assert content(store.directory(RUN_ID)) == before
    energy = add_energy(store, RUN_ID, late, STATED).metrics.energy
    assert energy is not None
    assert energy.gross_j_per_inference is not None
    assert energy.net_j_per_inference is None
    assert energy.net_refused is not None


def test_second_file_replaces_the_energy_and_keeps_the_first(
    store: Store, trace: Path, tmp_path: Path
) -> None:
    """Otherwise the better instrument's file would cost what the other recorded."""
    add_energy(store, RUN_ID, trace, STATED)
    other = tmp_path / "other.csv"
    write_trace_csv(other, work_w=1.5)
    run = add_energy(store, RUN_ID, other, STATED)
    energy = run.metrics.energy
    assert energy is not None
    assert energy.power_w_mean == pytest.approx(1.5, rel=0.02)
    assert verify(store, RUN_ID) == []
    kept = {path.name for path in store.directory(RUN_ID).glob("raw/trace-*/*")}
    assert kept == {"trace.csv", "other.csv"}


def test_file_of_another_run_is_refused_by_its_name(tmp_path: Path) -> None:
    """Otherwise the power of another model would be this run's, as both take equally long."""
    store = Store(tmp_path / "two")
    ids = [f"{RUN_ID[:-1]}{number}" for number in range(3)]
    for number, run_id in enumerate(ids):
        store_coded_run(store, run_id, codes=codes_of(run_id), later_s=number * 7.5)
    files = [tmp_path / f"{run_id}.csv" for run_id in ids]
    for number, (path, run_id) in enumerate(zip(files, ids, strict=True)):
        write_trace_csv(path, runs=(codes_of(run_id),), work_w=1.5 + number)
    for run_id in ids:
        for path in files:
            if path.stem == run_id:
                continue
            with pytest.raises(TraceOfAnotherRun, match=f"belong to run {path.stem}") as caught:
                add_energy(store, run_id, path, STATED)
            assert caught.value.run_id == path.stem
    for number, (path, run_id) in enumerate(zip(files, ids, strict=True)):
        energy = add_energy(store, run_id, path, STATED).metrics.energy
        assert energy is not None
        assert energy.power_w_mean == pytest.approx(1.5 + number, rel=0.02)


def test_file_of_a_set_is_in_the_order_of_its_codes(tmp_path: Path) -> None:
    """Otherwise a set would need its idle times, or a run that is not in the file have energy."""
    store, path = Store(tmp_path / "set"), tmp_path / "set.csv"
    ids = [f"{RUN_ID[:-1]}{number}" for number in range(3)]
    for number, run_id in enumerate(ids):
        member = SetMember("set-00000001", number, 3)
        store_coded_run(store, run_id, codes=codes_of(run_id), later_s=number * 7.5, member=member)
    write_trace_csv(path, runs=[codes_of(run_id) for run_id in ids[:2]], gap_s=1.5)
    for run_id in ids[:2]:
        energy = add_energy(store, run_id, path, STATED).metrics.energy
        assert energy is not None
        assert energy.sync is not None
        assert energy.sync.offset_ns == pytest.approx(-1e9, abs=1e6)
    with pytest.raises(TraceOfAnotherRun, match=f"belong to run {ids[1]}"):
        add_energy(store, ids[2], path, STATED)


def test_runs_of_one_file_are_told_apart_by_each_other(store: Store, tmp_path: Path) -> None:
    """Otherwise launches of a set in one file would each get the energy of another."""
    ids = [RUN_ID]
    for number in (1, 2):
        ids.append(RUN_ID[:-1] + str(number))
        store_coded_run(store, ids[-1], later_s=number * 7.5)
    path = tmp_path / "set.csv"
    write_trace_csv(path, runs=(CODES,) * 3, gap_s=1.5)
    for number, run_id in enumerate(ids):
        energy = add_energy(store, run_id, path, STATED).metrics.energy
        assert energy is not None
        assert energy.sync is not None
        # File and device differ by the same time in all of them.
        assert energy.sync.offset_ns == pytest.approx(-1e9, abs=1e6), number
        assert verify(store, run_id) == []


def test_stretch_of_a_file_gives_one_run_its_energy(store: Store, tmp_path: Path) -> None:
    """Otherwise the file of one run would be laid over the next, too, and both be valid."""
    path, again = tmp_path / "one.csv", f"{RUN_ID[:-1]}1"
    store_coded_run(store, again, later_s=7.5)
    write_trace_csv(path)
    add_energy(store, RUN_ID, path, STATED)
    with pytest.raises(TraceRefused, match=f"belong to run {RUN_ID}; the energy of that run"):
        add_energy(store, again, path, STATED)
    add_energy(store, RUN_ID, path, STATED)  # the same run may have it again


def test_file_of_one_run_of_a_set_is_nobodys(tmp_path: Path) -> None:
    """Otherwise the first of five similar launches would take the energy of the third."""
    store, path = Store(tmp_path / "set"), tmp_path / "one.csv"
    ids = [f"{RUN_ID[:-1]}{number}" for number in range(3)]
    for number, run_id in enumerate(ids):
        member = SetMember("set-00000001", number, 3)
        store_coded_run(store, run_id, later_s=number * 7.5, member=member)
    write_trace_csv(path)
    for run_id in ids:
        with pytest.raises(TraceRefused, match="they fit 3 runs of the set: record the whole set"):
            add_energy(store, run_id, path, STATED)
    write_trace_csv(path, runs=(CODES,) * 3, gap_s=7.5)


def test_recording_of_a_power_profiler_is_a_trace_as_well(store: Store, tmp_path: Path) -> None:
    """Otherwise files that are no tables would have no energy, or no term for samples in step."""
    powers_w = np.repeat(samples(int(latencies(COUNT).sum())), 100)
    # Clocks that differ by 50 ppm: if they were equal, samples might be in step with anything.
    powers_w = np.delete(powers_w, slice(None, None, 20_000))
    path = write_ppk2(tmp_path / "run.ppk2", 1e6 * powers_w / 5.0)
    says = TraceOptions(columns=ImportOptions(supply_v=5.0), gain_ratio=0.1)
    energy = add_energy(store, RUN_ID, path, says).metrics.energy
    assert energy is not None
    assert energy.trace is not None
    assert (energy.trace.format, energy.trace.is_averaging) == ("Power Profiler .ppk2", False)
    assert energy.power_w_mean == pytest.approx(WORK_W, rel=0.01)
    assert energy.components_j is not None
    assert energy.components_j["in step of the window"] > 0
    assert verify(store, RUN_ID) == []


def test_run_without_a_code_names_the_next_step(tmp_path: Path, trace: Path) -> None:
    """A run without a load code can get no energy; the refusal names the next step."""
    store = Store(tmp_path / "plain")
    latency_ns = latencies(2000)
    put_into_store(store, run_record(worker_record(latency_ns)), latency_ns, facts=HostFacts())
    with pytest.raises(NoLoadCode, match="played no load code"):
        add_energy(store, RUN_ID, trace, STATED)


def test_run_with_a_meter_keeps_its_energy(tmp_path: Path, trace: Path) -> None:
    """Otherwise a plug's log would replace what a power analyser measured."""
    store = Store(tmp_path / "metered")
    store_metered_run(store)
    with pytest.raises(UsageError, match="already has the recording of a meter, synthetic:"):
        add_energy(store, RUN_ID, trace, STATED)


def test_wrong_file_or_gain_is_the_users(store: Store, trace: Path, tmp_path: Path) -> None:
    """Otherwise a file without known columns, or a gain of 200 %, would change a run."""
    before = content(store.directory(RUN_ID))
    unknown = tmp_path / "unknown.csv"
    unknown.write_text("a,b\n1,2\n")
    with pytest.raises(ColumnsUnknown, match="columns found: 'a', 'b'"):
        add_energy(store, RUN_ID, unknown, STATED)
    current = tmp_path / "current.csv"
    current.write_text("t_s,mA\n1,2\n2,3\n")
    with pytest.raises(FileRefused, match=r"as in --voltage 3\.3"):
        add_energy(store, RUN_ID, current, STATED)
    with pytest.raises(UsageError, match="--gain must be above 0 and at most 100 %"):
        add_energy(store, RUN_ID, trace, replace(STATED, gain_ratio=2.0))
    assert content(store.directory(RUN_ID)) == before


def test_disk_that_fails_leaves_the_run_as_it_was(
    store: Store, trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a run with half of a trace would not verify, and its energy would be gone."""
    add_energy(store, RUN_ID, trace, STATED)
    before = content(store.directory(RUN_ID))
    other = tmp_path / "other.csv"
    write_trace_csv(other, work_w=1.5)

    def full(path: Path, text: str) -> None:
        if path.name == RUN_FILE:
            raise OSError(28, "No space left on device")
        write_whole(path, text)

    monkeypatch.setattr(attaching, "write_whole", full)
    with pytest.raises(StoreError, match="energy not stored: No space left"):
        add_energy(store, RUN_ID, other, STATED)
    assert content(store.directory(RUN_ID)) == before
    assert verify(store, RUN_ID) == []


def test_errors_of_one_instrument_are_shared_by_its_name(
    store: Store, trace: Path, tmp_path: Path
) -> None:
    """Otherwise two files of one Otii could not be compared, or two instruments' gains cancel."""
    other = tmp_path / "other.csv"
    write_trace_csv(other, work_w=1.5)
    found: dict[str, tuple[str, str | None]] = {}
    for name, path, instrument in (
        ("a", trace, None),
        ("b", other, None),
        ("c", trace, "otii 1"),
        ("d", other, "otii 1"),
    ):
        energy = add_energy(store, RUN_ID, path, replace(STATED, instrument=instrument)).metrics
        assert energy.energy is not None
        found[name] = energy.energy.meter, energy.energy.settings_sha256
    assert found["a"] != found["b"]
    assert found["c"] == found["d"]
    document = json.loads((store.directory(RUN_ID) / RUN_FILE).read_text())
    assert document["metrics"]["energy"]["meter"] == "otii 1"
