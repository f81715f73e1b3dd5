"""Hint for each kind of error: starts with a verb, contains a command."""

from __future__ import annotations

import shlex

from edgebench.protocol import errors as e
from edgebench.protocol.identity import DEFAULT_PORT
from edgebench.protocol.spec import MAX_LENGTH_S
from edgebench.system import unforeseen

_ASK_AGAIN = "ask for the file again; its sender makes one with: edgebench bundle ID"
_HINTS: tuple[tuple[type[e.EdgebenchError], str], ...] = (
    (e.NoSuchRun, "see the stored runs: edgebench runs"),
    (
        e.PageUnavailable,
        "listen on this machine, at any port that is free: edgebench serve --port 0",
    ),
    (e.FileExists, "choose another file, as in: edgebench bundle RUN -o FILE.zip"),
    (
        e.NoSecondSide,
        "name the other side: edgebench compare A --against B; or measure two models and compare "
        "them: edgebench bench A --against B",
    ),
    (
        e.NoSuchModel,
        "name a .tflite or .onnx file by its path from here, or try a built-in model: edgebench "
        "bench digits_int8.tflite",
    ),
    (
        e.NotAModel,
        "name a .tflite or .onnx file, or try a built-in model: edgebench bench digits_int8.tflite",
    ),
    (e.KitOfOtherMachine, "make one for it: edgebench kit build --machine {error.machine}"),
    (e.NotAKit, "make another one: edgebench kit build --output FILE"),
    (
        e.KitNotBuilt,
        "name the root directory of a system, as a mounted image of a Raspberry Pi: edgebench kit "
        "build --root DIR; or name a kit: edgebench deploy TARGET --kit FILE",
    ),
    (e.NoSuchCampaign, "begin one: edgebench campaign run FILE.toml"),
    (e.CampaignRunning, "look at it: edgebench campaign watch"),
    (
        e.LabHostsUnreachable,
        "start the scheduler, dask scheduler, and on each lab host: edgebench lab work "
        "tcp://SCHEDULER:8786; then resume: edgebench campaign resume --cluster "
        "tcp://SCHEDULER:8786",
    ),
    (
        e.DeviceNotOffered,
        "offer it, on its lab host: edgebench lab work tcp://SCHEDULER:8786 --on {error.device}",
    ),
    (
        e.AllQuarantined,
        "see whether it is well again: edgebench devices check {error.device}; or name it: "
        "--on {error.device}",
    ),
    (e.NoSuchDevice, "see which devices there are: edgebench devices"),
    (e.NoSuchMeter, "see which meters there are, and why others are not: edgebench meters"),
    (e.WrongMeterOption, "see what each meter takes: edgebench meters info --help"),
    (
        e.MeterNotServed,
        "name it where that agent is started: edgebench-agent serve --meter {error.meter}, or in "
        "EDGEBENCH_METERS, or by edgebench deploy USER@HOST --meter {error.meter}",
    ),
    (
        e.ColumnsUnknown,
        "name its columns, with their unit: --time COLUMN:s --power COLUMN:W, or --current "
        "COLUMN:mA --voltage 3.3; more: edgebench meters import --help",
    ),
    (e.OwnModelOnly, "measure that one, which needs no name: edgebench bench --on {error.device}"),
    (
        e.RunsTooShort,
        "measure for longer, or in fewer runs: edgebench bench MODEL {error.instead}",
    ),
    (e.NoLoadgenLog, "make a valid run with LoadGen: edgebench bench MODEL --engine loadgen"),
    (e.FileNotWritten, "write the stored runs elsewhere: edgebench export RUN… -o FILE"),
    (e.NoLoadCode, "make a run that plays it: edgebench bench MODEL --sync coded_load"),
    (
        e.SamplesUnknown,
        "if its data sheet says so: edgebench energy RUN --trace FILE --samples means",
    ),
    (
        e.TraceRefused,
        "record the device's own supply from before the run until after it, and say how fast: "
        "edgebench bench MODEL --sync coded_load --trace-rate HZ",
    ),
    (
        e.OtherEnvironment,
        "stop it, if it is not needed: kill {error.pid}; or measure with its runtimes, by name: "
        "edgebench-agent pair in its environment, and here edgebench pair STRING",
    ),
    (e.FileChanged, "measure when nothing writes to it: edgebench bench MODEL"),
    (e.BundleRefused, _ASK_AGAIN),
    (e.FileRefused, "see which files and columns it takes: edgebench meters import --help"),
    (e.RuntimeUnavailable, "see what is installed there: edgebench devices"),
    (
        e.InputsRefused,
        "give it inputs that fit: edgebench bench MODEL --shape NAME=1x128, or --inputs FILE.npz",
    ),
    (
        e.DatasetIncomplete,
        "store n >= 1 samples, along the first axis of x, and n labels: np.savez('set.npz', x=x, "
        "y=y); then edgebench bench MODEL --accuracy set.npz",
    ),
    (
        e.DatasetNotFinite,
        "leave these samples out: ok = np.isfinite(x.reshape(len(x), -1)).all(1); "
        "np.savez('set.npz', x=x[ok], y=y[ok]); then edgebench bench MODEL --accuracy set.npz",
    ),
    (
        e.DatasetFileRefused,
        "store samples as real values and their labels: np.savez('set.npz', x=x, y=y); docs/"
        "measurement.md says more; then edgebench bench MODEL --accuracy set.npz",
    ),
    (
        e.SampleShapeRefused,
        "reshape x to (n, …), n samples of the input's shape without its batch dimension; then "
        "edgebench bench MODEL --accuracy set.npz",
    ),
    (
        e.SampleTypeRefused,
        "store x as the real values that the model was trained on, not as quantised ones: "
        "x.astype('float32'); then edgebench bench MODEL --accuracy set.npz",
    ),
    (
        e.SamplesClipped,
        "scale x as in the training of the model, as x / 255; then edgebench bench MODEL "
        "--accuracy set.npz",
    ),
    (
        e.OutputsTooLarge,
        "use fewer samples: np.savez('set.npz', x=x[:1000], y=y[:1000]); then edgebench bench "
        "MODEL --accuracy set.npz",
    ),
    (
        e.DatasetTooSlow,
        "run a part of it, drawn at random, or allow more time: edgebench bench MODEL "
        "--accuracy set.npz --accuracy-samples 100, or --accuracy-limit 24h",
    ),
    (
        e.DatasetRefused,
        "store x as numbers that the input takes, or measure without --accuracy: edgebench bench "
        "MODEL",
    ),
    (
        e.InferenceFailed,
        "give it inputs that it can take: edgebench bench MODEL --shape NAME=1x128, or --inputs "
        "FILE.npz; or try other runtimes: --runtime all",
    ),
    (
        e.DelegateRefused,
        "choose one that the runtime has, or none of its own: edgebench bench MODEL --delegate D, "
        "or without --delegate; another runtime may have it: --runtime all",
    ),
    (
        e.SignatureRefused,
        "choose a signature of the file: edgebench bench MODEL --signature NAME; or leave it out",
    ),
    (
        e.ExternalDataRefused,
        "put everything into one file, which may have up to 2 GB: pip install onnx; python -I -c "
        '"import onnx, sys; onnx.save(onnx.load(sys.argv[1]), sys.argv[2])" MODEL whole.onnx; '
        "edgebench bench whole.onnx; links, as caches of model hubs have them, first become files: "
        "cp -rL FOLDER plain",
    ),
    (e.ModelRefused, "check the file, or try other runtimes: edgebench bench MODEL --runtime all"),
    (e.WorkerDied, "try another runtime: edgebench bench MODEL --runtime all"),
    (e.WorkerTimeout, "allow it more time: edgebench bench MODEL --timeout 10m"),
    (e.SeatLeft, "plug it in again, then see whether its agent finds it: edgebench devices"),
    (
        e.TargetDriverMissing,
        "bring the bridge along: edgebench deploy USER@HOST --bridge; for emulated boards: apt "
        "install qemu-system-arm where the agent runs",
    ),
    (e.TooHot, "cool it, or wait for longer before the run: edgebench bench MODEL --cooldown 20m"),
    (
        e.GovernorRefused,
        "measure without --governor: edgebench bench MODEL; setting one needs an agent that runs "
        "as root, on a kernel that has governors",
    ),
    (
        e.SettingRefused,
        "measure without it: edgebench bench MODEL; --airplane-mode and --brightness are for "
        "phones that heed them",
    ),
    (
        e.MetersDiffer,
        "measure both sides with one meter: edgebench bench A --against B --meter METER; files of "
        "one instrument need its name: edgebench energy RUN --trace FILE --instrument NAME",
    ),
    (
        e.NotComparable,
        "allow the difference, if it is what you compare: edgebench compare RUNS {error.allow}",
    ),
    (e.MeterLost, "plug it in again, then see whether it is there: edgebench meters"),
    (
        e.DeployRunning,
        "wait until it has ended, then deploy again: edgebench deploy TARGET; one that was broken "
        "off no longer counts after two minutes",
    ),
    (
        e.TooLarge,
        "make room on its disk (df -h there), or let its agent use more of it; on the device: "
        "edgebench-agent serve --models-quota BYTES",
    ),
    (e.NoSpace, "see on the device what fills it: edgebench-agent status"),
    (
        e.KitMissing,
        "make one from Debian's packages: edgebench kit build --machine {error.machine}; or name "
        "one: edgebench deploy TARGET --kit FILE",
    ),
    (e.PythonMissing, "install one there, or name it: edgebench deploy USER@HOST --python PATH"),
    (e.PackagesMissing, "bring the wheels yourself: edgebench deploy USER@HOST --wheels DIRECTORY"),
    (
        e.PortTaken,
        f"choose another one: edgebench deploy USER@HOST --port {DEFAULT_PORT + 1}",
    ),
    (
        e.TooManyKeys,
        "name the right key: edgebench deploy USER@HOST --identity-file FILE; or give its host "
        "IdentityFile and IdentitiesOnly in ~/.ssh/config",
    ),
    (e.AccessDenied, "log in once by hand, it shows what is wrong: ssh {error.login}"),
    (
        e.WrongBoard,
        "end the agent on the copy and make it a device of its own, there: edgebench-agent "
        "new-identity; then pair it, and the other one if that is still refused: edgebench pair "
        "STRING",
    ),
    (
        e.NotPaired,
        "pair again, on the device: edgebench-agent pair; then here: edgebench pair STRING",
    ),
    (
        e.LinkLost,
        "if its agent still runs, so does its run; to fetch it: edgebench collect --on DEVICE",
    ),
    (
        e.AgentBusy,
        "try again in a while: edgebench devices; on the device, see who connects to it: ss -tn "
        f"sport = :{DEFAULT_PORT}",
    ),
    (
        e.AdbMissing,
        "install it: apt install adb, or brew install android-platform-tools; or name the SDK: "
        "ANDROID_HOME=DIRECTORY; then edgebench devices",
    ),
    (e.PhoneUnavailable, "{error.step}; then see its state: edgebench devices"),
    (
        e.AgentNotStarted,
        "start it, which keeps its runs and its pairing: edgebench deploy {error.target}",
    ),
    (e.Unreachable, "see which devices answer: edgebench devices"),
    (e.LinkTimeout, "see which devices answer: edgebench devices"),
    (
        e.RunNewer,
        "see which version this is: edgebench --version; upgrade: pip install --upgrade edgebench",
    ),
    (
        e.BundleNotUnpacked,
        "make room (df -h), or name a directory that has some, as in: TMPDIR=/var/tmp edgebench "
        "show FILE.zip",
    ),
    (
        e.CampaignDamaged,
        "bring the file back from a copy, or begin another campaign: edgebench campaign run "
        "FILE.toml; its runs are still in the store: edgebench runs",
    ),
    (e.BundleDamaged, _ASK_AGAIN),
    (
        e.RunSetAside,
        "measure again: edgebench bench MODEL; see what is set aside: edgebench runs; remove it: "
        "edgebench rm RUN",
    ),
    (e.RunDamaged, "measure again: edgebench bench MODEL; or bring the file back from a copy"),
    (
        e.RunNotStored,
        "make room for it (df -h), or make the store writable; then store the run: "
        "edgebench collect --on DEVICE",
    ),
    (e.StoreError, "choose another place: edgebench bench MODEL --store DIRECTORY"),
    (e.NotMetered, "measure again, with a meter: edgebench bench MODEL --meter METER"),
    (
        e.NoPairLeft,
        "see why its runs failed or are invalid: edgebench show {error.comparison_id}",
    ),
    (
        e.OutOfMemory,
        "close other programs (free -h), or name fewer runs, as in: edgebench show RUN",
    ),
    (e.MeasurementError, "measure again, for longer: edgebench bench MODEL --duration 60s"),
    (e.ProtocolError, "use the same version on both sides: edgebench --version"),
    (e.TargetError, "see on the device how its agent is: edgebench-agent status"),
    (e.TransportError, "see which devices answer: edgebench devices"),
    (e.EdgebenchError, "see what there is: edgebench --help"),
)
"""The first kind that fits; the last ones fit everything."""


