"""AdminClient's calls for features that only pybroker has: history of topics, staged ingests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

import pybroker
from pybroker.client import (
    AdminClient,
    DeletedReplica,
    ErrorCode,
    IngestState,
    KafkaError,
    NewTopic,
    TopicCollection,
    UnknownTopicError,
    UnsupportedVersionError,
    Uuid,
    blocking,
)
from tests.client.conftest import known
from tests.client.test_consumer import write
from tests.ingest.client import Attempt, IngestClient
from tests.support.brokers import BrokerProcess


@pytest.fixture(scope="module")
def broker() -> Iterator[pybroker.Broker]:
    with pybroker.Broker() as started:
        yield started


@pytest.fixture
async def admin(broker: pybroker.Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap})


async def made(admin: AdminClient, broker: pybroker.Broker, name: str, *values: str) -> Uuid:
    topic_id = await admin.create_topics([NewTopic(name, 1, 1)]).topic_id(name)
    if values:
        await write(broker.bootstrap, name, *values)
    return topic_id


async def test_what_is_deleted_is_shown_and_comes_back(admin: AdminClient, broker: pybroker.Broker, name: str) -> None:
    topic_id = await made(admin, broker, name, "a", "b")
    await admin.delete_topics([name])
    async with asyncio.timeout(60):
        while True:
            [deletion] = [each for each in await admin.describe_deletions() if each.topic_id == topic_id]
            if deletion.state == "staged":
                break
            await asyncio.sleep(0.01)
    assert (deletion.name, deletion.how) == (name, "delete")
    assert deletion.deleted_ms > 0
    [replica] = deletion.replicas
    assert isinstance(replica, DeletedReplica)
    assert (replica.partition, replica.state) == (0, "staged")
    assert replica.remaining_ms is not None
    assert replica.remaining_ms > 0
    for wanted in ([name], TopicCollection.of_topic_ids([topic_id])):
        assert [each.topic_id for each in await admin.describe_deletions(wanted)] == [topic_id]

    undeleted = (await admin.undelete_topics({topic_id: f"{name}-again"}))[topic_id]
    assert (undeleted.name, undeleted.topic_id) == (f"{name}-again", topic_id)
    assert await admin.describe_deletions(TopicCollection.of_topic_ids([topic_id])) == []
    with pytest.raises(KafkaError):
        await admin.undelete_topics([topic_id])


async def test_truncation_makes_a_new_topic_of_the_name(admin: AdminClient, broker: pybroker.Broker, name: str) -> None:
    old = await made(admin, broker, name, "a", "b")
    truncated = (await admin.truncate_topics([name]))[name]
    assert (truncated.name, truncated.old_topic_id) == (name, old)
    assert (await admin.list_topics())[name].topic_id == truncated.topic_id != old
    again = (await admin.truncate_topics(TopicCollection.of_topic_ids([truncated.topic_id]), keep_offsets=True))[
        truncated.topic_id
    ]
    assert again.old_topic_id == truncated.topic_id
    with pytest.raises(KafkaError) as gone:
        await admin.truncate_topics(TopicCollection.of_topic_ids([old]))
    assert gone.value.code == ErrorCode.UNKNOWN_TOPIC_ID

    lives = (await admin.describe_topic_history([name]))[name]
    assert {each.topic_id: each.state == "live" for each in lives} == {
        old: False,
        truncated.topic_id: False,
        again.topic_id: True,
    }
    first = next(each for each in lives if each.topic_id == old)
    assert first.successor_id == truncated.topic_id
    assert first.created_ms is not None
    assert first.deleted_ms is not None
    assert first.created_ms <= first.deleted_ms
    assert [(each.partition, each.log_end_offset) for each in first.partitions] == [(0, 2)]
    last = next(each for each in lives if each.topic_id == again.topic_id)
    assert (last.deleted_ms, last.deleted_by, last.successor_id) == (None, None, None)
    by_id = (await admin.describe_topic_history(TopicCollection.of_topic_ids([old])))[old]
    assert old in {each.topic_id for each in by_id}


async def test_a_topic_that_does_not_exist_holds_no_other_one_up(
    admin: AdminClient, broker: pybroker.Broker, name: str
) -> None:
    old = await made(admin, broker, name, "a")
    result = admin.truncate_topics([f"{name}-never", name])
    with pytest.raises(UnknownTopicError, match=f"topic {name}-never does not exist"):
        await result
    assert (await result.values()[name]).old_topic_id == old


async def test_an_id_as_text_is_answered_with_the_way_to_make_one_of_it(admin: AdminClient) -> None:
    text = str(Uuid.random())
    asked: list[Callable[[], Awaitable[object]]] = [
        lambda: admin.undelete_topics([text]),  # type: ignore[list-item]  # what is tested
        lambda: admin.abort_ingest(text, "a"),  # type: ignore[arg-type]  # what is tested
        lambda: admin.list_ingests(topic_ids=[text]),  # type: ignore[list-item]  # what is tested
        lambda: admin.delete_topics(TopicCollection.of_topic_ids([text])),  # type: ignore[list-item]  # what is tested
    ]
    for ask in asked:
        with pytest.raises(TypeError, match=rf"{text}.*Uuid\.parse"):
            await ask()


async def test_ingests_are_listed_and_aborted(admin: AdminClient, broker: pybroker.Broker, name: str) -> None:
    topic_id = await made(admin, broker, name)
    with IngestClient(broker.port) as loader:
        attempt = Attempt(0)
        for ingest_id in ("kept", "dropped"):
            epoch = loader.begin(topic_id, f"{name}-{ingest_id}").epoch
            if ingest_id == "kept":
                loader.append(topic_id, f"{name}-{ingest_id}", epoch, attempt, 0, ["a", "b"])
                loader.commit(topic_id, f"{name}-{ingest_id}", epoch, [attempt])
    listed = await admin.list_ingests(topic_ids=[topic_id])
    assert [(each.ingest_id, each.state, each.batch_id) for each in listed] == [
        (f"{name}-dropped", IngestState.OPEN, None)
    ]
    [kept] = await admin.list_ingests(ingest_id=f"{name}-kept", include_committed=True)
    assert (kept.topic, kept.topic_id, kept.state, kept.rows) == (name, topic_id, IngestState.COMMITTED, 2)
    [partition] = kept.partitions
    assert (partition.partition, partition.base_offset, partition.end_offset) == (0, 0, 2)
    assert await admin.abort_ingest(topic_id, f"{name}-dropped") == IngestState.ABSENT
    assert await admin.abort_ingest(topic_id, f"{name}-kept") == IngestState.COMMITTED
    assert await admin.list_ingests(topic_ids=[topic_id]) == []
    with pytest.raises(KafkaError):
        await admin.abort_ingest(Uuid.random(), "never")


async def test_the_face_without_asyncio(broker: pybroker.Broker, name: str) -> None:
    def work() -> None:
        with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
            topic_id = admin.create_topics([NewTopic(name, 1, 1)]).topic_id(name)
            truncated = admin.truncate_topics([name]).all()[name]
            assert truncated.old_topic_id == topic_id
            assert len(admin.describe_topic_history([name]).all()[name]) == 2
            assert [each.topic_id for each in admin.describe_deletions([name])] == [topic_id]
            assert admin.undelete_topics({topic_id: f"{name}-old"}).all()[topic_id].name == f"{name}-old"
            assert admin.list_ingests() == []

    await asyncio.to_thread(work)


async def test_other_brokers_do_not_know_them(apache_kafka: BrokerProcess, name: str) -> None:
    async with AdminClient({"bootstrap.servers": apache_kafka.bootstrap}) as admin:
        await admin.create_topics([NewTopic(name, 1, 1)])
        await known(admin, name)
        for call in (
            admin.undelete_topics([Uuid.random()]),
            admin.truncate_topics([name]),
            admin.describe_topic_history([name]),
            admin.describe_deletions(),
            admin.list_ingests(),
        ):
            with pytest.raises(UnsupportedVersionError, match="does not support"):
                await call
