"""`edgebench schema`."""

from __future__ import annotations

import argparse
from importlib.resources import files

from edgebench.host.cli.options import new_parser
from edgebench.system.exit_code import ExitCode


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench schema`."""
    return new_parser("schema", "Print the JSON Schema of run.json.")


def run(_: argparse.Namespace) -> ExitCode:
    """Print the schema that is part of the package."""
    print((files("edgebench.host.result") / "run.schema.json").read_text(), end="")
    return ExitCode.DONE
