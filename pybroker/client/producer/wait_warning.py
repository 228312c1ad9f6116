"""The warning that a producer logs while records wait and no record is acknowledged."""

from __future__ import annotations

import logging

from pybroker.client.config import ClientConfig
from pybroker.client.connection.network import Network
from pybroker.client.producer.accumulator import PartitionQueue

log = logging.getLogger(__name__)

AFTER_S = 5.0
AGAIN_S = 30.0
LATE_S = 1.0
"""If a check is late by this many seconds, this process was blocked, and acknowledgements may be waiting unread."""


class WaitWarning:
    """Logs a WARN with the cause after 5 s without a completed batch, and again every 30 s."""

    def __init__(self, config: ClientConfig, network: Network) -> None:
        self._name: str = config["client.id"]
        self._limit = f"delivery.timeout.ms={config['delivery.timeout.ms']}"
        self._network = network
        self._since = self._due = 0.0
        self._settled = True

    def settled(self) -> None:
        """Record that a batch has completed."""
        self._settled = True

    def check(self, where: PartitionQueue, now: float) -> float:
        """Warn if the records of a queue have waited too long; `queue` must not be empty. Return the loop time of the
        next check."""
        oldest = (where.in_flight or where.retries or where.queue)[0]
        if self._settled:
            self._settled = False
            self._since = max(now, oldest.linger_end)
            self._due = self._since + AFTER_S
        if now < self._due:
            return self._due
        if now - self._due > LATE_S:
            self._due = now + LATE_S
            return self._due
        self._due = now + AGAIN_S
        count = sum(len(batch) for batch in (*where.in_flight, *where.unsent()))
        log.warning(
            "[%s] %d record%s for %s waited %.0f s so far and will fail after %s: %s",
            self._name,
            count,
            "" if count == 1 else "s",
            where.where,
            now - self._since,
            self._limit,
            oldest.trouble or self._network.trouble.cause or self._missing(where),
        )
        return self._due

    def _missing(self, where: PartitionQueue) -> str:
        leader = self._network.cluster.leader_id(where.where)
        return "the partition has no leader" if leader < 0 else f"broker {leader} has not acknowledged them"
