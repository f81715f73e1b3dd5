"""Deploy to a 64-bit Arm userland under qemu-user, and measure there: run by hand, as root.

    sudo .venv/bin/python tests/system/arm64/emulated_board.py [FOLDER]       (or: make arm64)

Shows what only another architecture can: that the wheels of an Arm board are found and run there,
that an emulated CPU is never taken for a board, not even where /proc/cpuinfo is that of a Raspberry
Pi, that wrong kernels are refused, and that uninstalling leaves nothing.

It takes 8 to 15 minutes on two cores and 700 MB below FOLDER (default: /var/lib/edgebench-arm64),
where the root of the board, 120 MB, is kept for the next time. All directories above FOLDER must be
root's alone, because sshd changes its root to there. Needs mmdebstrap, qemu-user-static,
openssh-server, and access to Debian's packages and to pip's index.

    this machine                              FOLDER/root: Debian for arm64
    edgebench deploy ──── ssh, loopback ────▶ native sshd, chroot ──▶ emulated shell, Python, agent

Mounts are made in a mount namespace of the script's own and end with it. The handler of Arm
programs (binfmt_misc) is registered for the machine, and removed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))

# E402: a script, whose path leads to them only now.
from support.agents import Host, wait_until  # noqa: E402
from support.site import trust  # noqa: E402
from support.sshd import Account, SshServer, fresh_account, ssh_server  # noqa: E402

from edgebench.host.devices import on_device  # noqa: E402
from edgebench.host.devices.on_device import ANSWER_MARK, DeviceFacts  # noqa: E402
from edgebench.host.devices.packages import fetch  # noqa: E402
from edgebench.protocol.plain import from_plain  # noqa: E402

INSIDE = "EDGEBENCH_ARM64_INSIDE"
"""Variable that is set in the script's own mount namespace."""
QEMU = Path("/usr/bin/qemu-aarch64-static")
BINFMT = Path("/proc/sys/fs/binfmt_misc")
HANDLER = "edgebench-aarch64"
MAGIC = (
    r"\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00",
    r"\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff",
)
"""First bytes of an ELF file for AArch64, and which of their bits count.

Source: ELF for the Arm 64-bit Architecture, e_machine 183; QEMU, scripts/qemu-binfmt-conf.sh."""
PACKAGES = ("bash", "dash", "coreutils", "base-files", "base-passwd", "python3", "libc6",
            "libstdc++6", "libgcc-s1")  # fmt: skip
"""Packages of the board; no maintainer script is run, so none may need one."""
BOARD_CPUINFO = "".join(
    f"processor\t: {cpu}\nBogoMIPS\t: 108.00\nFeatures\t: fp asimd evtstrm crc32 cpuid\n"
    "CPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: 0xd08\n"
    "CPU revision\t: 3\n\n"
    for cpu in range(os.cpu_count() or 1)
)
"""/proc/cpuinfo of a Raspberry Pi 4. With that of this machine, runtimes for Arm crash."""
MODELS = {
    "litert": "digits_int8.tflite",
    "tflite": "digits_int8.tflite",
    "onnx": "digits_int8.onnx",
}
QUICK = ("--quick", "--runs=1", "--duration", "1s", "--min-queries", "64", "--timeout", "10m")
AGENT_PORT, SSH_PORT = 7790, 2290
CPU = "cortex-a72"
"""CPU that is emulated; under the newest one (`max`), int8 kernels of LiteRT give wrong outputs."""


def main(folder: Path) -> int:
    if os.geteuid() != 0:
        sys.exit("error: it makes mounts and an account: run it as root")
    for tool in ("mmdebstrap", QEMU.name, "unshare", "sshd", "useradd"):
        if shutil.which(tool, path=f"{os.environ['PATH']}:/usr/sbin:/sbin") is None:
            sys.exit(f"error: not installed: {tool}")
    if INSIDE not in os.environ:
        folder.mkdir(parents=True, exist_ok=True)
        build(folder / "root")
        words = ["unshare", "--mount", "--propagation", "private", sys.executable, __file__]
        os.execvpe(words[0], [*words, str(folder)], os.environ | {INSIDE: "1"})
    board = folder / "root"
    # An account's files are read before the change of root; its home exists twice.
    with (
        tempfile.TemporaryDirectory(prefix="eb-arm64-") as name,
        mounted(board),
        handled(),
        fresh_account(Path(name) / "account") as account,
        home_on(board, account),
    ):
        check(board, account, Path(name))
    print("all as it should be")
    return 0


