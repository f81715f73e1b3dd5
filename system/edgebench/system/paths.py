"""Directories of edgebench, according to the XDG base directory specification.

Source: https://specifications.freedesktop.org/basedir-spec/latest/
"""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import PurePath

from edgebench.protocol.errors import UsageError

MODEL_SUFFIXES = (".tflite", ".onnx")
"""File name suffixes of models."""
APPLICATION = "edgebench"


@dataclass(frozen=True, slots=True)
class Paths:
    """The directories of a user; they are not created here."""

    config: PurePath
    """Identities and pairings; secret."""
    data: PurePath
    """Results on a host; models and the spool on a device."""
    agent: str = "agent"
    """Name of the agent's directory inside `config` and inside `data`."""

    def of_simulated(self, board: str) -> Paths:
        """Paths of an agent that simulates a board, separate from those of this machine's agent."""
        return replace(self, agent=f"{self.agent}-{board}")

    @property
    def agent_config(self) -> PurePath:
        """The agent's identity and the hosts that it trusts."""
        return self.config / self.agent

    @property
    def agent_state(self) -> PurePath:
        """The agent's models, spool and control socket."""
        return self.data / self.agent

    @property
    def host_config(self) -> PurePath:
        """The host's identity and its known devices."""
        return self.config / "host"

    @property
    def host_state(self) -> PurePath:
        """The last known state of the host's devices."""
        return self.data / "host"


MAX_NAME_BYTES = 255
"""Maximum bytes of a file name (NAME_MAX). Source: linux/limits.h."""
MAX_DIRECTORY_BYTES = 4095 - 256
"""Maximum bytes of the path of a directory: PATH_MAX without the NUL, minus 256 bytes for the name
of a file in the directory. Source: linux/limits.h."""
CONTROL_SOCKET = "agent.sock"
"""Name of the agent's unix socket inside its state directory."""


def refuse_long(path: PurePath) -> PurePath:
    """Check the length of the path of a directory for edgebench's files; returns the path.

    Raises:
        UsageError: the path, or a name in it, is longer than Linux allows.
    """
    longest = max((len(os.fsencode(name)) for name in path.parts), default=0)
    for size, limit, what in (
        (longest, MAX_NAME_BYTES, "name"),
        (len(os.fsencode(path)), MAX_DIRECTORY_BYTES, "path"),
    ):
        if size > limit:
            raise UsageError(f"{what} of {size} bytes is too long, limit {limit}: {path}")
    return path


def user_paths(environment: Mapping[str, str]) -> Paths:
    """The directories of a user, according to the user's environment variables."""
    home = _home(environment)
    config = _base(environment, "XDG_CONFIG_HOME", home / ".config")
    data = _base(environment, "XDG_DATA_HOME", home / ".local" / "share")
    return Paths(config=config / APPLICATION, data=data / APPLICATION)


def traceback_directory(environment: Mapping[str, str]) -> PurePath:
    """Directory of this user's tracebacks of unforeseen exceptions."""
    home = _home(environment)
    state = _base(environment, "XDG_STATE_HOME", home / ".local" / "state")
    return state / APPLICATION / "tracebacks"


def cache_directory(environment: Mapping[str, str]) -> PurePath:
    """Directory for files that are recreated if they are missing."""
    home = _home(environment)
    return _base(environment, "XDG_CACHE_HOME", home / ".cache") / APPLICATION


def _home(environment: Mapping[str, str]) -> PurePath:
    """Home directory of the user.

    Without the variable HOME, as in some cron jobs and containers, it is the directory in the user
    database.
    """
    if environment.get("HOME"):
        return PurePath(environment["HOME"])
    try:
        return PurePath(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:  # a user without an entry, as in a container, or on Android
        return PurePath("/")


def _base(environment: Mapping[str, str], name: str, default: PurePath) -> PurePath:
    # The specification requires that a relative path is ignored.
    value = environment.get(name, "")
    return PurePath(value) if value.startswith("/") else default
