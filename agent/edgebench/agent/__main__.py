"""`python -m edgebench.agent` is `edgebench-agent`.

`-m` puts the working directory in front of the search path, where files next to a model could be
imported as modules. The directory is removed from the path before any other import. But modules
that Python itself has imported by then may come from it, so `edgebench-agent` is the safe command.
"""

import sys

if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]

from edgebench.agent.entry import run

raise SystemExit(run())
