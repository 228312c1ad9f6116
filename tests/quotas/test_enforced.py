"""Client quotas slow down exactly the clients that they apply to. Nothing here depends on the speed of the machine: the
tests check the throttle times in responses, and the bytes served within them."""

from __future__ import annotations

import time
import urllib.request
import uuid
from typing import Any

import pytest

from pybroker import native
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.conftest import StartBroker
from tests.support.brokers import BrokerProcess
from tests.support.wire import free_port
from tests.topic_ids.lives import Lives, until
from tests.wire.client import WireClient

PRODUCE, FETCH = 9, 12
KILOBYTE = 1_000
PRODUCED = 'kafka_server_quota_byte_rate{resource="Produce"'


@pytest.fixture
def plain(start_broker: StartBroker) -> BrokerProcess:
    return start_broker({"connections.max.idle.ms": "600000"})


def client(broker: BrokerProcess, client_id: str = "app") -> WireClient:
    return WireClient(broker.port, client_id=client_id)


def alter(broker: BrokerProcess, entity: dict[str, str | None], **values: float | None) -> None:
    entry = m.AlterClientQuotasRequest_EntryData(
        entity=[
            m.AlterClientQuotasRequest_EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()
        ],
        ops=[
            m.AlterClientQuotasRequest_OpData(key=key, value=value or 0.0, remove=value is None)
            for key, value in values.items()
        ],
    )
    with client(broker, "admin") as admin:
        (answer,) = admin.call(m.AlterClientQuotasRequest(entries=[entry]), 1).entries
    assert answer.error_code == 0, answer.error_message


def metrics(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=60) as answer:
        return str(answer.read().decode())


def topic(broker: BrokerProcess) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    Lives(broker.port).create(name)
    return name


def produced(name: str, size: int, acks: int = 1) -> m.ProduceRequest:
    records = native.build_batch([(None, bytes(size))], int(time.time() * 1000))
    part = m.ProduceRequest_PartitionProduceData(index=0, records=records)
    data = m.ProduceRequest_TopicProduceData(name=name, partition_data=[part])
    return m.ProduceRequest(acks=acks, timeout_ms=60_000, topic_data=[data])


def produce(wire: WireClient, name: str, size: int, acks: int = 1) -> int:
    """Produce; return the client's throttle time in milliseconds."""
    answer = wire.call(produced(name, size, acks), PRODUCE)
    assert answer.responses[0].partition_responses[0].error_code == 0
    return int(answer.throttle_time_ms)


def fetch(wire: WireClient, name: str) -> Any:
    part = m.FetchRequest_FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
    wanted = m.FetchRequest_FetchTopic(topic=name, partitions=[part])
    return wire.call(m.FetchRequest(max_wait_ms=0, min_bytes=0, max_bytes=1_000_000, topics=[wanted]), FETCH)


@pytest.mark.parametrize("acks", [1, -1])
def test_a_producer_is_told_to_wait_and_is_muted(plain: BrokerProcess, acks: int) -> None:
    name = topic(plain)
    alter(plain, {"client-id": "app"}, producer_byte_rate=10 * KILOBYTE)
    with client(plain) as wire, client(plain, "other") as other:
        # The burst: ten seconds' worth of bytes is accepted at once.
        assert produce(wire, name, 90 * KILOBYTE, acks) == 0
        begun = time.monotonic()
        wait_ms = produce(wire, name, 30 * KILOBYTE, acks)
        # 120 kB against 10 kB a second: less than two seconds more, and what has passed of the present one.
        assert 500 <= wait_ms <= 2_500
        # The broker reads the next request only after the throttle time.
        produce(wire, name, 1, acks)
        assert time.monotonic() - begun >= wait_ms / 1000 - 0.1
        assert produce(other, name, 200 * KILOBYTE, acks) == 0, "nobody else"


def test_over_time_a_producer_keeps_its_quota(plain: BrokerProcess) -> None:
    name, rate = topic(plain), 100 * KILOBYTE
    alter(plain, {"client-id": None}, producer_byte_rate=rate)
    with client(plain) as wire:
        begun, sent, told = time.monotonic(), 0, 0.0
        while told < 3_000:
            told += produce(wire, name, 50 * KILOBYTE)
            sent += 50 * KILOBYTE
        # The last wait is still to come; the bytes of the current window and those in flight come in addition.
        seconds = time.monotonic() - begun + told / 1000
    assert sent <= rate * (seconds + 12)


def test_a_quota_that_is_removed_holds_nobody_up(plain: BrokerProcess) -> None:
    name = topic(plain)
    alter(plain, {"user": None}, producer_byte_rate=1 * KILOBYTE)
    with client(plain) as wire:
        assert produce(wire, name, 900 * KILOBYTE) > 300_000, "several minutes"
        wire.send(produced(name, 1), PRODUCE)
        alter(plain, {"user": None}, producer_byte_rate=None)
        assert wire.receive().throttle_time_ms == 0
        assert produce(wire, name, 900 * KILOBYTE) == 0


def test_a_quota_changes_while_clients_run(plain: BrokerProcess) -> None:
    name = topic(plain)
    alter(plain, {"client-id": "app"}, producer_byte_rate=1_000 * KILOBYTE)
    with client(plain) as wire:
        assert produce(wire, name, 300 * KILOBYTE) == 0
        alter(plain, {"client-id": "app"}, producer_byte_rate=10 * KILOBYTE)
        assert produce(wire, name, 1) > 0, "what was sent before counts"
        alter(plain, {"user": "ANONYMOUS", "client-id": "app"}, producer_byte_rate=1_000 * KILOBYTE)
        assert produce(wire, name, 300 * KILOBYTE) == 0, "the user's client comes before the client"


