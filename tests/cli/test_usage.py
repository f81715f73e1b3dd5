"""Mistyped commands: exit code 2, what failed, and what to do."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest
from support.agents import Host
from support.commands import Run

from edgebench.agent.cli import main as agent_main
from edgebench.host.cli.main import COMMANDS
from edgebench.host.options.bench import BASIC, OPTIONS
from edgebench.protocol.identity import PairingString


def assert_is_usage_error(err: str, said: str) -> None:
    """One line on what failed, one line on what to do, and nothing else."""
    lines = err.splitlines()
    assert [line.split(":")[0] for line in lines] == ["error", "hint"], err
    assert said in lines[0]
    assert "edgebench" in lines[1]


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_tells_its_options(edgebench: Run, command: str) -> None:
    """Otherwise a listed command would not start, or its help would be for another command."""
    said = edgebench(command, "--help")
    assert (said.code, said.err) == (0, "")
    assert said.out.startswith(f"usage: edgebench {command}")


def test_help_of_deploy_is_in_groups(edgebench: Run) -> None:
    """Otherwise options for the device and for its owner would be mixed in one list of ten."""
    said = edgebench("deploy", "--help").out
    parts = re.split(r"\n(?=\w)", said)
    options = {
        part.split(":")[0]: re.findall(r"^  (?:-i FILE, )?(--[\w-]+)", part, re.M) for part in parts
    }
    assert options["what is installed"] == ["--runtime", "--wheels", "--bridge"]
    assert options["the agent"] == [
        "--port",
        "--no-boot",
        "--via",
        "--name",
        "--meter",
        "--sync-line",
    ]


@pytest.mark.parametrize("words", [("--help",), ("-h",), ("help",), ()])
def test_help_lists_every_command(edgebench: Run, words: tuple[str, ...]) -> None:
    """Each stands once, in a group, with three examples below, in at most 60 lines."""
    said = edgebench(*words)
    assert said.code == (0 if words else 2)
    parts = dict(re.findall(r"^([a-z ]+):\n((?:  .*\n)+)", said.out, re.M))
    groups = ["measure", "look", "keep and share", "devices", "lab", "other"]
    assert list(parts) == [*groups, "options of every command", "examples"]
    listed = [line.split()[0] for group in groups for line in parts[group].splitlines()]
    assert listed == list(COMMANDS)
    assert parts["examples"].count("edgebench ") == 3
    assert len(said.out.splitlines()) <= 60


def test_help_of_a_command_is_printed_by_help_too(edgebench: Run) -> None:
    """`help CMD` is what git, gh and uv have."""
    assert edgebench("help", "runs").out == edgebench("runs", "--help").out
    assert edgebench("help", "campaign", "run").out == edgebench("campaign", "run", "--help").out


def test_short_help_of_bench_is_at_most_60_lines(
    edgebench: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has three examples and the basic options; --help-all has all of them."""
    monkeypatch.setenv("COLUMNS", "80")
    short, full = edgebench("bench", "--help").out, edgebench("bench", "--help-all").out
    assert len(short.splitlines()) <= 60
    assert short.count("  edgebench bench ") == 3
    assert set(BASIC) < {option.name for option in OPTIONS}
    for option in OPTIONS:
        assert f"  {option.flag}" in full
        assert (f"  {option.flag}" in short) == (option.name in BASIC)
    assert "edgebench bench --help-all" in short
    assert edgebench("runs", "--help-all").out == edgebench("runs", "--help").out


def test_help_of_everything_has_every_command(edgebench: Run) -> None:
    """Otherwise options could only be searched command by command."""
    everything = edgebench("--help-all").out
    for command in COMMANDS:
        assert f"usage: edgebench {command}" in everything


