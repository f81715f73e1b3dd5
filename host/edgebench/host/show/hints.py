"""The hint for each kind of error, which begins with a verb and contains a command."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from edgebench.host.options.command import Command, CommandLine, NextStep, Placeholder, command
from edgebench.protocol import errors as e
from edgebench.protocol.identity import DEFAULT_PORT
from edgebench.protocol.spec import MAX_LENGTH_S
from edgebench.system import unforeseen
from edgebench.system.model_file import fault_of_model

Value = Callable[[Any, CommandLine], object] | Command
"""A value in a hint: a command, or a function that computes the value from the error and the failed
command."""
Hint = Callable[[Any, CommandLine], NextStep]
Row = tuple[type[e.EdgebenchError], Hint]
_DEVICES, _METERS, _BRIDGE = command("devices"), command("meters"), command("bridge", "list")
_IMPORT_HELP = command("meters", "import", "--help")
_BUILT_IN = command("bench", "digits_int8.tflite")
_CHECK_BUILT_IN = command("check", "digits_int8.tflite")
_MODEL, _RUN, _ALL_RUNS, _METER, _TARGET = "MODEL", "RUN", "RUN…", "METER", "TARGET"
_ACCOUNT, _OTHER, _SCHEDULER = "USER@HOST", "OTHER", "tcp://SCHEDULER:8786"


def _on(kind: type[e.EdgebenchError], text: str, *values: Value) -> Row:
    """A row of a hint table; each value is a command, or a function that computes the value."""

    def hint(error: Any, given: CommandLine) -> NextStep:
        made = (value if isinstance(value, Command) else value(error, given) for value in values)
        return NextStep(text, *made)

    return kind, hint


def _with_dataset(kind: type[e.EdgebenchError], text: str) -> Row:
    """A hint to correct the data set and then to measure with it."""
    return _on(kind, f"{text}; then {{}}", lambda _, given: given.bench(accuracy="set.npz"))


def _for_lease(error: e.LeaseHeld, given: CommandLine) -> NextStep:
    """Hint to wait for the client that holds the device, or to end the client's run."""
    if given.command == "stop" and error.is_by_this_host:
        return NextStep(
            "end your other command, which has no run in progress, with Ctrl-C in its terminal"
        )
    if given.command == "stop":
        return NextStep(
            "end the run from the host that started it, or on the device: edgebench-agent stop"
        )
    longer_s = max(600.0, min(10 * error.waited_s, MAX_LENGTH_S))
    wait = f"wait {'longer' if error.waited_s > 0 else 'until the device is free'}: {{}}; or "
    measure = given.bench(wait_s=longer_s)
    if error.stoppable_on:
        stop = command("stop", "--on", error.stoppable_on)
        return NextStep(f"{wait}end your run there: {{}}", measure, stop)
    if error.is_by_this_host:
        return NextStep(f"{wait}end your other command with Ctrl-C in its terminal", measure)
    return NextStep(f"{wait}end the run on the device: edgebench-agent stop", measure)


def _for_missing_run(error: e.NoSuchRun, given: CommandLine) -> NextStep:
    if error.is_store_empty:
        text = "measure a model: {}; or open a bundle: {}"
        measured = (
            given.bench()
            if not given.store
            else command("bench", Placeholder("MODEL"), given.store)
        )
        return NextStep(text, measured, command("show", "FILE.zip"))
    if error.bundle is not None:
        member = Placeholder(f"{shlex.quote(error.bundle)}#ID")
        text = "list the runs of the bundle: {}; then choose a run: {}"
        return NextStep(text, command("runs", error.bundle), command("show", member))
    if error.model is None:
        return NextStep("list the stored runs: {}", command("runs"))
    if given.command in ("history", "runs"):
        named = command(given.command, "--model", error.model)
        return NextStep("name the model with --model: {}", named)
    if given.command == "compare":
        both = command("bench", error.model, "--against", "B")
        return NextStep("measure two models and compare them: {}", both)
    return NextStep("measure it: {}", command("bench", error.model))


