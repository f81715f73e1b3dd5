"""Finds the operators that a delegate took over in a TensorFlow Lite graph.

Theory of operation. A delegate does not remove the nodes that it takes over. The interpreter keeps
these nodes in its list, and appends a DELEGATE node for each delegated part of the graph. The
DELEGATE node runs in place of the nodes of its part. The inputs of a DELEGATE node are all tensors,
including constants, that the part uses but does not produce. The outputs are those tensors produced
by the part that the caller or other nodes use.

    inputs of the part ─▶ [ taken over … taken over ] ─▶ outputs of the part

A walk from the outputs of a DELEGATE node back to its inputs therefore visits only nodes that were
taken over. A node that no walk visits was certainly not taken over if its output is used:

- by the caller;
- by a DELEGATE node;
- by another node that was not taken over.

The outputs of the remaining nodes, such as an assignment to a variable, are not used. The list does
not show where a remaining node runs, so no placement is reported for a delegated graph with such
nodes.

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
    """A node in the interpreter's list."""

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
    """Count the operators by the place where they run.

    Args:
        nodes: All nodes in the interpreter's list.
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
                return ()  # taken over by two delegates: the list has an unexpected form
            places[taken] = delegate
    rest = [index for index in originals if index not in places]
    needed = set(wanted).union(*(nodes[index].inputs for index in delegates))
    if delegates and len(_needed(nodes, rest, needed)) < len(rest):
        return ()
    counts = Counter((places.get(i, BUILTIN), nodes[i].operator) for i in originals)
    return tuple(OperatorPlacement(*kind, count) for kind, count in sorted(counts.items()))


def _taken_over(nodes: Sequence[Node], originals: Sequence[int], part: Node) -> set[int]:
    """Indices of the nodes between the outputs and the inputs of a DELEGATE node."""
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
    """Indices of the nodes of `rest` that these tensors need, directly or through other nodes."""
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
