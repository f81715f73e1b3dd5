"""Hint for each kind of error: a step that begins with a verb, and has a command."""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable
from typing import Any

from edgebench.host.options.command import Asked, Command, NextStep, Placeholder, command
from edgebench.protocol import errors as e
from edgebench.protocol.identity import DEFAULT_PORT
from edgebench.protocol.spec import MAX_LENGTH_S
from edgebench.system import unforeseen

Value = Callable[[Any, Asked], object] | Command
"""A command or another value of a hint, by the error and by what was asked for."""
Hint = Callable[[Any, Asked], NextStep]
Row = tuple[type[e.EdgebenchError], Hint]
_DEVICES, _METERS, _BRIDGE = command("devices"), command("meters"), command("bridge", "list")
_IMPORT_HELP = command("meters", "import", "--help")
_BUILT_IN = command("bench", "digits_int8.tflite")
_MODEL, _RUN, _ALL_RUNS, _METER, _TARGET = "MODEL", "RUN", "RUN…", "METER", "TARGET"
_ACCOUNT, _OTHER, _SCHEDULER = "USER@HOST", "OTHER", "tcp://SCHEDULER:8786"


def _on(kind: type[e.EdgebenchError], text: str, *values: Value) -> Row:
    """A row of a table of hints."""

    def hint(error: Any, asked: Asked) -> NextStep:
        made = (one if isinstance(one, Command) else one(error, asked) for one in values)
        return NextStep(text, *made)

    return kind, hint


def _with_dataset(kind: type[e.EdgebenchError], text: str) -> Row:
    """Mend the data set, then measure with it."""
    return _on(kind, f"{text}; then {{}}", lambda _, asked: asked.bench(accuracy="set.npz"))


def _for_lease(error: e.LeaseHeld, asked: Asked) -> NextStep:
    """Wait for another client that measures, or end what it does."""
    if asked.command == "stop" and error.is_by_this_host:
        return NextStep(
            "end your command, with Ctrl-C in its terminal: no run is in progress just now"
        )
    if asked.command == "stop":
        return NextStep(
            "only its own host can end that run, or on the device: edgebench-agent stop"
        )
    longer_s = max(600.0, min(10 * error.waited_s, MAX_LENGTH_S))
    wait = f"wait for {'longer' if error.waited_s > 0 else 'it'}: {{}}; or "
    measure = asked.bench(wait_s=longer_s)
    if error.stoppable_on:
        stop = command("stop", "--on", error.stoppable_on)
        return NextStep(f"{wait}end your run there: {{}}", measure, stop)
    if error.is_by_this_host:
        return NextStep(f"{wait}end your other command there, with Ctrl-C in its terminal", measure)
    return NextStep(f"{wait}end its run on the device: edgebench-agent stop", measure)


def _for_missing_run(error: e.NoSuchRun, asked: Asked) -> NextStep:
    if error.is_store_empty:
        text = "measure one: {}; or open a bundle: {}"
        return NextStep(text, asked.bench(), command("show", "FILE.zip"))
    if error.bundle is not None:
        one = Placeholder(f"{shlex.quote(error.bundle)}#ID")
        text = "see its runs: {}; then name one: {}"
        return NextStep(text, command("runs", error.bundle), command("show", one))
    if error.model is None:
        return NextStep("see the stored runs: {}", command("runs"))
    if asked.command in ("history", "runs"):
        named = command(asked.command, "--model", error.model)
        return NextStep("name a model by its option: {}", named)
    if asked.command == "compare":
        both = command("bench", error.model, "--against", "B")
        return NextStep("measure two models and compare them: {}", both)
    return NextStep("measure it: {}", command("bench", error.model))


def _for_second_side(error: e.NoSecondSide, _asked: Asked) -> NextStep:
    if error.sides:
        first, second = error.sides
        return NextStep(
            "name one as the other side: {}", command("compare", first, "--against", second)
        )
    if error.comparison_id:
        return NextStep("name all its pairs: {}", command("compare", error.comparison_id))
    return NextStep(
        "name the other side: {}; or measure two models and compare them: {}",
        command("compare", "A", "--against", "B"),
        command("bench", "A", "--against", "B"),
    )