def _for_second_side(error: e.NoSecondSide, _given: CommandLine) -> NextStep:
    if error.sides:
        first, second = error.sides
        return NextStep(
            "specify the other side with --against: {}",
            command("compare", first, "--against", second),
        )
    if error.comparison_id:
        return NextStep("compare all its pairs: {}", command("compare", error.comparison_id))
    return NextStep(
        "specify the other side: {}; or measure two models and compare them: {}",
        command("compare", "A", "--against", "B"),
        command("bench", "A", "--against", "B"),
    )


def _for_meter_not_served(error: e.MeterNotServed, given: CommandLine) -> NextStep:
    is_campaign = given.group == "campaign"
    if error.meant and is_campaign:
        text = "write the meter's full name in the campaign file"
        return NextStep(f'{text}: meter = "agent:{{}}"', error.meant)
    if error.meant:
        return NextStep("write its full name: {}", given.bench(meter=f"agent:{error.meant}"))
    if is_campaign:
        return NextStep(
            "start the device's agent with the meter (of several boards, the first board gets "
            "the meter): edgebench-agent serve --meter {}; or remove devices without the meter "
            "from the campaign file",
            error.meter,
        )
    return NextStep(
        "start the device's agent with the meter: edgebench-agent serve --meter {}; or set "
        "EDGEBENCH_METERS there; or deploy the agent again: {}",
        error.meter,
        command("deploy", Placeholder(_ACCOUNT), "--meter", error.meter),
    )


def _for_permission(error: e.NoSuchMeter | e.NotPermitted, given: CommandLine) -> NextStep:
    again = _BRIDGE if given.group == "bridge" else _METERS
    if error.permission is e.Permission.SERIAL_PORT:
        join = "join the group dialout, then log in again: sudo usermod -aG dialout $USER"
        return NextStep(f"{join}; then {{}}", again)
    if error.permission is e.Permission.USB_TESTER:
        return NextStep(
            "add the udev rule from docs/instruments.md (section USB testers), plug the tester in "
            "again, then {}",
            again,
        )
    return NextStep("see which meters are available, and why others are not: {}", _METERS)


def _for_difference(error: e.NotComparable, given: CommandLine) -> NextStep:
    text = "allow this difference, to measure its effect: {}"
    allow = [["--allow", key] for key in error.keys]
    if type(error) is e.NotComparable and given.command == "bench" and error.comparison_id:
        return NextStep(text, command("compare", error.comparison_id, *allow))
    return NextStep(text, given.compare(allow))


def _for_inputs(_error: e.InputsRefused, given: CommandLine) -> NextStep:
    """Hint to omit or replace inputs that do not fit; this function does not read the model."""
    if given.value("input_shapes") and given.value("inputs"):
        text = (
            "change --shape and the arrays of --inputs to match the inputs that the error lists; "
            "or omit both, to measure with random inputs: {}"
        )
        return NextStep(text, given.bench(without=["shape", "inputs"]))
    if given.value("input_shapes"):
        text = (
            "set --shape to the name and shape of an input that the error lists; or omit --shape, "
            "which is needed only for dimensions that the model leaves open: {}"
        )
        return NextStep(text, given.bench(without=["shape"]))
    if given.value("inputs"):
        text = "measure with random inputs: {}; or name a file with inputs that fit: --inputs FILE"
        return NextStep(text, given.bench(without=["inputs"]))
    text = "provide inputs that fit the model: {}, or --inputs FILE.npz"
    return NextStep(text, given.bench("--shape", "NAME=1x128"))


def _for_slow_dataset(_error: e.DatasetTooSlow, given: CommandLine) -> NextStep:
    dataset = given.value("accuracy") or "set.npz"
    return NextStep(
        "run a random sample of the data set: {}; or allow more time: --accuracy-limit {}h",
        given.bench(accuracy=dataset, dataset_sample_count=100),
        math.ceil(given.more("dataset_limit_s", 86400.0) / 3600),
    )


def _fault(given: CommandLine) -> str | None:
    """Fault of the model file; None if the file is intact, or if not exactly one file was given."""
    names = given.names.get(_MODEL)
    return None if names is None else fault_of_model(Path(names[0]))


def _for_model(text: str) -> Hint:
    """Hint to replace a damaged file or, for an intact file, to try runtimes not yet tried."""

    def hint(_error: e.EdgebenchError, given: CommandLine) -> NextStep:
        fault = _fault(given)
        if fault is not None:
            return NextStep(
                "copy the file again, because {}; or measure another model: {}", fault, _BUILT_IN
            )
        if given.value("runtime") == "all":
            return NextStep("check the file, or measure another model: {}", _BUILT_IN)
        return NextStep(text, given.bench(runtime="all"))

    return hint