_OF_METERS: tuple[tuple[type[e.EdgebenchError], str], ...] = (
    (
        e.DirectoryTaken,
        "choose another directory: edgebench meters record METER --output DIR",
    ),
    (
        e.StoreError,
        "see whether the disk is full: df -h; or choose another directory: edgebench meters record "
        "METER --output DIR",
    ),
    (e.MeasurementError, "record for longer: edgebench meters record METER --duration 60s"),
    (e.TargetError, "see whether it is still there: edgebench meters"),
)
"""Hints of `edgebench meters`, which go before the general ones: it makes no runs."""
_OF_BRIDGE: tuple[tuple[type[e.EdgebenchError], str], ...] = (
    (e.TargetDriverMissing, "install all of edgebench: pip install edgebench"),
    (
        e.FlashToolMissing,
        "install one of these, or put its folder on PATH, then: edgebench bridge flash BOARD FILE",
    ),
    (
        e.BoardLost,
        "plug it in again, then see whether it is there: edgebench bridge list",
    ),
    (e.TargetError, "see which ports there are, and who uses them: edgebench bridge list"),
)
"""Hints of `edgebench bridge`, which go before the general ones."""
_OF_PAIRING: tuple[tuple[type[e.EdgebenchError], str], ...] = (
    (
        e.WrongBoard,
        "end its agent and make it a device of its own, there: edgebench-agent new-identity; then "
        "print a string on it: edgebench-agent pair",
    ),
    (e.WrongAgent, "print a string on the device that you mean: edgebench-agent pair"),
    (
        e.NotPaired,
        "print a new string on the device, it pairs one host within ten minutes: edgebench-agent "
        "pair",
    ),
    (
        e.Unreachable,
        "see whether its agent runs, and print a new string on the device, which names its "
        "addresses and its port: edgebench-agent pair",
    ),
    (
        e.BoardKnown,
        "say which it is: edgebench pair --replace STRING (set up anew: keeps name, labels and "
        "history), or edgebench pair --add STRING (another device)",
    ),
    (
        e.UsageError,
        "copy the whole string, in quotes; to print one on the device: edgebench-agent pair",
    ),
)
"""Hints of `edgebench pair`, which go before the general ones."""
_OF_REPORT: tuple[tuple[type[e.EdgebenchError], str], ...] = (
    (e.FileNotWritten, "write it elsewhere: edgebench report RUN -o FILE.html"),
)
"""Hints of `edgebench report`, which go before the general ones."""
_OF_CAMPAIGN: tuple[tuple[type[e.EdgebenchError], str], ...] = (
    (
        e.RunsTooShort,
        "set a longer duration_s, or fewer repeats, in the file; then edgebench campaign plan FILE",
    ),
)
"""Hints of `edgebench campaign`, which go before the general ones."""
_OF_HISTORY: tuple[tuple[type[e.EdgebenchError], str], ...] = (
    (e.FileNotWritten, "write it elsewhere: edgebench history -o FILE.html"),
)
"""Hints of `edgebench history`, which go before the general ones."""
REFUSED_RECORDING = (
    "docs/meters.md says what each check looks at; mend it, then check the meter: edgebench meters "
    "selftest METER --duration 60s"
)
"""Hint for a stored recording whose energy is refused."""
_READ_ONLY = (
    "make the store writable; or copy its runs into one that is: edgebench store merge STORE "
    "--store DIRECTORY"
)
_OF_STORE: dict[str, str] = {
    "lab export": "choose another file: edgebench lab export FILE",
    "store merge": "make room for it (df -h), or make the store writable; then repeat the merge, "
    "which resumes: edgebench store merge OTHER",
    **dict.fromkeys(("tag", "note", "rm", "prune"), _READ_ONLY),
    "bundle": "choose another place, with room (df -h): edgebench bundle RUN… -o "
    "DIRECTORY/FILE.zip",
}
"""Hints for a file or store that cannot be written, by the command."""
_ALLOWING: dict[e.Permission, str] = {
    e.Permission.SERIAL_PORT: "join the group of serial ports, then log in again: sudo usermod -aG "
    "dialout $USER; then {again}",
    e.Permission.USB_TESTER: "docs/meters.md, USB testers, has a rule of udev that allows it; add "
    "it, plug the tester in again, then {again}",
}
"""Hints by the permission that the user lacks."""


