"""`edgebench kit`."""

from __future__ import annotations

import argparse
import shlex
import tempfile
from pathlib import Path

from edgebench.host.cli.failure import print_document
from edgebench.host.cli.options import add_json, new_parser
from edgebench.host.kit.debian import ARCHITECTURES, fetch_root
from edgebench.host.kit.kit import PHONE_MACHINE
from edgebench.host.kit.root import Root
from edgebench.protocol.distributions import HOST_DISTRIBUTION, install_command
from edgebench.protocol.errors import PackagesMissing, UsageError, unknown_name
from edgebench.protocol.plain import to_plain
from edgebench.protocol.text import printable
from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from edgebench.host.kit.build import BuiltKit

MIB = 2**20


def parser() -> argparse.ArgumentParser:
    """Argument parser of `edgebench kit`."""
    made = new_parser(
        "kit", "Build a Python for phones, because phones have none; edgebench deploy installs it."
    )
    actions = made.add_subparsers(dest="action", metavar="ACTION", required=True)
    action = actions.add_parser(
        "build", help="build a kit from Debian packages that apt fetches, or from the files in DIR"
    )
    action.add_argument(
        "--root",
        type=Path,
        metavar="DIR",
        help="root directory of a system to build the kit from, such as a mounted Raspberry Pi "
        "image; no package is fetched",
    )
    action.add_argument(
        "--machine",
        metavar="NAME",
        help="machine, as printed by uname -m: aarch64, armv7l or x86_64 (default: "
        f"{PHONE_MACHINE}, or the machine of DIR)",
    )
    action.add_argument(
        "--output",
        "-o",
        type=Path,
        metavar="FILE",
        help="file to write, ending in .whl, or a directory (default: where edgebench deploy "
        "searches for the kit)",
    )
    add_json(action)
    return made


def run(options: argparse.Namespace) -> ExitCode:
    """Build the kit.

    Raises:
        UsageError: the machine is unknown, or the directory given by --root does not exist.
        KitNotBuilt: no kit can be built from the root.
        PackagesMissing: a package needed for patching programs is not installed.
    """
    if options.machine is not None and options.machine not in ARCHITECTURES:
        raise unknown_name("machine", options.machine, tuple(ARCHITECTURES))
    if options.root is not None:
        if not options.root.is_dir():
            raise UsageError(f"not a directory: {options.root}")
        return _build(Root(options.root), options.machine, options)
    machine = options.machine or PHONE_MACHINE
    echo(f"fetching Debian's packages for {machine}")
    with tempfile.TemporaryDirectory(prefix="edgebench-kit-") as folder:
        return _build(fetch_root(machine, Path(folder)), machine, options)


def _build(root: Root, machine: str | None, options: argparse.Namespace) -> ExitCode:
    from edgebench.host.kit.build import build_kit

    echo("building the kit")
    try:
        built = build_kit(root, options.output, machine=machine)
    except ModuleNotFoundError as exc:
        install = install_command("kit", HOST_DISTRIBUTION)
        what = f"cannot build a kit: {exc.name} is not installed here: {install}"
        raise PackagesMissing(what) from exc
    if options.json:
        print_document(to_plain(built))
    else:
        _report(built)
    return ExitCode.DONE


def _report(built: BuiltKit) -> None:
    manifest = built.manifest
    print(printable(f"kit       {built.path}"))
    print(printable(f"          {manifest}, {manifest.name}"))
    size = f"{built.size_bytes / MIB:.1f} MiB, on a phone {manifest.unpacked_bytes / MIB:.1f} MiB"
    print(f"size      {size}")
    versions = ", ".join(f"{package.name} {package.version}" for package in manifest.packages)
    print(
        printable(f"packages  {versions or 'unknown: the root directory has no package records'}")
    )
    if built.left_out:
        print(printable(f"left out  {', '.join(built.left_out)}: their libraries are missing"))
    if built.unlicensed:
        print(f"warning   {len(built.unlicensed)} files have no known licence: do not redistribute")
    named = "" if built.is_kept else f" --kit {shlex.quote(str(built.path))}"
    print(printable(f"next: edgebench deploy adb:SERIAL{named}"))
