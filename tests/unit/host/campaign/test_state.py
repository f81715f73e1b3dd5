"""What is done, what failed and what is left, from the store and the journal."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.records import store_run

from edgebench.host.campaign.campaign import Campaign
from edgebench.host.campaign.journal import (
    Journal,
    Refusal,
    begin_journal,
    find_journal,
)
from edgebench.host.campaign.lanes import is_over
from edgebench.host.campaign.plan import CampaignPlan, PlannedRun, new_plan
from edgebench.host.campaign.run import may_pass
from edgebench.host.campaign.spec import DEFAULT_RETRY, Axes, CampaignSpec
from edgebench.host.campaign.state import MAX_LOST, Attempt, RunState, campaign_state, judged
from edgebench.host.report.page import campaign_report
from edgebench.host.store.index import RunSummary
from edgebench.host.store.layout import JOURNAL_FILE, PLAN_FILE, Store
from edgebench.protocol.errors import CampaignDamaged, CampaignRunning, NoSuchCampaign, SeatLeft

RUN = PlannedRun(0, 0)
RETRY = {"worker_died": 1, "invalid": 1}


def plan_of(name: str = "nightly") -> CampaignPlan:
    """Return the plan of two runs of one cell."""
    spec = CampaignSpec(schema=1, name=name, axes=Axes(model=("digits_int8.tflite",)), repeats=2)
    return new_plan(spec, Path("campaign.toml"), lambda _: ["local"])


def run_id(number: int, plan_id: str = "c000000") -> str:
    """Return the id of an attempt."""
    return f"20261123-050607-{plan_id}-0000-000-{number:02d}"


def stored(verdict: str = "valid", failure: str | None = None, number: int = 1) -> Attempt:
    """Return an attempt that is stored."""
    values: dict[str, Any] = dict.fromkeys(RunSummary.__dataclass_fields__)
    return Attempt(run_id(number), RunSummary(**values | {"verdict": verdict, "failure": failure}))


LOST = Attempt(run_id(1), is_gone=True)
STOPPED = replace(stored("invalid"), refusal=Refusal("run_stopped", ""))


@pytest.mark.parametrize(
    ("attempts", "state"),
    [
        ([], RunState.LEFT),
        ([Attempt(run_id(1))], RunState.UNSETTLED),
        ([LOST], RunState.LEFT),
        ([LOST, stored(number=2)], RunState.MEASURED),
        ([LOST] * MAX_LOST, RunState.FAILED),
        ([LOST] * (MAX_LOST - 1) + [stored()], RunState.MEASURED),
        ([stored()], RunState.MEASURED),
        ([stored("suspect")], RunState.MEASURED),
        ([stored("invalid")], RunState.LEFT),
        ([stored("invalid")] * 2, RunState.MEASURED),
        ([stored("failed", "worker_died")], RunState.LEFT),
        ([stored("failed", "worker_died")] * 2, RunState.FAILED),
        ([stored("failed", "model_refused")], RunState.FAILED),
        ([Attempt(run_id(1), refusal=Refusal("usage", "no"))], RunState.FAILED),
        ([STOPPED] * 9, RunState.LEFT),
        ([stored("failed", "no_space")] * 9, RunState.LEFT),
        ([stored("failed", "lease_held")] * 9, RunState.LEFT),
        # Each kind of error has attempts of its own.
        ([stored("failed", "worker_died"), stored("invalid")], RunState.LEFT),
    ],
)
def test_state_follows_from_the_attempts(attempts: list[Attempt], state: RunState) -> None:
    """Otherwise what is done would be made again, or what was lost be taken for done."""
    assert judged(RUN, attempts, RETRY).state is state


def test_intent_is_on_disk_before_it_is_acted_upon(tmp_path: Path) -> None:
    """Otherwise a host that is killed would start a run twice."""
    plan, store = plan_of(), Store(tmp_path)
    journal = begin_journal(store, plan)
    journal.intend(run_id(1, plan.id))
    state = campaign_state(store, Journal(journal.directory))
    assert state.runs[RUN].state is RunState.UNSETTLED
    assert state.count(RunState.LEFT) == 1
    assert state.runs[RUN].next_number == 2


def test_intent_of_which_nothing_came_is_no_attempt(tmp_path: Path) -> None:
    """Otherwise a device whose disk is full for a night would use up its attempts."""
    plan, store = plan_of(), Store(tmp_path)
    journal = begin_journal(store, plan)
    for _ in range(2 * MAX_LOST):
        journal.intend(run_id(1, plan.id))
        journal.withdraw(run_id(1, plan.id))
    assert campaign_state(store, journal).runs[RUN].state is RunState.LEFT
    assert campaign_state(store, journal).runs[RUN].next_number == 1
    journal.intend(run_id(1, plan.id))  # in the same second
    assert campaign_state(store, journal).runs[RUN].state is RunState.UNSETTLED


def test_half_a_line_counts_for_nothing_and_spoils_no_other(tmp_path: Path) -> None:
    """Otherwise a host that was killed while it wrote could not resume."""
    plan, store = plan_of(), Store(tmp_path)
    journal = begin_journal(store, plan)
    journal.intend(run_id(1, plan.id))
    with journal.path.open("ab") as file:
        file.write(b'{"event": "intent", "run_id": "2026')
    journal.refuse(run_id(2, plan.id), Refusal("usage", "no\x1b[2J"))
    journal.path.write_bytes(journal.path.read_bytes() + b'\n[1]\n{"event": "gone"}\n\xff\n')
    record = journal.read()
    assert list(record.intended) == [run_id(1, plan.id), run_id(2, plan.id)]
    assert record.refused[run_id(2, plan.id)].message.isprintable()
    assert record.gone == set()


@pytest.mark.parametrize(
    "line",
    [
        '{"event": "intent", "at_utc": "2026-01-01T00:00:00+00:00", "run_id": 5}',
        '{"event": "intent", "at_utc": "2026-01-01T00:00:00+00:00", "run_id": null}',
        '{"event": "refused", "at_utc": "", "run_id": "RUN", "code": ["x"], "message": ""}',
        '{"event": "lane", "at_utc": 1, "device": "local", "state": "ended", "reason": ""}',
        "[" * 100_000,
        "null",
    ],
)
def test_line_that_makes_no_sense_counts_for_nothing(tmp_path: Path, line: str) -> None:
    """Otherwise one damaged line would hide the campaign, and prevent its resumption."""
    plan = plan_of()
    journal = begin_journal(Store(tmp_path), plan)
    journal.path.write_text(line.replace("RUN", run_id(1, plan.id)) + "\n")
    journal.intend(run_id(2, plan.id))
    state = campaign_state(Store(tmp_path), journal)
    assert [attempt.run_id for attempt in state.runs[RUN].attempts] == [run_id(2, plan.id)]
    assert state.lanes == {}


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("cells", [], r"a plan must have 1\.\.10000 cells, got 0"),
        ("repeats", 10**9, r"repeats must be 1\.\.999, got 1000000000"),
        ("number", 7, "cells of the plan are not numbered consecutively from 0"),
        ("name", 7, "expected str"),
    ],
)
def test_plan_that_makes_no_sense_is_told(
    tmp_path: Path, key: str, value: object, said: str
) -> None:
    """Otherwise a damaged plan would end in a traceback, or in a count to a thousand million."""
    journal = begin_journal(Store(tmp_path), plan_of())
    path = journal.directory / PLAN_FILE
    document = json.loads(path.read_text())
    {"repeats": document["spec"], "number": document["cells"][0]}.get(key, document)[key] = value
    path.write_text(json.dumps(document))
    for name in (journal.directory.name, "last"):
        with pytest.raises(CampaignDamaged, match=f"^campaign is damaged: .*{said}"):
            find_journal(Store(tmp_path), name)


@pytest.mark.parametrize("name", [PLAN_FILE, JOURNAL_FILE])
def test_pipe_in_place_of_a_file_of_a_campaign_is_told(tmp_path: Path, name: str) -> None:
    """Otherwise viewing a stranger's campaign, or even reporting a run, would wait for ever."""
    store = Store(tmp_path)
    journal = begin_journal(store, plan_of())
    (journal.directory / name).unlink(missing_ok=True)
    os.mkfifo(journal.directory / name)
    with pytest.raises(CampaignDamaged, match=r"^campaign is damaged: a pipe in place of a file: "):
        campaign_state(store, journal)
    if name == PLAN_FILE:
        with pytest.raises(NoSuchCampaign):  # the name of a run is looked up among campaigns too
            find_journal(store, "20260101-000000-aaaaaaaa")


