"""Transactions request by request: version 2 of the protocol (KIP-890), late records, verification."""

from __future__ import annotations

import struct
import time
from typing import Any

import pytest

from pybroker import native
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.conftest import StartBroker
from tests.groups.kit import create_topic, until
from tests.topic_ids.kit import idempotent, produce
from tests.transactions.test_straight_path import read
from tests.wire.client import WireClient

ID = "wire"
TRANSACTIONS = 30
TRANSACTIONAL, CONTROL = 0x10, 0x20
"""Attributes of a batch: it belongs to a transaction."""


def batch(producer: tuple[int, int], sequence: int, value: bytes) -> bytes:
    """Return a batch of one record in a transaction."""
    producer_id, epoch = producer
    return idempotent(producer_id, sequence, value, epoch=epoch, transactional=True)


class Wire:
    """A producer that sends one request at a time."""

    def __init__(self, client: WireClient, topic: str) -> None:
        self.client = client
        self.topic = topic
        until(lambda: self.init()[0] == 0, "there is a coordinator")

    def init(self) -> tuple[int, tuple[int, int]]:
        self.client.call(m.FindCoordinatorRequest(key_type=1, coordinator_keys=[ID]), 4)
        answer = self.client.call(m.InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=60_000), 5)
        self.me = answer.producer_id, answer.producer_epoch
        return answer.error_code, self.me

    def produce(self, version: int, producer: tuple[int, int], sequence: int, value: bytes) -> int:
        data = m.ProduceRequest_PartitionProduceData(index=0, records=batch(producer, sequence, value))
        topic = m.ProduceRequest_TopicProduceData(name=self.topic, partition_data=[data])
        request = m.ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=10_000, topic_data=[topic])
        # From version 12 on, requests that arrive while the previous transaction is completing wait until it is
        # complete.
        (row,) = self.client.call(request, version).responses[0].partition_responses
        return int(row.error_code)

    def end(self, version: int, producer: tuple[int, int], *, commit: bool) -> Any:
        request = m.EndTxnRequest(
            transactional_id=ID, producer_id=producer[0], producer_epoch=producer[1], committed=commit
        )
        while (answer := self.client.call(request, version)).error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            pass
        return answer


