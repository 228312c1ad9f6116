"""What a consumer and a producer have in common: settings, one start, one end."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Any, Self

from pybroker.client.cluster import Cluster
from pybroker.client.config import ClientConfig
from pybroker.client.connection.network import Network
from pybroker.client.connection.patience import INTERRUPTED_MAX_S, INTERRUPTED_SILENCE_S, SILENCE_S, Patience
from pybroker.client.plugins.metrics import ClientMetrics

log = logging.getLogger(__name__)


class LivingClient(ABC):
    """Connects when it is first used, once; ends once, in good order, and never waits for brokers that are away."""

    _kind: str
    """What it is, for messages."""
    _end_max_s: float | None = None
    """Longest end while brokers answer; None = no limit."""

    def __init__(self, config: ClientConfig, metric_names: tuple[str, ...]) -> None:
        self._config = config
        self._metrics = ClientMetrics(config["client.id"], metric_names)
        self._plugins: list[Any] = []
        self._network: Network | None = None
        self._starting: asyncio.Task[None] | None = None
        self._ending = self._closed = False
        self._interrupted = False
        """Whether the end comes by an exception."""

    @property
    def cluster(self) -> Cluster:
        """What is known of the cluster so far."""
        return self._network.cluster if self._network is not None else Cluster()

    def metrics(self) -> ClientMetrics:
        """This client's metrics."""
        return self._metrics

    # Start --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Connects now rather than with the first call that needs it. Raises BrokerConnectionError,
        AuthenticationError, …
        """
        await self._start()

    async def _start(self) -> None:
        self._refuse_if_closed()
        if self._is_started():
            return
        if self._starting is None or self._starting.done():
            self._starting = asyncio.create_task(self._connect())
            # Whoever waited for it may be gone: an interrupt ends the wait, and `close` then the attempt.
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
        """Whether `_begin` was called."""

    @abstractmethod
    def _begin(self, network: Network) -> None:
        """There are connections now."""

    # End ----------------------------------------------------------------------------------------------------

    async def close(self, timeout_s: float | None = None) -> None:
        """Finishes what is to be finished, then closes all connections; closed is closed, however it went.

        timeout_s: the longest that may take; None = as long as a broker answers, 5 seconds of silence at most.
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
                patience = Patience(network, timeout_s, silence_s)
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

    async def _before_end(self, patience: Patience) -> None:  # noqa: B027 - most have nothing of the kind
        """What must still get in."""

    def _gave_up(self, network: Network, what: str) -> None:
        """Something at the end took too long."""
        cause = network.trouble.cause
        log.warning("[%s] %s%s", self._config["client.id"], what, f": {cause}" if cause is not None else "")

    @abstractmethod
    async def _finish(self, patience: Patience) -> None:
        """What is due before the end, for as long as there is patience."""

    @abstractmethod
    async def _stop(self) -> None:
        """Ends what runs in the background, at once."""
