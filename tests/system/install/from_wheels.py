"""Install edgebench from its wheels, outside the checkout, and use it: run by hand.

    python tests/system/install/from_wheels.py [PYTHON]

Builds both wheels and both sdists, then makes three environments, with dependencies from pip's own
index, pinned by constraints.txt: the agent alone, the host with one runtime, and the host from the
sdists. About 150 MB are downloaded unless pip's cache has them; it takes three to five minutes.
Prints what each step found, and the sizes; ends with 1 at the first that is wrong.

tests/test_layout.py has the short form: the contents of the wheels and sdists.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
AGENT_LIMIT_BYTES = 60_000_000
"""Largest agent without a runtime, pip not counted."""
MAX_REPORT_BYTES = 3_000_000
EXPORTS = (
    "csv",
    "parquet",
    "pftrace",
    "chrome.json",
    "bmf.json",
    "smaller.json",
    "xml",
    "md",
    "prom",
)
"""Suffixes of the names of exported files; see docs/export.md."""
SHELLS = {
    "bash": 'eval "$(edgebench completion bash)"; COMP_WORDS=(edgebench bundl); COMP_CWORD=1; '
    "_edgebench 2>/dev/null; echo ${COMPREPLY[@]}",
    "fish": "edgebench completion fish | source; complete -C 'edgebench bundl'",
    "zsh": 'autoload -U compinit; compinit -u -D; eval "$(edgebench completion zsh)"; '
    "whence -w _edgebench; edgebench completion --complete bundl",
}
"""For each shell a script that prints the command that `bundl` begins."""
QUICK = ("--quick", "--runs=1", "--duration", "0.5s", "--min-queries", "64")


class Environment:
    """A virtual environment with directories of its own; its commands run outside the checkout."""

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder
        run([python, "-m", "venv", str(folder)], folder.parent)
        self._empty_bytes = size_bytes(folder / "lib")
        self.variables = {
            **{k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "EDGEBENCH"))},
            **{name: str(folder / name) for name in ("XDG_DATA_HOME", "XDG_CONFIG_HOME", "HOME")},
        }

    def pip(self, *words: str) -> str:
        """Output of pip; it reads the configuration of the current user."""
        command = [str(self.folder / "bin/python"), "-m", "pip", "--disable-pip-version-check"]
        return run([*command, *words], self.folder)

    def install(self, *what: str) -> None:
        """Install, with the versions that CI has."""
        started_s = time.monotonic()
        self.pip("install", "--quiet", "-c", str(ROOT / "constraints.txt"), *what)
        grown_bytes = size_bytes(self.folder / "lib") - self._empty_bytes
        names = ", ".join(Path(word).name for word in what)
        print(f"{names}: {grown_bytes / 1e6:.0f} MB, {time.monotonic() - started_s:.0f} s")

    def command(self, name: str, *words: str, codes: tuple[int, ...] = (0,)) -> str:
        """Output of a command of ours; the script ends if its exit code is none of these."""
        print(f"  {name} {' '.join(words)}")
        return run(
            [str(self.folder / "bin" / name), *words], self.folder, env=self.variables, codes=codes
        )

    def installed_bytes(self) -> int:
        """Size of what was installed."""
        return size_bytes(self.folder / "lib") - self._empty_bytes


def main(python: str = sys.executable) -> int:
    with tempfile.TemporaryDirectory(prefix="edgebench-install-") as name:
        folder = Path(name)
        agent, host = build(folder)
        check_agent(Environment(folder / "agent", python), agent)
        check_host(Environment(folder / "host", python), agent, host)
        check_sdists(Environment(folder / "sdists", python), folder)
    print("all as it should be")
    return 0


def build(folder: Path) -> tuple[Path, Path]:
    """Wheels of the agent and of the host; their sdists are in the same folder."""
    for source in (ROOT / "agent", ROOT):
        run([sys.executable, "-m", "hatchling", "build", "-d", str(folder)], source)
    [agent] = folder.glob("edgebench_agent-*.whl")
    [host] = folder.glob("edgebench-*.whl")
    for file in sorted(folder.iterdir()):
        print(f"{file.name}: {file.stat().st_size / 1e6:.1f} MB")
    return agent, host


def check_agent(environment: Environment, agent: Path) -> None:
    """The agent alone: small, and of use for everything but a run."""
    environment.install(str(agent))
    require(environment.installed_bytes() < AGENT_LIMIT_BYTES, "the agent is too large")
    require("numpy" not in environment.pip("list"), "the agent brings numpy")
    require(not (environment.folder / "bin/edgebench").exists(), "the agent brings the host")
    refused = environment.command("edgebench-agent", "status", codes=(1,))
    require(refused.splitlines()[0].startswith("error: no agent responds"), refused)
    serve = subprocess.Popen(
        [str(environment.folder / "bin/edgebench-agent"), "serve", "--local"],
        cwd=environment.folder,
        env=environment.variables,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert serve.stdout is not None
        require(serve.stdout.readline().startswith("ready"), "the agent does not start")
        status = json.loads(environment.command("edgebench-agent", "status", "--json"))
        require("device" in status, f"no status: {status}")
    finally:
        serve.terminate()
        serve.wait(30)
    print("  agent alone: ready, status")


def check_host(environment: Environment, agent: Path, host: Path) -> None:
    """The host: every command works; uninstalling one distribution leaves the other whole."""
    environment.install(str(agent), str(host))
    json.loads(environment.command("edgebench", "devices", "--json"))
    refused = environment.command("edgebench", "bench", "digits_int8.onnx", codes=(1,))
    require([line.split(":")[0] for line in refused.splitlines()] == ["error", "hint"], refused)
    print("  " + refused.replace("\n", "\n  "))
    # The command that a message shows: an index is not queried for anything of ours.
    environment.install("edgebench-agent[onnx]")
    environment.command("edgebench", "devices")
    environment.command("edgebench", "bench", "digits_int8.onnx", *QUICK, codes=(0, 3))
    print("  " + environment.command("edgebench", "show", "last").splitlines()[0])
    environment.command("edgebench", "verify", "last")
    check_results(environment)
    check_shells(environment)
    environment.command("edgebench", "devices")  # the agent may have ended, with nothing to do
    environment.pip("uninstall", "--yes", "--quiet", "edgebench")
    environment.command("edgebench-agent", "status")
    require(not (environment.folder / "bin/edgebench").exists(), "the host is still there")
    environment.command("edgebench-agent", "status", "--json")
    environment.install(str(host))
    environment.command("edgebench", "runs")
    environment.pip("uninstall", "--yes", "--quiet", "edgebench-agent")
    refused = environment.command("edgebench", "runs", codes=(1,))
    require("edgebench-agent is not installed" in refused, refused)
    environment.install(str(agent))
    environment.command("edgebench", "runs")


def check_results(environment: Environment) -> None:
    """A result becomes a report, a bundle that is opened elsewhere, and files of other tools."""
    folder = environment.folder
    environment.command("edgebench", "report", "last", "-o", "report.html", "--anonymous")
    report = (folder / "report.html").read_text("utf-8")
    require(report.lower().startswith("<!doctype html>"), f"no page: {report[:80]!r}")
    require(len(report.encode()) <= MAX_REPORT_BYTES, f"a report of {len(report)} characters")
    require(str(folder) not in report, "an anonymous report names a directory of its user")
    environment.command("edgebench", "bundle", "last", "-o", "run.zip")
    require(zipfile.is_zipfile(folder / "run.zip"), "the bundle is no .zip")
    empty = ("--store", str(folder / "colleague"))
    shown = environment.command("edgebench", "show", "run.zip", *empty)
    require("digits_int8.onnx" in shown, f"not the run: {shown[:200]!r}")
    environment.command("edgebench", "verify", "run.zip", *empty)
    environment.command("edgebench", "report", "run.zip", "-o", "colleague.html", *empty)
    for end in EXPORTS:
        environment.command("edgebench", "export", "last", "-o", f"run.{end}")
        require((folder / f"run.{end}").stat().st_size > 0, f"nothing in run.{end}")
    print(f"  report of {len(report) / 1e6:.2f} MB, bundle opened in another store, exports")


def check_shells(environment: Environment) -> None:
    """The shells of this machine complete the command."""
    path = f"{environment.folder / 'bin'}:{os.environ['PATH']}"
    for shell, script in SHELLS.items():
        if shutil.which(shell) is None:
            print(f"  {shell}: not on this machine")
            continue
        variables = environment.variables | {"PATH": path}
        said = run([shell, "-c", script], environment.folder, env=variables)
        require("bundle" in said.split(), f"{shell} completes bundl to {said!r}")
        print(f"  {shell}: completes")


def check_sdists(environment: Environment, folder: Path) -> None:
    """A build from the published sources works as well."""
    environment.install(*map(str, sorted(folder.glob("*.tar.gz"))))
    environment.command("edgebench", "devices", "--json")
    environment.command("edgebench-agent", "status")


def run(
    command: list[str],
    cwd: Path,
    *,
    env: dict[str, str] | None = None,
    codes: tuple[int, ...] = (0,),
) -> str:
    """Output of a program, its errors last; the script ends if it fails."""
    result = subprocess.run(
        command, cwd=cwd, env=env, capture_output=True, text=True, check=False, timeout=1800
    )
    printed = result.stdout + result.stderr
    require(result.returncode in codes, f"{command} ends with {result.returncode}:\n{printed}")
    require("Traceback" not in printed, f"{command}:\n{printed}")
    return result.stdout if result.stdout and 0 in codes else printed


def require(holds: bool, otherwise: str) -> None:
    """End the script with this text unless it holds."""
    if not holds:
        sys.exit(f"error: {otherwise}")


def size_bytes(folder: Path) -> int:
    """Size of all files below a folder, as a disk with small blocks has them."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:2]))
