"""A `with` block that is left by an exception commits only the records that its loop has finished."""

from __future__ import annotations

import asyncio

import pytest

from pybroker.client import AdminClient, NewTopic, OffsetAndMetadata, TopicPartition, blocking
from tests.client.test_consumer import reader, write

pytestmark = pytest.mark.usefixtures("patient_ends")


class BodyError(Exception):
    """The exception that the loop's body raises."""


async def committed(admin: AdminClient, group: str, topic: str) -> dict[int, int]:
    found = await admin.list_consumer_group_offsets(group)
    return {where.partition: offset.offset for where, offset in found.items() if where.topic == topic}


async def _topic(admin: AdminClient, bootstrap: str, name: str, partitions: int = 1) -> None:
    await admin.create_topics([NewTopic(name, partitions, 1)])
    for index in range(partitions):
        await write(bootstrap, name, *map(str, range(10)), partition=index)


async def test_the_record_of_an_iteration_that_failed_is_read_again(
    admin: AdminClient, bootstrap: str, name: str
) -> None:
    await _topic(admin, bootstrap, name)

    async def read() -> None:
        async with reader(bootstrap, group_id=name) as consumer:
            consumer.subscribe([name])
            async for record in consumer:
                if record.offset == 4:
                    raise BodyError

    with pytest.raises(BodyError):
        await read()
    assert await committed(admin, name, name) == {0: 4}
    async with reader(bootstrap, group_id=name) as consumer:
        consumer.subscribe([name])
        async for record in consumer:
            assert record.offset == 4
            break  # there is no exception: the record counts as finished
    assert await committed(admin, name, name) == {0: 5}


async def test_the_records_of_a_poll_that_failed_are_read_again(admin: AdminClient, bootstrap: str, name: str) -> None:
    await _topic(admin, bootstrap, name, 2)
    seen: dict[int, int] = {}

    async def read() -> None:
        async with reader(bootstrap, group_id=name, max_poll_records=3) as consumer:
            consumer.subscribe([name])
            while True:
                batch = await consumer.getmany(60.0)
                if sum(seen.values()) >= 9:
                    raise BodyError
                seen.update({where.partition: records[-1].offset + 1 for where, records in batch.items()})

    with pytest.raises(BodyError):
        await read()
    assert await committed(admin, name, name) == seen


async def test_what_the_loop_committed_itself_stays(admin: AdminClient, bootstrap: str, name: str) -> None:
    await _topic(admin, bootstrap, name)
    for given, expected in ((None, 10), (7, 7), (0, 0)):
        group, where = f"{name}-{given}", TopicPartition(name, 0)

        async def read(group: str = group, where: TopicPartition = where, given: int | None = given) -> None:
            async with reader(bootstrap, group_id=group) as consumer:
                consumer.subscribe([name])
                while not await consumer.poll(60.0):
                    pass
                await consumer.commit(None if given is None else {where: OffsetAndMetadata(given)})
                raise BodyError

        with pytest.raises(BodyError):
            await read()
        assert await committed(admin, group, name) == {0: expected}


async def test_nothing_is_committed_where_it_is_not_done_by_itself(
    admin: AdminClient, bootstrap: str, name: str
) -> None:
    await _topic(admin, bootstrap, name)

    async def read() -> None:
        async with reader(bootstrap, group_id=name, enable_auto_commit=False) as consumer:
            consumer.subscribe([name])
            async for record in consumer:
                if record.offset == 4:
                    raise BodyError

    with pytest.raises(BodyError):
        await read()
    assert await committed(admin, name, name) == {}


async def test_the_face_without_asyncio(admin: AdminClient, bootstrap: str, name: str) -> None:
    await _topic(admin, bootstrap, name)

    def read(*, commit: bool) -> None:
        config = {"bootstrap.servers": bootstrap, "group.id": name, "auto.offset.reset": "earliest"}
        with blocking.Consumer(config) as consumer:
            consumer.subscribe([name])
            for record in consumer:
                if record.offset == 4:
                    if commit:
                        consumer.commit()
                    raise BodyError

    for commit, expected in ((False, 4), (True, 5)):
        with pytest.raises(BodyError):
            await asyncio.to_thread(read, commit=commit)
        assert await committed(admin, name, name) == {0: expected}
