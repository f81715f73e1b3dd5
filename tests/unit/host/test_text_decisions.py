"""Nothing in the host decides by the text of a sentence: errors and findings carry fields.

A sentence is written for people, and may be reworded at any time. The sources are searched for
inspections of sentences: `in str(error)`, `.detail in`, `startswith` on a reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import edgebench.host

ROOTS = [Path(root) for root in edgebench.host.__path__]
SENTENCES = {
    *("reason", "detail", "refused", "net_refused", "trouble", "damage", "why", "said"),
    *("message", "error", "problem", "invalid_reason"),
}
"""Names of attributes and variables that hold a sentence."""
ERRORS = {"error", "exc", "exception", "cause", "caught"}
QUESTIONS = {
    *("startswith", "endswith", "find", "rfind", "index", "rindex", "count", "partition"),
    *("rpartition", "removeprefix", "removesuffix", "isdigit"),
}
"""Methods of a text that inspect it."""
PATTERNS = {"search", "match", "fullmatch", "findall", "finditer"}
ALLOWED = {
    # Older versions of run.json stated it in words only.
    "result/migrations.py: 'too short' in (phase.get('refused') or '')",
    "result/migrations.py: text in refused",
    # The last line of another program's log, worded by the system.
    "devices/deploy.py: 'address already in use' in report.error.lower()",
    # The log of OpenSSH's client, which has no codes; all its messages are read in one table.
    "transports/ssh_program.py: re.fullmatch(rule.pattern, message)",
    "transports/ssh_program.py: _ABOUT_KEYS.match(message)",
    # The response of Dask's scheduler, which has no code for it.
    "campaign/cluster/lab.py: NAME_TAKEN in why",
}
"""Texts that are not sentences of ours; this list may only become shorter."""


def is_sentence(node: ast.AST) -> bool:
    """Whether an expression is, or contains, text for people."""
    for part in ast.walk(node):
        match part:
            case ast.Attribute(attr=name) if name in SENTENCES:
                return True
            case ast.Name(id=name) if name in SENTENCES - ERRORS:
                return True
            case ast.Call(func=ast.Name(id="str" | "repr"), args=[ast.Name(id=name)]) if (
                name in ERRORS
            ):
                return True
            case ast.Attribute(value=ast.Name(id=name), attr="args") if name in ERRORS:
                return True
            case ast.Call(func=ast.Attribute(attr="get"), args=[ast.Constant(value=key), *_]) if (
                key in SENTENCES
            ):
                return True
            case ast.Subscript(slice=ast.Constant(value=key)) if key in SENTENCES:
                return True
            case _:
                pass
    return False


def decisions_in(tree: ast.AST) -> Iterator[str]:
    """Inspections of a sentence, as the source has them."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare(ops=ops, comparators=comparators) if any(
                isinstance(op, (ast.In, ast.NotIn)) and is_sentence(other)
                for op, other in zip(ops, comparators, strict=True)
            ):
                yield ast.unparse(node)
            case ast.Compare(left=left, ops=ops, comparators=comparators) if any(
                isinstance(op, (ast.Eq, ast.NotEq)) and is_words(other)
                for op, other in zip(ops, comparators, strict=True)
            ) and is_sentence(left):
                yield ast.unparse(node)
            case ast.Call(func=ast.Attribute(value=text, attr=name)) if (
                name in QUESTIONS and is_sentence(text)
            ):
                yield ast.unparse(node)
            case ast.Call(func=ast.Attribute(attr=name), args=args) if name in PATTERNS and any(
                map(is_sentence, args)
            ):
                yield ast.unparse(node)
            case _:
                pass


COMMAND_LINE = {"completion.py", "options.py"}
"""Files of the command line that read the user's input word by word."""
INSPECTIONS = QUESTIONS - {"index", "count"} | {"isupper", "islower", "isalnum"}


def inspections_in(tree: ast.AST) -> Iterator[str]:
    """Places that inspect any text, whatever its variable is called."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr=name)) if name in INSPECTIONS:
                yield ast.unparse(node)
            case ast.Call(func=ast.Attribute(attr="split" | "rsplit"), args=[_, *_]):
                yield ast.unparse(node)
            case ast.Import(names=[ast.alias(name="re")]):
                yield ast.unparse(node)
            case ast.Compare(left=ast.Constant(value=str()), ops=[ast.In() | ast.NotIn()]):
                yield ast.unparse(node)
            case _:
                pass


@pytest.mark.parametrize("room", ["show", "cli"])
def test_what_shows_results_looks_into_no_text(room: str) -> None:
    """Otherwise a page would depend on the wording of another part of the host."""
    seen = [
        f"{path.name}: {place}"
        for root in ROOTS
        for path in sorted((root / room).glob("*.py"))
        if path.name not in COMMAND_LINE
        for place in inspections_in(ast.parse(path.read_text()))
    ]
    assert seen == []


def is_words(node: ast.expr) -> bool:
    """Whether this is a text of more than one word; a single word is a name."""
    match node:
        case ast.Constant(value=str(text)):
            return " " in text
        case ast.JoinedStr():
            return True
        case _:
            return False


def found() -> set[str]:
    """Every decision by a sentence in the host."""
    return {
        f"{path.relative_to(root).as_posix()}: {decision}"
        for root in ROOTS
        for path in root.rglob("*.py")
        for decision in decisions_in(ast.parse(path.read_text()))
    }


def test_nothing_decides_by_looking_into_a_sentence() -> None:
    """Otherwise a moved comma would change a hint, or the verdict of a run."""
    decisions = found()
    assert decisions - ALLOWED == set()
    assert ALLOWED - decisions == set(), "is no longer there: the list may be shorter"


@pytest.mark.parametrize(
    "source",
    [
        "if 'no permission' in str(error): pass",
        "hint = any(word in str(exc).lower() for word in ('exist', ' already: '))",
        "x = rule.detail in reason",
        "x = 'too short' in phase['refused']",
        "x = 'too short' not in phase.refused",
        "x = loss.trouble.startswith(DAMAGED)",
        "x = 'gone' in exc.args[0]",
        "x = re.search('no space', finding.detail)",
        "x = finding.reason == 'the device is gone'",
        "x = energy.get('refused', '').endswith('gone')",
    ],
)
def test_decision_by_text_is_seen(source: str) -> None:
    """Otherwise the test would be blind."""
    assert list(decisions_in(ast.parse(source)))


@pytest.mark.parametrize(
    "source",
    [
        "x = isinstance(error, NoSuchMeter) and error.permission is not None",
        "x = SENTENCES[finding.id][finding.reason or '']",
        "x = f'refused: {energy.refused}'",
        "x = ' '.join(str(exc).split())[:200]",
        "x = energy.refused is None",
        "x = error.errno in FULL",
        "x = one.reason == 'too_few'",
    ],
)
def test_what_is_no_decision_by_text_is_let_through(source: str) -> None:
    """Otherwise the test would object to code that only prints a reason."""
    assert not list(decisions_in(ast.parse(source)))
