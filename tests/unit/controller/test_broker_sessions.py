"""Waits for brokers that have not applied a change when a controller's term ends."""

from __future__ import annotations

import msgspec

from pybroker.broker.controller.broker_sessions import BrokerSessions
from pybroker.broker.controller.offset_relay import OffsetRelay
from pybroker.broker.metadata.image import BrokerImage, ClusterImage
from pybroker.broker.quorum.applied_offsets import AppliedOffsets

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
