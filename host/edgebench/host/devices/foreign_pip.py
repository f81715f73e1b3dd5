"""Run pip as if on another machine; the command line is MARKERS, then pip's arguments.

pip has options for the platform, version and ABI of wheels. But pip evaluates markers, such as
"python_version < '3.11'", for the interpreter that runs pip. So it omits packages that only the
other machine needs. This script makes pip evaluate markers for the other machine.
"""

from __future__ import annotations

import json
import runpy
import sys
from importlib import import_module
from typing import Any


def main() -> None:
    """Run pip with the markers, as JSON, and the arguments from `sys.argv`."""
    environment: dict[str, str] = json.loads(sys.argv[1])
    markers: Any = import_module("pip._vendor.packaging.markers")
    # Location of the function in pip 20 and later; fail loudly if it moves.
    assert callable(markers.default_environment)
    markers.default_environment = environment.copy
    sys.argv = ["pip", *sys.argv[2:]]
    runpy.run_module("pip", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
