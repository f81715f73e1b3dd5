"""Printed energies per inference, compared with the true energies, in simulated runs.

    python benchmarks/energy_simulated.py [--trials 100] [--only WORD] [--short]

Each case is a device and a meter with errors (tests/support/energy_simulation.py); each trial draws
the phases of the device and of the meter. The claim is that 95 of 100 printed energies have an
interval that contains the true energy; an energy that is refused does not count. The meters have no
gain error, and declare none. Cases that begin with `file:` are instruments that edgebench does not
drive. Their recordings are read from a CSV file. The gain error of such an instrument is up to 1 %,
and its user specifies this value.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
from common import machine, parse, report, table

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from support.energy_simulation import (
    Outcome,
    SimulatedDevice,
    SimulatedFile,
    SimulatedMeter,
    simulate,
    simulate_file,
)

DRIFT_PPM = 200.0
"""Largest drift of a meter's clock in the cases that state no drift."""
BAR_RATIO = 0.95
GENTLE = {"idle_w": 0.5, "work_w": 2.0}
"""Powers of an ordinary board."""
Case = tuple[SimulatedDevice, SimulatedMeter]
FileCase = tuple[SimulatedDevice, SimulatedMeter, SimulatedFile]


def late_cases() -> Mapping[str, Case]:
    """Meters whose samples are late, with a load code that is visible or too weak to be visible."""
    cases: dict[str, Case] = {}
    for window_s in (2.0, 0.2):
        for code_w, seen in ((None, "seen"), (0.01, "not seen")):
            for late_s in (0.0, 0.02, 0.3, 1.0, 2.0):
                name = f"{window_s:g} s, late {late_s:g} s, code {seen}"
                device = SimulatedDevice(duration_s=window_s, warmup_s=0.1, code_w=code_w)
                cases[name] = device, SimulatedMeter(late_s=late_s)
    return cases


def blind_cases() -> Mapping[str, Case]:
    """Meters that measure another device, or a power that hardly changes or is disturbed."""
    device = SimulatedDevice()
    short = replace(device, duration_s=0.2, warmup_s=0.1)
    unseen, short_unseen = replace(device, code_w=0.01), replace(short, code_w=0.01)
    faint = SimulatedDevice(idle_w=0.05, work_w=0.051, active_ratio=1.0)
    late = SimulatedMeter(late_s=0.3)
    return {
        "wired elsewhere, 0.3 s": (device, SimulatedMeter(elsewhere_s=0.3)),
        "wired elsewhere, 2 s": (device, SimulatedMeter(elsewhere_s=2.0)),
        "wired elsewhere, 2 s, window 0.2 s": (short, SimulatedMeter(elsewhere_s=2.0)),
        "wired elsewhere, 0.3 s, window 0.2 s": (short, SimulatedMeter(elsewhere_s=0.3)),
        "2 % above idle, late 0.3 s": (faint, replace(late, noise_w=1e-3)),
        "2 % above idle, late 0.3 s, code not seen": (
            replace(faint, code_w=0.05),
            replace(late, noise_w=1e-3),
        ),
        "2 % above idle, late 0.3 s, code not seen, window 0.2 s": (
            replace(faint, code_w=0.05, duration_s=0.2, warmup_s=0.1),
            late,
        ),
        "noise as idle, late 0.3 s, code not seen": (unseen, replace(late, noise_w=0.01)),
        "hum 100 Hz, late 0.3 s, code not seen": (
            replace(unseen, tick_s=0.01, tick_active_s=0.005, tick_w=0.02),
            late,
        ),
        "bursts each 0.7 s, late 0.3 s, code not seen": (
            replace(unseen, tick_s=0.7, tick_active_s=0.1, tick_w=0.02),
            late,
        ),
        "bursts each 0.7 s, late 0.3 s, code not seen, window 0.2 s": (
            replace(short_unseen, tick_s=0.7, tick_active_s=0.1, tick_w=0.02),
            late,
        ),
    }


def step_cases() -> Mapping[str, Case]:
    """Instantaneous samples, and loops or ticks that are in step with them to within 3 ppm."""
    tiny = SimulatedDevice(active_ratio=0.005, work_w=1.0)
    ticking = SimulatedDevice(tick_s=1e-3, tick_active_s=1e-4, tick_w=1.0)
    instants = SimulatedMeter(is_averaging=False, drift_ppm=3.0, noise_w=1e-5)
    cases: dict[str, Case] = {}
    for rate_hz in (1e3, 1e4, 2e4, 1e5):
        meter = replace(instants, rate_hz=rate_hz)
        for active_s in (50e-6, 55e-6, 130e-6):
            device = replace(tiny, active_ratio=active_s / tiny.period_s)
            cases[f"loop 10.000 ms, {1e6 * active_s:g} us active, {rate_hz:g} S/s"] = device, meter
        for active_s in (75e-6, 100e-6):
            device = replace(ticking, tick_active_s=active_s)
            cases[f"tick 1 ms, {1e6 * active_s:g} us active, {rate_hz:g} S/s"] = device, meter
    averaging = replace(instants, is_averaging=True, rate_hz=1e3)
    cases["tick 1 ms, 100 us active, 1000 S/s averaged"] = ticking, averaging
    return cases


