"""Finds the installed library of a runtime by the name of its Python module.

Builds by vendors or Linux distributions, and builds for accelerators, contain the same module in a
package of another name: `onnxruntime-gpu`, `-openvino`, `-qnn`, Debian's `python3-onnxruntime`. The
version is therefore read from the imported module; the package is looked up separately, and may be
unknown.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class LibraryFacts:
    """An imported library."""

    version: str
    distribution: str | None
    """Package that contains the module; None if there is none, as in a build tree."""
    path: str | None
    """Directory of the module."""


@runtime_checkable
class LibraryRuntime(Protocol):
    """A runtime whose library is a Python module."""

    @property
    def module(self) -> str:
        """Name of the module."""
        ...


def has_module(module: str) -> bool:
    """Whether a module is installed, even if its import fails."""
    try:
        return find_spec(module.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


def library_version(module: str) -> str:
    """Version of an imported module, else of its package; `unknown` if neither has a version."""
    return _version(module, None) or _version(module, _distribution(module)) or "unknown"


def library_facts(module: str) -> LibraryFacts:
    """Version, package and directory of an imported module."""
    distribution, place = _distribution(module), _place(module)
    return LibraryFacts(
        _version(module, distribution) or "unknown",
        distribution.name if distribution else None,
        None if place is None else str(place),
    )


def distribution_of(module: str) -> str | None:
    """Name of the package that contains a module; the module need not be imported."""
    distribution = _distribution(module)
    return distribution.name if distribution else None


def _version(module: str, distribution: Distribution | None) -> str | None:
    """Version of an imported module, else of the package; None if neither has a version."""
    version = getattr(_top(module), "__version__", None)
    if isinstance(version, str) and version:
        return version
    return distribution.version if distribution else None


def _top(module: str) -> object:
    return sys.modules.get(module.partition(".")[0])


def _place(module: str) -> Path | None:
    """Directory of a module, imported or not."""
    top = module.partition(".")[0]
    file = getattr(sys.modules.get(top), "__file__", None)
    if file is None and has_module(top):
        spec = find_spec(top)
        file = spec.origin if spec is not None else None
    return Path(file).parent if isinstance(file, str) else None


def _distribution(module: str) -> Distribution | None:
    """Package of a module; if several packages list it, the package with the module's version.

    Several builds of a library may be installed: they overwrite each other's files, and each
    build's record lists the files.
    """
    top, place = module.partition(".")[0], _place(module)
    if place is None:
        return None
    version = getattr(sys.modules.get(top), "__version__", None)
    first = None
    for holder in _holders(top, place):  # ends early: each package has files to read
        if version is None or holder.version == version:
            return holder
        first = first or holder
    return first


def _holders(top: str, place: Path) -> Iterator[Distribution]:
    for distribution in distributions(path=[str(place.parent)]):
        names = (distribution.read_text("top_level.txt") or "").split()
        record = "" if names else distribution.read_text("RECORD") or ""
        if top in names or f"\n{top}/" in f"\n{record}":
            yield distribution
