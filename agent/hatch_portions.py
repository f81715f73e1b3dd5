"""Build hook of edgebench-agent: adds the portions that lie outside its folder, next to it.

In a checkout the portions are taken from there. The sdist contains them in its own `edgebench`
folder, where hatchling finds them without this hook.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PortionsHook(BuildHookInterface[Any]):
    """Adds the portions of a checkout to a wheel or an sdist."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before each build; an editable install has its folders on the path instead."""
        if version == "editable":
            return
        for portion in self.config["portions"]:
            inside = f"edgebench/{portion}"
            if not Path(self.root, inside).is_dir():
                source = Path(self.root).parent / portion / inside
                build_data["force_include"][str(source)] = inside
