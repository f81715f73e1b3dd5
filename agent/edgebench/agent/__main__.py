"""`python -m edgebench.agent` is `edgebench-agent`."""

from edgebench.agent.entry import run

raise SystemExit(run())
