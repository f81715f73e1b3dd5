"""The model store: resumable, verified, bounded."""

from __future__ import annotations

import asyncio
import hashlib
import os
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgebench.agent.artifacts import ArtifactStore, Upload
from edgebench.protocol.errors import ModelRefused, NoSpace, UsageError

MODEL = bytes(range(256)) * 40


def digest(data: bytes) -> str:
    """The name of these bytes."""
    return hashlib.sha256(data).hexdigest()


def send(upload: Upload, data: bytes, chunk: int = 1000) -> None:
    """Write the rest of the model as a connection does."""

    async def write() -> None:
        while upload.offset_bytes < len(data):
            at = upload.offset_bytes
            await upload.write(at, memoryview(data[at : at + chunk]))

    asyncio.run(write())


def store_model(store: ArtifactStore, data: bytes) -> Path:
    """Store a whole model."""
    upload = store.begin(digest(data), len(data))
    send(upload, data)
    store.commit(upload)
    return store.path(digest(data))


@pytest.fixture
def store(tmp_path: Path) -> ArtifactStore:
    """An empty store."""
    return ArtifactStore(tmp_path / "models")


def test_model_that_gets_its_name_while_others_are_counted_is_no_error(
    store: ArtifactStore,
) -> None:
    """Otherwise `edgebench-agent status` would fail while a host sends a model."""
    path = store_model(store, MODEL)
    path.with_suffix(".part").write_bytes(MODEL)
    counted = store._entries()
    _, _, first = next(counted)
    for other in path.parent.iterdir():
        if other != first:
            other.unlink()
    assert list(counted) == []


def test_whole_model_is_kept_under_its_digest(store: ArtifactStore) -> None:
    """Otherwise a model that was pushed could not be run."""
    assert store.offset(digest(MODEL), len(MODEL)) == (0, False)
    path = store_model(store, MODEL)
    assert store.verified_path(digest(MODEL)) == path
    assert path.read_bytes() == MODEL
    assert store.offset(digest(MODEL), len(MODEL)) == (len(MODEL), True)
    assert store.usage() == (1, len(MODEL))
    assert [entry.name for entry in path.parent.iterdir()] == [digest(MODEL)]


def test_empty_model_is_a_model(store: ArtifactStore) -> None:
    """Otherwise the runtime would not get to refuse an empty file, which hangs the transfer."""
    assert store_model(store, b"").read_bytes() == b""


@settings(max_examples=20)
@given(cuts=st.lists(st.integers(0, len(MODEL)), max_size=5))
def test_transfer_resumes_wherever_it_was_cut(
    tmp_path_factory: pytest.TempPathFactory, cuts: list[int]
) -> None:
    """Otherwise a lost link would damage the model, or cost the bytes that had arrived."""
    store = ArtifactStore(tmp_path_factory.mktemp("models"))
    for cut in sorted(cuts):
        upload = store.begin(digest(MODEL), len(MODEL))
        send(upload, MODEL[:cut])
        upload.close()
        assert store.offset(digest(MODEL), len(MODEL)) == (cut, False)
    assert store_model(store, MODEL).read_bytes() == MODEL


def test_part_survives_the_death_of_the_agent(store: ArtifactStore, tmp_path: Path) -> None:
    """Otherwise a new agent would begin again although half of the model is on its disk."""
    upload = store.begin(digest(MODEL), len(MODEL))
    send(upload, MODEL[:5000])
    upload.close()
    again = ArtifactStore(tmp_path / "models")
    upload = again.begin(digest(MODEL), len(MODEL))
    assert upload.offset_bytes == 5000
    send(upload, MODEL)
    again.commit(upload)
    assert again.verified_path(digest(MODEL)).read_bytes() == MODEL


def test_model_that_arrives_damaged_is_refused_and_forgotten(store: ArtifactStore) -> None:
    """Otherwise wrong bytes would be measured, or block the next transfer for ever."""
    wrong = MODEL[:-1] + b"\x00"
    upload = store.begin(digest(MODEL), len(MODEL))
    send(upload, wrong)
    with pytest.raises(ModelRefused, match=f"arrived damaged.*{digest(wrong)}"):
        store.commit(upload)
    assert store.offset(digest(MODEL), len(MODEL)) == (0, False)
    assert store_model(store, MODEL).read_bytes() == MODEL


def test_commit_of_a_model_that_is_too_short_keeps_what_came(store: ArtifactStore) -> None:
    """Otherwise a part would pass for a whole model, or be thrown away."""
    upload = store.begin(digest(MODEL), len(MODEL))
    send(upload, MODEL[:1000])
    with pytest.raises(ModelRefused, match=f"incomplete: 1000 of {len(MODEL)} bytes"):
        store.commit(upload)
    assert store.offset(digest(MODEL), len(MODEL)) == (1000, False)


def test_bytes_behind_the_announced_size_are_refused(store: ArtifactStore) -> None:
    """Otherwise a host could announce a byte, pass the quota, and fill the disk."""
    upload = store.begin(digest(MODEL), 10)
    with pytest.raises(UsageError, match="10 bytes"):
        asyncio.run(upload.write(0, memoryview(b"x" * 11)))
    upload.close()
    assert store.offset(digest(MODEL), len(MODEL)) == (0, False)


