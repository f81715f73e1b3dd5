"""No code runs from the working directory: one place in the product makes Python commands."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

from edgebench.system.python_start import LAUNCHER

ROOT = Path(__file__).resolve().parents[1]
SOURCES = sorted(path for path in ROOT.glob("*/edgebench/**/*.py") if "build" not in path.parts)
ON_DEVICE = "host/edgebench/host/devices/on_device.py"
"""Script that stands alone on a device, and runs each of its Pythons with `-I`."""
INTERPRETERS = {"system/edgebench/system/python_start.py", ON_DEVICE}
"""Files that may name the interpreter."""
FOREIGN_WORDS = {
    # Options of OpenOCD.
    "firmware_bridge/edgebench/firmware_bridge/flashing.py",
    # Options of other tools.
    "host/edgebench/host/options/peers.py",
    # `uname -m`.
    "host/edgebench/host/devices/kits.py",
    # Words of Android's shell.
    "system/edgebench/system/android_settings.py",
    # Removes the directory itself: it is for Pythons that are too old for `-I`.
    "host/edgebench/host/devices/account.py",
}
STARTERS = {"run", "Popen", "call", "check_call", "check_output", "create_subprocess_exec"}


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def sequences(tree: ast.AST) -> Iterator[list[ast.expr]]:
    """Words of everything that may be a command: lists, tuples, arguments of calls."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.List, ast.Tuple)):
            yield node.elts
        elif isinstance(node, ast.Call):
            yield node.args


def constant(node: ast.expr) -> object:
    return node.value if isinstance(node, ast.Constant) else None


def unsafe_words(tree: ast.AST) -> list[str]:
    """Words that make an interpreter search the working directory, without `-I` before them."""
    return [
        f"line {word.lineno}: {constant(word)}"
        for words in sequences(tree)
        for before, word in pairwise([ast.Constant(None), *words])
        if constant(word) in ("-m", "-c") and constant(before) not in ("-I", "sh")
    ]


def test_only_one_place_names_the_interpreter() -> None:
    """Otherwise a process of ours would start with its user's directory on its search path."""
    found = {
        name_of(path)
        for path in SOURCES
        if "sys.executable" in path.read_text()
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute) and ast.unparse(node) == "sys.executable"
    }
    assert found == INTERPRETERS


def test_no_command_searches_the_working_directory() -> None:
    """Otherwise `-m` or `-c` would put it on the search path of an interpreter."""
    suspects = [path for path in SOURCES if re.search('"-[mc]"', path.read_text())]
    found = {name_of(path): unsafe_words(ast.parse(path.read_text())) for path in suspects}
    assert {name for name, words in found.items() if words} == FOREIGN_WORDS


def test_words_that_search_the_working_directory_are_seen() -> None:
    """Otherwise the check above would pass for any product."""
    source = 'run([python, "-m", "pip"]); run(python, "-c", "pass"); run([python, "-I", "-m", "a"])'
    assert unsafe_words(ast.parse(source)) == ["line 1: -c", "line 1: -m"]


def test_commands_are_started_with_their_directory_and_variables() -> None:
    """Otherwise a safe command would run with the variables and the directory of the user."""
    count = 0
    for path in SOURCES:
        if not re.search("python_command|PythonCommand", path.read_text()):
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            first = ast.unparse(node.args[0]).removeprefix("*")
            if not first.endswith(".words") or not isinstance(node.func, ast.Attribute):
                continue
            if node.func.attr not in STARTERS:
                continue
            command = first.removesuffix(".words")
            options = {one.arg: ast.unparse(one.value) for one in node.keywords}
            assert options.get("cwd") == f"{command}.directory", f"{path}:{node.lineno}"
            assert options.get("env") == f"{command}.environment", f"{path}:{node.lineno}"
            count += 1
    assert count >= 7


def test_launcher_lies_alone() -> None:
    """Otherwise a file next to it would be found before the standard library."""
    names = {path.name for path in Path(LAUNCHER).parent.iterdir()} - {"__pycache__"}
    assert names == {Path(LAUNCHER).name}


def test_scripts_for_others_isolate_the_interpreter() -> None:
    """Otherwise a job in the checkout of a pull request would run code from that checkout."""
    texts = [ROOT / "action.yml", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/**/*")]
    for path in texts:
        text = path.read_text() if path.is_file() else ""
        assert not re.search(r"python[\w.]*\"? (?:-m edgebench|- )", text), path
    action = (ROOT / "action.yml").read_text()
    assert not re.search(r"(?i)python\"? -(?!I )", action)
