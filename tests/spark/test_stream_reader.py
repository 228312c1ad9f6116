"""A stream's steps, called as Spark calls them: micro-batches planned again, subscriptions that change, lag."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from pybroker.native import NativeError
from pybroker.protocol.error_codes import ErrorCode
from pybroker.spark.batch_reader import RangePartition, TaskReader
from pybroker.spark.offset_ranges import OffsetRange
from pybroker.spark.source import DefaultSource
from pybroker.spark.source_errors import DataLossError, TopicChangedError
from pybroker.spark.source_options import read_options
from pybroker.spark.stream_reader import StreamReader
from tests.clients.api import Record
from tests.clients.confluent import Confluent
from tests.support.brokers import BrokerProcess

Plan = list[tuple[str, int, int, int]]


class Query:
    """The source of a streaming query, and its broker."""

    def __init__(self, broker: BrokerProcess, topic: str) -> None:
        self.broker, self.topic = broker, topic
        self.client = Confluent(broker.bootstrap)

    def create(self, topic: str, records: int = 0, partitions: int = 1) -> None:
        self.client.create_topic(topic, partitions)
        self.produce(topic, records)

    def produce(self, topic: str, records: int) -> None:
        producer = self.client.producer()
        producer.send(topic, [Record(0, None, "v") for _ in range(records)])
        producer.close()

    def recreate(self, topic: str, records: int) -> None:
        self.client.delete_topic(topic)
        self.create(topic, records)

    def records_gone(self, topic: str, before: int) -> None:
        admin = AdminClient({"bootstrap.servers": self.broker.bootstrap})
        for done in admin.delete_records([TopicPartition(topic, 0, before)]).values():
            done.result(120)

    def reader(self, **options: str) -> StreamReader:
        given = {"kafka.bootstrap.servers": self.broker.bootstrap, "startingOffsets": "earliest", **options}
        if not given.keys() & {"subscribePattern", "assign", "topicIds"}:
            given.setdefault("subscribe", self.topic)
        return StreamReader(read_options(given, streaming=True), DefaultSource(given).schema())

    def first_batch(self, **options: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return start and end of the first micro-batch."""
        reader = self.reader(**options)
        start = reader.initialOffset()
        return start, reader.latestOffset(start, ReadAllAvailable())

    def committed(self, group: str) -> int:
        consumer = Consumer({"bootstrap.servers": self.broker.bootstrap, "group.id": group})
        try:
            return int(consumer.committed([TopicPartition(self.topic, 0)], 120)[0].offset)
        finally:
            consumer.close()


@pytest.fixture
def query(broker: BrokerProcess, topic: str) -> Query:
    return Query(broker, topic)


