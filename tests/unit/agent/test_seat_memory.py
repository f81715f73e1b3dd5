"""Names of devices that come and go."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.records import DEVICE

from edgebench.agent.seat_memory import MEMORY_FILE, RememberedSeat, SeatMemory
from edgebench.protocol.errors import UsageError


def test_name_belongs_to_one_identity_until_it_is_forgotten(tmp_path: Path) -> None:
    """Otherwise, after a restart, one board would have the runs of another."""
    SeatMemory(tmp_path).remember("nucleo", RememberedSeat("A1", DEVICE, "board", 5.0))
    memory = SeatMemory(tmp_path)
    assert memory.seats == {"nucleo": RememberedSeat("A1", DEVICE, "board", 5.0)}
    assert memory.name_for("A1", "any other", ()) == "nucleo"
    assert memory.name_for("A2", "nucleo", ()) == "nucleo-2"
    assert memory.name_for("A2", "machine", ("machine", "machine-2")) == "machine-3"
    memory.forget("nucleo")
    assert not (tmp_path / "nucleo").exists()
    assert memory.name_for("A2", "nucleo", ()) == "nucleo"


def test_damaged_memory_gives_its_name_to_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Otherwise, after a power cut, the next board would collect the runs of the last one."""
    SeatMemory(tmp_path).remember("nucleo", RememberedSeat("A1", DEVICE))
    (tmp_path / "nucleo" / MEMORY_FILE).write_text("{")
    memory = SeatMemory(tmp_path)
    assert memory.seats == {}
    assert "seat not restored" in caplog.text
    assert memory.name_for("A1", "nucleo", ()) == "nucleo-2"


@pytest.mark.parametrize("name", ["", "../x", ".hidden", "a/b", "a b", "a,b", 49 * "a", "ä"])
def test_name_is_a_word_and_a_directory(tmp_path: Path, name: str) -> None:
    """Otherwise a file name could be a path outside the state, or a seat that --on cannot name."""
    with pytest.raises(UsageError, match="not a seat name"):
        SeatMemory(tmp_path).name_for("A1", name, ())
