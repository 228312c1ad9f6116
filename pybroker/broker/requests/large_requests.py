"""Requests with many elements. A separate thread decodes them, the broker answers them in pieces, and refuses those
above a limit.

Handlers get an ordinary request. If the elements of a request are independent, the handler is called once per piece,
and the event loop serves other requests in between (`LoopShares`). Otherwise the handler is called once, and a lower
limit applies.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Protocol

from pybroker.broker.requests.context import DelegatedCommitResponse
from pybroker.broker.requests.deferred_response import DeferredResponse
from pybroker.broker.requests.failure_responses import failure_response
from pybroker.broker.requests.loop_sharing import ELEMENTS_A_SLICE, LoopShares
from pybroker.broker.requests.request_splitting import LEVELS_MAX, join, outer_elements, pieces
from pybroker.errors import KafkaError
from pybroker.native import Request
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

AT_ONCE = 4
"""Limit of large requests in progress. The others wait in the queue without being decoded, which limits their memory.
"""

NANOSECONDS_AN_ELEMENT = 5_000
"""Nanoseconds in the control plane per element (decode, handle, encode). This time is charged to clients with a time
quota, because the time of pieces that alternate with other work is not measured.
"""

ELEMENTS_ENCODED_AT_ONCE = 2_000
"""A response larger than this is encoded on the codec's thread."""


class Bounds(NamedTuple):
    """The limits of one request of an API key."""

    elements_max: int = 50_000
    """Limit of the elements in all arrays together."""
    outer_max: int = 10_000
    """Limit of the elements in the longest outer array, for a handler that is called once for the whole request.
    Kafka's controller also limits the changes of one request to 10,000.
    """
    in_pieces: bool = False
    """Whether the elements are independent of each other."""
    once: bool = False
    """Answer in pieces, and answer duplicate elements only once."""
    levels: int = LEVELS_MAX
    """Answer in pieces, and split only this many nested arrays."""


_CHANGE = Bounds()
_PERMITTED = Bounds(400_000, 100_000)
"""Limits for handlers that check permissions before they read the elements."""
_IN_TURNS = Bounds(200_000, 100_000)
"""Limits for handlers that yield by themselves, because the elements are not independent."""
_PERMITTED_EACH = Bounds(400_000, 100_000, in_pieces=True, levels=2)
"""Like `_PERMITTED`, for topics with partitions: the fields of one partition stay together."""
_EACH = Bounds(100_000, 100_000, in_pieces=True)
_EACH_ONCE = Bounds(100_000, 100_000, in_pieces=True, once=True)

BOUNDS: dict[int, Bounds] = {
    3: _IN_TURNS,
    8: _PERMITTED_EACH,
    9: _EACH_ONCE,
    10: _EACH,
    15: _EACH_ONCE,
    19: _IN_TURNS,
    20: _IN_TURNS,
    21: _EACH,
    32: _EACH_ONCE,
    37: _IN_TURNS,
    42: _EACH_ONCE,
    45: _PERMITTED_EACH,
    47: _PERMITTED_EACH,
    61: _EACH,
    65: _EACH_ONCE,
    69: _EACH_ONCE,
    75: _IN_TURNS,
    77: _EACH_ONCE,
    89: _EACH_ONCE,
    90: _EACH_ONCE,
    32145: _EACH_ONCE,
    32148: _PERMITTED_EACH,
    32152: _PERMITTED,
}
"""Limits by API key. `_CHANGE` applies to all other keys."""


class Codec(Protocol):
    """The decoder of large requests (`NativeControlQueue`)."""

    def decode(self, request: Request) -> bool:
        """Decode a request. Return False if it is malformed; its connection is then already closed."""
        ...


