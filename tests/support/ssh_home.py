"""A home directory for `ssh`, which takes that of the account and no other."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def configure_ssh(home: Path, config: str = "") -> Path:
    """Make `bin/ssh` in a home, which reads `.ssh/config` and known_hosts there and nothing else.

    Args:
        home: Directory of a user.
        config: Content of `.ssh/config`, before what names the files.

    Returns:
        The program.
    """
    directory, program = home / ".ssh", home / "bin" / "ssh"
    directory.mkdir(parents=True, exist_ok=True, mode=0o700)
    program.parent.mkdir(exist_ok=True)
    (directory / "config").write_text(
        f"{config}\n"
        "Host *\n"
        f"  UserKnownHostsFile {directory / 'known_hosts'}\n"
        "  GlobalKnownHostsFile /dev/null\n"
    )
    program.write_text(
        f'#!/bin/sh\nexec {shutil.which("ssh", path=os.defpath)} -F {directory / "config"} "$@"\n'
    )
    program.chmod(0o755)
    return program
