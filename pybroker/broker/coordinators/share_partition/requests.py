"""ShareFetch and ShareAcknowledge, independent of their versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from pybroker.broker.coordinators.share_partition.in_flight import AckBatch
from pybroker.broker.coordinators.share_partition.sessions import TopicPartition
from pybroker.errors import KafkaError
from pybroker.native import RecordBytes


class Limits(msgspec.Struct, frozen=True):
    """The limits of a ShareFetch."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    max_records: int
    batch_size: int
    strict: bool
    """Never return more than `max_records` (KIP-1206)."""


class ShareRequest(msgspec.Struct, frozen=True):
    """The fields that ShareFetch and ShareAcknowledge have in common. `acknowledged`: partitions with acknowledgements.
    """

    group: str
    member: str
    epoch: int
    connection_id: int
    acknowledged: Mapping[TopicPartition, Sequence[AckBatch]]
    added: Sequence[TopicPartition] = ()
    forgotten: Sequence[TopicPartition] = ()
    renews: bool = False
    """The request only extends locks of acquired records (KIP-1222)."""


class SharePartitionAnswer(msgspec.Struct):
    """The result for one partition."""

    error: KafkaError | None = None
    acknowledge_error: KafkaError | None = None
    records: RecordBytes | None = None
    acquired: list[tuple[int, int, int]] = []


Answers = dict[TopicPartition, SharePartitionAnswer]
