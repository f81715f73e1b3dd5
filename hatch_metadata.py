"""Metadata hook of edgebench: sets the metadata that cannot be constants in pyproject.toml."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_RELATIVE_PICTURE = re.compile(r"!\[[^\]]*\]\((?!\w+:)[^)]*\)\n*")
_RELATIVE_LINK = re.compile(r"\[([^\]]+)\]\((?!\w+:)[^)]*\)")


class HostMetadataHook(MetadataHookInterface):
    """Requires the agent of the same version; removes relative links and pictures from README."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called with the static fields of [project] and the version."""
        agent = f"edgebench-agent=={metadata['version']}"
        metadata["dependencies"] = [agent, *self.config["dependencies"]]
        text = Path(self.root, "README.md").read_text(encoding="utf-8")
        # Package indexes resolve links against their own address, where no page of ours is.
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": _RELATIVE_LINK.sub(r"\1", _RELATIVE_PICTURE.sub("", text)),
        }
