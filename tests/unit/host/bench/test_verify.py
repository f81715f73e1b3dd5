"""`edgebench verify` notices every change: to any file of a run, and to any number in it.

A file that differs is noticed by its digest alone. To have the numbers checked too, some tests
write the digests anew, as an informed forger would.
"""

from __future__ import annotations

import json
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.analysed_once import analysed_once, recomputed_once
from support.metered import store_metered_run
from support.records import RUN_ID, store_run

from edgebench.host.bench.verify import verify
from edgebench.host.show.hints import hint_for
from edgebench.host.show.sentences import sentence
from edgebench.host.store.files import file_digests
from edgebench.host.store.layout import RUN_FILE, Store
from edgebench.protocol.errors import RunDamaged, StoreError

Path_ = tuple[str | int, ...]
CHANGED_TOGETHER = 40
"""Changes of run.json that are verified together: few enough that a failure names few places."""
PARQUET = ("queries.parquet", "telemetry.parquet", "clock.parquet")


@pytest.fixture(scope="module", autouse=True)
def _latencies_once() -> Iterator[None]:
    """Analyse once: nearly all tests here change statements about the same latencies."""
    with analysed_once():
        yield


@pytest.fixture
def _computed_once() -> Iterator[None]:
    """Compute the same raw files once, for tests that change the document alone."""
    with recomputed_once():
        yield


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """Return a store with one good run."""
    made = Store(tmp_path / "store")
    store_run(made)
    return made


@pytest.fixture
def judged(tmp_path: Path) -> Store:
    """Return a store with one good run that has an accuracy, and a reference to compare with."""
    made = Store(tmp_path / "judged")
    store_run(made, is_judged=True)
    return made


@pytest.fixture
def profiled(tmp_path: Path) -> Store:
    """Return a store with one good run that has a profile."""
    made = Store(tmp_path / "profiled")
    store_run(made, is_judged=True, is_profiled=True)
    return made


@pytest.fixture
def metered(tmp_path: Path) -> Store:
    """Return a store with one run that has an energy."""
    made = Store(tmp_path / "metered")
    store_metered_run(made)
    return made


@pytest.fixture
def directory(store: Store) -> Path:
    """Return the directory of the run."""
    return store.directory(RUN_ID)


def is_noticed(store: Store) -> bool:
    """Whether verify finds a difference, or reports in one line that it cannot."""
    try:
        return bool(verify(store, RUN_ID))
    except StoreError as exc:
        return "\n" not in str(exc) and len(str(exc)) > 10


def with_new_digests(directory: Path) -> None:
    """Write the digests of the files as they are now."""
    path = directory / RUN_FILE
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"files": file_digests(directory)}))


def noticed_keys(store: Store) -> set[str]:
    """Return the keys that verify doubts, with the digests written anew."""
    with_new_digests(store.directory(RUN_ID))
    return {difference.key for difference in verify(store, RUN_ID)}


def leaves(value: Any, path: Path_ = ()) -> Iterator[tuple[Path_, Any]]:
    """Yield every value of a document that contains no other."""
    if isinstance(value, dict) and value:
        for key, child in value.items():
            yield from leaves(child, (*path, key))
    elif isinstance(value, list) and value:
        for i, child in enumerate(value):
            yield from leaves(child, (*path, i))
    else:
        yield path, value


def is_sentence(place: Path_) -> bool:
    """Whether the place holds a sentence, which each version of edgebench words differently."""
    if place[:2] == ("verdict", "rules"):
        return place[-1] == "detail" or place[-2:] in (("facts", "why"), ("facts", "checks"))
    if place[:2] == ("metrics", "thermal"):
        return place[-1] == "reason"
    ends = ("refused", "net_refused", "detail", "reason")
    return place[:2] == ("metrics", "energy") and place[-1] in ends


def changed(value: Any) -> Any:
    """Return another value, as near to the old one as possible."""
    match value:
        case bool():
            return not value
        case int():
            return value + 1
        case float():
            return value * 1.001 + 1e-6
        case str():
            return value + "x"
        case None:
            return 0
        case _:
            return [*value, "x"] if isinstance(value, list) else {"x": 1}


