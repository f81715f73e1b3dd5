"""The page of a run, for the terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from edgebench.host.analysis.cpu_quota import tightest_quota
from edgebench.host.analysis.run_set import alone
from edgebench.host.analysis.yardstick import UsualSpeed
from edgebench.host.result.latency import PERCENTILES, Stability
from edgebench.host.result.measured import BindingNs, Metrics, ProfileResult
from edgebench.host.result.metrics import METRICS
from edgebench.host.result.run import Conditions, Failure, Run
from edgebench.host.result.settings import SettingState
from edgebench.host.result.thermal import ThermalResult
from edgebench.host.result.units import (
    format_duration,
    format_instructions,
    format_interval_ns,
    format_ns,
    format_rate,
    format_size,
)
from edgebench.host.result.windows import TargetMemoryBytes, WindowSummary
from edgebench.host.show.accuracy import accuracy_words
from edgebench.host.show.data_table import GAP, DataTable
from edgebench.host.show.energy import energy_lines
from edgebench.host.show.headline import headlines
from edgebench.host.show.notes import note_lines
from edgebench.host.show.operators import operator_lines
from edgebench.host.show.tables import (
    PIPE_WIDTH,
    WIDE_ONLY,
    Sentence,
    mark_lines,
    results_table,
    text,
)
from edgebench.host.show.times import local_time, simulated_pace
from edgebench.host.show.verdict import failure_advice, rules_parts, verdict_rows
from edgebench.host.show.yardstick import usual_line, yardstick_line
from edgebench.host.store.annotations import Annotations
from edgebench.protocol.device import Environment
from edgebench.protocol.percent import format_percent
from edgebench.protocol.record import Confinement, ModelFacts
from edgebench.protocol.spec import RunSpec
from edgebench.protocol.text import printable, wrapped_lines

FACT_WIDTH = 12
"""Width of the longest fact name, in columns; all fact tables of a page are aligned to it."""
SHOWN_INPUTS = 4
"""Maximum number of inputs of a model that are listed."""


def run_page(
    run: Run, width: int = PIPE_WIDTH, added: Annotations | None = None, *, is_all: bool = False
) -> Group:
    """The page of a run, without the picture that belongs between its two parts."""
    return Group(*run_results(run, width), "", *run_details(run, added, is_all=is_all))


def run_results(run: Run, width: int = PIPE_WIDTH, prefix: str = "") -> list[RenderableType]:
    """Verdict, advice and results of a run; for a failed run, the reason and advice.

    Args:
        run: The run.
        width: Columns of the terminal.
        prefix: Prefix of names in the run's bundle, such as `sent.zip#`; empty without a bundle.
    """
    if run.failure is not None:
        return [facts_table([*_failure(run, run.failure), *_set(run, prefix)])]
    run_set = alone(run)
    rows: list[tuple[str, str | Text]] = [*verdict_rows(run_set, run), *_set(run, prefix)]
    parts: list[RenderableType] = [text(headline.line) for headline in headlines([run_set])]
    parts += [facts_table(rows), results_table([run_set], width)]
    parts += mark_lines([run_set])
    parts += map(text, note_lines([run_set]))
    if run.verdict.is_refused:
        return parts
    if run.metrics.profile is not None:
        parts.append(operators_table(run.metrics.profile))
    elif run.metrics.latency_ns is not None:
        # Percentiles of both spans with their intervals; a number without an interval is left out.
        gap = " " if width >= WIDE_ONLY else "\n"  # between a number and its interval
        table = DataTable("latency")
        table.add_numbers(*(name.replace("_", ".") for name in PERCENTILES))
        for label, span in (("invocation", "latency_ns"), ("query", "end_to_end_ns")):
            metrics = [METRICS[f"{span}.{name}"] for name in PERCENTILES]
            if metrics[0].value(run) is None:
                continue
            cells = [
                format_interval_ns(metric.value(run), metric.interval(run)).replace(" (", f"{gap}(")
                for metric in metrics
            ]
            if metrics[0].interval(run) is None:
                # The table above shows the headline without an interval, so this table does too.
                cells[0] = f"{format_ns(metrics[0].value(run))}{gap}(no interval)"
            table.add_row(label, *cells)
        parts.append(table)
    return parts


def run_details(
    run: Run,
    added: Annotations | None = None,
    *,
    is_all: bool = False,
    usual: UsualSpeed | None = None,
) -> list[RenderableType]:
    """Other numbers, rules, and facts about the run.

    Args:
        run: The run.
        added: Tags and note that a person added to the run.
        is_all: List every rule, including those that passed.
        usual: Speed of the device compared with earlier runs, if the store has any.
    """
    rules = rules_parts(run.verdict, is_all=is_all)
    annotations = added or Annotations()
    # Tags and note that a person added to the run.
    tags = [("tags", ", ".join(annotations.tags))] if annotations.tags else []
    note = annotations.fault or annotations.note
    speed = [("usual speed", usual_line(usual))] if usual is not None else []
    facts = facts_table([*_facts(run), *speed, *([*tags, ("note", note)] if note else tags)])
    has_numbers = run.failure is None and not run.verdict.is_refused
    parts: list[RenderableType] = []
    if has_numbers:
        parts += [facts_table(_numbers(run.metrics)), ""]
    return [*parts, *rules, "", facts, ""]


@dataclass(frozen=True, slots=True)
class FactsTable:
    """Names and values; a `Text` is printed unchanged, a string loses control characters.

    A command that is longer than its column is on a separate line, which the terminal folds. A line
    end inserted by this table would be copied with the command.
    """

    rows: Sequence[tuple[str, str | Text]]

    def __rich_console__(
        self, console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        """Yield tables of the rows, and between them each command that is wider than its column."""
        del console
        name_width = max([FACT_WIDTH, *(cell_len(name) for name, _ in self.rows)])
        width = options.max_width - name_width - GAP
        table = _facts_grid(name_width)
        for name, value in self.rows:
            if isinstance(value, Text):
                table.add_row(Text(name, style="bold"), value)
                continue
            # The sentence in parts, split at the commands that are wider than the column.
            parts: list[_Part] = []
            for line, is_command in wrapped_lines(printable(value, keep_lines=True), width):
                is_long = is_command and cell_len(line) > width
                if is_long or not parts or parts[-1].is_long_command:
                    parts.append(_Part(line, is_long))
                else:
                    parts[-1] = _Part(f"{parts[-1].words}\n{line}", is_long_command=False)
            for number, part in enumerate(parts):
                if part.is_long_command:
                    if not number:
                        table.add_row(Text(name, style="bold"))
                    yield table
                    yield Text(part.words.rstrip(";,"), no_wrap=True, overflow="ignore")
                    table = _facts_grid(name_width)
                else:
                    table.add_row(Text("" if number else name, style="bold"), Sentence(part.words))
        yield table


@dataclass(frozen=True, slots=True)
class _Part:
    words: str
    is_long_command: bool


def _facts_grid(name_width: int) -> Table:
    table = Table.grid(padding=(0, GAP))
    table.add_column(min_width=name_width)
    return table


def facts_table(rows: Iterable[tuple[str, str | Text]]) -> FactsTable:
    """A table of names and values."""
    return FactsTable([*rows])


def operators_table(profile: ProfileResult) -> Table:
    """Operators of a profile in the order of execution, each with its share of the time."""
    shown = operator_lines(profile)
    table = DataTable("#", "operator", "place")
    table.add_numbers(shown.time_title, shown.share_title)
    table.add_column("name", overflow="fold")
    for line in shown.lines:
        operator = line.operator
        names = (text(operator.operator), text(operator.place))
        table.add_row(str(operator.index), *names, line.time, line.share, text(operator.name))
    return table


def _model(model: ModelFacts) -> str:
    if model.sha256 is None:
        return f"{model.name}, part of the device's firmware, without a file or a hash"
    line = f"{model.name}, {format_size(model.size_bytes)}, {model.sha256[:12]}"
    return line if model.signature is None else f"{line}, signature {model.signature}"


def _facts(run: Run) -> list[tuple[str, str]]:
    device, conditions = run.device, run.conditions
    facts = [
        ("run", f"{run.run_id}, {local_time(run.created_utc)}"),
        ("model", _model(run.model)),
        ("runtime", _runtime(run)),
        ("kind", _kind(run)),
        ("scenario", _scenario(run.spec, is_counted=_is_counted(run))),
    ]
    if conditions.scheduling is not None or conditions.firmware is not None:
        facts.append(("inputs", _inputs(conditions)))
    if (scheduling := conditions.scheduling) is not None:
        cpus = ",".join(map(str, scheduling.cpus))
        parts = [_threads(run), f"CPU {cpus}", f"policy {scheduling.policy}"]
        if (quota := tightest_quota(scheduling)) is not None:
            parts.insert(2, f"CPU quota {quota.cpu_count:.3g} CPUs")
        if (realtime := scheduling.realtime) is not None and realtime.paused_s:
            parts.append(
                f"paused for {format_ns(realtime.paused_s * 1e9)} to let other programs run"
            )
        facts.append(("process", ", ".join(parts)))
    if conditions.confinement is not None:
        facts.append(("confinement", confinement_line(conditions.confinement)))
    # A target runs no operating system.
    kind = f"{device.soc}, {device.os}" if conditions.firmware is None else device.arch
    facts += [("device", f"{device.name}, {kind}"), *_machine(run)]
    if conditions.yardstick is not None:
        facts.append(("yardstick", yardstick_line(conditions.yardstick)))
    if conditions.supply_v is not None:
        facts.append(("supply", f"{conditions.supply_v:g} V, set by the meter"))
    if conditions.ambient_c is not None:
        facts.append(("ambient", f"{conditions.ambient_c:g} °C, stated by the operator"))
    return facts


def _threads(run: Run) -> str:
    """Number of threads requested, and the number in effect if it differs."""
    settings = run.conditions.settings
    if settings is None or settings.threads.state is not SettingState.DIFFERENT:
        return f"{run.spec.threads} thread(s)"
    return f"{run.spec.threads} thread(s) requested, {settings.threads.effective} in effect"


def _runtime(run: Run) -> str:
    """The software that ran the model: a library, or the firmware of a microcontroller."""
    name = f"{run.runtime.name} {run.runtime.version or '?'}"
    if (firmware := run.conditions.firmware) is None:
        return f"{name}, delegates used: {', '.join(run.runtime.delegates_used) or 'none'}"
    parts = [name, firmware.name, firmware.version]
    if firmware.sha256 is not None:
        parts.append(firmware.sha256[:12])
    if (emulator := firmware.emulator) is not None:
        parts.append(f"in {emulator.name} {emulator.version}")
    return ", ".join(parts)


def _machine(run: Run) -> list[tuple[str, str]]:
    """State of the machine that ran the model, or of the machine that a target is attached to."""
    environment = run.environment
    virtual, load = _virtual(environment), "not reported by the system"
    if environment.load_1m is not None:
        load = f"{environment.load_1m:.2f} before the run"
    if run.conditions.firmware is not None:
        return [("attached to", f"{environment.kernel}; virtual: {virtual}; load average {load}")]
    governor = environment.cpu.governor or "not reported by the kernel"
    facts = [("virtual", virtual), ("governor", governor), ("load average", load)]
    if environment.android is not None:
        # Build of the phone's system, and how the model's process differs from an app's process.
        parts = [f"security patch {environment.android.security_patch or 'unknown'}"]
        if environment.android.is_shell:
            parts.append("with the rights of adb's shell, which exceed those of an app")
        groups = run.conditions.scheduling.android if run.conditions.scheduling else None
        if groups is not None and groups.cpuset is not None:
            parts.append(f"in control group {groups.cpuset}, not that of a foreground app")
        facts.insert(0, ("android", "; ".join(parts)))
    return facts


def _virtual(environment: Environment) -> str:
    """Virtual machine or container in which the run was made, as far as it was detected."""
    why = environment.virtualization_unknown
    if environment.virtualization is not None:
        return environment.virtualization
    return "none detected" if why is None else f"unknown: {why}"


def confinement_line(confinement: Confinement) -> str:
    """Restrictions of the model's process, and restrictions that no mechanism could apply."""
    parts = {
        "programs and sockets": confinement.calls,
        "files": confinement.files,
        "the network": confinement.network,
        "rights of root": confinement.capabilities,
        "new rights": confinement.privileges,
        "unlimited threads": confinement.threads,
    }
    kept = [name for name, part in parts.items() if part.is_applied]
    missing = [f"{name}: {part.detail}" for name, part in parts.items() if not part.is_applied]
    line = f"kept from {', '.join(kept)}" if kept else "none"
    if missing:
        line += f"; not from {'; '.join(missing)}"
    return f"{line}; the agent ran as root" if confinement.is_root else line