@pytest.mark.checklist("E6")
def test_version_2_raises_the_epoch_at_each_end_and_adds_what_is_written_to(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic = create_topic(broker.bootstrap, 1)
    with WireClient(broker.port) as client:
        wire = Wire(client, topic)
        me = wire.me
        assert wire.produce(12, me, 0, b"first") == 0
        ended = wire.end(5, me, commit=True)
        assert (ended.error_code, (ended.producer_id, ended.producer_epoch)) == (0, (me[0], me[1] + 1))
        again = wire.end(5, me, commit=True)
        assert (again.error_code, again.producer_epoch) == (0, me[1] + 1), "the answer was lost"
        assert wire.end(5, me, commit=False).error_code == ErrorCode.INVALID_TXN_STATE
        # Records sent before the end that arrive after it belong to no transaction.
        until(lambda: wire.produce(12, me, 1, b"late") == ErrorCode.INVALID_PRODUCER_EPOCH, "the marker is written")
        now = me[0], me[1] + 1
        assert wire.produce(12, now, 0, b"second") == 0
        aborted = wire.end(5, now, commit=False)
        now = me[0], me[1] + 2
        assert (aborted.error_code, aborted.producer_epoch) == (0, now[1])
        until(lambda: read(broker.bootstrap, topic) == ["first"], "both have ended")


@pytest.mark.checklist("E6", "E10")
def test_records_of_a_transaction_that_has_ended_hold_nobody_up(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic = create_topic(broker.bootstrap, 1)
    with WireClient(broker.port) as client:
        wire = Wire(client, topic)
        me = wire.me
        assert wire.produce(11, me, 0, b"never added") == ErrorCode.TRANSACTION_ABORTABLE
        assert wire.produce(10, me, 0, b"never added") == ErrorCode.INVALID_TXN_STATE
        added = m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=me[0],
            v3_and_below_producer_epoch=me[1],
            v3_and_below_topics=[m.AddPartitionsToTxnRequest_AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        )
        (result,) = client.call(added, 3).results_by_topic_v3_and_below
        assert [one.partition_error_code for one in result.results_by_partition] == [0]
        assert wire.produce(10, me, 0, b"kept") == 0
        assert wire.end(3, me, commit=True).error_code == 0
        until(lambda: read(broker.bootstrap, topic) == ["kept"], "it has ended")
        until(lambda: wire.produce(10, me, 1, b"late") == ErrorCode.INVALID_TXN_STATE, "its end is stored")
        assert read(broker.bootstrap, topic) == ["kept"]
        assert read(broker.bootstrap, topic, "read_uncommitted") == ["kept"]


@pytest.mark.checklist("E8")
def test_who_was_replaced_is_told_so_by_version(start_broker: StartBroker) -> None:
    broker = start_broker()
    topic = create_topic(broker.bootstrap, 1)
    with WireClient(broker.port) as client:
        wire = Wire(client, topic)
        old = wire.me
        assert wire.init()[0] == 0
        assert wire.end(1, old, commit=True).error_code == ErrorCode.INVALID_PRODUCER_EPOCH
        assert wire.end(2, old, commit=True).error_code == ErrorCode.PRODUCER_FENCED
        assert wire.produce(10, old, 0, b"fenced") == ErrorCode.INVALID_PRODUCER_EPOCH
        assert wire.end(3, (old[0] + 1_000, 0), commit=True).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING


@pytest.mark.checklist("E6")
def test_partitions_that_follow_an_end_are_added_when_its_markers_are_written(start_broker: StartBroker) -> None:
    """A producer of version 1 rarely gets a retriable error: only if the completion takes longer than the broker's own
    wait."""
    broker = start_broker()
    topic = create_topic(broker.bootstrap, 1)
    with WireClient(broker.port) as client:
        wire = Wire(client, topic)
        me = wire.me
        request = m.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=ID,
            v3_and_below_producer_id=me[0],
            v3_and_below_producer_epoch=me[1],
            v3_and_below_topics=[m.AddPartitionsToTxnRequest_AddPartitionsToTxnTopic(name=topic, partitions=[0])],
        )

        def added() -> int:
            (result,) = client.call(request, 3).results_by_topic_v3_and_below
            return int(result.results_by_partition[0].partition_error_code)

        first: list[int] = []
        for number in range(TRANSACTIONS):
            first.append(added())
            assert first[-1] in (0, ErrorCode.CONCURRENT_TRANSACTIONS)
            if first[-1]:
                until(lambda: added() == 0, "the one before has ended")
            assert wire.produce(10, me, number, f"{number}".encode()) == 0
            assert wire.end(3, me, commit=True).error_code == 0
        assert first.count(0) > TRANSACTIONS // 2
        until(lambda: read(broker.bootstrap, topic) == [f"{number}" for number in range(TRANSACTIONS)], "all are there")


@pytest.mark.checklist("E14")
def test_a_client_cannot_write_the_end_of_a_transaction_into_a_log(start_broker: StartBroker) -> None:
    """A batch that claims to be a marker is refused, and the transaction stays open."""
    broker = start_broker()
    topic = create_topic(broker.bootstrap, 1)
    with WireClient(broker.port) as client:
        wire = Wire(client, topic)
        assert wire.produce(12, wire.me, 0, b"open") == 0
        commit, version = b"\x00\x00\x00\x01", b"\x00\x00\x00\x00\x00\x00"
        data = native.build_batch([(commit, version)], int(time.time() * 1000))
        for said in (CONTROL, CONTROL | TRANSACTIONAL):
            forged = bytearray(data)
            struct.pack_into(">h", forged, 21, said)
            struct.pack_into(">qhi", forged, 43, *wire.me, -1)
            struct.pack_into(">I", forged, 17, native.crc32c(bytes(forged[21:])))
            assert produce(client, topic, bytes(forged), 12).error_code == ErrorCode.INVALID_RECORD
        assert read(broker.bootstrap, topic) == []
        assert wire.end(5, wire.me, commit=True).error_code == 0
        until(lambda: read(broker.bootstrap, topic) == ["open"], "only the coordinator ends it")
