"""Streaming reads: limits, restarts, and checkpoints that identify the topic to which they belong."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.conftest import StartBroker
from tests.spark.jobs import OURS, SPARKS, Jobs


def _values(out: Path, jobs: Jobs) -> list[str]:
    if not out.exists():
        return []
    return sorted(str(row[0]) for row in jobs.spark.read.schema("v string").parquet(str(out)).collect())


def _copy(jobs: Jobs, topic: str, folder: Path, connector: str = OURS, **options: str) -> list[str]:
    """Copy new records into files; return all values copied so far."""
    frame = jobs.stream(topic, connector, **options).selectExpr("cast(value AS string) AS v")
    jobs.run(frame, folder / "checkpoint", "parquet", path=str(folder / "out"))
    return _values(folder / "out", jobs)


def _expected(tag: str, count: int) -> list[str]:
    return sorted(f"{tag}-{number}" for number in range(count))


def _checkpoint(folder: Path) -> dict[str, Any]:
    newest = max((folder / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    position: dict[str, Any] = json.loads(newest.read_text().splitlines()[-1])
    return position


def test_a_stream_goes_on_where_it_was_with_a_limit_per_batch(jobs: Jobs, topic: str, tmp_path: Path) -> None:
    """Every record once over restarts; the checkpoint names the topic's id and the cluster."""
    topic_id = jobs.create(topic)
    jobs.write(jobs.rows(1000), topic)
    frame = jobs.stream(topic, maxOffsetsPerTrigger="400").selectExpr("cast(value AS string) AS v")
    progress = jobs.run(frame, tmp_path / "checkpoint", "parquet", path=str(tmp_path / "out"))
    rows = [each["numInputRows"] for each in progress if each["numInputRows"]]
    assert sum(rows) == 1000
    assert len(rows) == 3
    assert all(count <= 403 for count in rows), rows
    told = [json.loads(each["sources"][0]["latestOffset"]) for each in progress if each["numInputRows"]]
    assert [each["source"] for each in told] == ["pybroker"] * 3
    behind = [each["metrics"]["offsetsBehindLatest"] for each in told]
    assert behind == [1000 - sum(rows[:1]), 1000 - sum(rows[:2]), 0]
    jobs.write(jobs.rows(500, "w"), topic)
    assert _copy(jobs, topic, tmp_path) == sorted(_expected("v", 1000) + _expected("w", 500))
    position = _checkpoint(tmp_path)
    assert list(position["topics"]) == [topic_id]
    assert sum(position["topics"][topic_id]["p"].values()) == 1500
    row = jobs.read(topic, columns="cluster_id").first()
    assert row is not None
    assert position["cluster"] == row[0]


@pytest.mark.checklist(2, 92, "U8")
def test_a_re_created_topic_loses_nothing_in_silence(jobs: Jobs, topic: str, tmp_path: Path) -> None:
    """Spark's own connector applies the old offsets to the new topic and silently skips its first 500 records.
    pybroker's connector reports it, and on request reads the new topic from its start."""
    old = jobs.create(topic, 1)
    jobs.write(jobs.rows(500, "old"), topic)
    assert _copy(jobs, topic, tmp_path / "theirs", SPARKS) == _expected("old", 500)
    assert _copy(jobs, topic, tmp_path / "ours") == _expected("old", 500)
    new = jobs.recreate(topic, 1)
    jobs.write(jobs.rows(800, "new", tasks=1), topic)
    theirs = _copy(jobs, topic, tmp_path / "theirs", SPARKS, failOnDataLoss="true")
    assert len(theirs) == 800, "500 old, 300 of 800 new: 500 are lost in silence"
    with pytest.raises(Exception, match=f"re-created: the checkpoint belongs to id {old}, the topic has {new}"):
        _copy(jobs, topic, tmp_path / "ours")
    with pytest.raises(Exception, match="was re-created"):
        _copy(jobs, topic, tmp_path / "ours", failOnDataLoss="false")
    assert _values(tmp_path / "ours" / "out", jobs) == _expected("old", 500)
    found = _copy(jobs, topic, tmp_path / "ours", onTopicRecreated="earliest")
    assert found == sorted(_expected("old", 500) + _expected("new", 800))
    assert list(_checkpoint(tmp_path / "ours")["topics"]) == [new]


@pytest.mark.slow
def test_a_re_created_topic_is_continued_at_its_offsets_only_if_it_has_them(
    jobs: Jobs, topic: str, tmp_path: Path
) -> None:
    """`onTopicRecreated=continue`, for a topic that was copied with its offsets."""
    jobs.create(topic, 1)
    jobs.write(jobs.rows(100, "old", tasks=1), topic)
    _copy(jobs, topic, tmp_path)
    jobs.recreate(topic, 1)
    with pytest.raises(Exception, match="partition 0 contains 0 to 0, the checkpoint is at 100"):
        _copy(jobs, topic, tmp_path, onTopicRecreated="continue")
    jobs.write(jobs.rows(150, "new", tasks=1), topic)
    found = _copy(jobs, topic, tmp_path, onTopicRecreated="continue")
    assert len(found) == 150
    assert sum(value.startswith("new-") for value in found) == 50


