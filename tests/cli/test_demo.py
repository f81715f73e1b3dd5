"""`edgebench demo`: a real agent on a simulated board, which leaves only a run and a page."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
from support.agents import Host, wait_until
from support.tools import need_runtime

from edgebench.host.lab import Lab
from edgebench.host.result.thermal import ThermalState

SUSTAINED_S = 20.0
"""The board reaches 80 °C after 10 s, and the baseline of a run are its first seconds."""
SHORTENED = """
import sys
from edgebench.host.cli import demo
from edgebench.host.cli.main import main
demo.SUSTAINED_S = float(sys.argv[1])
sys.exit(main(["demo", *sys.argv[2:]]))
"""


def start(host: Host, folder: Path, length_s: float, *words: str) -> subprocess.Popen[str]:
    """`edgebench demo` of this length, with its temporary files below `folder`."""
    need_runtime("ai-edge-litert")
    (folder / "temporary").mkdir(parents=True)
    opened = f"sh -c 'echo %s >{folder / 'opened'}'"
    variables = {"TMPDIR": str(folder / "temporary"), "BROWSER": opened}
    return subprocess.Popen(
        [sys.executable, "-c", SHORTENED, str(length_s), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=folder,
        env=os.environ | host.environment | variables,
    )


def agents(folder: Path) -> list[int]:
    """Processes that serve from a temporary directory of the demonstration."""
    found = psutil.process_iter(["cmdline"])
    mark = str(folder / "temporary")
    return [one.pid for one in found if any(mark in word for word in one.info["cmdline"] or ())]


def test_board_throttles_and_its_report_opens(host: Host, tmp_path: Path) -> None:
    """Otherwise a newcomer would see no throttling, or numbers that look real."""
    store = tmp_path / "store"
    process = start(host, tmp_path, SUSTAINED_S, "--store", str(store))
    out, err = process.communicate(timeout=170)
    assert process.returncode == 0, err
    run = Lab(store).run("last")
    thermal = run.metrics.thermal
    assert thermal is not None
    assert (thermal.state, thermal.cause) == (ThermalState.THROTTLED, "thermal")
    assert run.result.simulated
    assert [line for line in err.splitlines() if "by heat" in line and "simulated" in line]
    path = Path(out.strip())
    assert path == tmp_path / f"edgebench-{run.id}.html"
    assert "simulated" in path.read_text()
    assert (tmp_path / "opened").read_text().strip() == path.as_uri()
    assert f"next: edgebench show {run.id} --store {store}" in err
    assert agents(tmp_path) == []
    assert list((tmp_path / "temporary").iterdir()) == []
    assert host.devices == (), "nothing was paired"


def test_document_names_run_and_file(host: Host, tmp_path: Path) -> None:
    """Otherwise a script would have to parse sentences."""
    output = tmp_path / "page.html"
    words = ("--json", "--no-open", "-o", str(output))
    out, err = start(host, tmp_path, 1.0, *words).communicate(timeout=170)
    document = json.loads(out)
    assert document["file"] == str(output), err
    assert document["run_id"] == host.lab.run("last").id
    assert ["simulated" in one["marks"] for one in document["headlines"]] == [True]
    assert not (tmp_path / "opened").exists()


def test_interrupted_demonstration_leaves_nothing(host: Host, tmp_path: Path) -> None:
    """Otherwise the agent of the simulated board would keep running after Ctrl-C."""
    process = start(host, tmp_path, 60.0)
    wait_until(lambda: agents(tmp_path), "the agent started")
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert agents(tmp_path) == []
    assert list((tmp_path / "temporary").iterdir()) == []
    assert not list(tmp_path.glob("*.html"))