def with_change(document: Any, *paths: Path_) -> Any:
    """Return a copy of the document with one value changed, or several."""
    copy = json.loads(json.dumps(document))
    for path in paths:
        parent = copy
        for key in path[:-1]:
            parent = parent[key]
        parent[path[-1]] = changed(parent[path[-1]])
    return copy


def unnoticed_in_document(store: Store, places: Sequence[Path_]) -> list[Path_]:
    """Return the places of run.json whose change `verify` does not notice.

    Changes below the top level are verified together, and `verify` must name each of them. What it
    does not name is verified alone, as are changes at the top level: the version of the schema
    decides how the others are read.
    """
    path = store.directory(RUN_ID) / RUN_FILE
    document = json.loads(path.read_text())
    missed: list[Path_] = []
    alone: list[Path_] = [place for place in places if len(place) == 1]
    together: list[Path_] = [place for place in places if len(place) > 1]
    for begin in range(0, len(together), CHANGED_TOGETHER):
        some = together[begin : begin + CHANGED_TOGETHER]
        path.write_text(json.dumps(with_change(document, *some)))
        try:
            keys = {difference.key for difference in verify(store, RUN_ID)}
        except StoreError:
            keys = set[str]()
        alone += [place for place in some if not is_named(place, keys)]
    assert len(alone) < len(places) / 2, "or together they are noticed for another reason"
    for place in alone:
        path.write_text(json.dumps(with_change(document, place)))
        if not is_noticed(store):
            missed.append(place)
    return missed


def is_named(place: Path_, keys: set[str]) -> bool:
    """Whether one of these keys is this place, or a value that was added there."""
    name = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in place)[1:]
    return any(key == name or key.startswith((f"{name}.", f"{name}[")) for key in keys)


def test_good_run_is_verified(store: Store) -> None:
    """Otherwise every run would be doubted, and the doubts would be ignored."""
    assert verify(store, RUN_ID) == []


@pytest.mark.slow
@pytest.mark.usefixtures("_computed_once")
def test_every_changed_value_in_the_document_is_noticed(store: Store, directory: Path) -> None:
    """Otherwise a number in run.json could be edited by hand and still be verified."""
    path = directory / RUN_FILE
    document = json.loads(path.read_text())
    places = [place for place, _ in leaves(document) if not is_sentence(place)]
    assert len(places) > 100
    assert unnoticed_in_document(store, places) == []


@pytest.mark.slow
def test_every_changed_value_in_the_record_is_noticed(store: Store, directory: Path) -> None:
    """Otherwise the agent's record could be edited by hand, and the numbers would follow."""
    path = directory / "raw" / "record.json"
    record = json.loads(path.read_text())
    places = [place for place, _ in leaves(record)]
    assert len(places) > 80
    missed = []
    for place in places:
        path.write_text(json.dumps(with_change(record, place)))
        if not is_noticed(store):
            missed.append(".".join(map(str, place)))
    assert missed == []


def test_removed_and_added_keys_are_noticed(store: Store, directory: Path) -> None:
    """Otherwise a failed rule could be cut out of the verdict, or a metric be slipped in."""
    path = directory / RUN_FILE
    document = json.loads(path.read_text())
    for key in [key for key, value in document.items() if value is not None]:
        path.write_text(json.dumps({k: v for k, v in document.items() if k != key}))
        assert is_noticed(store), f"without {key}"
    path.write_text(json.dumps(document | {"extra": 1}))
    assert is_noticed(store)
    fewer = document | {
        "verdict": document["verdict"] | {"rules": document["verdict"]["rules"][1:]}
    }
    path.write_text(json.dumps(fewer))
    assert is_noticed(store)


def every_file(directory: Path) -> list[Path]:
    """Return the files of a run."""
    return sorted(path for path in directory.rglob("*") if path.is_file())


def test_every_missing_file_is_noticed(store: Store, directory: Path) -> None:
    """Otherwise a trace could be deleted, and the run still be verified."""
    names = [str(path.relative_to(directory)) for path in every_file(directory)]
    assert set(names) >= {*PARQUET, RUN_FILE, "events.jsonl", "raw/record.json", "raw/worker.log"}
    missed = []
    for path in every_file(directory):
        aside = store.root / "aside"
        shutil.move(path, aside)
        if not is_noticed(store):
            missed.append(path.name)
        shutil.move(aside, path)
    assert missed == []
    assert verify(store, RUN_ID) == []


