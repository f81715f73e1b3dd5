"""The commands runs, show and verify: on an empty store, a good run, and a changed run."""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from support.agents import Host
from support.commands import Measured, Run
from support.records import latencies, put_into_store, run_record, worker_record

from edgebench.host.devices.files import HostFiles
from edgebench.host.result.facts import HostFacts, SetMember
from edgebench.host.result.run import SCHEMA_VERSION
from edgebench.host.store.annotations import UNREADABLE
from edgebench.host.store.incomplete import ExpectedRun, write_expectation
from edgebench.host.store.layout import ANNOTATIONS_FILE, Store
from edgebench.system.exit_code import ExitCode


@pytest.fixture
def copied(measured: Measured, host: Host) -> str:
    """The measured run alone, without those of other tests, in this host's store; its id."""
    place = Path("data", "edgebench", "runs", measured.run_id)
    shutil.copytree(measured.host.folder / place, host.folder / place)
    return measured.run_id


def run_file(host: Host, run_id: str) -> Path:
    """The document of a stored run."""
    return host.folder / "data" / "edgebench" / "runs" / run_id / "run.json"


def test_empty_store_has_no_runs_and_says_where_it_is(edgebench: Run, host: Host) -> None:
    """Otherwise a newcomer would see an error, or an empty line."""
    said = edgebench("runs")
    assert (said.code, said.err) == (0, "")
    assert said.out == f"no runs in {host.folder / 'data' / 'edgebench'}\n"
    assert json.loads(edgebench("runs", "--json").out) == {
        "runs": [],
        "incomplete": [],
        "set_aside": [],
    }


def test_lost_run_is_listed_and_removed_when_told(edgebench: Run, host: Host) -> None:
    """Otherwise the rest of a killed agent's run would not be shown, or be removed silently."""
    store, run_id = host.lab.store, "20261122-100000-000aaaaa"
    with store.expecting(run_id) as directory:
        write_expectation(directory, ExpectedRun("id", "board", "tls", "m.tflite", is_lost=True))
        (directory / "raw" / "queries.bin").write_bytes(b"1")
    which = f"run {run_id} of m.tflite on board is no longer on the device: it may have been "
    which += "stored elsewhere (another --store), removed, or lost with its agent"
    lines = edgebench("runs").out.splitlines()
    assert lines[1:] == [
        f"{which}; kept here: queries.bin",
        f"files of lost runs are in {store.unfinished}; to remove the files: "
        "edgebench runs --remove-lost",
    ]
    plain = {
        "run_id": run_id,
        "state": "lost",
        "device": "board",
        "model": "m.tflite",
        "directory": str(directory),
        "recording_s": None,
        "files": ["queries.bin"],
    }
    assert json.loads(edgebench("runs", "--json").out) == {
        "runs": [],
        "incomplete": [plain],
        "set_aside": [],
    }
    assert json.loads(edgebench("runs", "--remove-lost", "--json").out) == {"removed": [plain]}
    said = edgebench("runs", "--remove-lost")
    assert (said.code, said.out) == (0, f"no lost runs in {store.root}\n")


@pytest.mark.parametrize("command", ["show", "verify"])
@pytest.mark.parametrize("name", ["last", "20260101"])
def test_run_that_is_not_there_is_a_usage_error(edgebench: Run, command: str, name: str) -> None:
    """Otherwise a misspelt id would end in a traceback, or show another run."""
    said = edgebench(command, name)
    assert (said.code, said.out) == (2, "")
    error, hint = said.err.splitlines()
    assert error.startswith(f"error: no run matches {name!r} among 0 in ")
    assert hint.startswith("hint: measure a model: edgebench bench MODEL; or open a bundle: ")


def test_hint_for_a_store_without_runs_names_the_store(edgebench: Run, tmp_path: Path) -> None:
    """Otherwise the hint would list or fill another store than the one that was named."""
    for place, words in ((tmp_path / "nowhere", ["runs"]), (tmp_path, ["show", "last"])):
        said = edgebench(*words, "--store", str(place))
        assert said.code == 2
        assert f"edgebench bench MODEL --store {place}; or open" in said.err.splitlines()[1]


