"""Operators of a TensorFlow Lite graph that a delegate took over.

Theory of operation. A delegate does not remove the nodes that it takes over: the interpreter keeps
them in its list and appends a DELEGATE node per part, which runs in their place. The inputs of that
node are all tensors, including constants, that the part uses and does not produce; its outputs are
the tensors that it produces and that are used elsewhere, including by the caller.

    inputs of the part ─▶ [ taken over … taken over ] ─▶ outputs of the part

So a walk back from the outputs of a DELEGATE node, not past its inputs, visits only nodes that were
taken over. A node that no walk visits was certainly not taken over if its output is used by the
caller, a DELEGATE node, or another such node. The remaining nodes have unused outputs, such as an
assignment to a variable; the list does not show where these run, and then no placement is reported.

Only the main graph is listed; the bodies of loops and branches are not.

Source: tensorflow/lite/core/subgraph.cc `ReplaceNodeSubsetsWithDelegateKernels`,
tensorflow/lite/graph_info.cc `PartitionGraphIntoIndependentNodeSubsets`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgebench.protocol.record import OperatorPlacement

BUILTIN = "builtin"
_ABSENT = -1
"""Index of an optional tensor that is absent: `kTfLiteOptionalTensor`."""


@dataclass(frozen=True, slots=True)
class Node:
    """An entry of the interpreter's list."""

    operator: str
    inputs: frozenset[int]
    outputs: frozenset[int]


def read_nodes(native: Any) -> list[Node]:
    """The nodes of the main graph of a native interpreter, in the order of its list."""
    return [
        Node(
            operator=str(native.NodeName(index)),
            inputs=_tensors(native.NodeInputs(index)),
            outputs=_tensors(native.NodeOutputs(index)),
        )
        for index in range(native.NumNodes())
    ]


def place(
    nodes: Sequence[Node], delegates: Mapping[int, str], wanted: Iterable[int]
) -> tuple[OperatorPlacement, ...]:
    """Count the operators by where they run.

    Args:
        nodes: The interpreter's list.
        delegates: The DELEGATE nodes by index, each with the name of its delegate.
        wanted: The tensors that the caller reads.

    Returns:
        Counts sorted by place, then operator; empty unless the place of every node is certain.
    """
    originals = [index for index in range(len(nodes)) if index not in delegates]
    places: dict[int, str] = {}
    for index, delegate in delegates.items():
        for taken in _taken_over(nodes, originals, nodes[index]):
            if taken in places:
                return ()  # taken over twice: the list has an unexpected form
            places[taken] = delegate
    rest = [index for index in originals if index not in places]
    needed = set(wanted).union(*(nodes[index].inputs for index in delegates))
    if delegates and len(_needed(nodes, rest, needed)) < len(rest):
        return ()
    counts = Counter((places.get(i, BUILTIN), nodes[i].operator) for i in originals)
    return tuple(OperatorPlacement(*kind, count) for kind, count in sorted(counts.items()))


def _taken_over(nodes: Sequence[Node], originals: Sequence[int], part: Node) -> set[int]:
    """The nodes between the outputs and the inputs of a part."""
    producers = {tensor: index for index in originals for tensor in nodes[index].outputs}
    replaced: set[int] = set()
    tensors = list(part.outputs)
    while tensors:
        index = producers.get(tensors.pop())
        if index is not None and index not in replaced:
            replaced.add(index)
            tensors.extend(nodes[index].inputs - part.inputs)
    return replaced


def _needed(nodes: Sequence[Node], rest: Sequence[int], tensors: set[int]) -> set[int]:
    """The nodes of `rest` on which these tensors depend, directly or through others of `rest`."""
    producers = {tensor: index for index in rest for tensor in nodes[index].outputs}
    needed: set[int] = set()
    waiting = list(tensors)
    while waiting:
        index = producers.get(waiting.pop())
        if index is not None and index not in needed:
            needed.add(index)
            waiting.extend(nodes[index].inputs)
    return needed


def _tensors(indices: Iterable[Any]) -> frozenset[int]:
    return frozenset(int(index) for index in indices if int(index) != _ABSENT)
