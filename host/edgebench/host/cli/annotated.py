"""Code shared by `edgebench tag` and `edgebench note`."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from contextlib import suppress

from edgebench.system.exit_code import ExitCode
from edgebench.system.terminal import echo

TYPE_CHECKING = False  # see edgebench.host
if TYPE_CHECKING:
    from collections.abc import Callable

    from edgebench.host.store.annotations import Annotations
    from edgebench.host.store.layout import Store


def annotate_runs(
    options: argparse.Namespace, names: Sequence[str], change: Callable[[Annotations], Annotations]
) -> ExitCode:
    """Change the tags or the note of stored runs, and print the new tags and note of each run."""
    from edgebench.host.cli.failed_runs import warn_of_failed
    from edgebench.host.store.address import Address, find_in_store
    from edgebench.host.store.annotations import annotate
    from edgebench.host.store.index import note_run
    from edgebench.host.store.layout import Store
    from edgebench.protocol.text import printable

    store = Store(options.store)
    rows: list[dict[str, object]] = []
    run_ids = find_in_store(store, names)
    for run_id in run_ids:
        _warn_of_unreadable(store, run_id)
        annotations = annotate(store, run_id, change)
        note_run(store, run_id)
        rows.append({"run_id": run_id, "tags": list(annotations.tags), "note": annotations.note})
        if not options.json:
            shown = ", ".join(annotations.tags) or "no tags"
            print(
                printable(
                    f"{run_id}: {shown}" + (f"; {annotations.note}" if annotations.note else "")
                )
            )
    warn_of_failed(Address(store, run_id) for run_id in run_ids)
    if options.json:
        print(json.dumps({"runs": rows}, indent=1))
    return ExitCode.DONE


def _warn_of_unreadable(store: Store, run_id: str) -> None:
    """Print the content of a damaged annotations file, which the change is about to overwrite."""
    from edgebench.host.store.annotations import MAX_NOTE, read_annotations
    from edgebench.host.store.layout import ANNOTATIONS_FILE
    from edgebench.protocol.text import one_line

    directory = store.directory(run_id)
    if (fault := read_annotations(directory).fault) is not None:
        with suppress(OSError):
            content = (directory / ANNOTATIONS_FILE).read_text(errors="replace")
            echo(f"warning: {fault}; replaced; content: {one_line(content, MAX_NOTE) or 'nothing'}")
