"""`mode=transactions`: exactly once with Kafka's transactions, which works with any broker that has them
(docs/spark.md).

Each partition of a query has its own transactional id. A task starts with InitProducerId, which fences earlier attempts
of its partition and aborts their open transactions. Then it checks whether the topic already contains its micro-batch.
The transaction contains the records and a mark: the micro-batch's number, committed as an offset of a group with the
name of the transactional id. The driver ends the transactions after all tasks have succeeded: read_committed readers
never see records of a micro-batch with a failed task.

The module uses version 1 of the transaction protocol: the producer epoch stays the same, and EndTxn can be repeated.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pyspark.sql.datasource import WriterCommitMessage

from pybroker.native import NativeError, SinkTransaction
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.spark.cluster_requests import AWAY, FIND_COORDINATOR, BrokerRefusalError, SparkCluster, SparkTopic
from pybroker.spark.source_errors import TransactionError

OFFSET_FETCH, INIT_PRODUCER_ID, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT, DESCRIBE = 9, 22, 25, 26, 28, 65
OF_GROUPS, OF_TRANSACTIONS = 0, 1
PREFIX = "pybroker-spark"
COMMITTABLE = ("Ongoing", "PrepareCommit", "CompleteCommit")
MARK_PARTITION = 0
"""The partition of the topic for which the mark is committed. Every topic has this partition."""
_MAY_PASS = AWAY | frozenset(
    {
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.REQUEST_TIMED_OUT,
        # A new topic reaches the brokers with a delay.
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)
_NOT_OURS = frozenset(
    {
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_TXN_STATE,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
"""Errors after which the producer has no open transaction to end."""
T = TypeVar("T")
log = logging.getLogger(__name__)


@dataclass
class PreparedTransaction(WriterCommitMessage):
    """A task's transaction that is not committed yet. done: whether the topic already contained the micro-batch, so
    that the task wrote nothing."""

    name: str
    """The transactional id, and the group id of the mark."""
    topic: str
    batch: int
    producer_id: int = -1
    producer_epoch: int = -1
    done: bool = False
    rows: int = 0
    bytes: int = 0
    offsets: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)


def named(query: str, partition: int) -> str:
    """Return the transactional id of a partition of a query."""
    return f"{PREFIX}-{query}-{partition}"


def begin(cluster: SparkCluster, topic: SparkTopic, name: str, batch: int, timeout_ms: int) -> PreparedTransaction:
    """Fence earlier attempts of the partition, and begin a transaction unless the topic already contains the
    micro-batch. Raises TransactionError."""
    prepared = PreparedTransaction(name, topic.name, batch)
    request = m.InitProducerIdRequest(transactional_id=prepared.name, transaction_timeout_ms=timeout_ms)

    def init() -> Any:
        answer = cluster.send(request, INIT_PRODUCER_ID, 0, 4, _coordinator(cluster, prepared.name, OF_TRANSACTIONS))
        return _checked(answer, f"InitProducerId of {prepared.name}, transactionTimeoutMs={timeout_ms}")

    answer = _patiently(cluster, init)
    prepared.producer_id, prepared.producer_epoch = answer.producer_id, answer.producer_epoch
    # Check after the fencing, because no earlier attempt can commit any more.
    prepared.done = _is_there(cluster, prepared, stable=True)
    return prepared


def sink_transaction(prepared: PreparedTransaction) -> SinkTransaction:
    """Return the transaction for the native sink."""
    return SinkTransaction(prepared.name, prepared.producer_id, prepared.producer_epoch)


def mark(cluster: SparkCluster, prepared: PreparedTransaction) -> None:
    """Add the mark of the micro-batch to the transaction. Raises TransactionError."""
    what = f"marker of batch {prepared.batch} in transaction {prepared.name}"
    add = m.AddOffsetsToTxnRequest(
        transactional_id=prepared.name,
        producer_id=prepared.producer_id,
        producer_epoch=prepared.producer_epoch,
        group_id=prepared.name,
    )
    commit = m.TxnOffsetCommitRequest(
        transactional_id=prepared.name,
        group_id=prepared.name,
        producer_id=prepared.producer_id,
        producer_epoch=prepared.producer_epoch,
        topics=[
            m.TxnOffsetCommitRequest_TxnOffsetCommitRequestTopic(
                name=prepared.topic,
                partitions=[
                    m.TxnOffsetCommitRequest_TxnOffsetCommitRequestPartition(
                        partition_index=MARK_PARTITION, committed_offset=prepared.batch + 1, committed_metadata=""
                    )
                ],
            )
        ],
    )

    def step() -> None:
        coordinator = _coordinator(cluster, prepared.name, OF_TRANSACTIONS)
        _checked(cluster.send(add, ADD_OFFSETS, 0, 3, coordinator), what)
        answer = cluster.send(commit, TXN_OFFSET_COMMIT, 0, 3, _coordinator(cluster, prepared.name, OF_GROUPS))
        for topic in answer.topics:
            for row in topic.partitions:
                _checked(row, what)

    _patiently(cluster, step)


def commit(cluster: SparkCluster, prepared: Sequence[PreparedTransaction]) -> None:
    """Commit the tasks' transactions. The call can be repeated. Check all of them before the first commit: if a
    transaction was fenced or timed out, the whole micro-batch fails. Raises TransactionError."""
    left = [transaction for transaction in prepared if not transaction.done]
    for transaction in left:
        if not _can_commit(cluster, transaction) and not _is_there(cluster, transaction, stable=False):
            raise _lost(transaction)
    for transaction in left:
        try:
            _end(cluster, transaction, committed=True)
        except TransactionError as error:
            if error.code not in _NOT_OURS:
                raise
            if not _is_there(cluster, transaction, stable=False):
                raise _lost(transaction) from None


def abort(cluster: Callable[[], SparkCluster], prepared: Iterable[PreparedTransaction]) -> None:
    """Abort open transactions. If an abort fails, print a message and continue, because the brokers abort the
    transaction after its timeout, or the next attempt aborts it."""
    for transaction in prepared:
        if transaction.done:
            continue
        try:
            _end(cluster(), transaction, committed=False)
        except (NativeError, BrokerRefusalError, TransactionError) as error:
            if not isinstance(error, TransactionError) or error.code not in _NOT_OURS:
                print(f"pybroker: cannot abort transaction {transaction.name}: {error}", file=sys.stderr)


def prepared_in(messages: Iterable[WriterCommitMessage | None]) -> list[PreparedTransaction]:
    """Return the tasks' transactions; failed tasks have none."""
    return [message for message in messages if isinstance(message, PreparedTransaction)]


