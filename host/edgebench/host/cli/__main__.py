"""`python -m edgebench.host.cli` is `edgebench`."""

from edgebench.host.cli.entry import run

raise SystemExit(run())