def build(root: Path) -> None:
    """Make the root of the board, if it does not exist yet."""
    if (root / "usr/bin/python3").exists():
        return
    step("building the root")
    partial = root.with_name("root.new")
    if partial.exists():
        shutil.rmtree(partial)  # nothing is ever mounted in there
    include = f"--include={','.join(PACKAGES)}"
    hook = "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr"
    run("mmdebstrap", "--variant=extract", "--architectures=arm64", hook, include,
        "bookworm", str(partial))  # fmt: skip
    shell = partial / "bin/sh"
    if not shell.exists() and not shell.is_symlink():
        shell.symlink_to("dash")
    for name in ("proc", "sys", "dev", "tmp", "home", "root"):
        (partial / name).mkdir(exist_ok=True)
    (partial / "tmp").chmod(0o1777)
    shutil.copy(QEMU, partial / "usr/bin")  # where the kernel looks for it after the change of root
    partial.chmod(0o755)
    partial.rename(root)


@contextmanager
def mounted(root: Path) -> Iterator[None]:
    """/proc with another CPU, a /sys with nothing but CPUs, and a few devices."""
    cpus = root / "sys/devices/system/cpu"
    run("mount", "-t", "proc", "proc", str(root / "proc"))
    run("mount", "-t", "tmpfs", "tmpfs", str(root / "sys"))
    run("mount", "-t", "tmpfs", "tmpfs", str(root / "dev"))
    cpus.mkdir(parents=True)
    last = (os.cpu_count() or 1) - 1
    for name in ("possible", "present", "online"):
        (cpus / name).write_text(f"0-{last}\n" if last else "0\n")
    (root / "sys/cpuinfo").write_text(BOARD_CPUINFO)
    run("mount", "--bind", str(root / "sys/cpuinfo"), str(root / "proc/cpuinfo"))
    for name in ("null", "zero", "urandom", "random"):
        (root / "dev" / name).touch()
        run("mount", "--bind", f"/dev/{name}", str(root / "dev" / name))
    (root / "dev/shm").mkdir(mode=0o1777)
    yield  # the mounts end with the namespace


@contextmanager
def handled() -> Iterator[None]:
    """Programs for Arm run under qemu."""
    if not (BINFMT / "register").exists():
        run("mount", "-t", "binfmt_misc", "binfmt_misc", str(BINFMT))
    entry = BINFMT / HANDLER
    if entry.exists():
        entry.write_text("-1")
    # P: argv[0] is kept, by which Python finds its virtual environment.
    (BINFMT / "register").write_text(f":{HANDLER}:M::{MAGIC[0]}:{MAGIC[1]}:{QEMU}:P")
    try:
        yield
    finally:
        entry.write_text("-1")


@contextmanager
def home_on(root: Path, account: Account) -> Iterator[None]:
    """The account's home directory on the board, which is empty at the end, too."""
    home = root / str(account.home).lstrip("/")
    home.mkdir()
    shutil.chown(home, account.name, account.name)
    (root / "etc").mkdir(exist_ok=True)
    for name in ("passwd", "group"):
        lines = Path("/etc", name).read_text().splitlines(keepends=True)
        (root / "etc" / name).write_text("".join(
            line for line in lines if line.startswith((f"{account.name}:", "root:"))
        ))  # fmt: skip
    try:
        yield
    finally:
        for pid in account.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not account.processes(), "the account's processes end", 30)
        shutil.rmtree(home)


