"""Names of edgebench's two distribution packages, and the commands that install their extras.

Source: docs/decisions/0027-two-distributions.md.
"""

from __future__ import annotations

HOST_DISTRIBUTION = "edgebench"
_NAMESPACE = "edgebench"
AGENT_DISTRIBUTION = "edgebench-agent"


def install_command(extra: str, distribution: str = AGENT_DISTRIBUTION) -> str:
    """The command that installs the packages of an extra.

    The command assumes that the distribution is already installed; the source does not matter. pip
    keeps the installed version, and does not query an index for the distribution. pip fetches only
    the packages of the extra.

    >>> install_command("onnx")
    "pip install 'edgebench-agent[onnx]'"
    """
    return f"pip install '{distribution}[{extra}]'"


def why_missing(error: ModuleNotFoundError) -> str | None:
    """Message about a package that an import did not find; None if the module is edgebench's own.

    >>> why_missing(ModuleNotFoundError("No module named 'pyarrow'", name="pyarrow.parquet"))
    'edgebench needs the Python module pyarrow, which is not installed'
    """
    module = (error.name or "").partition(".")[0]
    if module in ("", _NAMESPACE):
        return None  # a fault of edgebench, which needs a traceback
    return f"edgebench needs the Python module {module}, which is not installed"
