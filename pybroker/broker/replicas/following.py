"""Whom the partitions on this broker follow: told to native code, which copies (`native/fetcher`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pybroker.broker.metadata.control_messages import LiveLeader
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.native import BrokerAddress, FollowedPartition, NativeBroker, Uuid

NOBODY = -1


class Following:
    """Of one broker in a cluster. On the loop's thread; nothing here waits."""

    def __init__(self, native: NativeBroker, broker_id: int) -> None:
        self._fetchers = native.fetchers
        self._broker_id = broker_id

    def start(self, login: Mapping[str, str]) -> None:
        """After the log directories have been opened. `login`: a client's settings of protocol, user and password."""
        self._fetchers.start(dict(login))

    def stop(self) -> None:
        """Follows nobody any more, whatever is told later."""
        self._fetchers.stop()

    def registered(self, broker_epoch: int) -> None:
        """A life of this broker begins: leaders take it into their ISRs under that number (KIP-903)."""
        self._fetchers.set_broker_epoch(broker_epoch)

    def obey(self, leaders: Sequence[LiveLeader], partitions: Iterable[tuple[Uuid, int, int, int]]) -> None:
        """What LeaderAndIsr says: (topic id, partition, leader, leader epoch), once they are open here."""
        followed = [FollowedPartition(*one) for one in partitions]
        if followed:
            addresses = [BrokerAddress(one.broker_id, one.host_name, one.port) for one in leaders]
            self._fetchers.set([one for one in addresses if one.broker_id != self._broker_id], followed)

    def leave(self, partitions: Iterable[tuple[Uuid, int, int]]) -> None:
        """They are stopped here: (topic id, partition, the leader epoch that was known)."""
        self.obey((), ((topic_id, partition, NOBODY, epoch) for topic_id, partition, epoch in partitions))


class Addresses:
    """Where the other brokers are, for what leaders here bring them (staged records); `known_cluster.Obeys`."""

    def __init__(self, native: NativeBroker, broker_id: int, listener: str) -> None:
        self._fetchers = native.fetchers
        self._broker_id = broker_id
        self._listener = listener

    async def obey(self, before: ClusterImage, after: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Tells native code of brokers that are new or elsewhere."""
        brokers = change.brokers.values() if isinstance(change, ClusterImage) else change.brokers
        found = [
            BrokerAddress(broker.broker_id, endpoint.host, endpoint.port)
            for broker in brokers
            for endpoint in broker.endpoints
            if endpoint.listener == self._listener and broker.broker_id != self._broker_id
        ]
        if found:
            self._fetchers.set(found, [])
