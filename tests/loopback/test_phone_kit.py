"""A phone without Python: a kit is brought to it, runs there, is replaced, and leaves nothing.

The phone has Android's own shell and toolbox, and nothing else of Linux. The kit is made from this
machine's own packages. Pip is left out: the kit's environment is linked to that of the tests.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from support.adb_phones import AdbProcess, EmulatedPhone, adb_server, link, need_phones, phone
from support.agents import Host
from support.time_limit import time_limit
from support.tools import need_runtime, need_tool, skip_or_fail

from edgebench.host.devices import deploy
from edgebench.host.kit.build import PYTHONS, BuiltKit, build_kit
from edgebench.host.kit.kit import PLACE
from edgebench.host.kit.root import Root
from edgebench.protocol.errors import TargetError

pytestmark = pytest.mark.timeout(180, func_only=True)
"""The first test has a kit built and sent, which takes a minute and more beside other tests."""
FIXTURE_TIMEOUT_S = 180.0
"""Limit of each of these steps, which the limit of the tests excludes."""

MODEL = "digits_int8.tflite"
QUICK = (
    *("--runs=1", "--duration", "0.2s", "--min-queries", "50"),
    *("--warmup", "5", "--warmup-duration", "0.05s"),
)
STRANGER = """
import errno, json, os, socket, ssl
answers = {"sockets": {}}
names = {line.split()[-1] for line in open("/proc/net/unix") if "@edgebench-" in line}
for name in names:
    with socket.socket(socket.AF_UNIX) as control:
        control.settimeout(5)
        try:
            control.connect(chr(0) + name[1:])
            control.sendall(b"GET / HTTP/1.1" + bytes((13, 10)) * 2)
            answers["sockets"][name] = control.recv(100).decode("latin-1")
        except OSError:
            answers["sockets"][name] = ""
try:
    answers["files"] = str(os.listdir("/data/local/tmp/edgebench"))
except OSError as exc:
    answers["files"] = errno.errorcode[exc.errno]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
try:
    with socket.create_connection(("127.0.0.1", 7747), 5) as link, context.wrap_socket(link) as tls:
        tls.sendall(b"GET / HTTP/1.1" + bytes((13, 10)) * 2)
        answers["tls"] = tls.recv(100).decode("latin-1")
except OSError as exc:
    answers["tls"] = str(exc)
print(json.dumps(answers))
"""
KITS = PLACE.removeprefix("/data/local/tmp/")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> BuiltKit:
    """A kit of this machine's own Python."""
    need_phones()
    need_tool("mksh-static", "toybox")
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    first = next((one for one in PYTHONS if Path(f"/usr/bin/python{one}").exists()), None)
    if first != version:
        skip_or_fail(f"needs Python {version} of the system's packages, as the tests run on it")
    with time_limit(FIXTURE_TIMEOUT_S, "building the kit"):
        return build_kit(Root(Path("/")), tmp_path_factory.mktemp("kit"))


@pytest.fixture(scope="module")
def adb(built: BuiltKit) -> Iterator[AdbProcess]:
    """The adb server of this file, in the environment of every command."""
    need_runtime("ai-edge-litert")
    with adb_server() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        patch.setattr(deploy, "install", link)
        yield server


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Host:
    """A host that deploys to phones."""
    return Host(tmp_path_factory.mktemp("host") / "h")


@pytest.fixture(scope="module")
def pixel(adb: AdbProcess, host: Host, built: BuiltKit) -> Iterator[EmulatedPhone]:
    """A phone without Python as the target of a deployment, named `pixel-8`."""
    with ExitStack() as stack:
        with time_limit(FIXTURE_TIMEOUT_S, "the first deployment"):
            made = stack.enter_context(phone(adb, is_bare=True))
            steps = deployed(host, made, built.path)
        assert any(step.startswith(f"sending {built.manifest}, ") for step in steps)
        yield made


def deployed(host: Host, made: EmulatedPhone, kit: Path | None) -> list[str]:
    """Deploy; the lines that a user sees."""
    steps: list[str] = []
    host.lab.deploy(f"adb:{made.serial}", steps.append, kit=kit)
    return steps


def test_phone_without_python_measures(host: Host, pixel: EmulatedPhone, built: BuiltKit) -> None:
    """Otherwise the kit would start, and the libraries of a runtime would not be found."""
    assert not {"bin", "etc", "lib", "lib64", "opt", "sbin", "usr"} & {
        *pixel.shell("ls", "/").split()
    }
    result = host.run("bench", MODEL, "--on", "pixel-8", *QUICK, "--json")
    assert result.returncode in (0, 3), result.stderr
    [document] = json.loads(result.stdout)["runs"]
    assert document["environment"]["interpreter"].startswith("/data/local/tmp/")
    assert built.manifest.directory in pixel.shell("ls", "-l", f"{venv(pixel)}/bin")


