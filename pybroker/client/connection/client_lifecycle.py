"""The common base of consumers and producers: settings, one start, one close."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self

from pybroker.client.cluster_metadata import Cluster
from pybroker.client.config import ClientConfig
from pybroker.client.connection.close_timeout import INTERRUPTED_MAX_S, INTERRUPTED_SILENCE_S, SILENCE_S, CloseTimeout
from pybroker.client.connection.network import Network
from pybroker.client.plugins.client_metrics import ClientMetrics

log = logging.getLogger(__name__)


class ClientLifecycle(ABC):
    """A client that connects once, on first use, and closes once. The close follows a fixed order and does not wait for
    unreachable brokers."""

    _kind: str
    """The kind of client in messages, such as "consumer"."""
    _end_max_s: float | None = None
    """Longest time in seconds that a close takes while brokers respond; None = no limit."""

    def __init__(self, config: ClientConfig, metric_names: tuple[str, ...]) -> None:
        self._config = config
        self._metrics = ClientMetrics(config["client.id"], metric_names)
        self._plugins: list[Any] = []
        self._network: Network | None = None
        self._starting: asyncio.Task[None] | None = None
        self._ending = self._closed = False
        self._interrupted = False
        """Whether an exception has caused the close."""

    @property
    def cluster(self) -> Cluster:
        """The newest cluster metadata that the client has received."""
        return self._network.cluster if self._network is not None else Cluster()

    def metrics(self) -> ClientMetrics:
        """Return this client's metrics."""
        return self._metrics

    # Start --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connect now instead of in the first call that needs a connection. Raises BrokerConnectionError if no broker
        can be reached, AuthenticationError if the login fails, …
        """
        await self._start()

    async def _start(self) -> None:
        self._refuse_if_closed()
        if self._is_started():
            return
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._connect())
            # Retrieve the exception. Otherwise asyncio warns about it if an interrupt has ended the caller's wait.
            self._starting.add_done_callback(lambda done: done.cancelled() or done.exception())
        await asyncio.shield(self._starting)

    async def _connect(self) -> None:
        if self._network is None:
            self._network = Network(self._config)
            self._network.metadata.add_listeners([self._metrics, *self._plugins])
        await self._network.refresh(())
        self._refuse_if_closed()
        self._begin(self._network)

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise RuntimeError(f"the {self._kind} is closed")

    @abstractmethod
    def _is_started(self) -> bool:
        """Return whether `_begin` was called."""

    @abstractmethod
    def _begin(self, network: Network) -> None:
        """Build the parts that need connections."""

    # End ----------------------------------------------------------------------------------------------------

    async def close(self, timeout_s: float | None = None) -> None:
        """Finish pending work, then close all connections. Even if this fails, the client is closed.

        timeout_s: time limit; None = no limit while a broker responds. If no broker responds for 5 seconds, the wait
        ends.
        """
        if timeout_s is None:
            await self._end(self._end_max_s, SILENCE_S)
        else:
            await self._end(timeout_s, None)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if kind is None:
            await self.close()
        else:
            self._interrupted = True
            await self._end(INTERRUPTED_MAX_S, INTERRUPTED_SILENCE_S)

    async def _end(self, timeout_s: float | None, silence_s: float | None) -> None:
        if self._ending:
            return
        self._ending = True
        network = self._network
        try:
            if network is not None:
                patience = CloseTimeout(network, timeout_s, silence_s)
                await self._before_end(patience)
                self._closed = True
                await self._finish(patience)
        finally:
            self._closed = True
            await self._stop()
            if network is not None:
                await network.close()
            for plugin in self._plugins:
                plugin.close()

    async def _before_end(self, patience: CloseTimeout) -> None:  # noqa: B027 - most clients have no such work
        """Complete calls that started before the close."""

    def _close_timed_out(self, network: Network, what: str) -> None:
        """Log that a step of the close took too long."""
        cause = network.trouble.cause
        log.warning("[%s] %s%s", self._config["client.id"], what, f": {cause}" if cause is not None else "")

    @abstractmethod
    async def _finish(self, patience: CloseTimeout) -> None:
        """Do the work that must be done before the close, within `patience` (the close timeout)."""

    @abstractmethod
    async def _stop(self) -> None:
        """Stop all background work without waiting for it."""