@pytest.mark.parametrize("command", ["bundle", "report", "tag"])
def test_failed_run_is_not_handed_on_without_a_word(
    edgebench: Run, host: Host, copied: str, tmp_path: Path, command: str
) -> None:
    """Otherwise a colleague would get a file without numbers when the last attempt failed."""
    options = ("night",) if command == "tag" else ("-o", str(tmp_path / "x.zip"))
    words = (command, "last", *options)
    assert "warning" not in edgebench(*words).err
    path = run_file(host, copied)
    document = json.loads(path.read_text())
    document["failure"] = {"code": "worker_died", "message": "killed", "phase": "loading"}
    path.write_text(json.dumps(document))
    (tmp_path / "x.zip").unlink(missing_ok=True)
    said = edgebench(*words)
    assert said.code == 0
    assert f"warning: run {copied} failed (worker_died) and has no numbers" in said.err


def test_runs_are_listed(edgebench: Run, copied: str) -> None:
    """Otherwise a stored run could not be found again."""
    said = edgebench("runs")
    assert (said.code, said.err) == (0, "")
    (line,) = [line for line in said.out.splitlines() if copied in line]
    assert "digits_int8.tflite" in line
    assert "litert" in line
    (row,) = json.loads(edgebench("runs", "--json").out)["runs"]
    assert row["run_id"] == copied
    assert row["latency_ns_p50"] > 0


@pytest.mark.parametrize("name", ["whole", "part", "last"])
def test_run_is_shown(edgebench: Run, copied: str, name: str) -> None:
    """A stored run is shown as text."""
    said = edgebench("show", {"whole": copied, "part": copied[-8:], "last": "last"}[name], "--all")
    assert (said.code, said.err) == (0, "")
    for expected in (copied, "digits_int8.tflite", "litert", "p50", "verdict", "enough_queries"):
        assert expected in said.out


def test_shown_json_is_the_stored_document(edgebench: Run, host: Host, copied: str) -> None:
    """Otherwise a script would read other numbers than the store holds."""
    said = edgebench("show", "last", "--json")
    assert (said.code, said.err) == (0, "")
    assert json.loads(said.out) == json.loads(run_file(host, copied).read_text())


def test_good_run_is_verified(edgebench: Run, copied: str) -> None:
    """Otherwise every run would be doubted."""
    said = edgebench("verify", "last")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"verified: {copied}: ")
    assert json.loads(edgebench("verify", "last", "--json").out) == {
        "run_id": copied,
        "differences": [],
    }


def test_changed_number_is_told_with_both_values(edgebench: Run, host: Host, copied: str) -> None:
    """Otherwise an edited result would be verified, or a script would not notice."""
    path = run_file(host, copied)
    document = json.loads(path.read_text())
    true_p50 = document["metrics"]["latency_ns"]["p50"]
    document["metrics"]["latency_ns"]["p50"] = 1
    path.write_text(json.dumps(document))
    said = edgebench("verify", "last")
    assert said.code == 1
    assert said.out == f"metrics.latency_ns.p50: stored 1, computed {true_p50}\n"
    told = json.loads(edgebench("verify", "last", "--json").out)
    assert told["differences"] == [
        {"key": "metrics.latency_ns.p50", "stored": 1, "computed": true_p50}
    ]


def test_removed_trace_is_noticed(edgebench: Run, host: Host, copied: str) -> None:
    """Otherwise a run without its raw data would be verified, or end in a traceback."""
    (run_file(host, copied).parent / "queries.parquet").unlink()
    said = edgebench("verify", "last")
    assert (said.code, said.out) == (1, "")
    assert said.err.startswith("error: ")
    assert "queries.parquet" in said.err
    assert "Traceback" not in said.err


def test_damaged_document_is_one_line(edgebench: Run, host: Host, copied: str) -> None:
    """Otherwise a torn file would end in a traceback, and hide the other runs."""
    run_file(host, copied).write_text('{"schema_version": 1, ')
    for command in ("show", "verify"):
        said = edgebench(command, "last")
        assert said.code == 1
        assert said.err.splitlines()[0].startswith("error: run not readable: not JSON: ")
    assert edgebench("runs").code == 0


