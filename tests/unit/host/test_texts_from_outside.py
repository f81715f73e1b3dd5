"""External texts are made printable wherever they enter, so that no print has to check."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from support.records import run_record, worker_record

from edgebench.agent.identity import _load_hosts
from edgebench.host.bench.verify import Difference
from edgebench.host.devices.account import parse_answer
from edgebench.host.devices.files import HostFiles
from edgebench.host.devices.on_device import StepReport
from edgebench.host.store.files import read_record
from edgebench.host.transports import mdns
from edgebench.meters.base import AbsentMeter, Channel, MeterInfo
from edgebench.protocol import messages as m
from edgebench.protocol.codec import decode, encode
from edgebench.protocol.errors import EdgebenchError, NoSpace, error_from_code
from edgebench.protocol.plain import to_plain

EVIL = "\x1b[2J\x9b31m\n\rerror: forged\t\u202etxt\u2066\u200b\x00"
"""Clears the screen, forges a line, reverses the text."""


def test_every_error_is_one_printable_line() -> None:
    """Otherwise a file's column, a plug's name or a library's message would clear the screen."""
    for error in (EdgebenchError(EVIL), NoSpace(f"disk: {EVIL}"), error_from_code(8, EVIL)):
        assert str(error).isprintable()
        assert "error: forged" in str(error)


def test_message_over_the_wire() -> None:
    """Otherwise a device's name would clear its host's screen, and a host's name the agent's."""
    frame = decode(encode(1, m.Hello(1, EVIL, EVIL, EVIL)))
    hello = cast(m.Hello, frame.message)
    assert hello.software.isprintable()
    assert hello.host_name.isprintable()


def test_answer_over_ssh() -> None:
    """Otherwise an account on a device would write to the terminal that deploys."""
    report = parse_answer(json.dumps({"error": EVIL, "warnings": [EVIL]}), StepReport, source="x")
    assert all(text.isprintable() for text in (report.error or "", *report.warnings))


def test_list_of_devices_of_an_older_version(tmp_path: Path) -> None:
    """Otherwise a name that was stored before texts were made printable would be shown for ever."""
    device = {"name": EVIL, "id": EVIL, "pin": EVIL, "addresses": [EVIL], "port": 1, "via": EVIL}
    (tmp_path / "devices.json").write_text(json.dumps([device]))
    (known,) = HostFiles(tmp_path).devices()
    texts = (known.name, known.id, known.pin, *known.addresses, known.via)
    assert all(map(str.isprintable, texts))


def test_list_of_hosts_of_an_older_version(tmp_path: Path) -> None:
    """Otherwise the log of an agent would have forged lines; its certificates are unchanged."""
    host = {"fingerprint": "a", "name": EVIL, "certificate_pem": "-----\nAB\n-----\n"}
    (tmp_path / "hosts.json").write_text(json.dumps([host]))
    (known,) = _load_hosts(tmp_path / "hosts.json")
    assert known.name.isprintable()
    assert known.certificate_pem == host["certificate_pem"]


@pytest.mark.parametrize("has_name", [True, False])
def test_announcement_on_the_network(monkeypatch: pytest.MonkeyPatch, has_name: bool) -> None:
    """Otherwise any host on the network could clear the screen of `edgebench devices`."""
    keys = {"name": EVIL, "pin": EVIL, "id": EVIL, EVIL: EVIL} if has_name else {"id": EVIL}
    info = SimpleNamespace(
        port=1,
        properties={key.encode("utf-8"): value.encode() for key, value in keys.items()},
        load_from_cache=lambda _: True,
        parsed_addresses=lambda: ["192.0.2.1"],
    )
    monkeypatch.setattr(mdns, "ServiceInfo", lambda *_: info)
    heard = mdns._resolve(cast(Any, None), EVIL)
    assert heard is not None
    assert all(map(str.isprintable, (heard.id, heard.endpoint.name, heard.endpoint.pin)))


def test_record_of_a_run_and_the_stored_run(tmp_path: Path) -> None:
    """Otherwise a model's tensor, or a device, would write to the terminal that shows the run."""
    record = run_record(worker_record([1] * 3))
    plain = to_plain(record)
    plain["device"]["name"] = plain["worker"]["inputs"][0]["name"] = EVIL
    (tmp_path / "raw").mkdir()
    (tmp_path / "raw" / "record.json").write_text(json.dumps(plain))
    read = read_record(tmp_path)
    assert read.worker is not None
    assert read.device.name.isprintable()
    assert read.worker.inputs[0].name.isprintable()


def test_instrument() -> None:
    """Covers the response to *IDN?, the serial number of a USB device, and the name of a plug."""
    info = MeterInfo(vendor=EVIL, model=EVIL, serial=EVIL, firmware=EVIL)
    texts = (info.vendor, info.model, info.serial, info.firmware, AbsentMeter(EVIL).reason)
    assert all(map(str.isprintable, (*texts, Channel(EVIL, "board").name)))


def test_key_of_a_changed_run() -> None:
    """Otherwise a changed run would control the terminal of `edgebench verify`."""
    assert Difference(EVIL, 1, 2).key.isprintable()
