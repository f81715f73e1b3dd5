"""Store the keys of the present version of run.json; to be run when the version is released.

From then on, `edgebench verify` detects a run of this version that lacks a stored key.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

from edgebench.host.analysis.verdict.table import RULES
from edgebench.host.result.promises import PROMISES_FILE, key_paths
from edgebench.host.result.run import SCHEMA_VERSION, Run

_RULES = "verdict.rules"


def main() -> None:
    """Add the keys that no earlier version has promised."""
    path = Path(str(files("edgebench.host.result") / PROMISES_FILE))
    promised: dict[str, list[str]] = json.loads(path.read_bytes())
    promised.pop(str(SCHEMA_VERSION), None)
    earlier = {place for places in promised.values() for place in places}
    # The findings of rules are compared by the outcome of each rule.
    places = {place for place in key_paths(Run) if not place.startswith(f"{_RULES}.")}
    places |= {f"{_RULES}.{rule.id}" for rule in RULES}
    promised[str(SCHEMA_VERSION)] = sorted(places - earlier)
    path.write_text(json.dumps(promised, indent=1) + "\n")
    print(path)


if __name__ == "__main__":
    main()
