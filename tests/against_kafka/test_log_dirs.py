"""Log directories and features: unknown names, numbers and paths."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pybroker.protocol import messages as m
from tests.against_kafka.conftest import Story
from tests.against_kafka.sides import Side
from tests.against_kafka.test_administration import NAMES

SIZES = ("total_bytes", "usable_bytes")


def log_dirs(side: Side, name: str) -> None:
    """Another spelling of a log directory, such as a trailing slash, is not compared: Kafka does not find the
    directory. Neither is a directory that is named twice: Kafka answers only the last one."""
    side.topic(name, 2)
    row = m.DescribeLogDirsRequest_DescribableLogDirTopic

    def describe(rows: list[m.DescribeLogDirsRequest_DescribableLogDirTopic] | None) -> None:
        for version in (1, 4, 5):
            side.ask(m.DescribeLogDirsRequest(topics=rows), version, but=("log_dir", *SIZES))

    describe([])
    for indexes in ([], [0], [1, 0], [0, 0], [9], [-1]):
        describe([row(topic=name, partitions=indexes)])
    for wrong in (*NAMES, "not-" + name):
        describe([row(topic=wrong, partitions=[0])])
    describe([row(topic=name, partitions=[0]), row(topic=name, partitions=[1])])
    (own,) = {
        one.log_dir
        for one in side.quietly(m.DescribeLogDirsRequest(topics=[row(topic=name, partitions=[0])]), 4).results
    }

    def move(*moves: tuple[str, str, list[int]]) -> None:
        dirs = [
            m.AlterReplicaLogDirsRequest_AlterReplicaLogDir(
                path=path,
                topics=[m.AlterReplicaLogDirsRequest_AlterReplicaLogDirTopic(name=topic, partitions=indexes)],
            )
            for path, topic, indexes in moves
        ]
        for version in (1, 2):
            side.ask(m.AlterReplicaLogDirsRequest(dirs=dirs), version)

    move()
    for path in ("", "relative", "./relative", "/no/such/folder", own, own + "x"):
        for topic, indexes in ((name, [0]), (name, [9]), (name, [-1]), (name, []), ("not-" + name, [0]), ("a b", [0])):
            move((path, topic, indexes))
    move((own, name, [0]), ("/no/such/folder", name, [1]))


def features(side: Side, name: str) -> None:
    """metadata.version is not compared, because brokers without KRaft lack it. Neither is a feature that is named
    twice: Kafka uses the last level."""

    def update(*updates: m.UpdateFeaturesRequest_FeatureUpdateKey, validate: bool = True) -> None:
        for version in (0, 1, 2):
            if version or not validate:
                side.ask(m.UpdateFeaturesRequest(feature_updates=list(updates), validate_only=validate), version)

    row = m.UpdateFeaturesRequest_FeatureUpdateKey
    update()
    update(validate=False)
    for feature in ("group.version", "transaction.version", "share.version", "streams.version", "no.such", "", "a b"):
        for level in (-1, 0, 1, 2, 3, 99, 2**15 - 1):
            for kind in (0, 1, 2, 3, 4, -1):
                update(row(feature=feature, max_version_level=level, upgrade_type=kind))
    one, other = row(feature="group.version", max_version_level=1), row(feature="no.such", max_version_level=1)
    update(one, other)
    update(other, one)


@pytest.mark.parametrize("story", [log_dirs, features])
def test_as_kafka(compare: Callable[[Story], None], story: Story) -> None:
    compare(story)