def test_annotations_that_a_power_cut_emptied_cost_no_number(
    edgebench: Run, host: Host, copied: str, tmp_path: Path
) -> None:
    """Otherwise every command would refuse the run as damaged, and its numbers would be lost."""
    edgebench("tag", copied, "night")
    (run_file(host, copied).parent / ANNOTATIONS_FILE).write_bytes(b"")
    for command in (
        ("show", copied),
        ("verify", copied),
        ("history",),
        ("report", copied, "-o", str(tmp_path / "run.html")),
        ("export", copied, "-o", str(tmp_path / "run.csv")),
        ("bundle", copied, "-o", str(tmp_path / "run.zip")),
        ("show", str(tmp_path / "run.zip")),
    ):
        assert edgebench(*command).code == ExitCode.DONE, command
    assert UNREADABLE in edgebench("show", copied).out
    [row] = json.loads(edgebench("runs", "--json").out)["runs"]
    assert (row["verdict"] == "damaged", row["tags"], row["note"]) == (False, [], UNREADABLE)
    tagged = edgebench("tag", copied, "again")
    assert tagged.out == f"{copied}: again\n"
    assert tagged.err.startswith(f"warning: {UNREADABLE}: not JSON with tags and note: ")
    assert tagged.err.endswith("; replaced; content: nothing\n")
    assert UNREADABLE not in edgebench("show", copied).out


def test_annotations_that_are_replaced_are_shown(edgebench: Run, host: Host, copied: str) -> None:
    """Otherwise one missing brace would lose a note."""
    text = '{"tags": ["important"], "note": "the only calibrated run"'
    (run_file(host, copied).parent / ANNOTATIONS_FILE).write_text(text)
    assert edgebench("tag", copied, "again").err.endswith(f"; replaced; content: {text}\n")


@pytest.mark.parametrize(
    "place", ["run.json", "queries.parquet", "annotations.json", "raw/record.json"]
)
@pytest.mark.parametrize("command", ["show", "verify", "report", "bundle", "export"])
def test_pipe_in_place_of_a_file_is_one_line(
    edgebench: Run, host: Host, copied: str, place: str, command: str
) -> None:
    """Otherwise a run from a stranger with a pipe in it would block every reader for ever."""
    path = run_file(host, copied).parent / place
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    options = ("-o", "run.csv") if command == "export" else ()
    said = edgebench(command, copied, *options)
    assert said.code != 0
    assert f"run is damaged: a pipe in place of a file: {path}" in said.err.splitlines()[0]
    assert edgebench("runs").out.count("damaged") == 1
    assert "Traceback" not in said.err


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
def test_number_that_is_none_makes_a_document_damaged(
    edgebench: Run, host: Host, copied: str, number: str
) -> None:
    """Otherwise a page would show "nan µs" next to the word valid."""
    path = run_file(host, copied)
    document = json.loads(path.read_text())
    document["metrics"]["latency_ns"]["p50"] = float(number)
    path.write_text(json.dumps(document))
    said = edgebench("show", copied)
    assert said.code == ExitCode.FAILED
    assert said.err.startswith(f"error: run is damaged: {number} is not a finite number: ")


