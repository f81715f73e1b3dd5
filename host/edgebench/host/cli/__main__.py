"""`python -m edgebench.host.cli` is `edgebench`."""

from edgebench.host.cli.main import main

raise SystemExit(main())
