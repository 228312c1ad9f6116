"""DescribeLogDirs with a fake native core that returns fixed data."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from pybroker.broker.admin.log_dirs import LogDirAdmin
from pybroker.broker.api import k35_describe_log_dirs
from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.requests.context import RequestContext
from pybroker.config import BrokerConfig
from pybroker.native import Uuid
from pybroker.protocol.messages import DescribeLogDirsRequest, DescribeLogDirsRequest_DescribableLogDirTopic
from tests.support.authorizers import PERMITS_ALL

CONTEXT = RequestContext(35, 4, None, "User:ANONYMOUS", "PLAINTEXT", "127.0.0.1", 1)
VIEW = cast(ClusterView, None)
CONFIG = cast(BrokerConfig, SimpleNamespace(cordoned_log_dirs=frozenset()))


IDS = {"a": Uuid.random(), "b": Uuid.random()}


class Names:
    """Names of the topics in the directories."""

    def topic_id(self, name: str) -> Uuid | None:
        return IDS.get(name)

    def topic_name(self, topic_id: Uuid) -> str | None:
        return next((name for name, one in IDS.items() if one == topic_id), None)


class Native:
    """Two directories, one of them offline."""

    def describe(self) -> list[Any]:
        def partition(topic: str, index: int) -> SimpleNamespace:
            return SimpleNamespace(
                topic=topic, topic_id=IDS[topic], partition=index, size_bytes=100 * index, offset_lag=0, is_future=False
            )

        here = [partition("b", 0), partition("a", 2), partition("a", 1)]
        return [
            SimpleNamespace(path="/d1", error_code=0, total_bytes=1000, usable_bytes=10, partitions=here),
            SimpleNamespace(path="/d2", error_code=56, total_bytes=-1, usable_bytes=-1, partitions=[]),
        ]

    def move_partition(self, topic_id: Any, partition: int, log_dir: str) -> int:
        raise AssertionError("not asked for")


Shown = dict[str, list[tuple[int, int]]]


async def ask(topics: dict[str, list[int]] | None) -> list[tuple[str, int, int, Shown]]:
    wanted = None
    if topics is not None:
        wanted = [DescribeLogDirsRequest_DescribableLogDirTopic(topic=t, partitions=p) for t, p in topics.items()]
    answer = await k35_describe_log_dirs.handle(
        LogDirAdmin(Native(), CONFIG, VIEW), Names(), PERMITS_ALL, CONTEXT, DescribeLogDirsRequest(topics=wanted)
    )
    assert answer.error_code == 0
    return [
        (
            one.log_dir,
            one.error_code,
            one.usable_bytes,
            {topic.name: [(p.partition_index, p.partition_size) for p in topic.partitions] for topic in one.topics},
        )
        for one in answer.results
    ]


@pytest.mark.parametrize(
    ("topics", "shown"),
    [
        (None, {"a": [(1, 100), (2, 200)], "b": [(0, 0)]}),
        ({"a": [1, 7], "c": [0]}, {"a": [(1, 100)]}),
        ({}, {}),
    ],
)
async def test_log_dirs(topics: dict[str, list[int]] | None, shown: Shown) -> None:
    assert await ask(topics) == [("/d1", 0, 10, shown), ("/d2", 56, -1, {})]