def test_store_is_chosen_by_option_then_by_variable(
    edgebench: Run, measured: Measured, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Otherwise a script could write into one store and read another."""
    store = measured.host.folder / "data" / "edgebench"
    assert measured.run_id in edgebench("runs", "--store", str(store)).out
    monkeypatch.setenv("EDGEBENCH_STORE", str(store))
    assert measured.run_id in edgebench("runs").out
    assert "no runs" in edgebench("runs", "--store", str(tmp_path)).out


@pytest.mark.parametrize("words", [["show", "last"], ["show", "last", "--json"], ["history"]])
def test_reader_that_goes_away_is_no_failure(measured: Measured, words: list[str]) -> None:
    """`edgebench show last | head -1` prints no traceback and is no failure for a script."""
    import os

    command = [sys.executable, "-m", "edgebench.host.cli", *words]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | measured.host.environment,
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.stderr is not None
        err = process.stderr.read()
        process.wait(60)
    assert err == ""
    assert process.returncode == ExitCode.NOT_READ


def test_older_run_is_judged_by_the_rules_of_today(edgebench: Run, host: Host) -> None:
    """Otherwise a better rule would not reach stored runs, or would change what was stored."""
    source = Path(__file__).parents[1] / "fixtures" / "runs" / "v6" / "20261122-095638-9427a9c7"
    kept = run_file(host, source.name)
    shutil.copytree(source, kept.parent)
    before = kept.read_bytes()
    assert "precision" not in {rule["id"] for rule in json.loads(before)["verdict"]["rules"]}
    said = edgebench("verify", "last", "--rejudge", "--json")
    assert (said.code, said.err) == (0, "")
    today = json.loads(said.out)
    assert "precision" in {rule["id"] for rule in today["verdict"]["rules"]}
    assert today["run_id"] == source.name
    assert today["schema_version"] == SCHEMA_VERSION
    said = edgebench("verify", source.name, "--rejudge")
    assert said.code == 0
    stored = json.loads(before)["verdict"]["state"]
    assert f"stored: {stored}; today: {today['verdict']['state']}" in said.out
    assert kept.read_bytes() == before


SET_ID = "set-0123abcd"


@pytest.fixture
def stored_set(host: Host) -> list[str]:
    """Three runs of a set of four."""
    store = Store(host.folder / "data" / "edgebench")
    ids = [f"20260102-03040{number}-0123abcd" for number in range(3)]
    for number, run_id in enumerate(ids):
        latency_ns = latencies() + number
        facts = HostFacts(member=SetMember(SET_ID, number, 4))
        record = run_record(worker_record(latency_ns), run_id)
        put_into_store(store, record, latency_ns, facts=facts)
    return ids


def test_every_run_of_a_set_is_verified(edgebench: Run, stored_set: list[str]) -> None:
    """Otherwise `edgebench show SET` would work, and `verify SET` report a missing run."""
    said = edgebench("verify", SET_ID)
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"verified: {SET_ID}: 3 of 4 runs, every number follows")
    assert json.loads(edgebench("verify", SET_ID, "--json").out) == {
        "set_id": SET_ID,
        "planned_count": 4,
        "runs": [{"run_id": run_id, "differences": []} for run_id in stored_set],
    }
    said = edgebench("verify", "set-00000000")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: no set 'set-00000000' in ")


def test_bad_runs_of_a_set_are_named(edgebench: Run, host: Host, stored_set: list[str]) -> None:
    """Otherwise a set with an edited run would be verified, or the remaining runs not checked."""
    path = run_file(host, stored_set[0])
    path.write_text(path.read_text().replace('"simulated": false', '"simulated": true'))
    (run_file(host, stored_set[1]).parent / "queries.parquet").unlink()
    said = edgebench("verify", SET_ID)
    assert said.code == 1
    assert said.out == "simulated: stored True, computed False\n"
    edited, damaged, hint = said.err.splitlines()
    assert edited == f"error: run {stored_set[0]} does not verify: 1 difference from its raw files"
    assert damaged.startswith("error: trace not readable: no such file: ")
    assert f"/{stored_set[1]}/queries.parquet" in damaged
    assert hint.startswith("hint: measure again: edgebench bench")
    found = json.loads(edgebench("verify", SET_ID, "--json").out)["runs"]
    assert [len(one["differences"]) for one in found] == [1, 1, 0]


def test_set_is_judged_by_the_rules_of_today(
    edgebench: Run, host: Host, stored_set: list[str]
) -> None:
    """Otherwise a better rule would reach the runs of a set only one by one."""
    for run_id in stored_set:
        path = run_file(host, run_id)
        document = json.loads(path.read_text())
        document["verdict"]["state"] = "invalid"
        path.write_text(json.dumps(document))
    shown = json.loads(edgebench("show", SET_ID, "--json").out)
    assert shown["verdict"]["state"] == "invalid"
    today = json.loads(edgebench("verify", SET_ID, "--rejudge", "--json").out)
    assert today["verdict"]["state"] == "suspect"
    assert today["run_ids"] == stored_set
    said = edgebench("verify", SET_ID, "--rejudge")
    assert (said.code, said.err) == (0, "")
    assert "stored: invalid; today: suspect" in said.out


def test_runs_have_the_permissions_of_the_umask_and_keys_have_none(measured: Measured) -> None:
    """Otherwise a group could not read shared results, or everyone could read a private key."""
    mask = os.umask(0o022)
    os.umask(mask)
    store = measured.host.folder / "data" / "edgebench"
    for path in (store / "runs").rglob("*"):
        everything = 0o777 if path.is_dir() else 0o666
        assert stat.S_IMODE(path.stat().st_mode) == everything & ~mask, path
    agent = store / "agent"
    assert stat.S_IMODE(agent.stat().st_mode) == 0o700
    identity = HostFiles(measured.host.folder / "config" / "edgebench" / "host").identity_path()
    assert stat.S_IMODE(identity.stat().st_mode) == 0o600
    assert stat.S_IMODE(identity.parent.stat().st_mode) == 0o700


def test_runs_are_tagged_and_listed_by_it(edgebench: Run, host: Host, copied: str) -> None:
    """Otherwise the runs of last night's firmware could be found by their times only."""
    before = run_file(host, copied).read_bytes()
    said = edgebench("tag", "last", "night,fw-7")
    assert (said.code, said.out, said.err) == (0, f"{copied}: fw-7, night\n", "")
    assert edgebench("note", "night", "fan off").out == f"{copied}: fw-7, night; fan off\n"
    assert run_file(host, copied).read_bytes() == before
    assert edgebench("verify", "night").code == 0
    assert "fw-7, night; fan off" in edgebench("runs", "--tag", "night").out
    shown = [line.split() for line in edgebench("show", "fw-7").out.splitlines()]
    assert ["tags", "fw-7,", "night"] in shown
    assert ["note", "fan", "off"] in shown
    (row,) = json.loads(edgebench("runs", "--json", "--last", "1", "--since", "5000w").out)["runs"]
    assert (row["tags"], row["note"]) == (["fw-7", "night"], "fan off")
    said = edgebench("tag", "last", "night", "--remove", "--json")
    assert json.loads(said.out) == {
        "runs": [{"run_id": copied, "tags": ["fw-7"], "note": "fan off"}]
    }
    assert edgebench("note", "last", "").out == f"{copied}: fw-7\n"
    store = host.folder / "data" / "edgebench"
    assert edgebench("runs", "--tag", "night").out == f"no such runs in {store}\n"
    assert json.loads(edgebench("runs", "--json", "--model", "x*").out)["runs"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("tag", "last", "a b"), "not a tag: 'a b'"),
        (("tag", "last", "a,"), "not a tag: ''"),
        (("tag", "last", "last"), "not a tag: 'last'"),
        (("note", "last", "a\nb"), "not a note: 'a\\nb'"),
        (("prune",), "either --older-than 90d or --keep-last N"),
        (("prune", "--keep-last", "-1"), "at least 0, got -1"),
        (("runs", "--last", "0"), "at least 1, got 0"),
        (("runs", "--since", "yesterday"), "not a time: 'yesterday'"),
        (("rm", "20250101"), "no run matches '20250101' among 1"),
    ],
)
def test_words_about_runs_that_make_no_sense_are_refused(
    edgebench: Run, copied: str, words: tuple[str, ...], said: str
) -> None:
    """Otherwise a tag that no command line accepts would be stored, or all runs removed."""
    result = edgebench(*words)
    assert (result.code, result.out) == (2, "")
    assert said in result.err.splitlines()[0]


