"""Files of the agent."""

from __future__ import annotations

from pathlib import Path

from edgebench.agent.files import keep_end


def test_end_of_a_long_log_is_kept_and_a_short_one_as_it_is(tmp_path: Path) -> None:
    """The line that says why a worker died is dropped, or a gigabyte of log is kept."""
    path = tmp_path / "worker.log"
    path.write_bytes(b"chatter\nreason\n")
    for size in (100, 15):
        keep_end(path, size)
        assert path.read_bytes() == b"chatter\nreason\n"
    keep_end(path, 7)
    assert path.read_bytes() == b"reason\n"
