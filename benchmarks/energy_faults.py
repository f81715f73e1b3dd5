"""Energies that are printed for faulty sources, for good sources, and for files of another run.

    python benchmarks/energy_faults.py [--good 500] [--gentle 40] [--swaps 100] [--only WORD]

The runs are simulated, but edgebench's own drivers and importers read the bytes that an instrument
would send, or the files that a program would write (tests/support/meter_bytes.py, meter_texts.py).
There are four claims:

    spoilt   if an energy from a faulty source is printed, its interval contains the true energy
    good     at most 2 % of good recordings are refused
    gentle   with the ordinary load of an instrument, such as 2 W with 0.5 W when idle, an energy
             is printed whose interval contains the true energy, in 95 of 100 runs
    swaps    no file of another run is accepted
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from common import claim, claims_table, machine, parse, report, table

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.energy_simulation import Outcome
from support.meter_bytes import INSTRUMENTS, Instrument, Load
from support.meter_texts import PROGRAMS, Program
from support.sources import filed_run, metered_run, swapped_file
from support.spoilt import FAULTS, Fault

Source = Instrument | Program
SOURCES: tuple[Source, ...] = (*INSTRUMENTS, *PROGRAMS)
REFUSED_LIMIT_RATIO = 0.02
GENTLE_BAR_RATIO = 0.95
SMOKE_SOURCES = 2


@dataclass(frozen=True, slots=True)
class Trial:
    """Result of a simulated run that a source has metered."""

    source: str
    fault: str
    is_printed: bool
    is_inside: bool
    off_ratio: float = 0.0
    u95_ratio: float = 0.0
    refused: str = ""

    @property
    def is_outside(self) -> bool:
        """Whether an energy was printed whose interval does not contain the true energy."""
        return self.is_printed and not self.is_inside

    @property
    def line(self) -> str:
        """Line of text about the trial, for stderr."""
        found = f"off {self.off_ratio:+.2%}, U {self.u95_ratio:.2%}"
        return f"{self.source} | {self.fault} | {found if self.is_printed else self.refused}"


def trial_of(
    source: Source, seed: int, fault: Fault | None = None, load: Load | None = None
) -> Trial:
    """Simulate a run that this source meters, without a fault or with one."""
    name = fault.name if fault else "good"
    if isinstance(source, Instrument):
        outcome: Outcome | str = metered_run(source, seed, fault, load)
    else:
        outcome = filed_run(source, seed, fault, load)
    return as_trial(source.name, name, outcome)


def as_trial(source: str, fault: str, outcome: Outcome | str) -> Trial:
    """Summarise the outcome of a run; if the outcome is a text, it is the reason for a refusal."""
    if isinstance(outcome, str):
        return Trial(source, fault, False, False, refused=outcome)
    if outcome.is_refused:
        return Trial(source, fault, False, False, refused=outcome.energy.refused or "")
    return Trial(*(source, fault, True, outcome.is_inside, outcome.off_ratio, outcome.u95_ratio))


def spoilt_trials(sources: Sequence[Source]) -> Iterator[Trial]:
    """Trials of every source with every fault that applies to it."""
    for place, source in enumerate(sources):
        for fault in FAULTS:
            if fault.applies_to(source.traits):
                yield trial_of(source, place, fault)


def good_trials(sources: Sequence[Source], count: int) -> Iterator[Trial]:
    """Trials without a fault, with random loads.

    The power of the work is 0.3 to 1.3 times that of the source's ordinary load, and the idle power
    is 10 to 90 % of the power of the work.
    """
    for seed in range(count):
        source = sources[seed % len(sources)]
        chance = np.random.default_rng((seed, 1))  # independent of the clock's drift
        work_w = source.load.work_w * float(np.exp(chance.uniform(np.log(0.3), np.log(1.3))))
        idle_w = work_w * float(chance.uniform(0.1, 0.9))
        load = replace(source.load, idle_w=idle_w, work_w=work_w)
        yield trial_of(source, seed, load=load)


def gentle_trials(sources: Sequence[Source], count: int) -> Iterator[Trial]:
    """Trials of each source with its ordinary load, `count` times."""
    for source in sources:
        for seed in range(count):
            yield trial_of(source, seed)


def swap_trials(count: int) -> Iterator[Trial]:
    """Trials in which a run gets a file of a different run (same set, or another model or day)."""
    programs = [program for program in PROGRAMS if program.rate_hz >= 10]
    for seed in range(count):
        program = programs[seed % len(programs)]
        kind, outcome = swapped_file(program, seed)
        yield as_trial(program.name, kind, outcome)


def shown(trials: Iterator[Trial]) -> list[Trial]:
    """Collect all trials, and print each failed trial on stderr."""
    found = []
    for trial in trials:
        found.append(trial)
        if trial.is_outside:
            print(f"OUTSIDE {trial.line}", file=sys.stderr, flush=True)
    return found


def counted(trials: Sequence[Trial], names: Sequence[str]) -> list[list[str]]:
    """Rows of a table, one per name: numbers of trials that are refused, inside and outside."""
    kinds = Counter(
        (name, "refused" if not trial.is_printed else "inside" if trial.is_inside else "outside")
        for trial, name in zip(trials, names, strict=True)
    )
    return [
        [name, *(str(kinds[name, kind]) for kind in ("refused", "inside", "outside"))]
        for name in dict.fromkeys(names)
    ]


def gentle_rows(trials: Sequence[Trial]) -> list[list[str]]:
    """Rows of a table: for each source, the number of runs whose interval contains the truth."""
    rows = []
    for name in dict.fromkeys(trial.source for trial in trials):
        mine = [trial for trial in trials if trial.source == name]
        valid = sum(trial.is_inside for trial in mine)
        reasons = Counter(trial.refused for trial in mine if not trial.is_printed)
        reason = reasons.most_common(1)[0][0][:60] if reasons else ""
        missed = "" if valid >= GENTLE_BAR_RATIO * len(mine) else " MISSED"
        rows.append([name, f"{valid} of {len(mine)}{missed}", reason])
    return rows


def claims_of(
    spoilt: Sequence[Trial],
    good: Sequence[Trial],
    gentle: Sequence[Sequence[str]],
    swaps: Sequence[Trial],
) -> list[list[str]]:
    """Rows of the table of claims."""
    cells = (
        ("spoilt: truth outside of the printed interval", _outside(spoilt), spoilt, 0.0),
        ("good: refused", _refused(good), good, REFUSED_LIMIT_RATIO),
        ("good: truth outside of the printed interval", _outside(good), good, 0.05),
        ("gentle: sources below 95 %", sum("MISSED" in row[1] for row in gentle), gentle, 0.0),
        ("swaps: accepted", len(swaps) - _refused(swaps), swaps, 0.0),
    )
    return [
        claim(text, f"{count} of {len(of)}", f"at most {limit:g}", count <= limit * len(of))
        for text, count, of, limit in cells
    ]


def _outside(trials: Sequence[Trial]) -> int:
    return sum(trial.is_outside for trial in trials)


def _refused(trials: Sequence[Trial]) -> int:
    return sum(not trial.is_printed for trial in trials)


def main() -> None:
    """Run the trials, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--good", type=int, default=500, help="good recordings")
    parser.add_argument("--gentle", type=int, default=40, help="runs of the gentle case, each")
    parser.add_argument("--swaps", type=int, default=100, help="files of another run")
    parser.add_argument("--only", default="", help="only sources with this word in their name")
    options = parse(parser, smoke={"good": 2, "gentle": 1, "swaps": 1}, good=60, gentle=3, swaps=20)
    began = machine()
    sources = [source for source in SOURCES if options.only in source.name]
    sources = sources[:SMOKE_SOURCES] if options.smoke else sources
    spoilt = shown(spoilt_trials(sources))
    gentle = shown(gentle_trials(sources, options.gentle))
    good = shown(good_trials(sources, options.good))
    swaps = shown(swap_trials(options.swaps))
    rows = gentle_rows(gentle)
    heads = ("refused", "inside", "outside")
    report(
        "Energies from spoilt and from good sources",
        [
            claims_table(claims_of(spoilt, good, rows, swaps)),
            table(("fault", *heads), counted(spoilt, [trial.fault for trial in spoilt])),
            table(("source, spoilt", *heads), counted(spoilt, [trial.source for trial in spoilt])),
            table(("source, gentle", "truth inside", "refused for"), rows),
            table(("good recordings of", *heads), counted(good, [trial.source for trial in good])),
            table(("file of", *heads), counted(swaps, [trial.fault for trial in swaps])),
        ],
        began,
    )


if __name__ == "__main__":
    main()
