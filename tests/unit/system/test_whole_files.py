"""Files that are whole at any moment; `tests/system/test_power_cut.py` cuts the power."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from edgebench.system import whole_files
from edgebench.system.whole_files import (
    append_whole,
    exchange,
    is_unfinished,
    make_directory,
    whole_file,
    write_whole,
)


@pytest.mark.parametrize("mode", [0o666, 0o644, 0o600])
def test_file_has_its_content_and_mode(tmp_path: Path, mode: int) -> None:
    """A file has its content, permissions under the umask, and nothing next to it."""
    path = tmp_path / "file"
    path.write_text("old")
    before = os.umask(0o022)
    try:
        write_whole(path, "ä", mode=mode)
    finally:
        os.umask(before)
    assert path.read_bytes() == "ä".encode()
    assert stat.S_IMODE(path.stat().st_mode) == mode & ~0o022
    assert os.listdir(tmp_path) == ["file"]


def test_error_in_the_block_leaves_the_old_file(tmp_path: Path) -> None:
    """Ctrl-C in the middle of a write keeps the old content and leaves nothing next to it."""
    path = tmp_path / "file"
    write_whole(path, b"old")

    def interrupted() -> None:
        with whole_file(path) as file:
            file.write(b"half of the n")
            names = sorted(os.listdir(tmp_path))
            assert [is_unfinished(name) for name in names] == [True, False]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert (path.read_bytes(), os.listdir(tmp_path)) == (b"old", ["file"])


def test_directory_that_is_a_file_is_an_error_of_the_system(tmp_path: Path) -> None:
    """Callers translate OSError alone."""
    (tmp_path / "file").write_text("")
    for act in (
        lambda: write_whole(tmp_path / "file/below", ""),
        lambda: make_directory(tmp_path / "file/below"),
        lambda: append_whole(tmp_path / "absent/journal", b""),
    ):
        with pytest.raises(OSError, match=r"file|absent"):
            act()


@pytest.mark.parametrize("has_call", [True, False])
def test_directories_are_exchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_call: bool
) -> None:
    """Each has the other's name, also where the file system has no call for it."""
    if not has_call:
        monkeypatch.setattr(whole_files, "_try_exchange", lambda *_: False)
    for name in ("old", "new"):
        make_directory(tmp_path / name / "below")
        write_whole(tmp_path / name / "below/file", name)
    exchange(tmp_path / "new", tmp_path / "old")
    assert (tmp_path / "old/below/file").read_text() == "new"
    assert (tmp_path / "new/below/file").read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["new", "old"]
    with pytest.raises(FileNotFoundError):
        exchange(tmp_path / "absent", tmp_path / "old")


def test_long_name_has_room_beside_it(tmp_path: Path) -> None:
    """A name of 255 bytes, the longest that Linux takes, is written like any other."""
    write_whole(tmp_path / ("n" * 255), "x")
    assert os.listdir(tmp_path) == ["n" * 255]
