"""Fixtures: a new device that `edgebench deploy` has never reached, and the wheels for it."""

from __future__ import annotations

import fcntl
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.site import SYSTEM_PYTHON, Site, fresh_site, interpreter_of, need_machines
from support.tools import skip_or_fail

from edgebench.host.devices.packages import fetch
from edgebench.protocol.errors import PackagesMissing


@pytest.fixture(scope="session")
def wheels(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Wheels for Debian's Python, onnx and a serial meter, fetched while there is a network."""
    if not Path(SYSTEM_PYTHON).exists():
        skip_or_fail(f"missing: {SYSTEM_PYTHON}")
    scratch = tmp_path_factory.mktemp("wheels")
    cache: pytest.Cache | None = getattr(request.config, "cache", None)
    # Kept from run to run next to pytest's own cache.
    kept = cache.mkdir("wheels") if cache else scratch
    with pytest.MonkeyPatch.context() as patch, (kept / "lock").open("w") as lock:
        # The other process of `make test` finds them if it comes second.
        fcntl.flock(lock, fcntl.LOCK_EX)
        patch.setenv("XDG_CACHE_HOME", str(kept))
        try:
            found = fetch(interpreter_of(SYSTEM_PYTHON), ["onnx"], scratch, extras=["serial"])
        except PackagesMissing as exc:
            skip_or_fail(f"no wheels: {exc}")
    return found.files[-1].parent


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A device for one test."""
    need_machines()
    with fresh_site(tmp_path) as made:
        yield made