def _for_damaged(error: e.RunDamaged, given: CommandLine) -> NextStep:
    if error.damaged_id is None:
        return NextStep("measure again: {}; or restore the file from a copy", given.bench())
    remove = command("rm", error.damaged_id, given.store)
    text = "remove the run: {}; or measure again: {}; or restore the file from a copy"
    return NextStep(text, remove, given.bench())


def _for_board_model(_error: e.BoardModelRefused, given: CommandLine) -> NextStep:
    text = (
        "see which boards the model fits on: {}; or measure it on a device that is not a "
        "microcontroller"
    )
    return NextStep(text, command("check", given.named(_MODEL)[0]))


def _for_checked_model(_error: e.ModelRefused, given: CommandLine) -> NextStep:
    fault = _fault(given)
    if fault is not None:
        return NextStep(
            "copy the file again, because {}; or check a built-in model: {}", fault, _CHECK_BUILT_IN
        )
    return NextStep("name another .tflite file, or check a built-in model: {}", _CHECK_BUILT_IN)


def _for_page(error: e.PageUnavailable, _given: CommandLine) -> NextStep:
    if error.install:
        return NextStep("install them: {}; then {}", error.install, command("serve"))
    here = command("serve", "--port", "0")
    return NextStep("use a free port on this machine: {}", here)


def _for_runtime(error: e.RuntimeUnavailable, _given: CommandLine) -> NextStep:
    if error.install:
        text = "install the runtime on the device: {}; then check that it works: {}"
        return NextStep(text, error.install, _DEVICES)
    return NextStep("see which runtimes each device has: {}", _DEVICES)


def _for_unreachable(error: e.Unreachable, _given: CommandLine) -> NextStep:
    if error.is_offline:
        return NextStep("check that this machine has a network: ip route; then {}", _DEVICES)
    return NextStep("see which devices are reachable: {}", _DEVICES)


def _for_measurement(error: e.MeasurementError, given: CommandLine) -> NextStep:
    if error.invalid is not None:
        text = "see the reasons and how to improve: {}"
        return NextStep(text, command("show", error.invalid))
    longer = given.bench(duration_s=given.more("duration_s", 60.0))
    return NextStep("measure again for longer: {}", longer)


def _for_file(error: e.FileRefused, given: CommandLine) -> NextStep:
    """Hint to add options with which the file can be imported, or to name its columns."""
    if error.works_with and given.group in ("meters", "energy"):
        # `energy` has the constant voltage in --voltage.
        name = "--supply" if given.group == "meters" else "--voltage"
        added = [
            (name if option == "--supply" else option, text) for option, text in error.works_with
        ]
        return NextStep(
            "add options for what the file does not contain; replace the assumed units and values "
            "by the real ones: {}",
            given.again(added),
        )
    if isinstance(error, e.ColumnsUnknown):
        return NextStep(
            "name the columns of the file and their units: --time COLUMN:s --power COLUMN:W, or "
            "--current COLUMN:mA --voltage 3.3; all options: {}",
            _IMPORT_HELP,
        )
    return NextStep("see which files and columns are accepted: {}", _IMPORT_HELP)


def _deploy(*words: str) -> Value:
    return lambda _, given: command("deploy", given.named(_ACCOUNT), *words)


def _bundle_again(kind: type[e.EdgebenchError]) -> Row:
    again = command("bundle", Placeholder("ID"))
    return _on(kind, "get the file again from its sender, who creates it with: {}", again)


