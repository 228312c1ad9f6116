"""Circles in a graph of modules."""

from __future__ import annotations

from collections.abc import Mapping


def circles(edges: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the groups of nodes that can reach each other, each group sorted, in order."""
    reached = {node: _reached_from(node, edges) for node in edges}
    groups = {
        tuple(sorted(other for other in reached[node] if node in reached.get(other, ())))
        for node in edges
        if node in reached[node]
    }
    return sorted(map(list, groups))


def _reached_from(start: str, edges: Mapping[str, set[str]]) -> set[str]:
    """Return the nodes at the end of a path of at least one edge."""
    reached: set[str] = set()
    waiting = [start]
    while waiting:
        new = edges.get(waiting.pop(), set()) - reached
        reached |= new
        waiting += new
    return reached
