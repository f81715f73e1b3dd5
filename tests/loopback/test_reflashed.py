"""A board that was set up anew: it comes back as the same device if the user requests that."""

from __future__ import annotations

import shutil

from support.agents import AgentProcess, Host

from edgebench.host.devices.health import HealthFiles


def test_board_with_a_new_certificate_keeps_its_place_when_told(
    agent: AgentProcess, paired: Host
) -> None:
    """Otherwise a new SD card could cost a board its identity, or a stranger could obtain it.

    The identity is its name, labels and history.
    """
    [before] = paired.devices
    health = HealthFiles(paired.state)
    health.quarantine(before, "unreachable", "it was being set up")
    agent.kill()
    shutil.rmtree(agent.folder)
    agent.start()
    string = agent.pairing_string()
    refused = paired.run("pair", string)
    assert refused.returncode == 2
    assert "agent has a new certificate, but has" in refused.stderr
    assert "of 'board', and 'board' does not respond" in refused.stderr
    assert "edgebench pair --replace STRING" in refused.stderr
    assert paired.devices == (before,)
    # Nothing was requested from the agent: the string is still valid.
    assert paired.run("pair", "--replace", string).returncode == 0
    [after] = paired.devices
    assert (after.name, after.id) == (before.name, before.id)
    assert after.pin != before.pin
    assert health.of(after).quarantine_reason == "it was being set up"
    # A second agent of the same machine, while the first is still there, is not refused.
    second = AgentProcess(agent.folder / "second", options=["--name", "board"]).start()
    try:
        assert paired.run("pair", second.pairing_string()).returncode == 0
    finally:
        second.kill()
    assert [device.name for device in paired.devices] == ["board", "board-2"]
