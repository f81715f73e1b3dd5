"""Words in capitals of a hint or an advice, and what belongs in their places."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

from edgebench.host.options.bench import OPTIONS

Words = Sequence[Sequence[str]]
"""Arguments of a command: a model alone, or an option with its values."""
_ADDED = {"--allow"}
"""Options that are given once more, and leave the others of their name as they are."""
_TEMPLATES = {"bench": "MODEL", "compare": "RUNS", "collect": "--on DEVICE"}
"""Commands that hints repeat, each with what stands there for the words that were given."""
_WITHOUT_WORDS = {"collect"}
"""Those of them that need none."""


def fill(sentence: str, names: Mapping[str, str]) -> str:
    """Replace placeholders by names; one without a name stays, and so does what is quoted.

    Args:
        sentence: The hint or advice.
        names: Placeholders, each with what a shell takes in its place. What was put in is not
            searched again.

    >>> fill("see which: edgebench meters info METER", {"METER": "ppk2"})
    'see which: edgebench meters info ppk2'
    >>> fill("write it: edgebench export RUN… -o FILE", {"RUN": "r1", "RUN…": "r1 r2"})
    'write it: edgebench export r1 r2 -o FILE'
    """
    if not names:
        return sentence
    words = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    pattern = rf"'[^']*'|(?<![\w./-])(?:{words})(?![\w./…-])"
    return re.sub(pattern, lambda match: names.get(match[0], match[0]), sentence)


def rerun(sentence: str, words: Words, command: str = "bench") -> str:
    """Put a command that was given in place of its template in a hint or an advice.

    The templates are `bench MODEL`, `compare RUNS` and `collect --on DEVICE`.

    Its options that the sentence mentions are left out, because they are set anew or done without;
    but not those of another command, as in `…; or end it: edgebench stop --on board`.

    >>> given = [["a b.onnx"], ["--wait", "1m"], ["--quick"]]
    >>> rerun("wait for longer: edgebench bench MODEL --wait 10m; or not", given)
    "wait for longer: edgebench bench 'a b.onnx' --quick --wait 10m; or not"
    >>> rerun("allow it: edgebench compare RUNS --allow os", [["r1"]], "compare")
    'allow it: edgebench compare r1 --allow os'
    >>> rerun("then: edgebench collect --on DEVICE", [["--store", "t"]], "collect")
    'then: edgebench collect --store t'
    """
    if command not in _TEMPLATES or not (words or command in _WITHOUT_WORDS):
        return sentence
    template = rf"\b{command} {_TEMPLATES[command]}(?![\w.-])"
    own = [
        clause
        for clause in sentence.split("; ")
        if re.search(template, clause) or "edgebench " not in clause
    ]
    others = re.sub(template, "", "; ".join(own))
    mentioned = set(re.findall(r"--[a-z][a-z-]*", others)) - _ADDED
    mentioned |= {
        flag for option in OPTIONS if option.flag in mentioned for flag in option.excludes
    }
    kept = [word for group in words if group[0] not in mentioned for word in group]
    line = f"{command} {shlex.join(kept)}".rstrip()
    return re.sub(template, lambda _: line, sentence)
