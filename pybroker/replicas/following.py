"""Whom the partitions on this broker follow: told to native code, which copies (`native/fetcher`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pybroker.metadata.control_messages import LiveLeader
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
