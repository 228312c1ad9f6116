"""Fast detection of killed brokers, before their session with the store ends.

The controller has a connection to every other broker, and every other broker has one to the controller. If such a
connection breaks, the broker at its other end and a third broker (the witness) test the port of the lost broker. If the
port refuses connections from both for 300 ms, the process of the lost broker counts as dead. A hanging or unreachable
broker does not refuse connections; it is lost when its session expires. A cluster of two brokers has no witness, so a
killed broker there is also lost only when its session expires.

A wrong verdict is harmless (for example if a firewall refuses connections for the broker): the new leaders have new
epochs, and the broker registers again.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Protocol

from pybroker.broker.cluster.cluster_view import ClusterView, ControllerLeadership
from pybroker.broker.interbroker.connector import Connector
from pybroker.broker.interbroker.interbroker_connection import UNREACHABLE, ask_once
from pybroker.broker.metadata.image import BrokerImage
from pybroker.protocol import interbroker as wire

REFUSED_S = 0.3
"""Seconds for which a port must refuse connections until its process counts as dead. This is longer than a restart, or
a moment without a listener."""
TRY_EVERY_S = 0.05


async def refuses(host: str, port: int) -> bool:
    """Return whether every connection is refused for `REFUSED_S`. Return False as soon as a connection is not refused.
    The operating system refuses connections for a dead process at once. A hanging process or an unreachable machine is
    not detected.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + REFUSED_S
    while await _refuses_now(host, port):
        if loop.time() >= end:
            return True
        await asyncio.sleep(TRY_EVERY_S)
    return False


async def _refuses_now(host: str, port: int) -> bool:
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError:
        return False
    for family, kind, protocol, _, address in found:
        with socket.socket(family, kind, protocol) as one:
            one.setblocking(False)
            try:
                async with asyncio.timeout(REFUSED_S):
                    await loop.sock_connect(one, address)
            except ConnectionRefusedError:
                continue
            except (OSError, TimeoutError):
                return False
            return False
    return bool(found)


log = logging.getLogger(__name__)

PAUSE_S = 0.1
AGAIN_S_MAX = 60
WITNESSES_MAX = 3
WITNESS_S = REFUSED_S + 1.0
"""Timeout for the answer of a witness."""

Report = Callable[[BrokerImage], Awaitable[None]]


class ObservedView(ClusterView, Protocol):
    """The view, with notification of its changes."""

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call `callback` after this broker has applied a change."""
        ...


class PeerWatch:
    """The peer watch of one broker of a cluster; used on the loop's thread."""

    def __init__(
        self,
        *,
        broker_id: int,
        view: ObservedView,
        leadership: ControllerLeadership,
        open_connection: Connector,
        fence: Report,
        unseat: Report,
    ) -> None:
        """If a broker is dead, the controller calls `fence`. If the controller is dead, another broker calls `unseat`.
        Neither function raises an exception.
        """
        self._broker_id = broker_id
        self._view = view
        self._leadership = leadership
        self._open_connection = open_connection
        self._fence = fence
        self._unseat = unseat
        self._verdicts: Counter[tuple[int, bool]] = Counter()
        """(broker, whether this broker was the controller) → number of times that the broker was found dead since its
        last connection. The two counts are separate, so that a new controller need not pause because of a verdict about
        its predecessor.
        """
        self._watches: dict[tuple[int, int], asyncio.Task[None]] = {}
        self._stopped = False

    def start(self) -> None:
        """Begin to watch: the controller watches all brokers, any other broker watches the controller."""
        self._leadership.on_change(self._look)
        self._view.on_change(self._look)
        self._look()

    async def stop(self) -> None:
        """Stop all watches."""
        self._stopped = True
        watches, self._watches = list(self._watches.values()), {}
        for watch in watches:
            watch.cancel()
        await asyncio.gather(*watches, return_exceptions=True)

    async def probe(self, broker_id: int, broker_epoch: int) -> bool:
        """Answer another broker's question: return whether the port of a broker in that epoch refuses connections from
        this broker."""
        broker = self._view.image.brokers.get(broker_id)
        if broker is None or broker.epoch != broker_epoch or broker_id == self._broker_id:
            return False
        return await self._refuses(broker)

    def _look(self) -> None:
        wanted = {} if self._stopped else {(broker.broker_id, broker.epoch): broker for broker in self._concerned()}
        for life in self._watches.keys() - wanted.keys():
            self._watches.pop(life).cancel()
        for life, broker in wanted.items():
            if life not in self._watches:
                name = f"watch-of-broker-{broker.broker_id}"
                self._watches[life] = asyncio.create_task(self._watch(broker), name=name)

    def _concerned(self) -> list[BrokerImage]:
        brokers, controller = self._view.image.brokers, self._leadership.controller
        if controller == self._broker_id:
            return [broker for broker in brokers.values() if broker.broker_id != self._broker_id]
        return [broker for broker in brokers.values() if broker.broker_id == controller]

    async def _watch(self, broker: BrokerImage) -> None:
        while True:
            try:
                connection = await self._open_connection(broker)
            except UNREACHABLE as problem:
                log.debug("cannot connect to a broker broker=%d: %s", broker.broker_id, problem)
            else:
                for fenced in (False, True):
                    del self._verdicts[broker.broker_id, fenced]
                try:
                    await connection.lost()
                finally:
                    connection.abort()
            # The broker registers again and again, but this broker gets no connection, so something between the two
            # refuses connections to its port. Wait longer each time.
            before = self._verdicts[broker.broker_id, self._leadership.controller == self._broker_id]
            await asyncio.sleep(min(2**before - 1, AGAIN_S_MAX))
            if await self._is_dead(broker):
                await self._report(broker)
            await asyncio.sleep(PAUSE_S)

    async def _report(self, broker: BrokerImage) -> None:
        controller = self._leadership.controller
        if controller not in (self._broker_id, broker.broker_id):
            return
        if broker.broker_id in self._view.image.leaving:
            return  # A stopping broker closes its port before its registration ends.
        self._verdicts[broker.broker_id, controller == self._broker_id] += 1
        log.warning(
            "broker process is dead: its port refuses connections from this broker and another one broker=%d",
            broker.broker_id,
        )
        await (self._fence if controller == self._broker_id else self._unseat)(broker)

    async def _is_dead(self, broker: BrokerImage) -> bool:
        both = (self._broker_id, broker.broker_id)
        others = [other for other in self._view.image.brokers.values() if other.broker_id not in both]
        asked = [asyncio.ensure_future(self._ask(witness, broker)) for witness in others[:WITNESSES_MAX]]
        try:
            if not await self._refuses(broker):
                return False
            for answer in asyncio.as_completed(asked):
                if await answer:
                    return True
            return False
        finally:
            for question in asked:
                question.cancel()

    async def _ask(self, witness: BrokerImage, broker: BrokerImage) -> bool:
        request = wire.ProbeBrokerRequest(broker_id=broker.broker_id, broker_epoch=broker.epoch)
        try:
            answer = await ask_once(self._open_connection, witness, request, WITNESS_S)
        except UNREACHABLE as problem:
            log.debug("cannot ask a broker to check another one broker=%d: %s", witness.broker_id, problem)
            return False
        return bool(answer.refused)

    async def _refuses(self, broker: BrokerImage) -> bool:
        endpoint = self._open_connection.endpoint(broker)
        return endpoint is not None and await refuses(endpoint.host, endpoint.port)