_HINTS: tuple[Row, ...] = (
    (e.LeaseHeld, _for_lease),
    (e.NoSuchRun, _for_missing_run),
    (e.PageUnavailable, _for_page),
    _on(
        e.FileExists,
        "choose another file, for example: {}",
        lambda _, given: command("bundle", given.named(_RUN), "-o", "FILE.zip"),
    ),
    (e.NoSecondSide, _for_second_side),
    _on(
        e.ModelFileMissing,
        "copy the file into this directory, or give its path: {}; sha256sum FILE must print {}",
        command("bench", Placeholder("FILE"), "--against", Placeholder("B")),
        lambda error, _: error.sha256,
    ),
    _on(
        e.NoSuchModel,
        "give the path of a .tflite or .onnx file, or try a built-in model: {}",
        _BUILT_IN,
    ),
    _on(
        e.ModelNotFetched,
        "in the repository of the file, fetch the file: git lfs pull; then {}",
        lambda _, given: given.bench(),
    ),
    _on(e.NotAModel, "name a .tflite or .onnx file, or try a built-in model: {}", _BUILT_IN),
    _on(
        e.KitOfOtherMachine,
        "build a kit for that machine: {}",
        lambda error, _: command("kit", "build", "--machine", error.machine),
    ),
    _on(e.NotAKit, "build another kit: {}", command("kit", "build", "--output", "FILE")),
    _on(
        e.KitNotBuilt,
        "name the root directory of a system, such as a mounted Raspberry Pi image: {}; or use an "
        "existing kit: {}",
        command("kit", "build", "--root", "DIR"),
        lambda _, given: command("deploy", given.named(_TARGET), "--kit", "FILE"),
    ),
    _on(e.NoSuchCampaign, "start a campaign: {}", command("campaign", "run", "FILE.toml")),
    _on(e.CampaignRunning, "follow it: {}", command("campaign", "watch")),
    _on(
        e.LabHostsUnreachable,
        "start the scheduler: dask scheduler; on each lab host, start: {}; then resume: {}",
        lambda _, given: command("lab", "work", given.named(_SCHEDULER)),
        lambda _, given: command("campaign", "resume", "--cluster", given.named(_SCHEDULER)),
    ),
    _on(
        e.DeviceNotOffered,
        "offer the device to the cluster, on the lab host of the device: {}",
        lambda error, given: command("lab", "work", given.named(_SCHEDULER), "--on", error.device),
    ),
    _on(
        e.AllQuarantined,
        "check whether the device has recovered: {}; or select it by name: --on {}",
        lambda error, _: command("devices", "check", error.device),
        lambda error, _: shlex.quote(error.device),
    ),
    _on(
        e.NotSimulated,
        "start the simulated board: edgebench-agent serve --simulate {}; then, in a second "
        "terminal, see how to pair with it: edgebench-agent pair --simulate {}",
        lambda error, _: shlex.quote(error.board),
        lambda error, _: shlex.quote(error.board),
    ),
    _on(e.NoSuchDevice, "see the list of devices: {}", _DEVICES),
    (e.NoSuchMeter, _for_permission),
    _on(e.WrongMeterOption, "see each meter's options: {}", command("meters", "info", "--help")),
    (e.MeterNotServed, _for_meter_not_served),
    (e.ColumnsUnknown, _for_file),
    _on(
        e.OwnModelOnly,
        "measure the device's own model, without a model name: {}",
        lambda error, _: command("bench", "--on", error.device),
    ),
    _on(
        e.RunsTooShort,
        "measure for longer: {}; or with fewer runs: --runs {}",
        lambda error, given: given.bench(without=["runs"], duration_s=error.enough_s),
        lambda error, _: error.run_limit,
    ),
    _on(
        e.NoLoadgenLog,
        "make a valid run with LoadGen: {}",
        lambda _, given: given.bench(engine="loadgen"),
    ),
    _on(
        e.FileNotWritten,
        "write the stored runs elsewhere: {}",
        lambda _, given: command("export", given.named(_ALL_RUNS), "-o", "FILE"),
    ),
    _on(
        e.NoLoadCode,
        "make a run with coded load, which the alignment needs: {}",
        lambda _, given: given.bench(sync="coded_load"),
    ),
    _on(
        e.TraceOfAnotherRun,
        "compute the energy of that run: {}",
        lambda error, given: given.energy(error.run_id),
    ),
    _on(
        e.SamplesUnknown,
        "if the instrument's data sheet states that samples are means: {}",
        lambda _, given: command(
            "energy", given.named(_RUN), "--trace", "FILE", "--samples", "means"
        ),
    ),
    _on(
        e.TraceRefused,
        "record the device's supply from before the run until after it, and state the "
        "instrument's sample rate: {}",
        lambda _, given: given.bench("--trace-rate", "HZ", sync="coded_load"),
    ),
    _on(
        e.OtherEnvironment,
        "stop that agent if it is not needed: kill {}; or, to use its runtimes, run "
        "edgebench-agent pair in its Python environment; then pair on this machine: {}",
        lambda error, _: error.pid,
        command("pair", "STRING"),
    ),
    _on(
        e.FileChanged,
        "measure again while no program writes to the file: {}",
        lambda _, given: given.bench(),
    ),
    _bundle_again(e.BundleRefused),
    (e.FileRefused, _for_file),
    (e.RuntimeUnavailable, _for_runtime),
    (e.InputsRefused, _for_inputs),
    _with_dataset(
        e.DatasetIncomplete,
        "store n >= 1 samples, along the first axis of x, and n labels: np.savez('set.npz', x=x, "
        "y=y)",
    ),
    _with_dataset(
        e.DatasetNotFinite,
        "leave these samples out: ok = np.isfinite(x.reshape(len(x), -1)).all(1); "
        "np.savez('set.npz', x=x[ok], y=y[ok])",
    ),
    _with_dataset(
        e.DatasetFileRefused,
        "store samples as real values and their labels: np.savez('set.npz', x=x, y=y); see "
        "docs/outputs.md",
    ),
    _with_dataset(
        e.SampleShapeRefused,
        "reshape x to (n, …), n samples of the input's shape without its batch dimension",
    ),
    _with_dataset(
        e.SampleTypeRefused,
        "store x as the real values that the model was trained on, not as quantised values: "
        "x.astype('float32')",
    ),
    _with_dataset(e.SamplesClipped, "scale x as in the training of the model, such as x / 255"),
    _with_dataset(
        e.OutputsTooLarge, "use fewer samples: np.savez('set.npz', x=x[:1000], y=y[:1000])"
    ),
    (e.DatasetTooSlow, _for_slow_dataset),
    _on(
        e.DatasetRefused,
        "store the array x of the data set as numbers that the input accepts, or measure without "
        "--accuracy: {}",
        lambda _, given: given.bench(without=["accuracy"]),
    ),
    _on(
        e.InferenceFailed,
        "provide inputs that the model accepts: {}, or --inputs FILE.npz; or try other runtimes: "
        "--runtime all",
        lambda _, given: given.bench("--shape", "NAME=1x128", without=["inputs", "runtime"]),
    ),
    _on(
        e.DelegateRefused,
        "choose a delegate of the runtime: {}; or omit --delegate; or try other runtimes: "
        "--runtime all",
        lambda _, given: given.bench("--delegate", "D", without=["runtime"]),
    ),
    _on(
        e.SignatureRefused,
        "choose a signature of the file: {}; or omit --signature",
        lambda _, given: given.bench("--signature", "NAME"),
    ),
    _on(
        e.ExternalDataRefused,
        "put everything into one file of at most 2 GB (if the files are links, as in the caches of "
        "model hubs, copy them first: cp -rL FOLDER plain): pip install onnx; python -I -c "
        '"import onnx, sys; onnx.save(onnx.load(sys.argv[1]), sys.argv[2])" {} whole.onnx; then {}',
        lambda _, given: " ".join(map(shlex.quote, given.named(_MODEL))),
        command("bench", "whole.onnx"),
    ),
    (e.BoardModelRefused, _for_board_model),
    _on(
        e.NoBoardProfiler,
        "flash edgebench's firmware, if it supports the board: {}; or profile the model on an "
        "emulated board: {}",
        command("bridge", "flash", "BOARD"),
        lambda _, given: given.bench(on=("qemu:mps2-an386",), is_profiled=True),
    ),
    (e.ModelRefused, _for_model("check the file, or try other runtimes: {}")),
    (e.WorkerDied, _for_model("try another runtime: {}")),
    _on(
        e.WorkerTimeout,
        "allow it more time: {}",
        lambda _, given: given.bench(load_timeout_s=given.more("load_timeout_s", 600.0)),
    ),
    _on(
        e.OtherBoard,
        "identify the boards again, on the machine that they are plugged into: {}; if the agent "
        "there was started with --board for this port, restart the agent",
        command("bridge", "list", "--confirm"),
    ),
    _on(e.SeatLeft, "plug the board in again, then check that its agent finds it: {}", _DEVICES),
    _on(
        e.TargetDriverMissing,
        "install the bridge with the agent: {}; for emulated boards, on the agent's machine: apt "
        "install qemu-system-arm",
        _deploy("--bridge"),
    ),
    _on(
        e.TooHot,
        "cool the device, or wait longer before the run: {}",
        lambda _, given: given.bench(cooldown_timeout_s=given.more("cooldown_timeout_s", 1200.0)),
    ),
    _on(
        e.GovernorRefused,
        "measure without --governor: {}; the option needs an agent that runs as root, on a kernel "
        "with governors",
        lambda _, given: given.bench(without=["governor"]),
    ),
    _on(
        e.SettingRefused,
        "measure without the setting: {}; --airplane-mode and --brightness need a phone that "
        "applies them",
        lambda _, given: given.bench(without=["airplane_mode", "brightness"]),
    ),
    _on(
        e.MetersDiffer,
        "measure both sides with one meter: {}; or, for trace files, name the instrument: {}",
        lambda _, given: command("bench", "A", "--against", "B", "--meter", given.named(_METER)),
        lambda _, given: command(
            "energy", given.named(_RUN), "--trace", "FILE", "--instrument", "NAME"
        ),
    ),
    (e.NotComparable, _for_difference),
    _on(e.MeterLost, "plug the meter in again, then check that it is found: {}", _METERS),
    _on(
        e.DeployRunning,
        "wait until the other deployment has ended, then deploy again: {}; an interrupted "
        "deployment blocks others for at most two minutes",
        lambda _, given: command("deploy", given.named(_TARGET)),
    ),
    _on(
        e.TooLarge,
        "on the device, free space on the disk (df -h), or let the agent use more of the disk: "
        "edgebench-agent serve --models-quota BYTES",
    ),
    _on(e.NoSpace, "on the device, see what fills the disk: edgebench-agent status"),
    _on(
        e.KitMissing,
        "build a kit from Debian's packages: {}; or use an existing kit: {}",
        lambda error, _: command("kit", "build", "--machine", error.machine),
        lambda _, given: command("deploy", given.named(_TARGET), "--kit", "FILE"),
    ),
    _on(
        e.PythonMissing,
        "install Python on the device, or give its path: {}",
        _deploy("--python", "PATH"),
    ),
    _on(e.PackagesMissing, "provide the wheels: {}", _deploy("--wheels", "DIRECTORY")),
    _on(e.PortTaken, "choose another port: {}", _deploy("--port", str(DEFAULT_PORT + 1))),
    _on(
        e.TooManyKeys,
        "name the right key: {}; or set IdentityFile and IdentitiesOnly of the host in "
        "~/.ssh/config",
        _deploy("--identity-file", "FILE"),
    ),
    _on(e.AccessDenied, "log in by hand to see the cause: ssh {}", lambda error, _: error.login),
    _on(
        e.WrongBoard,
        "on the board with the copied card, stop the agent, then: edgebench-agent new-identity; "
        "start the agent again; on this host, pair that board, and the original board if it is "
        "still refused: {}",
        command("pair", "STRING"),
    ),
    _on(
        e.NotPaired,
        "pair again: on the device, run edgebench-agent pair; then, on this host: {}",
        command("pair", "STRING"),
    ),
    _on(
        e.LinkLost,
        "fetch the run, which continues while its agent runs: {}",
        lambda _, given: given.collect(),
    ),
    _on(
        e.AgentBusy,
        f"try again later: {{}}; on the device, list its connections: ss -tn sport = "
        f":{DEFAULT_PORT}",
        _DEVICES,
    ),
    _on(
        e.AdbMissing,
        "install adb: apt install adb, or brew install android-platform-tools; or set the "
        "directory of the SDK: ANDROID_HOME=DIRECTORY; then {}",
        _DEVICES,
    ),
    _on(e.PhoneUnavailable, "{}; then check its state: {}", lambda error, _: error.step, _DEVICES),
    _on(
        e.AgentNotStarted,
        "start the agent, which keeps its runs and its pairing: {}",
        lambda error, _: command("deploy", error.target),
    ),
    (e.Unreachable, _for_unreachable),
    _on(e.LinkTimeout, "see which devices are reachable: {}", _DEVICES),
    _on(
        e.RunNewer,
        "check the installed version: {}; upgrade: pip install --upgrade edgebench",
        command("--version"),
    ),
    _on(
        e.BundleNotUnpacked,
        "delete files (df -h shows the free space), or use another directory: TMPDIR=/var/tmp {}",
        command("show", "FILE.zip"),
    ),
    _on(
        e.CampaignDamaged,
        "restore the file from a copy, or start another campaign: {}; the runs of the damaged "
        "campaign are still in the store: {}",
        command("campaign", "run", "FILE.toml"),
        command("runs"),
    ),
    _bundle_again(e.BundleDamaged),
    _on(
        e.RunSetAside,
        "measure again: {}; list the runs that are set aside: {}; remove this run: {}",
        lambda _, given: given.bench(),
        command("runs"),
        lambda _, given: command("rm", given.named(_RUN)),
    ),
    (e.RunDamaged, _for_damaged),
    _on(
        e.RunNotStored,
        "free disk space (df -h), or make the store writable; then store the run: {}",
        lambda _, given: given.collect(),
    ),
    _on(
        e.StoreError,
        "choose another store: {}",
        lambda _, given: given.bench("--store", "DIRECTORY"),
    ),
    _on(
        e.NotMetered,
        "measure again with a meter: {}",
        lambda _, given: given.bench("--meter", *given.named(_METER)),
    ),
    _on(
        e.NoPairLeft,
        "see why its runs failed or are invalid: {}",
        lambda error, _: command("show", error.comparison_id),
    ),
    _on(
        e.OutOfMemory,
        "close other programs (free -h), or name fewer runs, for example: {}",
        lambda _, given: command("show", given.named(_RUN)),
    ),
    (e.MeasurementError, _for_measurement),
    _on(
        e.ProtocolError,
        "use the same version on both sides: {}",
        command("--version"),
    ),
    _on(e.TargetError, "check the agent on the device: edgebench-agent status"),
    _on(e.TransportError, "see which devices are reachable: {}", _DEVICES),
    _on(e.EdgebenchError, "see the commands: {}", command("--help")),
)
"""Rows of hints. The hint is in the first row whose kind fits the error; the last row fits all
errors."""