def _for_meter_not_served(error: e.MeterNotServed, asked: Asked) -> NextStep:
    is_campaign = asked.group == "campaign"
    if error.meant and is_campaign:
        return NextStep('name it in full in the campaign file: meter = "agent:{}"', error.meant)
    if error.meant:
        return NextStep("name it in full: {}", asked.bench(meter=f"agent:{error.meant}"))
    if is_campaign:
        return NextStep(
            "serve it there: edgebench-agent serve --meter {}, which gives it to the first of "
            "several boards; or leave the other devices out of the campaign file",
            error.meter,
        )
    return NextStep(
        "name it where that agent is started: edgebench-agent serve --meter {}, or in "
        "EDGEBENCH_METERS, or by {}",
        error.meter,
        command("deploy", Placeholder(_ACCOUNT), "--meter", error.meter),
    )


def _for_permission(error: e.NoSuchMeter | e.NotPermitted, asked: Asked) -> NextStep:
    again = _BRIDGE if asked.group == "bridge" else _METERS
    if error.permission is e.Permission.SERIAL_PORT:
        join = "join the group of serial ports, then log in again: sudo usermod -aG dialout $USER"
        return NextStep(f"{join}; then {{}}", again)
    if error.permission is e.Permission.USB_TESTER:
        return NextStep(
            "docs/instruments.md, USB testers, has a rule of udev that allows it; add it, plug the "
            "tester in again, then {}",
            again,
        )
    return NextStep("see which meters there are, and why others are not: {}", _METERS)


def _for_difference(error: e.NotComparable, asked: Asked) -> NextStep:
    text = "allow the difference, if it is what you compare: {}"
    allow = [["--allow", key] for key in error.keys]
    if type(error) is e.NotComparable and asked.command == "bench" and error.comparison_id:
        return NextStep(text, command("compare", error.comparison_id, *allow))
    return NextStep(text, asked.compare(allow))


def _for_slow_dataset(_error: e.DatasetTooSlow, asked: Asked) -> NextStep:
    dataset = asked.value("accuracy") or "set.npz"
    return NextStep(
        "run a part of it, drawn at random, or allow more time: {}, or --accuracy-limit {}h",
        asked.bench(accuracy=dataset, dataset_sample_count=100),
        math.ceil(asked.more("dataset_limit_s", 86400.0) / 3600),
    )


def _for_model(text: str) -> Hint:
    """Another runtime may take the model, unless all of them have been tried."""

    def hint(_error: e.EdgebenchError, asked: Asked) -> NextStep:
        if asked.value("runtime") == "all":
            return NextStep("check the file, or measure another one: {}", _BUILT_IN)
        return NextStep(text, asked.bench(runtime="all"))

    return hint


def _for_page(error: e.PageUnavailable, _asked: Asked) -> NextStep:
    if error.install:
        return NextStep("install them: {}; then {}", error.install, command("serve"))
    here = command("serve", "--port", "0")
    return NextStep("listen on this machine, at any port that is free: {}", here)


def _for_runtime(error: e.RuntimeUnavailable, _asked: Asked) -> NextStep:
    if error.install:
        text = "install it there: {}; then see whether it works: {}"
        return NextStep(text, error.install, _DEVICES)
    return NextStep("see what is installed there: {}", _DEVICES)


def _for_unreachable(error: e.Unreachable, _asked: Asked) -> NextStep:
    if error.is_offline:
        return NextStep("see whether this machine has a network: ip route; then {}", _DEVICES)
    return NextStep("see which devices answer: {}", _DEVICES)


def _for_measurement(error: e.MeasurementError, asked: Asked) -> NextStep:
    if error.invalid is not None:
        text = "see why, and what would make it better: {}"
        return NextStep(text, command("show", error.invalid))
    longer = asked.bench(duration_s=asked.more("duration_s", 60.0))
    return NextStep("measure again, for longer: {}", longer)