class LargeRequests:
    """Answers requests and sends responses with many elements."""

    def __init__(self, codec: Codec, turns: LoopShares, loop: asyncio.AbstractEventLoop) -> None:
        self._codec = codec
        self._turns = turns
        self._loop = loop
        self._thread = ThreadPoolExecutor(1, "pybroker-codec")
        self._places = asyncio.Semaphore(AT_ONCE)
        self._encoding: set[asyncio.Future[None]] = set()

    @staticmethod
    def is_large(request: Request) -> bool:
        """Return whether this class must answer the request."""
        return request.elements > ELEMENTS_A_SLICE or request.message is None

    async def answer(self, request: Request, handle: Callable[[Any], Any]) -> Any:
        """Return the response, or None if the request could not be decoded. `handle` takes a message."""
        async with self._places:
            if request.message is None and not await self._loop.run_in_executor(
                self._thread, self._codec.decode, request
            ):
                return None
            if request.timed:
                request.spent(request.elements * NANOSECONDS_AN_ELEMENT)
            if request.elements <= ELEMENTS_A_SLICE:
                pass
            elif (refused := _refused(request)) is not None:
                return await self._failed(request, refused)
            elif (bounds := BOUNDS.get(request.api_key, _CHANGE)).in_pieces:
                try:
                    return await self._in_pieces(request.message, handle, bounds)
                except KafkaError as error:
                    return await self._failed(request, error)
            else:
                await self._turns.next()
        # Release the slot before the handler runs. The handler may wait for a disk or for group members, and must not
        # block other large requests in that time.
        try:
            return await _outcome(handle(request.message))
        except KafkaError as error:
            async with self._places:
                return await self._failed(request, error)

    def send(self, request: Request, response: object) -> None:
        """Encode and send a response that is too large for the event loop's thread."""
        sent = self._loop.run_in_executor(self._thread, request.reply_large, response)
        self._encoding.add(sent)

        def over(done: asyncio.Future[None]) -> None:
            self._encoding.discard(done)
            problem = None if done.cancelled() else done.exception()
            if problem is not None:
                log.error("cannot encode a response; closing the connection api_key=%d", request.api_key)
                log.debug("cause of the encoding error", exc_info=problem)
            request.close()

        sent.add_done_callback(over)

    async def stop(self, grace_s: float) -> None:
        """Wait for responses that are being sent, then end the thread."""
        if self._encoding:
            await asyncio.wait(self._encoding, timeout=grace_s)
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _failed(self, request: Request, error: KafkaError) -> Any:
        def refuse(piece: Any) -> Any:
            return failure_response(piece, error.code, error.message)

        return await self._in_pieces(request.message, refuse, _EACH)

    async def _in_pieces(self, message: Any, handle: Callable[[Any], Any], bounds: Bounds) -> Any:
        whole = None
        parts = pieces(message, once=bounds.once, levels=bounds.levels)
        while True:
            await self._turns.next()
            piece, depth = next(parts, (None, 0))
            if piece is None:
                return whole
            answer = await _outcome(handle(piece))
            if isinstance(answer, DelegatedCommitResponse):
                # A lease would cover only the topics of this piece, not all topics of the request, so drop it.
                answer = answer.response
            if whole is None:
                whole = answer
            else:
                join(whole, answer, depth)


def _refused(request: Request) -> KafkaError | None:
    bounds = BOUNDS.get(request.api_key, _CHANGE)
    elements, most = request.elements, bounds.elements_max
    if elements <= most:
        elements, most = outer_elements(request.message), bounds.outer_max
    if elements <= most:
        return None
    return KafkaError(
        ErrorCode.INVALID_REQUEST,
        f"The request has {elements} elements, at most {most} are allowed. Send several requests.",
    )


async def _outcome(outcome: Any) -> Any:
    if isinstance(outcome, DeferredResponse):
        done = asyncio.Event()
        outcome.then(lambda _: done.set())
        await done.wait()
        if outcome.problem is not None:
            raise outcome.problem
        return outcome.value
    return await outcome if asyncio.iscoroutine(outcome) else outcome
