"""Partitions that a staged ingest is being attached to (docs/staged-ingest.md). Pure."""

from __future__ import annotations

from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.ingest_records import COMMITTING
from pybroker.native import Uuid


def attaching(image: ClusterImage, topic_id: Uuid) -> set[int]:
    """Partitions of a topic for which a commit is decided that is not known to be on all replicas in sync: no other
    replica comes into sync before, or leads, since it may have neither the records nor what was staged."""
    return {
        index
        for record in image.committed_ingests.values()
        if record.state == COMMITTING and record.topic_id == topic_id
        for index in record.pending
    }
