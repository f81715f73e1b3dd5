"""Why a library cannot be imported: absent itself, or something that it needs."""

from __future__ import annotations

import importlib

import pytest
from support.tools import need_runtime

from edgebench.agent.runtimes.absent import why_absent
from edgebench.agent.runtimes.tflite import LiteRt
from edgebench.protocol.errors import RuntimeUnavailable
from edgebench.protocol.runtime import MissingRuntime

INSTALL = "pip install x"
NO_STDCXX = "libstdc++.so.6: cannot open shared object file: No such file or directory"
NO_STDCXX_MUSL = "Error loading shared library libstdc++.so.6: No such file or directory (needed)"
OLD = "/lib/libc.so.6: version `GLIBC_2.38' not found (required by /x.so)"


def test_library_that_is_loaded_by_ctypes_is_named_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """LiteRT loads its own library as it is imported, which raises an OSError."""
    need_runtime("ai-edge-litert")
    driver = LiteRt()

    def fail(name: str) -> None:
        raise OSError(NO_STDCXX)

    monkeypatch.setattr(importlib, "import_module", fail)
    found = driver.probe()
    assert isinstance(found, MissingRuntime)
    assert "needs the system library libstdc++.so.6" in found.reason
    with pytest.raises(RuntimeUnavailable, match=r"needs the system library libstdc"):
        driver.import_library()


@pytest.mark.parametrize(
    ("error", "command", "reason", "install"),
    [
        (ModuleNotFoundError("No module named 'x'", name="x"), "apt", "x is not installed",
         INSTALL),
        (ModuleNotFoundError("No module named 'y'", name="y.z"), "apt",
         "x needs the module y, which is missing", INSTALL),
        (ImportError(NO_STDCXX), "apt", "needs the system library libstdc++.so.6",
         "sudo apt install libstdc++6"),
        (ImportError(NO_STDCXX_MUSL), "apk", "needs the system library libstdc++.so.6",
         "apk add libstdc++"),
        (OSError(NO_STDCXX), "apt", "needs the system library libstdc++.so.6",
         "sudo apt install libstdc++6"),
        (ImportError(NO_STDCXX), "none", "needs the system library libstdc++.so.6", None),
        (ImportError("libfoo.so.9: cannot open shared object file: No such"), "apt",
         "needs the system library libfoo.so.9", None),
        (
            ImportError(OLD),
            "apt",
            "x needs GLIBC_2.38, which is newer than this system's version",
            None,
        ),
        (ImportError("cannot import name 'y'"), "apt", "x fails to import: cannot import", INSTALL),
    ],
)  # fmt: skip
def test_what_is_missing_is_named_with_the_command_that_brings_it(
    error: ImportError | OSError, command: str, reason: str, install: str | None
) -> None:
    """Otherwise a missing system library would be called "not installed".

    Installing again would not help.
    """
    found = why_absent(
        *("x", error, INSTALL),
        module="x.y",
        which=lambda name: name if name == command else None,
    )
    assert reason in found.reason
    assert found.install == install
