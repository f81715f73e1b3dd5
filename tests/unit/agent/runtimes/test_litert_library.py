"""Which versions are accepted before foreign memory is read."""

from __future__ import annotations

import pytest

from edgebench.agent.runtimes.litert_library import check_version
from edgebench.protocol.errors import ModelRefused


@pytest.mark.parametrize("version", ["2.1.6", "2.2.0", "2.3.0", "2.3.7", "2.3.0rc1"])
def test_versions_that_were_tried_are_let_in(version: str) -> None:
    """Otherwise no version would have a profiler."""
    check_version(version)


@pytest.mark.parametrize("version", ["1.4.0", "2.0.3", "2.1.5", "2.4.0", "3.0", "2.10.0", "", "x"])
def test_other_versions_are_refused(version: str) -> None:
    """Otherwise a structure changed by a later release would be misread, and the process die."""
    with pytest.raises(ModelRefused, match=r"2\.1\.6 to 2\.3"):
        check_version(version)
