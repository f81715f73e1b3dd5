"""A model file: examined without being read, hashed once, and noticed when it changes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import pytest
from support.sessions import FreeDevice, session_of

from edgebench.host.bench import model as model_module
from edgebench.host.bench.events import raise_failures
from edgebench.host.bench.model import open_model
from edgebench.host.bench.run import RunRequest, _push_files
from edgebench.host.store.layout import Store
from edgebench.protocol.errors import FileChanged, ModelNotFetched, ModelRefused, UsageError
from edgebench.protocol.spec import from_preset


class Refusing(FreeDevice):
    """A client whose agent refuses what it receives."""

    def push_model(self, *_: Any) -> int:
        raise ModelRefused("model arrived damaged")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a model of three blocks."""
    made = tmp_path / "m.tflite"
    made.write_bytes(bytes(3 << 20))
    return made


def test_model_is_read_when_its_digest_is_asked_for_and_once(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise 10 GB would be read, and five times, before the device reports a lack of room."""
    monkeypatch.setattr(model_module, "QUIET_S", -1.0)
    model = open_model(path)
    done: list[int] = []
    assert model not in model_module._DIGESTS
    assert (
        model.hashed(lambda part, _: done.append(part))
        == hashlib.sha256(bytes(3 << 20)).hexdigest()
    )
    assert done == [1 << 20, 2 << 20, 3 << 20]
    path.unlink()
    assert model.hashed(lambda part, _: done.append(part)) == model.sha256
    assert len(done) == 3


def test_pointer_of_git_lfs_is_no_model(path: Path) -> None:
    """Otherwise a file of three lines would be sent, and a runtime call it damaged."""
    path.write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 5\n")
    with pytest.raises(ModelNotFetched, match=f"the model itself was not fetched: {path}"):
        open_model(path)


def test_quick_hashing_shows_nothing(path: Path) -> None:
    """Otherwise a line would flash by for each small model."""
    assert open_model(path).hashed(lambda *_: pytest.fail("it took no second"))


def test_file_that_grows_before_it_is_hashed_is_named(path: Path) -> None:
    """Otherwise the size would be of one file, the digest of another."""
    model = open_model(path)
    path.write_bytes(bytes(5))
    with pytest.raises(
        FileChanged, match=f"changed while it was read: 5 bytes, not 3145728: {path}"
    ):
        _ = model.sha256


def test_file_that_changes_before_it_is_sent_is_named(path: Path) -> None:
    """Otherwise a compiler that is still writing would look like a damaged link."""
    model = open_model(path)
    assert model.sha256
    device = session_of(Refusing(), Store(path.parent), raise_failures)
    with pytest.raises(ModelRefused, match="arrived damaged"):
        _push_files(device, RunRequest(model=model, spec=from_preset("quick")))
    path.write_bytes(b"\1" + bytes((3 << 20) - 1))
    with pytest.raises(FileChanged, match=f"^model changed after it was read: {path}$"):
        _push_files(device, RunRequest(model=model, spec=from_preset("quick")))
    path.unlink()
    with pytest.raises(FileChanged):
        _push_files(device, RunRequest(model=model, spec=from_preset("quick")))


def test_file_that_vanishes_is_one_line(path: Path) -> None:
    """Otherwise a file that was moved away would cause a traceback."""
    model = open_model(path)
    path.unlink()
    with pytest.raises(UsageError, match=f"model not readable: No such file or directory: {path}"):
        _ = model.sha256
