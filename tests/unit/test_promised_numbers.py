"""Numbers that the documentation promises, each in digits next to the sentence that promises it.

The tests of a limit import it, so that they follow it wherever it goes. Here it has to stay where
the documentation states that it is: a change to either requires a change to the other, and to this
table.
"""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

from edgebench.protocol.spec import PRESETS

ROOT = Path(__file__).resolve().parents[2]
PROMISED: dict[str, dict[str, list[tuple[str, object, str]]]] = {
    "docs/scripts.md": {
        "host.cli.progress": [
            ("REPORT_S", 10.0, "a line is printed when a run begins, every 10 s,"),
        ],
        "system.exit_code": [
            ("ExitCode.INVALID", 3, "| 3, 4 | fails: a result is invalid"),
            ("ExitCode.REGRESSION", 4, "| 3, 4 | fails: a result is invalid, or the candidate"),
            ("ExitCode.INCONCLUSIVE", 5, "| 5 | is undecided"),
        ],
    },
    "docs/measurement.md": {
        "protocol.spec": [
            ("RunSpec.sample_count", 16, "draws 16 input samples (1024 with the preset"),
            ("RunSpec.max_query_count", 1_000_000, "a million inferences; 30 minutes"),
            (
                "LEAST_MAX_DURATION_S",
                {"default": 1800.0, "quick": 60.0},
                "1 minute, or 6 times the duration",
            ),
            (
                "MAX_DURATION_RATIO",
                {"default": 30.0, "quick": 6.0},
                "30 minutes, or 30 times the duration",
            ),
            ("RunSpec.warmup_query_count", 10, "for at least 10 inferences and 1 s"),
            ("RunSpec.warmup_duration_s", 1.0, "inferences and 1 s (`quick`: 0.5 s)"),
        ],
        "agent.worker.inputs": [
            ("MAX_SAMPLES_BYTES", 67_108_864, "need more than 64 MiB of memory"),
            ("CLIPPED_LIMIT_RATIO", 0.01, "above 1 %, the inputs are refused"),
        ],
        "host.analysis.latency.warmup": [
            ("DELTA_RATIO", 0.01, "its levels range over more than 1 % ("),
            ("STEADY_RATIO", 0.25, "within the last quarter of the run"),
            ("LASTING_RATIO", 0.02, "lasts less than 2 % of the run"),
        ],
        "host.analysis.verdict.latency": [
            ("LEVEL_LIMIT_RATIO", 0.05, "(more than 5 % for a run of a set or of pairs)"),
        ],
        "host.analysis.latency.stability": [
            ("RETURN_SHARE", 0.05, "again in at least 5 % of the rest"),
            ("MIN_LEVEL_RATIO", 1.10, "if they differ by at least 10 %"),
            ("MIN_LEVEL_SHARE", 0.10, "at least 10 % of the inferences"),
            ("BLOCK_COUNT", 10, "medians of ten blocks of equal time"),
        ],
        "host.analysis.latency.summary": [
            ("LEVEL", 0.95, "The 95 % confidence interval (CI)"),
            ("MIN_LEVEL_VISITS", 30, "was visited fewer than 30 times"),
        ],
        "host.analysis.latency.clock_step": [
            ("MIN_STEP_NS", 8.0, "null below 8 ns"),
        ],
        "host.analysis.latency.outliers": [
            ("MILD_RANGES", 1.5, "it is more than 1.5 (mild)"),
            ("SEVERE_RANGES", 3.0, "(mild) or 3 (severe) interquartile ranges"),
        ],
    },
    "docs/sets.md": {
        "host.analysis.verdict.machine": [
            ("MIN_JUDGED_S", 0.1, "less than 0.1 s are refused"),
        ],
        "host.analysis.median": [
            ("MIN_RUNS", 5, "A set of fewer than five runs has no interval"),
            ("PRECISION_INVALID_RATIO", 0.25, "exceeds 25 % of it | invalid"),
            ("PRECISION_SUSPECT_RATIO", 0.05, "as above, 5 % | suspect"),
        ],
        "host.analysis.verdict.run_set": [
            ("TREND_LIMIT_RATIO", 0.02, "range over more than 2 %, and rise"),
            ("STEP_RANGES", 2, "by more than twice the range"),
        ],
        "host.analysis.verdict.set_heat": [
            ("HYSTERESIS_C", 5.0, "less than 5 °C below the throttle temperature"),
            ("DRIFT_LIMIT_RATIO", 0.02, "inside the runs exceeds 2 %"),
        ],
        "host.analysis.thermal.heat_signals": [
            ("FREQ_DROP_LIMIT_RATIO", 0.97, "below 0.97 of the highest clock"),
        ],
        "host.analysis.run_set": [
            ("OUTVOTED_RATIO", 0.125, "seven runs outvote one disturbed run"),
            ("DRIFT_REACH", 0.625, "on each side by 5/8 of the drift"),
        ],
        "host.analysis.extra_runs": [
            ("DEFAULT_EXTRA_RUNS", 3, "`bench` makes up to three further runs"),
        ],
        "host.analysis.occasions": [
            ("MIN_OCCASIONS", 3, "at least three sets of the model"),
            ("OCCASION_S", 600.0, "within ten minutes after that set"),
        ],
        "protocol.spec": [
            ("DEFAULT_RUN_COUNT", 5, "| default | 5 short runs"),
            ("RUN_COUNTS", {"quick": 8}, "| `--quick` | 8, because"),
        ],
    },
    "docs/throttling.md": {
        "protocol.spec": [
            ("MAX_SUSTAINED_QUERIES", 10_000_000, "A run that reaches ten million"),
            ("RunSpec.telemetry_rate_hz", 10.0, "sensors 10 times per second"),
            ("MIN_TELEMETRY_HZ", 0.1, "sets another rate, from 0.1 to 100 Hz"),
            ("MAX_TELEMETRY_HZ", 100.0, "sets another rate, from 0.1 to 100 Hz"),
        ],
        "host.analysis.thermal.timeline": [
            ("WINDOW_S", (1.0, 5.0), "thermal windows of 1 to 5 s"),
            ("MIN_INFERENCES", 5, "fewer than five inferences"),
            ("BASELINE_S", 5.0, "which together last at least 5 s"),
            ("SLICE_S", 0.5, "in slices of 0.5 s"),
        ],
        "host.analysis.thermal.heat_signals": [
            ("LATENCY_LIMIT_RATIO", 1.05, "above 105 % of the baseline"),
            ("LASTING", 3, "in at least three windows in a row"),
            ("EXPLAINED_LIMIT_RATIO", 1.02, "the limit is 102 %"),
            ("NOISE_LIMIT", 5.0, "plus five times the standard deviation"),
            ("TEMP_MARGIN_C", 2.0, "within 2 °C of the temperature"),
            ("FREQ_DROP_LIMIT_RATIO", 0.97, "below 97 % of the baseline"),
            ("RECURRING_SHARE", 0.1, "at least a tenth of the slices"),
            ("CYCLE_S", 30.0, "at least one period of 30 s"),
            ("RECURRING_S", 3.0, "raised for at least 3 s of the run in total"),
            ("CHANGE_QUANTILE", 0.95, "95th percentile, over the windows"),
        ],
        "host.analysis.thermal.throttling": [
            ("UNEXPLAINED_SHARE", 0.2, "a fifth of the slices"),
        ],
        "agent.coolest": [
            ("KEPT_FOR", timedelta(days=60), "idle temperature of the last 60 days"),
        ],
        "agent.cooldown": [
            ("REACHABLE_C", 1.5, "never less than 1.5 °C above"),
        ],
        "agent.telemetry.live": [
            ("CONFIRMATIONS", 3, "after three successive readings at or above"),
            ("SANE_C", (-40.0, 125.0), "between −40 and 125 °C"),
        ],
        "agent.telemetry.process": [
            ("SILENCE_S", 30.0, "fails or sends no readings for 30 s"),
        ],
    },
    "docs/target-timing.md": {
        "protocol.spec": [
            ("RunSpec.dataset_limit_s", 3600.0, "(one hour by default)"),
        ],
        "host.analysis.verdict.energy": [
            ("EDGE_WINDOW_MIN_S", 10.0, "a window is shorter than 10 s"),
        ],
        "host.analysis.verdict.target": [
            ("MIN_TARGET_WINDOWS", 5, "fewer than five windows (MLPerf"),
            ("RANGE_LIMIT_RATIO", 0.01, "`range_ratio` exceeds 1 %"),
            ("CLOCK_LIMIT_RATIO", 0.02, "differs from 1 by more than 2 %"),
        ],
    },
    "docs/verdict.md": {
        "host.analysis.run_set": [
            ("OUTVOTED_MEDIANS_RATIO", 0.375, "a few runs are at most three of eight"),
        ],
        "host.analysis.verdict.latency": [
            ("HARNESS_INVALID_RATIO", 0.10, "exceeds 10 % of the median invocation"),
            ("HARNESS_SUSPECT_RATIO", 0.02, "as above, more than 2 % | suspect"),
            ("BINDING_LIMIT_RATIO", 0.02, "exceeds 2 % of the median invocation"),
            ("STEADY_LIMIT_RATIO", 0.5, "more than half of the timed inferences"),
            ("MIN_EFFECTIVE_COUNT", 100, "its effective count is below 100"),
            ("SPREAD_LIMIT_RATIO", 0.25, "exceeds 25 % of their median"),
            ("BLOCK_LIMIT_RATIO", 0.10, "differ by more than 10 % of the median"),
        ],
        "host.analysis.verdict.clock": [
            ("CLOCK_INVALID_RATIO", 0.01, "wall clock differ by more than 1 %"),
            ("CLOCK_SUSPECT_RATIO", 0.001, "as above, 0.1 % | suspect"),
            ("SUSPEND_LIMIT_S", 0.02, "stood still for more than 20 ms"),
        ],
        "host.analysis.pauses": [
            ("PAUSE_LIMIT_S", 0.5, "ran for more than 0.5 s"),
        ],
        "host.analysis.verdict.machine": [
            ("FREQ_CHANGE_LIMIT_RATIO", 0.02, "differs by more than 2 % from that"),
            ("QUOTA_LIMIT_RATIO", 0.01, "more than 1 % of the run was in"),
            ("BACKGROUND_LIMIT_RATIO", 0.10, "took more than 10 % of the time"),
            ("CPU_STALL_LIMIT_RATIO", 0.05, "during more than 5 % of the run"),
            ("CPU_SHARE_LIMIT_RATIO", 0.9, "got less than 90 % of a CPU"),
            ("MEMORY_STALL_LIMIT_RATIO", 0.01, "during more than 1 % of the run"),
        ],
        "host.analysis.median": [
            ("PRECISION_INVALID_RATIO", 0.25, "CI exceeds 25 % of the median"),
            ("PRECISION_SUSPECT_RATIO", 0.05, "as above, 5 %; or the median"),
        ],
        "host.analysis.verdict.outputs": [
            ("ACCURACY_INVALID_RATIO", 0.93, "accuracy is below 93 %"),
            ("ACCURACY_SUSPECT_RATIO", 0.98, "as above, 98 % | suspect"),
            ("FLOAT_AGREEMENT_LIMIT", 0.05, "Limit: 0.05 for models of floats"),
            ("QUANTIZED_AGREEMENT_LIMIT", 0.3, "0.3 for quantised models"),
        ],
        "host.analysis.verdict.placement": [
            ("DELEGATED_LIMIT_RATIO", 0.5, "less than half of the operators"),
        ],
        "host.analysis.verdict.thermal": [
            ("MOVED_LIMIT_RATIO", 0.05, "for more than 5 % of the run the model"),
            ("SAMPLER_LIMIT_RATIO", 0.01, "took more than 1 % of a CPU"),
            ("APART_LIMIT_RATIO", 0.02, "(2 % if `--cpus` leaves a CPU free"),
        ],
        "host.analysis.verdict.energy": [
            ("IDLE_LIMIT_RATIO", 0.1, "by more than 10 % of the net power"),
            ("IDLE_STEADY_RATIO", 0.02, "by more than 2 % of the idle power"),
        ],
    },
    "docs/outputs.md": {
        "agent.worker.checks": [
            ("FINITE_BUDGET_S", 10.0, "samples as it can in 10 s"),
            ("CHECKED_SAMPLES", 8, "the outputs for 8 samples are compared"),
            ("MAX_OUTPUT_BYTES", 67_108_864, "would take more than 64 MiB"),
            ("PROFILE_RUNS", (10, 1000), "over up to 1000 inferences"),
        ],
    },
    "docs/energy.md": {
        "host.analysis.energy.windows": [
            ("MISSING_LIMIT_RATIO", 0.001, "misses more than 0.1 % of its samples"),
        ],
        "host.analysis.energy.pulses": [
            ("LATE_RATIO", 0.5, "half a window, capped at 2 s"),
            ("LATE_S", 2.0, "half a window, capped at 2 s"),
        ],
        "meters.polled": [
            ("INTERVAL_RATIOS", (0.5, 1.5), "0.5 to 1.5 times their mean"),
        ],
        "host.analysis.energy.in_step": [
            ("MIN_INSTANTS_HZ", 20_000.0, "fewer than 20,000 instantaneous"),
            ("TICK_MIN_HZ", 100.0, "activity that repeats at 100 Hz or more"),
        ],
        "host.analysis.energy.unsampled": [
            ("BURST_W", 1.0, "but at least 1 W"),
            ("PULSE_RATIO", 4.0, "four times the highest level"),
        ],
        "host.power.metering": [
            ("INSTANTS_DRIFT", 20e-6, "a difference of 20 ppm suffices"),
            ("MAX_INSTANTS_IDLE_S", 30.0, "at most 30 s"),
        ],
        "agent.worker.jitter": [
            ("STRETCH_GAPS", 50, "stretch of 50 times the longest gap"),
            ("STRETCH_QUERIES", 20, "at least 20 inferences"),
        ],
        "protocol.clock": [
            ("DRIFT_LIMIT", 200e-6, "it grows by 200 ppm of the time from the probes"),
        ],
        "host.analysis.energy.sync.load_code": [
            ("ONE_CODE_DRIFT", 50e-6, "it grows by 50 ppm of the time from that code"),
        ],
        "host.analysis.energy.uncertainty": [
            ("COVERAGE", 2.0, "a coverage factor of k = 2"),
            ("U95_LIMIT_RATIO", 0.9, "more than 90 % of the energy"),
        ],
        "host.result.energy": [
            ("ASSUMED_GAIN", 0.15, "the gain (15 % if no gain is stated)"),
        ],
        "host.analysis.energy.trace": [
            ("TIMEBASE_RATIO", 100e-6, "100 ppm plus the difference"),
        ],
    },
    "docs/comparing.md": {
        "host.analysis.compare.comparison": [
            ("ALPHA", 0.05, "(Holm), is below 0.05"),
        ],
        "host.analysis.compare.runs": [
            ("DEFAULT_MARGIN_RATIO", 0.01, "sets the margin, 1 % by default"),
        ],
    },
    "docs/suspect.md": {
        "host.analysis.verdict.latency": [
            ("LEVEL_LIMIT_RATIO", 0.05, "their levels are more than 5 % apart"),
            ("STEADY_LIMIT_RATIO", 0.5, "More than half of the run was warm-up"),
        ],
    },
    "docs/meters.md": {
        "host.analysis.energy.checks": [
            ("LOSS_LIMIT_RATIO", 0.001, "at most 0.1 % of the samples"),
            ("RATE_LIMIT_PPM", 200.0, "The limit of `rate` is 200 ppm"),
            ("ARRIVAL_S", 0.002, "200 ppm plus 2 ms of arrival jitter"),
        ],
        "host.power.imports.blocks": [
            ("COUNTER_LIMIT_RATIO", 0.05, "differ by more than 5 %"),
        ],
        "host.power.metering": [
            ("IDLE_S", 2.0, "idles again (`--idle`: 2 s, longer for slow meters)"),
        ],
        "agent.metering": [
            ("KEPT_FREE_BYTES", 67_108_864, "and less than 64 MiB"),
        ],
        "host.client": [
            ("MAX_FILE_BYTES", 4_294_967_296, "the 4 GiB that a host fetches"),
        ],
    },
    "docs/recordings.md": {
        "host.power.metering": [
            ("CHIP_SAMPLES", 8, "lasts eight samples, and at least 20 ms"),
            ("CHIP_S", 0.02, "lasts eight samples, and at least 20 ms"),
        ],
        "host.analysis.energy.sync.find_codes": [
            ("RATE_LIMIT", 0.001, "up to 0.1 % fast or slow"),
        ],
        "host.power.imports.blocks": [
            ("GAP_STEPS", 1.9, "an interval of 1.9 times that or more"),
        ],
    },
    "docs/meter-clocks.md": {
        "host.analysis.energy.windows": [
            ("EDGE_LIMIT_RATIO", 0.05, "by more than 5 % of its length"),
        ],
        "host.analysis.energy.sync.load_code": [
            (
                "MIN_CORRELATION",
                {1: 0.85, 2: 0.7},
                "a correlation below 0.7 (0.85 if only one code is found)",
            ),
        ],
        "agent.worker.sync_line": [
            ("LOW_NS", 2_000_000, "a GPIO stays low for 2 ms"),
        ],
    },
    "docs/instruments.md": {
        "meters.lpm01a.settings": [
            ("SUPPLY_LIMITS_V", (1.8, 3.3), "to the device, 1.8 to 3.3;"),
            ("ENERGY_MAX_HZ", 10_000, "up to `10k` with `output=energy`"),
            ("ASCII_MAX_HZ", 5_000, "up to `5k` with `format=ascii`"),
        ],
        "meters.ppk2.device": [
            ("SUPPLY_LIMITS_V", (0.8, 5.0), "volts of the device, 0.8 to 5."),
        ],
        "meters.rpi5": [
            ("RATE_MAX_HZ", 10.0, "samples per second, at most 10, which is the default"),
        ],
        "meters.rails": [
            ("RATE_MAX_HZ", 60.0, "at most 60 times per second"),
        ],
        "meters.battery": [
            ("PROOF_S", 15.0, "edgebench waits up to 15 s until the gauge confirms"),
            ("UPDATE_MAX_S", 10.0, "part of the uncertainty (10 s at each edge)"),
        ],
        "meters.nvml": [
            ("MIN_WINDOW_S", 10.0, "ten times a second, so a window has at least 10 s"),
        ],
        "meters.scpi.multimeter": [
            ("RATE_MAX_HZ", 2000.0, "own timer, up to 2000 per second"),
        ],
        "meters.monsoon.device": [
            ("SUPPLY_LIMITS_V", (0.8, 13.5), "it is recorded, 0.8 to 13.5;"),
        ],
        "meters.otii": [
            ("PORT", 1905, "the server of its app (port 1905)"),
        ],
        "meters.ptdaemon": [
            ("PORT", 8888, "for another port than 8888"),
        ],
        "meters.kasa": [
            ("PORT", 9999, "| port 9999. Tapo plugs"),
        ],
        "meters.sigrok.device": [
            ("RATE_MAX_HZ", 100_000, "up to 100k; default: as it is set"),
        ],
        "meters.joulescope.device": [
            ("RATE_HZ", 100_000, "up to `1000k`; default 100k"),
        ],
        "meters.fnirsi.device": [
            ("RATE_HZ", 100.0, "| `fnirsi` | `rate` (100):"),
        ],
        "meters.km003c.device": [
            ("RATE_HZ", 200.0, "| `km003c` | `rate` (200, up to 500)"),
            ("RATE_MAX_HZ", 500.0, "| `km003c` | `rate` (200, up to 500)"),
        ],
        "meters.um25c": [
            ("RATE_HZ", 2.0, "| `um25c` | `rate` (2, up to 10)"),
            ("RATE_MAX_HZ", 10.0, "| `um25c` | `rate` (2, up to 10)"),
        ],
        "meters.plug": [
            ("MIN_WINDOW_S", 60.0, "So a window has at least 60 s"),
        ],
    },
    "docs/wire-protocol.md": {
        "protocol.messages": [
            ("PROTOCOL_VERSION", 5, "Version 5."),
        ],
        "protocol.identity": [
            ("DEFAULT_PORT", 7747, "TCP port 7747 by default"),
            ("PAIRING_VALID_S", 600.0, "a pairing secret less than ten minutes old"),
            ("SECRET_BYTES", 16, "SECRET is 128 random bits (22 characters)"),
            ("PIN_CHARS", 43, "(base64url, 43 characters)"),
        ],
        "protocol.codec": [
            ("MAX_HEADER_BYTES", 65_536, "≤ 64 KiB, ≤ 16 levels deep"),
            ("MAX_DEPTH", 16, "≤ 64 KiB, ≤ 16 levels deep"),
            ("MAX_PAYLOAD_BYTES", 1_048_576, "≤ 1 MiB, may be empty"),
            ("MAX_NUMBER", 9_007_199_254_740_991, "chosen by the host, 0…2⁵³−1"),
        ],
        "host.transports.pinned": [
            ("BUSY_S", 10.0, "and tries again for ten seconds"),
            ("REFUSALS", 2, "If two connections end between the arrival"),
        ],
        "agent.server": [
            ("MAX_CONNECTIONS", 64, "If paired hosts already have 64 connections"),
            ("MAX_BEHIND_BYTES", 262_144, "when more than 256 KiB of notices wait"),
        ],
        "agent.lease": [
            ("MAX_TTL_S", 120.0, "`acquire` ttl_s ≤ 120"),
            ("MAX_WAIT_S", 60.0, "wait_s ≤ 60 (default 0)"),
        ],
        "protocol.live": [
            ("MAX_SAMPLES", 32, "of `sample_count` ≤ 32 values each"),
            ("WATCH_HZ", 10.0, "at most 10 per second"),
        ],
        "agent.run": [
            ("KEPT_LOG_BYTES", 262_144, "output of the inference library, the last 256 KiB"),
        ],
        "agent.worker.marks": [
            ("QUIET_S", 0.25, "the device is quiet for 0.25 s"),
            (
                "FIRST_SPACING_NS",
                (10_000_000, 20_000_000, 15_000_000),
                "Four pulses before the warm-up, 10, 20 and 15 ms apart",
            ),
        ],
    },
    "docs/security.md": {
        "agent.identity": [
            ("MAX_PAIRING_S", 600.0, "A pairing string is valid for ten minutes"),
        ],
        "agent.shedding": [
            ("FULL_PER_S", 128.0, "128 connections a second from unidentified peers"),
            ("NETWORK_PER_S", 4.0, "that open more than four connections a second"),
        ],
        "host.store.set_aside": [
            ("MAX_RUNS", 100, "at most 100 runs that were set aside"),
        ],
    },
    "docs/confinement.md": {
        "agent.worker.limits": [
            ("BASE_MEMORY_BYTES", 1_073_741_824, "| 1 GiB + 8 bytes for each byte"),
            ("MEMORY_PER_MODEL_BYTE", 8, "| 1 GiB + 8 bytes for each byte"),
            ("TRACE_BYTES_PER_QUERY", 100, "+ 100 bytes for each query"),
            ("LOG_BYTES", 67_108_864, "| 64 MiB + room for the traces"),
            ("DISK_LIMIT_FILES", 8, "| 8 times the largest file, 1000 files"),
            ("MAX_FILES", 1000, "| 8 times the largest file, 1000 files"),
        ],
        "protocol.spec": [
            ("Limits.load_timeout_s", 60.0, "| load and first inference | 60 s"),
        ],
        "agent.worker.timeouts": [
            ("TIMEOUT_FACTOR", 3.0, "3 times what the first inference predicts"),
            ("TIMEOUT_MARGIN_S", 30.0, "first inference predicts, + 30 s"),
            ("CHECK_TIMEOUT_S", 600.0, "| checks of the outputs | 600 s"),
        ],
        "agent.worker.reports": [
            ("MAX_PIPE_BYTES", 262_144, "| 256 KiB of lines and 1 KiB a second"),
            ("PIPE_BYTES_PER_S", 1024, "| 256 KiB of lines and 1 KiB a second"),
        ],
        "agent.worker.record_file": [
            ("MAX_RECORD_BYTES", 1_048_576, "a record of 1 MiB, and 3 MiB in"),
            ("MAX_PARSED_BYTES", 3_145_728, "a record of 1 MiB, and 3 MiB in"),
        ],
        "agent.confine.apply": [
            ("MAX_FILES", 1024, "| open files, core dumps | 1024, none"),
            ("MAX_THREADS", 512, "more than 512 threads"),
        ],
    },
    "docs/farm.md": {
        "host.devices.farm": [
            ("DEFAULT_PARALLEL", 16, "measured at the same time (default: 16)"),
            ("DEFAULT_QUARANTINE_AFTER", 3, "failures in a row; 0: never (default: 3)"),
        ],
        "host.devices.health": [
            ("MAX_EVENTS", 10, "the last ten outcomes"),
        ],
        "host.devices.labgrid": [
            ("TIMEOUT_S", 3.0, "A coordinator that does not respond within 3 s"),
        ],
        "host.bench.health_check": [
            ("MIN_ROOM_BYTES", 16_777_216, "room for less than 16 MiB"),
        ],
        "agent.server": [
            ("MAX_CONNECTIONS", 64, "An agent accepts 64 connections"),
        ],
        "agent.telemetry.live": [
            ("LIVE_PERIOD_S", 1.0, "readings of about a second"),
        ],
    },
    "docs/campaigns.md": {
        "host.campaign.spec": [
            ("MAX_REPEATS", 999, "runs of each cell, 1 to 999"),
            ("MAX_RUNS", 100_000, "a campaign has at most 100,000 runs"),
            ("CampaignSpec.repeats", 5, "at most 100,000 runs | 5 |"),
            ("DEFAULT_AWAY_S", 600.0, "the other devices continue without that device | 600 |"),
            ("DEFAULT_LAB_WAIT_S", 30.0, "after it, another lab host takes over | 30 |"),
            ("MAX_COMBINATIONS", 100_000, "from at most 100,000 combinations"),
            ("MAX_CELLS", 10_000, "the axes have at most 10,000"),
            (
                "DEFAULT_RETRY",
                {
                    "worker_died": 1,
                    "worker_timeout": 1,
                    "too_hot": 2,
                    "device_gone": 3,
                    "meter_lost": 3,
                },
                "`worker_died` 1, `worker_timeout` 1, `too_hot` 2, `device_gone` 3, `meter_lost` 3",
            ),
        ],
        "host.campaign.state": [
            ("MAX_LOST", 5, "after five losses in a row it counts as failed"),
        ],
    },
    "docs/clusters.md": {
        "host.campaign.cluster.lab": [
            ("UNUSED_S", 2_592_000.0, "and kept there for 30 days"),
        ],
        "host.client": [
            ("LEASE_TTL_S", 30.0, "the lease of the dead lab host has expired (30 s)"),
        ],
        "host.campaign.commands": [
            ("MAX_PARALLEL_LANES", 512, "for each device, at most 512 at the same time"),
        ],
    },
    "docs/bring-your-own-board.md": {
        "firmware_bridge.board_ports": [
            ("PROBE_AGAIN_S", 10.0, "every ten seconds while its port"),
        ],
        "host.bench.plan": [
            ("MIN_EDGES_IDLE_S", 0.5, "`--idle` must be at least 0.5 s"),
        ],
    },
    "docs/model-blob.md": {
        "firmware_bridge.blob": [
            ("MAX_TENSORS", 1024, "at most 1024 each"),
            ("MAX_OPERATORS", 1024, "at most 1024 each"),
        ],
    },
    "docs/deploy.md": {
        "agent.log": [
            ("MAX_BYTES", 1_048_576, "renamed to `agent.log.1` at 1 MiB"),
            ("GENERATIONS", 3, "and three older logs are kept"),
        ],
        "host.transports.ssh_program": [
            ("CONNECT_TIMEOUT_S", 15, "is given up after 15 s"),
        ],
        "host.devices.packages": [
            ("FRESH_S", 86_400.0, "they are cached for a day"),
        ],
    },
    "docs/history.md": {
        "host.analysis.history.history": [
            ("MAX_HISTORY_POINTS", 500, "at most the newest 500 points"),
        ],
        "host.analysis.history.levels": [
            ("MIN_POINTS", 5, "there are fewer than 5 points"),
        ],
        "host.show.history": [
            ("MAX_PICTURES", 4, "Up to four histories are shown"),
        ],
    },
    "docs/export.md": {
        "host.export.run_trace": [
            ("MAX_RATE_HZ", 10_000.0, "at most 10,000 values per second"),
            ("MAX_BLOCKS", 1_048_576, "per second and 1,048,576 in all"),
        ],
    },
    "docs/report.md": {
        "host.report.charts": [
            ("MAX_INTERVALS", 8192, "at most 8,192 intervals"),
        ],
    },
    "docs/python.md": {
        "host.store.power_outline": [
            ("MAX_BLOCKS", 131_072, "at most 131,072 per channel"),
        ],
    },
    "docs/serve.md": {
        "host.campaign.newest": [
            ("MAX_CAMPAIGNS", 20, "- **Campaigns**: the newest 20"),
        ],
        "host.serve.overview": [
            ("MAX_RUNS", 50, "- **Newest runs**: the last 50"),
        ],
        "host.serve.feed": [
            ("TICK_S", 0.25, "polls these files four times a second"),
            ("MAX_SUBSCRIBERS", 200, "At most 200 browsers"),
        ],
        "host.store.live": [
            ("FILE_BYTES", 1_048_576, "A file is at most 1 MiB"),
            ("KEPT_S", 86_400.0, "of all commands that ended more than a day ago"),
        ],
        "host.serve.server": [
            ("DEFAULT_PORT", 7750, "open http://127.0.0.1:7750/"),
            ("MAX_CONNECTIONS", 300, "At most 300 connections can be open"),
        ],
        "host.serve.guard": [
            ("REQUEST_TIMEOUT_S", 10.0, "no complete request within 10 to 20 s"),
        ],
    },
    "docs/phones.md": {
        "agent.android": [
            ("SHELL_UID", 2000, "adb's shell, uid 2000"),
        ],
        "protocol.spec": [
            ("MAX_BRIGHTNESS", 255, "of the screen, 0 to 255"),
        ],
    },
}
"""By page and module: a constant, or a field with a default; its value; and what promises it."""
ROWS = [
    (page, f"{module}.{name}", value, promise)
    for page, modules in PROMISED.items()
    for module, rows in modules.items()
    for name, value, promise in rows
]


