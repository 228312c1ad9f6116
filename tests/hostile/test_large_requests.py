"""A user without permissions sends requests with hundreds of thousands of elements. Other clients wait only for moments
and can log in, and the log stays short."""

from __future__ import annotations

import contextlib
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pybroker import Broker, native
from pybroker.broker.requests.large_requests import BOUNDS, Bounds
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.testing.child_processes import free_port
from tests.hostile.large import encoded, exchange, has_arrays, large, strangers, waits
from tests.security.kit import VERSIONS, call, login, secure_broker
from tests.support.cluster import until
from tests.support.memory import resident_mib
from tests.wire.client import WireClient

STRANGER, HONEST = "stranger", "honest"

WAIT_S = 3.0
"""Time limit for 99 of 100 requests of other clients, on a machine with more tests than cores. On two idle cores it is
0.1 s; without turns it would be 9 to 12 s."""
LOG_BYTES_A_MINUTE_MAX = 1 << 20
MEMORY_MIB_MAX = 400

ASKED = [
    m.FindCoordinatorRequest,
    m.DescribeGroupsRequest,
    m.DeleteGroupsRequest,
    m.OffsetFetchRequest,
    m.DescribeTransactionsRequest,
    m.DescribeTopicHistoryRequest,
]
SERVED = [
    row for row in native.api_table() if row.served and row.plane == "python" and has_arrays(f"{row.name}Request")
]


@pytest.fixture(scope="module")
def probe() -> int:
    return free_port()


@pytest.fixture(scope="module")
def broker(probe: int) -> Iterator[Broker]:
    with secure_broker([STRANGER, HONEST], {"metrics.listener": f"127.0.0.1:{probe}"}) as broker:
        yield broker
        log = broker.log_path.read_text(errors="replace")
        assert "Traceback" not in log, log[log.index("Traceback") :][:3000]
        assert "panicked" not in log


def frame_of(row: native.ApiInfo, elements: int) -> bytes:
    return encoded(large(f"{row.name}Request", elements), VERSIONS[row.key])


