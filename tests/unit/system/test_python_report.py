"""Reports of throw-away Pythons, which may print or end as they like."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from edgebench.protocol.errors import RemoteProtocolError
from edgebench.protocol.record import QuotaUse
from edgebench.system.python_report import read_report
from edgebench.system.python_start import PythonCommand, python_command

USE = '{"period_count": 1, "throttled_count": 2, "throttled_s": 0.5}'


def command_of(folder: Path, source: str) -> PythonCommand:
    """Command of a module with this source."""
    (folder / "sample_report.py").write_text(source)
    return python_command("sample_report", environment={"PYTHONPATH": str(folder)})


def test_report_is_the_last_line(tmp_path: Path) -> None:
    """Otherwise a library that prints as it is imported would count as broken."""
    python = command_of(tmp_path, f"print('WARNING: no GPU'); print('{USE}')")
    assert read_report(python, QuotaUse, timeout_s=60.0) == QuotaUse(1, 2, 0.5)


@pytest.mark.parametrize(
    "source",
    ["", "print('no report')", "print('{}')", "print('[' * 100_000)"],
    ids=["nothing", "text", "another type", "nested"],
)
def test_anything_else_is_one_error(tmp_path: Path, source: str) -> None:
    """Otherwise a library that prints at its end would keep a device from being described."""
    with pytest.raises(RemoteProtocolError, match=r"^not a (?:valid )?QuotaUse: "):
        read_report(command_of(tmp_path, source), QuotaUse, timeout_s=60.0)


def test_status_and_time_are_errors_of_their_own(tmp_path: Path) -> None:
    """Otherwise a crash would read as malformed output, and a hanging library would hang us."""
    crashing = command_of(tmp_path, f"print('{USE}'); raise SystemExit(3)")
    with pytest.raises(subprocess.CalledProcessError, match="status 3"):
        read_report(crashing, QuotaUse, timeout_s=60.0)
    hanging = command_of(tmp_path, "import time; time.sleep(60)")
    with pytest.raises(subprocess.TimeoutExpired):
        read_report(hanging, QuotaUse, timeout_s=0.5)