@pytest.mark.parametrize(
    "words",
    [("--json", "runs"), ("-o", "json", "runs"), ("runs", "-o", "json"), ("runs", "-ojson")],
)
def test_options_may_precede_the_command(edgebench: Run, words: tuple[str, ...]) -> None:
    """As of kubectl and gh; `-o json` is `--json`."""
    assert json.loads(edgebench(*words).out) == json.loads(edgebench("runs", "--json").out)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("runs -o csv --json", "argument --json: output formats csv and json exclude each other"),
        ("runs --json -o md", "argument -o: output formats json and md exclude each other"),
        (
            "bench a.onnx --against b.onnx -o csv",
            "-o csv is not available with --against, which prints a comparison: use -o json",
        ),
    ],
)
def test_formats_that_contradict_are_refused(edgebench: Run, words: str, message: str) -> None:
    """Otherwise one of them would win, and another one in the next command."""
    said = edgebench(*words.split())
    assert said.code == 2
    assert f"error: {message}\n" in said.err


def test_failure_with_o_json_is_a_document(edgebench: Run) -> None:
    """Otherwise a script would read nothing from stdout."""
    said = edgebench("show", "nothing", "-o", "json")
    assert json.loads(said.out)["error"]["exit_code"] == said.code


def test_verbose_command_logs_and_others_do_not(edgebench: Run) -> None:
    """-v sets EDGEBENCH_DEBUG, on which agents and tracebacks depend."""
    code = (
        "import logging, os\n"
        "from edgebench.host.cli.main import main\n"
        "main(['runs', *{words}])\n"
        "print(logging.getLogger('edgebench').isEnabledFor(logging.DEBUG), "
        "os.environ.get('EDGEBENCH_DEBUG'))\n"
    )
    for words, last in ((["-v"], "True 1"), ([], "False None")):
        command = [sys.executable, "-c", code.format(words=words)]
        environment = {key: value for key, value in os.environ.items() if key != "EDGEBENCH_DEBUG"}
        said = subprocess.run(
            command, capture_output=True, text=True, check=True, env=environment
        ).stdout
        assert said.splitlines()[-1] == last


@pytest.mark.parametrize("words", [(), ("bench",), ("devices",)], ids=" ".join)
def test_help_loads_nothing_that_takes_time(words: tuple[str, ...]) -> None:
    """Otherwise `edgebench --help` would take a second, because pandas is loaded for it."""
    code = (
        "import sys\n"
        "from edgebench.host.cli.main import main\n"
        "main([*sys.argv[1:], '--help'])\n"
        "heavy = {'numpy', 'pandas', 'pyarrow', 'rich', 'scipy', 'zeroconf', 'websockets',\n"
        "         'cattrs', 'cryptography', 'paramiko', 'asyncio', 'dataclasses'}\n"
        "heavy |= set() if sys.argv[1:] else {'typing'}\n"
        "sys.exit(' '.join(heavy & set(sys.modules)) or 0)\n"
    )
    result = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert result.returncode == 0, f"loaded: {result.stderr}"


def test_show_of_a_run_loads_no_meter_and_no_network(tmp_path: Path) -> None:
    """Otherwise `edgebench show` would take half a second, as all meter drivers are loaded."""
    stored = next((Path(__file__).parents[1] / "fixtures" / "runs" / "v7").iterdir())
    shutil.copytree(stored, tmp_path / "runs" / stored.name)
    code = (
        "import sys\n"
        "from edgebench.host.cli.main import main\n"
        "main(sys.argv[1:])\n"
        "heavy = {'pandas', 'scipy', 'zeroconf', 'websockets', 'cryptography',\n"
        "         'edgebench.meters.registry', 'edgebench.protocol.messages'}\n"
        "sys.exit(' '.join(heavy & set(sys.modules)) or 0)\n"
    )
    words = ["show", stored.name, "--store", str(tmp_path)]
    result = subprocess.run([sys.executable, "-c", code, *words], capture_output=True, text=True)
    assert result.returncode == 0, f"loaded: {result.stderr}"
    assert stored.name in result.stdout


