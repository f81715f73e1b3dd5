"""Two phones measure while their cables, servers and daemons fail: by hand, as root.

    python tests/system/adb_phones.py [--rounds 10] [--seed 3]

In each round both phones measure at the same time, and each is cut off at a drawn moment: its cable
is pulled, adb's server is killed, its debug bridge ends with all that it has started, or it
restarts. Afterwards it is restored as docs/phones.md describes, and its runs are collected. Each
run that was begun has to be stored once, or reported as lost. Prints a line for each run; ends with
1 if one is neither. It takes about ten minutes on two shared cores.
"""

from __future__ import annotations

import argparse
import os
import random
import re
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.adb_phones import EmulatedPhone, adb_server, link, phone
from support.agents import Host
from support.process_server import StartedProcess

from edgebench.host.devices import deploy
from edgebench.protocol.errors import AgentNotStarted

FAULTS = ("cable", "server", "adbd", "restart")
LOST = r"warning: run (\S+) of \S+ on \S+ is no longer on the device"
RUN = ("--runs=1", "--duration", "2s", "--min-queries", "50", "--warmup", "5")
EARLY_S, LATE_S = 8.0, 4.0
"""Latest moment of a fault from the start of the command, and from the beginning of its run."""


def break_off(made: EmulatedPhone, fault: str) -> None:
    """Cause this fault."""
    if fault == "cable":
        made.cable.pull()
    elif fault == "server":
        made.adb.kill_server()
    else:
        made.switch_off()


def wait_for_run(made: EmulatedPhone, process: StartedProcess) -> None:
    """Wait until a run has begun on a phone, or the command has ended."""
    work = made.data / "edgebench" / "data" / "edgebench" / "agent" / "work"
    while process.poll() is None and not any(work.glob("*")):
        time.sleep(0.05)


def mend(host: Host, made: EmulatedPhone, name: str) -> None:
    """Restore the phone as docs/phones.md describes."""
    if made.process is None:
        made.start()
    made.cable.plug()
    made.connect()
    try:
        host.lab.connect(name).close()
    except AgentNotStarted:
        host.lab.deploy(f"adb:{made.serial}")


def outcomes(host: Host, collected: str) -> dict[str, str]:
    """The fate of each run that was begun; `collected` is all that `collect` has printed."""
    store = host.folder / "data/edgebench"
    found = dict.fromkeys(re.findall(LOST, collected), "named lost")
    for path in (store / "incoming").glob("*"):
        found.setdefault(path.name, "LEFT")
    for path in (store / "runs").glob("*"):
        found[path.name] = "LOST AND STORED" if path.name in found else "stored"
    return found


def play(rounds: int, seed: int, folder: Path) -> int:
    """Play the rounds; the number of runs that are neither stored nor reported as lost."""
    drawn, wrong, collected = random.Random(seed), 0, ""
    with ExitStack() as stack:
        adb = stack.enter_context(adb_server())
        stack.enter_context(patch.dict(os.environ, adb.environment))
        stack.enter_context(patch.object(deploy, "install", link))
        host = Host(folder / "host")
        phones = {}
        for _ in range(2):
            made = stack.enter_context(phone(adb))
            phones[host.lab.deploy(f"adb:{made.serial}").device.name] = made
        for number in range(rounds):
            before = outcomes(host, collected)
            runs = {
                name: host.popen("bench", "digits_int8.tflite", "--on", name, *RUN)
                for name in phones
            }
            # One in four before or at the beginning of the run, the others during or after it.
            if is_late := number % 4 > 0:
                for name, made in phones.items():
                    wait_for_run(made, runs[name])
            limit_s = LATE_S if is_late else EARLY_S
            faults = sorted(
                (drawn.uniform(0.0, limit_s), name, FAULTS[(number // 2 + index) % len(FAULTS)])
                for index, name in enumerate(phones)
            )
            begin_s = time.monotonic()
            for at_s, name, fault in faults:
                time.sleep(max(0.0, begin_s + at_s - time.monotonic()))
                break_off(phones[name], fault)
            ends = {name: process.communicate(timeout=180)[1] for name, process in runs.items()}
            for name, made in phones.items():
                mend(host, made, name)
                collected += host.run("collect", "--on", name).stderr
            after = outcomes(host, collected)
            begun = {key: after[key] for key in after if key not in before}
            wrong += sum(outcome not in ("stored", "named lost") for outcome in begun.values())
            for at_s, name, fault in faults:
                errors = [line for line in ends[name].splitlines() if line.startswith("error: ")]
                since = "begin of the run" if is_late else "start"
                print(f"round {number}: {fault} of {name}, {at_s:.1f} s after the {since}:")
                print(f"    {'; '.join(errors) or 'whole'}")
            print(f"round {number}: runs begun: {begun}", flush=True)
        totals = list(outcomes(host, collected).values())
        print({outcome: totals.count(outcome) for outcome in sorted(set(totals))}, "wrong:", wrong)
        for made in phones.values():
            host.lab.undeploy(f"adb:{made.serial}")
            print("left behind:", made.leftovers())
    return wrong


def main() -> int:
    """Play the rounds; 1 if anything is wrong."""
    parser = argparse.ArgumentParser(description="Two phones that are cut off.")
    parser.add_argument("--rounds", type=int, default=10, metavar="N")
    parser.add_argument("--seed", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="eb-phones-") as folder:
        return 1 if play(options.rounds, options.seed, Path(folder)) else 0


if __name__ == "__main__":
    sys.exit(main())