def unsampled_cases() -> Mapping[str, Case]:
    """Instantaneous samples at common rates: steady loads, and activity in step with the samples.

    Idle times and gaps have the lengths that `bench` chooses for such a meter.
    """
    steady = SimulatedDevice(idle_w=0.5, work_w=2.0, active_ratio=1.0, duration_s=12.0)
    instants = SimulatedMeter(is_averaging=False, noise_w=5e-3)
    cases: dict[str, Case] = {}
    for rate_hz in (1e3, 4e3, 5e3):
        slow = replace(instants, rate_hz=rate_hz)
        usual = replace(steady, idle_s=25e3 / rate_hz, jitter_s=1 / rate_hz)
        cases[f"steady 2 W, {rate_hz:g} S/s"] = usual, slow
        ticking = replace(usual, tick_s=1e-3, tick_active_s=1e-4, tick_w=1.0)
        pulsed = replace(usual, tick_s=1 / rate_hz, tick_active_s=0.3 / rate_hz, tick_w=2.0)
        in_step = replace(slow, drift_ppm=3.0)
        cases[f"2 W, tick 1 ms of +1 W, {rate_hz:g} S/s"] = ticking, in_step
        small = replace(ticking, idle_w=0.01, work_w=0.06)
        cases[f"60 mW, tick 1 ms of +1 W, {rate_hz:g} S/s"] = small, replace(in_step, noise_w=1e-5)
        cases[f"2 W, PWM 30 % of +2 W, {rate_hz:g} S/s"] = pulsed, in_step
    fast = replace(instants, rate_hz=25e3, drift_ppm=2.0)
    half_watt = replace(steady, idle_w=0.1, work_w=0.5, duration_s=2.0)
    fine = replace(half_watt, tick_s=40e-6, tick_active_s=2e-6, tick_w=2.0)
    cases["0.5 W, PWM 25 kHz 5 % of +2 W, 25000 S/s"] = fine, fast
    finer = replace(half_watt, tick_s=20e-6, tick_active_s=6e-6, tick_w=2.0)
    cases["0.5 W, PWM 50 kHz 30 % of +2 W, 25000 S/s"] = finer, fast
    cases["steady 2 W, 25000 S/s"] = replace(steady, duration_s=2.0), replace(fast, drift_ppm=0.0)
    return cases


def polled_cases() -> Mapping[str, Case]:
    """Polled meters, whose drivers declare neither a filter nor a step nor an interval."""
    device = SimulatedDevice(**GENTLE, idle_s=6.0, duration_s=20.0)
    meter = SimulatedMeter(is_polled=True, rate_hz=10.0, noise_w=5e-3)
    long = replace(device, idle_s=40.0, duration_s=60.0, period_s=0.1)
    slow = replace(meter, rate_hz=1.0)
    near = replace(device, idle_w=2.5, work_w=2.54, active_ratio=1.0)
    return {
        "polled 60 S/s": (device, replace(meter, rate_hz=60.0)),
        "polled 10 S/s": (device, meter),
        "polled 10 S/s, steady loop": (replace(device, active_ratio=1.0), meter),
        "polled 10 S/s, no warm-up": (replace(device, warmup_s=0.01), meter),
        "polled 10 S/s, filter of 0.5 s": (device, replace(meter, lag_s=0.5)),
        "polled 10 S/s, filter of 0.5 s, steady loop": (
            replace(device, active_ratio=1.0),
            replace(meter, lag_s=0.5),
        ),
        "polled 60 S/s, filter of 0.1 s, no warm-up": (
            replace(device, warmup_s=0.01, duration_s=5.0),
            replace(meter, rate_hz=60.0, lag_s=0.1),
        ),
        "polled 1 S/s": (long, slow),
        "polled 1 S/s, filter of 2 s": (long, replace(slow, lag_s=2.0)),
        "polled 10 S/s, new value each second": (device, replace(meter, hold_s=1.0)),
        "polled 10 S/s, new value each second, steady loop": (
            replace(device, active_ratio=1.0),
            replace(meter, hold_s=1.0),
        ),
        "polled 10 S/s, new instant each second, steady loop": (
            replace(device, active_ratio=1.0),
            replace(meter, hold_s=1.0, is_averaging=False),
        ),
        "polled 10 S/s, new value each second, filter of 1 s": (
            device,
            replace(meter, hold_s=1.0, lag_s=1.0),
        ),
        "polled 10 S/s, steps of 0.1 W, loop 0.04 W above idle": (
            near,
            replace(meter, step_w=0.1),
        ),
        "polled 10 S/s, steps of 0.1 W": (device, replace(meter, step_w=0.1)),
        "polled 10 S/s, steps of 0.1 W, steady loop": (
            replace(device, active_ratio=1.0),
            replace(meter, step_w=0.1),
        ),
        "polled 60 S/s, 1 % of the samples 1 W too high": (
            device,
            replace(meter, rate_hz=60.0, glitch_ratio=0.01, glitch_w=1.0),
        ),
    }


