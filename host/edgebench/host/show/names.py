"""Names of models, devices and runtimes in tables: folded, or shortened to one line.

A name is broken or shortened only between its parts; a part ends with `_`, `-` or `/`, or before
the suffix of a file. Above a narrow table, a line shows the beginning and the suffix that
all names of a column share, with an ellipsis between them. Each cell has only the other parts of
its name, after an ellipsis:

    mobilenet_v1_0.25_224_ptq_int8.tflite        mobilenet_v1_0.25_224_….tflite
    mobilenet_v1_0.25_224_qat_uint8.tflite  ──▶  …ptq_int8
                                                 …qat_uint8
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import takewhile

from rich.cells import cell_len, chop_cells
from rich.console import Console, ConsoleOptions
from rich.segment import Segment
from rich.text import Text

from edgebench.protocol.text import printable

ELLIPSIS = "…"
LEAST_NAME_WIDTH = 16
"""Minimum width of a shortened name, in characters."""
_LEAST_COMMON = 4
"""Minimum length of a common beginning that an ellipsis replaces."""


class Name(Text):
    """A name in a cell of a table; it is folded between its parts."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Segment]:
        """The lines at the width of the cell."""
        lines = Text(folded(self.plain, options.max_width), style=self.style, overflow="fold")
        return lines.__rich_console__(console, options)


def name_cell(value: str) -> Name:
    """The name of a model, device or runtime, in a cell of a table."""
    return Name(printable(value))


def folded(name: str, width: int) -> str:
    r"""Fold a name into lines of at most `width` columns, between its parts.

    >>> folded("pretrainedResnet_quant.tflite", 18)
    'pretrainedResnet_\nquant.tflite'
    >>> folded("pretrainedResnet_quant.tflite", 10)
    'pretrained\nResnet_\nquant\n.tflite'
    """
    lines = [""]
    for part in parts_of(name):
        if cell_len(lines[-1] + part) <= width:
            lines[-1] += part
        else:
            lines += chop_cells(part, max(width, 1))
    return "\n".join(filter(None, lines))


def parts_of(name: str) -> list[str]:
    """The parts of a name; joined, they are the name again.

    >>> parts_of("pi5/mobilenet_v1_0.25_224.tflite")
    ['pi5/', 'mobilenet_', 'v1_', '0.25_', '224', '.tflite']
    """
    parts = [""]
    for before, char, after in zip(f" {name}", name, f"{name[1:]} ", strict=False):
        if before in ("_", "-", "/") or (char == "." and after.isalpha()):
            parts.append("")
        parts[-1] += char
    return parts


@dataclass(frozen=True, slots=True)
class ShortNames:
    """Names of a column, shortened to its width."""

    names: tuple[str, ...]
    """A short name for each name, in order; different names have different short names."""
    common: str = ""
    """Beginning and suffix that all names share and the short names omit, with an ellipsis between
    them; empty if nothing is shared."""


def short_names(names: Sequence[str], width: int) -> ShortNames | None:
    """Short names of at most `width` columns; None if different names would become equal.

    Args:
        names: The names.
        width: Columns of the terminal.

    >>> suite = [f"mobilenet_v1_0.25_224_{end}" for end in ("ptq_int8.tflite", "qdq_int8.onnx")]
    >>> short_names(suite, 16)
    ShortNames(names=('…ptq_int8.tflite', '…qdq_int8.onnx'), common='mobilenet_v1_0.25_224_…')
    >>> short_names(["vww_96_float.tflite", "vww_96_int8.tflite"], 16)
    ShortNames(names=('…float', '…int8'), common='vww_96_….tflite')
    """
    if all(cell_len(name) <= width for name in names):
        return ShortNames(tuple(names))
    begin, end = _shared(list(dict.fromkeys(names)))
    rest = {name: name[len(begin) : len(name) - len(end)] for name in names}
    short = {name: short_name(f"{ELLIPSIS if begin else ''}{rest[name]}", width) for name in rest}
    if len(set(short.values())) < len(short):
        return None
    common = f"{begin}{ELLIPSIS}{end}" if begin or end else ""
    return ShortNames(tuple(short[name] for name in names), common)


def _shared(names: Sequence[str]) -> tuple[str, str]:
    """Beginning and suffix that several names share; each name keeps at least one further part.

    A shared beginning of fewer than `_LEAST_COMMON` characters is kept in the names.
    """
    if len(names) < 2:
        return "", ""
    split = [parts_of(name) for name in names]
    columns = zip(*(_stem(parts)[:-1] for parts in split), strict=False)
    begin = "".join(parts[0] for parts in takewhile(lambda parts: len(set(parts)) == 1, columns))
    begin = begin if len(begin) >= _LEAST_COMMON else ""
    ends = {"".join(parts[len(_stem(parts)) :]) for parts in split}
    return begin, ends.pop() if len(ends) == 1 else ""


def _stem(parts: Sequence[str]) -> Sequence[str]:
    """The parts without the suffix of a file, unless the suffix is the only part."""
    return parts[:-1] if len(parts) > 1 and parts[-1][:1] == "." else parts


def short_name(name: str, width: int) -> str:
    """A name with an ellipsis in place of the parts in its middle that do not fit.

    The end of the name is kept, because it has the precision and the suffix. If the last parts
    alone do not fit, the name is cut at its width.

    >>> short_name("mobilenet_v2_1.0_224_quant.tflite", 24), short_name("yolo.onnx", 24)
    ('mobilenet_…quant.tflite', 'yolo.onnx')
    """
    if cell_len(name) <= width:
        return name
    parts = parts_of(name)
    stem = _stem(parts)
    fitting = [
        (left > 0, cell_len(text), -left, text)
        for left in range(len(stem))
        for right in range(left + 1, len(stem))
        if cell_len(text := "".join([*parts[:left], ELLIPSIS, *parts[right:]])) <= width
    ]
    if fitting:
        return max(fitting)[-1]
    end = "".join(parts[len(stem) :])
    end = end if cell_len(end) < width // 2 else ""
    return chop_cells(name, max(width - 1 - cell_len(end), 1))[0] + ELLIPSIS + end
