"""Commands of Android; each starts a process, so they are avoided during a timed loop.

A command that lacks a permission may print a line about that, and exit with 0 nevertheless.
"""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from edgebench.protocol.text import one_line

COMMANDS = "system/bin"
"""Directory of Android's commands."""
MARKS = ("system/build.prop", f"{COMMANDS}/getprop")
"""Files of every Android system. Environment variables such as ANDROID_ROOT are not evidence,
because tools on a PC set them too."""
COMMAND_TIMEOUT_S = 10.0
MAX_OUTPUT_BYTES = 2**20
"""Maximum number of bytes of a command's output that are kept; `dumpsys power` prints about 10 000
bytes."""
_REFUSALS = (r"^Permission Denial: .*", r"^Can't find service: .*", r"^.*SecurityException.*")
"""Output of a command that was denied or has no data. Source: platform/frameworks/native,
cmds/dumpsys; platform/frameworks/base, `DumpUtils.checkDumpPermission`."""


def is_android(root: Path = Path("/")) -> bool:
    """Whether the system under this root is Android."""
    return any((root / mark).exists() for mark in MARKS)


@dataclass(frozen=True, slots=True)
class ServiceOutput:
    """Output of an Android command."""

    text: str
    """Standard output; empty if the command failed."""
    failure: str = ""
    """Reason of the failure, on a single line."""


def command_environment() -> dict[str, str]:
    """Environment variables for Android's programs, without the agent's `LD_*` variables.

    `LD_*` variables of the agent may be for another C library than that of Android's programs.
    """
    return {name: value for name, value in os.environ.items() if not name.startswith("LD_")}


def run_command(root: Path, *words: str) -> ServiceOutput:
    """Run an Android command; a failure is returned, not raised."""
    program = root / COMMANDS / words[0]
    try:
        done = subprocess.run(
            [str(program), *words[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env=command_environment(),
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return ServiceOutput("", f"{' '.join(words)}: not finished within {COMMAND_TIMEOUT_S:g} s")
    except OSError as exc:
        return ServiceOutput("", f"{program}: {exc.strerror}")
    text = done.stdout[:MAX_OUTPUT_BYTES].decode("utf-8", "replace")
    errors = done.stderr[:MAX_OUTPUT_BYTES].decode("utf-8", "replace")
    for refusal in _REFUSALS:
        if match := re.search(refusal, f"{text[:1000]}\n{errors[:1000]}", re.MULTILINE):
            return ServiceOutput("", one_line(f"{' '.join(words)}: {match[0]}"))
    if done.returncode != 0:
        reason = one_line(errors) or f"ended with status {done.returncode}"
        return ServiceOutput("", f"{' '.join(words)}: {reason}")
    return ServiceOutput(text)
