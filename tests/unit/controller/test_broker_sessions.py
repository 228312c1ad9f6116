"""Sessions of brokers: waits for brokers that have not applied a change when a controller's term ends, and checks of
silent brokers."""

from __future__ import annotations

import asyncio
from random import Random

import msgspec

from pybroker.broker.cluster.quorum_events import BrokerHeartbeat
from pybroker.broker.controller.broker_sessions import BrokerSessions
from pybroker.broker.controller.internal_events import BrokerSessionEnded
from pybroker.broker.controller.offset_relay import OffsetRelay
from pybroker.broker.metadata.image import BrokerImage, ClusterImage
from pybroker.broker.quorum.applied_offsets import AppliedOffsets
from tests.simulation.loop import SimulatedLoop

BROKER = BrokerImage(2, 7, (), None)


async def test_no_wait_outlives_the_term() -> None:
    """The log commits a decision while the controller stops; the controller then waits for the brokers after `stop`."""
    image = msgspec.structs.replace(ClusterImage.initial(1), brokers={2: BROKER})
    offsets = AppliedOffsets()
    sessions = BrokerSessions(1, 60, lambda _: None, offsets, OffsetRelay(offsets, lambda: None))
    sessions.start(image)
    before = sessions.applied([2], 100)
    await sessions.stop()
    after = sessions.applied([2], 101)
    assert [future.cancelled() for future in (*before, *after)] == [True, True]


class CountingLoop(SimulatedLoop):
    """Counts its timers."""

    timers = 0

    def call_at(self, *args: object, **options: object) -> asyncio.TimerHandle:
        self.timers += 1
        return super().call_at(*args, **options)  # type: ignore[arg-type]


def test_a_silent_broker_is_fenced_in_time_and_others_cost_few_checks() -> None:
    loop = CountingLoop(Random(1))
    ended: list[tuple[BrokerSessionEnded, float]] = []

    async def scene() -> tuple[float, int]:
        image = msgspec.structs.replace(ClusterImage.initial(1), brokers={2: BROKER})
        offsets = AppliedOffsets()
        sessions = BrokerSessions(
            1, 3, lambda event: ended.append((event, loop.time())), offsets, OffsetRelay(offsets, lambda: None)
        )
        sessions.start(image)
        for _ in range(120):
            sessions.heartbeat(BrokerHeartbeat(2, 7, 1))
            await asyncio.sleep(0.5)
        assert ended == []
        checks, heard = loop.timers - 120, loop.time() - 0.5
        await asyncio.sleep(4)
        await sessions.stop()
        return heard, checks

    heard, checks = loop.run_until_complete(scene())
    assert checks <= 70
    assert [event for event, _ in ended] == [BrokerSessionEnded(2, 7)]
    assert 3 <= ended[0][1] - heard < 3.4
