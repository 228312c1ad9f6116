"""The state of a cluster in its metadata log, read from the brokers' disks."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.records.deltas import from_records
from pybroker.broker.metadata.records.snapshots import image_from_records
from pybroker.broker.offline.adopt.kafka_batches import heads, values
from pybroker.native import RecordDecoder, Uuid
from tests.support.cluster import BrokerCluster
from tests.support.partition_states import PartitionState, StateUnknownError

FOLDER = "__cluster_metadata-0"


class MetadataLogState:
    """The state on the disks of a majority of the voters. Each call reads the logs again."""

    def __init__(self, cluster: BrokerCluster) -> None:
        self._cluster = cluster

    def controller(self) -> int | None:
        """Return the broker id of the leader that most brokers name; None while there is none."""
        return self._cluster.shown_controller()

    def brokers(self) -> set[int]:
        """Return the brokers that are registered and not fenced."""
        return set(self._read().image.brokers)

    def life(self, broker: int) -> int:
        """Return the broker epoch; -1 while the broker is not registered."""
        found = self._read().image.brokers.get(broker)
        return -1 if found is None else found.epoch

    def controller_epoch(self) -> int:
        """Return the epoch of the newest record."""
        return self._read().epoch

    def partitions(self) -> dict[tuple[str, int], PartitionState]:
        """Return all partitions of all topics."""
        log = self._read()
        return {
            (topic.name, index): PartitionState(
                frozenset(partition.replicas),
                partition.leader,
                partition.leader_epoch,
                frozenset(partition.isr),
                log.changes.get((topic.topic_id.hex, index), 0),
                topic.topic_id.hex,
                bool(partition.adding_replicas or partition.removing_replicas or topic.departed.get(index)),
            )
            for topic in log.image.topics.values()
            for index, partition in enumerate(topic.partitions)
        }

    def departed(self, topic: str) -> dict[int, list[int]]:
        """Return partition → brokers from which it was moved away and that have not staged their replica."""
        found = self._read().image.topics.get(topic)
        return {} if found is None else {index: sorted(epochs) for index, epochs in found.departed.items()}

    def known_of(self, broker: int) -> list[str]:
        """Return what the metadata still has of a broker without a registration."""
        image = self._read().image
        kept = {"running": image.running, "staged": image.staged, "epoch": image.broker_epochs}
        return [name for name, brokers in kept.items() if broker in brokers]

    def _read(self) -> _Log:
        folders = [broker.data_dir / FOLDER for broker in self._cluster.voters()]
        logs = sorted((log for folder in folders if (log := _read(folder)) is not None), key=lambda log: log.end)
        needed = len(folders) // 2 + 1
        if len(logs) < needed:
            raise StateUnknownError("too few voters have a log")
        return logs[-needed]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Do nothing: no resource is open."""


class _Log:
    """The image that results from one log."""

    def __init__(self) -> None:
        self.end = (0, 0)
        self.epoch = 0
        self.image = ClusterImage.initial(0)
        self.changes: dict[tuple[str, int], int] = {}

    def load(self, snapshot: Path) -> None:
        """Begin with a snapshot."""
        self.image = image_from_records([[value for _, value in values(snapshot)]])
        offset, epoch = snapshot.stem.split("-")
        self.end, self.epoch = (int(epoch), int(offset)), int(epoch)

    def apply(self, epoch: int, end: int, records: list[bytes]) -> None:
        """Apply one batch."""
        if end <= self.end[1]:
            return  # the snapshot contains this batch
        before = self.image
        delta = from_records(before, records) if records else ImageDelta()
        self.image = before.apply(delta)
        self.end, self.epoch = (epoch, end), epoch
        for topic in self.image.topics.values():
            old = before.topics.get(topic.name)
            if topic is old:
                continue
            same = old.partitions if old is not None and old.topic_id == topic.topic_id else ()
            for index, partition in enumerate(topic.partitions):
                if index < len(same) and partition is not same[index] and partition != same[index]:
                    key = topic.topic_id.hex, index
                    self.changes[key] = self.changes.get(key, 0) + 1


def _read(folder: Path) -> _Log | None:
    """Return the image. None if the log was truncated during the read, or does not exist."""
    log = _Log()
    try:
        snapshots = sorted(folder.glob("*.checkpoint"))
        segments = sorted(folder.glob("*.log"))
        if not segments:
            return None
        if int(segments[0].stem) > 0:
            log.load(snapshots[-1])
        for segment in segments:
            for epoch, end, records in _batches(segment.read_bytes()):
                log.apply(epoch, end, records)
    except (OSError, ValueError, IndexError):
        return None
    return log


def _batches(data: bytes) -> list[tuple[int, int, list[bytes]]]:
    found = []
    for head in heads(data):
        batch = data[head.position : head.position + head.size]
        base, epoch = int.from_bytes(batch[:8], "big"), int.from_bytes(batch[12:16], "big")
        last = int.from_bytes(batch[23:27], "big")
        decoded = RecordDecoder().decode(batch, 0, topic="__cluster_metadata", topic_id=Uuid.ZERO, partition=0)
        records = [record.value for record in decoded.records if record.value is not None]
        found.append((epoch, base + last + 1, records))
    return found
