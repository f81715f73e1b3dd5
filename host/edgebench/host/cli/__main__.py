"""`python -m edgebench.host.cli` runs `edgebench`.

`-m` puts the working directory first on the search path, so files next to a model could be imported
as modules. The entry of the working directory is removed before any other import. Modules that
Python itself imported earlier may still come from the working directory, so prefer the command
`edgebench`.
"""

import sys

if not getattr(sys.flags, "safe_path", False):
    del sys.path[0]

from edgebench.host.cli.entry import run

raise SystemExit(run())
