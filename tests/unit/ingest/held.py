"""A native core for ingests whose calls can be held or fail, shared by these tests."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from pybroker.broker.ingest.ingests import Ingests
from pybroker.broker.metadata.image import ImageDelta
from pybroker.broker.metadata.ingest_records import COMMITTED, IngestedPartition, IngestKey, IngestRecord
from pybroker.broker.replicas.known_cluster import KnownCluster
from pybroker.native import AttachedPartition, IngestPreparation, ListedAttempt, NativeError, StagedPartition, Uuid
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.messages import CreateTopicsRequest, CreateTopicsRequest_CreatableTopic
from tests.support.fake_native import FakeIngests
from tests.unit.control_plane import ControlPlane

LIMIT_S = 120.0


class HeldIngests(FakeIngests):
    """Staged ingests. Calls wait for the events in `drops` and `prepares`; drops of the ids in `failing` fail."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.drops, self.prepares = threading.Event(), threading.Event()
        self.drops.set()
        self.prepares.set()
        self.failing: set[str] = set()
        self.full = False
        self.partitions = [StagedPartition(0, 1, 70)]

    def open(self, key: IngestKey, directory: str, epoch: int, config: dict[str, str]) -> None:
        self.calls.append(("open", key[1]))

    def prepare(
        self, key: IngestKey, epoch: int, preparation: IngestPreparation, listed: Sequence[ListedAttempt]
    ) -> list[StagedPartition]:
        self.calls.append(("prepare", key[1]))
        assert self.prepares.wait(LIMIT_S)
        self.calls.append(("prepared", key[1]))
        return self.partitions

    def reopen(self, key: IngestKey, epoch: int) -> None:
        self.calls.append(("reopen", key[1]))

    def attach(self, topic_id: Uuid, partition: int, directory: str, plan: int, append_time: bool) -> AttachedPartition:
        if self.full:
            raise NativeError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")
        return AttachedPartition(0, 1, False, True)

    def expire(self, key: IngestKey, epoch: int, before_ms: int) -> bool:
        return True

    def drop(self, key: IngestKey, directory: str) -> None:
        assert self.drops.wait(LIMIT_S)
        self.calls.append(("drop", key[1]))
        if key[1] in self.failing:
            raise NativeError(ErrorCode.KAFKA_STORAGE_ERROR, "the disk is full")


def ingests(plane: ControlPlane) -> Ingests:
    assert plane.broker is not None
    assert plane.broker.services is not None
    return plane.broker.services.ingests


async def create(plane: ControlPlane, name: str = "t") -> Uuid:
    topic = CreateTopicsRequest_CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    answer = await plane.call(19, CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 7)
    topic_id: Uuid = answer.topics[0].topic_id
    return topic_id


def remember(
    plane: ControlPlane, topic_id: Uuid, count: int, *, named: str = "", partitions: int = 0, batch_id: int = -1
) -> None:
    """Add commits to the images without a client. Their names are numbers by default."""
    now = plane.clock.wall_ms()
    parts = {index: IngestedPartition(1, 70, 0, 1) for index in range(partitions)}
    many = tuple(
        IngestRecord(topic_id, named or str(number), batch_id, 1, COMMITTED, 1000, now, {}, now, parts)
        for number in range(count)
    )
    view = plane.parts.services.view
    assert isinstance(view, KnownCluster)
    for knows in (view, plane.controller):
        knows._image = knows._image.apply(ImageDelta(committed_ingests=many))
