"""Wheels on a device are those that were sent, or pip does not run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest

from edgebench.host.devices.on_device import Places, WheelFile, install


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """An account with two wheels and no virtual environment: whatever ran pip would fail."""
    made = Places({"HOME": str(tmp_path)})
    made.wheels.mkdir(parents=True)
    for name in ("edgebench-1-py3-none-any.whl", "pip-26-py3-none-any.whl"):
        (made.wheels / name).write_bytes(name.encode())
    return made


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        (
            "pip-26-py3-none-any.whl",
            b"other",
            "wheel pip-26-py3-none-any.whl was changed: its sha256 is d9298a10d1b0…, expected "
            "ab1042628499…",
        ),
        ("numpy-99-py3-none-any.whl", b"new", "wheel numpy-99-py3-none-any.whl was not sent "),
        ("pip-26-py3-none-any.whl", None, "wheel pip-26-py3-none-any.whl was sent but is "),
    ],
    ids=["changed", "added", "removed"],
)
@pytest.mark.parametrize("is_offline", [True, False])
def test_other_wheels_than_were_sent_are_refused(
    places: Places, name: str, content: bytes | None, said: str, is_offline: bool
) -> None:
    """Otherwise another user's wheel could be installed, or pip be another program."""
    sent: list[WheelFile] = list(places.held())
    (places.wheels / name).unlink(missing_ok=True)
    if content is not None:
        (places.wheels / name).write_bytes(content)
    report = install(places, ["edgebench"], is_offline, [asdict(wheel) for wheel in sent])
    assert report.error is not None
    assert report.error.startswith(said)


def test_wheels_as_they_were_sent_go_to_pip(places: Places) -> None:
    """Otherwise nothing could be installed at all."""
    with pytest.raises(FileNotFoundError, match="agent-venv/bin/python"):
        install(places, ["edgebench"], True, [asdict(wheel) for wheel in places.held()])