def _deploy(*words: str) -> Value:
    return lambda _, asked: command("deploy", asked.named(_ACCOUNT), *words)


def _bundle_again(kind: type[e.EdgebenchError]) -> Row:
    again = command("bundle", Placeholder("ID"))
    return _on(kind, "ask for the file again; its sender makes one with: {}", again)


_HINTS: tuple[Row, ...] = (
    (e.LeaseHeld, _for_lease),
    (e.NoSuchRun, _for_missing_run),
    (e.PageUnavailable, _for_page),
    _on(
        e.FileExists,
        "choose another file, as in: {}",
        lambda _, asked: command("bundle", asked.named(_RUN), "-o", "FILE.zip"),
    ),
    (e.NoSecondSide, _for_second_side),
    _on(
        e.NoSuchModel,
        "name a .tflite or .onnx file by its path from here, or try a built-in model: {}",
        _BUILT_IN,
    ),
    _on(e.NotAModel, "name a .tflite or .onnx file, or try a built-in model: {}", _BUILT_IN),
    _on(
        e.KitOfOtherMachine,
        "make one for it: {}",
        lambda error, _: command("kit", "build", "--machine", error.machine),
    ),
    _on(e.NotAKit, "make another one: {}", command("kit", "build", "--output", "FILE")),
    _on(
        e.KitNotBuilt,
        "name the root directory of a system, as a mounted image of a Raspberry Pi: {}; or name a "
        "kit: {}",
        command("kit", "build", "--root", "DIR"),
        lambda _, asked: command("deploy", asked.named(_TARGET), "--kit", "FILE"),
    ),
    _on(e.NoSuchCampaign, "begin one: {}", command("campaign", "run", "FILE.toml")),
    _on(e.CampaignRunning, "look at it: {}", command("campaign", "watch")),
    _on(
        e.LabHostsUnreachable,
        "start the scheduler, dask scheduler, and on each lab host: {}; then resume: {}",
        lambda _, asked: command("lab", "work", asked.named(_SCHEDULER)),
        lambda _, asked: command("campaign", "resume", "--cluster", asked.named(_SCHEDULER)),
    ),
    _on(
        e.DeviceNotOffered,
        "offer it, on its lab host: {}",
        lambda error, asked: command("lab", "work", asked.named(_SCHEDULER), "--on", error.device),
    ),
    _on(
        e.AllQuarantined,
        "see whether it is well again: {}; or name it: --on {}",
        lambda error, _: command("devices", "check", error.device),
        lambda error, _: shlex.quote(error.device),
    ),
    _on(e.NoSuchDevice, "see which devices there are: {}", _DEVICES),
    (e.NoSuchMeter, _for_permission),
    _on(e.WrongMeterOption, "see what each meter takes: {}", command("meters", "info", "--help")),
    (e.MeterNotServed, _for_meter_not_served),
    _on(
        e.ColumnsUnknown,
        "name its columns, with their unit: --time COLUMN:s --power COLUMN:W, or --current "
        "COLUMN:mA --voltage 3.3; more: {}",
        _IMPORT_HELP,
    ),
    _on(
        e.OwnModelOnly,
        "measure that one, which needs no name: {}",
        lambda error, _: command("bench", "--on", error.device),
    ),
    _on(
        e.RunsTooShort,
        "measure for longer, or in fewer runs: {}, or --runs {}",
        lambda error, asked: asked.bench(without=["runs"], duration_s=error.enough_s),
        lambda error, _: error.run_limit,
    ),
    _on(
        e.NoLoadgenLog,
        "make a valid run with LoadGen: {}",
        lambda _, asked: asked.bench(engine="loadgen"),
    ),
    _on(
        e.FileNotWritten,
        "write the stored runs elsewhere: {}",
        lambda _, asked: command("export", asked.named(_ALL_RUNS), "-o", "FILE"),
    ),
    _on(
        e.NoLoadCode,
        "make a run that plays it: {}",
        lambda _, asked: asked.bench(sync="coded_load"),
    ),
    _on(
        e.SamplesUnknown,
        "if its data sheet says so: {}",
        lambda _, asked: command(
            "energy", asked.named(_RUN), "--trace", "FILE", "--samples", "means"
        ),
    ),
    _on(
        e.TraceRefused,
        "record the device's own supply from before the run until after it, and say how fast: {}",
        lambda _, asked: asked.bench("--trace-rate", "HZ", sync="coded_load"),
    ),
    _on(
        e.OtherEnvironment,
        "stop it, if it is not needed: kill {}; or measure with its runtimes, by name: "
        "edgebench-agent pair in its environment, and here {}",
        lambda error, _: error.pid,
        command("pair", "STRING"),
    ),
    _on(e.FileChanged, "measure when nothing writes to it: {}", lambda _, asked: asked.bench()),
    _bundle_again(e.BundleRefused),
    _on(e.FileRefused, "see which files and columns it takes: {}", _IMPORT_HELP),
    (e.RuntimeUnavailable, _for_runtime),
    _on(
        e.InputsRefused,
        "give it inputs that fit: {}, or --inputs FILE.npz",
        lambda _, asked: asked.bench("--shape", "NAME=1x128", without=["inputs"]),
    ),
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
        "store samples as real values and their labels: np.savez('set.npz', x=x, y=y); "
        "docs/outputs.md says more",
    ),
    _with_dataset(
        e.SampleShapeRefused,
        "reshape x to (n, …), n samples of the input's shape without its batch dimension",
    ),
    _with_dataset(
        e.SampleTypeRefused,
        "store x as the real values that the model was trained on, not as quantised ones: "
        "x.astype('float32')",
    ),
    _with_dataset(e.SamplesClipped, "scale x as in the training of the model, as x / 255"),
    _with_dataset(
        e.OutputsTooLarge, "use fewer samples: np.savez('set.npz', x=x[:1000], y=y[:1000])"
    ),
    (e.DatasetTooSlow, _for_slow_dataset),
    _on(
        e.DatasetRefused,
        "store x as numbers that the input takes, or measure without --accuracy: {}",
        lambda _, asked: asked.bench(without=["accuracy"]),
    ),
    _on(
        e.InferenceFailed,
        "give it inputs that it can take: {}, or --inputs FILE.npz; or try other runtimes: "
        "--runtime all",
        lambda _, asked: asked.bench("--shape", "NAME=1x128", without=["inputs", "runtime"]),
    ),
    _on(
        e.DelegateRefused,
        "choose one that the runtime has, or none of its own: {}, or without --delegate; another "
        "runtime may have it: --runtime all",
        lambda _, asked: asked.bench("--delegate", "D", without=["runtime"]),
    ),
    _on(
        e.SignatureRefused,
        "choose a signature of the file: {}; or leave it out",
        lambda _, asked: asked.bench("--signature", "NAME"),
    ),
    _on(
        e.ExternalDataRefused,
        "put everything into one file, which may have up to 2 GB: pip install onnx; python -I -c "
        '"import onnx, sys; onnx.save(onnx.load(sys.argv[1]), sys.argv[2])" {} whole.onnx; '
        "{}; links, as caches of model hubs have them, first become files: cp -rL FOLDER plain",
        lambda _, asked: " ".join(map(shlex.quote, asked.named(_MODEL))),
        command("bench", "whole.onnx"),
    ),
    (e.ModelRefused, _for_model("check the file, or try other runtimes: {}")),
    (e.WorkerDied, _for_model("try another runtime: {}")),
    _on(
        e.WorkerTimeout,
        "allow it more time: {}",
        lambda _, asked: asked.bench(load_timeout_s=asked.more("load_timeout_s", 600.0)),
    ),
    _on(e.SeatLeft, "plug it in again, then see whether its agent finds it: {}", _DEVICES),
    _on(
        e.TargetDriverMissing,
        "bring the bridge along: {}; for emulated boards: apt install qemu-system-arm where the "
        "agent runs",
        _deploy("--bridge"),
    ),
    _on(
        e.TooHot,
        "cool it, or wait for longer before the run: {}",
        lambda _, asked: asked.bench(cooldown_timeout_s=asked.more("cooldown_timeout_s", 1200.0)),
    ),
    _on(
        e.GovernorRefused,
        "measure without --governor: {}; setting one needs an agent that runs as root, on a kernel "
        "that has governors",
        lambda _, asked: asked.bench(without=["governor"]),
    ),
    _on(
        e.SettingRefused,
        "measure without it: {}; --airplane-mode and --brightness are for phones that heed them",
        lambda _, asked: asked.bench(without=["airplane_mode", "brightness"]),
    ),
    _on(
        e.MetersDiffer,
        "measure both sides with one meter: {}; files of one instrument need its name: {}",
        lambda _, asked: command("bench", "A", "--against", "B", "--meter", asked.named(_METER)),
        lambda _, asked: command(
            "energy", asked.named(_RUN), "--trace", "FILE", "--instrument", "NAME"
        ),
    ),
    (e.NotComparable, _for_difference),
    _on(e.MeterLost, "plug it in again, then see whether it is there: {}", _METERS),
    _on(
        e.DeployRunning,
        "wait until it has ended, then deploy again: {}; one that was broken off no longer counts "
        "after two minutes",
        lambda _, asked: command("deploy", asked.named(_TARGET)),
    ),
    _on(
        e.TooLarge,
        "make room on its disk (df -h there), or let its agent use more of it; on the device: "
        "edgebench-agent serve --models-quota BYTES",
    ),
    _on(e.NoSpace, "see on the device what fills it: edgebench-agent status"),
    _on(
        e.KitMissing,
        "make one from Debian's packages: {}; or name one: {}",
        lambda error, _: command("kit", "build", "--machine", error.machine),
        lambda _, asked: command("deploy", asked.named(_TARGET), "--kit", "FILE"),
    ),
    _on(e.PythonMissing, "install one there, or name it: {}", _deploy("--python", "PATH")),
    _on(e.PackagesMissing, "bring the wheels yourself: {}", _deploy("--wheels", "DIRECTORY")),
    _on(e.PortTaken, "choose another one: {}", _deploy("--port", str(DEFAULT_PORT + 1))),
    _on(
        e.TooManyKeys,
        "name the right key: {}; or give its host IdentityFile and IdentitiesOnly in ~/.ssh/config",
        _deploy("--identity-file", "FILE"),
    ),
    _on(
        e.AccessDenied,
        "log in once by hand, it shows what is wrong: ssh {}",
        lambda error, _: error.login,
    ),
    _on(
        e.WrongBoard,
        "end the agent on the copy and make it a device of its own, there: edgebench-agent "
        "new-identity; then pair it, and the other one if that is still refused: {}",
        command("pair", "STRING"),
    ),
    _on(
        e.NotPaired,
        "pair again, on the device: edgebench-agent pair; then here: {}",
        command("pair", "STRING"),
    ),
    _on(
        e.LinkLost,
        "if its agent still runs, so does its run; to fetch it: {}",
        lambda _, asked: asked.collect(),
    ),
    _on(
        e.AgentBusy,
        f"try again in a while: {{}}; on the device, see who connects to it: ss -tn sport = "
        f":{DEFAULT_PORT}",
        _DEVICES,
    ),
    _on(
        e.AdbMissing,
        "install it: apt install adb, or brew install android-platform-tools; or name the SDK: "
        "ANDROID_HOME=DIRECTORY; then {}",
        _DEVICES,
    ),
    _on(
        e.PhoneUnavailable,
        "{}; then see its state: {}",
        lambda error, _: error.step,
        _DEVICES,
    ),
    _on(
        e.AgentNotStarted,
        "start it, which keeps its runs and its pairing: {}",
        lambda error, _: command("deploy", error.target),
    ),
    (e.Unreachable, _for_unreachable),
    _on(e.LinkTimeout, "see which devices answer: {}", _DEVICES),
    _on(
        e.RunNewer,
        "see which version this is: {}; upgrade: pip install --upgrade edgebench",
        command("--version"),
    ),
    _on(
        e.BundleNotUnpacked,
        "make room (df -h), or name a directory that has some, as in: TMPDIR=/var/tmp {}",
        command("show", "FILE.zip"),
    ),
    _on(
        e.CampaignDamaged,
        "bring the file back from a copy, or begin another campaign: {}; its runs are still in the "
        "store: {}",
        command("campaign", "run", "FILE.toml"),
        command("runs"),
    ),
    _bundle_again(e.BundleDamaged),
    _on(
        e.RunSetAside,
        "measure again: {}; see what is set aside: {}; remove it: {}",
        lambda _, asked: asked.bench(),
        command("runs"),
        lambda _, asked: command("rm", asked.named(_RUN)),
    ),
    _on(
        e.RunDamaged,
        "measure again: {}; or bring the file back from a copy",
        lambda _, asked: asked.bench(),
    ),
    _on(
        e.RunNotStored,
        "make room for it (df -h), or make the store writable; then store the run: {}",
        lambda _, asked: asked.collect(),
    ),
    _on(
        e.StoreError,
        "choose another place: {}",
        lambda _, asked: asked.bench("--store", "DIRECTORY"),
    ),
    _on(
        e.NotMetered,
        "measure again, with a meter: {}",
        lambda _, asked: asked.bench("--meter", *asked.named(_METER)),
    ),
    _on(
        e.NoPairLeft,
        "see why its runs failed or are invalid: {}",
        lambda error, _: command("show", error.comparison_id),
    ),
    _on(
        e.OutOfMemory,
        "close other programs (free -h), or name fewer runs, as in: {}",
        lambda _, asked: command("show", asked.named(_RUN)),
    ),
    (e.MeasurementError, _for_measurement),
    _on(e.ProtocolError, "use the same version on both sides: {}", command("--version")),
    _on(e.TargetError, "see on the device how its agent is: edgebench-agent status"),
    _on(e.TransportError, "see which devices answer: {}", _DEVICES),
    _on(e.EdgebenchError, "see what there is: {}", command("--help")),
)
"""The first kind that fits; the last ones fit everything."""


