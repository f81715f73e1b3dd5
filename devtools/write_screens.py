"""Write the screens of tests/cli/screens: the output of commands on terminals of two sizes.

python devtools/write_screens.py
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from support.screens import SCREENS, SIZES, dialogues


def main() -> None:
    """Write a file for each dialogue and each size of the terminal."""
    for columns, lines in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            for name, text in dialogues(Path(folder), columns, lines).items():
                path = SCREENS / f"{columns}x{lines}" / f"{name}.txt"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)


if __name__ == "__main__":
    main()
