"""Compare the outputs of two checkouts of edgebench for the same stored runs.

    python devtools/compare_outputs.py BEFORE STORE [STORE …] [--after TREE] [--words]

BEFORE and TREE are checkouts of edgebench; the default of TREE is this checkout. Each checkout gets
copies of the stores, and prints the following as JSON: the list of runs; every run and set, shown
and rejudged; the comparison of each run or set with the next; histories and campaigns. Differences
are counted by command and key; keys in brackets are ids of rules and checks. The exit code is 1 if
a verdict, a number or another value differs or is lost, or if a list has a new element. New keys
are listed, but do not change the exit code. Changed sentences do not change the exit code either,
and are listed only with `--words`.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).parents[1]
PARTS = (
    *("host", "agent", "firmware_bridge", "simulation", "device_profiles", "meters", "protocol"),
    "system",
)
"""Folders with parts of the package; an old checkout may not have all of them."""
NAMES = ("id", "run_id", "set_id", "metric", "name", "key")
"""Keys that identify an element of a list, so that it is found in a list with another order."""
VERDICT_KEYS = ("exit", "outcome", "severity", "state", "verdict", "refused")
"""Keys whose values belong to a verdict."""
UNNAMED = re.compile(r"(?<!rules)(?<!checks)\[[^\[\]]*\]")
"""Pattern of the brackets in a key that contain the name of a list element other than a rule or
check. Elements that match are counted together."""
CACHES = shutil.ignore_patterns("index.sqlite*", "live", "incoming")
Name = tuple[str, ...]
"""Store and command line."""
Output = tuple[int, Any]
"""Exit code and document; a text that is not JSON counts as a document."""
Difference = tuple[str, str, str]
"""Kind and key of a difference, and the two values."""


def commands_of(store: Path) -> Iterator[tuple[str, ...]]:
    """Command lines that together show everything in a store."""
    runs = sorted(path.parent.name for path in store.glob("runs/*/run.json"))
    names, pairs = dict.fromkeys(runs), dict[str, None]()
    earlier: dict[str, str] = {}  # the last run or set of each kind
    comparisons: dict[tuple[str, str], None] = {}
    for run_id in runs:
        document = json.loads((store / "runs" / run_id / "run.json").read_bytes())
        if document.get("pair"):
            pairs[document["pair"]["comparison_id"]] = None
            continue
        subject = (document.get("set") or {}).get("set_id") or run_id
        names[subject] = None
        kind = json.dumps([document.get(key) for key in ("kind", "model", "device")])
        if (baseline := earlier.get(kind, subject)) != subject:
            comparisons[baseline, subject] = None
        earlier[kind] = subject
    yield from (("runs",), ("history",))
    for name in names:
        yield "show", name
        yield "verify", name, "--rejudge"
    for pair in pairs:
        yield "compare", pair
    for baseline, candidate in comparisons:
        yield "compare", baseline, "--against", candidate
    for directory in sorted(store.glob("campaigns/*/")):
        yield "campaign", "status", directory.name


def record(tree: Path, stores: Sequence[Path]) -> None:
    """Print the outputs of a tree as lines of JSON: store, command line, exit code, document."""
    mine = {str(root / part) for root in (HERE, tree) for part in PARTS}
    others = [place for place in sys.path if place not in mine]
    sys.path[:] = [*(str(tree / part) for part in PARTS if (tree / part).is_dir()), *others]
    main = importlib.import_module("edgebench.host.cli.main").main
    for number, store in enumerate(stores):
        for words in commands_of(store):
            with contextlib.redirect_stdout(io.StringIO()) as out:
                code = main([*words, "--store", str(store), "--json"])
            text = out.getvalue().replace(str(store), "STORE")
            try:
                document = json.loads(text)
            except ValueError:
                document = text
            print(json.dumps([number, *words, [int(code), document]]), flush=True)


def outputs(tree: Path, stores: Sequence[Path]) -> dict[Name, Output]:
    """Map each store and command line to the output of a tree for a copy of the store."""
    with TemporaryDirectory() as folder:
        copies = [Path(folder) / str(number) for number in range(len(stores))]
        for store, copy in zip(stores, copies, strict=True):
            shutil.copytree(store, copy, ignore=CACHES)
        home = dict.fromkeys(("XDG_DATA_HOME", "XDG_CONFIG_HOME"), folder)
        done = subprocess.run(
            [sys.executable, __file__, "--record", str(tree.resolve()), *map(str, copies)],
            env=os.environ | home,
            capture_output=True,
            text=True,
            check=False,
        )
    if done.returncode:
        sys.exit(f"{tree}: {done.stderr[-2000:]}")
    return named_outputs(done.stdout.splitlines(), stores)


def named_outputs(lines: Iterable[str], stores: Sequence[Path]) -> dict[Name, Output]:
    """Maps each store and command line to the exit code and the document of its output."""
    outputs_by_name: dict[Name, Output] = {}
    for line in lines:
        number, *words, (code, document) = json.loads(line)
        outputs_by_name[(str(stores[number]), *words)] = code, document
    return outputs_by_name


def differences(before: Any, after: Any, key: str = "") -> Iterator[Difference]:
    """Differences between two documents; an element of only one document is one difference."""
    if isinstance(before, list) and isinstance(after, list):
        before, after = _named(before), _named(after)
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in dict.fromkeys([*before, *after]):
            inner = f"{key}{name}" if name.startswith("[") else f"{key}.{name}".lstrip(".")
            if name not in after:
                yield "lost", inner, f"{_short(before[name])} → none"
            elif name not in before:
                kind = "value" if name.startswith("[") else "new"
                yield kind, inner, f"none → {_short(after[name])}"
            else:
                yield from differences(before[name], after[name], inner)
    elif json.dumps(before) != json.dumps(after):  # in Python, 1 == True, and NaN != NaN
        yield _kind(key, before, after), key, f"{_short(before)} → {_short(after)}"


def _named(elements: Sequence[Any]) -> dict[str, Any]:
    """Map names of list elements, or their indices if names are not unique, to the elements."""
    names = [
        next((f"[{element[name]}]" for name in NAMES if element.get(name)), "")
        if isinstance(element, Mapping)
        else ""
        for element in elements
    ]
    if "" in names or len(set(names)) < len(names):
        names = [f"[{place}]" for place in range(len(elements))]
    return dict(zip(names, elements, strict=True))


def _kind(key: str, before: object, after: object) -> str:
    is_text = isinstance(before, str) and isinstance(after, str)
    if is_text and " " in f"{before}{after}":
        return "words"
    if key.rpartition(".")[2] in VERDICT_KEYS:
        return "verdict"
    is_number = isinstance(before, (int, float)) and isinstance(after, (int, float))
    return "number" if is_number else "value"


def _short(value: object) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 90 else f"{text[:89]}…"


def main() -> int:
    """Print the differences."""
    parser = argparse.ArgumentParser(description=str(__doc__).partition("\n")[0])
    parser.add_argument("before", type=Path, metavar="BEFORE")
    parser.add_argument("stores", type=Path, nargs="+", metavar="STORE")
    parser.add_argument("--after", type=Path, default=HERE, metavar="TREE")
    parser.add_argument("--words", action="store_true", help="list other sentences, too")
    parser.add_argument("--record", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.record:
        record(options.before, options.stores)
        return 0
    for store in options.stores:
        if next(store.glob("runs/*/run.json"), None) is None:
            parser.error(f"no runs in {store}")
    trees = options.before, options.after
    with ThreadPoolExecutor() as pool:
        before, after = pool.map(lambda tree: outputs(tree, options.stores), trees)
    return report(before, after, are_words_listed=options.words)


def report(
    before: Mapping[Name, Output], after: Mapping[Name, Output], *, are_words_listed: bool
) -> int:
    """Print the differences by kind, command and key; returns the exit code."""
    counts: Counter[tuple[str, str, str]] = Counter()
    examples: dict[tuple[str, str, str], str] = {}
    for name in dict.fromkeys([*before, *after]):
        old, new = (
            dict(zip(("exit", "document"), of.get(name, (None, None)), strict=True))
            for of in (before, after)
        )
        for kind, key, values in differences(old, new):
            group = kind, name[1], UNNAMED.sub("[]", key)
            counts[group] += 1
            examples.setdefault(group, f"{values}  ({' '.join(name)})")
    kinds = Counter[str]()
    for (kind, _, _), count in counts.items():
        kinds[kind] += count
    print(f"{len(before)} and {len(after)} outputs; differences: {dict(kinds)}")
    for group, count in sorted(counts.items()):
        if group[0] != "words" or are_words_listed:
            print(f"{count:6} {' '.join(group)}: {examples[group]}")
    return int(bool(kinds.keys() - {"words", "new"}))


if __name__ == "__main__":
    sys.exit(main())