def _failure(run: Run, failure: Failure) -> list[tuple[str, str]]:
    """Why the run failed, and the next step."""
    where = f", {failure.phase.value.replace('_', ' ')}" if failure.phase else ""
    return [
        ("failed", f"{failure.message} ({failure.code}{where})"),
        ("to improve", failure_advice(run)),
    ]


def _set(run: Run, prefix: str) -> list[tuple[str, str]]:
    """Position of the run in its set or pair; the set may have another verdict than the run."""
    if run.pair is not None:
        place = f"{run.pair.side} of pair {run.pair.number + 1}"
        all_pairs = shlex.quote(f"{prefix}{run.pair.comparison_id}")
        return [("pair", f"{place}; to see the comparison: edgebench compare {all_pairs}")]
    if run.member is None:
        return []
    place = f"run {run.member.number + 1} of {run.member.count}"
    if (replaced := run.member.replaces) is not None:
        place += f", in place of {replaced.run_id} ({', '.join(replaced.rules)})"
    name = shlex.quote(f"{prefix}{run.member.set_id}")
    return [("set", f"{place}; to see the verdict of the set: edgebench show {name}")]


def _is_counted(run: Run) -> bool:
    """Whether instructions were counted and no times were measured."""
    return run.metrics.instructions_per_inference is not None


