"""A board that was set up anew: it comes back as the same device, if somebody says so."""

from __future__ import annotations

import shutil

from support.agents import AgentProcess, Host

from edgebench.host.devices.health import HealthFiles


def test_board_with_a_new_certificate_keeps_its_place_when_told(
    agent: AgentProcess, paired: Host
) -> None:
    """A new SD card costs a board its name, labels and history; or a stranger gets them."""
    [before] = paired.devices
    health = HealthFiles(paired.state)
    health.quarantine(before, "unreachable", "it was being set up")
    agent.kill()
    shutil.rmtree(agent.folder)
    agent.start()
    string = agent.pairing_string()
    refused = paired.run("pair", string)
    assert refused.returncode == 2
    assert "of 'board', which does not respond, and has a new certificate" in refused.stderr
    assert "edgebench pair --replace STRING" in refused.stderr
    assert paired.devices == (before,)
    # Nothing was asked of the agent: the string is still good.
    assert paired.run("pair", "--replace", string).returncode == 0
    [after] = paired.devices
    assert (after.name, after.id) == (before.name, before.id)
    assert after.pin != before.pin
    assert health.of(after).quarantine_reason == "it was being set up"
    # The same machine again, with the first agent still there: no question.
    second = AgentProcess(agent.folder / "second", options=["--name", "board"]).start()
    try:
        assert paired.run("pair", second.pairing_string()).returncode == 0
    finally:
        second.kill()
    assert [device.name for device in paired.devices] == ["board", "board-2"]
