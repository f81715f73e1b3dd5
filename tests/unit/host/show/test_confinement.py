"""The line of a result's page that lists how the model's process was confined."""

from __future__ import annotations

from dataclasses import replace

from edgebench.host.show.page import confinement_line
from edgebench.protocol.record import Confinement, Safeguard

DONE = Safeguard(is_applied=True, detail="something")
WHOLE = Confinement(
    is_root=False,
    privileges=DONE,
    capabilities=DONE,
    calls=DONE,
    files=DONE,
    network=DONE,
    threads=DONE,
)


def test_what_was_applied_is_listed() -> None:
    """Otherwise a reader would have to know the names of six mechanisms."""
    assert confinement_line(WHOLE) == (
        "kept from programs and sockets, files, the network, rights of root, new rights, "
        "unlimited threads"
    )


def test_what_was_not_applied_is_said_with_its_reason() -> None:
    """Otherwise a line that hides what a kernel lacks would claim too much."""
    lacking = Safeguard(is_applied=False, detail="no Landlock: keys can be read")
    line = confinement_line(replace(WHOLE, files=lacking, is_root=True))
    assert "; not from files: no Landlock: keys can be read" in line
    assert line.endswith("; the agent ran as root")
    assert "files, the network" not in line


def test_nothing_applied_is_none() -> None:
    """Otherwise an empty list would read as complete."""
    lacking = Safeguard(is_applied=False, detail="no such call")
    line = confinement_line(Confinement(False, *[lacking] * 6))
    assert line.startswith("none; not from programs and sockets: no such call; ")