@pytest.mark.parametrize("damage", ["empty", "cut", "longer", "flipped"])
def test_every_damaged_file_is_noticed(store: Store, directory: Path, damage: str) -> None:
    """Otherwise a disk error in a trace would go unnoticed."""
    missed = []
    for path in every_file(directory):
        data = path.read_bytes()
        # A key whose value is null may be missing: of the summary, a number is damaged.
        middle = data.index(b'"p50": ') + 8 if path.name == RUN_FILE else len(data) // 2
        flipped = data[:middle] + bytes([data[middle] ^ 0x20]) + data[middle + 1 :]
        damaged = {"empty": b"", "cut": data[:-1], "longer": data + b"\n", "flipped": flipped}
        path.write_bytes(damaged[damage])
        is_harmless = path.name == RUN_FILE and damage in ("longer", "cut")  # white space
        if not is_noticed(store) and not is_harmless:
            missed.append(path.name)
        path.write_bytes(data)
    assert missed == []


@pytest.mark.parametrize("name", PARQUET)
def test_every_changed_column_of_a_trace_is_noticed(
    store: Store, directory: Path, name: str
) -> None:
    """Otherwise a trace could be edited with a well-behaved tool, and the run be verified."""
    path = directory / name
    table = pq.read_table(path)
    data = path.read_bytes()
    missed = []
    for column in table.column_names:
        rows = table.to_pylist()
        rows[len(rows) // 2][column] = changed(rows[len(rows) // 2][column])
        pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
        if not is_noticed(store):
            missed.append(column)
        path.write_bytes(data)
    assert missed == []


@pytest.mark.parametrize("damage", ["renamed", "null"])
def test_damaged_clock_probes_are_one_line(store: Store, directory: Path, damage: str) -> None:
    """Otherwise a column that was renamed would end verify in a traceback."""
    path = directory / "clock.parquet"
    columns = pq.read_table(path).to_pydict()
    rows = max(1, len(columns["t0"]))
    columns = {name: [1] * rows for name in columns}
    if damage == "renamed":
        columns["t9"] = columns.pop("t0")
    else:
        columns["t0"] = [None] * rows
    pq.write_table(pa.table(columns), path)
    with pytest.raises(StoreError, match=r"damaged: "):
        verify(store, RUN_ID)


def test_two_swapped_queries_are_noticed(store: Store, directory: Path) -> None:
    """Otherwise the order of latencies, which shows drift and throttling, could be changed."""
    path = directory / "queries.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    first, second = rows[100], rows[101]
    longer = second["end_ns"] - second["start_ns"]
    middle = first["start_ns"] + longer
    first["end_ns"] = second["start_ns"] = middle
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    assert is_noticed(store)


def test_run_under_another_name_is_noticed(store: Store, directory: Path) -> None:
    """Otherwise a directory could be renamed, and one run pass for another."""
    other = "20270101-000000-00000000"
    directory.rename(store.directory(other))
    (difference,) = verify(store, other)
    assert (difference.key, difference.stored, difference.computed) == ("run_id", other, RUN_ID)


def test_newer_schema_is_refused_and_not_judged(store: Store, directory: Path) -> None:
    """Otherwise a run of a newer edgebench would be called damaged."""
    path = directory / RUN_FILE
    document = json.loads(path.read_text())
    path.write_text(json.dumps(document | {"schema_version": 99}))
    with pytest.raises(StoreError, match="schema version 99"):
        verify(store, RUN_ID)


def test_difference_names_the_key_and_both_values(store: Store, directory: Path) -> None:
    """Otherwise the user would learn that something differs, but not what."""
    path = directory / RUN_FILE
    document = json.loads(path.read_text())
    true_p50 = document["metrics"]["latency_ns"]["p50"]
    document["metrics"]["latency_ns"]["p50"] = 1
    path.write_text(json.dumps(document))
    (difference,) = verify(store, RUN_ID)
    assert difference.key == "metrics.latency_ns.p50"
    assert (difference.stored, difference.computed) == (1, true_p50)


def test_finding_in_other_words_is_verified(store: Store, directory: Path) -> None:
    """Otherwise one changed word in a rule would make every run of earlier years wrong."""
    path = directory / RUN_FILE
    document = json.loads(path.read_text())
    for rule in document["verdict"]["rules"]:
        rule["detail"] = f"in other words: {rule['detail']}"
    path.write_text(json.dumps(document))
    assert verify(store, RUN_ID) == []
    lines = [sentence(rule) for rule in store.run(RUN_ID).verdict.rules]
    assert not [line for line in lines if "in other words" in line], "data is what is shown"
    document["verdict"]["rules"][0]["detail"] = ""
    path.write_text(json.dumps(document))
    assert [one.key for one in verify(store, RUN_ID)] == ["verdict.rules[0].detail"]


def test_sentence_with_another_number_does_not_verify(store: Store, directory: Path) -> None:
    """Otherwise a number that is in a sentence only could be changed by hand."""
    path = directory / RUN_FILE
    document = json.loads(path.read_text())
    reason = document["metrics"]["thermal"]["reason"]
    first = next(char for char in reason if char.isdigit())
    for text, differences in ((f"reworded: {reason}", 0), (reason.replace(first, "7", 1), 1)):
        document["metrics"]["thermal"]["reason"] = text
        path.write_text(json.dumps(document))
        found = [one.key for one in verify(store, RUN_ID)]
        assert found == ["metrics.thermal.reason"] * differences, text


def test_judged_run_is_verified(judged: Store) -> None:
    """Otherwise every accuracy would be doubted."""
    assert verify(judged, RUN_ID) == []
    metrics = judged.document(RUN_ID)["metrics"]
    assert metrics["accuracy"]["value"] == 0.9
    assert metrics["accuracy"]["drop_vs_reference"] == pytest.approx(0.05)


@pytest.mark.slow
@pytest.mark.usefixtures("_computed_once")
def test_every_changed_value_of_a_judged_document_is_noticed(judged: Store) -> None:
    """Otherwise an accuracy, its interval or its reference could be edited by hand."""
    path = judged.directory(RUN_ID) / RUN_FILE
    document = json.loads(path.read_text())
    places = [place for place, _ in leaves(document) if not is_sentence(place)]
    assert {"accuracy", "agreement", "early_stopping", "outliers"} <= {
        place[1] for place in places if place[0] == "metrics"
    }
    assert {"before", "after", "scheduling"} <= {
        place[1] for place in places if place[0] == "conditions"
    }
    assert unnoticed_in_document(judged, places) == []


NOT_COMPUTED = (
    "model.",  # the worker's own report of it is the one that counts
    "worker.is_interrupted",  # the outcome states so
    "worker.check.sample_count",  # the outputs themselves are counted
    "worker.check.dataset_sample_count",
    "error_code",
    "events.",  # a separate file, for people
)
"""What no number comes from; only the record's digest guards it. May only shrink."""


@pytest.mark.slow
def test_every_value_of_the_record_is_in_the_document(judged: Store, profiled: Store) -> None:
    """Otherwise the agent's record could be edited, with new digests, and the run be verified."""
    of_profile = "worker.check.profile_", "worker.check.operators."
    missed = [name for name in unnoticed(judged) if not name.startswith(of_profile)]
    missed += unnoticed(profiled, of_profile)
    assert [name for name in missed if not name.startswith(NOT_COMPUTED)] == []
    assert all(any(name.startswith(part) for name in missed) for part in NOT_COMPUTED)


def unnoticed(store: Store, beginnings: str | tuple[str, ...] = "") -> list[str]:
    """Values of the record with these beginnings of names whose change `verify` does not notice."""
    directory = store.directory(RUN_ID)
    path, untouched = directory / "raw" / "record.json", (directory / RUN_FILE).read_text()
    record = json.loads(path.read_text())
    missed = []
    for place, _ in leaves(record):
        name = ".".join(map(str, place))
        if not name.startswith(beginnings):
            continue
        path.write_text(json.dumps(with_change(record, place)))
        with_new_digests(directory)
        if not is_noticed(store):
            missed.append(name)
        (directory / RUN_FILE).write_text(untouched)
    path.write_text(json.dumps(record))
    return missed


@pytest.mark.parametrize(
    ("column", "key"),
    [
        ("scheduled_ns", "metrics.end_to_end_ns"),
        ("start_ns", "metrics."),
        ("invoke_start_ns", "metrics.latency_ns"),
        ("invoke_end_ns", "metrics.latency_ns"),
        ("end_ns", "metrics.end_to_end_ns"),
    ],
)
def test_changed_time_changes_the_numbers(
    store: Store, directory: Path, column: str, key: str
) -> None:
    """Otherwise a column would be stored from which no number comes."""
    path = directory / "queries.parquet"
    table = pq.read_table(path)
    rows = table.to_pylist()
    # The slowest query is made faster, within what can be true.
    slow = max(rows[20:], key=lambda row: row["end_ns"] - row["start_ns"])
    slow["invoke_end_ns"] = slow["end_ns"] = slow["end_ns"] - 1
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    assert any(name.startswith("metrics.latency_ns") for name in noticed_keys(store))
    rows = table.to_pylist()
    slow = max(rows[20:], key=lambda row: row["end_ns"] - row["start_ns"])
    later = column in ("invoke_start_ns", "start_ns")
    slow[column] += 1 if later else -1
    if column == "start_ns":
        slow["invoke_start_ns"] += 1
    if column == "end_ns":
        slow["invoke_end_ns"] -= 1
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), path)
    assert any(name.startswith(key) for name in noticed_keys(store))