@pytest.mark.slow
def test_a_checkpoint_of_another_cluster_is_refused(
    jobs: Jobs, topic: str, tmp_path: Path, start_broker: StartBroker
) -> None:
    """The message says that the address is wrong."""
    jobs.create(topic, 1)
    jobs.write(jobs.rows(10), topic)
    _copy(jobs, topic, tmp_path)
    other = Jobs(jobs.spark, start_broker().bootstrap)
    other.create(topic, 1)
    with pytest.raises(Exception, match="the checkpoint belongs to cluster"):
        _copy(other, topic, tmp_path)


@pytest.mark.slow
def test_a_query_goes_on_where_it_was_when_its_topic_is_undeleted(jobs: Jobs, topic: str, tmp_path: Path) -> None:
    """The query fails with the command that brings the topic back; after it, no record is missing or there twice."""
    topic_id = jobs.create(topic, 1)
    jobs.write(jobs.rows(100), topic)
    assert _copy(jobs, topic, tmp_path) == _expected("v", 100)
    jobs.write(jobs.rows(50, "w"), topic)
    jobs.client.delete_topic(topic)
    with pytest.raises(Exception, match=re.escape(f"pybroker topics undelete {topic_id}")):
        _copy(jobs, topic, tmp_path)
    command = [sys.executable, "-m", "pybroker", "topics", "undelete", topic_id, "--bootstrap-server", jobs.bootstrap]
    subprocess.run(command, check=True, capture_output=True, timeout=200)
    jobs.write(jobs.rows(25, "x"), topic)
    everything = sorted(_expected("v", 100) + _expected("w", 50) + _expected("x", 25))
    assert _copy(jobs, topic, tmp_path) == everything
    assert list(_checkpoint(tmp_path)["topics"]) == [topic_id]


@pytest.mark.slow
def test_records_that_are_gone_fail_or_are_skipped(jobs: Jobs, topic: str, tmp_path: Path) -> None:
    """By `failOnDataLoss`, the query fails with a message that has the offsets, or continues at the log start."""
    jobs.create(topic, 1)
    jobs.write(jobs.rows(100, "a", tasks=1), topic)
    _copy(jobs, topic, tmp_path)
    jobs.write(jobs.rows(100, "b", tasks=1), topic)
    admin = AdminClient({"bootstrap.servers": jobs.bootstrap})
    for done in admin.delete_records([TopicPartition(topic, 0, 150)]).values():
        done.result(120)
    with pytest.raises(Exception, match="offsets 100 to 150 were removed"):
        _copy(jobs, topic, tmp_path)
    assert len(_copy(jobs, topic, tmp_path, failOnDataLoss="false")) == 150


@pytest.mark.slow
def test_new_partitions_are_read_from_their_start(jobs: Jobs, topic: str, tmp_path: Path) -> None:
    """A pattern also includes new topics that match it."""
    jobs.create(topic, 1)
    jobs.write(jobs.rows(100), topic)
    pattern = {"subscribePattern": f"{topic}.*", "startingOffsets": "latest"}
    assert _copy(jobs, topic, tmp_path, **pattern) == []
    jobs.create(f"{topic}-more", 2)
    jobs.write(jobs.rows(200, "w"), f"{topic}-more")
    assert _copy(jobs, topic, tmp_path, **pattern) == _expected("w", 200)


@pytest.mark.slow
@pytest.mark.parametrize("group", ["spark-lag"])
def test_the_lag_of_a_stream_is_visible_to_tools(jobs: Jobs, topic: str, tmp_path: Path, group: str) -> None:
    """`groupId`: offsets are committed for a group when Spark has processed a batch."""
    jobs.create(topic)
    jobs.write(jobs.rows(300), topic)
    _copy(jobs, topic, tmp_path, groupId=group)
    jobs.write(jobs.rows(30), topic)
    _copy(jobs, topic, tmp_path, groupId=group)
    admin = AdminClient({"bootstrap.servers": jobs.bootstrap})
    (listed,) = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)]).values()
    committed = {each.partition: each.offset for each in listed.result(120).topic_partitions if each.topic == topic}
    # Spark commits a batch when the next one is planned, or not at all if none follows.
    assert 300 <= sum(committed.values()) <= 330, committed
    consumer = Consumer({"bootstrap.servers": jobs.bootstrap, "group.id": group})
    try:
        assert consumer.committed([TopicPartition(topic, 0)], 120)[0].offset == committed[0]
    finally:
        consumer.close()
