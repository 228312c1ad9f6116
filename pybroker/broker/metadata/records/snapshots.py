"""Whole images as records, for snapshots of the metadata log."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.broker.metadata.records.deltas import DeltaReader, delta_frames
from pybroker.broker.metadata.records.frames import UnreadableRecordError, encode_record
from pybroker.broker.metadata.records.own_facts import OwnFacts
from pybroker.protocol import messages as m

PIECE_BYTES_MAX = 32 * 1024
"""Size in bytes at which a piece ends. Encoding a piece with small topics takes about 2 ms."""


def image_to_records(image: ClusterImage) -> Iterator[list[bytes]]:
    """Yield the records of a whole image in pieces, each of which is quick to encode and to write."""
    piece, size = [], 0
    for frame in _frames(image):
        piece.append(frame)
        size += len(frame)
        if size >= PIECE_BYTES_MAX:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _frames(image: ClusterImage) -> Iterator[bytes]:
    details = m.NoOpRecord_ClusterDetails(
        image.controller_epoch,
        image.topic_ids,
        image.unclean_elections,
        [m.NoOpRecord_DamagedTopic(name, reason) for name, reason in image.damaged.items()],
        sorted(image.damaged_ingests),
        sorted(image.delete_orders),
        image.offset,
    )
    yield encode_record(m.NoOpRecord(cluster=details))
    facts = OwnFacts()
    yield from delta_frames(ClusterImage.initial(image.controller_epoch), _delta(image), facts)
    yield from facts.rest()


def _delta(image: ClusterImage) -> ImageDelta:
    return ImageDelta(
        topics=tuple(image.topics.values()),
        brokers=tuple(image.brokers.values()),
        fenced=tuple(image.fenced.values()),
        broker_epochs=image.broker_epochs,
        leaving=tuple(sorted(image.leaving)),
        deletions=tuple(image.deletions.values()),
        floors=image.floors,
        broker_configs=image.broker_configs,
        group_configs=image.group_configs,
        client_metrics=image.client_metrics,
        acls=image.acls,
        users=image.users,
        quotas=image.quotas,
        tokens=image.tokens,
        features=image.features,
        ingests=tuple(image.ingests.values()),
        committed_ingests=tuple(image.committed_ingests.values()),
        made_ingest_folders=image.ingest_folders,
        leftovers=image.leftovers,
        running=image.running,
        staged=image.staged,
        next_producer_id=image.next_producer_id,
        outcomes=image.outcomes,
    )


class SnapshotReader:
    """Reads a whole image from its pieces."""

    def __init__(self) -> None:
        self._reader = DeltaReader(ClusterImage.initial(-1))

    def read(self, piece: Sequence[bytes]) -> None:
        """Read the next piece. Raises UnreadableRecordError."""
        for frame in piece:
            self._reader.read(frame)

    def image(self) -> ClusterImage:
        """Return the image after the last piece. Raises UnreadableRecordError."""
        details = self._reader.cluster
        if details is None:
            raise UnreadableRecordError("a snapshot without the record of the cluster")
        delta = self._reader.delta()
        image = ClusterImage.initial(details.controller_epoch).apply(delta)
        return msgspec.structs.replace(
            image,
            topic_ids=details.topic_ids,
            unclean_elections=details.unclean_elections,
            damaged={topic.topic_name: topic.reason for topic in details.damaged_topics},
            damaged_ingests=frozenset(details.damaged_ingests),
            delete_orders=frozenset(details.delete_orders),
            offset=details.end_offset,
            # `apply` treats registered brokers as new, and a new broker is not leaving. Add the leaving brokers
            # afterwards.
            leaving=frozenset(delta.leaving),
        )


def image_from_records(pieces: Iterable[Sequence[bytes]]) -> ClusterImage:
    """Return the image of a snapshot. Raises UnreadableRecordError."""
    reader = SnapshotReader()
    for piece in pieces:
        reader.read(piece)
    return reader.image()
