"""The page of a run: its numbers are those of run.json, and all its content is text."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import runpy
import socket
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from markupsafe import escape
from support.reported import (
    BASELINE,
    CANDIDATE,
    INVALID,
    METERED,
    PLAIN,
    PROFILE,
    campaign_facts,
    campaign_sets,
    numbers_on,
    reported,
    runs_of_set,
    stored_run,
    with_energy,
)
from support.tools import ROOT_OF_CHECKOUT

from edgebench.host.analysis.compare.runs import compare_pairs
from edgebench.host.analysis.run_set import alone, find_sets
from edgebench.host.analysis.verdict.table import RULES
from edgebench.host.cli import report
from edgebench.host.lab import Lab
from edgebench.host.report.campaign import campaign_part
from edgebench.host.report.comparison import ratio_rows
from edgebench.host.report.conditions import command_of, commands_of
from edgebench.host.report.page import campaign_report, name_of, run_report, write_report
from edgebench.host.report.subject import ReportedRun
from edgebench.host.report.suspect_sections import SECTIONS_FILE, section_of
from edgebench.host.result.facts import BASELINE as BASELINE_SIDE
from edgebench.host.result.facts import CANDIDATE as CANDIDATE_SIDE
from edgebench.host.result.facts import CommandFacts, Pair
from edgebench.host.result.metrics import METRICS
from edgebench.host.result.migrations import AS_STORED
from edgebench.host.result.outputs import Accuracy
from edgebench.host.result.run import Failure, Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.verdict import Finding, NumberKind, RuleOutcome, State, Verdict
from edgebench.host.show.verdict import cause_texts
from edgebench.host.store.annotations import Annotations
from edgebench.host.store.layout import RAW_DIRECTORY
from edgebench.protocol.errors import NoSuchRun, UsageError
from edgebench.protocol.record import EmulatorFacts, FirmwareFacts
from edgebench.protocol.traces import RECORD_FILE
from edgebench.system.exit_code import ExitCode

PAIR_COUNT = 6
HOSTILE = "<script>alert(1)</script>\"'&=cmd|' /C'!A1</title><img src=x onerror=alert(2)>"


@pytest.mark.parametrize("name", [PLAIN, METERED, PROFILE, BASELINE])
def test_numbers_are_those_of_the_run(name: str) -> None:
    """Otherwise a page would have numbers of its own."""
    run = stored_run(name)
    found = numbers_on(run_report(reported(name)))
    expected = {
        path: {float(value)}
        for path, metric in METRICS.items()
        if (value := metric.bounded_value(run)) is not None
    }
    assert len(found) > 5
    assert found == expected


def test_invalid_run_has_reasons_and_traces_and_no_number() -> None:
    """Otherwise a refused number would be quoted."""
    page = run_report(reported(INVALID))
    assert numbers_on(page) == {}
    assert "cannot be trusted and are not shown" in page
    assert 'id="time-1-1-1"' in page
    assert 'id="distribution-1"' not in page
    assert "To improve: " in page


def test_failed_run_says_why() -> None:
    """Otherwise the page would be empty, without a reason."""
    run = stored_run(PLAIN)
    failed = replace(run, failure=Failure(code="worker_died", message="killed by signal 9"))
    page = run_report([ReportedRun(failed, None)])
    assert "The run failed: killed by signal 9 (worker_died)" in page


def test_page_of_a_damaged_run_has_its_numbers(tmp_path: Path) -> None:
    """Otherwise a lost trace would take the result with it."""
    page = run_report([ReportedRun(stored_run(PLAIN), tmp_path)])
    assert "traces left out" in page
    assert len(numbers_on(page)) > 5


def test_run_without_traces_says_that_there_are_only_phases(
    tmp_path: Path,
) -> None:
    """Otherwise an empty picture would look like a broken page."""
    run = stored_run(PLAIN)
    [one] = reported(PLAIN)
    assert one.directory is not None
    raw = tmp_path / RAW_DIRECTORY
    raw.mkdir()
    document = json.loads((one.directory / RAW_DIRECTORY / RECORD_FILE).read_text())
    document |= {"worker": None, "telemetry": {**document["telemetry"], "sensors": []}}
    (raw / RECORD_FILE).write_text(json.dumps(document))
    page = run_report([ReportedRun(run, tmp_path)])
    assert (
        "Only the phases are shown: the run has no trace of latency, power, temperature or clock"
        in page
    )
    assert "Only the phases" not in run_report(reported(PLAIN))


def test_names_are_text() -> None:
    """Otherwise a model's name would be a script in the page of everyone who compares with it."""
    run = stored_run(METERED)
    named = replace(
        run,
        model=replace(run.model, name=HOSTILE),
        device=replace(run.device, name=HOSTILE, soc=HOSTILE),
    )
    page = run_report([ReportedRun(named, None, Annotations(note=HOSTILE)), *reported(PLAIN)])
    assert "<script>alert" not in page
    assert "<img" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") > 3


