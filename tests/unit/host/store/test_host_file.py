"""The copy of a host's facts on a device, for the other hosts of its lab."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.records import JUDGED, LABELS

from edgebench.host.result.facts import HostFacts, Pair
from edgebench.host.store.files import read_facts, write_facts
from edgebench.host.store.host_file import MAX_FACTS_BYTES, packed_facts, unpack_facts
from edgebench.host.store.layout import HOST_FACTS_FILE, LABELS_FILE, RAW_DIRECTORY
from edgebench.protocol.codec import MAX_PAYLOAD_BYTES
from edgebench.protocol.errors import RunDamaged
from edgebench.protocol.traces import HOST_FILE


def directory_in(root: Path, host_file: bytes | None = None) -> Path:
    """A run's directory, as it is before or after its files were fetched."""
    raw = root / RAW_DIRECTORY
    raw.mkdir(parents=True)
    if host_file is not None:
        (raw / HOST_FILE).write_bytes(host_file)
    return root


def packed(root: Path, facts: HostFacts, labels: dict[str, Any]) -> bytes:
    """The data that a host with these facts sends."""
    directory = directory_in(root)
    write_facts(directory, facts, labels)
    return packed_facts(directory)


def test_facts_and_labels_travel_with_the_run(tmp_path: Path) -> None:
    """Otherwise the second host of a lab would know neither the set of a run nor its accuracy."""
    told = packed(tmp_path / "a", JUDGED, {"y": LABELS})
    directory = directory_in(tmp_path / "b", told)
    unpack_facts(directory)
    assert read_facts(directory) == JUDGED
    with np.load(directory / RAW_DIRECTORY / LABELS_FILE) as file:
        assert file["y"].tolist() == LABELS.tolist()
    assert not (directory / RAW_DIRECTORY / HOST_FILE).exists()


def test_labels_that_do_not_fit_stay_with_their_host(tmp_path: Path) -> None:
    """Otherwise a data set of a megabyte would keep its run from being started."""
    told = packed(tmp_path / "a", JUDGED, {"y": np.zeros(MAX_PAYLOAD_BYTES // 8)})
    directory = directory_in(tmp_path / "b", told)
    unpack_facts(directory)
    assert read_facts(directory) == JUDGED
    assert not (directory / RAW_DIRECTORY / LABELS_FILE).exists()


def test_own_copy_counts(tmp_path: Path) -> None:
    """Otherwise a device would overwrite what the host itself requested."""
    told = packed(tmp_path / "a", HostFacts(pair=Pair("other", 0, "baseline")), {"y": LABELS})
    directory = directory_in(tmp_path / "b", told)
    write_facts(directory, JUDGED, {})
    unpack_facts(directory)
    assert read_facts(directory) == JUDGED
    names = {path.name for path in (directory / RAW_DIRECTORY).iterdir()}
    assert names == {HOST_FACTS_FILE}


TRACE = {"name": "x", "sha256": "../../../.."}


@pytest.mark.parametrize(
    "host_file",
    [
        b"",
        b"no json\n",
        b"[]\n",
        b'{"ambient_c": NaN}\n',
        b'{"ambient_c": 1e999}\n',
        b'{"ambient_c": "22"}\n',
        b'{"pair": {"comparison_id": 1, "number": 0, "side": "baseline"}}\n',
        json.dumps({"energy": {"meter": "x", "trace": TRACE}}).encode() + b"\n",
        b'{"dataset": "' + b"x" * MAX_FACTS_BYTES + b'"}\n',
        b"{}\nPK no archive",
        b"[" * 50_000 + b"\n",
        b"{}\n" + bytes(MAX_PAYLOAD_BYTES),
    ],
    ids=lambda data: data[:24].decode(),
)
def test_facts_that_make_no_sense_are_refused(tmp_path: Path, host_file: bytes) -> None:
    """Otherwise a hostile device would write into the result, or end the collecting command."""
    directory = directory_in(tmp_path, host_file)
    with pytest.raises(RunDamaged, match="from the device"):
        unpack_facts(directory)
    assert not (directory / RAW_DIRECTORY / HOST_FACTS_FILE).exists()


def test_texts_of_a_device_are_made_printable(tmp_path: Path) -> None:
    """Otherwise the name of a data set would clear the terminal."""
    directory = directory_in(tmp_path, b'{"dataset": "\\u001b[2J"}\n')
    unpack_facts(directory)
    dataset = read_facts(directory).dataset
    assert dataset is not None
    assert "\x1b" not in dataset