@pytest.mark.parametrize("name", ["used.0", "reference.0", "dataset.0"])
def test_every_changed_answer_changes_the_numbers(judged: Store, name: str) -> None:
    """Otherwise an output could be edited, with new digests, and the accuracy would stay."""
    directory = judged.directory(RUN_ID)
    path = directory / "raw" / "answers.npz"
    with np.load(path) as file:
        arrays = dict(file)
    key = "metrics.accuracy.value" if name == "dataset.0" else "metrics.agreement."
    for sample in range(len(arrays[name])):
        edited = {other: array.copy() for other, array in arrays.items()}
        # A wrong element becomes the largest; of the one wrong output, the right one.
        edited[name][sample, 0, 4 if sample == 3 else (sample + 2) % 10] ^= 0x40
        np.savez(path, **edited)
        found = noticed_keys(judged)
        assert any(other.startswith(key) for other in found), (sample, found)


def test_every_changed_label_changes_the_accuracy(judged: Store) -> None:
    """Otherwise labels could be edited until the model is right."""
    path = judged.directory(RUN_ID) / "raw" / "labels.npz"
    with np.load(path) as file:
        labels = file["y"]
    for sample in range(len(labels)):
        edited = labels.copy()
        # The one wrong output is 0.
        edited[sample] = 0 if sample == 3 else (edited[sample] + 1) % 10
        np.savez(path, y=edited)
        assert "metrics.accuracy.value" in noticed_keys(judged), sample


