"""Pages of stored runs, as `edgebench report` makes them."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from edgebench.host.analysis.effects import FactorEffect
from edgebench.host.analysis.run_set import find_sets
from edgebench.host.report.campaign import CampaignFacts
from edgebench.host.report.subject import ReportedRun
from edgebench.host.result.campaign import CampaignSummary, LaneStatus
from edgebench.host.result.document import from_document, to_document
from edgebench.host.result.facts import SetMember
from edgebench.host.result.marks import ResultMarks
from edgebench.host.result.measured import Metrics
from edgebench.host.result.run import Run
from edgebench.host.result.run_set import RunSet
from edgebench.host.result.verdict import State
from edgebench.host.store.layout import RUN_FILE, Store

RUNS = Path(__file__).parents[1] / "fixtures" / "runs" / "v7"
PLAIN = "20261123-031046-26335d6d"
INVALID = "20261123-031049-420b03bc"
"""Metered, with an energy."""
METERED = "20261123-031057-10023550"
"""Suspect, and its energy is refused."""
PROFILE = "20261123-031106-72978f57"
BASELINE, CANDIDATE = "20261123-031110-8189891e", "20261123-031108-9082ecbb"


def stored_run(name: str) -> Run:
    """A stored run of the fixtures."""
    return from_document(json.loads((RUNS / name / RUN_FILE).read_bytes()))


def reported(*names: str) -> list[ReportedRun]:
    """Stored runs with their traces."""
    return [ReportedRun(stored_run(name), RUNS / name) for name in names]


def with_energy(run: Run) -> Run:
    """A run with the energy of another one, as its own was refused."""
    energy = stored_run(INVALID).metrics.energy
    return replace(run, metrics=replace(run.metrics, energy=energy))


def runs_of_set(
    base: Run, set_id: str = "set-0a1b2c3d", *, scale: float = 1.0, device: str = "board"
) -> list[Run]:
    """Five valid runs like this one, whose latencies differ by a few per mille."""
    return [
        replace(
            base,
            run_id=f"{base.run_id[:-8]}{set_id[-4:]}000{number}",
            member=SetMember(set_id, number, 5),
            device=replace(base.device, name=device),
            verdict=replace(base.verdict, state=State.VALID, rules=(), unwatched=()),
            metrics=_scaled(base, scale * (1 + number / 500)),
        )
        for number in range(5)
    ]


def _scaled(run: Run, by: float) -> Metrics:
    """The metrics of a run with latencies that are longer by a factor, and its energy too."""
    latency, energy = run.metrics.latency_ns, run.metrics.energy
    assert latency is not None
    assert latency.p50 is not None
    p50 = round(latency.p50 * by)
    bounds = (round(p50 * 0.999), round(p50 * 1.001))
    if energy is not None and energy.gross_j_per_inference is not None:
        energy = replace(energy, gross_j_per_inference=energy.gross_j_per_inference * by)
    warmup = run.metrics.warmup
    return replace(
        run.metrics,
        latency_ns=replace(latency, p50=p50, p50_ci95=bounds),
        energy=energy,
        warmup=None if warmup is None else replace(warmup, level_range_ratio=None),
    )


def store_of_days(root: Path, count: int, change: int) -> Store:
    """A store with a run each day, which take twice as long after a number of days."""
    base = stored_run(PLAIN)
    latency = base.metrics.latency_ns
    assert latency is not None
    assert latency.p50 is not None
    made = Store(root)
    for day in range(1, count + 1):
        run_id = f"202611{day:02}-031046-2633500{day % 10}"
        p50 = latency.p50 * (1 if day <= change else 2) + day
        bounds = (p50 - 5, p50 + 5)
        run = replace(
            base,
            run_id=run_id,
            created_utc=f"2026-11-{day:02}T03:10:46+00:00",
            metrics=replace(base.metrics, latency_ns=replace(latency, p50=p50, p50_ci95=bounds)),
        )
        shutil.copytree(RUNS / PLAIN, made.runs / run_id)
        (made.runs / run_id / RUN_FILE).write_text(json.dumps(to_document(run)))
    return made


def campaign_facts(sets: Sequence[RunSet]) -> CampaignFacts:
    """A campaign that has measured these sets."""
    devices = list(dict.fromkeys(one.device for one in sets))
    lanes = [
        LaneStatus(
            device=name,
            state="ended",
            reason="",
            lab=None,
            since_utc=None,
            measured_count=10,
            failed_count=0,
            left_count=0,
            left_s=None,
        )
        for name in devices
    ]
    summary = CampaignSummary(
        id="c0a1b2c",
        name="int8-or-fp32",
        file="/home/lovelace/campaign.toml",
        created_utc="2026-11-23T03:10:46+00:00",
        is_running=False,
        run_count=20,
        measured_count=20,
        failed_count=1,
        left_count=0,
        left_s=None,
    )
    effect = FactorEffect(
        factor="model",
        baseline="/home/lovelace/digits_fp32.onnx",
        level="/home/lovelace/digits_int8.onnx",
        ratio=0.81,
        ci95=(0.79, 0.83),
        lowest_ratio=0.8,
        highest_ratio=0.82,
        place_count=2,
        pair_count=10,
        marks=ResultMarks("valid"),
    )
    return CampaignFacts(
        summary=summary,
        lanes=lanes,
        sets=sets,
        settings=lambda one: f"threads {one.first.spec.threads}",
        effects={"latency_ns.p50": [effect]},
        failures=["failed: digits_int8.onnx on board: worker_died"],
    )


def campaign_sets() -> list[RunSet]:
    """Two models on two devices, five metered runs each."""
    base = with_energy(stored_run(METERED))
    fp32 = replace(base, model=replace(base.model, name="digits_fp32.onnx", sha256="cd" * 32))
    runs = [
        run
        for number, (model, device, scale) in enumerate(
            [(base, "pi5", 1.0), (fp32, "pi5", 1.25), (base, "jetson", 0.6), (fp32, "jetson", 0.55)]
        )
        for run in runs_of_set(model, f"set-0a1b2c0{number}", scale=scale, device=device)
    ]
    return find_sets(runs)


def numbers_on(page: str) -> dict[str, set[float]]:
    """Numbers of a page by the path of their metric."""
    found: dict[str, set[float]] = {}
    for path, value in re.findall(r'data-path="([^"]+)" data-value="([^"]+)"', page):
        found.setdefault(path, set()).add(float(value))
    return found
