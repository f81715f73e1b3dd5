"""Skipping: on a user's machine a missing tool skips a test with a reason; in CI it fails it."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import NoReturn

import pytest

REQUIRE_VARIABLE = "EDGEBENCH_TESTS_REQUIRE_TOOLS"
ROOT_OF_CHECKOUT = Path(__file__).resolve().parents[2]
SHARED = ROOT_OF_CHECKOUT.parent / "shared"


def skip_or_fail(reason: str) -> NoReturn:
    """Skip the running test, or fail it where nothing may be missing."""
    if os.environ.get(REQUIRE_VARIABLE):
        pytest.fail(f"required here: {reason}")
    pytest.skip(reason)


def need_tool(*names: str) -> None:
    """The test needs these programs."""
    for name in names:
        if shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin") is None:
            skip_or_fail(f"system tool missing: {name}")


def need_root() -> None:
    """The test makes namespaces, mounts or users."""
    if os.geteuid() != 0:
        skip_or_fail("needs root")


def need_shared(part: str) -> Path:
    """A folder of models or vectors that lies beside the checkout, not in it."""
    path = SHARED / part
    if not path.exists():
        pytest.skip(f"not beside this checkout: shared/{part}")
    return path


def need_loadgen() -> None:
    """The test lets MLPerf's LoadGen issue the queries; there is none but for x86-64 Linux."""
    pytest.importorskip("mlperf_loadgen", reason="LoadGen is built for x86-64 Linux only")


def need_micro() -> None:
    """The test compares with TensorFlow Lite Micro; its wheels are for x86-64 Linux."""
    pytest.importorskip("tflite_micro", reason="TensorFlow Lite Micro has no wheel here")


def need_runtime(package: str) -> None:
    """The test runs models on this runtime."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        version(package)
    except PackageNotFoundError:
        skip_or_fail(f"runtime not installed: {package}")
