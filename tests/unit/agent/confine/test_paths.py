"""The files that every worker may read."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from edgebench.agent.confine import paths
from edgebench.agent.confine.paths import READABLE_VARIABLE, readable_paths


def test_interpreter_and_libraries_are_readable() -> None:
    """Otherwise no runtime could be imported."""
    readable = readable_paths()
    for needed in ("/usr", "/proc/self", "/sys", str(Path(sys.prefix).resolve())):
        assert needed in readable
    assert not {"/", "/proc", "/etc", "/tmp", "/home", "/root"} & set(readable)


def test_path_of_the_interpreter_that_holds_keys_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise, with PYTHONPATH=/home/pi, a model could read the keys of that user."""
    own, other, packages = tmp_path / "own", tmp_path / "other", tmp_path / "own" / "packages"
    packages.mkdir(parents=True)
    (other / ".ssh").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(own))
    monkeypatch.setattr(sys, "path", ["", "/", str(tmp_path), str(own), str(other), str(packages)])
    readable = readable_paths()
    assert str(packages) in readable
    assert not {"/", str(tmp_path), str(own), str(other)} & set(readable)


def test_directories_of_the_loader_are_readable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a library in /opt that ldconfig(8) knows would be found, but not opened."""
    texts = {"/etc/ld.so.conf": "include /etc/ld.so.conf.d/*.conf\n/opt/vendor/lib\n# /opt/not\n"}
    monkeypatch.setattr(paths, "read_text", lambda path: texts.get(str(path), ""))
    readable = readable_paths()
    assert "/opt/vendor/lib" in readable
    assert "/opt/not" not in readable


def test_owner_of_the_device_may_name_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a runtime in /opt would be refused, and no option of a host may change that."""
    assert "/opt/vendor" not in readable_paths()
    monkeypatch.setenv(READABLE_VARIABLE, "/opt/vendor:/srv/libraries")
    assert {"/opt/vendor", "/srv/libraries"} <= set(readable_paths())
