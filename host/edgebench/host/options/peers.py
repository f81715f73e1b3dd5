"""Options and commands of other tools, and the equivalents in edgebench.

An unknown word of a command line is first looked up here. The reason is that the option with the
most similar spelling often has another meaning. For example, the spelling of `--repetitions` is
closer to `--duration` than to `--runs`. The words are not accepted: a command with such a word
fails with exit code 2, and the hint names the right option.

In a hint, `{N}` stands for the value that was typed with the word. Without a typed value, `{N}`
stands for N.

Sources: `--help` of benchmark_model (TensorFlow Lite), onnxruntime_perf_test, trtexec, llama-bench,
hyperfine, pytest, perf, k6, docker, kubectl, gh, git and uv, 2026.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple


class PeerWord(NamedTuple):
    """Words of other tools that have the same meaning, and the equivalent in edgebench."""

    words: tuple[str, ...]
    tools: str
    hint: str
    """Instruction that begins with a verb, and contains the option or command of edgebench."""
    commands: tuple[str, ...] = ()
    """Commands of edgebench after which the words have this meaning; empty: all commands."""


_BENCH = ("bench",)

OPTIONS = (
    # What is measured, and where.
    PeerWord(
        ("--model", "--graph", "--onnx", "--model_path", "--model-path", "--path", "--file", "-m",
         "--loadModel"),
        "benchmark_model, llama-bench, trtexec",
        "pass models without an option: edgebench bench {MODEL}",
        _BENCH,
    ),
    PeerWord(
        ("--device", "--devices", "--host", "--target", "--serial", "-H", "-D"),
        "adb, llama-bench, docker",
        "choose the device with --on: --on {DEVICE}; edgebench devices lists them",
        _BENCH,
    ),
    PeerWord(("-d",), "onnxruntime_perf_test, wrk",
             "choose the device with --on: --on {DEVICE}; or set the measured time: --duration 10s",
             _BENCH),
    PeerWord(
        ("--backend", "--engine-name", "--framework", "--provider", "--execution-provider", "--ep",
         "-e"),
        "onnxruntime_perf_test, MLPerf",
        "choose the runtime with --runtime: --runtime onnx; or the execution provider with "
        "--delegate: --delegate {D}",
        _BENCH,
    ),
    PeerWord(("--use_xnnpack", "--use-xnnpack"), "benchmark_model",
             "choose the delegate with --delegate: --delegate xnnpack, or --delegate none", _BENCH),
    PeerWord(
        ("--use_gpu", "--use-gpu", "--gpu", "--gpus", "--use_nnapi", "--use_hexagon",
         "--use_coreml", "--external_delegate_path", "-ngl"),
        "benchmark_model, llama-bench, docker",
        "choose the delegate with --delegate: --delegate D; to list the delegates: edgebench "
        "devices",
        _BENCH,
    ),
    PeerWord(
        ("--num_threads", "--num-threads", "--nthreads", "--thread", "--jobs", "-j", "-x",
         "--intra_op_num_threads"),
        "benchmark_model, onnxruntime_perf_test, make",
        "set the number of threads with --threads: --threads {N}",
        _BENCH,
    ),
    PeerWord(("-t",), "llama-bench, onnxruntime_perf_test",
             "set the number of threads with --threads: --threads {N}; or the measured time with "
             "--duration: "
             "--duration {N}s", _BENCH),
    PeerWord(
        ("--cpu", "--cpuset-cpus", "--cpu-mask", "--affinity", "--taskset", "--core", "--cores",
         "-C"),
        "docker, llama-bench, taskset",
        "bind the model's process to CPUs with --cpus: --cpus {2,3}",
        _BENCH,
    ),
    PeerWord(("--memory", "--mem"), "docker",
             "limit the memory with --memory-limit: --memory-limit {2GiB}", _BENCH),
    PeerWord(("--prio", "--nice"), "llama-bench, nice",
             "choose the priority with --priority: --priority realtime", _BENCH),
    PeerWord(
        ("--batch", "--batch-size", "--batch_size", "--batchsize", "-b"),
        "llama-bench, trtexec",
        "set the shape of the input with --shape: --shape NAME={8}x224x224x3; or run many samples "
        "in a query: --scenario offline",
        _BENCH,
    ),
    PeerWord(
        ("--input_layer_shape", "--shapes", "--input-shape", "--input_shape", "--free-dim", "-f"),
        "benchmark_model, trtexec, onnxruntime_perf_test",
        "set the shape of an input with --shape: --shape NAME=1x128",
        _BENCH,
    ),
    PeerWord(("--input", "--input_layer_value_files", "--loadInputs", "--data"),
             "benchmark_model, trtexec",
             "pass a file of inputs with --inputs: --inputs {FILE.npz}", _BENCH),
    PeerWord(("--input_layer",), "benchmark_model",
             "omit the option, because all inputs are filled; to set the shape of an input: "
             "--shape NAME=1x128",
             _BENCH),
    PeerWord(
        ("--fp16", "--int8", "--bf16", "--precision", "--dtype", "--quantize", "--allow_fp16",
         "--allowFp16"),
        "trtexec, benchmark_model",
        "measure a model file of that precision, because no option converts models: edgebench "
        "bench MODEL_int8.tflite",
        _BENCH,
    ),
    # How long, and how often.
    PeerWord(
        ("--repetitions", "--repeat", "--repeats", "--rounds", "--trials", "--run", "--count",
         "--min-runs", "--max-runs", "--avgRuns", "-r", "-M"),
        "llama-bench, hyperfine, perf",
        "set the number of runs, each in a new process, with --runs: --runs {N}",
        _BENCH,
    ),
    PeerWord(
        ("--num_runs", "--num-runs", "--iterations", "--iters", "--iter", "--loops", "--samples",
         "--requests", "--loop", "--num_iterations", "-n", "-c", "-i"),
        "benchmark_model, trtexec, ab",
        "set the number of queries with --min-queries: --min-queries {N}; or the number of "
        "runs, each in a new process, with --runs: --runs 5",
        _BENCH,
    ),
    PeerWord(
        ("--time", "--seconds", "--secs", "--min_secs", "--min-secs", "--min-time", "--min_time",
         "--min-benchmarking-time"),
        "benchmark_model, Google Benchmark, hyperfine",
        "set the measured time with --duration: --duration {60}s",
        _BENCH,
    ),
    PeerWord(("--max_secs", "--max-secs", "--max-time"), "benchmark_model",
             "limit the measured time with --max-duration: --max-duration {60}s", _BENCH),
    PeerWord(
        ("-w", "--warmup_runs", "--warmup-runs", "--warm-up", "--warmUp", "--num_warmup_runs",
         "--warmup_iterations", "--warmup-iters"),
        "hyperfine, benchmark_model, trtexec",
        "set the number of warm-up queries with --warmup: --warmup {N}; or the warm-up time with "
        "--warmup-duration: --warmup-duration 1s",
        _BENCH,
    ),
    PeerWord(("--warmup_min_secs", "--warmup-time", "--warmup_time"), "benchmark_model",
             "set the warm-up time with --warmup-duration: --warmup-duration {1}s", _BENCH),
    PeerWord(("--run_delay", "--delay", "--sleep", "--pause"), "benchmark_model, llama-bench",
             "wait for a cool device with --cooldown: --cooldown 10m; or measure idle power with "
             "--idle: --idle {2}s", _BENCH),
    PeerWord(("--fast", "--short", "--smoke", "--quickly"), "many tools",
             "make short runs with --quick", _BENCH),
    PeerWord(("--rate", "--rps", "--arrival-rate"), "k6, wrk2",
             "set the arrival rate with --qps: --scenario server --qps {100}", _BENCH),
    PeerWord(("--concurrency", "--vus", "--streams", "--parallel"), "k6, ab, trtexec",
             "send several samples in a query: --scenario multi_stream --samples-per-query {8}",
             _BENCH),
    # What else is measured.
    PeerWord(
        ("--enable_op_profiling", "--op-profile", "--dumpProfile", "--profiling", "--per-layer",
         "-p"),
        "benchmark_model, onnxruntime_perf_test, trtexec",
        "time every operator with --profile",
        _BENCH,
    ),
    PeerWord(("--power", "--energy", "--power-meter"), "powerstat",
             "choose an energy meter with --meter: --meter ppk2:PORT; edgebench meters lists them",
             _BENCH),
    PeerWord(
        ("--dataset", "--data-path", "--dataset-path", "--eval", "--validate"), "MLPerf",
        "run a labelled data set with --accuracy: --accuracy {FILE.npz}", _BENCH),
    PeerWord(
        ("--baseline", "--reference-model", "--compare", "--vs", "--versus"), "criterion",
        "compare two models with --against: edgebench bench A --against {B}", _BENCH),
    PeerWord(("--max-regression", "--threshold", "--benchmark-compare-fail"),
             "pytest-benchmark, Bencher",
             "set the smallest change that matters with --fail-on: --fail-on {3%}",
             (*_BENCH, "compare", "report")),
    # Output.
    PeerWord(
        ("--export-json", "--output-json", "--json-file", "--benchmark-json", "--out-json",
         "--exportTimes"),
        "hyperfine, pytest-benchmark",
        "write the JSON document to a file: --json > {FILE.json}",
    ),
    PeerWord(("--export-csv", "--csv", "--profiling_output_csv_file", "--output-csv"),
             "hyperfine, benchmark_model", "write CSV with --export: --export {FILE.csv}", _BENCH),
    PeerWord(("--export-markdown", "--markdown", "--md"), "hyperfine",
             "write Markdown with --export: --export {FILE.md}", _BENCH),
    PeerWord(("--export-junit", "--junit", "--junitxml", "--junit-xml"), "pytest",
             "write JUnit XML with --export: --export {FILE.xml}", _BENCH),
    PeerWord(("--output", "--out", "--save", "--output-file"), "many tools",
             "choose the format with -o: -o json, -o csv or -o md; or write a file with --export: "
             "--export FILE.csv",
             _BENCH),
    PeerWord(("--format", "--output-format", "--style"), "docker, hyperfine",
             "choose the format with -o: -o json, -o csv or -o md", ("bench", "runs", "show")),
    PeerWord(("--jq", "--template"), "gh", "pipe the JSON document to jq: --json | jq {FILTER}"),
    PeerWord(("--verbose", "--debug", "-vv", "--log-level"), "many tools",
             "print more: -v"),
    PeerWord(("--silent", "--no-progress", "--progress", "-s"), "curl, uv",
             "print only results and errors: -q"),
    PeerWord(("--no-color", "--no-colour", "--color", "--colour"), "git, uv",
             "turn colours off with a variable: NO_COLOR=1 edgebench …"),
    PeerWord(("--yes", "--force"), "apt", "omit the option: there is no question to confirm",
             ("bench", "show", "runs", "report")),
    PeerWord(("--name", "--command-name", "--label", "--tag"), "hyperfine, docker",
             "tag the runs afterwards: edgebench tag last {NAME}; or select devices: --on "
             "label:NAME", _BENCH),
    PeerWord(("-k",), "pytest", "list the models, or use a shell pattern: edgebench bench "
             "{digits}*.tflite", _BENCH),
    PeerWord(("--lf", "--last-failed", "--resume", "--continue"), "pytest",
             "make the remaining runs of a campaign: edgebench campaign resume", _BENCH),
    PeerWord(("--dry-run", "--collect-only", "--plan"), "pytest, kubectl",
             "list the runs of a campaign without making them: edgebench campaign plan FILE.toml",
             _BENCH),
    PeerWord(("--config",), "many tools",
             "write settings into a campaign file: edgebench campaign run {FILE.toml}; or set "
             "defaults of this machine in the variables EDGEBENCH_ON, EDGEBENCH_CPUS, …",
             ("bench",)),
    PeerWord(("--list-devices", "--list-runtimes"), "llama-bench", "list them: edgebench devices",
             _BENCH),
    PeerWord(("--timeout-s", "--max-load-time"), "many tools",
             "limit the loading time with --timeout: --timeout {60}s", _BENCH),
    # Commands that read runs.
    PeerWord(("-n", "-L", "--limit", "--max-count", "--head"), "gh, git",
             "list only the newest: --last {20}", ("history",)),
    PeerWord(("-n", "-L", "--limit", "--last", "--max-count"), "gh, git",
             "keep only the newest: --keep-last {20}", ("prune",)),
    PeerWord(("-n", "-L", "--max-count", "--head", "--tail"), "gh, git",
             "list only the newest: --limit {20}", ("runs",)),
    PeerWord(("-l", "--selector", "--filter", "-f"), "kubectl, docker",
             "select with --model, --device, --tag or --since: edgebench runs --tag {T}",
             ("runs", "history")),
    PeerWord(("-a", "-A", "--all-namespaces"), "docker, kubectl",
             "omit the option: all runs are listed by default", ("runs",)),
    PeerWord(("-w", "--web", "--open", "--browser"), "gh",
             "open a page: edgebench report last --open", ("show", "runs", "compare", "history")),
    PeerWord(("-w", "-f", "--follow"), "kubectl, docker", "follow them with --watch",
             ("devices",)),
    PeerWord(("--before", "--until", "--after", "--from"), "git",
             "select the newest with --since: --since 2d", ("runs", "history")),
    PeerWord(("--sort", "--sort-by", "--order-by"), "kubectl, docker",
             "sort the rows with another program: -o csv | sort -t, -k 1", ("runs", "show")),
    PeerWord(("-r", "-rf", "-f"), "rm",
             "omit the option: edgebench rm RUN removes whole runs", ("rm",)),
    PeerWord(("--html",), "pytest", "write a page: edgebench report {last} -o FILE.html"),
)  # fmt: skip
"""Options of other tools; if a word is in several rows, the first row for the command counts."""

COMMANDS = (
    PeerWord(
        ("run", "measure", "benchmark", "test", "exec", "start", "time", "perf", "profile"),
        "docker, uv, cargo, MLPerf", "measure models: edgebench bench {MODEL}; or list the stored "
        "runs: edgebench runs"),
    PeerWord(("list", "ls", "ps", "get", "results", "log", "images"), "docker, kubectl, gh, git",
             "list the stored runs: edgebench runs; or the devices: edgebench devices"),
    PeerWord(("view", "describe", "inspect", "info", "cat", "open", "logs", "result"),
             "gh, kubectl, docker", "show a run: edgebench show {last}"),
    PeerWord(("delete", "remove", "del", "rmi"), "kubectl, docker, uv",
             "remove stored runs: edgebench rm {RUN}"),
    PeerWord(("clean", "clear", "gc", "cleanup"), "uv, git, cargo",
             "list old runs and remove them: edgebench prune --older-than 90d"),
    PeerWord(("diff", "cmp"), "git",
             "compare stored runs: edgebench compare {A} --against {B}; or measure both: edgebench "
             "bench A --against B"),
    PeerWord(("status", "top", "stats"), "gh, kubectl, docker",
             "see the devices: edgebench devices; or the campaigns: edgebench campaign status"),
    PeerWord(("kill", "cancel", "abort"), "docker, gh", "stop a run: edgebench stop --on DEVICE"),
    PeerWord(("add", "connect", "login", "auth", "register"), "uv, adb, docker, gh",
             "install an agent and pair with it: edgebench deploy USER@HOST; or pair with a "
             "running agent: "
             "edgebench pair STRING"),
    PeerWord(("install", "setup", "init", "provision", "push"), "uv, git, adb",
             "install an agent on a device: edgebench deploy USER@HOST"),
    PeerWord(("update", "upgrade", "self-update", "self"), "uv, apt",
             "upgrade the package: pip install --upgrade edgebench"),
    PeerWord(("web", "ui", "dashboard", "server", "gui"), "MLflow, TensorBoard",
             "serve the live page: edgebench serve"),
    PeerWord(("plot", "graph", "html", "chart"), "criterion",
             "write a page with charts: edgebench report {last}"),
    PeerWord(("save", "download", "dump", "share", "pack", "zip"), "docker, MLflow",
             "write runs into one file: edgebench bundle {last}; or for another tool: edgebench "
             "export last -o FILE.csv"),
    PeerWord(("import", "load", "merge", "pull"), "docker, MLflow, git",
             "copy the runs of another store or bundle: edgebench store merge {FILE.zip}"),
    PeerWord(("flash", "monitor", "ports"), "esptool, arduino-cli",
             "list microcontrollers: edgebench bridge list; or write firmware: edgebench bridge "
             "flash BOARD"),
    PeerWord(("sweep", "matrix", "suite", "apply", "up"), "MLflow, kubectl, docker compose",
             "measure a matrix of runs: edgebench campaign run {FILE.toml}"),
    PeerWord(("doctor", "health"), "brew",
             "check the devices: edgebench devices check DEVICE; or a stored run: edgebench verify "
             "last"),
    PeerWord(("trend", "regressions", "blame"), "Bencher, git",
             "show a metric over time: edgebench history"),
    PeerWord(("power", "meter"), "powerstat", "list and check energy meters: edgebench meters"),
    PeerWord(("man", "usage", "docs"), "git", "list the commands: edgebench help"),
)  # fmt: skip
VALUES = (
    PeerWord(("wide", "table"), "kubectl",
             "omit -o: a wide terminal shows more columns; for all columns: -o csv"),
    PeerWord(("yaml", "yml", "jsonl", "ndjson", "jsonpath"), "kubectl, gh",
             "choose JSON with -o: -o json; to select parts, pipe it to jq"),
    PeerWord(("markdown", "MD"), "llama-bench", "choose Markdown: -o md"),
)  # fmt: skip
"""Values of options with fixed choices."""
LEAST_LIKENESS = 0.85
"""Smallest similarity, as difflib defines it, at which a word counts as a misspelled word of
another tool. One letter of seven may differ."""
_VALUE = re.compile(r"\{([^}]*)\}")
_NUMBER = re.compile(r"[\d.,-]+")


def hint_for_option(command: str, known: Sequence[str], words: Sequence[str]) -> str | None:
    """Hint for the first unknown option that another tool has; None if there is none.

    Args:
        command: The command, such as `bench`.
        known: The options of the command, which are not looked up.
        words: The words after the command.

    >>> hint_for_option("bench", ["--on"], ["m.onnx", "--num_threads=4"])
    'set the number of threads with --threads: --threads 4'
    >>> hint_for_option("bench", ["--min-queries"], ["--iteration", "9"]).partition(";")[0]
    'set the number of queries with --min-queries: --min-queries 9'
    >>> hint_for_option("bench", ["--timeout"], ["--time", "60s"])
    'set the measured time with --duration: --duration 60s'
    >>> hint_for_option("bench", ["--threads"], ["--threds", "4"])
    """
    for place, word in enumerate(words):
        if word == "--":
            break
        name, _, value = word.partition("=")
        rows = [row for row in OPTIONS if not row.commands or command in row.commands]
        spellings = [spelling for row in rows for spelling in row.words]
        # The beginning of an own option may be a whole option of another tool, such as --time.
        is_own = name in known or (
            name not in spellings and any(option.startswith(name) for option in known)
        )
        if not name.startswith("-") or is_own:
            continue
        meant = _closest(name, known, spellings)
        following = [other for other in words[place + 1 : place + 2] if not other.startswith("-")]
        for row in rows:
            if meant in row.words:
                return _filled(row.hint, [value] if value else following)
    return None


def _closest(name: str, known: Sequence[str], spellings: Sequence[str]) -> str | None:
    """The option of another tool most similar to a word; None if edgebench has a closer option."""
    from difflib import get_close_matches  # only here: a correct command does not need it

    if name in spellings or not name.startswith("--"):
        return name
    others = {spelling.replace("_", "-"): spelling for spelling in spellings}
    closest = get_close_matches(name.replace("_", "-"), [*others, *known], 1, LEAST_LIKENESS)
    return others.get(closest[0]) if closest else None


def hint_for_value(value: str) -> str | None:
    """Hint for a value that is not a choice of an option; None if no other tool has the value."""
    return next((row.hint for row in VALUES if value in row.words), None)


def hint_for_command(words: Sequence[str]) -> str | None:
    """Hint for an unknown command; None if no other tool has this command.

    Args:
        words: The words of the command line, at least one.

    >>> hint_for_command(["run", "m.onnx"])
    'measure models: edgebench bench m.onnx; or list the stored runs: edgebench runs'
    >>> hint_for_command(["rm", "a"]), hint_for_command(["delete", "a", "b"])
    (None, 'remove stored runs: edgebench rm a')
    """
    word, *others = words
    if "." in word:
        from edgebench.system.paths import MODEL_SUFFIXES  # only here: it is slow to import

        if word.endswith(MODEL_SUFFIXES):
            return f"measure it: edgebench bench {shlex.quote(word)}"
    typed = [other for other in others if not other.startswith("-")]
    for row in COMMANDS:
        if word in row.words:
            return _filled(row.hint, typed)
    return None


def plain(hint: str) -> str:
    """A hint with its placeholders instead of values that the user typed.

    >>> plain("set the number of threads with --threads: --threads {N}")
    'set the number of threads with --threads: --threads N'
    """
    return _filled(hint, ())


def _filled(hint: str, typed: Sequence[str]) -> str:
    """Replace placeholders by the typed values, in order; numeric placeholders only by numbers."""
    names = list(dict.fromkeys(_VALUE.findall(hint)))
    values = dict(zip(names, typed, strict=False))
    for name, value in list(values.items()):
        is_number = name == "N" or _NUMBER.fullmatch(name) is not None
        if is_number and not _NUMBER.fullmatch(value):
            del values[name]

    def value_of(match: re.Match[str]) -> str:
        name = str(match[1])
        return shlex.quote(values[name]) if name in values else name

    return _VALUE.sub(value_of, hint)