@pytest.mark.parametrize("elements", [90_000, 300_000], ids=["served", "refused"])
def test_others_wait_for_moments(broker: Broker, probe: int, elements: int) -> None:
    """Two clients send at full speed. Requests, logins and probes of others are answered, and the log grows by a few
    lines."""
    kinds = {row.name: row for row in SERVED}
    frames = [frame_of(kinds[cls.__name__.removesuffix("Request")], elements) for cls in ASKED]
    waits(broker, HONEST, 1.0)
    logged, began = Path(broker.log_path).stat().st_size, time.monotonic()
    with strangers(broker, STRANGER, frames, clients=2) as answered:
        measured = waits(broker, HONEST, 15.0)
        for _ in range(5):
            with login(broker, HONEST):
                pass
            with urllib.request.urlopen(f"http://127.0.0.1:{probe}/healthz", timeout=WAIT_S * 10) as answer:
                assert answer.status == 200
    minutes = max(1.0, (time.monotonic() - began) / 60)
    assert sum(answered) > 0
    assert measured[len(measured) * 99 // 100] < WAIT_S, (measured[-5:], answered)
    assert Path(broker.log_path).stat().st_size - logged < LOG_BYTES_A_MINUTE_MAX * minutes
    assert resident_mib(broker.pid) < MEMORY_MIB_MAX


@pytest.mark.parametrize("row", SERVED, ids=lambda row: row.name)
def test_no_request_holds_the_others(broker: Broker, row: native.ApiInfo) -> None:
    """The test sends each request that the control plane answers, with as many elements as its limits allow."""
    bounds = BOUNDS.get(row.key, Bounds())
    frame = frame_of(row, bounds.outer_max // 4)
    with strangers_once(broker, frame):
        measured = waits(broker, HONEST, 0.5)
    assert measured[-1] < 2 * WAIT_S, measured[-5:]


TOPIC, PARTITIONS, ROWS = "there", 100, 150_000


def offset_commit() -> m.OffsetCommitRequest:
    row = m.OffsetCommitRequest_OffsetCommitRequestPartition
    partitions = [row(partition_index=number % PARTITIONS, committed_offset=number) for number in range(ROWS)]
    topic = m.OffsetCommitRequest_OffsetCommitRequestTopic(name=TOPIC, partitions=partitions)
    return m.OffsetCommitRequest(
        group_id="g", generation_id_or_member_epoch=-1, member_id="", retention_time_ms=-1, topics=[topic]
    )


def offset_delete() -> m.OffsetDeleteRequest:
    row = m.OffsetDeleteRequest_OffsetDeleteRequestPartition
    partitions = [row(partition_index=number % PARTITIONS) for number in range(ROWS)]
    return m.OffsetDeleteRequest(
        group_id="g", topics=[m.OffsetDeleteRequest_OffsetDeleteRequestTopic(name=TOPIC, partitions=partitions)]
    )


def reassignment() -> m.AlterPartitionReassignmentsRequest:
    row = m.AlterPartitionReassignmentsRequest_ReassignablePartition
    partitions = [row(partition_index=number % PARTITIONS, replicas=[1]) for number in range(ROWS)]
    topic = m.AlterPartitionReassignmentsRequest_ReassignableTopic(name=TOPIC, partitions=partitions)
    return m.AlterPartitionReassignmentsRequest(timeout_ms=60_000, topics=[topic])


def begin_group(client: WireClient) -> None:
    """Return whether the topic exists and the group has an offset in it."""
    made = m.CreateTopicsRequest_CreatableTopic(name=TOPIC, num_partitions=PARTITIONS, replication_factor=1)
    call(client, m.CreateTopicsRequest(topics=[made], timeout_ms=60_000))
    call(client, m.FindCoordinatorRequest(coordinator_keys=["g"]))
    small = offset_commit()
    small.topics[0].partitions = small.topics[0].partitions[:1]

    def committed() -> bool:
        return int(call(client, small, 9).topics[0].partitions[0].error_code) == ErrorCode.NONE

    until(committed)


@pytest.mark.parametrize(("key", "request_of"), [(8, offset_commit), (47, offset_delete), (45, reassignment)])
def test_what_a_user_may_do_takes_turns(broker: Broker, key: int, request_of: Callable[[], Any]) -> None:
    """No client waits for more than one part of the request, and each element has its result."""
    version = min(VERSIONS[key], 9)
    with login(broker, "root") as client:
        begin_group(client)
        frame, answers, took = encoded(request_of(), version), [], []

        def ask() -> None:
            began = time.monotonic()
            client.send_bytes(frame)
            answers.append(client.receive_frame())
            took.append(time.monotonic() - began)

        asking = threading.Thread(target=ask)
        asking.start()
        measured = []
        while asking.is_alive():
            measured += waits(broker, HONEST, 0.1)
        asking.join()
    _, answer = native.decode_response(key, version, answers[0])
    (row,) = answer.responses if key == 45 else answer.topics
    assert [one.partition_index for one in row.partitions] == [number % PARTITIONS for number in range(ROWS)]
    assert len({one.error_code for one in row.partitions}) == 1, row.partitions[:3]
    assert max(measured) < took[0] / 8, (sorted(measured)[-5:], took)


def test_an_assignment_has_no_more_members_than_a_group(broker: Broker) -> None:
    """The assignment can only be stored as a whole, so its limit of elements is lower."""
    with login(broker, "root") as client:
        begin_group(client)
        one = [m.SyncGroupRequest_SyncGroupRequestAssignment(member_id=f"m-{n}", assignment=b"") for n in range(10_001)]
        asked = m.SyncGroupRequest(
            group_id="g", generation_id=1, member_id="m", protocol_type="consumer", protocol_name="p", assignments=one
        )
        assert call(client, asked).error_code == ErrorCode.INVALID_REQUEST
        asked.assignments.pop()
        assert call(client, asked).error_code == ErrorCode.UNKNOWN_MEMBER_ID


@contextlib.contextmanager
def strangers_once(broker: Broker, frame: bytes) -> Iterator[None]:
    with login(broker, STRANGER) as client:
        client.plain.sendall(frame)
        yield
        with contextlib.suppress(ConnectionError):
            exchange(client.plain, b"")


def test_above_its_bounds_a_request_is_refused_with_a_reason(broker: Broker) -> None:
    with login(broker, "root") as client:
        answer = call(client, m.FindCoordinatorRequest(coordinator_keys=[f"g-{n}" for n in range(120_000)]))
        assert len(answer.coordinators) == 120_000
        assert {one.error_code for one in answer.coordinators} == {ErrorCode.INVALID_REQUEST}
        told = "The request has 120000 elements, at most 100000 are allowed. Send several requests."
        assert answer.coordinators[0].error_message == told


def test_many_elements_have_the_answers_that_few_have(broker: Broker) -> None:
    """Whether the request is split or not, each element has one result, in the request's order, and nested results are
    in their own arrays."""
    names = [f"none-{n % 2500}" for n in range(5_000)]
    with login(broker, "root") as client:
        groups = call(client, m.DescribeGroupsRequest(groups=names)).groups
        assert [one.group_id for one in groups] == names[:2500]
        found = call(client, m.FindCoordinatorRequest(coordinator_keys=names)).coordinators
        assert [one.key for one in found] == names
        topic = m.OffsetFetchRequest_OffsetFetchRequestTopics(name="t", partition_indexes=list(range(5_000)))
        asked = [
            m.OffsetFetchRequest_OffsetFetchRequestGroup(group_id=group, topics=[topic, topic]) for group in ("a", "b")
        ]
        answer = call(client, m.OffsetFetchRequest(groups=asked), 9)
        assert [one.group_id for one in answer.groups] == ["a", "b"]
        indexes = [[row.partition_index for row in each.partitions] for one in answer.groups for each in one.topics]
        assert indexes == [list(range(5_000))] * 4


def test_a_refused_user_has_one_line_for_a_request(broker: Broker) -> None:
    with login(broker, STRANGER) as client:
        before = broker.log_path.read_text(errors="replace").count("denied request")
        call(client, m.FindCoordinatorRequest(coordinator_keys=[f"quiet-{n}" for n in range(3_000)]))
        assert broker.log_path.read_text(errors="replace").count("denied request") <= before + 1