def _record(*words: str) -> Value:
    return lambda _, given: command("meters", "record", given.named(_METER), *words)


_OF_COMMAND: dict[str, tuple[Row, ...]] = {
    "meters": (
        _on(e.DirectoryTaken, "choose another directory: {}", _record("--output", "DIR")),
        _on(
            e.StoreError,
            "check that the disk is not full: df -h; or choose another directory: {}",
            _record("--output", "DIR"),
        ),
        _on(e.MeasurementError, "record for longer: {}", _record("--duration", "60s")),
        _on(e.TargetError, "check that the meter is still connected: {}", _METERS),
    ),
    "bridge": (
        _on(e.TargetDriverMissing, "install all of edgebench: pip install edgebench"),
        _on(
            e.FlashToolMissing,
            "install one of these programs, or add its folder to PATH, then: {}",
            lambda _, given: given.again(()),
        ),
        _on(e.BoardLost, "plug the board in again, then check that it is found: {}", _BRIDGE),
        _on(e.TargetError, "list the ports and the programs that use them: {}", _BRIDGE),
    ),
    "pair": (
        _on(
            e.WrongBoard,
            "on the new board, end the agent and make the board a separate device: edgebench-agent "
            "new-identity; then print a pairing string there: edgebench-agent pair",
        ),
        _on(e.WrongAgent, "print a pairing string on the intended device: edgebench-agent pair"),
        _on(
            e.NotPaired,
            "on the device, print a new pairing string, which is valid for ten minutes and for a "
            "single host: edgebench-agent pair",
        ),
        _on(
            e.Unreachable,
            "check that the agent runs; then, on the device, print a new pairing string, which "
            "contains the device's addresses and port: edgebench-agent pair",
        ),
        _on(
            e.BoardKnown,
            "choose: {} (the same device, set up again: keeps name, labels and history), or {} "
            "(another device)",
            command("pair", "--replace", "STRING"),
            command("pair", "--add", "STRING"),
        ),
        _on(
            e.UsageError,
            "copy the whole pairing string, in quotes; to print it again, on the device: "
            "edgebench-agent pair",
        ),
    ),
    "report": (
        _on(
            e.FileNotWritten,
            "write the report elsewhere: {}",
            lambda _, given: command("report", given.named(_RUN), "-o", "FILE.html"),
        ),
    ),
    "history": (
        _on(e.FileNotWritten, "write it elsewhere: {}", command("history", "-o", "FILE.html")),
    ),
    "check": (
        _on(
            e.ModelNotFetched,
            "in the repository of the file, fetch the file: git lfs pull; then {}",
            lambda _, given: given.again([]),
        ),
        *(
            _on(
                kind,
                "give the path of a .tflite file, or check a built-in model: {}",
                _CHECK_BUILT_IN,
            )
            for kind in (e.NoSuchModel, e.NotAModel)
        ),
        (e.ModelRefused, _for_checked_model),
        _on(e.TargetDriverMissing, "install all of edgebench: pip install edgebench"),
    ),
    "campaign": (
        _on(
            e.RunsTooShort,
            "set a longer duration or fewer repeats in the file; then {}",
            command("campaign", "plan", "FILE"),
        ),
    ),
}
"""Hints for the errors of a command or an action; they take precedence over the general hints."""
_OF_STORE: dict[str, Row] = {
    "lab export": _on(e.StoreError, "choose another file: {}", command("lab", "export", "FILE")),
    "store merge": _on(
        e.StoreError,
        "free disk space (df -h), or make the store writable; then repeat the merge, which "
        "resumes: {}",
        lambda _, given: command("store", "merge", given.named(_OTHER), given.store),
    ),
    "bundle": _on(
        e.StoreError,
        "choose a directory with enough space (df -h): {}",
        lambda _, given: command("bundle", given.named(_ALL_RUNS), "-o", "DIRECTORY/FILE.zip"),
    ),
    **dict.fromkeys(
        ("tag", "note", "rm", "prune"),
        _on(
            e.StoreError,
            "make the store writable; or copy its runs into a writable store: {}",
            command("store", "merge", "STORE", "--store", "DIRECTORY"),
        ),
    ),
}
"""Hints for a file or store that cannot be written, keyed by command and action."""
REFUSED_RECORDING = (
    "fix what the check reports (docs/meters.md describes each check), then test the meter: "
    "edgebench meters selftest METER --duration 60s"
)
"""Hint for a stored recording whose energy is refused."""
REFUSED_IMPORT = (
    "import a part of the file that passes the check: "
    "edgebench meters import FILE --from 10s --until 60s"
)
"""Hint for an import whose energy is refused."""


