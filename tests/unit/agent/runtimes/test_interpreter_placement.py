"""What a list of nodes reveals about delegates, on lists made by hand and at random."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hypothesis import given
from hypothesis import strategies as st

from edgebench.agent.runtimes.interpreter_placement import BUILTIN, Node, place
from edgebench.protocol.record import OperatorPlacement

DELEGATE = "DELEGATE"


def node(operator: str, inputs: set[int], outputs: set[int]) -> Node:
    """A node with these tensors."""
    return Node(operator, frozenset(inputs), frozenset(outputs))


CHAIN = [
    node("CONV_2D", {0, 10}, {1}),
    node("ADD", {1, 0}, {2}),
    node("SOFTMAX", {2}, {3}),
]


def test_without_a_delegate_every_operator_is_built_in() -> None:
    """Otherwise a model that no delegate took over would have no placement."""
    assert place(CHAIN, {}, [3]) == (
        OperatorPlacement(BUILTIN, "ADD", 1),
        OperatorPlacement(BUILTIN, "CONV_2D", 1),
        OperatorPlacement(BUILTIN, "SOFTMAX", 1),
    )


def test_what_lies_between_outputs_and_inputs_of_the_part_was_taken_over() -> None:
    """Otherwise operators that fell back to the CPU would count as accelerated, or vice versa."""
    nodes = [*CHAIN, node(DELEGATE, {0, 10}, {2})]
    assert place(nodes, {3: "xnnpack"}, [3]) == (
        OperatorPlacement(BUILTIN, "SOFTMAX", 1),
        OperatorPlacement("xnnpack", "ADD", 1),
        OperatorPlacement("xnnpack", "CONV_2D", 1),
    )


def test_each_delegate_has_its_own_part() -> None:
    """Otherwise, with two delegates, all operators would be attributed to one of them."""
    parts = [node(DELEGATE, {0, 10}, {1}), node(DELEGATE, {2}, {3})]
    assert place([*CHAIN, *parts], {3: "/lib/npu.so", 4: "xnnpack"}, [3]) == (
        OperatorPlacement("/lib/npu.so", "CONV_2D", 1),
        OperatorPlacement(BUILTIN, "ADD", 1),
        OperatorPlacement("xnnpack", "SOFTMAX", 1),
    )


def test_operator_whose_output_nobody_uses_makes_the_whole_unknown() -> None:
    """Otherwise a guess would be printed as proof: an assignment may be in the part, or not."""
    nodes = [*CHAIN, node("ASSIGN_VARIABLE", {1}, set()), node(DELEGATE, {0, 10}, {1})]
    assert place(nodes, {4: "xnnpack"}, [3]) == ()


def test_operator_in_two_parts_makes_the_whole_unknown() -> None:
    """Otherwise a list of a kind that is not understood would be counted anyhow."""
    parts = [node(DELEGATE, {0, 10}, {1}), node(DELEGATE, {0, 10}, {2})]
    assert place([*CHAIN, *parts], {3: "a", 4: "b"}, [3]) == ()


def test_operators_of_one_kind_are_counted() -> None:
    """Otherwise the table of a network of 60 layers would have 60 lines."""
    nodes = [node("CONV_2D", {index}, {index + 1}) for index in range(5)]
    assert place(nodes, {}, [5]) == (OperatorPlacement(BUILTIN, "CONV_2D", 5),)


def part_of(nodes: Sequence[Node], taken: Mapping[int, int], part: int, wanted: set[int]) -> Node:
    """The DELEGATE node of a part, as the interpreter makes it."""
    inside = [nodes[index] for index, label in taken.items() if label == part]
    outside = [nodes[index] for index, label in taken.items() if label != part]
    made = {tensor for one in inside for tensor in one.outputs}
    used = {tensor for one in inside for tensor in one.inputs}
    used_outside = {tensor for one in outside for tensor in one.inputs} | wanted
    return node(DELEGATE, used - made, made & used_outside)


@given(st.data())
def test_any_division_of_any_graph_is_told_exactly_or_not_at_all(data: st.DataObject) -> None:
    """Otherwise some shape of graph would give a wrong table."""
    count = data.draw(st.integers(1, 12))
    nodes = [
        node(f"op{i:02}", data.draw(st.sets(st.integers(0, i), min_size=1, max_size=3)), {i + 1})
        for i in range(count)
    ]
    used = {tensor for one in nodes for tensor in one.inputs}
    ends = {i + 1 for i in range(count)} - used
    wanted = data.draw(st.just(ends) | st.sets(st.sampled_from(sorted(ends)), min_size=1))
    labels = dict(enumerate(data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count))))
    parts = {part: part_of(nodes, labels, part, wanted) for part in set(labels.values()) - {0}}
    delegates = {count + k: f"d{part}" for k, part in enumerate(parts)}
    found = place([*nodes, *parts.values()], delegates, wanted)
    places = {0: BUILTIN, 1: "d1", 2: "d2"}
    exact = sorted((places[label], nodes[index].operator) for index, label in labels.items())
    assert found in ((), tuple(OperatorPlacement(*kind, 1) for kind in exact))
    if wanted == ends:
        assert found
