"""Finds the controller by asking other brokers. This is for a broker that cannot reach the metadata store for a while:
it does not see elections in the store, and would keep using the earlier controller.

A wrong answer costs only a request, because a broker decides nothing unless it is the controller, and the store refuses
the writes of a former controller.
"""

from __future__ import annotations

import asyncio
import logging
from typing import NamedTuple

from pybroker.broker.cluster.cluster_view import ClusterView, ControllerLeadership
from pybroker.broker.cluster.events import CatchUp
from pybroker.broker.cluster.value_codec import UnreadableError, pack_event, unpack
from pybroker.broker.interbroker.controller_connections import OpenConnection
from pybroker.broker.interbroker.interbroker_connection import UNREACHABLE, ask_once
from pybroker.broker.metadata.image import BrokerImage
from pybroker.native import CodecError, encode
from pybroker.protocol import interbroker as wire
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

ASKED_MAX = 10
"""Number of brokers to ask concurrently."""
ANSWER_S = 2.0
PAUSE_S = 1.0
"""Seconds between two searches."""


class _ReportedController(NamedTuple):
    leadership: int | None
    """The controller that the store named at that time; a later change in the store takes precedence."""
    controller: int


class ControllerDiscovery:
    """The controller discovery of one broker; used on the loop's thread."""

    def __init__(
        self, broker_id: int, leadership: ControllerLeadership, view: ClusterView, open_connection: OpenConnection
    ) -> None:
        self._broker_id = broker_id
        self._leadership = leadership
        self._view = view
        self._open_connection = open_connection
        self._reported: _ReportedController | None = None
        self._search: asyncio.Task[None] | None = None
        self._next = float("-inf")

    @property
    def controller(self) -> int | None:
        """Return the controller's broker id, by the latest information; None if there is no controller or it is
        unknown."""
        reported = self._reported
        return (
            reported.controller
            if reported is not None and reported.leadership == self._leadership.controller
            else self._leadership.controller
        )

    def note_denial(self, asked: int, answer: wire.EnvelopeResponse) -> None:
        """Note that broker `asked` is not the controller. Its answer contains the controller if it knows the
        controller."""
        found = _named_controller(answer)
        if found not in (None, asked, self._broker_id):
            assert found is not None
            self._note(found)
        elif self._reported is not None and self._reported.controller == asked:
            self._reported = None

    async def search(self) -> None:
        """Ask the other brokers. Concurrent callers wait for the same search. If the last search has only just ended,
        return immediately.
        """
        if self._search is None and asyncio.get_running_loop().time() >= self._next:
            self._search = asyncio.create_task(self._ask_all(), name="who-is-controller")
            self._search.add_done_callback(self._search_ended)
        if self._search is not None:
            await asyncio.wait([self._search])

    def close(self) -> None:
        """Stop searching."""
        self._next = float("inf")
        if self._search is not None:
            self._search.cancel()

    def _search_ended(self, search: asyncio.Task[None]) -> None:
        self._search = None
        self._next = max(self._next, asyncio.get_running_loop().time() + PAUSE_S)
        if not search.cancelled() and (problem := search.exception()) is not None:
            log.error("controller discovery failed: this is a bug in pybroker", exc_info=problem)

    def _note(self, controller: int) -> None:
        if controller != self.controller:
            log.info(
                "found the controller by asking other brokers; the metadata store has not named it yet broker=%d",
                controller,
            )
        self._reported = _ReportedController(self._leadership.controller, controller)

    async def _ask_all(self) -> None:
        before = self.controller
        others = [
            broker for broker in self._view.image.brokers.values() if broker.broker_id not in (self._broker_id, before)
        ]
        questions = [asyncio.ensure_future(self._ask(broker)) for broker in others[:ASKED_MAX]]
        try:
            for answer in asyncio.as_completed(questions):
                found = await answer
                if found not in (None, before, self._broker_id):
                    assert found is not None
                    self._note(found)
                    return
        finally:
            for question in questions:
                question.cancel()

    async def _ask(self, broker: BrokerImage) -> int | None:
        """Return the controller as the broker `broker` knows it. The request changes nothing."""
        question = wire.SubmitEventRequest(
            broker_id=self._broker_id, event=pack_event(CatchUp()), timeout_ms=0, asked_ms_ago=0
        )
        envelope = wire.EnvelopeRequest(
            request_data=encode(question, 0), request_principal=None, client_host_address=b""
        )
        try:
            answer = await ask_once(self._open_connection, broker, envelope, ANSWER_S)
        except (*UNREACHABLE, CodecError) as problem:
            log.debug("cannot ask a broker for the controller broker=%d: %s", broker.broker_id, problem)
            return None
        if answer.error_code == ErrorCode.NOT_CONTROLLER:
            return _named_controller(answer)
        return None if answer.error_code else broker.broker_id


def _named_controller(answer: wire.EnvelopeResponse) -> int | None:
    """Return the controller in a NOT_CONTROLLER answer; None if the answer does not contain a controller, for example
    in an older version.
    """
    try:
        found: int | None = unpack(int | None, answer.response_data) if answer.response_data else None
    except UnreadableError:
        return None
    return found