@cache
def text_of(page: str) -> str:
    """Text of a page as if each paragraph were one line."""
    return " ".join((ROOT / page).read_text("utf-8").split())


def value_of(name: str) -> Any:
    """Value of a constant, or the default of a dataclass's field."""
    owner, _, last = f"edgebench.{name}".rpartition(".")
    place = resolve_name(owner)
    fields = getattr(place, "__dataclass_fields__", {})
    return fields[last].default if last in fields else getattr(place, last)


@pytest.mark.parametrize(("page", "name", "value", "promise"), ROWS, ids=[row[1] for row in ROWS])
def test_number_is_what_the_documentation_promises(
    page: str, name: str, value: object, promise: str
) -> None:
    """Otherwise a limit would change, its tests with it, and the documentation alone would stay."""
    assert value_of(name) == value
    assert promise in text_of(page), f"{page} promises something else, or in other words"


@pytest.mark.parametrize(
    ("preset", "duration_s", "query_count", "promise"),
    [
        ("default", 60.0, 1024, "| `default` | 60 s and 1024 queries |"),
        ("quick", 10.0, 128, "| `quick` | 10 s and 128 queries |"),
        ("mlperf", 600.0, 100, "| `mlperf` | 600 s and 100 queries (662 in `multi_stream`) |"),
    ],
)
def test_preset_is_what_the_documentation_promises(
    preset: str, duration_s: float, query_count: int, promise: str
) -> None:
    """Otherwise runs of one preset would be of two lengths, with nothing to distinguish them."""
    fixed = PRESETS[preset]
    assert (fixed["duration_s"], fixed["min_query_count"]) == (duration_s, query_count)
    assert promise in text_of("docs/measurement.md")
