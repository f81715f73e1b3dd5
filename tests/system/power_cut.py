"""Cuts the power of a host and a device at drawn moments, and inspects what is left.

    python tests/system/power_cut.py [--moments 200] [--seed 1] [--benches 3] [--go-on 5]

Commands make, tag and remove runs, of which one has a meter; pair; run a campaign; and record a
meter. `support/power_cut.py` logs what they do to their files, and rebuilds what a power cut leaves
of it. Nothing that was announced may be lost, nothing may be empty or damaged; and at some moments
the device and the host continue from there. Takes some minutes.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from random import Random

sys.path.insert(0, str(Path(__file__).parents[1]))

from support.agents import AgentProcess, Host
from support.power_cut import Model, read_log, write_image
from support.power_cut_site import BENCH, DEVICE, HOST, Inspector, Moment, Site, moments, play

MEMORY_BYTES = 2 * 2**30
"""Free memory from which on the images are written there."""


def go_on(moment: Moment, image: Path, random: Random, port: int) -> str | None:
    """Measure with what a power cut of both machines leaves; why not, if that fails."""
    for name in (HOST, DEVICE):
        model = random.choice([Model.SYNCED, Model.NAMES, Model.DRAWN])
        write_image(moment.disk.left_after(name, model, random), image / name)
    host = Host(image / HOST)
    agent = AgentProcess(image / DEVICE, ["--name", "board"], listen=f"127.0.0.1:{port}").start()
    try:
        if not host.devices:  # it had not been paired
            host.lab.pair(agent.pairing_string())
        done = [host.run(*BENCH, "--runs", "1", "--duration", "0.2s"), host.run("verify", "last")]
    finally:
        agent.kill()
    if all(one.returncode in (0, 3) for one in done):
        return None
    return f"call {moment.number}: " + "".join(one.stderr for one in done)


def main() -> int:
    """Print what was lost; 1 if anything was."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--moments", type=int, default=200)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--benches", type=int, default=3)
    options.add_argument("--go-on", type=int, default=5, metavar="N", help="moments to go on from")
    chosen = options.parse_args()
    memory = Path("/dev/shm")  # the inspection syncs thousands of files, too
    parent = memory if memory.is_dir() and shutil.disk_usage(memory).free > MEMORY_BYTES else None
    folder = Path(tempfile.mkdtemp(prefix="edgebench-power-", dir=parent))
    try:
        site = Site(folder)
        play(site, chosen.benches)
        calls = read_log(site.log)
        kinds = Counter(call.kind for call in calls)
        print(
            f"{len(calls)} calls, of them {kinds['S']} syncs of files and {kinds['D']} of "
            f"directories; {len(site.announced)} announcements",
            flush=True,
        )
        random = Random(chosen.seed)
        drawn = sorted(random.sample(range(len(calls)), chosen.moments))
        continued = set(random.sample(drawn, chosen.go_on))
        inspector = Inspector(folder, chosen.seed)
        problems: list[str] = []
        began_s = time.monotonic()
        for moment in moments(site, drawn):
            problems += inspector.problems(moment)
            if moment.number in continued:
                problem = go_on(moment, folder / f"go-on-{moment.number}", random, site.agent.port)
                problems += [problem] if problem else []
        print(
            f"{chosen.moments} moments, {inspector.image_count} images, {len(continued)} that went "
            f"on, seed {chosen.seed}, {time.monotonic() - began_s:.0f} s: {len(problems)} problems"
        )
        for text in problems[:40]:
            print(f"  {text}")
        return bool(problems)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
