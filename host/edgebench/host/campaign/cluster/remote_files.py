"""Bundles of runs on an fsspec file system that lab hosts and coordinator share."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from edgebench.protocol.errors import LinkLost
from edgebench.protocol.text import one_line


def put_file(path: Path, url: str) -> None:
    """Copy a file to a URL.

    Raises:
        LinkLost: the URL cannot be written.
    """
    try:
        system, there = _fsspec().url_to_fs(url)
        system.makedirs(there.rpartition("/")[0], exist_ok=True)
        system.put_file(str(path), there)
    except Exception as exc:  # each file system has its own errors
        raise LinkLost(f"{url} not writable: {one_line(exc)}") from exc


def get_file(url: str, path: Path) -> None:
    """Copy a file from a URL, then remove the file at the URL.

    Raises:
        LinkLost: the URL cannot be read.
    """
    try:
        system, there = _fsspec().url_to_fs(url)
        system.get_file(there, str(path))
        system.rm_file(there)
    except Exception as exc:  # each file system has its own errors
        raise LinkLost(f"{url} not readable: {one_line(exc)}") from exc


def _fsspec() -> Any:
    return import_module("fsspec.core")
