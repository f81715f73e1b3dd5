"""Where things are kept, by the XDG rules."""

from __future__ import annotations

import os
import pwd
from pathlib import PurePath

import pytest

from edgebench.system.paths import Paths, user_paths


def test_home_gives_the_default_directories() -> None:
    """Otherwise results would land somewhere other than documented."""
    paths = user_paths({"HOME": "/home/ada"})
    assert paths == Paths(
        config=PurePath("/home/ada/.config/edgebench"),
        data=PurePath("/home/ada/.local/share/edgebench"),
    )
    assert str(paths.agent_config) == "/home/ada/.config/edgebench/agent"
    assert str(paths.host_config) == "/home/ada/.config/edgebench/host"
    assert str(paths.agent_state) == "/home/ada/.local/share/edgebench/agent"


def test_simulated_board_has_directories_of_its_own() -> None:
    """Otherwise a made-up board would respond where a host looks for this machine."""
    paths = user_paths({"HOME": "/home/ada"})
    made_up = paths.of_simulated("rock-5b")
    assert str(made_up.agent_state) == "/home/ada/.local/share/edgebench/agent-rock-5b"
    assert str(made_up.agent_config) == "/home/ada/.config/edgebench/agent-rock-5b"
    assert made_up.host_config == paths.host_config


def test_variables_win_over_home() -> None:
    """Otherwise a user who moved the directories would find nothing there."""
    given = {"HOME": "/home/ada", "XDG_CONFIG_HOME": "/etc/ada", "XDG_DATA_HOME": "/srv/ada"}
    assert user_paths(given) == Paths(
        config=PurePath("/etc/ada/edgebench"), data=PurePath("/srv/ada/edgebench")
    )


@pytest.mark.parametrize("value", ["", "relative/path", "."])
def test_relative_variables_are_ignored(value: str) -> None:
    """Otherwise identities would be written into whatever directory the user is in."""
    given = {"HOME": "/home/ada", "XDG_CONFIG_HOME": value, "XDG_DATA_HOME": value}
    assert user_paths(given) == user_paths({"HOME": "/home/ada"})


@pytest.mark.parametrize("environment", [{}, {"HOME": ""}])
def test_absent_home_is_that_of_the_account(
    environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a job without HOME would use another store, or without an account not start."""
    home = pwd.getpwuid(os.getuid()).pw_dir
    assert user_paths(environment).data == PurePath(home, ".local/share/edgebench")
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    assert str(user_paths(environment).data) == "/.local/share/edgebench"
