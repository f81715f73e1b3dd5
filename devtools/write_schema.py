"""Write the JSON Schema of run.json into the package with the types that it describes."""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

from edgebench.host.result.schema import SCHEMA_FILE, run_schema


def main() -> None:
    """Write the schema, and print its path."""
    path = Path(str(files("edgebench.host.result") / SCHEMA_FILE))
    path.write_text(json.dumps(run_schema(), indent=1, ensure_ascii=False) + "\n")
    print(path)


if __name__ == "__main__":
    main()
