"""The confinement of workers is known before there is a model."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.confined import denying_environment, need_everything

from edgebench.agent.confine import probe
from edgebench.agent.confine.probe import why_files_open
from edgebench.system import python_start


def test_machine_that_confines_has_no_open_files(tmp_path: Path) -> None:
    """Otherwise every run would begin with a warning that is not true."""
    need_everything()
    assert why_files_open(tmp_path) is None
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    ("denied", "expected"),
    [
        (("landlock_create_ruleset",), "None"),
        (("unshare",), "None"),
        (
            ("landlock_create_ruleset", "unshare"),
            "Operation not permitted: the worker can open every file that its user can, including "
            "keys",
        ),
    ],
    ids=["no Landlock", "no namespaces", "neither"],
)
def test_machine_that_cannot_confine_says_why(
    tmp_path: Path, denied: tuple[str, ...], expected: str
) -> None:
    """Otherwise keys would be read before any warning is given."""
    need_everything()
    environment = os.environ | denying_environment(tmp_path / "closed", *denied)
    tests = Path(__file__).parents[3]
    environment["PYTHONPATH"] += f":{tests}"
    script = f"from {probe.__name__} import why_files_open; from pathlib import Path; "
    script += f"print(why_files_open(Path({str(tmp_path)!r})))"
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == expected, done.stderr


def test_probe_that_fails_is_no_promise(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a Python that does not start would pass for a confined process."""
    monkeypatch.setattr(python_start, "INTERPRETER", "/bin/false")
    reason = why_files_open(tmp_path)
    assert reason == "the confinement of files could not be tested"
