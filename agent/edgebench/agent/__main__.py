"""`python -m edgebench.agent` is `edgebench-agent`."""

from edgebench.agent.cli import main

raise SystemExit(main())
