"""Every login of support/logins.py, each as OpenSSH's client decides: by hand, as root.

    python tests/system/ssh_logins.py [NAME...]

Real servers of OpenSSH on loopback, with keys, certificates, an agent, a security key in software
and files of their own. For each login it prints whether `ssh` and `edgebench deploy` get in, or
the refusal. Where the two differ, or the refusal is not the expected one, the script ends with 1.
A short form is tests/system/test_ssh_logins.py.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.logins import LOGINS, check, login_bench


def main() -> int:
    """Try the logins; 1 if anything differs."""
    failed = 0
    with tempfile.TemporaryDirectory(prefix="logins") as folder, login_bench(Path(folder)) as bench:
        for name in sys.argv[1:] or LOGINS:
            scratch = Path(folder) / "files" / name
            scratch.mkdir(parents=True)
            try:
                result = check(name, bench, scratch) or "in"
            except AssertionError as exc:
                failed += 1
                result = f"WRONG: {exc}"
            print(f"{name:34} {result}", flush=True)
    print(f"{failed} wrong")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
