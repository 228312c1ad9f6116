"""The client also works on uvloop, whose transports differ from asyncio's."""

from __future__ import annotations

import pytest

from pybroker.client import AdminClient, NewTopic
from tests.support.brokers import BrokerProcess

uvloop = pytest.importorskip("uvloop", reason="uvloop does not come with every platform")


def test_on_uvloop(broker: BrokerProcess) -> None:
    async def work() -> set[str]:
        async with AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:
            await admin.create_topics([NewTopic("on-uvloop", 1, 1)])
            return set(await admin.list_topics())

    assert "on-uvloop" in uvloop.run(work())
