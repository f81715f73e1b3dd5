#!/usr/bin/env python3
"""Compares MLPerf Tiny's programs with our conversations; by hand, as it needs a checkout.

    git clone https://github.com/mlcommons/tiny
    python tests/system/upstream.py tiny

Builds benchmark/api and the menu of the interface board for this machine, with support/upstream in
place of their hardware, and holds each conversation of tests/fixtures/conversations with them.
Compares every string that these programs and the streaming wake-word firmware print with the
dialects. Prints what differs, and ends with 1 if a program prints something else than a
conversation has, or does not print a line of one. Strings without a meaning to a dialect are listed
for a person: help, debugging, and what is new.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from support.conversations import CONVERSATIONS, Conversation, meanings

PARTS = Path(__file__).resolve().parents[1] / "support" / "upstream"
MENU = "benchmark/interface/Application/CLI"
_REPLACED = (
    *("tx_api.h", "usart.h", "tim.h", "baud_config.h", "main.h", "stm32h5xx_hal.h"),
    *("IDataSource.hpp", "ResourceManager.hpp", "ResourceManager.h"),
    *("IO/Uart.hpp", "IO/FileSystem.hpp", "Audio/WaveSink.hpp", "Audio/WaveSource.hpp"),
    "Test/DeviceUnderTest.hpp",
)
"""Headers that interface_parts.hpp stands for."""
_COMMENTS = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)
_LITERAL = r'"(?:[^"\\\n]|\\.)*"'
_PRINTED = re.compile(
    rf"(?:\b(?:th_|ee_)?printf\s*\(|\bSendString\s*\(|\bappend\s*\(|\bstd::string\s*\(|"
    rf"#define\s+EE_(?:MSG|ERR)_\w+|\[\]\s*=)\s*((?:{_LITERAL}\s*)+)"
)
_FORMAT = re.compile(r"%[-+ 0#]*\d*(?:\.\d+)?(?:l|h|z)*([diuxXcspfeg%])")
_LETTERS = re.compile(r"[A-Za-z]{3}")
"""Part of every string that is more than a piece of a list."""
_SAMPLES = {
    "c": ",",
    "s": "word",
    "x": "0a",
    "X": "0A",
    "f": "1.5",
    "e": "1.5",
    "g": "1.5",
    "p": "0x1",
}


@dataclass(frozen=True, slots=True)
class Program:
    """A program of upstream."""

    name: str
    sources: str
    """Pattern of its files."""
    dialects: tuple[str, ...]
    """Names of the dialects in which conversations with it are held."""


PROGRAMS = (
    Program("api", "benchmark/api/*", ("mlperf_tiny",)),
    Program("interface board", f"{MENU}/*.cpp", ("interface_board", "passthrough")),
    Program(
        "streaming wake word",
        "benchmark/reference_submissions/streaming_wakeword/**/sww_ref_util*.[ch]",
        ("streaming",),
    ),
)


def printed_strings(text: str) -> Iterator[str]:
    """Strings that a source file prints; a line each, with its conversions."""
    for match in _PRINTED.finditer(_COMMENTS.sub(" ", text)):
        whole = "".join(part[1:-1] for part in re.findall(_LITERAL, match[1]))
        decoded = whole.encode("latin-1", "replace").decode("unicode_escape")
        yield from (line for line in re.split(r"[\r\n]+", decoded) if line.strip())


def compile_api(checkout: Path, folder: Path, *, is_energy: bool) -> Path:
    """Build the API with our submission."""
    path = folder / f"api-{is_energy}"
    define = ["-DTH_MODEL_VERSION=EE_MODEL_VERSION_KWS01", f"-DEE_CFG_ENERGY_MODE={int(is_energy)}"]
    source = checkout / "benchmark/api/internally_implemented.cpp"
    _compile(path, define, [checkout / "benchmark"], [source, PARTS / "api_double.cpp"])
    return path


def compile_menu(checkout: Path, folder: Path) -> Path:
    """Build the menu of the interface board; its includes find our parts beside it."""
    shutil.copytree(checkout / MENU, folder / "CLI")
    for name in _REPLACED:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text('#include "interface_parts.hpp"\n')
    sources = [folder / "CLI/InterfaceMenu.cpp", folder / "CLI/Menu.cpp"]
    _compile(folder / "menu", [], [folder, PARTS], [*sources, PARTS / "interface_double.cpp"])
    return folder / "menu"


def _compile(path: Path, options: list[str], includes: list[Path], sources: list[Path]) -> None:
    command = ["g++", "-std=c++17", "-fpermissive", "-w", *options, "-o", str(path)]
    command += [f"-I{include}" for include in includes]
    if subprocess.run([*command, *map(str, sources)], check=False).returncode:
        sys.exit(f"does not build: {sources[0]}; adapt tests/support/upstream to its new parts")


def differences(binary: Path, conversation: Conversation) -> Iterator[str]:
    """Replies of a program that differ from those of a conversation."""
    dialect = conversation.dialect()
    for number, exchange in enumerate(conversation.exchanges):
        if exchange.command is None:
            continue
        before = conversation.exchanges[:number]
        sent = [dialect.encode(one.command) for one in before if one.command is not None]
        # All commands up to this one, and without it: the rest is its reply.
        known = _output(binary, b"".join(sent))
        found = _output(binary, b"".join(sent) + dialect.encode(exchange.command))
        reply = found.removeprefix(known)
        if reply != exchange.reply:
            yield f"`{exchange.command}` prints {reply!r}, expected {exchange.reply!r}"
    first = conversation.exchanges[0]
    if first.command is None and _output(binary, b"") != first.reply:
        yield f"the start prints {_output(binary, b'')!r}, expected {first.reply!r}"


def _output(binary: Path, sent: bytes) -> bytes:
    return subprocess.run([binary], input=sent, capture_output=True, timeout=30, check=False).stdout


def unprinted(strings: set[str], conversations: list[Conversation]) -> Iterator[str]:
    """Lines of conversations that no string of a program can have printed."""
    texts = [string for string in strings if _LETTERS.search(_FORMAT.sub("", string))]
    patterns = [re.compile("".join(_escaped(string)) + r"\s*") for string in texts]
    for conversation in conversations:
        for exchange in conversation.exchanges:
            for line in re.split(r"[\r\n]+", exchange.reply.decode()):
                is_list = re.fullmatch(r"[\s\d,\[\]-]*", line)
                if not is_list and not any(one.fullmatch(line.strip()) for one in patterns):
                    yield f"{conversation.name}: not printed by upstream: {line}"


def _escaped(string: str) -> Iterator[str]:
    end = 0
    for match in _FORMAT.finditer(string.strip()):
        yield re.escape(string.strip()[end : match.start()])
        yield "%" if match[1] == "%" else ".*"
        end = match.end()
    yield re.escape(string.strip()[end:])


def meaningless(strings: set[str], conversation: Conversation) -> Iterator[str]:
    """Strings that the dialect of a conversation reads as text without a meaning."""
    for string in sorted(strings):
        line = _FORMAT.sub(lambda m: "%" if m[1] == "%" else _SAMPLES.get(m[1], "7"), string)
        found = meanings(conversation.dialect(), None, line.encode("ascii", "replace") + b"\r\n")
        if "-" in found and _LETTERS.search(_FORMAT.sub("", string)):
            yield string


def main() -> int:
    """Compare, and print what differs."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("checkout", type=Path, help="a checkout of mlcommons/tiny")
    checkout: Path = parser.parse_args().checkout.resolve()
    head = subprocess.run(
        ["git", "-C", str(checkout), "log", "-1", "--format=%h %cs"],
        capture_output=True, text=True, check=False,
    ).stdout.strip()  # fmt: skip
    print(f"upstream: {head or 'no commit'}")
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        binaries = {
            "api-performance": compile_api(checkout, folder, is_energy=False),
            "api-energy": compile_api(checkout, folder, is_energy=True),
            "interface-2025-07": compile_menu(checkout, folder),
        }
        binaries["api-errors"] = binaries["api-performance"]
        binaries["passthrough"] = binaries["interface-2025-07"]
        for conversation in CONVERSATIONS:
            if binary := binaries.get(conversation.name):
                found = list(differences(binary, conversation))
                problems += [f"{conversation.name}: {text}" for text in found]
                count = len(conversation.exchanges)
                print(f"{conversation.name}: {count} replies, {len(found)} differ")
    for program in PROGRAMS:
        files = [path for path in sorted(checkout.glob(program.sources)) if path.is_file()]
        texts = [path.read_text("utf-8", "replace") for path in files]
        strings = {string for text in texts for string in printed_strings(text)}
        held = [one for one in CONVERSATIONS if one.dialect_name in program.dialects]
        print(f"{program.name}: {len(strings)} strings in {len(files)} files")
        if not strings:
            problems.append(f"{program.name}: no source in {checkout / program.sources}")
        elif program.name == "streaming wake word":  # the only one that is not built
            problems += unprinted(strings, held)
        for string in meaningless(strings, held[0]):
            print(f"  without a meaning: {string.strip()}")
    for problem in problems:
        print(f"DIFFERENT: {problem}")
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
