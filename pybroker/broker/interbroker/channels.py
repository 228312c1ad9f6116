"""The controller's channels to the brokers of a cluster, one for each broker epoch."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from pybroker.broker.cluster.channel import Channel
from pybroker.broker.interbroker.remote_channel import RemoteChannel
from pybroker.broker.metadata.image import BrokerImage

DRAIN_SECONDS_MAX = 5.0
"""Seconds that a stopping controller waits for other brokers. They may be down, and the next controller sends them
everything anyway.
"""


class BrokerChannels:
    """`Channels` to all brokers of a cluster. The channel to the controller's own broker is in this process."""

    def __init__(self, broker_id: int, local: Channel, open_connection: Callable[[BrokerImage], RemoteChannel]) -> None:
        self._broker_id = broker_id
        self._local = local
        self._open_connection = open_connection
        self._remote: dict[int, tuple[int, RemoteChannel]] = {}

    def to(self, broker: BrokerImage) -> Channel | None:
        """Return the channel to this epoch of a broker; open it if needed."""
        if broker.broker_id == self._broker_id:
            return self._local
        known = self._remote.get(broker.broker_id)
        if known is None or known[0] != broker.epoch:
            if known is not None:
                known[1].close()
            known = broker.epoch, self._open_connection(broker)
            self._remote[broker.broker_id] = known
        return known[1]

    def follow(self, brokers: Mapping[int, BrokerImage]) -> None:
        """Close the channels to lost brokers and to earlier broker epochs."""
        for broker_id, (epoch, channel) in list(self._remote.items()):
            broker = brokers.get(broker_id)
            if broker is None or broker.epoch != epoch:
                channel.close()
                del self._remote[broker_id]

    async def close(self) -> None:
        """Wait for answers up to the limit, then close all channels."""
        channels = [channel for _, channel in self._remote.values()]
        if channels:
            drained = [asyncio.ensure_future(channel.drain()) for channel in channels]
            _, late = await asyncio.wait(drained, timeout=DRAIN_SECONDS_MAX)
            for task in late:
                task.cancel()
        self.follow({})
        await self._local.drain()