def _kind(run: Run) -> str:
    profile = run.metrics.profile
    if run.simulated:
        return f"SIMULATED device: its times are simulated{simulated_pace(run)}"
    kind = "EMULATED device: instructions are counted, and times are not measured"
    if profile is None:
        return kind if _is_counted(run) else "measurement"
    over = f"profile over {profile.run_count} inferences; without the profiler,"
    if _is_counted(run):
        count = format_instructions(profile.unprofiled_instructions)
        return f"{kind}; {over} an inference takes {count}"
    return f"{over} p50 is {format_ns(profile.unprofiled_p50_ns)}"


def _inputs(conditions: Conditions) -> str:
    """The source of the inputs, and the shapes of the first `SHOWN_INPUTS` inputs."""
    if conditions.firmware is not None and not conditions.inputs:
        return "captured by the device: none are sent to it"
    source = conditions.inputs_file or "drawn from the seed"
    if clipped := conditions.inputs_clipped_ratio:
        share = format_percent(clipped, 2) if clipped >= 1e-4 else "under 0.01 %"
        source += f" ({share} of the values are clipped to the range of the input's type)"
    specs = conditions.inputs
    shown = [f"{spec.name} {list(spec.shape)} {spec.dtype}" for spec in specs[:SHOWN_INPUTS]]
    if len(specs) > SHOWN_INPUTS:
        shown.append(f"{len(specs) - SHOWN_INPUTS} more")
    return f"{conditions.sample_count} samples, {source}: {', '.join(shown) or 'none'}"