def _record(*words: str) -> Value:
    return lambda _, asked: command("meters", "record", asked.named(_METER), *words)


_OF_COMMAND: dict[str, tuple[Row, ...]] = {
    "meters": (
        _on(e.DirectoryTaken, "choose another directory: {}", _record("--output", "DIR")),
        _on(
            e.StoreError,
            "see whether the disk is full: df -h; or choose another directory: {}",
            _record("--output", "DIR"),
        ),
        _on(e.MeasurementError, "record for longer: {}", _record("--duration", "60s")),
        _on(e.TargetError, "see whether it is still there: {}", _METERS),
    ),
    "bridge": (
        _on(e.TargetDriverMissing, "install all of edgebench: pip install edgebench"),
        _on(
            e.FlashToolMissing,
            "install one of these, or put its folder on PATH, then: {}",
            command("bridge", "flash", "BOARD", "FILE"),
        ),
        _on(e.BoardLost, "plug it in again, then see whether it is there: {}", _BRIDGE),
        _on(e.TargetError, "see which ports there are, and who uses them: {}", _BRIDGE),
    ),
    "pair": (
        _on(
            e.WrongBoard,
            "end its agent and make it a device of its own, there: edgebench-agent new-identity; "
            "then print a string on it: edgebench-agent pair",
        ),
        _on(e.WrongAgent, "print a string on the device that you mean: edgebench-agent pair"),
        _on(
            e.NotPaired,
            "print a new string on the device, it pairs one host within ten minutes: "
            "edgebench-agent pair",
        ),
        _on(
            e.Unreachable,
            "see whether its agent runs, and print a new string on the device, which names its "
            "addresses and its port: edgebench-agent pair",
        ),
        _on(
            e.BoardKnown,
            "say which it is: {} (set up anew: keeps name, labels and history), or {} (another "
            "device)",
            command("pair", "--replace", "STRING"),
            command("pair", "--add", "STRING"),
        ),
        _on(
            e.UsageError,
            "copy the whole string, in quotes; to print one on the device: edgebench-agent pair",
        ),
    ),
    "report": (
        _on(
            e.FileNotWritten,
            "write it elsewhere: {}",
            lambda _, asked: command("report", asked.named(_RUN), "-o", "FILE.html"),
        ),
    ),
    "history": (
        _on(e.FileNotWritten, "write it elsewhere: {}", command("history", "-o", "FILE.html")),
    ),
    "campaign": (
        _on(
            e.RunsTooShort,
            "set a longer duration, or fewer repeats, in the file; then {}",
            command("campaign", "plan", "FILE"),
        ),
    ),
}
"""Hints of a command and its actions, which go before the general ones."""
_OF_STORE: dict[str, Row] = {
    "lab export": _on(e.StoreError, "choose another file: {}", command("lab", "export", "FILE")),
    "store merge": _on(
        e.StoreError,
        "make room for it (df -h), or make the store writable; then repeat the merge, which "
        "resumes: {}",
        lambda _, asked: command("store", "merge", asked.named(_OTHER), asked.store),
    ),
    "bundle": _on(
        e.StoreError,
        "choose another place, with room (df -h): {}",
        lambda _, asked: command("bundle", asked.named(_ALL_RUNS), "-o", "DIRECTORY/FILE.zip"),
    ),
    **dict.fromkeys(
        ("tag", "note", "rm", "prune"),
        _on(
            e.StoreError,
            "make the store writable; or copy its runs into one that is: {}",
            command("store", "merge", "STORE", "--store", "DIRECTORY"),
        ),
    ),
}
"""Hints for a file or store that cannot be written, by command and action."""
REFUSED_RECORDING = (
    "docs/meters.md says what each check looks at; mend it, then check the meter: edgebench meters "
    "selftest METER --duration 60s"
)
"""Hint for a stored recording whose energy is refused."""


