"""Partitions into which a staged ingest is being linked (docs/staged-ingest.md). Pure."""

from __future__ import annotations

from pybroker.broker.metadata.image import ClusterImage
from pybroker.broker.metadata.ingest_records import COMMITTING
from pybroker.native import Uuid


def attaching(image: ClusterImage, topic_id: Uuid) -> set[int]:
    """Return the partitions of a topic with a committed ingest that not all in-sync replicas are known to have. Until
    then no other replica may join the ISR or lead: it may have neither the records nor the staged segments."""
    return {
        index
        for record in image.committed_ingests.values()
        if record.state == COMMITTING and record.topic_id == topic_id
        for index in record.pending
    }
