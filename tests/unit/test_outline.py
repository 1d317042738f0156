from __future__ import annotations

from wireloom.outline import Node


def test_a_node_ends_where_its_bytes_end() -> None:
    assert Node("a", 3, 4).end == 7


def test_add_appends_a_child_and_gives_it_back() -> None:
    root = Node("root", 0, 8)
    child = root.add("x", 2, 4, 17, "a number", "too large")
    assert root.children == [child]
    assert child == Node("x", 2, 4, "17", "a number", "too large")
    assert root.add("y", 6, 2).value == ""
    assert root.add("z", 6, 2, b"\0\xff").value == "00ff"


def test_walk_gives_outer_nodes_first_and_siblings_in_order() -> None:
    root = Node("root", 0, 4)
    a = root.add("a", 0, 2)
    a.add("a1", 0, 1)
    a.add("a2", 1, 1)
    root.add("b", 2, 2)
    assert [(depth, node.name) for depth, node in root.walk()] == [
        (0, "root"),
        (1, "a"),
        (2, "a1"),
        (2, "a2"),
        (1, "b"),
    ]
    assert next(root.walk(5))[0] == 5


def test_walk_is_not_bounded_by_the_stack() -> None:
    root = node = Node("root", 0, 1)
    for _ in range(5000):
        node = node.add("inner", 0, 1)
    assert max(depth for depth, _ in root.walk()) == 5000


def test_children_are_not_shared_between_nodes() -> None:
    Node("a", 0, 1).add("x", 0, 1)
    assert Node("b", 0, 1).children == []
