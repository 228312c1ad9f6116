"""A member that closes while it joins leaves no pending state for which other members would wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from pybroker.client import AdminClient, NewTopic, ShareConsumer
from pybroker.client.client_errors import KafkaError
from tests.client.test_consumer import LIMIT_S, reader, until

pytestmark = pytest.mark.usefixtures("patient_ends")


async def members(admin: AdminClient, group: str) -> int:
    """Return the number of members that the coordinator shows."""
    try:
        return len((await admin.describe_groups([group]))[group].members)
    except KafkaError:
        return 0


async def closed_while(consumer: Any, topic: str, asked: Callable[[], Any]) -> None:
    """Close a consumer whose poll has begun to join."""
    consumer.subscribe([topic])
    polled = asyncio.create_task(consumer.poll(60.0))
    async with asyncio.timeout(LIMIT_S):
        while not asked():  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(0)
    await consumer.close()
    await polled


async def test_a_join_that_waits_for_others(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(name, 2, 1)])
    async with reader(bootstrap, group_id=name) as first:
        first.subscribe([name])
        await until(lambda: len(first.assignment()) == 2, first)
        second = reader(bootstrap, group_id=name)
        second.subscribe([name])
        polled = asyncio.create_task(second.poll(60.0))
        async with asyncio.timeout(LIMIT_S):
            while await members(admin, name) < 2:  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(0.02)
        await second.close()
        await polled
        assert await members(admin, name) == 1
        await until(lambda: len(first.assignment()) == 2, first)


async def test_the_first_join(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    ghost = reader(bootstrap, group_id=name)
    await closed_while(ghost, name, lambda: getattr(ghost._rebalances.member, "_join", None))
    assert await members(admin, name) == 0
    async with reader(bootstrap, group_id=name) as later, asyncio.timeout(30):
        # If the coordinator still had the closed member, its session would last 45 s.
        later.subscribe([name])
        while not later.assignment():
            await later.poll(0.1)


async def test_a_member_of_a_consumer_group(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    ghost = reader(bootstrap, group_id=name, group_protocol="consumer")
    await closed_while(ghost, name, lambda: getattr(ghost._rebalances.member, "_asked_in", False))
    assert await members(admin, name) == 0


async def test_a_member_of_a_share_group(admin: AdminClient, bootstrap: str, name: str) -> None:
    await admin.create_topics([NewTopic(name, 1, 1)])
    ghost = ShareConsumer({"bootstrap.servers": bootstrap, "group.id": name, "fetch.max.wait.ms": 100})
    await closed_while(ghost, name, lambda: ghost._member is not None and ghost._member._asked_in)
    assert await members(admin, name) == 0