def test_terminal_without_unicode_is_no_reason_to_fail() -> None:
    """Otherwise the table would raise a UnicodeEncodeError at the first µ on a serial console."""
    environment = dict(os.environ, PYTHONIOENCODING="ascii")
    command = [sys.executable, "-m", "edgebench.host.cli", "--help"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("usage: edgebench COMMAND [OPTION]?")


def test_version_is_one_line(edgebench: Run) -> None:
    """Otherwise a bug report would lack the version."""
    said = edgebench("--version")
    assert (said.code, said.err) == (0, "")
    assert edgebench("-V").out == edgebench("version").out == said.out
    assert said.out.startswith("edgebench ")
    assert said.out.count("\n") == 1


@pytest.mark.parametrize("word", ["bnech", "--frobnicate", "", "../show", "main", "options"])
def test_unknown_command_is_named(edgebench: Run, word: str) -> None:
    """Otherwise a misspelt command would do something else, or run a module that is no command."""
    said = edgebench(word, "model.tflite")
    assert (said.code, said.out) == (2, "")
    assert_is_usage_error(said.err, f"unknown command {word!r}")


@pytest.mark.parametrize(
    "words",
    [
        ("bench", "--frobnicate"),
        ("bench", "--dur", "1s"),
        ("compare", "a", "--against", "b", "--metr", "energy_j"),
        ("meters", "record", "rapl", "--dur", "1s"),
        ("bench", "--threads", "many"),
        ("bench", "--duration", "soon"),
        ("bench", "--memory-limit", "lots"),
        ("bench", "--qps", "many"),
        ("bench", "--target-latency", "soon"),
        ("bench", "--target-latency", "40"),
        ("bench", "--samples-per-query", "1.5"),
        ("bench", "--cpus", "a-b"),
        ("bench", "--cpus", "3-1"),
        ("bench", "--cpus", ""),
        ("bench", "--cpus", "1,,2"),
        ("bench", "--on"),
        ("bench", "--battery", "18"),
        ("bench", "--idle", "abc"),
        ("show",),
        ("verify", "a", "b"),
        ("pair",),
        ("devices", "extra"),
    ],
    ids=" ".join,
)
def test_wrong_options_are_refused_by_the_parser(edgebench: Run, words: tuple[str, ...]) -> None:
    """Otherwise a mistyped option would be ignored, and something else measured."""
    said = edgebench(*words)
    assert (said.code, said.out) == (2, "")
    error, hint = said.err.splitlines()
    assert error.startswith("error: ")
    assert hint.endswith(f"see all arguments: edgebench {words[0]} --help")


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        (("bnech",), "edgebench bench"),
        (("bench", "--runtim", "onnx"), "--runtime"),
        (
            ("bench", "digits_int8.onnx", "--against", "digits_fp32.onnx", "--runs", "7"),
            "--pairs 7",
        ),
        (("meters", "record", "rapl", "--durration", "1s"), "--duration"),
        (("meters", "recrod"), "record"),
        (("bench", "--preset", "quik"), "quick"),
        (("bench", "--scenario", "ofline"), "offline"),
        (("report", "last", "--allow", "runtme"), "runtime"),
        (("history", "--metric", "latency_ns.p5"), "latency_ns.p50"),
        (("bench", "--engine", "loadgne"), "loadgen"),
        (("bench", "--on", "locale"), "local"),
        (("bench", "--meter", "pkk2:/dev/ttyACM0"), "ppk2"),
        (("bench", "--meter", "synthetic", "--sync", "codedload"), "coded_load"),
        (
            ("bench", "digits_int8.onnx", "--against", "digits_fp32.onnx", "--allow", "runtme"),
            "runtime",
        ),
        (
            (
                "bench",
                "digits_int8.onnx",
                "--against",
                "digits_fp32.onnx",
                "--metric",
                "latency.p50",
            ),
            "latency_ns.p50",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_hint_names_what_was_probably_meant(
    edgebench: Run, words: tuple[str, ...], meant: str
) -> None:
    """Otherwise a typing error would send the user to three pages of help."""
    said = edgebench(*words)
    assert (said.code, said.out) == (2, "")
    assert said.err.splitlines()[1].startswith(f"hint: did you mean {meant}? otherwise see ")


def test_what_is_like_nothing_gets_no_guess(edgebench: Run) -> None:
    """Otherwise a hint would lead to an unrelated command."""
    for words in (("xyzzy",), ("bench", "--xyzzy"), ("bench", "--on", "xyzzy")):
        assert "did you mean" not in edgebench(*words).err


@pytest.mark.parametrize("option", ["--runtime", "--delegate", "--against"])
def test_option_that_is_given_twice_is_refused(edgebench: Run, option: str) -> None:
    """Otherwise only the last of two runtimes would silently be measured."""
    said = edgebench("bench", "digits_int8.onnx", option, "a", option, "b")
    assert said.code == 2
    assert f"argument {option}: given twice: 'a' and 'b'" in said.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--preset", "quik"), "unknown preset 'quik'"),
        (("--quick", "--preset", "default"), "contradict each other"),
        (("--scenario", "turbo"), "unknown scenario 'turbo'; available: single_stream"),
        (("--threads", "0"), "threads must be 1..256"),
        (("--threads", "-3"), "threads must be 1..256"),
        (("--min-queries", "0"), "min queries must be 1..1000000, got 0"),
        (("--warmup", "-1"), "warm-up queries must be 0..1099511627776, got -1"),
        (("--duration", "0s"), "duration must be > 0 s"),
        (
            ("--duration", "99999h"),
            "duration must be > 0 s and at most 604800 s (7 days), got 359996400 s",
        ),
        (("--duration", "169h", "--max-duration", "170h"), "duration must be > 0 s and at most"),
        (("--max-duration", "8000h"), "max duration must be > 0 s and at most 604800 s (7 days)"),
        (("--timeout", "169h"), "timeout must be > 0 s and at most 604800 s (7 days)"),
        (("--cooldown", "169h"), "cooldown timeout must be 0 to 604800 s (7 days)"),
        (("--wait", "169h"), "wait must be 0 to 604800 s (7 days), got 608400 s"),
        (("--seed", "-1"), "seed must be"),
        (("--timeout", "0"), "timeout must be > 0 s and at most"),
        (("--min-queries", "5000000"), "min queries must be 1..1000000, got 5000000"),
        (("--warmup", "9" * 20), "warm-up queries must be 0..1099511627776"),
        (("--memory-limit", "0"), "memory limit must be 128 MiB to 16.0 TiB, got "),
        (("--memory-limit", "999999999TiB"), "memory limit must be 128 MiB to 16.0 TiB, got "),
        (("--on", ""), "no paired device is called ''"),
        (("--on", "nowhere"), "no paired device is called 'nowhere'"),
        (("--meter", "joulescope9"), "unknown meter 'joulescope9'"),
        (("--scenario", "server"), "the server scenario needs the arrivals per second: --qps 100"),
        (("--scenario", "server", "--qps", "0"), "arrivals must be 0.001 to 1e+06 per second"),
        (("--scenario", "server", "--qps", "nan"), "arrivals must be 0.001 to 1e+06 per second"),
        (("--scenario", "server", "--qps", "1e5"), "arrivals exceed the limit of 1000000: choose"),
        (("--qps", "100"), "arrivals and a target latency require the server scenario"),
        (("--target-latency", "5ms"), "require the server scenario, got single_stream"),
        (("--duration", "1s", "--runs", "1000"), "1000 runs share 1 s: each run takes 0.001 s"),
        (
            ("--duration", "0.2s"),
            "5 runs share 0.2 s: each run takes 0.04 s, at least 0.1 s needed",
        ),
        (("--sustained", "20m", "--duration", "60s"), "--sustained and --duration contradict"),
        (("--sustained", "0s"), "duration must be > 0 s"),
        (("--ambient", "500"), "ambient temperature must be -60 to 90 °C, got 500"),
        (("--telemetry-rate", "1000"), "telemetry rate must be 0, or 0.1 to 100 Hz, got 1000"),
        (("--telemetry-rate", "0.09"), "telemetry rate must be 0, or 0.1 to 100 Hz, got 0.09"),
        (("--governor", "Fast!"), "governor must be a name such as performance, got 'Fast!'"),
        (
            ("--scenario", "server", "--qps", "9", "--target-latency", "0ms"),
            "target latency must be > 0 s",
        ),
        (("--scenario", "multi_stream", "--samples-per-query", "0"), "must be 1..65536, got 0"),
        (("--scenario", "offline", "--profile"), "a profile requires the single_stream"),
        (("--engine", "x"), "unknown engine 'x'; available: native, loadgen"),
        (("--priority", "x"), "unknown priority 'x'; available: normal, realtime"),
        (("--cpus", "4096"), "must be 0..4095"),
        (("--accuracy", "nowhere.npz"), "data set not readable: No such file or directory"),
        (("--accuracy", "."), "data set not readable: a directory in place of a file"),
        (("--accuracy", "/etc/hostname"), "data set is not a .npz file of numbers"),
        (("--reference", "digits_fp32.tflite"), "a reference model needs a data set"),
        (("--shape", "x=1", "--shape", "x=2"), "--shape sets two shapes for input 'x'"),
        (("--inputs", "a.npz", "--inputs", "b.npz"), "given twice: 'a.npz' and 'b.npz'"),
        (
            ("--accuracy", "digits", "--reference", "nowhere.tflite"),
            "no such model: nowhere.tflite",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_senseless_settings_are_refused_before_anything_is_started(
    edgebench: Run, host: Host, words: tuple[str, ...], said: str
) -> None:
    """Otherwise an agent would be started, and a model sent, before the mistake is noticed."""
    result = edgebench("bench", "digits_int8.tflite", *words)
    assert (result.code, result.out) == (2, "")
    assert_is_usage_error(result.err, said)
    assert not (host.folder / "data" / "edgebench" / "agent").exists()


@pytest.mark.parametrize("name", ["missing.tflite", "no/such/directory/model.onnx", "digits"])
def test_wrong_path_is_named_with_the_reason(edgebench: Run, name: str) -> None:
    """Otherwise the user would not learn which path failed."""
    said = edgebench("bench", name)
    assert (said.code, said.out) == (2, "")
    assert_is_usage_error(said.err, f"no such model: {name}")


def test_directory_is_no_model(edgebench: Run, tmp_path: Path) -> None:
    """A directory in place of a model is reported without a traceback."""
    said = edgebench("bench", str(tmp_path))
    assert (said.code, said.out) == (2, "")
    assert_is_usage_error(said.err, "model is not a file")


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("nonsense", "expected edgebench://ADDRESS:PORT/PIN/SECRET"),
        ("edgebench://", "expected edgebench://ADDRESS:PORT/PIN/SECRET"),
        ("", "expected edgebench://ADDRESS:PORT/PIN/SECRET"),
        ("https://example.org", "expected edgebench://ADDRESS:PORT/PIN/SECRET"),
        (f"edgebench://pi/{'A' * 43}/{'A' * 22}", "port must be 1..65535, got none"),
        (f"edgebench://pi:77470/{'A' * 43}/{'A' * 22}", "port must be 1..65535, got 77470"),
        (f"edgebench://pi:7747/{'A' * 43}/{'A' * 21}", "SECRET must be 22 letters, digits, "),
        (f"edgebench://pi:7747/{'A' * 42}/{'A' * 22}", "PIN must be 43 letters, digits, - or _, "),
    ],
)
def test_what_is_no_pairing_string_is_refused(edgebench: Run, text: str, wrong: str) -> None:
    """Otherwise half a pasted string would cause a connection, or an error without the reason."""
    said = edgebench("pair", text)
    assert (said.code, said.out) == (2, "")
    assert_is_usage_error(said.err, f"not a pairing string: {wrong}")
    assert "edgebench-agent pair" in said.err.splitlines()[1]


@pytest.mark.parametrize(
    ("errors", "said", "hint"),
    [
        (
            {"192.0.2.1": errno.ENETUNREACH, "198.51.100.1": errno.ENETUNREACH},
            "no route from this machine: Network is unreachable at 192.0.2.1:9, 198.51.100.1:9",
            "check that this machine has a network: ip route; then edgebench devices",
        ),
        (
            {"192.0.2.1": errno.ECONNREFUSED, "198.51.100.1": errno.ENETUNREACH},
            "Connection refused at 192.0.2.1:9; Network is unreachable at 198.51.100.1:9",
            "check that the agent runs; then, on the device, print a new pairing string, which "
            "contains the device's addresses and port: edgebench-agent pair",
        ),
    ],
)
def test_every_address_that_was_tried_is_named(
    edgebench: Run, monkeypatch: pytest.MonkeyPatch, errors: dict[str, int], said: str, hint: str
) -> None:
    """Otherwise an unplugged cable would look like one wrong address of several."""

    def connect(address: tuple[str, int], **_: object) -> NoReturn:
        number = errors[address[0]]
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(socket, "create_connection", connect)
    result = edgebench("pair", str(PairingString(tuple(errors), 9, "A" * 43, bytes(16))))
    assert result.err == f"error: cannot reach device: {said}\nhint: {hint}\n"


def test_pairing_with_nobody_is_unreachable(edgebench: Run, host: Host) -> None:
    """Otherwise a wrong address would hang, end in a traceback, or register a missing device."""
    string = PairingString(("127.0.0.1",), 9, "A" * 43, bytes(16))
    said = edgebench("pair", str(string))
    assert (said.code, said.out) == (1, "")
    error, hint = said.err.splitlines()
    assert error == "error: cannot reach device (127.0.0.1:9): Connection refused"
    assert hint.startswith("hint: ")
    assert not (host.folder / "config" / "edgebench" / "host" / "devices.json").exists()


@pytest.mark.parametrize(
    ("module", "words", "codes"),
    [
        ("edgebench.host.cli", ["--help"], (141,)),
        ("edgebench.host.cli", ["runs"], (141,)),
        # argparse itself ignores it where the output is not buffered.
        ("edgebench.host.cli", ["bench", "--help"], (0, 141)),
        ("edgebench.agent", ["--help"], (0, 141)),
    ],
)
def test_reader_that_goes_away_is_no_error_of_ours(
    host: Host, module: str, words: list[str], codes: tuple[int, ...]
) -> None:
    """`edgebench runs | head -1` prints no traceback and does not look like a device failure."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    command = [sys.executable, "-m", module, *words]
    process = subprocess.Popen(
        command,
        env=os.environ | host.environment,
        stdout=write_end,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write_end)
    assert process.communicate(timeout=60)[1] == ""
    assert process.returncode in codes


def test_output_that_is_closed_is_no_traceback(host: Host) -> None:
    """`edgebench runs >&-` prints no traceback."""
    command = shlex.join([sys.executable, "-m", "edgebench.host.cli", "runs"])
    environment = os.environ | host.environment
    result = subprocess.run(
        ["sh", "-c", f"{command} >&-"], env=environment, capture_output=True, text=True
    )
    assert (result.returncode, result.stderr) == (0, "")


def test_full_output_device_is_one_line() -> None:
    """Otherwise a log file on a full disk would show a traceback, or the loss go unnoticed."""
    command = [sys.executable, "-m", "edgebench.host.cli", "--help"]
    with open("/dev/full", "w") as full:
        result = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True)
    assert result.returncode == 1
    error, hint = result.stderr.splitlines()
    assert error == "error: cannot read or write standard output: No space left on device"
    assert hint.startswith("hint: ")


def test_name_that_is_no_text_is_refused_or_measured_in_one_line(host: Host) -> None:
    """Otherwise bench would raise on a file name from an old archive that is not UTF-8."""
    path = os.fsdecode(os.fsencode(host.folder) + b"/bad\xff\n.tflite")
    host.folder.mkdir(parents=True, exist_ok=True)
    Path(path).write_bytes(b"not a model")
    result = host.run("bench", path, "--runtime", "litert")
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert "error: bad??.tflite on litert: " in result.stderr


def test_pipe_is_no_model(edgebench: Run, tmp_path: Path) -> None:
    """Otherwise bench would wait for ever for the first byte of a named pipe."""
    os.mkfifo(tmp_path / "pipe.tflite")
    said = edgebench("bench", str(tmp_path / "pipe.tflite"))
    assert said.code == 2
    assert_is_usage_error(said.err, "model is not a file")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--telemetry-rate", "nan"), "not a rate in Hz: 'nan'; example: 10"),
        (("--telemetry-rate", "1e-300"), "not a rate in Hz: '1e-300'; example: 10"),
        (("--threads", "many"), "not a whole number: 'many'; example: 4"),
        (("--min-queries", "1e3"), "not a whole number: '1e3'; example: 4"),
        (("--qps", "fast"), "not a number: 'fast'; write 0.5"),
        (("--ambient", "hot"), "not a temperature in °C: 'hot'; example: 22"),
        (("--ambient", "nan"), "not a temperature in °C: 'nan'; example: 22"),
    ],
)
def test_mistyped_quantity_is_refused_with_an_example(
    edgebench: Run, words: tuple[str, str], said: str
) -> None:
    """Otherwise the user would read of an invalid float value, without a valid example."""
    result = edgebench("bench", *words)
    assert result.code == 2
    assert_is_usage_error(result.err, f"error: argument {words[0]}: {said}")


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("runs", "--frobnicate"), 2),
        (("show",), 2),
        (("show", "no-such-run"), 2),
        (("verify", "no-such-run"), 2),
        (("devices", "--timeout", "soon"), 2),
        (("devices", "--timeout", "601s"), 2),
        (("devices", "rename", "nowhere", "x"), 2),
        (("devices", "rename", "local", "x"), 2),
        (("devices", "label", "local"), 2),
        (("devices", "label", "local", "a:b"), 2),
        (("devices", "forget", "local"), 2),
        (("devices", "check", "nowhere"), 2),
        (("compare", "a"), 2),
        (("compare", "a", "--against", "b"), 2),
        (("meters", "wattson"), 2),
        (("meters", "info", "wattson"), 2),
        (("meters", "info", "ppk2:/dev/null,supply=x"), 2),
        (("meters", "record", "synthetic", "--duration", "soon"), 2),
        (("meters", "record", "synthetic", "--duration", "0s"), 2),
        (("meters", "record", "synthetic", "--duration", "0.1s", "--output", "/dev/null/x"), 1),
        (("bnech", "model.tflite"), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_script_that_reads_json_gets_the_error(
    edgebench: Run, words: tuple[str, ...], code: int
) -> None:
    """Otherwise a script that parses the output would fail on empty text instead of the error."""
    said = edgebench(*words, "--json")
    error = json.loads(said.out)["error"]
    assert (said.code, error["exit_code"]) == (code, code)
    told = said.err.splitlines()[-2:]
    assert told == [f"error: {error['message']}", f"hint: {error['hint']}"]
    assert edgebench(*words).out == ""


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        (("--duration", "soon"), "arguments_refused"),
        (("--frobnicate",), "arguments_refused"),
        (("--pairs", "3"), "usage"),
        (("--on", "nowhere"), "no_such_device"),
        (("--store", "/" + "x/" * 3000), "usage"),
    ],
    ids=["duration", "unknown", "pairs", "device", "store"],
)
def test_bench_that_measures_nothing_prints_no_runs(
    edgebench: Run, words: tuple[str, ...], kind: str
) -> None:
    """Otherwise a wrong option would give other output than a wrong meter, or no reason at all."""
    said = edgebench("bench", "digits_int8.tflite", *words, "--json")
    document = json.loads(said.out)
    assert (said.code, document["runs"], document["sets"]) == (2, [], [])
    (error,) = document["errors"]
    assert (error["code"], error["model"], error["device"]) == (kind, None, None)
    assert kind != "no_such_device" or error["message"].endswith("'nowhere'; available: local")
    assert said.err == f"error: {error['message']}\nhint: {error['hint']}\n"


def test_word_behind_two_dashes_is_no_option(edgebench: Run) -> None:
    """Otherwise a file called --json would be taken for an option."""
    said = edgebench("show", "--", "--json")
    assert (said.code, said.out) == (2, "")


EVIL = "\x1b[2J\x9b31m\rerror: forged\u202etxt\u2066\u200b"


@pytest.mark.parametrize(
    ("words", "name", "content"),
    [
        ("meters import {0}", "log.csv", f"{EVIL};b{EVIL}\n1;2\n3;4\n"),
        ("meters import {0}", f"{EVIL}.csv", f"{EVIL}\n1\n"),
        ("bench {0}", f"{EVIL}.pt", "x"),
        ("bench digits_int8.tflite --accuracy {0}", f"{EVIL}.npz", "x"),
        ("bench digits_int8.tflite --inputs {0}", f"{EVIL}.npz", "x"),
        ("show {0}", EVIL, ""),
        ("bench digits_int8.tflite --on {0}", EVIL, ""),
        ("bench digits_int8.tflite --meter scpi:{0}", EVIL, ""),
    ],
)
def test_what_is_quoted_cannot_reach_the_terminal(
    edgebench: Run, tmp_path: Path, words: str, name: str, content: str
) -> None:
    """Otherwise a column of a file could clear the screen or forge a line."""
    path = tmp_path / name
    path.write_text(content)
    said = edgebench(*(word.format(path) for word in words.split()))
    assert said.code != 0
    assert all(map(str.isprintable, (said.out + said.err).split("\n"))), said


LONG_NAME = "x" * 300
LONG_PATH = "/".join(["y" * 200] * 25)


@pytest.mark.parametrize("name", [LONG_NAME, LONG_PATH], ids=["name", "path"])
@pytest.mark.parametrize(
    "words",
    [
        "bench {0}.tflite",
        "bench digits_int8.tflite --inputs {0}",
        "bench digits_int8.tflite --accuracy {0}",
        "bench digits_int8.tflite --against {0}.tflite",
        "bench digits_int8.tflite --store {0}",
        "runs --store {0}",
        "verify last --store {0}",
        "meters import {0}",
        "meters record synthetic --duration 1s --output {0}",
        "deploy nobody@127.0.0.1 --wheels {0}",
    ],
)
def test_path_that_is_too_long_is_a_usage_error(edgebench: Run, words: str, name: str) -> None:
    """Otherwise it would be reported as a full disk, or end in a traceback."""
    said = edgebench(*words.format(name).split())
    assert said.code == 2
    error, hint = said.err.splitlines()
    assert "too long" in error or name in error
    assert hint.startswith("hint: ")
    assert "df -h" not in hint


@pytest.mark.parametrize("option", ["--state", "--config"])
def test_directory_of_an_agent_that_is_too_long_is_a_usage_error(
    host: Host, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], option: str
) -> None:
    """Otherwise the start of the agent would be reported as a full disk."""
    for key, value in host.environment.items():
        monkeypatch.setenv(key, value)
    assert agent_main([option, f"/tmp/{LONG_NAME}", "serve", "--local"]) == 2
    error, hint = capsys.readouterr().err.splitlines()
    assert error.startswith("error: name of 300 bytes is too long, limit 255: /tmp/xxx")
    assert hint == "hint: see all arguments: edgebench-agent serve --help"