def test_every_changed_fact_of_the_host_is_noticed(judged: Store) -> None:
    """Otherwise the reference could be made worse, and the drop smaller."""
    directory = judged.directory(RUN_ID)
    path, untouched = directory / "raw" / "host.json", (directory / RUN_FILE).read_text()
    facts = json.loads(path.read_text())
    places = [place for place, _ in leaves(facts)]
    assert len(places) == 11
    for place in places:
        path.write_text(json.dumps(with_change(facts, place)))
        with_new_digests(directory)
        assert is_noticed(judged), place
        (directory / RUN_FILE).write_text(untouched)


@pytest.mark.parametrize("name", ["answers.npz", "labels.npz", "host.json"])
def test_missing_file_of_a_judged_run_is_noticed(judged: Store, name: str) -> None:
    """Otherwise the outputs could be deleted, and the accuracy still be verified."""
    (judged.directory(RUN_ID) / "raw" / name).unlink()
    assert noticed_keys(judged)


@pytest.mark.parametrize(
    "arrays",
    [
        {"used.0": np.array(1.0)},
        {"used.0": np.array(["a"])},
        {"used.0": np.array([1j])},
        {"dataset.0": np.array([np.nan])},
        {"used.0": np.zeros((4, 1, 10)), "reference.0": np.zeros((3, 1, 10))},
    ],
    ids=["no samples", "texts", "complex", "not a number", "shapes"],
)
def test_answers_of_a_strange_agent_are_one_line(judged: Store, arrays: dict[str, Any]) -> None:
    """Otherwise what an agent sent as outputs would end in a traceback of numpy."""
    np.savez(judged.directory(RUN_ID) / "raw" / "answers.npz", **arrays)
    assert is_noticed(judged)