def test_run_is_removed_when_told_twice(edgebench: Run, host: Host, copied: str) -> None:
    """Otherwise one extra word would remove a night of runs, or a removed run stay in the list."""
    total = sum(one.stat().st_size for one in run_file(host, copied).parent.rglob("*.*"))
    said = edgebench("rm", "last")
    assert (said.code, said.err) == (0, "")
    assert said.out.splitlines()[0] == f"would be removed: {copied}"
    assert said.out.endswith("; to remove: --yes\n")
    (_, found) = (
        json.loads(edgebench("runs", "--json").out)["runs"],
        edgebench("rm", copied, "--json"),
    )
    assert json.loads(found.out)["runs"] == [copied]
    assert json.loads(found.out)["is_removed"] is False
    assert json.loads(found.out)["size_bytes"] >= total > 0
    assert edgebench("rm", "last", "--yes").out.startswith(f"removed: {copied}\n1 run, ")
    assert json.loads(edgebench("runs", "--json").out)["runs"] == []
    assert not run_file(host, copied).parent.exists()
    assert not (host.folder / "data" / "edgebench" / "removed").exists()


def test_old_runs_are_pruned(edgebench: Run, host: Host, copied: str) -> None:
    """Otherwise the store would fill the disk, or today's runs be removed with last year's."""
    for words in (("--older-than", "1d"), ("--keep-last", "1")):
        said = edgebench("prune", *words, "--yes")
        assert (said.code, said.out) == (0, "0 runs, 0 B\n")
    said = edgebench("prune", "--older-than", "9999-01-01")
    assert said.out.splitlines()[0] == f"would be removed: {copied}"
    assert run_file(host, copied).exists()
    edgebench("prune", "--keep-last", "0", "--yes")
    assert not run_file(host, copied).exists()


def test_directory_of_a_run_is_a_name(
    edgebench: Run, copied: str, host: Host, tmp_path: Path
) -> None:
    """Otherwise a colleague's run would have to be copied into the store to be viewed."""
    sent = tmp_path / "sent"
    run_file(host, copied).parent.rename(sent)
    assert copied in edgebench("show", str(sent)).out
    assert edgebench("verify", str(sent)).code == 0
    said = edgebench("tag", str(sent), "night")
    assert said.code == 2
    assert "not a run of the store" in said.err
