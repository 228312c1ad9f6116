"""The steps of a staged ingest that the driver and the tasks make (docs/staged-ingest.md): begin, commit, abort, list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from pybroker.native import NativeError, Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from pybroker.spark.cluster_requests import AWAY, BrokerRefusalError, SparkCluster
from pybroker.spark.source_errors import IngestError, TopicChangedError

BEGIN, COMMIT, ABORT, LIST = 32150, 32152, 32153, 32154
NO_BATCH = -1
_MAY_PASS = AWAY | frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    }
)


class LoadState(IntEnum):
    """The state of an ingest."""

    OPEN = 0
    COMMITTING = 1
    COMMITTED = 2
    ABSENT = 3


@dataclass(frozen=True)
class Ingest:
    """An ingest, with the broker's response to IngestBegin."""

    cluster_id: str
    topic_id: str
    topic: str
    ingest_id: str
    batch_id: int
    state: int
    epoch: int
    batch_bytes_max: int
    partitions: int
    compression_type: str
    keys_required: bool

    @property
    def is_open(self) -> bool:
        """Whether rows can be staged. False if the ingest has already been committed or aborted."""
        return self.state == LoadState.OPEN


@dataclass(frozen=True)
class Share:
    """The rows that one attempt of a task staged for one partition."""

    partition: int
    rows: int
    bytes: int
    crc: int


@dataclass(frozen=True)
class Attempt:
    """The attempt of a task that Spark chose for the commit."""

    writer: int
    attempt: int
    shares: tuple[Share, ...]


@dataclass(frozen=True)
class IngestOutcome:
    """The result of a commit. offsets: (first, end) by partition. repeated: whether the ingest had already been
    committed."""

    repeated: bool
    offsets: dict[int, tuple[int, int]]


def begin(
    cluster: SparkCluster, topic_id: str, ingest_id: str, batch_id: int = NO_BATCH, *, ttl_ms: int = -1, join: bool
) -> Ingest:
    """Begin or join an ingest. Raises IngestError, TopicChangedError."""

    def step() -> Any:
        if not cluster.serves(BEGIN):
            raise IngestError(
                "the brokers do not support staged ingest, which mode=exactly-once requires; mode=append works "
                "with any broker, at least once"
            )
        request = m.IngestBeginRequest(
            cluster_id=cluster.id,
            topic_id=Uuid.parse(topic_id),
            ingest_id=ingest_id,
            batch_id=batch_id,
            ttl_ms=ttl_ms,
            join=join,
        )
        return _checked(cluster.send(request, BEGIN, 0, 0), f"begin ingest {ingest_id} into topic {topic_id}")

    answer = _patiently(cluster, step)
    return Ingest(
        cluster_id=cluster.id,
        topic_id=topic_id,
        topic=answer.topic_name,
        ingest_id=ingest_id,
        batch_id=batch_id,
        state=answer.state,
        epoch=answer.epoch,
        batch_bytes_max=min(answer.max_message_bytes, answer.append_max_bytes) or 1 << 30,
        partitions=len(answer.partitions),
        compression_type=answer.compression_type,
        keys_required=answer.keys_required,
    )


def commit(cluster: SparkCluster, ingest: Ingest, attempts: Iterable[Attempt]) -> IngestOutcome:
    """Commit the staged rows of the attempts. The call also succeeds if the ingest is already committed. Raises
    IngestError, TopicChangedError."""
    request = m.IngestCommitRequest(
        cluster_id=ingest.cluster_id,
        topic_id=Uuid.parse(ingest.topic_id),
        ingest_id=ingest.ingest_id,
        batch_id=ingest.batch_id,
        epoch=ingest.epoch,
        writers=[
            m.IngestCommitRequest_IngestWriter(
                writer=each.writer,
                attempt=each.attempt,
                partitions=[
                    m.IngestCommitRequest_IngestWriterPartition(
                        partition=share.partition, rows=share.rows, bytes=share.bytes, crc=share.crc
                    )
                    for share in each.shares
                ],
            )
            for each in attempts
        ],
    )
    what = f"commit ingest {ingest.ingest_id} into {ingest.topic} ({ingest.topic_id})"
    answer = _patiently(cluster, lambda: _checked(cluster.send(request, COMMIT, 0, 0), what))
    return IngestOutcome(
        answer.repeated, {each.partition: (each.base_offset, each.end_offset) for each in answer.partitions}
    )


def abort(cluster: SparkCluster, topic_id: str, ingest_id: str, batch_id: int = NO_BATCH, epoch: int = -1) -> LoadState:
    """Abort an ingest and return its state. A committed ingest stays committed. Raises IngestError."""
    request = m.IngestAbortRequest(
        cluster_id=cluster.id, topic_id=Uuid.parse(topic_id), ingest_id=ingest_id, batch_id=batch_id, epoch=epoch
    )
    answer = _checked(cluster.send(request, ABORT, 0, 0), f"abort ingest {ingest_id} of topic {topic_id}")
    return LoadState(answer.state)


def listed(
    cluster: SparkCluster, topic_ids: list[str] | None = None, ingest_id: str | None = None, *, committed: bool = True
) -> list[Any]:
    """Return open ingests, and committed ingests that the broker still remembers, by topic id and ingest name. Raises
    IngestError."""
    request = m.ListIngestsRequest(
        topic_ids=None if topic_ids is None else [Uuid.parse(each) for each in topic_ids],
        ingest_id=ingest_id,
        include_committed=committed,
    )
    found: list[Any] = []
    while True:
        page = _checked(cluster.send(request, LIST, 0, 0), "list ingests")
        found += page.ingests
        if page.next is None:
            return found
        request.after = page.next


def _checked(answer: Any, what: str) -> Any:
    if answer.error_code in (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_CLUSTER_ID):
        name = ErrorCode(answer.error_code).name
        raise TopicChangedError(f"{what}: {name}: the topic or the cluster has changed since the job began")
    if answer.error_code:
        raise BrokerRefusalError(answer.error_code, what, answer.error_message)
    return answer


def _patiently(cluster: SparkCluster, step: Callable[[], Any]) -> Any:
    """Call `step`, and retry temporary errors until `delivery.timeout.ms`. `step` can be repeated safely."""
    try:
        return cluster.patiently(step, _MAY_PASS, cluster.patience_s)
    except (NativeError, BrokerRefusalError) as error:
        raise IngestError(str(error)) from None