def check(root: Path, account: Account, scratch: Path) -> None:
    """All steps, one after another."""
    os.environ["QEMU_CPU"] = CPU
    look = run("chroot", str(root), "/usr/bin/python3", "-I", "-", json.dumps({"verb": "look"}),
               given=Path(on_device.__file__).read_bytes())  # fmt: skip
    interpreter = from_plain(
        json.loads(look.splitlines()[-1].removeprefix(ANSWER_MARK)), DeviceFacts
    ).interpreter
    step(f"the board has {interpreter}")
    wheels = fetch(interpreter, list(MODELS), scratch).files[-1].parent
    host = Host(scratch / "host")
    home = root / str(account.home).lstrip("/")
    before = sorted(map(str, home.rglob("*")))
    with serving(scratch / "ssh", root, account, CPU) as server:
        trust(host, server.known_hosts_line)
        deploy(host, account, server, "--wheels", str(wheels))
        for runtime, model in MODELS.items():
            document = bench(host, model, "--runtime", runtime, codes=(3,))
            rules = {rule["id"]: rule for rule in document["verdict"]["rules"]}
            assert document["emulated"] is True
            assert document["device"]["arch"] == "aarch64"
            assert rules["real_time"]["outcome"] == "fail", rules["real_time"]
            assert rules["agreement"]["outcome"] == "pass", rules["agreement"]
            layers = document["environment"]["virtualization"]
            step(f"{model} on {runtime}: {layers}; {rules['real_time']['detail']}; "
                 f"{rules['agreement']['detail']}")  # fmt: skip
    with serving(scratch / "ssh-max", root, account, "max") as server:
        trust(host, server.known_hosts_line)
        deploy(host, account, server, "--wheels", str(wheels))  # starts it anew, with that CPU
        document = bench(host, MODELS["litert"], "--runtime", "litert", codes=(3,))
        rules = {rule["id"]: rule for rule in document["verdict"]["rules"]}
        step(f"QEMU_CPU=max: agreement {rules['agreement']['outcome']}: "
             f"{rules['agreement']['detail']}")  # fmt: skip
        assert rules["agreement"]["outcome"] == "fail"
        deploy(host, account, server, "--uninstall")
    assert sorted(map(str, home.rglob("*"))) == before, "uninstalling leaves something"
    assert not list((root / "tmp").iterdir()), "uninstalling leaves temporary files"
    wait_until(lambda: not account.processes(), "everything of the account ends", 30)
    step("uninstalled: no file, no process")


@contextmanager
def serving(folder: Path, root: Path, account: Account, cpu: str) -> Iterator[SshServer]:
    """A native SSH server whose sessions are on the board; emulated, its sandbox would not work."""
    lines = (f"ChrootDirectory {root}", f"SetEnv QEMU_CPU={cpu}")
    with ssh_server(folder, account, address="127.0.0.1", port=SSH_PORT, lines=lines) as server:
        yield server


def deploy(host: Host, account: Account, server: SshServer, *words: str) -> None:
    """Run `edgebench deploy`."""
    target = f"{account.name}@{server.address}:{server.port}"
    options = () if "--uninstall" in words else ("--name", "board", "--port", str(AGENT_PORT))
    key = ("--identity-file", str(account.key))
    command(host, (0,), "deploy", target, *key, *options, *words)


def bench(host: Host, model: str, *words: str, codes: tuple[int, ...]) -> dict[str, Any]:
    """Measure a model on the board; its run."""
    output = command(host, codes, "bench", model, "--on", "board", *QUICK, *words, "--json")
    (document,) = json.loads(output)["runs"]
    return dict(document)


def command(host: Host, codes: tuple[int, ...], *words: str) -> str:
    """Output of a command of the host; the script ends if its exit code is none of these."""
    begin_s = time.monotonic()
    result = host.run(*words, timeout_s=1800)
    step(f"edgebench {' '.join(words[:2])} …: {time.monotonic() - begin_s:.0f} s")
    if result.returncode not in codes:
        sys.exit(f"error: exit code {result.returncode}\n{result.stdout}\n{result.stderr}")
    return result.stdout


def run(*words: str, given: bytes | None = None) -> str:
    """Output of a command; the script ends if it fails."""
    result = subprocess.run(words, input=given, stdout=subprocess.PIPE, check=False)
    if result.returncode:
        sys.exit(f"error: status {result.returncode}: {' '.join(words)}")
    return result.stdout.decode()


def step(text: str) -> None:
    """Print what was done."""
    print(f"[{time.strftime('%H:%M:%S')}] {text}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default="/var/lib/edgebench-arm64")
    sys.exit(main(parser.parse_args().folder.resolve()))
