"""`edgebench check`."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from edgebench.host.cli.options import add_json, new_parser
from edgebench.system.exit_code import ExitCode


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench check`."""
    made = new_parser(
        "check",
        "Print which microcontrollers a model fits on, the flash and RAM that it needs, and the "
        "operators that edgebench's firmware does not support. No board is needed. Exit code 1: "
        "the model fits on no microcontroller.",
    )
    made.add_argument("model_file", metavar="MODEL", help="a .tflite file, or a built-in model")
    made.add_argument(
        "--on",
        action="append",
        default=[],
        metavar="BOARD",
        help="board, such as nucleo-l4r5zi, pico2 or qemu:mps2-an386; repeatable (default: all "
        "boards with firmware in the package)",
    )
    add_json(made)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Check the model.

    Raises:
        UsageError: the file or a board does not exist.
        TargetDriverMissing: the firmware bridge is not installed.
        ModelRefused: the file is damaged.
        OSError: the file cannot be read.
    """
    from edgebench.host.bench.builtin import find_model
    from edgebench.host.devices.bridge import find_tools
    from edgebench.host.show.boards import print_check
    from edgebench.protocol.plain import to_plain

    model = find_model(options.model_file)
    check = find_tools().check_model(Path(model.path).read_bytes(), model.name, options.on)
    if options.json:
        print(json.dumps(to_plain(check), indent=1))
    else:
        print_check(check)
    return ExitCode.DONE if any(fit.fits for fit in check.boards) else ExitCode.FAILED
