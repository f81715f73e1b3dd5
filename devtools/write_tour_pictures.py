"""Make the pictures of docs/tour.md and README.md from the output of commands.

    python devtools/write_tour_pictures.py

Run the script on an otherwise idle machine; on a busy machine, the pictures show suspect runs. The
script takes a minute, and creates a new host in a temporary folder.
"""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

PICTURES = Path(__file__).resolve().parents[1] / "docs" / "pictures"
WIDTH = 104
MAX_BYTES = 60_000
SHOWN = (
    ("tour-bench", "edgebench bench --quick digits_int8.tflite digits_fp32.tflite"),
    ("tour-show", "edgebench show last"),
)
"""Names of the pictures, and the commands that they show."""


def svg(command: str, printed: str) -> str:
    """Picture of a terminal with a command and its output; it loads no font from a server."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), force_terminal=True)
    console.print(Text(f"$ {command}", style="bold"))
    console.print(Text.from_ansi(printed.rstrip()))
    made = console.export_svg(title="edgebench", theme=MONOKAI, unique_id="tour")
    made = re.sub(r"@font-face \{.*?\}\s*", "", made, flags=re.DOTALL)
    return made.replace("Fira Code", "DejaVu Sans Mono")


def main() -> int:
    PICTURES.mkdir(exist_ok=True)
    with TemporaryDirectory(ignore_cleanup_errors=True) as home:
        environment = os.environ | {
            "HOME": home,
            "XDG_CONFIG_HOME": f"{home}/config",
            "XDG_DATA_HOME": f"{home}/data",
            "COLUMNS": str(WIDTH),
            "FORCE_COLOR": "1",
        }

        def run(command: str) -> str:
            _, *words = shlex.split(command)
            done = subprocess.run(
                [sys.executable, "-m", "edgebench.host.cli", *words],
                env=environment,
                cwd=home,
                stdout=subprocess.PIPE,
                text=True,
                check=False,
            )
            return done.stdout

        for name, command in SHOWN:
            text = run(command).replace(home, "/home/ada")
            path = PICTURES / f"{name}.svg"
            path.write_text(svg(command, text))
            print(f"{path.name}: {path.stat().st_size} bytes")
            if path.stat().st_size > MAX_BYTES:
                print(f"too large: over {MAX_BYTES} bytes", file=sys.stderr)
                return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
