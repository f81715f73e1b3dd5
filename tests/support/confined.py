"""Children that confine themselves."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgebench.agent.confine import Kernel
from support.tools import need_root, skip_or_fail


def in_a_child(action: Callable[[], Any], user: int | None = None) -> Any:
    """The JSON result of this function in a child, which leads a session as a worker does."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(reading)
            os.setsid()
            if user is not None:
                os.setgroups([])
                os.setresgid(user, user, user)
                os.setresuid(user, user, user)
            os.write(writing, json.dumps(action()).encode())
        except BaseException as exc:  # the parent needs its value
            os.write(writing, json.dumps({"raised": repr(exc)}).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    return json.loads(answer)


def need_landlock() -> None:
    """The test restricts a process by Landlock."""
    try:
        Kernel().landlock_abi()
    except OSError as exc:
        skip_or_fail(f"this kernel has no Landlock: {exc}")


def need_everything() -> None:
    """This kernel has all features under test."""
    need_landlock()
    need_root()
    if os.uname().machine != "x86_64":
        skip_or_fail("the acts call the kernel by the numbers of x86-64")


def deny_calls(*names: str) -> None:
    """Make the kernel refuse these calls to this process and all its children, for good."""
    from edgebench.agent.confine.seccomp import install_filter
    from edgebench.agent.confine.syscalls import REFUSED, find_architecture

    architecture = find_architecture()
    assert architecture is not None
    landlock = {"landlock_create_ruleset": 444}
    load, equal, answer = 0x20, 0x15, 0x06
    program = [(load, 0, 0, 0)]
    for name in names:
        number = landlock.get(name) or REFUSED[name][architecture.column]
        assert number is not None
        program += [(equal, 0, 1, number), (answer, 0, 0, 0x00050000 | errno.EPERM)]
    kernel = Kernel()
    kernel.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
    install_filter(kernel, architecture, [*program, (answer, 0, 0, 0x7FFF0000)])


def denying_environment(folder: Path, *names: str) -> dict[str, str]:
    """Variables that make every Python deny itself these calls, before it does anything else.

    Its packages are in a directory that is closed to other users, as those in a home are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(0o700)
    text = f"import runpy\nrunpy.run_path({__file__!r})['deny_calls'](*{names!r})\n"
    (folder / "sitecustomize.py").write_text(text)
    return {"PYTHONPATH": str(folder)}