@pytest.mark.parametrize("kind", ["compressed", "bytes", "lying", "cut", "npy"])
def test_archive_of_a_strange_agent_is_one_line(judged: Store, kind: str) -> None:
    """Otherwise a zip bomb would be unpacked, or a file that is no array be taken for one."""
    path = judged.directory(RUN_ID) / "raw" / "answers.npz"
    if kind == "compressed":
        np.savez_compressed(path, **{"used.0": np.zeros((1000, 1000))})
    elif kind == "npy":
        with path.open("wb") as file:
            np.save(file, np.zeros(3))
    elif kind == "cut":
        path.write_bytes(path.read_bytes()[:-40])
    else:
        lying = b"\x93NUMPY\x01\x00v\x00" + (
            b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000000,), }".ljust(117)
            + b"\n"
        )
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("used.0.npy" if kind == "lying" else "used.0", lying)
    with pytest.raises(StoreError, match="outputs are not readable"):
        verify(judged, RUN_ID)


@pytest.mark.parametrize("content", [b"", b"x" * 100, None])
def test_trace_that_is_not_readable_is_named_once(
    store: Store, directory: Path, content: bytes | None
) -> None:
    """Otherwise the path would be there twice, with a hint to choose another store."""
    path = directory / "telemetry.parquet" if content is not None else directory / "queries.parquet"
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)
    with pytest.raises(RunDamaged) as caught:
        verify(store, RUN_ID)
    assert str(caught.value).count(str(path)) == 1
    assert "--store" not in hint_for(caught.value)


def test_metered_run_is_verified(metered: Store) -> None:
    """Otherwise every energy would be doubted."""
    assert verify(metered, RUN_ID) == []
    energy = metered.document(RUN_ID)["metrics"]["energy"]
    assert energy["gross_j_per_inference"] > energy["net_j_per_inference"] > 0
    assert energy["sync"]["method"] == "coded_load"


@pytest.mark.slow
@pytest.mark.usefixtures("_computed_once")
def test_every_changed_value_of_an_energy_is_noticed(metered: Store) -> None:
    """Otherwise joules, or their uncertainty, could be made less by hand."""
    path = metered.directory(RUN_ID) / RUN_FILE
    document = json.loads(path.read_text())
    energy = document["metrics"]["energy"]
    places = [("metrics", "energy", *rest) for rest, _ in leaves(energy)]
    places = [place for place in places if not is_sentence(place)]
    assert unnoticed_in_document(metered, places) == []


@pytest.mark.parametrize("second", [1.0, 1.8, 3.25, 5.0])
def test_changed_power_is_noticed(metered: Store, second: float) -> None:
    """Otherwise one sample of the meter could be made less, with new digests, unnoticed."""
    path = metered.directory(RUN_ID) / "power.parquet"
    table, metadata = pq.read_table(path), pq.read_metadata(path).metadata
    rows = table.to_pylist()
    rows[round(second * 1000)]["watts_w"] *= 0.999
    kept = {key: value for key, value in metadata.items() if key != b"ARROW:schema"}
    pq.write_table(pa.Table.from_pylist(rows, table.schema.with_metadata(kept)), path)
    assert noticed_keys(metered) == {"power.parquet"}


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_damaged_recording_is_told_from_where_on(metered: Store, share: float) -> None:
    """Otherwise samples would differ without a note that the recording cannot be read."""
    path = metered.directory(RUN_ID) / "raw" / "meter.spool"
    whole = path.read_bytes()
    path.write_bytes(whole[: round(share * len(whole))] + b"\xff" * 100 + whole[-1000:])
    [found] = verify(metered, RUN_ID)
    assert found.key == "power.parquet"
    assert str(found.computed).startswith("the recording of the meter is damaged: ")


