"""`python -m edgebench.agent` runs the command `edgebench-agent`.

The option `-m` puts the working directory first in the module search path, so Python could import a
file next to a model as a module. This module removes the directory from the path before any other
import. Modules that Python itself imported earlier may still come from the working directory, so
`edgebench-agent` is the safe command.
"""

import sys

if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]

from edgebench.agent.entry import run

raise SystemExit(run())
