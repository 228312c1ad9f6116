"""Starts and stops the copying of partitions from their leaders; native code copies (`native/fetcher`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pybroker.broker.metadata.control_messages import LiveLeader
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.native import BrokerAddress, FollowedPartition, NativeBroker, Uuid

NOBODY = -1


class LeaderFollowing:
    """The fetchers of a broker in a cluster; used on the loop's thread. No call blocks."""

    def __init__(self, native: NativeBroker, broker_id: int) -> None:
        self._fetchers = native.fetchers
        self._broker_id = broker_id

    def start(self, login: Mapping[str, str]) -> None:
        """Start fetching, after the log directories have been opened. `login` holds the client settings of protocol,
        user and password."""
        self._fetchers.start(dict(login))

    def stop(self) -> None:
        """Stop fetching; later orders have no effect."""
        self._fetchers.stop()

    def registered(self, broker_epoch: int) -> None:
        """Set the broker epoch. Leaders take this broker into an ISR only under this epoch (KIP-903)."""
        self._fetchers.set_broker_epoch(broker_epoch)

    def follow(self, leaders: Sequence[LiveLeader], partitions: Iterable[tuple[Uuid, int, int, int]]) -> None:
        """Follow the leaders that a LeaderAndIsr names: (topic id, partition, leader, leader epoch). The partitions
        must be open on this broker."""
        followed = [FollowedPartition(*partition) for partition in partitions]
        if followed:
            addresses = [BrokerAddress(leader.broker_id, leader.host_name, leader.port) for leader in leaders]
            self._fetchers.set([address for address in addresses if address.broker_id != self._broker_id], followed)

    def leave(self, partitions: Iterable[tuple[Uuid, int, int]]) -> None:
        """Stop following partitions that this broker is stopping: (topic id, partition, last known leader epoch)."""
        self.follow((), ((topic_id, partition, NOBODY, epoch) for topic_id, partition, epoch in partitions))


class Addresses:
    """Passes the addresses of the other brokers to native code; local leaders send staged records to them. An
    `ImageObserver`."""

    def __init__(self, native: NativeBroker, broker_id: int, listener: str) -> None:
        self._fetchers = native.fetchers
        self._broker_id = broker_id
        self._listener = listener

    async def apply_change(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Pass new and changed broker addresses to native code."""
        brokers = change.brokers.values() if isinstance(change, ClusterImage) else change.brokers
        found = [
            BrokerAddress(broker.broker_id, endpoint.host, endpoint.port)
            for broker in brokers
            for endpoint in broker.endpoints
            if endpoint.listener == self._listener and broker.broker_id != self._broker_id
        ]
        if found:
            self._fetchers.set(found, [])