def gentle_cases() -> Mapping[str, Case]:
    """An ordinary device and an averaging meter, with jitter of milliseconds or with glitches."""
    device = SimulatedDevice(**GENTLE, jitter_ratio=0.1)
    meter = SimulatedMeter(rate_hz=1000.0, noise_w=5e-3)
    fast = replace(meter, rate_hz=5e3)
    return {
        "gentle, 1 kS/s": (device, meter),
        "gentle, 5 kS/s": (device, fast),
        "gentle, 5 kS/s, noise of 2 % of the power": (device, replace(fast, noise_ratio=0.02)),
        "gentle, 5 kS/s, noise of 20 mW over 5 values": (
            device,
            replace(fast, noise_w=0.02, noise_span=5),
        ),
        "gentle, 1 kS/s, steps of 0.1 W, steady loop": (
            replace(device, active_ratio=1.0),
            replace(meter, step_w=0.1),
        ),
        "gentle, 1 kS/s, 0.1 % of the samples 2 W too high": (
            device,
            replace(meter, glitch_ratio=1e-3, glitch_w=2.0),
        ),
        "gentle, 1 kS/s, 1 % of the samples 1 W too high": (
            device,
            replace(meter, glitch_ratio=1e-2, glitch_w=1.0),
        ),
    }


def file_cases() -> dict[str, FileCase]:
    """Files of instruments that edgebench does not drive, with various clocks and formats."""
    device, meter = SimulatedDevice(), SimulatedMeter(rate_hz=1000.0)
    short = replace(device, duration_s=0.2, warmup_s=0.1)
    faint = SimulatedDevice(idle_w=0.05, work_w=0.051, active_ratio=1.0)
    instants = SimulatedMeter(is_averaging=False, rate_hz=1e5, noise_w=1e-5)
    tiny = SimulatedDevice(active_ratio=0.005, work_w=1.0)
    plain = SimulatedFile()
    days = SimulatedFile(zero_s=3 * 86_400.0 + 0.123)
    since_1970 = SimulatedFile(zero_s=1_795_000_000.0, is_clock=True, has_commas=True)
    return slow_file_cases() | {
        "file: 2 s": (device, meter, plain),
        "file: 0.2 s": (short, meter, plain),
        "file: 2 s, gain of 0.001 %": (device, meter, replace(days, gain_ratio=1e-5)),
        "file: 0.2 s, gain of 0.001 %": (short, meter, replace(days, gain_ratio=1e-5)),
        "file: begins days late, commas": (device, meter, replace(days, has_commas=True)),
        "file: times of a clock, commas": (device, meter, since_1970),
        "file: 0.2 s, times of a clock": (short, meter, since_1970),
        "file: begins in the idle time": (device, meter, replace(days, begins_s=2.0)),
        "file: 4 kS/s, noise as idle": (device, replace(meter, rate_hz=4e3, noise_w=0.01), days),
        "file: smeared over 5 ms": (device, replace(meter, lag_s=5e-3), days),
        "file: 0.2 s, smeared over 5 ms": (short, replace(meter, lag_s=5e-3), days),
        "file: smeared over 20 ms": (device, replace(meter, lag_s=0.02), days),
        "file: 10 S/s, short chips": (device, replace(meter, rate_hz=10.0), plain),
        "file: 2 % above idle": (faint, replace(meter, noise_w=1e-3), plain),
        "file: hum 100 Hz": (
            replace(device, tick_s=0.01, tick_active_s=0.005, tick_w=0.02),
            meter,
            days,
        ),
        "file: whole milliwatts of 10 idle": (device, meter, replace(days, step_w=1e-3)),
        "file: 100 S/s, whole centiwatts": (
            replace(device, chip_s=0.08, idle_w=0.013, work_w=0.116),
            replace(meter, rate_hz=100.0),
            replace(days, step_w=1e-2),
        ),
        "file: rate changes by 400 ppm": (device, replace(meter, rate_step_ppm=-400.0), days),
        "file: 0.2 s, rate changes by 400 ppm": (
            short,
            replace(meter, rate_step_ppm=400.0),
            days,
        ),
        "file: code not seen": (replace(device, code_w=0.01), meter, plain),
        "file: wired elsewhere, 0.3 s": (device, replace(meter, elsewhere_s=0.3), plain),
        "file: wired elsewhere, 2 s": (device, replace(meter, elsewhere_s=2.0), plain),
        "file: instants, 100 kS/s, loop 10.000 ms": (tiny, instants, days),
        "file: instants, 20 kS/s, loop 10.000 ms": (tiny, replace(instants, rate_hz=2e4), days),
        "file: instants, 1 kS/s": (device, replace(instants, rate_hz=1e3), days),
    }


