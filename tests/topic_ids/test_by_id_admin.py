"""Metadata, CreateTopics and DeleteTopics by id, as raw requests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.support.cluster import until
from tests.topic_ids.kit import create, delete, metadata, recreate, unique
from tests.wire.client import WireClient


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[WireClient]:
    with WireClient(broker.port) as connected:
        yield connected


@pytest.mark.checklist(58, 105, 159, 160, 161, 162, 168, "D15", "D16", 331)
@pytest.mark.parametrize("version", range(10, 14))
def test_metadata_by_id_gives_name_and_id(client: WireClient, version: int) -> None:
    name = unique()
    topic_id = create(client, name, 3).topic_id
    for asked in (topic_id, name):
        answer = metadata(client, version, asked)
        (topic,) = answer.topics
        assert (topic.error_code, topic.name, topic.topic_id, topic.is_internal) == (0, name, topic_id, False)
        assert [partition.partition_index for partition in topic.partitions] == [0, 1, 2]
        assert (len(answer.brokers), bool(answer.cluster_id)) == (1, True)
        assert answer.controller_id == answer.brokers[0].node_id


@pytest.mark.checklist(165, 166, "R21")
@pytest.mark.parametrize("version", range(10, 14))
def test_an_unknown_id_is_told_so_and_creates_nothing(start_broker: StartBroker, version: int) -> None:
    with WireClient(start_broker({"auto.create.topics.enable": "true"}).port) as client:
        unknown = Uuid.random()
        (topic,) = metadata(client, version, unknown, create=True).topics
        assert (topic.error_code, topic.topic_id) == (ErrorCode.UNKNOWN_TOPIC_ID, unknown)
        assert topic.name == (None if version >= 12 else "")
        assert client.call(m.MetadataRequest(topics=None), version).topics == []


@pytest.mark.checklist(163, 164, "X21", "D17")
def test_metadata_takes_the_id_first_and_the_name_only_where_no_id_is_given(client: WireClient) -> None:
    names = [unique(), unique()]
    ids = [create(client, name).topic_id for name in names]

    def asked(*pairs: tuple[str | None, Uuid]) -> list[tuple[int, str | None, Uuid]]:
        topics = [m.MetadataRequest_MetadataRequestTopic(name=name, topic_id=topic_id) for name, topic_id in pairs]
        answer = client.call(m.MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
        return [(topic.error_code, topic.name, topic.topic_id) for topic in answer.topics]

    assert asked((names[0], Uuid.ZERO)) == [(0, names[0], ids[0])]
    # If both are given, the id counts, whatever the name is.
    assert asked((names[0], ids[1])) == [(0, names[1], ids[1])]
    assert asked(("no-such-topic", ids[1])) == [(0, names[1], ids[1])]
    # If one topic has an id in the request, all names are ignored.
    assert asked((names[0], Uuid.ZERO), (None, ids[1])) == [(0, names[1], ids[1])]
    assert asked((None, ids[0]), (None, ids[1])) == [(0, names[0], ids[0]), (0, names[1], ids[1])]
    ((code, _, answered),) = asked((None, Uuid.METADATA))
    assert (code, answered) == (ErrorCode.UNKNOWN_TOPIC_ID, Uuid.METADATA)


@pytest.mark.checklist(1, 2, 8, 163, 166)
def test_the_id_of_a_topic_stays_and_that_of_the_next_one_is_another(client: WireClient) -> None:
    name = unique()
    first = create(client, name).topic_id
    assert metadata(client, 12, name).topics[0].topic_id == first
    second = recreate(client, name)
    assert second not in (first, Uuid.ZERO, Uuid.METADATA)
    assert metadata(client, 12, name).topics[0].topic_id == second
    assert metadata(client, 12, first).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
    delete(client, second)
    # The topic is gone at once: clients see no state in between.
    assert metadata(client, 12, name).topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    everything = client.call(m.MetadataRequest(topics=None), 12).topics
    assert name not in {topic.name for topic in everything}


@pytest.mark.checklist(58, 154, 155, 156, "D23")
def test_create_topics_answers_the_id_of_what_it_created(client: WireClient) -> None:
    name = unique()
    row = create(client, name, 2, **{"retention.ms": "1000"})
    assert row.topic_id == metadata(client, 12, name).topics[0].topic_id
    assert (row.name, row.num_partitions, row.replication_factor, row.topic_config_error_code) == (name, 2, 1, 0)
    configs = {config.name: config for config in row.configs}
    shown = configs["retention.ms"]
    assert (shown.value, shown.read_only, shown.config_source, shown.is_sensitive) == ("1000", False, 1, False)
    assert configs["cleanup.policy"].config_source != 1
    again = m.CreateTopicsRequest_CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    (refused,) = client.call(m.CreateTopicsRequest(topics=[again], timeout_ms=30_000), 7).topics
    assert (refused.error_code, refused.topic_id) == (ErrorCode.TOPIC_ALREADY_EXISTS, Uuid.ZERO)
    # With validate_only there is no topic, so there is no id.
    trial = m.CreateTopicsRequest_CreatableTopic(name=unique(), num_partitions=1, replication_factor=1)
    answer = client.call(m.CreateTopicsRequest(topics=[trial], timeout_ms=30_000, validate_only=True), 7)
    assert (answer.topics[0].error_code, answer.topics[0].topic_id) == (0, Uuid.ZERO)


@pytest.mark.checklist(58, 183, 185, 186, 187, 189, 190, "A24")
def test_delete_topics_by_id_deletes_that_topic_only(client: WireClient) -> None:
    name, other = unique(), unique()
    old = create(client, name).topic_id
    kept = create(client, other).topic_id
    new = recreate(client, name)
    (stale,) = delete(client, old)
    assert (stale.error_code, stale.topic_id, stale.name) == (ErrorCode.UNKNOWN_TOPIC_ID, old, None)
    assert [topic.topic_id for topic in metadata(client, 12, name, other).topics] == [new, kept]
    by_id, by_name = delete(client, new, other)
    assert (by_id.error_code, by_id.name, by_id.topic_id) == (0, name, new)
    assert (by_name.error_code, by_name.name, by_name.topic_id) == (0, other, kept)
    for version in range(6):
        topic = unique()
        create(client, topic)
        answer = client.call(m.DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000), version)
        assert [(row.name, row.error_code) for row in answer.responses] == [(topic, 0)]


@pytest.mark.checklist("X21", "D18", "A25")
def test_delete_topics_refuses_what_can_be_read_in_two_ways(client: WireClient) -> None:
    name = unique()
    topic_id = create(client, name).topic_id

    def codes(*pairs: tuple[str | None, Uuid]) -> set[int]:
        states = [m.DeleteTopicsRequest_DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in pairs]
        answer = client.call(m.DeleteTopicsRequest(topics=states, timeout_ms=30_000), 6)
        return {row.error_code for row in answer.responses}

    invalid = {int(ErrorCode.INVALID_REQUEST)}
    assert codes((name, topic_id)) == invalid
    assert codes((None, Uuid.ZERO)) == invalid
    assert codes((name, Uuid.ZERO), (name, Uuid.ZERO)) == invalid
    assert codes((None, topic_id), (None, topic_id)) == invalid
    assert codes((name, Uuid.ZERO), (None, topic_id)) == invalid
    assert metadata(client, 12, topic_id).topics[0].error_code == 0


@pytest.mark.checklist("A37")
def test_names_that_no_directory_should_have(start_broker: StartBroker) -> None:
    broker = start_broker()
    with WireClient(broker.port) as client:

        def code(name: str) -> int:
            topic = m.CreateTopicsRequest_CreatableTopic(name=name, num_partitions=1, replication_factor=1)
            (row,) = client.call(m.CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7).topics
            assert (row.topic_id == Uuid.ZERO) == bool(row.error_code)
            return int(row.error_code)

        # This is the last topic that a start creates; a broker answers a little earlier.
        until((broker.data_dir / "diagnose.sock").exists)
        before = sorted(broker.data_dir.iterdir())
        for name in [
            "",
            ".",
            "..",
            "a/b",
            "../a",
            "a\0b",
            "a b",
            "a\nb",
            "\u00e4",
            "\U0001f600",
            "x" * 250,
            "%2e%2e",
            "a\\b",
        ]:
            assert code(name) == ErrorCode.INVALID_TOPIC_EXCEPTION, name
        assert sorted(broker.data_dir.iterdir()) == before
        longest = "x" * 249
        assert code(longest) == 0
        assert code("a.b") == 0
        assert code("a_b") == ErrorCode.INVALID_TOPIC_EXCEPTION, "their metrics would have one name"
        # The longest name is staged like any other: its directory there is named by the id.
        (gone,) = delete(client, longest)
        assert gone.error_code == 0
        assert code(longest) == 0
