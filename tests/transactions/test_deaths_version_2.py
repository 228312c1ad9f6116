"""The broker dies at each record that a transaction of version 2 (KIP-890) writes, and one producer continues
throughout: each transaction has its own epoch, a repeated end gets the same response, and each record is there once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.groups.kit import WAIT_S, create_topic, until
from tests.support.dying_broker import DyingBroker
from tests.transactions.test_straight_path import await_read, committed
from tests.transactions.test_wire import batch
from tests.wire.client import WireClient

STEPS = [
    "ONGOING before",
    "ONGOING after",
    "OFFSETS after",
    "PREPARE_COMMIT before",
    "PREPARE_COMMIT after",
    "MARKER between",
    "PREPARE_ABORT after",
    "COMPLETE_COMMIT before",
    "COMPLETE_ABORT after",
]
ID, GROUP = "version-2", "group"
PASSES = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)


class RetryingProducer:
    """A producer of version 2 that repeats a request until it is answered."""

    def __init__(self, ports: Callable[[], int]) -> None:
        self._ports = ports
        self.me = (-1, -1)

    def ask(self, request: Any, version: int, code: Callable[[Any], int]) -> Any:
        answers: list[Any] = []

        def answered() -> bool:
            try:
                with WireClient(self._ports()) as client:
                    answers.append(client.call(request, version))
            except (OSError, EOFError):
                return False
            return code(answers[-1]) not in PASSES

        until(answered, f"an answer to {type(request).__name__}")
        assert code(answers[-1]) == 0, ErrorCode(code(answers[-1])).name
        return answers[-1]

    def start(self) -> None:
        for kind, name in ((0, GROUP), (1, ID)):
            find = m.FindCoordinatorRequest(key_type=kind, coordinator_keys=[name])
            self.ask(find, 4, lambda answer: answer.coordinators[0].error_code)
        request = m.InitProducerIdRequest(transactional_id=ID, transaction_timeout_ms=600_000)
        answer = self.ask(request, 5, lambda answer: answer.error_code)
        self.me = answer.producer_id, answer.producer_epoch

    def write(self, topic: str, partition: int, value: str, sequence: int = 0) -> None:
        data = m.ProduceRequest_PartitionProduceData(
            index=partition, records=batch(self.me, sequence, value.encode())
        )
        topics = [m.ProduceRequest_TopicProduceData(name=topic, partition_data=[data])]
        request = m.ProduceRequest(transactional_id=ID, acks=-1, timeout_ms=10_000, topic_data=topics)
        self.ask(request, 12, lambda answer: answer.responses[0].partition_responses[0].error_code)

    def send_offset(self, topic: str, offset: int) -> None:
        partition = m.TxnOffsetCommitRequest_TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata=""
        )
        request = m.TxnOffsetCommitRequest(
            transactional_id=ID,
            group_id=GROUP,
            producer_id=self.me[0],
            producer_epoch=self.me[1],
            topics=[m.TxnOffsetCommitRequest_TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
        )
        self.ask(request, 5, lambda answer: answer.topics[0].partitions[0].error_code)

    def end(self, *, commit: bool) -> None:
        request = m.EndTxnRequest(
            transactional_id=ID, producer_id=self.me[0], producer_epoch=self.me[1], committed=commit
        )
        answer = self.ask(request, 5, lambda answer: answer.error_code)
        assert (answer.producer_id, answer.producer_epoch) == (self.me[0], self.me[1] + 1)
        self.me = answer.producer_id, answer.producer_epoch


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DyingBroker]:
    broker = DyingBroker(
        "tests.transactions.dies_writing",
        tmp_path_factory.mktemp("deaths"),
        {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"},
    )
    broker.start()
    yield broker
    broker.kill()


@pytest.mark.checklist("E6", "E7", "E11", "E13")
def test_one_producer_outlives_the_broker_at_each_record(broker: DyingBroker) -> None:
    target, source = create_topic(broker.bootstrap, 2), create_topic(broker.bootstrap, 1)
    producer = RetryingProducer(lambda: broker.port)
    producer.start()

    def run(step: str, number: int) -> None:
        for partition in (0, 1):
            producer.write(target, partition, step)
            producer.write(target, partition, f"{step}, too", 1)
        producer.send_offset(source, number)
        producer.end(commit="ABORT" not in step)

    expected: list[str] = []
    offset = -1001
    with ThreadPoolExecutor(1) as pool:
        for number, step in enumerate(STEPS):
            broker.where.write_text(step)
            ended = pool.submit(run, step, number)
            broker.comes_back()
            ended.result(WAIT_S)
            if "ABORT" not in step:
                expected += [step, f"{step}, too"]
                offset = number
    for partition in (0, 1):
        await_read(broker.bootstrap, target, expected, partition)
    until(lambda: committed(broker.bootstrap, GROUP, source) == offset, "its offsets go with it")
