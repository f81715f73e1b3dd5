"""Anonymous reports: no name of a person, a machine or a place anywhere in the file."""

from __future__ import annotations

import getpass
import socket
from dataclasses import replace

import pytest
from support.reported import METERED, PLAIN, campaign_facts, campaign_sets, reported, stored_run

from edgebench.host.report.anonymous import Anonymizer
from edgebench.host.report.page import campaign_report, run_report
from edgebench.host.report.subject import ReportedRun
from edgebench.host.result.migrations import AS_STORED
from edgebench.host.result.run import Failure, Run
from edgebench.host.store.annotations import Annotations

SECRETS = (
    "kitchen-pi",
    "0011223344556677",
    "lovelace",
    "/home/lovelace/secret",
    "192.168.7.23",
    "fe80::1ff:fe23:4567:890a",
    "b8:27:eb:12:34:56",
    "lab3.example.org",
    "E45F3A0C77B2",
    "rack-7.local",
    "ttyACM0",
    "quarterly",
)


def telling_run() -> Run:
    """A run whose texts contain every kind of identifying name."""
    run = stored_run(METERED)
    energy = run.metrics.energy
    assert energy is not None
    text = (
        "lovelace@lab3.example.org could not open /home/lovelace/secret/net.tflite on kitchen-pi "
        "(192.168.7.23, fe80::1ff:fe23:4567:890a, b8:27:eb:12:34:56, rack-7.local:8750), "
        "https://lab3.example.org/x, /dev/ttyACM0, meter E45F3A0C77B2 lost samples"
    )
    [first, *others] = run.verdict.rules
    return replace(
        run,
        device=replace(run.device, name="kitchen-pi", id="0011223344556677"),
        spec=replace(run.spec, delegate="/home/lovelace/secret/libedge.so"),
        metrics=replace(
            run.metrics,
            energy=replace(
                energy,
                meter="Nordic PPK2 E45F3A0C77B2",
                boundary="board",
                net_refused=text,
            ),
        ),
        verdict=replace(
            run.verdict, rules=(replace(first, reason=AS_STORED, detail=text), *others)
        ),
        conditions=replace(run.conditions, telemetry_absent={"fan": text}, inputs_file="x.npz"),
    )


def test_page_has_no_identifying_names() -> None:
    """Otherwise a page on a public bug tracker would have the serial number of a meter."""
    run = telling_run()
    added = Annotations(tags=("quarterly",), note="lovelace's kitchen-pi")
    open_page = run_report([ReportedRun(run, None, added)])
    missing = [secret for secret in SECRETS if secret not in open_page]
    assert missing == [], "the test would find nothing"
    page = run_report([ReportedRun(run, None, added)], is_anonymous=True)
    assert [secret for secret in SECRETS if secret in page] == []
    assert "device 1" in page
    assert "Nordic PPK2" in page


def test_failed_run_has_no_identifying_names() -> None:
    """Errors contain paths and hosts."""
    run = replace(
        telling_run(),
        failure=Failure(code="worker_died", message="kitchen-pi: /home/lovelace/secret/x"),
    )
    page = run_report([ReportedRun(run, None)], is_anonymous=True)
    assert [secret for secret in SECRETS if secret in page] == []


def test_host_and_user_of_this_machine_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The agent of this machine reports the machine's own name."""
    monkeypatch.setattr(socket, "gethostname", lambda: "difference-engine")
    monkeypatch.setattr(getpass, "getuser", lambda: "lovelace")
    text = Anonymizer([]).text("lovelace at difference-engine, or /srv/x; not lovelaces")
    assert text == "[name] at [name], or [path]; not lovelaces"


def test_numbers_and_traces_stay() -> None:
    """Otherwise an anonymous page of a metered run would lack its power."""
    plain, anonymous = (
        run_report(reported(METERED), is_anonymous=is_anonymous) for is_anonymous in (False, True)
    )
    assert anonymous.count("data-value") == plain.count("data-value")
    assert '"title": "Power"' in anonymous
    assert "board" in plain


def test_one_device_has_one_name() -> None:
    """Otherwise two devices would become one, and their comparison be meaningless."""
    runs = [
        replace(stored_run(PLAIN), device=replace(stored_run(PLAIN).device, name=name, id=name * 2))
        for name in ("pi", "jetson", "pi")
    ]
    anonymizer = Anonymizer(runs)
    names = [anonymizer.run(run).device.name for run in runs]
    assert names == ["device 1", "device 2", "device 1"]
    assert anonymizer.text("jetsonjetson, not pix") == "device 2, not pix"


def test_campaign_has_no_identifying_names() -> None:
    """The plan contains paths of models, and the farm names of devices."""
    page = campaign_report(campaign_facts(campaign_sets()), is_anonymous=True)
    for secret in ("pi5", "jetson", "/home", "lovelace/"):
        assert secret not in page
    assert "device 2: digits_int8.onnx" in page
    assert "digits_fp32.onnx → digits_int8.onnx" in page


@pytest.mark.parametrize(
    "text",
    ["CONV_2D 12.5 %", "p50 1.2.3", "12:34:56", "f32[1,2]", "ratio 3/4", "≥ 5 s", "a b c"],
)
def test_other_texts_stay(text: str) -> None:
    """Otherwise a version or a time of day would be taken for an address."""
    assert Anonymizer([]).text(text) == text