@pytest.mark.parametrize("name", ["power.parquet", "raw/meter.spool", "raw/host.json"])
def test_changed_file_of_a_metered_run_is_noticed(metered: Store, name: str) -> None:
    """Otherwise the raw bytes of the meter could be replaced by those of another run."""
    path = metered.directory(RUN_ID) / name
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    assert is_noticed(metered)


def test_missing_power_of_a_metered_run_is_noticed(metered: Store) -> None:
    """Otherwise the trace could be deleted, and its energy still be verified."""
    (metered.directory(RUN_ID) / "power.parquet").unlink()
    assert "metrics.energy.refused" in noticed_keys(metered)


@pytest.mark.parametrize(
    ("name", "value", "key"),
    [
        ("sync", "arrival", "metrics.energy.sync.method"),
        ("sync", "coded_load", "metrics.energy.sync.asked"),
        ("sync", "edge", "metrics.energy.refused"),
        ("battery_capacity_j", 1.0, "metrics.energy.battery.inference_count"),
        ("battery_capacity_j", None, "metrics.energy.battery"),
    ],
)
def test_changed_question_changes_the_energy(
    metered: Store, name: str, value: object, key: str
) -> None:
    """Otherwise the request to the meter could be edited, with new digests, unnoticed."""
    ask_otherwise(metered, {name: value})
    assert any(found.startswith(key) for found in noticed_keys(metered))


def ask_otherwise(metered: Store, changes: dict[str, object]) -> None:
    """Edit what was requested of the meter."""
    path = metered.directory(RUN_ID) / "raw" / "host.json"
    facts = json.loads(path.read_text())
    path.write_text(json.dumps(facts | {"energy": facts["energy"] | changes}))


def test_energy_that_nobody_asked_for_is_noticed(metered: Store) -> None:
    """Otherwise the request for a meter could be edited away, and its energy would stay."""
    path = metered.directory(RUN_ID) / "raw" / "host.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"energy": None}))
    assert any(found.startswith("metrics.energy") for found in noticed_keys(metered))


def test_unknown_way_to_synchronise_is_one_line(metered: Store) -> None:
    """Otherwise a host.json of a newer edgebench would end in a traceback."""
    ask_otherwise(metered, {"sync": "telepathy"})
    with pytest.raises(RunDamaged, match="host facts of the run are not readable"):
        verify(metered, RUN_ID)


@pytest.mark.parametrize("number", [0, 1])
def test_changed_mark_changes_the_energy(metered: Store, number: int) -> None:
    """Otherwise the marks of the device could be moved by a chip, and the window with them."""
    path = metered.directory(RUN_ID) / "raw" / "record.json"
    record = json.loads(path.read_text())
    edges = record["worker"]["sync"]["codes"][number]["edges_ns"]
    edges[:] = [edge + 1_000_000 for edge in edges]
    path.write_text(json.dumps(record))
    found = noticed_keys(metered)
    assert "metrics.energy.gross_j_per_inference" in found
    assert any(name.startswith("conditions.marks") for name in found)


@pytest.mark.slow
def test_every_value_of_the_marks_is_in_the_document(metered: Store) -> None:
    """Otherwise an edge of a code could be edited, with new digests, and the run be verified."""
    directory = metered.directory(RUN_ID)
    path, untouched = directory / "raw" / "record.json", (directory / RUN_FILE).read_text()
    record = json.loads(path.read_text())
    places = [("worker", "sync", *rest) for rest, _ in leaves(record["worker"]["sync"])]
    assert len(places) > 100
    missed = []
    for place in places[::7]:
        path.write_text(json.dumps(with_change(record, place)))
        with_new_digests(directory)
        if not is_noticed(metered):
            missed.append(".".join(map(str, place)))
        (directory / RUN_FILE).write_text(untouched)
    assert missed == []