@pytest.mark.parametrize("offset_bytes", [-1, 1, 999, 2**60])
def test_chunk_out_of_order_is_refused(store: ArtifactStore, offset_bytes: int) -> None:
    """Otherwise a hole in the model would be filled with whatever comes next."""
    upload = store.begin(digest(MODEL), len(MODEL))
    with pytest.raises(UsageError, match=f"chunk begins at byte {offset_bytes}, expected byte 0"):
        asyncio.run(upload.write(offset_bytes, memoryview(b"data")))
    upload.close()


def test_part_that_is_longer_than_the_model_begins_again(store: ArtifactStore) -> None:
    """Otherwise a part from a wrong announcement could never become whole."""
    upload = store.begin(digest(MODEL), 2 * len(MODEL))
    send(upload, MODEL + b"more than that")
    upload.close()
    upload = store.begin(digest(MODEL), len(MODEL))
    assert upload.offset_bytes == 0
    send(upload, MODEL)
    store.commit(upload)
    assert store.verified_path(digest(MODEL)).read_bytes() == MODEL


def test_model_that_is_damaged_on_disk_is_noticed_before_it_runs(store: ArtifactStore) -> None:
    """Otherwise a model that a power cut tore would be measured."""
    path = store_model(store, MODEL)
    path.write_bytes(MODEL[:-1])
    with pytest.raises(ModelRefused, match="damaged on disk"):
        store.verified_path(digest(MODEL))
    assert store.offset(digest(MODEL), len(MODEL)) == (0, False)
    with pytest.raises(ModelRefused, match="not on this device"):
        store.verified_path(digest(MODEL))


@pytest.mark.parametrize(
    "name", ["", "0" * 63, "0" * 65, "A" * 64, "../" + "0" * 61, "0" * 63 + "\n", "0" * 64 + "\n"]
)
def test_name_that_is_no_digest_is_refused(store: ArtifactStore, name: str) -> None:
    """Otherwise a path from the wire could leave the store."""
    for call in (store.path, partial(store.offset, size_bytes=1), store.verified_path):
        with pytest.raises(UsageError, match="not a sha256"):
            call(name)


@pytest.mark.parametrize("left", [b"", MODEL[:4096], MODEL + b"more"])
def test_model_of_another_size_is_fetched_again(store: ArtifactStore, left: bytes) -> None:
    """Otherwise a file emptied by a power cut would count as complete, and fail the next run."""
    path = store_model(store, MODEL)
    path.write_bytes(left)
    assert store.offset(digest(MODEL), len(MODEL)) == (0, False)
    assert store_model(store, MODEL).read_bytes() == MODEL


def test_model_over_the_quota_is_refused_and_costs_nothing(tmp_path: Path) -> None:
    """Otherwise a model that can never fit would evict all others."""
    store = ArtifactStore(tmp_path / "models", quota_bytes=1000)
    kept = store_model(store, b"k" * 900)
    with pytest.raises(NoSpace, match=r"model of 1001 B, quota 1000 B$"):
        store.begin(digest(MODEL), 1001)
    assert kept.exists()


def test_least_recently_used_model_goes_first(tmp_path: Path) -> None:
    """Otherwise the model of the running campaign would be evicted, and an old model would stay."""
    store = ArtifactStore(tmp_path / "models", quota_bytes=3000)
    models = [bytes([i]) * 1000 for i in range(3)]
    for age, data in enumerate(models):
        stamp_ns = (1_000_000 + age) * 10**9
        os.utime(store_model(store, data), ns=(stamp_ns, stamp_ns))
    store.verified_path(digest(models[0]))  # a use
    store_model(store, b"new" * 300)
    here = [store.offset(digest(data), len(data))[1] for data in models]
    assert here == [True, False, True]
    assert store.usage()[1] <= 3000


@settings(max_examples=20)
@given(sizes=st.lists(st.integers(0, 1000), min_size=1, max_size=12))
def test_quota_holds_whatever_comes(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    """Otherwise models together would take more than the quota."""
    store = ArtifactStore(tmp_path_factory.mktemp("models"), quota_bytes=1500)
    for i, size in enumerate(sizes):
        data = bytes([i]) * size
        store_model(store, data)
        assert store.usage()[1] <= 1500
        assert store.offset(digest(data), len(data)) == (size, True), (
            "the newest model must be there"
        )


def test_resumed_model_does_not_push_itself_out(tmp_path: Path) -> None:
    """Otherwise a part would be counted twice, or be removed to make room for its own rest."""
    store = ArtifactStore(tmp_path / "models", quota_bytes=1000)
    data = b"x" * 1000
    upload = store.begin(digest(data), 1000)
    send(upload, data[:600])
    upload.close()
    upload = store.begin(digest(data), 1000)
    assert upload.offset_bytes == 600
    send(upload, data)
    store.commit(upload)
    assert store.usage() == (1, 1000)


def test_model_of_a_run_stays_while_another_seat_gets_one(tmp_path: Path) -> None:
    """Otherwise a run would cool its device down for minutes, and find its model gone."""
    store = ArtifactStore(tmp_path / "models", quota_bytes=1000)
    data = b"r" * 600
    store_model(store, data)
    store.hold(digest(data))
    with pytest.raises(NoSpace, match="model of 500 B, quota 1000 B, 600 B in use"):
        store.begin(digest(MODEL), 500)
    assert store.offset(digest(data), len(data))[1]
    store.let_go(digest(data))
    store.begin(digest(MODEL), 500).close()
    assert not store.offset(digest(data), len(data))[1]