def slow_file_cases() -> dict[str, FileCase]:
    """Files with ten samples per second, and a load code that is slow enough for this rate."""
    device = SimulatedDevice(chip_s=0.8, idle_s=6.0, duration_s=8.0, warmup_s=0.5)
    meter = SimulatedMeter(rate_hz=10.0)
    days = SimulatedFile(zero_s=3 * 86_400.0 + 0.123)
    exact = replace(days, gain_ratio=1e-5)
    return {
        "file: 10 S/s, long chips": (device, meter, days),
        "file: 10 S/s, gain of 0.001 %": (device, meter, exact),
        "file: 10 S/s, late by 5 ms on average": (device, meter, replace(days, jitter_s=5e-3)),
        "file: 10 S/s, late by 5 ms, gain of 0.001 %": (
            device,
            meter,
            replace(exact, jitter_s=5e-3),
        ),
        "file: 10 S/s, smeared over 0.2 s": (device, replace(meter, lag_s=0.2), days),
        "file: 10 S/s, smeared over 0.5 s": (device, replace(meter, lag_s=0.5), days),
        "file: 10 S/s, smeared over 1 s": (device, replace(meter, lag_s=1.0), days),
    }


CASES = late_cases, blind_cases, step_cases, unsampled_cases, polled_cases, gentle_cases


def file_trial(case: FileCase, seed: int) -> Outcome | None:
    """Simulate a run with a file; None if the file was refused."""
    device, meter, file = case
    drift_ppm = float(np.random.default_rng(seed).uniform(-DRIFT_PPM, DRIFT_PPM))
    outcome = simulate_file(device, replace(meter, drift_ppm=drift_ppm), file, seed)
    return None if isinstance(outcome, str) else outcome


def trial(case: Case, seed: int) -> Outcome:
    """Simulate a run; a meter whose case states no drift gets a random drift."""
    device, meter = case
    if not meter.drift_ppm:
        drift_ppm = float(np.random.default_rng(seed).uniform(-DRIFT_PPM, DRIFT_PPM))
        meter = replace(meter, drift_ppm=drift_ppm)
    return simulate(device, meter, seed)


def row_of(name: str, outcomes: Sequence[Outcome | None]) -> list[str]:
    """Row of the table for all trials of a case; the outcome of a refused file is None."""
    printed = [outcome for outcome in outcomes if outcome is not None and not outcome.is_refused]
    nets = [one.is_net_inside for one in printed if one.is_net_inside is not None]
    methods = Counter(
        one.energy.sync.method.value
        for one in printed
        if one.energy.sync is not None and one.energy.sync.method is not None
    )
    return [
        name,
        str(len(outcomes) - len(printed)),
        _share(sum(one.is_inside for one in printed), len(printed)),
        _share(sum(nets), len(nets)),
        f"{max((abs(one.off_ratio) for one in printed), default=0.0):.3%}",
        f"{np.median([one.u95_ratio for one in printed]) if printed else 0.0:.3%}",
        ", ".join(f"{method} {count}" for method, count in methods.items()),
    ]


def _share(count: int, of: int) -> str:
    if not of:
        return "none printed"
    return f"{count} of {of}" + ("" if count >= BAR_RATIO * of else " MISSED")


def main() -> None:
    """Run the trials, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--only", default="", help="only cases with this word in their name")
    options = parse(parser, smoke={"trials": 1}, trials=3)
    began = machine()
    rows: list[list[str]] = []
    first = 1 if options.smoke else None
    cases = [one for kind in CASES for one in kind().items()]
    for name, case in cases[:first]:
        if options.only in name:
            rows.append(row_of(name, [trial(case, seed) for seed in range(options.trials)]))
            print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    for name, file_case in list(file_cases().items())[:first]:
        if options.only in name:
            found = [file_trial(file_case, seed) for seed in range(options.trials)]
            rows.append(row_of(name, found))
            print(" | ".join(rows[-1]), file=sys.stderr, flush=True)
    heads = (
        *("case", "refused", "gross inside", "net inside", "largest error"),
        *("printed interval, median", "aligned by"),
    )
    report("Energy per inference against the truth, simulated", [table(heads, rows)], began)


if __name__ == "__main__":
    main()
