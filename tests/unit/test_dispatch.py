"""Each request gets exactly one reply. Coroutines that end at once cost no task. Appends are matched with their
completions."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest
import pytest_asyncio

from pybroker.broker.coordinators.shards.appends import NativeAppends
from pybroker.broker.coordinators.shards.end_of_batch import EndOfBatchHook
from pybroker.broker.coordinators.share_parts import Shares
from pybroker.broker.coordinators.transaction.membership import TransactionMembership
from pybroker.broker.dispatch import Dispatcher, Tables
from pybroker.broker.replicas.isr_proposals import IsrProposals
from pybroker.broker.requests.context import CacheableResponse, CommitGrant, DelegatedCommitResponse, Handler
from pybroker.broker.requests.deferred_response import DeferredResponse
from pybroker.broker.requests.failure_responses import failure_response
from pybroker.errors import FatalError, KafkaError
from pybroker.native import NativeBroker, NativePartitions, ShardCommits, Uuid, encode
from pybroker.protocol import interbroker
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import (
    CreateTopicsRequest,
    CreateTopicsRequest_CreatableTopic,
    DeleteRecordsRequest,
    DeleteRecordsRequest_DeleteRecordsPartition,
    DeleteRecordsRequest_DeleteRecordsTopic,
    DescribeClusterRequest,
    DescribeClusterResponse,
    HeartbeatRequest,
    HeartbeatResponse,
)
from tests.support.fake_native import FakeNative, FakeRequest, use_fake_requests

Serve = Callable[[Any], FakeRequest]


class OneHandler:
    """A dispatcher with one handler for key 12."""

    def __init__(self) -> None:
        self.native = FakeNative()
        loop = asyncio.get_running_loop()
        self.appends = NativeAppends(cast(NativeBroker, self.native), loop)
        self.turn = EndOfBatchHook(loop)
        self.table: dict[int, Handler] = {}
        self.fatal: list[FatalError] = []
        self.dispatcher = Dispatcher(
            cast(NativeBroker, self.native),
            appends=self.appends,
            end_of_batch=self.turn,
            failed=None,
            membership=cast(TransactionMembership, None),
            shares=cast(Shares, None),
            isr=cast(IsrProposals, None),
            tables=Tables(self.table, {}),
            loop=loop,
            on_fatal=self.fatal.append,
        )
        self.dispatcher.start()

    def ask(self, handler: Handler, message: object | None = None) -> FakeRequest:
        self.table[12] = handler
        request = FakeRequest(12, HeartbeatRequest() if message is None else message)
        self.native.push(request)
        return request


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  # no event tells
            await asyncio.sleep(0.001)


@pytest_asyncio.fixture
async def served(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[OneHandler]:
    use_fake_requests(monkeypatch)
    served = OneHandler()
    yield served
    served.dispatcher.stop()
    served.native.close()


async def test_plain_functions_and_coroutines_reply_once(served: OneHandler) -> None:
    async def at_once(context: Any, message: Any) -> HeartbeatResponse:
        return HeartbeatResponse(throttle_time_ms=1)

    async def later(context: Any, message: Any) -> HeartbeatResponse:
        await asyncio.sleep(0)
        await asyncio.sleep(0.001)
        return HeartbeatResponse(throttle_time_ms=2)

    plain = served.ask(lambda context, message: HeartbeatResponse(throttle_time_ms=0))
    await until(lambda: plain.replies)
    first = served.ask(at_once)
    await until(lambda: first.replies)
    assert served.dispatcher.parked == 0
    second = served.ask(later)
    await until(lambda: served.dispatcher.parked == 1)
    await until(lambda: second.replies)
    assert [r.response.throttle_time_ms for r in (plain, first, second)] == [0, 1, 2]
    assert [r.replies for r in (plain, first, second)] == [1, 1, 1]
    assert served.dispatcher.parked == 0


async def test_what_a_callback_brings_is_replied_once(served: OneHandler) -> None:
    later, again = DeferredResponse(), DeferredResponse()
    there = DeferredResponse()
    there.resolve(HeartbeatResponse(throttle_time_ms=1))
    at_once = served.ask(lambda context, message: there.outcome())
    await until(lambda: at_once.replies)
    waits = served.ask(lambda context, message: later.outcome())
    await until(lambda: served.dispatcher.parked)
    assert (waits.parked, waits.replies) == (True, 0)
    later.resolve(HeartbeatResponse(throttle_time_ms=2))
    later.resolve(HeartbeatResponse(throttle_time_ms=3))
    assert [(r.replies, r.response.throttle_time_ms) for r in (at_once, waits)] == [(1, 1), (1, 2)]
    assert served.dispatcher.parked == 0
    stopped = served.ask(lambda context, message: again.outcome())
    await until(lambda: served.dispatcher.parked)
    await served.dispatcher.cancel_parked(0.001)
    again.resolve(HeartbeatResponse())
    assert (stopped.replies, stopped.response.error_code) == (1, ErrorCode.COORDINATOR_NOT_AVAILABLE)


async def test_the_handler_gets_its_cached_response(served: OneHandler) -> None:
    kept: list[Any] = []
    response = HeartbeatResponse(throttle_time_ms=4)
    request = served.ask(lambda context, message: CacheableResponse(response, "g", kept.append))
    await until(lambda: request.replies)
    assert request.response.throttle_time_ms == 4
    assert kept == [request.answer]
    assert kept[0].group == "g"


async def test_the_handler_gets_the_commit_lease(served: OneHandler) -> None:
    kept: list[Any] = []
    shard, response = ShardCommits(Uuid.random(), 0, 0), HeartbeatResponse(throttle_time_ms=5)
    grant = CommitGrant(shard, [], 4_096, 5_000, None, kept.append)
    request = served.ask(lambda context, message: DelegatedCommitResponse(response, grant))
    await until(lambda: request.replies)
    assert request.response.throttle_time_ms == 5
    assert request.bounds == (shard, [], 4_096, 5_000, None)
    assert kept == [request.answer]


async def test_too_many_who_wait_for_a_callback_are_turned_away(
    served: OneHandler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pybroker.broker.dispatch.PARKED_MAX", 1)
    kept, refused = DeferredResponse(), DeferredResponse()
    first = served.ask(lambda context, message: kept.outcome())
    await until(lambda: served.dispatcher.parked)
    second = served.ask(lambda context, message: refused.outcome())
    await until(lambda: second.closed)
    refused.resolve(HeartbeatResponse())
    kept.resolve(HeartbeatResponse())
    assert (first.replies, second.replies) == (1, 0)


async def test_what_is_left_to_the_end_of_a_turn_is_done_with_the_drain(served: OneHandler) -> None:
    done: list[str] = []

    def handler(context: Any, message: Any) -> HeartbeatResponse:
        served.turn(lambda: done.append(f"after {len(answered)}"))
        answered.append(context)
        return HeartbeatResponse()

    answered: list[Any] = []
    served.table[12] = handler
    served.native.push(*(FakeRequest(12, HeartbeatRequest()) for _ in range(3)))
    served.dispatcher._drain()
    assert done == ["after 3"] * 3, "in the step of the loop that took the requests, after all of them"
    # Outside a batch, the hook runs in the next turn, and a failing hook does not prevent the others.
    served.turn(lambda: 1 // 0)
    served.turn(lambda: served.turn(lambda: done.append("last")))
    assert done[3:] == []
    await until(lambda: done[3:] == ["last"])


async def test_bursts_are_drained_whole(served: OneHandler) -> None:
    served.table[12] = lambda context, message: HeartbeatResponse()
    requests = [FakeRequest(12, HeartbeatRequest()) for _ in range(2000)]
    served.native.push(*requests)
    await until(lambda: all(request.replies == 1 for request in requests))


async def test_timeouts_and_task_groups_work_in_handlers(served: OneHandler) -> None:
    async def waits(context: Any, message: Any) -> HeartbeatResponse:
        code = 0
        try:
            async with asyncio.timeout(0.001):
                await asyncio.sleep(10)
        except TimeoutError:
            code += 1
        try:
            await asyncio.wait_for(asyncio.get_running_loop().create_future(), 0.001)
        except TimeoutError:
            code += 1
        async with asyncio.TaskGroup() as group:
            one = group.create_task(asyncio.sleep(0, 1))
        return HeartbeatResponse(error_code=code + one.result())

    request = served.ask(waits)
    await until(lambda: request.replies)
    assert request.response.error_code == 3


async def test_errors_have_a_reply(served: OneHandler, caplog: pytest.LogCaptureFixture) -> None:
    def refuses(context: Any, message: Any) -> None:
        raise KafkaError(ErrorCode.NOT_COORDINATOR)

    async def breaks(context: Any, message: Any) -> None:
        await asyncio.sleep(0)
        raise ZeroDivisionError

    refused = served.ask(refuses)
    await until(lambda: refused.replies)
    broken = served.ask(breaks)
    await until(lambda: broken.replies)
    assert refused.response.error_code == ErrorCode.NOT_COORDINATOR
    assert broken.response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert "ZeroDivisionError" in caplog.text
    unknown = FakeRequest(999, HeartbeatRequest())
    served.native.push(unknown)
    await until(lambda: unknown.closed)


async def test_a_stop_answers_who_waits(served: OneHandler) -> None:
    async def waits(context: Any, message: Any) -> None:
        await asyncio.get_running_loop().create_future()

    request = served.ask(waits)
    await until(lambda: served.dispatcher.parked)
    await served.dispatcher.cancel_parked(0.001)
    await until(lambda: request.replies)
    assert request.response.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_failures_fill_the_slots_that_a_response_has() -> None:
    created: Any = failure_response(
        CreateTopicsRequest(topics=[CreateTopicsRequest_CreatableTopic(name="a")]), 41, "moved"
    )
    assert [(t.name, t.error_code, t.error_message) for t in created.topics] == [("a", 41, "moved")]
    nested: Any = failure_response(
        DeleteRecordsRequest(
            topics=[
                DeleteRecordsRequest_DeleteRecordsTopic(
                    name="a", partitions=[DeleteRecordsRequest_DeleteRecordsPartition(partition_index=3, offset=1)]
                )
            ]
        ),
        -1,
        None,
    )
    assert [(p.partition_index, p.error_code) for p in nested.topics[0].partitions] == [(3, -1)]
    top = failure_response(DescribeClusterRequest(), 31, None)
    assert isinstance(top, DescribeClusterResponse)
    assert top.error_code == 31


def test_a_failure_among_brokers_has_their_layout() -> None:
    request = interbroker.EnvelopeRequest(request_data=b"", client_host_address=b"", request_id=Uuid.ZERO)
    answer: Any = failure_response(request, 41, None)
    assert isinstance(answer, interbroker.EnvelopeResponse)
    assert answer.error_code == 41
    encode(answer, 0)


def test_a_failure_of_the_controllers_messages_is_of_its_own_class() -> None:
    """The message's fields have no defaults. The test runs in its own process: once a broker has its routes, the native
    core creates objects of these classes, also for later tests."""
    program = """