def test_damaged_run_has_no_result_and_hides_no_other(tmp_path: Path) -> None:
    """Otherwise a torn document would keep a whole night of measurements from being reported."""
    store = Store(tmp_path)
    plan = plan_of()
    begin_journal(store, plan)
    ids = [f"20261123-050607-{plan.id}-0000-00{repeat}-01" for repeat in range(2)]
    for one in ids:
        store_run(store, one)
    store.document_path(ids[0]).write_text("{")
    campaign = Campaign(store)
    assert [run.run_id for run in campaign.results()] == ids[1:]
    assert [row["code"] for row in campaign.rows()] == ["damaged", None]
    assert campaign_report(campaign.report_facts())


def test_device_that_may_keep_a_run_is_visited_again(tmp_path: Path) -> None:
    """Otherwise a device would keep its last run for ever.

    The host may be killed between storing the run and acknowledging it.
    """
    plan, store = plan_of(), Store(tmp_path)
    journal = begin_journal(store, plan)
    for repeat in range(2):
        name = f"20261123-050607-{plan.id}-0000-{repeat:03d}-01"
        journal.refuse(name, Refusal("model_refused", "no"))
    assert campaign_state(store, journal).is_over
    seen = []
    for note in ("measuring", "waiting", "ended"):
        journal.note_lane("local", note)
        seen.append(is_over(campaign_state(store, journal), "local"))
    assert seen == [False, False, True]