def test_kit_on_the_phone_serves_a_computer_without_one(
    host: Host, pixel: EmulatedPhone, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise `--kit FILE` would be needed again after each restart of the phone."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert not any(step.startswith("sending") for step in deployed(host, pixel, None))


def test_phone_denies_what_android_denies(pixel: EmulatedPhone, built: BuiltKit) -> None:
    """Otherwise the other tests would prove nothing for a phone, on which these calls fail."""
    program = (
        "import errno, os, socket\n"
        "os.chdir(os.environ['TMPDIR']); open('file', 'w').close()\n"
        "calls = (lambda: socket.socket(socket.AF_UNIX).bind('sock'), lambda: os.mkfifo('fifo'),"
        " lambda: os.link('file', 'hard'))\n"
        "for call in calls:\n"
        "    try: call()\n"
        "    except OSError as exc: print(errno.errorcode[exc.errno])\n"
        "os.symlink('file', 'link'); os.unlink('link'); os.unlink('file')\n"
    )
    python = built.manifest.python_path
    assert pixel.shell(python, "-I", "-c", program).split() == ["EACCES"] * 3


def test_strangers_on_the_phone_get_nothing(pixel: EmulatedPhone) -> None:
    """Otherwise an app with network permission could measure, or stop the owner's runs."""
    answers = pixel.as_stranger(STRANGER)
    assert answers["sockets"], "the control socket has an abstract name, which anybody may try"
    assert set(answers["sockets"].values()) == {""}
    assert answers["files"] == "EACCES"
    assert "ALERT" in answers["tls"].upper() or answers["tls"] == ""


def venv(pixel: EmulatedPhone) -> str:
    """Path of the virtual environment on the phone."""
    [path] = pixel.data.glob("edgebench/data/edgebench/agent-venv*")
    return f"/{path.relative_to(pixel.root)}"


def test_second_deploy_sends_no_kit(host: Host, pixel: EmulatedPhone, built: BuiltKit) -> None:
    """Otherwise each deploy would send 30 MB over the cable."""
    program = pixel.root / built.manifest.python_path.lstrip("/")
    before = program.stat()
    assert not any(step.startswith("sending") for step in deployed(host, pixel, built.path))
    assert program.stat() == before
    assert [path.name for path in (pixel.data / KITS).iterdir()] == [built.manifest.name]


def test_half_of_a_kit_is_sent_again(host: Host, pixel: EmulatedPhone, built: BuiltKit) -> None:
    """Otherwise a pulled cable would leave a Python that never starts."""
    kit = built.manifest.directory
    pixel.shell("mv", kit, f"{kit}.new")
    pixel.shell("mkdir", "-p", f"{kit}/bin")
    assert any(step.startswith("sending") for step in deployed(host, pixel, built.path))
    assert [path.name for path in (pixel.data / KITS).iterdir()] == [built.manifest.name]


def test_kit_of_before_outlives_a_deploy_that_fails(
    host: Host, pixel: EmulatedPhone, built: BuiltKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise the previous agent, which is to run again, would have lost its Python."""

    def fail(*_: object, **__: object) -> tuple[str, ...]:
        raise TargetError("agent does not start")

    monkeypatch.setattr(deploy, "_start", fail)
    pixel.shell("mkdir", "-p", f"{PLACE}/{'0' * 16}/bin")
    with pytest.raises(TargetError, match="does not start"):
        deployed(host, pixel, built.path)
    names = {path.name for path in (pixel.data / KITS).iterdir()}
    assert names == {built.manifest.name, "0" * 16}


def test_kit_of_before_is_removed(host: Host, pixel: EmulatedPhone, built: BuiltKit) -> None:
    """Otherwise each new kit would take another 30 MB of the phone."""
    pixel.shell("mkdir", "-p", f"{PLACE}/{'0' * 16}/bin")
    deployed(host, pixel, built.path)
    assert [path.name for path in (pixel.data / KITS).iterdir()] == [built.manifest.name]


def test_phone_without_a_kit_is_told_how_to_get_one(adb: AdbProcess, host: Host) -> None:
    """Otherwise the hint would be to install Python on a phone."""
    with phone(adb, is_bare=True) as made:
        result = host.run("deploy", f"adb:{made.serial}")
        assert result.returncode != 0
        error, hint = result.stderr.strip().splitlines()[-2:]
        assert error.startswith("error: no kit for x86_64") or "no kit for aarch64" in error
        assert "edgebench kit build --machine" in hint
        assert made.leftovers() == []


def test_nothing_is_left_behind(host: Host, pixel: EmulatedPhone) -> None:
    """Otherwise the phone would keep 30 MB that are listed nowhere."""
    for expected in (True, False):
        report = host.lab.undeploy(f"adb:{pixel.serial}")
        assert report.was_there is expected
        assert pixel.leftovers() == []
    assert host.devices == ()