import pybroker.broker.api.broker_routes
from pybroker.broker.metadata.control_messages import StopReplicaRequest, StopReplicaResponse
from pybroker.native import encode
from pybroker.broker.requests.failure_responses import failure_response

stopped = failure_response(StopReplicaRequest(1, 1, 1, delete_partitions=False, topic_states=[]), 31, None)
assert isinstance(stopped, StopReplicaResponse)
assert stopped.error_code == 31
encode(stopped, 4)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


async def test_appends_meet_their_completions() -> None:
    class Native:
        token = 0

        at_once = False

        def append_batch(self, *arguments: object) -> int:
            self.token += 1
            return self.token

        def append(self, *arguments: object, at_once: bool) -> Any:
            return Completed(0, 0, 7) if self.at_once else self.append_batch()

    class Completed:
        def __init__(self, token: int, error_code: int, base_offset: int = -1) -> None:
            self.token, self.error_code, self.base_offset = token, error_code, base_offset

    from pybroker.native import Uuid

    native, told = Native(), []
    appends = NativeAppends(cast(NativePartitions, native), asyncio.get_running_loop())
    one = appends.append_batch(Uuid.random(), 0, b"batch")
    two = appends.append_batch(Uuid.random(), 0, b"batch")
    three = appends.append_batch(Uuid.random(), 0, b"batch")
    for _ in range(2):
        assert (
            appends.append(Uuid.random(), 0, 0, [(b"k", None)], 1, callback=lambda *ended: told.append(ended)) is None
        )
    appends.complete(cast(Any, Completed(2, 6)))
    appends.complete(cast(Any, Completed(1, 0)))
    appends.complete(cast(Any, Completed(4, 0, 5)))
    appends.complete(cast(Any, Completed(77, 0)))
    assert (await one).token == 1
    with pytest.raises(KafkaError):
        await two
    assert (appends.pending, told) == (2, [(0, 5)])
    appends.fail_all(15)
    with pytest.raises(KafkaError):
        await three
    assert (appends.pending, told) == (0, [(0, 5), (15, -1)])
    native.at_once = True
    ended = appends.append(Uuid.random(), 0, 0, [(b"k", None)], 1, callback=lambda *ended: told.append(ended))
    assert (ended, appends.pending, len(told)) == ((0, 7), 0, 2)
