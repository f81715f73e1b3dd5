"""Stored runs, read once for all formats."""

from __future__ import annotations

from functools import cache

import pytest
from support.exports import Stored, find_stored
from support.metered import store_metered_run

from edgebench.host.export.exported import ExportedRun, find_exported
from edgebench.host.store.layout import Store


@pytest.fixture(scope="session")
def stored() -> Stored:
    """A finder of stored runs by the beginnings of their ids."""
    return cache(find_stored)


@pytest.fixture(scope="session")
def metered(tmp_path_factory: pytest.TempPathFactory) -> ExportedRun:
    """A run of 5,000 inferences at 2 W, on a device that takes 1 W otherwise."""
    store = Store(tmp_path_factory.mktemp("store"))
    [found] = find_exported(store, [store_metered_run(store).name])
    return found
