"""Tags and a note, the annotations that users add to a stored run.

Annotations are stored in a separate file, because the content and digest of run.json must not
change. `verify` does not read this file. If the file cannot be read, the run has no tags and no
note, and its numbers are not affected. The next change of the annotations writes a new file.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from edgebench.host.store.layout import ANNOTATIONS_FILE, Store, locked_run, require_file
from edgebench.protocol.errors import StoreError, UsageError, os_error_as
from edgebench.protocol.text import printable
from edgebench.system.whole_files import write_whole

MAX_TAG = 64
"""Maximum length of a tag, so that tags fit into the column of a table."""
MAX_TAGS = 32
MAX_NOTE = 1000
UNREADABLE = "tags and note are not readable"
"""Text shown in place of a note that is not readable."""


@dataclass(frozen=True, slots=True)
class Annotations:
    """Tags and note of a run."""

    tags: tuple[str, ...] = ()
    """Tags, sorted alphabetically."""
    note: str | None = None
    fault: str | None = None
    """Why the annotations are not readable; None if they are readable or missing. This field is not
    stored."""


def check_tag(tag: str) -> str:
    """Return the tag if runs can be selected by it.

    Raises:
        UsageError: the tag is empty, `last`, or longer than `MAX_TAG`, begins with `-`, or contains
            a space, a slash, a comma or a non-printable character.
    """
    is_word = tag.isprintable() and not any(
        character.isspace() or character in "/," for character in tag
    )
    if not 0 < len(tag) <= MAX_TAG or not is_word or tag.startswith("-") or tag == "last":
        raise UsageError(
            f"not a tag: {tag[:80]!r}; a tag is a word of at most {MAX_TAG} characters without / "
            "and comma, other than `last`"
        )
    return tag


def check_note(note: str) -> str:
    """Return the note if it is a single line.

    Raises:
        UsageError: the note is too long, or has non-printable characters.
    """
    if len(note) > MAX_NOTE or not note.isprintable():
        raise UsageError(
            f"not a note: {note[:80]!r}; a note is a line of at most {MAX_NOTE} characters"
        )
    return note


def read_annotations(directory: Path) -> Annotations:
    """Tags and note of the run in a directory; if not readable, only the fault is set.

    Raises:
        RunDamaged: a pipe, a device, a socket or a directory is in place of the file.
    """
    path = directory / ANNOTATIONS_FILE
    require_file(path)
    try:
        document = json.loads(path.read_bytes())
        # Not decoded with the wire codec, which takes as long to import as the rest of `show`.
        tags, note = document["tags"], document["note"]
        if not all(isinstance(tag, str) for tag in (*tags, note or "")):
            raise TypeError("not texts")
    except FileNotFoundError:
        return Annotations()
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as exc:
        reason = exc.strerror if isinstance(exc, OSError) else "not JSON with tags and note"
        return Annotations(fault=f"{UNREADABLE}: {reason}: {path}")
    return Annotations(tuple(sorted({printable(tag) for tag in tags})), note and printable(note))


def annotate(
    store: Store, run_id: str, change: Callable[[Annotations], Annotations]
) -> Annotations:
    """Change tags and note of a run, atomically and under a lock.

    Raises:
        UsageError: the run would have too many tags.
        StoreError: the annotations cannot be read or written.
    """
    directory = store.directory(run_id)
    with os_error_as(StoreError, "store not writable", directory), locked_run(directory):
        changed = replace(change(read_annotations(directory)), fault=None)
        if len(changed.tags) > MAX_TAGS:
            raise UsageError(f"run {run_id} would have {len(changed.tags)} tags, limit {MAX_TAGS}")
        text = json.dumps({"tags": changed.tags, "note": changed.note}) + "\n"
        write_whole(directory / ANNOTATIONS_FILE, text)
    return changed
