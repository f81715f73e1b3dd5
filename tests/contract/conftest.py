"""Fixtures of the suites that run over all runtime drivers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.digits import CASES, PACKAGES, Case, imported
from support.tools import need_runtime

from edgebench.agent.runtimes.registry import BUILT_IN
from edgebench.protocol.runtime import LoadedModel, Runtime


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> Case:
    """Each built-in model on each runtime that loads it."""
    found: Case = request.param
    need_runtime(PACKAGES[found.runtime])
    return found


@pytest.fixture(params=[kind().name for kind in BUILT_IN])
def runtime(request: pytest.FixtureRequest) -> Runtime:
    """Each runtime."""
    need_runtime(PACKAGES[request.param])
    return imported(request.param)


@pytest.fixture
def model(case: Case) -> Iterator[LoadedModel]:
    """The loaded model."""
    loaded = case.load()
    yield loaded
    loaded.close()
