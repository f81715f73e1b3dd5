"""Run pytest; run failed tests a second time, without the other tests, and list them.

    python devtools/run_tests.py RETRIED [first attempt's option ...] -- [any attempt's option ...]
    python devtools/run_tests.py --check RETRIED ALLOWED

The names of the tests that ran again are written to RETRIED and printed last, because a test that
passes only the second time shows a defect of the test or of edgebench. With `--check`, the exit
code is 2 if three tests or more ran again, else 1 if a test that ran again is not in the file
ALLOWED.

Tests that failed, or whose xdist worker crashed, get a second attempt. There is no second attempt
if tests could not be collected, if pytest itself failed, or if a signal ended pytest.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

MAX_RETRIED = 2
"""Maximum number of tests of a whole run that may need a second attempt."""
_FAILED, _NOTHING_CHOSEN = 1, 5
"""Exit codes of pytest. Source: pytest.ExitCode."""
_LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
"""Names of failed tests. Source: _pytest/cacheprovider.py."""
_AGAIN = ("--last-failed", "--last-failed-no-failures", "none")


def main(words: Sequence[str]) -> int:
    """Run the tests, or check the list of tests that ran again; returns the exit code."""
    if words[0] == "--check":
        return check(Path(words[1]), Path(words[2]))
    middle = words.index("--")
    return run(Path(words[0]), words[1:middle], words[middle + 1 :])


def run(retried: Path, first: Sequence[str], options: Sequence[str]) -> int:
    """Run the tests, and failed tests again; returns 0 if every test has passed, else 1."""
    pytest = [sys.executable, "-m", "pytest"]
    code = subprocess.run([*pytest, "--cache-clear", *first, *options], check=False).returncode
    if code == _NOTHING_CHOSEN:  # the options select no test
        code = 0
    elif code == _FAILED:
        names = failed_names()
        retried.parent.mkdir(parents=True, exist_ok=True)
        with retried.open("a") as file:
            file.writelines(f"{name}\n" for name in names)
        code = subprocess.run([*pytest, *_AGAIN, *options], check=False).returncode
    if names := names_in(retried):
        print(f"{len(names)} tests ran a second time by themselves:", *names, sep="\n  ")
    return 0 if code == 0 else 1


def check(retried: Path, allowed: Path) -> int:
    """Return 2 if too many tests ran again, 1 if a test that ran again is not allowed, else 0."""
    names, known = names_in(retried), names_in(allowed)
    others = [name for name in names if name.partition("[")[0] not in known]
    if len(names) > MAX_RETRIED:
        print(f"error: {len(names)} tests passed only the second time, at most {MAX_RETRIED}")
    for name in others:
        print(f"error: passed only the second time, and is not in {allowed}: {name}")
    return 2 if len(names) > MAX_RETRIED else 1 if others else 0


def failed_names() -> list[str]:
    """Names of the tests that failed, from the cache of pytest."""
    return sorted(json.loads(_LAST_FAILED.read_bytes())) if _LAST_FAILED.exists() else []


def names_in(path: Path) -> list[str]:
    """Lines of a file, without empty lines and comments; empty if there is no file."""
    lines = path.read_text().splitlines() if path.exists() else []
    return [line.strip() for line in lines if line.strip() and not line.startswith("#")]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
