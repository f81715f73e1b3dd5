"""`last` is the last command with all its runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.records import latencies, put_into_store, run_record, worker_record

from edgebench.host.result.facts import CommandFacts, HostFacts, SetMember
from edgebench.host.store.address import find_run, find_runs, names_set
from edgebench.host.store.bundle import write_bundle
from edgebench.host.store.layout import Store

OLDER, NEWER = CommandFacts("command-1", (("a.tflite",),)), CommandFacts("command-2", ())


def stored(store: Store, second: int, set_id: str | None, command: CommandFacts | None) -> str:
    """Id of a run that is stored as made by a command, at this second."""
    run_id = f"20260103-0000{second:02}-0000000{second % 10}"
    latency_ns = latencies(100)
    member = None if set_id is None else SetMember(set_id, second, 4)
    facts = HostFacts(member=member, command=command)
    put_into_store(store, run_record(worker_record(latency_ns), run_id), latency_ns, facts=facts)
    return run_id


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """An empty store."""
    return Store(tmp_path / "store")


def found(store: Store, name: str = "last") -> list[str]:
    """Ids of the runs with this name."""
    return [address.run_id for address in find_runs(store, name)]


def test_last_is_every_set_of_the_last_command(store: Store) -> None:
    """Otherwise a report of two models would show one run of the second one."""
    stored(store, 1, "set-00000001", OLDER)
    runs = [
        stored(store, 10 + number, f"set-0000000{number % 2 + 2}", NEWER) for number in range(4)
    ]
    assert found(store) == runs
    assert not names_set(store, "last"), "there are two sets"
    assert find_run(store, "last").run_id == runs[-1], "where only one run is possible"


def test_last_may_be_a_single_set(store: Store) -> None:
    """Otherwise `show last` would print a table in place of the page of the set."""
    runs = [stored(store, 10 + number, "set-00000001", NEWER) for number in range(2)]
    assert found(store) == runs
    assert names_set(store, "last")


def test_last_of_an_older_version_is_its_set(store: Store) -> None:
    """Otherwise one run of a set, or every run that has no command, would be shown."""
    stored(store, 1, None, None)
    runs = [stored(store, 10 + number, "set-00000001", None) for number in range(2)]
    assert found(store) == runs
    alone = stored(store, 20, None, None)
    assert found(store) == [alone]


def test_last_in_a_bundle_is_its_last_command(store: Store, tmp_path: Path) -> None:
    """Otherwise the name would mean something else in a file that was sent."""
    stored(store, 1, "set-00000001", OLDER)
    runs = [stored(store, 10 + number, "set-00000002", NEWER) for number in range(2)]
    path = tmp_path / "sent.zip"
    write_bundle(path, [address for name in store.run_ids() for address in find_runs(store, name)])
    assert found(store, f"{path}#last") == runs
    assert names_set(store, f"{path}#last")
    assert find_run(store, f"{path}#last").run_id == runs[-1]


def test_command_is_in_the_document(store: Store) -> None:
    """Otherwise a script could not tell which runs belong together, or measure them again."""
    run_id = stored(store, 1, None, OLDER)
    document = json.loads(store.document_path(run_id).read_text())
    assert document["command"] == {"id": "command-1", "arguments": [["a.tflite"]]}
    assert store.run(run_id).command == OLDER