def _scenario(spec: RunSpec, *, is_counted: bool) -> str:
    """The scenario as specified, without durations and queries if instructions are counted."""
    if is_counted:
        return f"{spec.scenario.value}, engine {spec.engine.value}, seed {spec.seed}"
    parts = [
        spec.scenario.value,
        f"preset {spec.preset}",
        f"at least {spec.duration_s:g} s and {spec.min_query_count} queries, but at most "
        f"{spec.max_query_count:,} queries",
    ]
    if spec.max_duration_s is not None:
        parts.append(f"at most {spec.max_duration_s:g} s")
    settings = spec.scenario.traits.settings
    parts += [f"{name.replace('_', ' ')} {getattr(spec, name):g}" for name in settings]
    if spec.target_latency_s is not None:
        parts.append(f"target latency {format_ns(spec.target_latency_s * 1e9)}")
    return ", ".join([*parts, f"engine {spec.engine.value}", f"seed {spec.seed}"])


def _stability(stability: Stability | None) -> list[tuple[str, str]]:
    if stability is None:
        return []
    parts = [f"interquartile range {format_percent(stability.iqr_ratio, 1)} of the median"]
    if stability.block_range_ratio is not None:
        block_range = format_percent(stability.block_range_ratio, 1)
        parts.append(f"medians of ten blocks differ by up to {block_range}")
    if stability.levels is not None:
        levels = stability.levels
        parts.append(
            f"levels {format_ns(levels.low_ns)} for {format_ns(levels.low_dwell_s * 1e9)} and "
            f"{format_ns(levels.high_ns)} for {format_ns(levels.high_dwell_s * 1e9)} at a time"
        )
    return [("stability", "; ".join(parts))]


