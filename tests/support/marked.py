"""A directory in which every module that a process of ours may import is a trap.

Each file leaves a mark where it is run, and then hands over to the module of its name, so that the
process goes on as if nothing had happened.
"""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_TRAP = """\
import sys
with open({marks!r}, "a") as marks:
    marks.write(__name__ + " in " + " ".join(getattr(sys, "orig_argv", sys.argv)) + "\\n")
places = list(sys.path)
sys.path[:] = [place for place in places if place not in ("", {folder!r})]
del sys.modules[__name__]
__import__(__name__)
sys.path[:] = places
"""
_NAMES = """\
import os, sys, sysconfig
names = set(sys.stdlib_module_names) - set(sys.builtin_module_names)
for place in [place for place in sys.path if place.endswith("-packages")]:
    names |= {name.partition(".")[0] for name in os.listdir(place)}
print("\\n".join(sorted(name for name in names if name.isidentifier())))
"""
QUICK = (
    *("--quick", "--runs", "1", "--duration", "0.2s", "--min-queries", "50"),
    *("--warmup", "2", "--warmup-duration", "0.05s", "--cooldown", "0s"),
)
_CAMPAIGN = """\
schema = 1
name = "marked"
repeats = 1

[axes]
model = ["digits_int8.tflite"]
device = ["local"]

[settings]
duration_s = 0.2
min_query_count = 50
"""


@dataclass(frozen=True)
class MarkedDirectory:
    """Working directory of a user whose Python has edgebench."""

    folder: Path
    """Directory with the traps and a model, and beside it those of the user."""
    python: Path
    """Interpreter of the environment, whose commands lie beside it."""

    @property
    def marked(self) -> Path:
        """The directory with the traps."""
        return self.folder / "downloaded"

    def marks(self) -> list[str]:
        """Marks until now: name of the module, and the process that ran it."""
        path = self.folder / "marks"
        return path.read_text().splitlines() if path.exists() else []

    @property
    def environment(self) -> dict[str, str]:
        """Variables of the user, as those of the tests' own Python are not theirs."""
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith(("PYTHON", "EDGEBENCH_", "XDG_"))
        }
        home = str(self.folder / "home")
        return kept | {"HOME": home, "COLUMNS": "160", "PATH": f"{self._bin}:{os.environ['PATH']}"}

    @property
    def _bin(self) -> Path:
        return self.python.parent

    def set_traps(self) -> None:
        """Fill the directory."""
        self.marked.mkdir(parents=True, exist_ok=True)
        (self.folder / "home").mkdir(exist_ok=True)
        set_traps(self.marked, self.folder / "marks", self.python)

    def add_model(self, model: Path) -> None:
        """Lay a model and a campaign beside the traps."""
        shutil.copy(model, self.marked / "digits_int8.tflite")
        (self.marked / "night.toml").write_text(_CAMPAIGN)

    def run(self, name: str, *words: str, codes: Sequence[int] = (0,)) -> str:
        """Output of a command that is typed there."""
        result = subprocess.run(
            [self._bin / name, *words],
            cwd=self.marked,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=400,
            check=False,
        )
        assert result.returncode in codes, f"{name} {words}: {result.stdout}{result.stderr}"
        return result.stdout

    def use_commands(self) -> None:
        """Measure, look, and run a campaign, as on the first day."""
        self.run("edgebench", "bench", "digits_int8.tflite", *QUICK, codes=(0, 3))
        self.run("edgebench", "campaign", "run", "night.toml", codes=(0, 3))
        (run_id, *_) = re.findall(r"\d{8}-\d{6}-\w+", self.run("edgebench", "runs", "--json"))
        self.run("edgebench", "show", run_id, codes=(0, 3))
        self.run("edgebench", "report", run_id, "-o", "report.html")
        self.run("edgebench", "verify", run_id)
        self._use_pages()
        self._use_pairing()

    def _use_pages(self) -> None:
        with self._started("edgebench", "serve", "--port", "0") as process:
            address = _line_with(process, "http://")
            url = re.search(r"http://[\d.]+:\d+", address)
            assert url is not None, address
            urllib.request.urlopen(url[0], timeout=60).read()

    def _use_pairing(self) -> None:
        places = ("--state", str(self.folder / "state"), "--config", str(self.folder / "config"))
        serve = ("serve", "--listen", "127.0.0.1:0", "--no-advertise", "--name", "board")
        with self._started("edgebench-agent", *places, *serve) as process:
            _line_with(process, "ready ")
            working = Path(f"/proc/{process.pid}/cwd").readlink()
            assert working == Path("/"), "an agent keeps no directory of its user"
            string = self.run("edgebench-agent", *places, "pair").strip()
            string = re.sub(r"//[^/]*:(\d+)/", r"//127.0.0.1:\1/", string)
            self.run("edgebench", "pair", string)
            words = ("bench", "digits_int8.tflite", "--on", "board", *QUICK)
            self.run("edgebench", *words, codes=(0, 3))

    @contextmanager
    def _started(self, name: str, *words: str) -> Iterator[subprocess.Popen[str]]:
        process = subprocess.Popen(
            [self._bin / name, *words],
            cwd=self.marked,
            env=self.environment | {"PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=60)

    def end_agent(self) -> None:
        """End the agent that a command has started there."""
        lock = self.folder / "home/.local/share/edgebench/agent/agent.lock"
        with suppress(OSError, ValueError, ProcessLookupError):
            os.kill(int(lock.read_text()), signal.SIGTERM)


def set_traps(folder: Path, marks: Path, python: Path) -> list[Path]:
    """Lay a trap for every module of this Python, which marks it in a file; the traps."""
    marks.touch()
    marks.chmod(0o666)
    words = [str(python), "-I", "-c", _NAMES]
    names = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    trap = _TRAP.format(marks=str(marks), folder=str(folder))
    traps = [folder / f"{name}.py" for name in {*names, "edgebench", "sitecustomize"}]
    for path in traps:
        path.write_text(trap)
    return traps


def _line_with(process: subprocess.Popen[str], text: str) -> str:
    assert process.stdout is not None
    seen = ""
    while select.select([process.stdout], [], [], 90.0)[0] and (line := process.stdout.readline()):
        seen += line
        if text in line:
            return line
    raise AssertionError(f"no {text!r} in: {seen}")