def test_set_is_not_failed_because_its_first_run_is() -> None:
    """Otherwise a page of four good runs would state that nothing was measured."""
    first, *others = runs_of_set(stored_run(PLAIN))
    failed = replace(
        first,
        failure=Failure(code="worker_died", message="killed by signal 9"),
        verdict=stored_run(INVALID).verdict,
    )
    failed = replace(failed, verdict=replace(failed.verdict, state=State.INVALID))
    page = run_report([ReportedRun(run, None) for run in (failed, *others)])
    assert "The run failed" not in page
    assert 'data-path="latency_ns.p50"' in page
    every = [replace(run, failure=failed.failure) for run in (failed, *others)]
    assert "The run failed: killed by" in run_report([ReportedRun(run, None) for run in every])


@pytest.mark.parametrize("name", [METERED, INVALID])
def test_title_of_a_cause_is_on_a_page_once_and_leads_to_its_section(name: str) -> None:
    """Otherwise a page would repeat itself, and a reader without the docs find no explanation."""
    [run] = reported(name)
    page = run_report([run])
    causes = cause_texts(alone(run.run))
    assert causes
    for cause in causes:
        title = str(escape(cause.title))
        assert len(re.findall(rf'<a href="#rule-[^"]*">{re.escape(title)}</a>', page)) == 1
        is_in_headline = run.run.verdict.is_refused and cause is causes[0]
        assert page.count(title) == 1 + is_in_headline
    links, ids = re.findall(r'href="#([^"]*)"', page), re.findall(r'id="([^"]*)"', page)
    assert set(links) <= set(ids)
    assert len(set(ids)) == len(ids)


def test_sections_are_those_of_the_docs() -> None:
    """Otherwise a page would explain a rule as it was before; devtools/write_suspect_sections.py
    writes the file anew.
    """
    made = runpy.run_path(str(ROOT_OF_CHECKOUT / "devtools" / "write_suspect_sections.py"))
    text = (ROOT_OF_CHECKOUT / "docs" / "suspect.md").read_text("utf-8")
    assert json.loads(SECTIONS_FILE.read_bytes()) == made["sections"](text)
    assert "style=" not in SECTIONS_FILE.read_text("utf-8"), "the policy allows no inline style"
    assert all(section_of(rule.id) is not None for rule in RULES)