def plan(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> Plan:
    """Return (topic, partition, start, end) of the tasks."""
    planned = []
    for each in reader.partitions(start, end):
        assert isinstance(each, RangePartition)
        planned.append((each.offsets.topic, each.offsets.partition, each.offsets.start, each.offsets.end))
    return planned


def rows(reader: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> int:
    """Return the number of rows that the tasks read."""
    return sum(batch.num_rows for part in reader.partitions(start, end) for batch in reader.read(part))


def after(reader: StreamReader, start: dict[str, Any]) -> dict[str, Any]:
    return reader.latestOffset(start, ReadAllAvailable())


@pytest.mark.parametrize("policy", ["fail", "earliest", "continue"])
def test_records_of_a_planned_batch_that_aged_out_fail_whatever_the_policy(query: Query, policy: str) -> None:
    """`onTopicRecreated` is about other topics; `failOnDataLoss` decides about this one's records."""
    query.create(query.topic, 100)
    start, end = query.first_batch()
    query.records_gone(query.topic, 60)
    with pytest.raises(DataLossError, match="offset 0 no longer exists"):
        rows(query.reader(onTopicRecreated=policy), start, end)
    assert rows(query.reader(onTopicRecreated=policy, failOnDataLoss="false"), start, end) == 40


def test_a_planned_batch_of_a_re_created_topic_is_dropped_if_asked(
    query: Query, caplog: pytest.LogCaptureFixture
) -> None:
    """`onTopicRecreated=earliest`: unread records of the old topic are gone; the next micro-batch has the new topic."""
    query.create(query.topic, 20)
    start, end = query.first_batch()
    (old,) = end["topics"]
    query.recreate(query.topic, 3)
    (new,) = query.reader().initialOffset()["topics"]
    for options in ({}, {"failOnDataLoss": "false"}, {"onTopicRecreated": "continue"}):
        with pytest.raises(TopicChangedError) as told:
            query.reader(**options).partitions(start, end)
        for part in (f"topic {query.topic} was re-created", old, new, "0: 0 to 20", "onTopicRecreated=earliest"):
            assert part in str(told.value)
    reader = query.reader(onTopicRecreated="earliest")
    assert plan(reader, start, end) == []
    for part in (query.topic, old, new, "0: 0 to 20"):
        assert part in caplog.text
    following = after(reader, end)
    assert plan(reader, end, following) == [(query.topic, 0, 0, 3)]
    assert list(following["topics"]) == [new]


def test_a_planned_batch_of_a_deleted_topic_is_dropped_only_without_fail_on_data_loss(
    query: Query, caplog: pytest.LogCaptureFixture
) -> None:
    """The message explains how to undelete the topic."""
    query.create(query.topic, 20)
    start, end = query.first_batch()
    (topic_id,) = end["topics"]
    query.client.delete_topic(query.topic)
    for policy in ("fail", "earliest"):
        with pytest.raises(TopicChangedError, match=f"was deleted; .* 0: 0 to 20.*pybroker topics undelete {topic_id}"):
            query.reader(onTopicRecreated=policy).partitions(start, end)
    assert plan(query.reader(failOnDataLoss="false"), start, end) == []
    assert f"topic {query.topic} with id {topic_id} was deleted; skipped the rest of a planned" in caplog.text


def test_a_deleted_topic_keeps_its_place(query: Query) -> None:
    """`failOnDataLoss=false`: micro-batches continue without the topic. After an undelete it continues at its position.
    A re-created topic is another topic, and a warning says so, however many micro-batches have passed."""
    other = f"{query.topic}-other"
    query.create(query.topic, 10)
    query.create(other, 5)
    both = {"subscribe": f"{query.topic},{other}", "failOnDataLoss": "false"}
    _, position = query.first_batch(**both)
    topic_id = next(key for key, topic in position["topics"].items() if topic["name"] == query.topic)
    query.client.delete_topic(query.topic)
    reader = query.reader(**both)
    assert after(reader, position) == position, "nothing new: no micro-batch"
    query.produce(other, 2)
    passed = after(reader, position)
    assert plan(reader, position, passed) == [(other, 0, 5, 7)]
    at_once = query.reader(**both)
    at_once.prepareForTriggerAvailableNow()
    assert after(at_once, position) == passed
    bootstrap = ["--bootstrap-server", query.broker.bootstrap]
    command = [sys.executable, "-m", "pybroker", "topics", "undelete", topic_id, *bootstrap]
    subprocess.run(command, check=True, capture_output=True, timeout=200)
    query.produce(query.topic, 4)
    assert plan(reader, passed, after(reader, passed)) == [(query.topic, 0, 10, 14)]
    query.recreate(query.topic, 3)
    with pytest.raises(TopicChangedError, match="was re-created"):
        after(reader, passed)


def test_what_is_not_subscribed_any_more_is_not_read(query: Query, caplog: pytest.LogCaptureFixture) -> None:
    """A restart with fewer topics or partitions: their positions leave the checkpoint, with a log line."""
    other = f"{query.topic}-other"
    query.create(query.topic, 10)
    query.create(other, 5)
    start, end = query.first_batch(subscribe=f"{query.topic},{other}")
    query.produce(other, 7)
    fewer = query.reader()
    assert sorted(plan(fewer, start, end)) == [(query.topic, 0, 0, 10), (other, 0, 0, 5)], "planned before"
    following = after(fewer, end)
    assert [topic["name"] for topic in following["topics"].values()] == [query.topic]
    assert plan(fewer, end, following) == []
    assert f"topic {other} with id" in caplog.text
    assert "is no longer subscribed" in caplog.text
    at_once = query.reader()
    at_once.prepareForTriggerAvailableNow()
    assert after(at_once, end) == following
    query.client.delete_topic(other)
    assert after(query.reader(), end) == following, "nor does it matter that it is deleted"


def test_partitions_that_are_not_assigned_any_more_are_not_read(query: Query) -> None:
    """Records that were deleted from the unassigned partition do not fail the query."""
    query.create(query.topic, 10, partitions=2)
    _, end = query.first_batch()
    query.records_gone(query.topic, 10)
    query.produce(query.topic, 5)
    query.records_gone(query.topic, 12)
    reader = query.reader(assign=f'{{"{query.topic}": [1]}}')
    (kept,) = after(reader, end)["topics"].values()
    assert kept["p"] == {"1": 0}


def test_the_first_batch_after_a_start_does_not_wait_for_more(query: Query) -> None:
    """`minOffsetsPerTrigger` as in Spark's source."""
    query.create(query.topic, 1)
    reader = query.reader(minOffsetsPerTrigger="5")
    start = reader.initialOffset()
    first = after(reader, start)
    assert plan(reader, start, first) == [(query.topic, 0, 0, 1)]
    query.produce(query.topic, 4)
    assert after(reader, first) == first
    query.produce(query.topic, 1)
    assert plan(reader, first, after(reader, first)) == [(query.topic, 0, 1, 6)]


def test_no_offsets_are_committed_for_another_topic_of_the_name(query: Query) -> None:
    """A group's offsets are stored by name here; offsets of the old topic would apply to records of the new one."""
    group = f"{query.topic}-group"
    query.create(query.topic, 20)
    _, end = query.first_batch()
    query.reader(groupId=group).commit(end)
    assert query.committed(group) == 20
    query.recreate(query.topic, 3)
    fresh = query.committed(group)
    query.reader(groupId=group).commit(end)
    assert query.committed(group) == fresh < 0


def test_a_group_shows_no_lag_of_a_stream_that_has_caught_up(query: Query) -> None:
    """Spark tells a source that a batch is complete only when it plans the next one with rows; it requests the latest
    offsets all the time."""
    group = f"{query.topic}-group"
    query.create(query.topic, 20)
    start, end = query.first_batch()
    reader = query.reader(groupId=group)
    for at, offset in ((start, 0), (end, 20)):
        assert after(reader, at) == end
        assert query.committed(group) == offset


def test_a_group_that_takes_no_offsets_does_not_stop_the_query(query: Query, caplog: pytest.LogCaptureFixture) -> None:
    """Its members commit for themselves; the log says so once."""
    group = f"{query.topic}-group"
    query.create(query.topic, 20)
    _, end = query.first_batch()
    member = query.client.join(group, query.topic)
    while not member.assignment():
        member.poll(0.1)
    reader = query.reader(groupId=group)
    reader.commit(end)
    reader.commit(end)
    member.close()
    assert caplog.text.count(f"groupId={group}: offset commit failed") == 1


@pytest.mark.parametrize("recreated", [False, True])
def test_a_topic_that_goes_between_two_questions_does_not_end_the_query(
    query: Query, monkeypatch: pytest.MonkeyPatch, recreated: bool
) -> None:
    """`latestOffset` lists the topics, then requests their ends by name: if a topic was deleted in between, it lists
    again."""
    going = f"{query.topic}-going"
    query.create(query.topic, 3)
    query.create(going, 1)
    options = {"subscribePattern": f"{re.escape(query.topic)}.*", "failOnDataLoss": "false"}
    reader = query.reader(**options, onTopicRecreated="earliest")
    start = reader.initialOffset()
    cluster, listed = reader._cluster, [reader._cluster.existing(reader._options.subscription)]
    query.client.delete_topic(going)
    if recreated:
        query.create(going, 2)
    now = cluster.existing
    monkeypatch.setattr(cluster, "existing", lambda wanted: listed.pop() if listed else now(wanted))
    end = reader.latestOffset(start, ReadAllAvailable())
    assert not listed
    places = {topic["name"]: topic["p"]["0"] for topic in end["topics"].values()}
    assert places == {query.topic: 3, going: 2 if recreated else 0}, "what is gone keeps its place"


def test_a_topic_that_is_deleted_while_a_task_looks_for_its_start_is_named(query: Query) -> None:
    """With `failOnDataLoss=false` a task requests the current log start."""
    query.create(query.topic, 1)
    (topic_id,) = query.reader().initialOffset()["topics"]
    query.client.delete_topic(query.topic)
    given = {"kafka.bootstrap.servers": query.broker.bootstrap, "subscribe": query.topic}
    client = {"bootstrap.servers": query.broker.bootstrap}
    task = TaskReader(client, DefaultSource(given).schema(), fail_on_data_loss=False)
    error = NativeError(int(ErrorCode.OFFSET_OUT_OF_RANGE), "gone")
    with pytest.raises(TopicChangedError, match="was deleted during the read"):
        task._after(error, OffsetRange(topic_id, query.topic, 0, 0, 1), 0)


def test_progress_says_how_far_behind_a_query_is(query: Query) -> None:
    """Spark requests the latest offsets after it has planned a micro-batch, and shows them."""
    query.create(query.topic, partitions=2)
    query.produce(query.topic, 100)
    reader = query.reader()
    assert "metrics" not in (reader.reportLatestOffset() or {}), "a micro-batch of before a restart was planned then"
    end = reader.latestOffset(reader.initialOffset(), ReadMaxRows(40))
    told = reader.reportLatestOffset() or {}
    assert told["source"] == "pybroker"
    assert told["metrics"] == {
        "offsetsBehindLatest": 60,
        "minOffsetsBehindLatest": 0,
        "maxOffsetsBehindLatest": 60,
        "avgOffsetsBehindLatest": 30.0,
    }
    after(reader, end)
    assert (reader.reportLatestOffset() or {})["metrics"]["offsetsBehindLatest"] == 0
    query.produce(query.topic, 5)
    waiting = query.reader(minOffsetsPerTrigger="50")
    end = after(waiting, end)
    query.produce(query.topic, 7)
    assert after(waiting, end) == end, "fewer than the minimum"
    assert (waiting.reportLatestOffset() or {})["metrics"]["offsetsBehindLatest"] == 7
