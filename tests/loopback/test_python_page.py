"""Every block of docs/python.md runs as documented."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest
from support.agents import Host
from support.tools import need_runtime

from edgebench.host.store.annotations import annotate
from edgebench.host.store.layout import Store

ROOT = Path(__file__).parents[2]
TAGS = {
    "metered": "20261123-031049-420b03bc",
    "before": "20261123-031112-2510a256",
    "after": "20261123-031114-392467a9",
}


@pytest.fixture
def folder(host: Host, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Working directory of a user whose store has a metered run with a tag."""
    for name, value in host.environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("EDGEBENCH_STORE", raising=False)
    monkeypatch.setenv("MPLBACKEND", "agg")
    monkeypatch.chdir(tmp_path)
    store = Store()
    for tag, run_id in TAGS.items():
        shutil.copytree(ROOT / "tests/fixtures/runs/v7" / run_id, store.runs / run_id)
        annotate(store, run_id, partial(replace, tags=(tag,)))
    return tmp_path


def test_every_block_of_the_page_runs(folder: Path) -> None:
    """Otherwise a user would copy a line that raises."""
    need_runtime("ai-edge-litert")
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "docs/python.md").read_text(), re.DOTALL)
    assert len(blocks) > 6
    assert "duration_s=2, runs=5" in blocks[0]
    blocks[0] = blocks[0].replace("duration_s=2, runs=5", "duration_s=0.2, runs=1")
    for block in blocks:
        exec(compile(block, "docs/python.md", "exec"), names)
    assert (folder / "run.png").stat().st_size > 10_000
