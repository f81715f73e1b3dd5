"""What a person adds to a stored run: tags, and a note.

They are in a file of their own beside run.json, whose content and digest people rely on. `verify`
does not look at them.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from edgebench.host.store.layout import ANNOTATIONS_FILE, Store, require_file
from edgebench.protocol.errors import RunDamaged, StoreError, UsageError
from edgebench.protocol.text import printable

MAX_TAG = 64
"""Characters of a tag: it is a column of a table."""
MAX_TAGS = 32
MAX_NOTE = 1000


@dataclass(frozen=True, slots=True)
class Annotations:
    """Tags and note of a run."""

    tags: tuple[str, ...] = ()
    """In the order of the alphabet."""
    note: str | None = None


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
    """Tags and note of the run in this directory.

    Raises:
        RunDamaged: they are not readable.
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
        raise RunDamaged(f"tags and note are not readable: {exc}: {path}") from exc
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
        with _locked(directory):
            changed = change(read_annotations(directory))
            if len(changed.tags) > MAX_TAGS:
                raise UsageError(
                    f"run {run_id} would have {len(changed.tags)} tags, at most {MAX_TAGS}"
                )
            beside = directory / f".{ANNOTATIONS_FILE}"
            beside.write_text(json.dumps(asdict(changed)) + "\n")
            beside.replace(directory / ANNOTATIONS_FILE)
    except OSError as exc:
        raise StoreError(f"store not writable: {exc.strerror}: {directory}") from exc
    return changed


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Keep another process from changing the same run meanwhile."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