def hint_for(error: e.EdgebenchError, given: CommandLine | None = None) -> str:
    """The next step after an error, as a line of text.

    Args:
        error: The error.
        given: The command that failed, with its arguments; None if it is not known.
    """
    if isinstance(error, (e.SystemFailure, e.Unforeseen)):
        return unforeseen.hint_for(error)
    return "; ".join(map(str, steps_after(error, given or CommandLine())))


def steps_after(error: e.EdgebenchError, given: CommandLine) -> list[NextStep]:
    """The next steps after an error; if the failed run is stored, the last step shows the run."""
    step = _hint(error, given)(error, given)
    if isinstance(error, e.UsageError) and error.meant and not isinstance(error, e.MeterNotServed):
        step = NextStep("did you mean {}? otherwise {}", error.meant, step)
    if error.run_id is None:
        return [step]
    return [step, NextStep("see what is kept of the run: {}", command("show", error.run_id))]


def _hint(error: e.EdgebenchError, given: CommandLine) -> Hint:
    """The hint of the first row that fits: rows of the command first, then the general rows."""
    name = given.group
    if isinstance(error, e.NotPermitted):
        return _for_permission
    if isinstance(error, e.Unreachable) and error.is_offline:
        return _for_unreachable
    if type(error) is e.UsageError and name and name != "pair":
        words = ("meters", "info") if given.command == "meters" else given.words
        return lambda *_: NextStep("see all arguments: {}", command(*words, "--help"))
    if type(error) is e.StoreError and given.command in _OF_STORE:
        return _OF_STORE[given.command][1]
    rows = (*_OF_COMMAND.get(name, ()), *_HINTS)
    return next(hint for kind, hint in rows if isinstance(error, kind))
