"""A new controller reads a node for each partition, and its broker serves other requests meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from pybroker.broker.metadata.metadata_store import Node
from pybroker.broker.metadata.zookeeper_reads import GET_CHILDREN, READS_A_TURN_MAX, read_subtree

TOPICS, PARTITIONS = 12, 1_000


class Tree:
    """Topics with partitions, as ZooKeeper returns them, and the largest number of reads between two turns of other
    tasks."""

    def __init__(self) -> None:
        self.asked = 0
        self.asked_max = 0

    async def read_many(self, kind: int, paths: Sequence[str]) -> list[Any]:
        self.asked += len(paths)
        self.asked_max = max(self.asked_max, self.asked)
        await asyncio.sleep(0)
        if kind == GET_CHILDREN:
            return [self._children(path) for path in paths]
        return [(b"", SimpleNamespace(numChildren=len(self._children(path)))) for path in paths]

    def _children(self, path: str) -> list[str]:
        depth = path.count("/")
        if depth == 1:
            return [f"topic-{number}" for number in range(TOPICS)]
        return [str(number) for number in range(PARTITIONS)] if depth == 2 else []

    async def others(self) -> None:
        """Run another task on the loop."""
        while True:
            await asyncio.sleep(0)
            self.asked = 0


@pytest.mark.checklist("R36")
async def test_a_large_tree_is_read_in_turns() -> None:
    tree = Tree()
    others = asyncio.create_task(tree.others())
    node = Node(b"", 0, 0, 0, 0, 0)
    found = await read_subtree("/topics", tree.read_many, lambda data, stat: node)
    others.cancel()
    assert len(found) == TOPICS * (PARTITIONS + 1)
    assert tree.asked_max <= READS_A_TURN_MAX