def _numbers(metrics: Metrics) -> list[tuple[str, str]]:
    """Results other than the latency."""
    facts: list[tuple[str, str]] = []
    if (warmup := metrics.warmup) is not None:
        steady = warmup.steady_class or "unknown"
        facts.append(("warm-up", f"{steady}, {warmup.query_count} inferences excluded"))
    facts += _stability(metrics.stability)
    if (cold := metrics.cold_start_ns) is not None:
        line = f"import {format_ns(cold.import_)}, load {format_ns(cold.load)}, first inference "
        facts.append(("cold start", f"{line}{format_ns(cold.first_inference)}; measured once"))
    if (memory := metrics.memory_bytes) is not None:
        line = f"peak {format_size(memory.peak_rss)}, then {format_size(memory.steady_rss)} "
        line += f"resident, of which {format_size(memory.model)} for the model"
        facts.append(("memory", line))
    if (harness := metrics.harness_ns) is not None and harness.binding is not None:
        facts.append(("binding", _binding(harness.binding)))
    if metrics.windows is not None:
        facts += _windows(metrics.windows, metrics.instructions_per_inference)
    if (target := metrics.target_memory_bytes) is not None:
        facts += _target_memory(target)
    if metrics.upload_s is not None:
        facts.append(("upload", format_duration(metrics.upload_s)))
    if metrics.throughput_per_s is not None:
        facts.append(("throughput", f"{format_rate(metrics.throughput_per_s)} inferences/s"))
    if metrics.loadgen is not None:
        result = metrics.loadgen
        words = ["VALID" if result.is_valid else "INVALID"]
        spans = ("p50", result.p50_ns), ("p90", result.p90_ns), ("p99", result.p99_ns)
        words += [f"{name} {format_ns(value)}" for name, value in spans if value]
        if result.samples_per_s is not None:
            words.append(f"{format_rate(result.samples_per_s)} samples/s")
        facts.append(("LoadGen", ", ".join(words)))
    if metrics.accuracy is not None:
        shown = accuracy_words(metrics.accuracy)
        facts.append(("accuracy", f"{metrics.accuracy.metric} {shown}"))
    heat = heat_lines(metrics.thermal)
    facts += [("thermal" if line is heat[0] else "start to end", line) for line in heat]
    return facts + energy_lines(metrics.energy)


def _target_memory(target: TargetMemoryBytes) -> list[tuple[str, str]]:
    """Memory of the model on the target, and of the firmware if the firmware reports it."""
    line = f"flash {format_size(target.flash)}, RAM {format_size(target.ram)}"
    facts = [("memory", f"{line}, of which {format_size(target.arena)} for tensors")]
    if target.firmware_flash is not None:
        line = f"flash {format_size(target.firmware_flash)}, RAM {format_size(target.firmware_ram)}"
        if target.stack_peak is not None:
            line += f", stack up to {format_size(target.stack_peak)} of {format_size(target.stack)}"
        facts.append(("firmware's", line))
    if target.flash_total is not None and target.ram_total is not None:
        total = f"flash {format_size(target.flash_total)}, RAM {format_size(target.ram_total)}"
        facts.append(("together", total))
    return facts


