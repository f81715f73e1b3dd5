"""What every command that fails keeps to: one error line, one hint, and never a traceback."""

from __future__ import annotations

import os
from collections.abc import Sequence

from edgebench.system.exit_code import ExitCode

OF_SEVERAL = ("bench", "energy", "verify")
"""Commands that go on behind a model or run that fails, and name each one on a line of its own."""
ERROR_CODES = {code for code in ExitCode if code not in (ExitCode.DONE, ExitCode.NOT_READ)}


def assert_one_error(words: Sequence[str], code: int, errors: str) -> None:
    """Check the stderr of a command that ended with this exit code."""
    said = f"edgebench {' '.join(words)} ended with {code}:\n{errors}"
    if not os.environ.get("EDGEBENCH_DEBUG"):
        assert "Traceback" not in errors, said
    if code not in ERROR_CODES:
        return
    lines = errors.splitlines()
    failed = [line for line in lines if line.startswith("error: ")]
    if words and words[0] in OF_SEVERAL:
        # Which model or run it was comes behind the word; the last line may say that none is left.
        assert len(set(failed)) == len(failed), f"said twice: {said}"
    else:
        assert len(failed) <= 1, said
    # A warning may have a hint of its own.
    warnings = sum(line.startswith("warning: ") for line in lines)
    assert sum(line.startswith("hint: ") for line in lines) <= 1 + warnings, said
    for i, line in enumerate(lines):
        if line.startswith("hint: "):
            assert i, f"a hint about nothing: {said}"
            assert not lines[i - 1].startswith("hint: "), said