def test_a_consumer_over_its_quota_is_answered_empty(plain: BrokerProcess) -> None:
    name = topic(plain)
    with client(plain, "other") as other:
        for _ in range(2):
            produce(other, name, 60 * KILOBYTE, acks=-1)
    alter(plain, {"client-id": "app"}, consumer_byte_rate=10 * KILOBYTE)
    with client(plain) as wire, client(plain, "other") as other:
        first = fetch(wire, name)
        assert first.throttle_time_ms == 0
        read = len(first.responses[0].partitions[0].records)
        assert 60 * KILOBYTE <= read <= 100 * KILOBYTE, "no more than ten seconds' bytes"
        empty = fetch(wire, name)
        assert empty.throttle_time_ms > 0
        assert empty.responses == []
        assert len(fetch(other, name).responses[0].partitions[0].records) > 120 * KILOBYTE
        # The client is muted for the throttle time; then it gets records again: the time of the wait does not count
        # twice.
        until(lambda: bool(fetch(wire, name).responses), "records after the wait")


def test_time_of_requests_is_bounded(plain: BrokerProcess) -> None:
    alter(plain, {"client-id": "app"}, request_percentage=0.001)
    with client(plain) as wire, client(plain, "other") as other:
        until(lambda: wire.call(m.MetadataRequest(topics=[]), 9).throttle_time_ms > 0, "a slow answer")
        # Requests of the control plane count, too.
        assert 0 < wire.call(m.DescribeConfigsRequest(resources=[]), 4).throttle_time_ms <= 1_000
        assert other.call(m.MetadataRequest(topics=[]), 9).throttle_time_ms == 0


def creation(partitions: int) -> m.CreateTopicsRequest:
    wanted = m.CreateTopicsRequest_CreatableTopic(
        name=f"t-{uuid.uuid4().hex[:8]}", num_partitions=partitions, replication_factor=1
    )
    return m.CreateTopicsRequest(topics=[wanted], timeout_ms=60_000)


def test_who_makes_too_many_partitions_is_refused_or_slowed_down(plain: BrokerProcess) -> None:
    alter(plain, {"user": "ANONYMOUS"}, controller_mutation_rate=0.5)
    with client(plain) as new, client(plain) as old, client(plain) as third:
        accepted = new.call(creation(8), 7)
        assert (accepted.throttle_time_ms, accepted.topics[0].error_code) == (0, 0)
        # An old client does not know the error: it gets its topic, and is throttled.
        slowed = old.call(creation(1), 5)
        assert slowed.topics[0].error_code == 0
        assert slowed.throttle_time_ms > 0
        refused = third.call(creation(1), 7)
        assert refused.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert refused.throttle_time_ms > 0
        deleted = m.DeleteTopicsRequest(topic_names=[accepted.topics[0].name], timeout_ms=60_000)
        with client(plain) as fourth:
            (answer,) = fourth.call(deleted, 5).responses
            assert answer.error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        alter(plain, {"user": "ANONYMOUS"}, controller_mutation_rate=None)
        assert third.call(creation(1), 7).topics[0].error_code == 0


def test_an_address_opens_so_many_connections(plain: BrokerProcess) -> None:
    alter(plain, {"ip": "127.0.0.1"}, connection_creation_rate=3)
    served = closed = 0
    for _ in range(45):
        with client(plain) as wire:
            try:
                wire.call(m.ApiVersionsRequest(), 0)
                served += 1
            except ConnectionError:
                closed += 1
    # Ten seconds' worth of connections is accepted at once; connections that are closed late let time pass.
    assert served >= 25
    assert closed > 0


def test_a_muted_connection_that_is_closed_is_noticed(start_broker: StartBroker) -> None:
    address = f"127.0.0.1:{free_port()}"
    broker = start_broker({"metrics.listener": address})
    name = topic(broker)
    alter(broker, {"client-id": "app"}, producer_byte_rate=1)
    with client(broker) as wire:
        assert produce(wire, name, 100 * KILOBYTE) > 60_000

    def closed() -> bool:
        lines = metrics(address).splitlines()
        return "pybroker_connections 0" in lines

    until(closed, "the muted connection to be closed")


def test_ids_by_the_thousand_and_their_series_are_bounded(start_broker: StartBroker) -> None:
    address = f"127.0.0.1:{free_port()}"
    broker = start_broker({"metrics.listener": address})
    name = topic(broker)
    alter(broker, {"client-id": None}, producer_byte_rate=1_000 * KILOBYTE)
    with client(broker) as wire:
        for number in range(3_000):
            wire.client_id = f"client-{number}"
            assert produce(wire, name, 1) == 0
        wire.client_id = "greedy"
        assert produce(wire, name, 900 * KILOBYTE) == 0
    lines = [line for line in metrics(address).splitlines() if line.startswith(PRODUCED)]
    assert len(lines) == 100
    assert any('clientid="greedy"' in line for line in lines)


def test_greedy_clients_hold_nobody_up(plain: BrokerProcess) -> None:
    name = topic(plain)
    alter(plain, {"client-id": "greedy"}, producer_byte_rate=1)
    muted = [client(plain, "greedy") for _ in range(50)]
    for wire in muted:
        wire.send(produced(name, 10 * KILOBYTE), PRODUCE)
        wire.send(produced(name, 10 * KILOBYTE), PRODUCE)
    with client(plain) as other:
        for _ in range(100):
            assert produce(other, name, 100) == 0
    for wire in muted:
        wire.close()