def hint_for(error: e.EdgebenchError, asked: Asked | None = None) -> str:
    """The next step after an error, in one line.

    Args:
        error: The error.
        asked: The command that failed, with what it asked for; None: it is not known.
    """
    if isinstance(error, (e.SystemFailure, e.Unforeseen)):
        return unforeseen.hint_for(error)
    return "; ".join(map(str, steps_after(error, asked or Asked())))


def steps_after(error: e.EdgebenchError, asked: Asked) -> list[NextStep]:
    """Steps after an error; of a run that failed and is stored, the last one shows the run.

    Args:
        error: The error, of edgebench's own.
        asked: The command that failed, with what it asked for.
    """
    step = _hint(error, asked)(error, asked)
    if isinstance(error, e.UsageError) and error.meant and not isinstance(error, e.MeterNotServed):
        step = NextStep("did you mean {}? otherwise {}", error.meant, step)
    if error.run_id is None:
        return [step]
    return [step, NextStep("what is kept: {}", command("show", error.run_id))]


def _hint(error: e.EdgebenchError, asked: Asked) -> Hint:
    """The hint of the first row for this error, of those of the command and the general ones."""
    name = asked.group
    if isinstance(error, e.NotPermitted):
        return _for_permission
    if isinstance(error, e.Unreachable) and error.is_offline:
        return _for_unreachable
    if type(error) is e.UsageError and name and name != "pair":
        words = ("meters", "info") if asked.command == "meters" else asked.words
        return lambda *_: NextStep("see what it takes: {}", command(*words, "--help"))
    if type(error) is e.StoreError and asked.command in _OF_STORE:
        return _OF_STORE[asked.command][1]
    rows = (*_OF_COMMAND.get(name, ()), *_HINTS)
    return next(hint for kind, hint in rows if isinstance(error, kind))
