"""Explains why a library cannot be imported, and by which command this can be fixed."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable

from edgebench.agent.runtimes.library import distribution_of, has_module
from edgebench.agent.runtimes.text import library_line
from edgebench.protocol.runtime import MissingRuntime

_MISSING_FILE = re.compile(r"(\S+\.so[.\d]*): cannot open shared object file")
"""Source: glibc, elf/dl-load.c."""
_MISSING_FILE_MUSL = re.compile(r"Error loading shared library (\S+\.so[.\d]*): No such file")
"""Source: musl, ldso/dynlink.c."""
_OLD_LIBRARY = re.compile(r"version `(\w+_[\d.]+)' not found")
"""Source: glibc, elf/dl-version.c."""
_PACKAGES = {
    # library: package of Debian, of Alpine
    "libstdc++.so.6": ("libstdc++6", "libstdc++"),
    "libgcc_s.so.1": ("libgcc-s1", "libgcc"),
    "libgomp.so.1": ("libgomp1", "libgomp"),
    "libatomic.so.1": ("libatomic1", "libatomic"),
    "libusb-1.0.so.0": ("libusb-1.0-0", "libusb"),
}

Which = Callable[[str], "str | None"]


def why_absent(
    package: str,
    error: ImportError | OSError,
    install: str | None,
    *,
    module: str,
    which: Which = shutil.which,
) -> MissingRuntime:
    """Reason of a failed import, and a command that fixes it, if one is known.

    Args:
        package: The distribution that `install` installs.
        error: Error of the import; an OSError if the package loads a library by ctypes.
        install: The command that installs `package`, if any.
        module: Module that could not be imported. If a different package provides the module, such
            as a vendor's package, the command is omitted. The command would overwrite files of that
            package.
        which: Function that finds a command; tests replace `shutil.which`.
    """
    top = module.partition(".")[0]
    if isinstance(error, ModuleNotFoundError) and error.name == top:
        return MissingRuntime(f"{package} is not installed", install)
    if has_module(top) and (distribution := distribution_of(top)) != package:
        package, install = distribution or top, None
    text = str(error)
    if file := _MISSING_FILE.search(text) or _MISSING_FILE_MUSL.search(text):
        reason = f"{package} needs the system library {file[1]}, which is missing"
        return MissingRuntime(reason, _system_command(file[1], which))
    if old := _OLD_LIBRARY.search(text):
        reason = f"{package} needs {old[1]}, which is newer than this system's version"
        return MissingRuntime(reason, None)
    if isinstance(error, ModuleNotFoundError) and error.name:
        module = error.name.partition(".")[0]
        return MissingRuntime(f"{package} needs the module {module}, which is missing", install)
    detail = library_line(error) or f"{type(error).__name__} without a text"
    return MissingRuntime(f"{package} fails to import: {detail}", install)


def _system_command(library: str, which: Which) -> str | None:
    debian, alpine = _PACKAGES.get(library, (None, None))
    if debian and which("apt"):
        return f"sudo apt install {debian}"
    if alpine and which("apk"):
        return f"apk add {alpine}"
    return None
