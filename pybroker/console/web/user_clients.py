"""Clients of one person, or of all people if there is no login."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import Any

from pybroker.client import AdminClient, Consumer, KafkaTimeoutError, Producer
from pybroker.console.queries.cluster_activity import activity
from pybroker.console.queries.measurements import History
from pybroker.console.queries.metrics_scrape import ScrapedMetrics
from pybroker.console.queries.visible_topics import TopicNames

READERS_MAX = 8
"""Limit of consumers that one person may use at the same time. Further requests wait."""
TAILS_MAX = 8
"""Limit of live tails of one person, or of all people if there is no login."""

PAGE_FETCH_WAIT_MS = 10
PING_MS = 600

_READING = {
    "on.topic.missing": "fail",
    "allow.auto.create.topics": False,
    "auto.offset.reset": "earliest",
    "enable.auto.commit": False,
    "fetch.max.bytes": 4 << 20,
    "max.partition.fetch.bytes": 1 << 20,
    # A single record that is larger is still received. The console needs no larger responses.
    "receive.message.max.bytes": 64 << 20,
}


class Clients:
    """A permanent AdminClient, and temporary consumers and producers."""

    def __init__(self, config: Mapping[str, Any], scraped: ScrapedMetrics) -> None:
        self._config = dict(config)
        self._admin: AdminClient | None = None
        self._probe: AdminClient | None = None
        self.history = History(lambda: activity(self.admin, scraped))
        self.topic_names = TopicNames()
        self._tails = 0
        self._readers = asyncio.Semaphore(READERS_MAX)

    @property
    def admin(self) -> AdminClient:
        """Return the admin client; connect at the first call."""
        if self._admin is None:
            self._admin = AdminClient(self._config)
        return self._admin

    async def ping(self) -> None:
        """Send a request to any broker. If none responds, raise the client's error soon after PING_MS."""
        if self._probe is None:
            limits = {"request.timeout.ms": PING_MS, "default.api.timeout.ms": PING_MS}
            self._probe = AdminClient({**self._config, **limits, "socket.connection.setup.timeout.ms": PING_MS})
        try:
            await asyncio.wait_for(self._probe.describe_cluster(), PING_MS / 1000 + 0.05)
        except TimeoutError as error:
            raise KafkaTimeoutError(str(error) or f"no broker responded within {PING_MS} ms") from None

    @contextlib.asynccontextmanager
    async def consumer(self, **settings: Any) -> AsyncIterator[Consumer]:
        """Yield a consumer for a page; it commits nothing."""
        # A page ends at the end of the partitions. A long fetch wait would only delay other partitions.
        page = {**_READING, "fetch.max.wait.ms": PAGE_FETCH_WAIT_MS}
        over = {name.replace("_", "."): value for name, value in settings.items()}
        async with self._readers, Consumer({**self._config, **page, **over}) as consumer:
            yield consumer

    @property
    def tails_left(self) -> int:
        """Return how many more live tails may begin."""
        return TAILS_MAX - self._tails

    @contextlib.asynccontextmanager
    async def tail(self) -> AsyncIterator[Consumer]:
        """Yield a consumer for a page that stays open."""
        self._tails += 1
        try:
            async with Consumer({**self._config, **_READING}) as consumer:
                yield consumer
        finally:
            self._tails -= 1

    @contextlib.asynccontextmanager
    async def producer(self) -> AsyncIterator[Producer]:
        """Yield a producer for a form."""
        waits = {"max.block.ms": 10_000, "delivery.timeout.ms": 15_000, "request.timeout.ms": 10_000, "linger.ms": 0}
        async with Producer({**self._config, **waits}) as producer:
            yield producer

    async def close(self) -> None:
        """Close the permanent clients."""
        await self.history.close()
        for client in (self._admin, self._probe):
            if client is not None:
                await client.close()
        self._admin = self._probe = None