def hint_for(error: e.EdgebenchError, command: str = "", *, is_all_runtimes: bool = False) -> str:
    """The next step after an error of a command, which may have its action: `meters record`.

    Of a run that failed and is stored, it names the run.

    Args:
        error: The error.
        command: The command that failed.
        is_all_runtimes: Every runtime was to be tried, so that none is left to be proposed.
    """
    if isinstance(error, (e.SystemFailure, e.Unforeseen)):
        return unforeseen.hint_for(error)
    hint = _hint_for(error, command)
    if is_all_runtimes and isinstance(error, (e.ModelRefused, e.WorkerDied)):
        hint = "check the file, or measure another one: edgebench bench digits_int8.tflite"
    if isinstance(error, e.UsageError) and error.meant and not isinstance(error, e.MeterNotServed):
        hint = f"did you mean {error.meant}? otherwise {hint}"
    return hint if error.run_id is None else f"{hint}; what is kept: edgebench show {error.run_id}"


def _hint_for(error: e.EdgebenchError, command: str) -> str:
    if isinstance(error, (e.NoSuchMeter, e.NotPermitted)) and error.permission is not None:
        again = "edgebench bridge list" if command.startswith("bridge") else "edgebench meters"
        return _ALLOWING[error.permission].format(again=again)
    if isinstance(error, e.LeaseHeld):
        return _hint_for_lease(error, command)
    if isinstance(error, e.NoSuchRun) and error.is_store_empty:
        return "measure one: edgebench bench MODEL; or open a bundle: edgebench show FILE.zip"
    if isinstance(error, e.NoSuchRun) and error.bundle is not None:
        path = shlex.quote(error.bundle)
        return f"see its runs: edgebench runs {path}; then name one: edgebench show {path}#ID"
    if isinstance(error, e.MeterNotServed) and command.startswith("campaign"):
        if error.meant:
            return f'name it in full in the campaign file: meter = "agent:{error.meant}"'
        return (
            f"serve it there: edgebench-agent serve --meter {error.meter}, which gives it to the "
            "first of several boards; or leave the other devices out of the campaign file"
        )
    if isinstance(error, e.MeterNotServed) and error.meant:
        return f"name it in full: edgebench bench MODEL --meter agent:{error.meant}"
    if isinstance(error, e.PageUnavailable) and error.install:
        return f"install them: {error.install}; then edgebench serve"
    if isinstance(error, e.NoSuchRun) and error.model is not None:
        model = shlex.quote(error.model)
        if command in ("history", "runs"):
            return f"name a model by its option: edgebench {command} --model {model}"
        if command == "compare":
            return f"measure two models and compare them: edgebench bench {model} --against B"
        return f"measure it: edgebench bench {model}"
    if type(error) is e.NotComparable and command == "bench" and error.comparison_id:
        return (
            "allow the difference, if it is what you compare: edgebench compare "
            f"{error.comparison_id} {error.allow}"
        )
    if isinstance(error, e.MeasurementError) and error.invalid is not None:
        return f"see why, and what would make it better: edgebench show {error.invalid}"
    if isinstance(error, e.NoSecondSide) and error.sides:
        first, second = map(shlex.quote, error.sides)
        return f"name one as the other side: edgebench compare {first} --against {second}"
    if isinstance(error, e.NoSecondSide) and error.comparison_id:
        return f"name all its pairs: edgebench compare {error.comparison_id}"
    if isinstance(error, e.RuntimeUnavailable) and error.install:
        return f"install it there: {error.install}; then see whether it works: edgebench devices"
    if isinstance(error, e.Unreachable) and error.is_offline:
        return "see whether this machine has a network: ip route; then edgebench devices"
    if type(error) is e.UsageError and command and command != "pair":
        action = "meters info" if command == "meters" else command
        return f"see what it takes: edgebench {action} --help"
    if type(error) is e.StoreError and command in _OF_STORE:
        return _OF_STORE[command]
    own = {
        "meters": _OF_METERS,
        "bridge": _OF_BRIDGE,
        "pair": _OF_PAIRING,
        "report": _OF_REPORT,
        "history": _OF_HISTORY,
        "campaign": _OF_CAMPAIGN,
    }
    hints = (*own.get(command.partition(" ")[0], ()), *_HINTS)
    return next(hint for kind, hint in hints if isinstance(error, kind)).format(error=error)


def _hint_for_lease(error: e.LeaseHeld, command: str) -> str:
    """The next step if another client measures."""
    if command == "stop":
        if error.is_by_this_host:
            return "end your command, with Ctrl-C in its terminal: no run is in progress just now"
        return "only its own host can end that run, or on the device: edgebench-agent stop"
    if error.waited_s > 0:
        longer_s = max(600.0, min(10 * error.waited_s, MAX_LENGTH_S))
        wait = f"wait for longer: edgebench bench MODEL --wait {longer_s:.0f}s"
    else:
        wait = "wait for it: edgebench bench MODEL --wait 10m"
    if error.stoppable_on:
        return (
            f"{wait}; or end your run there: edgebench stop --on {shlex.quote(error.stoppable_on)}"
        )
    if error.is_by_this_host:
        return f"{wait}; or end your other command there, with Ctrl-C in its terminal"
    return f"{wait}; or end its run on the device: edgebench-agent stop"