def test_attempts_of_another_campaign_do_not_count(tmp_path: Path) -> None:
    """Otherwise two campaigns of one file would be taken for one."""
    plan, store = plan_of(), Store(tmp_path)
    journal = begin_journal(store, plan)
    journal.intend(run_id(1, "cffffff"))
    assert campaign_state(store, journal).count(RunState.LEFT) == 2


def test_campaign_is_found_by_id_name_and_as_the_last(tmp_path: Path) -> None:
    """Otherwise `resume` would go on with a campaign of last month."""
    store = Store(tmp_path)
    with pytest.raises(NoSuchCampaign, match="no campaigns in"):
        find_journal(store)
    plans = [
        replace(plan_of(name), created_utc=f"2026-11-2{number}T00:00:00+00:00")
        for number, name in enumerate(("a", "b", "a"))
    ]
    for plan in plans:
        begin_journal(store, plan)
    (tmp_path / "campaigns" / "cempty").mkdir()
    assert find_journal(store).directory.name == plans[2].id
    assert find_journal(store, "a").directory.name == plans[2].id
    assert find_journal(store, "b").directory.name == plans[1].id
    assert find_journal(store, plans[0].id).plan() == plans[0]
    with pytest.raises(NoSuchCampaign, match=r"no campaign 'c' in .*; available: a, b"):
        find_journal(store, "c")


def test_only_one_process_makes_the_runs_of_a_campaign(tmp_path: Path) -> None:
    """Otherwise two terminals could resume the same night, and start every run twice."""
    journal = begin_journal(Store(tmp_path), plan_of())
    assert not journal.is_held
    with journal.held():
        other = Journal(journal.directory)
        assert other.is_held
        with pytest.raises(CampaignRunning, match="is being run by another process"), other.held():
            pass
    assert not journal.is_held


def test_lanes_say_what_was_last_heard(tmp_path: Path) -> None:
    """Otherwise a device that was given up would look as if it were still measured."""
    journal = begin_journal(Store(tmp_path), plan_of())
    journal.note_lane("local", "measuring")
    journal.note_lane("local", "given_up", "no answer")
    note = journal.read().lanes["local"]
    assert (note.state, note.reason) == ("given_up", "no answer")
    entries = [json.loads(line) for line in journal.path.read_text().split("\n") if line]
    assert all(entry["at_utc"] for entry in entries)


def test_run_on_a_device_that_was_unplugged_is_made_again() -> None:
    """Otherwise a cable pulled out at night would leave the cell without a result."""
    assert may_pass(SeatLeft("device pi is gone"))
    attempt = stored(failure="device_gone")
    assert judged(RUN, [attempt], DEFAULT_RETRY).state is RunState.LEFT
    attempts = [stored(failure="device_gone", number=number) for number in range(1, 5)]
    assert judged(RUN, attempts, DEFAULT_RETRY).state is RunState.FAILED
