"""The file of a stored baseline: found by its hash, and never another one of the same name."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path

import pytest
from support.changes import changed
from support.kinds import KINDS, store_of

from edgebench.host.bench.builtin import find_model
from edgebench.host.bench.stored_model import find_sides
from edgebench.host.cli.main import main
from edgebench.host.result.document import to_document
from edgebench.host.store.layout import RUN_FILE, Store
from edgebench.protocol.errors import ModelFileMissing, NoSuchModel, UsageError

OLD, NEW = b"the model of the stored set", b"the model that was exported today"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with two sets of a model; the current directory is empty."""
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return with_model(store_of(tmp_path / "store", KINDS[0]), OLD)


def with_model(store: Store, content: bytes | None, *, only: str = "") -> Store:
    """The store, whose runs have measured a file with this content; None: one in a firmware."""
    facts = {
        "model.name": "model.tflite",
        "model.sha256": None if content is None else hashlib.sha256(content).hexdigest(),
        "model.size_bytes": None if content is None else len(content),
    }
    for run_id in store.run_ids():
        run = store.run(run_id)
        if run.set_id == only or not only:
            document = to_document(changed(replace(run, files={}), facts))
            (store.directory(run_id) / RUN_FILE).write_text(json.dumps(document))
    return store


def file(path: str, content: bytes) -> Path:
    """A file with this content."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(content)
    return Path(path)


@pytest.mark.parametrize("place", ["model.tflite", "before.tflite", "models/was.tflite"])
def test_file_of_a_set_is_found_by_its_hash(store: Store, place: str) -> None:
    """Otherwise a gate would measure the new file twice: both exports have the same name."""
    new = file("models/model.tflite", NEW)
    file(place, OLD)
    baseline, candidate = find_sides(store, "set-1", str(new))
    assert (baseline.path, candidate.path) == (Path(place), new)
    assert find_sides(store, str(new), "set-1")[1].path == Path(place)
    of_run = str(store.directory(store.run_ids()[0]))
    assert find_sides(store, of_run, str(new))[0].path == Path(place)


def test_file_that_is_not_here_is_named_with_its_hash(
    store: Store, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise a person would not know which of many exports the baseline was."""
    new = file("model.tflite", NEW[: len(OLD)])
    digest = hashlib.sha256(OLD).hexdigest()
    with pytest.raises(ModelFileMissing, match=f"set-1 .* model.tflite, SHA-256 {digest}"):
        find_sides(store, "set-1", str(new))
    words = ["bench", "set-1", "--against", str(new), "--store", str(store.root)]
    assert main(words) == 2
    said = capsys.readouterr().err
    assert "hint: copy the file into this directory, or give its path: edgebench bench FILE" in said
    assert f"sha256sum FILE must print {digest}" in said


def test_built_in_model_of_a_set_is_found(store: Store) -> None:
    """Otherwise the models of the first page could not be measured again."""
    builtin = find_model("digits_int8.tflite")
    with_model(store, builtin.path.read_bytes())
    assert find_sides(store, "set-1", "digits_fp32.tflite")[0].sha256 == builtin.sha256


def test_file_has_precedence_over_a_stored_name(store: Store) -> None:
    """Otherwise a tag of the same name would decide which file is measured."""
    named = file("set-1", NEW)
    assert find_sides(store, "set-1", "set-1")[0].path == named


def test_names_without_one_model_file_are_refused(store: Store) -> None:
    """Otherwise the baseline would be any of several models, or a file that does not exist."""
    new = str(file("model.tflite", NEW))
    with pytest.raises(NoSuchModel, match=r"no such model: gone.tflite"):
        find_sides(store, "gone.tflite", new)
    with_model(store, NEW, only="set-2")
    for run_id in store.run_ids():
        (store.directory(run_id) / "annotations.json").write_text(
            '{"tags": ["both"], "note": null}'
        )
    with pytest.raises(UsageError, match=r"both has several models: model.tflite, model.tflite"):
        find_sides(store, "both", new)
    with_model(store, None)
    with pytest.raises(UsageError, match="set-1 is part of a firmware and has no file"):
        find_sides(store, "set-1", new)
