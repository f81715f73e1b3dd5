"""`python -m edgebench.agent` is `edgebench-agent`.

`-m` puts the working directory in front of the search path, where files next to a model could be
imported as modules. It is removed before any other import; modules that Python itself has imported
by then may have come from there, so `edgebench-agent` is the command to use.
"""

import sys

if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]

from edgebench.agent.entry import run

raise SystemExit(run())
