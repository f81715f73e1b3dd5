"""Several runs of a model, made by one command: table, JSON, page, comparison."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from support.agents import Host, end_local_agent
from support.commands import Said
from support.tools import need_runtime

SHORT = (
    *("--quick", "--runtime", "litert", "--duration", "1s", "--min-queries", "100"),
    *("--warmup-duration", "0.05s"),
    *("--extra-runs", "0"),  # other load on this machine would cause some
)
MODELS = ("digits_int8.tflite", "digits_fp32.tflite")


@dataclass(frozen=True)
class Sets:
    """A host whose store holds eight runs of each model."""

    host: Host
    runs: list[dict[str, Any]]
    sets: list[dict[str, Any]]
    headlines: list[dict[str, str]]
    errors: list[dict[str, Any]]

    def say(self, *words: str) -> Said:
        """The output of a command about them."""
        result = self.host.run(*words)
        assert "Traceback" not in result.stderr
        return Said(result.returncode, result.stdout, result.stderr)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sets]:
    """Measured once for all tests."""
    need_runtime("ai-edge-litert")
    host = Host(tmp_path_factory.mktemp("sets"))
    result = host.run("bench", *MODELS, *SHORT, "--json")
    assert result.returncode in (0, 3), result.stderr
    yield Sets(host, **json.loads(result.stdout))
    end_local_agent(host)


def test_every_model_is_a_set_of_eight_runs_that_take_turns(made: Sets) -> None:
    """Otherwise all runs of the first model would come first, or there would be only one run."""
    assert [one["model"] for one in made.sets] == list(MODELS)
    assert [one["planned_count"] for one in made.sets] == [8, 8]
    names = [run["model"]["name"] for run in made.runs]
    assert names == list(MODELS) * 8
    assert {run["spec"]["duration_s"] for run in made.runs} == {0.125}
    assert {run["spec"]["warmup_duration_s"] for run in made.runs} == {0.05}
    assert [run["set"]["number"] for run in made.runs] == [n for n in range(8) for _ in MODELS]


def test_headline_is_the_median_of_the_runs_and_the_interval_holds_them(
    made: Sets,
) -> None:
    """Otherwise the set would show the last run, or an interval that contains no run."""
    for one in made.sets:
        p50s = sorted(
            run["metrics"]["latency_ns"]["p50"]
            for run in made.runs
            if run["run_id"] in one["run_ids"]
        )
        found = one["metrics"]["latency_ns.p50"]
        assert found["count"] == len(p50s)
        if len(p50s) == 8:
            assert found["median"] == (p50s[3] + p50s[4]) / 2
            low, high = found["ci95"]
            assert low <= p50s[3]
            assert p50s[4] <= high
        assert found["min"] == p50s[0]
        assert all(rule["detail"] for rule in one["verdict"]["rules"])


def test_page_of_a_set_has_each_run_and_where_the_variation_comes_from(made: Sets) -> None:
    """Otherwise a reader would have to open eight pages."""
    one = made.sets[0]
    # A rule that passes is on the long page only.
    said = made.say("show", one["set_id"], "--all")
    assert said.code == 0
    for run_id in one["run_ids"]:
        assert run_id in said.out
    if one["verdict"]["state"] == "invalid":  # other load on this machine has spoiled it
        assert "invalid: " in said.out
    else:
        for word in ("cold_start_ns.load", "memory_bytes.peak_rss", "between_runs"):
            assert word in said.out
        # Where other load spoils runs, too few may be left for a variance.
        assert ("\nvariance" in said.out) == (one["variance"] is not None)
    assert json.loads(made.say("show", one["set_id"], "--json").out) == one
    assert f"edgebench show {one['set_id']}" in made.say("show", one["run_ids"][0]).out


def test_sets_are_compared_by_their_runs(made: Sets) -> None:
    """Otherwise comparing two sets would take ten ids."""
    before, after = (one["set_id"] for one in made.sets)
    said = made.say("compare", before, "--against", after, "--json", "--fail-on", "3%")
    if said.code in (0, 4, 5):
        [found] = json.loads(said.out)["comparisons"]
        assert (len(found["baseline_runs"]), len(found["candidate_runs"])) == (8, 8)
    else:
        assert "is invalid" in said.err


def test_list_of_runs_names_their_sets(made: Sets) -> None:
    """Otherwise users could not find the runs of a set again."""
    rows = json.loads(made.say("runs", "--json").out)["runs"]
    assert {row["set_id"] for row in rows} == {one["set_id"] for one in made.sets}


def test_stored_runs_of_a_set_verify(made: Sets) -> None:
    """Otherwise the place in the set would be in run.json, but not in the raw files."""
    for run in made.runs[:2]:
        assert made.say("verify", run["run_id"]).code == 0


def test_set_that_is_not_there_is_named(made: Sets) -> None:
    """A mistyped id is reported without a traceback."""
    said = made.say("show", "set-00000000")
    assert said.code == 2
    assert said.err.startswith("error: no set 'set-00000000' in ")