def _end(cluster: SparkCluster, prepared: PreparedTransaction, *, committed: bool) -> None:
    request = m.EndTxnRequest(
        transactional_id=prepared.name,
        producer_id=prepared.producer_id,
        producer_epoch=prepared.producer_epoch,
        committed=committed,
    )
    what = f"{'commit' if committed else 'abort'} of transaction {prepared.name}"

    def step() -> None:
        coordinator = _coordinator(cluster, prepared.name, OF_TRANSACTIONS)
        _checked(cluster.send(request, END_TXN, 0, 3, coordinator), what)

    _patiently(cluster, step)


def _can_commit(cluster: SparkCluster, prepared: PreparedTransaction) -> bool:
    """Return whether the transaction is open or committed. If brokers cannot tell (before KIP-664), return True."""
    if not cluster.serves(DESCRIBE):
        return True
    request = m.DescribeTransactionsRequest(transactional_ids=[prepared.name])

    def step() -> bool:
        coordinator = _coordinator(cluster, prepared.name, OF_TRANSACTIONS)
        (row,) = cluster.send(request, DESCRIBE, 0, 0, coordinator).transaction_states
        _checked(row, f"state of transaction {prepared.name}")
        ours = (prepared.producer_id, prepared.producer_epoch)
        return row.transaction_state in COMMITTABLE and (row.producer_id, row.producer_epoch) == ours

    return _patiently(cluster, step)


def _is_there(cluster: SparkCluster, prepared: PreparedTransaction, *, stable: bool) -> bool:
    """Return whether the mark of the micro-batch, or of a later micro-batch, is committed. stable: whether to wait for
    transactions that are ending; if not, ignore open transactions."""
    request = m.OffsetFetchRequest(
        group_id=prepared.name,
        topics=[m.OffsetFetchRequest_OffsetFetchRequestTopic(name=prepared.topic, partition_indexes=[MARK_PARTITION])],
        require_stable=stable,
    )

    def step() -> bool:
        coordinator = _coordinator(cluster, prepared.name, OF_GROUPS)
        answer = cluster.send(request, OFFSET_FETCH, 7, 7, coordinator)
        what = f"marker of transaction {prepared.name}"
        _checked(answer, what)
        rows = [row for topic in answer.topics for row in topic.partitions]
        for row in rows:
            _checked(row, what)
        return any(row.committed_offset > prepared.batch for row in rows)

    return _patiently(cluster, step)


def _coordinator(cluster: SparkCluster, key: str, kind: int) -> int:
    answer = cluster.send(m.FindCoordinatorRequest(key=key, key_type=kind), FIND_COORDINATOR, 1, 3)
    return int(_checked(answer, f"coordinator of {key}").node_id)


def _checked(answer: Any, what: str) -> Any:
    if answer.error_code:
        raise BrokerRefusalError(answer.error_code, what, getattr(answer, "error_message", None))
    return answer


def _lost(prepared: PreparedTransaction) -> TransactionError:
    return TransactionError(
        ErrorCode.INVALID_TXN_STATE,
        (
            f"transaction {prepared.name} of batch {prepared.batch} cannot be committed: another attempt replaced it, "
            "or it exceeded transactionTimeoutMs and was aborted; run the job again"
        ),
    )


def _patiently(cluster: SparkCluster, step: Callable[[], T]) -> T:
    """Call `step`, and retry temporary errors until `delivery.timeout.ms`. `step` can be repeated safely."""
    try:
        return cluster.patiently(step, _MAY_PASS, cluster.patience_s)
    except (NativeError, BrokerRefusalError) as error:
        raise TransactionError(error.code, str(error)) from None
