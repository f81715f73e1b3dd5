"""What a hostile model achieves on real agents: root and user, by what their kernel offers.

    python tests/system/confinement.py [--python PYTHON]

Needs root, x86-64 and Landlock of version 7. Each cell is one `edgebench bench` on this machine,
whose Python refuses itself what the kernel of the cell lacks: namespaces by a filter of system
calls, Landlock by a filter or by an older version. The model is `tests/support/hostile_runtime.py`:
it tries 38 acts. A cell passes if none succeeds, or if the command has warned before that files are
open. A user needs a Python that it may run: with one in the home of root, name another.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from itertools import product
from pathlib import Path

TESTS = Path(__file__).parents[1]
sys.path.insert(0, str(TESTS))

from support.hostile_runtime import Victim, install  # noqa: E402

USER = 65534
LANDLOCK = (0, 1, 4, 7)
WARNING = "lets models access files"
STRANGER = {"terminal", "shared"}
"""Acts that any user of the machine may do: open a terminal of its own, write to /dev/shm."""
_LIMIT = """
import sys
sys.path.insert(0, {tests!r})
from support.confined import deny_calls
deny_calls(*{denied!r})
from edgebench.agent.confine.kernel import Kernel
newest = Kernel.landlock_abi
Kernel.landlock_abi = lambda self: min(newest(self), {landlock})
"""


def main() -> int:
    """Try every cell, and print the table; 0: all passed."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--python", default=sys.executable, help="interpreter that users may run")
    options = parser.parse_args()
    rows, has_passed = [], True
    for user, landlock, namespaces in product((0, USER), LANDLOCK, (True, False)):
        done, is_told, tried = try_cell(options.python, user, landlock, namespaces=namespaces)
        allowed = STRANGER if user == 0 and not (landlock or namespaces) else set()
        passed = tried == "38" and (done <= allowed or is_told)
        must_be_told = user != 0 and not (landlock or namespaces)
        passed = passed and (is_told or not must_be_told)
        has_passed = has_passed and passed
        rows.append(
            f"| {'user' if user else 'root'} | {landlock or 'none'} | "
            f"{'yes' if namespaces else 'no'} | {', '.join(sorted(done)) or 'nothing'} | "
            f"{'yes' if is_told else 'no'} | {'passed' if passed else 'FAILED'} |"
        )
        print(rows[-1], file=sys.stderr, flush=True)
    print("| agent | Landlock | namespaces | done | told first | |\n|---|---|---|---|---|---|")
    print("\n".join(rows))
    return 0 if has_passed else 1


def try_cell(
    python: str, user: int, landlock: int, *, namespaces: bool
) -> tuple[set[str], bool, str]:
    """Acts that were done, whether the command first warned of open files, and their count."""
    folder = Path(tempfile.mkdtemp(prefix="edgebench-confinement-"))
    try:
        folder.chmod(0o755)
        home = folder / "home"
        (home / ".ssh").mkdir(parents=True)
        (home / ".ssh" / "id_ed25519").write_text("secret")
        (home / "identity.pem").write_text("secret")
        for secret in home.rglob("*"):
            secret.chmod(0o700 if secret.is_dir() else 0o600)
        model = home / "model.tflite"
        model.write_text("acts")
        drivers = install(folder / "drivers")
        denied = ([] if landlock else ["landlock_create_ruleset"]) + (
            [] if namespaces else ["unshare"]
        )
        text = _LIMIT.format(tests=str(TESTS), denied=denied, landlock=landlock)
        (folder / "drivers" / "sitecustomize.py").write_text(text)
        victim = Victim(
            str(home / "identity.pem"),
            str(home / ".ssh" / "id_ed25519"),
            str(home / "outside"),
            1,
            str(model),
        )
        for path in (home, *home.rglob("*")):
            os.chown(path, user, user)
        # The other interpreter has a library of its own.
        packages = [path for path in sys.path if not path.startswith(sys.base_prefix)]
        paths = [drivers["PYTHONPATH"], *filter(None, packages)]
        environment = os.environ | drivers | victim.environment()
        environment |= {"PYTHONPATH": ":".join(paths), "HOME": str(home), "COLUMNS": "400"}
        environment |= {
            f"XDG_{name}_HOME": str(home / name.lower()) for name in ("DATA", "CONFIG", "STATE")
        }
        environment.pop("XDG_RUNTIME_DIR", None)
        command = [python, "-m", "edgebench.host.cli", "bench", str(model), "--quick", "--runs=1"]
        result = subprocess.run(
            [*command, "--runtime", "hostile"],
            env=environment,
            cwd="/",
            capture_output=True,
            text=True,
            check=False,
            user=user,
            group=user,
            extra_groups=[],
        )
        ending = re.search(r"tried (\d+), done: (.*)", result.stderr)
        if ending is None:
            return {f"no answer: {result.stderr[-200:]!r}"}, False, "0"
        done = {name for name in ending[2].split(", ") if name != "nothing"}
        is_told = WARNING in result.stderr[: ending.start()].split("run: ")[0]
        return done, is_told, ending[1]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
