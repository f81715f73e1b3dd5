"""The two distributions of edgebench, and the commands that add to an installed one.

Source: docs/decisions/0027-two-distributions.md.
"""

from __future__ import annotations

HOST_DISTRIBUTION = "edgebench"
_NAMESPACE = "edgebench"
AGENT_DISTRIBUTION = "edgebench-agent"


def install_command(extra: str, distribution: str = AGENT_DISTRIBUTION) -> str:
    """The command that installs the packages of an extra.

    Whoever reads it has the distribution installed, from wherever. pip keeps that one, asks no
    index for it, and fetches what the extra adds.

    >>> install_command("onnx")
    "pip install 'edgebench-agent[onnx]'"
    """
    return f"pip install '{distribution}[{extra}]'"


def why_missing(error: ModuleNotFoundError) -> str | None:
    """What a failed import says about the installation; None if the module is one of ours.

    >>> why_missing(ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow.parquet"))
    'edgebench needs the Python module pyarrow, which is not installed'
    """
    module = (error.name or "").partition(".")[0]
    if module in ("", _NAMESPACE):
        return None  # a fault of edgebench, whose traceback is wanted
    return f"edgebench needs the Python module {module}, which is not installed"
