"""Completion: every word offered to a shell exists, and none is executed by it."""

from __future__ import annotations

import json
import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.agents import Host
from support.commands import Run
from support.tools import need_tool

from edgebench.host.cli.main import COMMANDS

STORED = Path(__file__).parents[1] / "fixtures" / "runs" / "v7"
RUN_ID = "20261123-031046-26335d6d"
DEVICES = ("pi5", "jetson", "$(reboot)")
SHELL_TIMEOUT_S = 30.0


@pytest.fixture
def known(host: Host, edgebench: Run) -> Host:
    """A host with a tagged run and three devices, one of them with a hostile name."""
    runs = host.folder / "data" / "edgebench" / "runs"
    shutil.copytree(STORED / RUN_ID, runs / RUN_ID)
    assert edgebench("tag", "last", "night").code == 0
    assert edgebench("runs").code == 0  # brings the index up to date
    host.config.mkdir(parents=True)
    (host.config / "devices.json").write_text(json.dumps([{"name": name} for name in DEVICES]))
    return host


@pytest.mark.parametrize(
    ("words", "kind", "some"),
    [
        (("",), "words", set(COMMANDS)),
        (("be",), "words", {"bench"}),
        (("bench", "--ru"), "words", {"--runtime", "--runs"}),
        (("bench", "--"), "words", {"--runtime", "--quick"}),
        (("show", "last", "--"), "words", {"--all", "--json"}),
        (("bench", "dig"), "files", {"digits_int8.tflite", "digits_fp32.onnx"}),
        (("bench", "--runtime", "li"), "words", {"litert"}),
        (("bench", "--runtime", "=", "li"), "words", {"litert"}),
        (("bench", "--scenario", "s"), "words", {"single_stream", "server"}),
        (("bench", "--on", ""), "words", {"local", "all", "pi5", "jetson"}),
        (("bench", "m.tflite", "--on", "pi5,je"), "words", {"pi5,jetson"}),
        (("bench", "--quick", "--on", "pi5", "--pr"), "words", {"--preset", "--priority"}),
        (("bench", "--inputs", ""), "files", set()),
        (("bench", "--threads", ""), "words", set()),
        (("show", ""), "files", {"last", "night", RUN_ID}),
        (("show", "last", "2026"), "files", {RUN_ID}),
        (("compare", "last", "--against", "last", "ni"), "files", {"night"}),
        (("compare", "--metric", "latency_ns.p9"), "words", {"latency_ns.p90", "latency_ns.p99"}),
        (("meters", "rec"), "words", {"record"}),
        (("meters", "record", "--dur"), "words", {"--duration"}),
        (("runs", "--tag", ""), "words", {"night"}),
        (("runs", "--device", ""), "words", set()),
        (("completion", ""), "words", {"bash", "zsh", "fish"}),
        (("no-command", ""), "words", set()),
        (("campaign", "no-action", ""), "words", set()),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_words_that_fit_are_offered(
    edgebench: Run, known: Host, words: tuple[str, ...], kind: str, some: set[str]
) -> None:
    """Otherwise Tab would offer nothing, or words that the command refuses."""
    del known
    completed = edgebench("completion", "--complete", *words)
    assert (completed.code, completed.err) == (0, "")
    first, *offered = completed.out.splitlines()
    assert first == kind
    assert some <= set(offered)
    assert len(offered) == len(set(offered))
    begin = words[-1].rpartition(",")[2]
    assert all(word.rpartition(",")[2].startswith(begin) for word in offered)
    assert not any("$" in word for word in offered), "a shell would run that"


def test_completion_loads_nothing_that_takes_time(known: Host) -> None:
    """Otherwise pressing Tab would take half a second."""
    code = (
        "import sys\n"
        "from edgebench.host.cli.main import main\n"
        "main(sys.argv[1:])\n"
        "heavy = {'numpy', 'pandas', 'pyarrow', 'rich', 'scipy', 'cryptography', 'cattrs'}\n"
        "sys.exit(' '.join(heavy & set(sys.modules)) or 0)\n"
    )
    for words in (("bench", "--on", ""), ("show", "")):
        command = [sys.executable, "-c", code, "completion", "--complete", *words]
        result = subprocess.run(
            command, env=os.environ | known.environment, capture_output=True, text=True
        )
        assert result.returncode == 0, f"loaded: {result.stderr}"


def shell_environment(known: Host) -> dict[str, str]:
    """Variables of a shell that has the command on its path."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return os.environ | known.environment | {"PATH": path, "TERM": "dumb"}


def test_bash_asks_for_the_words(known: Host, tmp_path: Path) -> None:
    """Otherwise the script would be invalid in bash, or pass on only half of the line."""
    need_tool("bash")
    (tmp_path / "model one.tflite").write_bytes(b"")
    script = """
eval "$(edgebench completion bash)"
complete -p edgebench
for words in "show 2026" "bench --on pi5,j" "bench model"; do
    COMP_WORDS=(edgebench $words); COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _edgebench 2>/dev/null; printf '%s\\n' "${COMPREPLY[@]}"
done
"""
    result = subprocess.run(
        ["bash", "-c", script],
        env=shell_environment(known),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    assert result.stdout.splitlines() == [
        "complete -F _edgebench edgebench",
        RUN_ID,
        "pi5,jetson",
        "model one.tflite",
    ]


def test_fish_asks_for_the_words(known: Host, tmp_path: Path) -> None:
    """Otherwise the script would be invalid in fish, or pass on only half of the line."""
    need_tool("fish")
    (tmp_path / "model one.tflite").write_bytes(b"")
    script = "edgebench completion fish | source\n"
    for line in ("edgebench ben", "edgebench show 2026", "edgebench bench --on pi5,j"):
        script += f"complete -C '{line}'\n"
    script += "complete -C 'edgebench bench mod'\n"
    result = subprocess.run(
        ["fish", "--no-config", "-c", script],
        env=shell_environment(known),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=True,
    )
    assert result.stdout.splitlines() == ["bench", RUN_ID, "pi5,jetson", "model one.tflite"]


def test_zsh_completes_what_is_typed(known: Host, tmp_path: Path) -> None:
    """Otherwise the script would be invalid in zsh, or Tab would have no effect in a terminal."""
    need_tool("zsh")
    ours, theirs = pty.openpty()
    with subprocess.Popen(
        ["zsh", "-f", "-i"],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=shell_environment(known),
        cwd=tmp_path,
        start_new_session=True,
    ) as shell:
        os.close(theirs)
        try:
            # Typed text is echoed: quotes distinguish it from printed text.
            typed(ours, "autoload -U compinit; compinit -u -D; echo lo''aded\n", "loaded\r")
            typed(ours, "eval \"$(edgebench completion zsh)\"; echo re''ady\n", "ready\r")
            typed(ours, "edgebench bundl\t", "bundle ")
            typed(ours, "2026\t", RUN_ID)
        finally:
            shell.kill()
            os.close(ours)


def typed(terminal: int, text: str, awaited: str) -> None:
    """Type into a shell, and wait for what it then shows; control characters are removed."""
    os.write(terminal, text.encode())
    shown, end_s = "", time.monotonic() + SHELL_TIMEOUT_S
    while awaited not in shown:
        left_s = max(0.0, end_s - time.monotonic())
        assert select.select([terminal], [], [], left_s)[0], f"it shows {shown!r}"
        part = os.read(terminal, 4096).decode(errors="replace")
        shown += part.replace("\a", "").replace("\b", "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_script_is_printed(edgebench: Run, shell: str) -> None:
    """Otherwise the script of another shell, or an error, would be printed."""
    completed = edgebench("completion", shell)
    assert (completed.code, completed.err) == (0, "")
    assert f"for {shell}: " in completed.out.replace("\n#", " ")


def test_shell_without_a_script_is_refused(edgebench: Run) -> None:
    """`completion tcsh` is refused instead of printing nothing."""
    for words, message in ((("tcsh",), "invalid choice"), ((), "no shell given")):
        result = edgebench("completion", *words)
        assert result.code == 2
        assert message in result.err
