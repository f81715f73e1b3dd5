"""What a power cut leaves of a host and a device, on a file system that loses what was not synced.

`python tests/system/power_cut.py` does this with more commands, a meter and 200 moments.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest
from support.power_cut import Disk, Model, built_log, logging_environment, read_log
from support.power_cut_site import Inspector, Site, moments, play

MOMENTS = 12
pytestmark = pytest.mark.timeout(600)  # seven commands, one after another


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """Two machines on which the commands have run."""
    made = Site(tmp_path_factory.mktemp("power"))
    try:
        play(made, bench_count=1, is_metered=False)
    finally:
        made.agent.kill()
    return made


def test_nothing_announced_is_lost(site: Site, tmp_path: Path) -> None:
    """Runs, tags, pairing and campaign are kept at drawn moments, and after each announcement."""
    count = len(read_log(site.log))
    drawn = {*Random(1).sample(range(count), MOMENTS), *site.announced_at(), count - 1}
    inspector = Inspector(tmp_path, seed=1)
    problems = [text for one in moments(site, sorted(drawn)) for text in inspector.problems(one)]
    assert problems == []
    assert inspector.image_count >= 7 * MOMENTS


WRITE = """
import sys
from pathlib import Path
from edgebench.system.whole_files import make_directory, write_whole
host = make_directory(Path(sys.argv[1]) / "host")
write_whole(host / "whole", "content")
write_whole(host / "changed", "old")
(host / "changed").write_text("a new one")
(host / "part").write_text("content")
(host / "part").rename(host / "plain")
"""
"""Writes as a command does that syncs, and as one that does not."""


def test_file_system_loses_what_was_not_synced(tmp_path: Path) -> None:
    """Each model loses what it should.

    Otherwise the test above would find nothing because nothing is ever lost.
    """
    root, log = tmp_path / "disk", tmp_path / "log"
    environment = logging_environment(built_log(tmp_path), root, log)
    command = [sys.executable, "-c", WRITE, str(root)]
    subprocess.run(command, env=os.environ | environment, check=True)
    disk = Disk(root)
    for call in read_log(log):
        disk.play(call)
    left = {model: dict(disk.left_after("host", model, Random(1))) for model in Model}
    whole = {"whole": b"content"}
    assert left[Model.SYNCED] == whole | {"changed": b"old"}
    assert left[Model.NAMES] == whole | {"changed": b"", "plain": b""}
    assert left[Model.ALL] == whole | {"changed": b"a new one", "plain": b"content"}
    drawn = [dict(disk.left_after("host", Model.DRAWN, Random(seed))) for seed in range(200)]
    assert all(one["whole"] == b"content" for one in drawn)
    assert {one.get("plain") for one in drawn} >= {None, b"", b"cont", bytes(7), b"content"}