def _windows(windows: WindowSummary, instructions: float | None) -> list[tuple[str, str]]:
    """Windows timed by the device or the meter; without times if instructions are counted."""
    timed = "timed by the meter" if windows.is_timed_by_meter else "timed by the device"
    line = (
        f"{windows.count} {timed if windows.shortest_s else 'without a time'}, "
        f"{windows.inference_count} inferences in all, {windows.warmup_count} more inferences "
        "before each window"
    )
    if windows.duration_ns_per_inference is None:
        return [("windows", line)]
    if instructions is None:
        line += f"; {format_ns(windows.duration_ns_per_inference)} per inference on average"
        if windows.range_ratio is not None:
            line += f", range {format_percent(windows.range_ratio, 3)}"
        return [("windows", line)]
    within = instructions * (windows.resolution_ratio or 0.0)
    shown = f"{format_instructions(instructions)} per inference, within {within:.2g}"
    return [("windows", line), ("instructions", shown)]


def _binding(binding: BindingNs) -> str:
    """Time that the Python binding adds to an invocation; it is not subtracted from results."""
    if binding.p50 is None:
        return binding.unavailable or "not measured"
    through = f"a model of one addition takes {format_ns(binding.p50)} through the Python binding"
    if binding.added is None:
        return f"{through}; in C unknown: {binding.unavailable}"
    return (
        f"{through}, and {format_ns(binding.c_p50)} in C, so at least {format_ns(binding.added)} "
        "of each latency is due to the binding, not to the model"
    )


def heat_lines(thermal: ThermalResult | None) -> list[str]:
    """Thermal verdict with its numbers, or with its reason if it has no numbers."""
    if thermal is None:
        return []
    last_ns, last_per_s = thermal.sustained_latency_ns, thermal.sustained_throughput_per_s
    if last_ns is None or last_per_s is None:
        return [f"{thermal.verdict}: {thermal.reason}"]
    facts = []
    if thermal.onset_s is not None:
        share = f"for {format_percent(thermal.throttled_ratio or 0)} of the run"
        facts.append(f"from {thermal.onset_s:.0f} s on, {share}")
    if thermal.max_temp_c is not None and thermal.start_temp_c is not None:
        start_c, max_c = thermal.start_temp_c, thermal.max_temp_c
        facts.append(f"{start_c:.1f} °C after the warm-up, peak {max_c:.1f} °C")
    if thermal.baseline_freq_hz is not None:
        nominal = thermal.nominal_freq_hz
        of = "" if nominal is None else f" of {nominal / 1e9:.2f}"
        facts.append(f"{thermal.baseline_freq_hz / 1e9:.2f}{of} GHz at the start")
    # Headline before and after the onset; a number without an interval is left out.
    known = [
        f"{format_interval_ns(part.p50, part.p50_ci95)} {where} the onset"
        for part, where in (
            (thermal.latency_ns_before, "before"),
            (thermal.latency_ns_after, "after"),
        )
        if part is not None and part.p50_ci95 is not None
    ]
    return [
        "; ".join([thermal.verdict, *facts]),
        *_speeds(thermal, last_ns, last_per_s),
        *([f"p50 {', '.join(known)}"] if known else []),
    ]


def _speeds(thermal: ThermalResult, last_ns: float, last_per_s: float) -> list[str]:
    """Latency and throughput separately; on a busy machine, they can change independently."""
    from edgebench.host.analysis.thermal.throttling import SUSTAINED_SHARE  # slow to import

    at_end = f"{format_ns(last_ns)} at the end, {format_rate(last_per_s)} inferences/s"
    if thermal.retention_ratio is None or thermal.peak_throughput_per_s is None:
        since = "throttled from the start"
        if thermal.latency_ns_before is not None:
            since = "throttled almost from the start"
        return [f"{at_end}; {since}, so the peak is unknown"]
    first = format_rate(thermal.peak_throughput_per_s)
    end = f"in the last {format_percent(SUSTAINED_SHARE)} of the run"
    return [
        f"latency {format_ns(thermal.peak_latency_ns)} at the start, {format_ns(last_ns)} {end}: "
        f"performance retention {format_percent(thermal.retention_ratio, 1)}, measured by latency",
        f"throughput {first}/s at the start, {format_rate(last_per_s)}/s {end}, including the time "
        "between inferences",
    ]