def test_nothing_but_its_own_script_and_style_may_run() -> None:
    """Otherwise a browser would refuse the page's own script, or run another."""
    page = run_report(reported(PLAIN))
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert "default-src &#39;none&#39;" in policy
    for tag in ("style", "script"):
        [text] = re.findall(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{tag}-src &#39;sha256-{digest}&#39;" in policy
    assert not re.search(r"src=", page)
    assert set(re.findall(r'href="(.)', page)) <= {"#"}, "links stay in the page"
    assert "http://www.w3.org/2000/svg" in page, "the only address, which nobody asks for"
    assert set(re.findall(r"https?://[^\"'\s]+", page)) == {"http://www.w3.org/2000/svg"}


def test_runs_side_by_side_have_a_ratio_or_a_reason() -> None:
    """Otherwise it would be unclear whether two columns may be compared."""
    page = run_report(reported(BASELINE, CANDIDATE))
    assert re.search(r'data-ratio="latency_ns.p50" data-value="[0-9.]+"', page)
    page = run_report(reported(BASELINE, PLAIN))
    assert re.search(r'data-ratio="latency_ns.p50" data-value="[0-9.]+"', page), "as its headline"
    assert "they differ in" not in page
    assert 'class="different"' in page, "the page shows that the runtimes differ"
    one, other = reported(BASELINE, CANDIDATE)
    threads = replace(other.run, spec=replace(other.run.spec, threads=2))
    page = run_report([one, replace(other, run=threads)])
    assert "runs cannot be compared, they differ in " in page
    assert "--allow threads" in page
    page = run_report(reported(BASELINE, INVALID))
    assert "is invalid" in page


def runs_of_pairs(*, suspect_count: int = 0, runtime: str | None = None) -> list[Run]:
    """Six pairs of runs, some of them suspect; the candidate is slower, on another runtime."""
    runs: list[Run] = []
    for side, name, scale in ((BASELINE_SIDE, "a.onnx", 1.0), (CANDIDATE_SIDE, "b.onnx", 1.5)):
        base = stored_run(PLAIN)
        if side == CANDIDATE_SIDE and runtime is not None:
            base = replace(base, runtime=replace(base.runtime, name=runtime))
        [first, *_] = runs_of_set(base, scale=scale)
        for number in range(PAIR_COUNT):
            is_suspect = side == CANDIDATE_SIDE and number < suspect_count
            state = State.SUSPECT if is_suspect else State.VALID
            run = replace(
                first,
                run_id=f"{first.run_id[:-8]}{number}{side[:7]}",
                member=None,
                pair=Pair("pairs-0a1b2c3d", number, side),
                model=replace(first.model, name=name, sha256=name[0] * 64),
                verdict=replace(first.verdict, state=state),
            )
            runs.append(run)
    return runs


def test_pairs_with_an_invalid_run_stay_pairs() -> None:
    """Otherwise one invalid run of twelve would make the page ignore all pairs."""
    runs = runs_of_pairs()
    broken = replace(runs[-1], verdict=replace(runs[-1].verdict, state=State.INVALID))
    [row] = ratio_rows(find_sets([*runs[:-1], broken]), allowed=["runtime"])
    [comparison] = compare_pairs([*runs[:-1], broken])
    assert (row.ratio, row.interval) == (
        comparison.result.ratio,
        comparison.result.ratio_interval,
    )
    assert row.reason == comparison.result.reason


def test_outcome_of_suspect_runs_is_suspect() -> None:
    """Otherwise untrustworthy runs would show a coloured change with its p value."""
    page = run_report([ReportedRun(run, None) for run in runs_of_pairs()])
    [row] = re.findall(r'<tr class="outcome-worse">.*', page)
    assert "suspect" not in row
    page = run_report([ReportedRun(run, None) for run in runs_of_pairs(suspect_count=2)])
    [row] = re.findall(r'<tr class="outcome-worse">.*', page)
    assert 'worse <span class="badge suspect">suspect</span>' in row
    assert "2 of 12 runs are suspect, so the outcome is suspect" in row


def test_command_that_repeats_pairs_makes_both_sides() -> None:
    """Otherwise the sides would be repeated in sequence: a drift would look like a change."""
    runs = runs_of_pairs()
    page = run_report([ReportedRun(run, None) for run in runs])
    commands = set(re.findall(r"<pre>(.*)</pre>", page))
    assert len(commands) == 1
    [command] = commands
    assert command.startswith("edgebench bench a.onnx --against b.onnx --pairs 6 --runtime ")
    assert "--runs" not in command
    duration_s = runs[0].spec.duration_s
    assert f" --duration {duration_s:g}s" in command, "each run of a pair has all of it"
    [one_side] = commands_of(find_sets(runs[:PAIR_COUNT]))
    assert "--against" not in one_side
    assert "--runs 6" in one_side
    [command, _] = commands_of(find_sets(runs_of_pairs(runtime="other")))
    assert "--allow runtime" in command
    assert "--runtime" not in command


def test_results_of_one_model_have_different_names() -> None:
    """Otherwise two headings would read alike, and the faster result could not be identified."""
    base = stored_run(PLAIN)
    threaded = replace(base, spec=replace(base.spec, threads=4))
    runs = [
        *runs_of_set(base, "set-0a1b2c01"),
        *runs_of_set(base, "set-0a1b2c02"),
        *runs_of_set(threaded, "set-0a1b2c03"),
    ]
    page = run_report([ReportedRun(run, None) for run in runs])
    names = re.findall(r"<h3>\d\. (.*?)</h3>", page)
    name = f"{base.model.name} on board, {base.runtime.name}"
    assert names == [
        f"{name}, threads 1, set-0a1b2c01",
        f"{name}, threads 1, set-0a1b2c02",
        f"{name}, threads 4",
    ]
    page = run_report([ReportedRun(run, None) for run in runs[:5]])
    assert f"<h1>{name}</h1>" in page


def test_sensors_that_cannot_be_read_are_one_condition() -> None:
    """Otherwise ten rows about missing sensors would hide the row that matters."""
    page = run_report(reported(PLAIN))
    rows = dict(re.findall(r'<th scope="row">([^<]*)</th><td class="text">([^<]*)</td>', page))
    assert [name for name in rows if name.startswith("no ")] == []
    for sensor, reason in stored_run(PLAIN).conditions.telemetry_absent.items():
        assert f"{sensor}: {reason}" in rows["not readable"]


def test_page_of_a_set_says_what_is_of_one_run() -> None:
    """Otherwise the energy of one run would contradict the median of five next to it."""
    base = with_energy(stored_run(METERED))
    runs = runs_of_set(base)
    page = run_report([ReportedRun(run, None) for run in runs])
    typical = runs[2].run_id
    assert f"<h2>Energy of run {typical}, one of 5 runs</h2>" in page
    facts = re.findall(r'<th scope="row">(warm-up|thermal)</th><td class="text">([^<]*)', page)
    assert {fact for fact, _ in facts} == {"warm-up", "thermal"}
    assert all(text.startswith(f"run {typical}: ") for _, text in facts)
    assert f"conditions of its first run: {runs[0].run_id}." in page
    page = run_report([ReportedRun(base, None)])
    assert "<h2>Energy</h2>" in page
    assert "first run" not in page


def test_number_of_one_run_of_a_set_names_the_run() -> None:
    """The page does not blame too few runs where the first run alone has the accuracy."""
    runs = runs_of_set(stored_run(PLAIN))
    accuracy = Accuracy("top1", 0.91, None, 100)
    runs[0] = replace(runs[0], metrics=replace(runs[0].metrics, accuracy=accuracy))
    page = run_report([ReportedRun(run, None) for run in runs])
    assert f"no interval: only run {runs[0].run_id} has a value" in page


def test_suspect_number_next_to_a_valid_headline_is_marked() -> None:
    """Otherwise the badge of the page would vouch for a p90 that a second level made."""
    switching = Finding(
        id="steady_state",
        outcome=RuleOutcome.FAIL,
        severity=State.SUSPECT,
        reason=AS_STORED,
        harms=(NumberKind.TAIL,),
        detail="switching between two levels",
    )
    verdict = Verdict(state=State.SUSPECT, rules=(switching,))
    runs = [
        # The stored run drifts; a set of such runs has no valid headline.
        replace(run, verdict=verdict, metrics=replace(run.metrics, warmup=None, stability=None))
        for run in runs_of_set(stored_run(PLAIN))
    ]
    page = run_report([ReportedRun(run, None) for run in runs])
    assert '<strong class="badge valid">valid</strong>' in page
    reason = "the latencies varied for an unknown reason"
    assert "The main metric can be trusted, but tail may be wrong." in page
    assert page.count(reason) == 1
    marked = re.findall(r'<th scope="row">([^<]*) <span class="badge suspect">', page)
    assert "latency_ns.max" in marked
    assert not {"latency_ns.p50", "latency_ns.mean"} & set(marked)


def test_set_has_the_interval_between_its_runs() -> None:
    """Otherwise the page of five runs would show the interval within one of them."""
    runs = runs_of_set(stored_run(PLAIN))
    page = run_report([ReportedRun(run, None) for run in runs])
    assert "95 % CI between 5 runs" in page
    assert "Variation between runs" in page
    medians = [METRICS["latency_ns.p50"].value(run) or 0 for run in runs]
    assert numbers_on(page)["latency_ns.p50"] == {float(np.median(medians))}


def test_energy_has_its_budget() -> None:
    """Otherwise an energy would lack the components of its uncertainty."""
    page = run_report([ReportedRun(with_energy(stored_run(METERED)), None)])
    assert "Sources of uncertainty" in page
    assert "edges of the window" in page
    assert "synthetic power" in page, "nobody measured it"
    [(low, high)] = re.findall(
        r'data-path="energy.gross_j_per_inference" data-value="[^"]*" data-low="([^"]*)" '
        r'data-high="([^"]*)"',
        page,
    )
    assert float(high) - float(low) == pytest.approx(2 * 4.1990906915983985e-05)


def test_campaign_has_all_its_pictures() -> None:
    """Otherwise a kind of picture would be missing in a real campaign."""
    page = campaign_report(campaign_facts(campaign_sets()))
    for title in ("By cell", "Devices and models", "Ratios", "Pareto front", "factor"):
        assert title in page
    assert "pi5: digits_int8.onnx, onnx, threads 1" in page
    assert page.count("heat-0") > 2
    assert page.count("synthetic power") > 10, "beside every number"


def test_campaign_begins_with_its_verdict() -> None:
    """Otherwise a page of doubtful numbers would state the doubt after the last of them."""
    sets = campaign_sets()
    page = campaign_report(campaign_facts(sets))
    assert "The numbers can be trusted: all 4 cells are valid." in page
    suspect = replace(sets[0].verdict, state=State.SUSPECT)
    page = campaign_report(campaign_facts([replace(sets[0], verdict=suspect), *sets[1:]]))
    said = "Of 4 cells, 1 has numbers that may be wrong, 3 can be trusted."
    assert 0 < page.index(said) < page.index("<h2>Progress")


def test_front_joins_only_what_its_axes_show() -> None:
    """A slower, less efficient, but more accurate cell is not joined to a faster cell."""
    sets = campaign_sets()
    runs = [
        replace(run, metrics=replace(run.metrics, accuracy=Accuracy("top1", value, None, 100)))
        for one, value in zip(sets, (0.91, 0.99, 0.90, 0.90), strict=True)
        for run in one.runs
    ]
    front = campaign_part(campaign_facts(find_sets(runs))).front
    assert front is not None
    assert front.accuracy_title == "top1"
    assert [(dot.is_best, dot.is_joined, dot.accuracy) for dot in front.dots] == [
        (True, False, "91.0 %"),
        (True, False, "99.0 %"),
        (False, False, "90.0 %"),
        (True, True, "90.0 %"),
    ]


@pytest.mark.parametrize(
    ("device", "emulator", "expected"),
    [
        ("pi5-simulated", None, "--on pi5-simulated"),
        ("rack/pi5", None, "--on rack/pi5"),
        ("mps2-an386-emulated", EmulatorFacts("QEMU", "7.2", "mps2-an386"), "--on qemu:mps2-an386"),
        (
            "nrf52840-emulated",
            EmulatorFacts("Renode", "1.15", "nrf52840"),
            "--on AGENT/nrf52840-emulated",
        ),
        (socket.gethostname(), None, None),
    ],
)
def test_command_that_repeats_a_run_names_its_device(
    device: str, emulator: EmulatorFacts | None, expected: str | None
) -> None:
    """Otherwise the numbers of a board would be compared with those of the user's laptop."""
    run = stored_run(PLAIN)
    run = replace(run, device=replace(run.device, name=device))
    if emulator is not None:
        firmware = FirmwareFacts("edgebench", "1", "b" * 64, 25e6, emulator)
        run = replace(run, conditions=replace(run.conditions, firmware=firmware))
    command = command_of(alone(run))
    assert (expected is None) == ("--on" not in command)
    assert expected is None or f" {expected} " in command


def test_command_that_repeats_a_demonstration_names_its_board() -> None:
    """Otherwise a copy of the command would measure the user's laptop, and not the board."""
    run = stored_run(PLAIN)
    command = CommandFacts("command-1", (("m.tflite",), ("--sustained", "45s")))
    demo = replace(run, device=replace(run.device, name="pi-simulated"), simulated=True)
    [repeated] = commands_of([alone(replace(demo, command=command))])
    assert " --on pi-simulated" in repeated
    [typed] = commands_of([alone(replace(run, command=command))])
    assert typed == "edgebench bench m.tflite --sustained 45s"


def test_best_cells_are_those_that_nothing_beats() -> None:
    """Otherwise a cell that is slower and needs more energy would be recommended."""
    sets: list[RunSet] = campaign_sets()
    page = campaign_report(campaign_facts(sets))
    rows = re.findall(r'<th scope="row">([^<]+)</th>(?:<td>[^<]*</td>){3}<td>(yes|no)</td>', page)
    assert dict(rows) == {
        f"{name}, onnx, threads 1, synthetic power": is_best
        for name, is_best in (
            ("pi5: digits_int8.onnx", "no"),
            ("pi5: digits_fp32.onnx", "no"),
            ("jetson: digits_int8.onnx", "no"),
            ("jetson: digits_fp32.onnx", "yes"),
        )
    }


def test_command_writes_a_report_and_replaces_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a wrong -o would destroy a file."""
    monkeypatch.chdir(tmp_path)
    lab = Lab(tmp_path / "store", config=tmp_path)
    stored = str(reported(PLAIN)[0].directory)
    path = lab.report(stored)
    assert path == tmp_path / f"edgebench-{PLAIN}.html"
    before = path.read_bytes()
    assert lab.report(stored, output=path) == path
    assert path.read_bytes() == before, "the same run makes the same page"
    other = tmp_path / "thesis.html"
    other.write_text("<html>years of work</html>")
    with pytest.raises(UsageError, match="not an edgebench report"):
        write_report(other, "page")
    with pytest.raises(UsageError, match="report not written"):
        write_report(tmp_path, "page")
    os.mkfifo(pipe := tmp_path / "pipe.html")
    with pytest.raises(UsageError, match="not an edgebench report"):
        write_report(pipe, "page")  # and not block until a writer opens it
    pipe.unlink()
    assert other.read_text() == "<html>years of work</html>"
    with pytest.raises(NoSuchRun):
        lab.report("nothing")
    names = {one.name for one in tmp_path.iterdir()}
    assert names == {path.name, "thesis.html", *({"store"} & names)}


def test_command_says_where_the_file_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Otherwise a script would have to guess the name."""
    output, stored = tmp_path / "one.html", str(reported(INVALID)[0].directory)
    options = report.parser().parse_args([stored, "-o", str(output), "--json"])
    assert report.run(options) is ExitCode.DONE, "written, whatever the verdict"
    said = json.loads(capsys.readouterr().out)
    assert said == {"file": str(output), "size_bytes": output.stat().st_size}


def test_a_browser_that_is_not_there_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise nothing would open, without a reason."""
    monkeypatch.setattr("webbrowser._tryorder", [])
    output, stored = tmp_path / "one.html", str(reported(INVALID)[0].directory)
    options = report.parser().parse_args([stored, "-o", str(output), "--open"])
    assert report.run(options) is ExitCode.DONE
    assert capsys.readouterr().err == f"warning: no browser found to open the report: {output}\n"


def test_file_is_named_after_its_runs() -> None:
    """Otherwise reports of two sets would replace each other."""
    assert name_of(reported(PLAIN)) == PLAIN
    assert name_of(reported(PLAIN, METERED)) == f"{PLAIN}-and-1-more"
    members = [ReportedRun(run, None) for run in runs_of_set(stored_run(PLAIN))]
    assert name_of(members) == "set-0a1b2c3d"
