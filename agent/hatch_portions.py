"""Build hook of edgebench-agent that adds the namespace portions next to the folder `agent`.

In a checkout, each portion is in its own folder next to `agent`. An sdist contains all portions in
its folder `edgebench`, where hatchling finds them without this hook.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PortionsHook(BuildHookInterface[Any]):
    """Adds the portions of a checkout to a wheel or an sdist."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the portions before a build; an editable install has them on its path instead."""
        if version == "editable":
            return
        for portion in self.config["portions"]:
            inside = f"edgebench/{portion}"
            if not Path(self.root, inside).is_dir():
                source = Path(self.root).parent / portion / inside
                build_data["force_include"][str(source)] = inside
