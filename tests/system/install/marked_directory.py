"""Every command in a directory with a trap for every module, on each Python: run by hand, as root.

    python tests/system/install/marked_directory.py PYTHON...

Each PYTHON is the interpreter of a virtual environment with edgebench. A trap leaves a mark where
it is run; prints the marks of each Python, and ends with 1 if there is one. Two minutes each.
tests/cli/test_marked_directory.py does the same for the Python of the tests, without `deploy`.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tests")]

from support.marked import MarkedDirectory, set_traps  # noqa: E402
from support.site import SYSTEM_PYTHON, fresh_site  # noqa: E402

MODEL = ROOT / "host/edgebench/host/builtin_models/digits_int8.tflite"
FETCH = """\
import json, sys
from pathlib import Path
from edgebench.host.devices.on_device import DeviceFacts
from edgebench.host.devices.packages import fetch
from edgebench.protocol.plain import from_plain
facts = from_plain(json.loads(sys.argv[2]), DeviceFacts)
print(fetch(facts.interpreter, ["onnx"], Path(sys.argv[1])).files[-1].parent)
"""


def main(pythons: list[str]) -> int:
    """The number of Pythons with marks."""
    marked = 0
    for python in pythons:
        with tempfile.TemporaryDirectory(prefix="marked-") as folder:
            directory = MarkedDirectory(Path(folder), Path(python).absolute())
            directory.set_traps()
            directory.add_model(MODEL)
            try:
                directory.use_commands()
                marks = deployed(directory)
            finally:
                directory.end_agent()
            marks += directory.marks()
            modules = imported(directory)
            version = run(python, "-I", "-c", "import sys; print(sys.version.split()[0])").strip()
            others = sorted(
                name for name in modules if not (directory.marked / f"{name}.py").exists()
            )
            print(f"Python {version}: {len(marks)} marks; {len(modules)} modules are imported")
            print(f"without a trap, as they come from no path: {', '.join(others)}")
            print("\n".join(marks[:20]))
            marked += bool(marks)
    return marked


def deployed(directory: MarkedDirectory) -> list[str]:
    """Deploy from there, to an account whose home is full of traps; the marks in it."""
    on_device = ROOT / "host/edgebench/host/devices/on_device.py"
    look = run(SYSTEM_PYTHON, "-I", str(on_device), '{"verb": "look"}').splitlines()[-1]
    facts = look.partition(" ")[2]
    wheels = directory.folder / "wheels"
    wheels.mkdir()
    words = [str(directory.python), "-I", "-c", FETCH, str(wheels), facts]
    fetched = run(*words, cwd=directory.marked, env=directory.environment).splitlines()[-1]
    with fresh_site(directory.folder / "site") as site:
        marks = site.account.home / "marks"
        traps = set_traps(site.account.home, marks, Path(SYSTEM_PYTHON))
        deploy = [*site.here.prefix, directory.python.with_name("edgebench"), "deploy", site.target]
        key = ("--identity-file", site.account.key, "--name", "board2")
        run(
            *(*deploy, *key, "--wheels", fetched, "--runtime", "onnx"),
            cwd=directory.marked,
            env=directory.environment | site.host.environment,
        )
        for path in traps:
            path.unlink()
        return marks.read_text().splitlines()


def imported(directory: MarkedDirectory) -> set[str]:
    """Top-level modules that the processes of a `bench` import, by `-X importtime`."""
    variables = directory.environment | {"PYTHONPROFILEIMPORTTIME": "1"}
    command = [
        str(directory.python.with_name("edgebench")),
        "bench",
        str(MODEL),
        "--quick",
        "--runs",
        "1",
    ]
    result = subprocess.run(
        command, cwd="/", env=variables, capture_output=True, text=True, check=False
    )
    logs = Path(directory.folder / "home").rglob("*.log")
    text = result.stderr + "".join(path.read_text(errors="replace") for path in logs)
    names = set(re.findall(r"^import time:.*\|\s*([A-Za-z_]\w*)", text, re.MULTILINE))
    words = [directory.python, "-I", "-c", "import sys; print(*sys.builtin_module_names)"]
    return names - set(run(*words).split())


def run(*words: object, **options: object) -> str:
    """Output of a command, which has to succeed."""
    command = list(map(str, words))
    result = subprocess.run(command, capture_output=True, text=True, check=False, **options)  # type: ignore[call-overload]
    if result.returncode not in (0, 3):
        sys.exit(f"{command}: {result.stdout}{result.stderr}")
    return str(result.stdout)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
