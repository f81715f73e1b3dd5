"""What a person adds to a stored run: tags, and a note.

They are in a file of their own beside run.json, whose content and digest people rely on. `verify`
does not read them. Where they cannot be read, the run has no tags and no note, and its numbers
as before; the next change writes them anew.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from edgebench.host.store.layout import ANNOTATIONS_FILE, Store, require_file
from edgebench.protocol.errors import StoreError, UsageError
from edgebench.protocol.text import printable
from edgebench.system.whole_files import write_whole

MAX_TAG = 64
"""Characters of a tag: it is a column of a table."""
MAX_TAGS = 32
MAX_NOTE = 1000
UNREADABLE = "tags and note are not readable"
"""Text that is shown in place of such a note."""


@dataclass(frozen=True, slots=True)
class Annotations:
    """Tags and note of a run."""

    tags: tuple[str, ...] = ()
    """In the order of the alphabet."""
    note: str | None = None
    fault: str | None = None
    """Why they are not readable; None if they are, or there are none. It is not stored."""


def check_tag(tag: str) -> str:
    """The tag, if a run can be called by it.

    Raises:
        UsageError: it is empty, too long, looks like an option or a path, or has a blank in it.
    """
    is_word = tag.isprintable() and not any(one.isspace() or one in "/," for one in tag)
    if not 0 < len(tag) <= MAX_TAG or not is_word or tag.startswith("-") or tag == "last":
        raise UsageError(
            f"not a tag: {tag[:80]!r}; a tag is one word of at most {MAX_TAG} characters without "
            "/ and comma, and not last"
        )
    return tag


def check_note(note: str) -> str:
    """The note, if it is one line.

    Raises:
        UsageError: it is too long, or has characters that no line has.
    """
    if len(note) > MAX_NOTE or not note.isprintable():
        raise UsageError(f"not a note: {note[:80]!r}; a note is one line of at most {MAX_NOTE}")
    return note


def read_annotations(directory: Path) -> Annotations:
    """Tags and note of the run in this directory; none, and why, where they are not readable.

    Raises:
        RunDamaged: there is a pipe, a device, a socket or a directory in place of the file.
    """
    path = directory / ANNOTATIONS_FILE
    require_file(path)
    try:
        document = json.loads(path.read_bytes())
        # Without the codec of the wire, which takes as long to import as the rest of `show`.
        tags, note = document["tags"], document["note"]
        if not all(isinstance(one, str) for one in (*tags, note or "")):
            raise TypeError("not texts")
    except FileNotFoundError:
        return Annotations()
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not tags and a note in JSON"
        return Annotations(fault=f"{UNREADABLE}: {reason}: {path}")
    return Annotations(tuple(sorted({printable(one) for one in tags})), note and printable(note))


def annotate(
    store: Store, run_id: str, change: Callable[[Annotations], Annotations]
) -> Annotations:
    """Change tags and note of a run; they are whole at any moment, and of one change at a time.

    Raises:
        UsageError: the run would have too many tags.
        StoreError: they cannot be read or written.
    """
    directory = store.directory(run_id)
    try:
        with locked_annotations(directory):
            changed = replace(change(read_annotations(directory)), fault=None)
            if len(changed.tags) > MAX_TAGS:
                raise UsageError(
                    f"run {run_id} would have {len(changed.tags)} tags, at most {MAX_TAGS}"
                )
            text = json.dumps({"tags": changed.tags, "note": changed.note}) + "\n"
            write_whole(directory / ANNOTATIONS_FILE, text)
    except OSError as exc:
        raise StoreError(f"store not writable: {exc.strerror}: {directory}") from exc
    return changed


@contextmanager
def locked_annotations(directory: Path) -> Iterator[None]:
    """Keep another process from changing the same run meanwhile."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
