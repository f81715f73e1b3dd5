"""Files of the agent."""

from __future__ import annotations

import os
from pathlib import Path

from edgebench.agent.files import keep_end, keep_regular


def test_end_of_a_long_log_is_kept_and_a_short_one_as_it_is(tmp_path: Path) -> None:
    """Otherwise the reason for a worker's death would be dropped, or a gigabyte of log kept."""
    path = tmp_path / "worker.log"
    path.write_bytes(b"chatter\nreason\n")
    for size in (100, 15):
        keep_end(path, size)
        assert path.read_bytes() == b"chatter\nreason\n"
    keep_end(path, 7)
    assert path.read_bytes() == b"reason\n"


def test_only_regular_files_of_a_worker_are_kept(tmp_path: Path) -> None:
    """Otherwise the daemon would write through a link to its keys, or wait for a pipe for ever."""
    run, keys = tmp_path / "run", tmp_path / "keys"
    keys.mkdir()
    (keys / "id").write_text("secret")
    run.mkdir()
    (run / "worker.json").write_text("{}")
    (run / "record.json").symlink_to(keys / "id")
    (run / "folder").symlink_to(keys)
    os.mkfifo(run / "queries.bin")
    (run / "deep" / "deeper").mkdir(parents=True)
    keep_regular(run)
    assert [path.name for path in run.iterdir()] == ["worker.json"]
    assert (keys / "id").read_text() == "secret"
