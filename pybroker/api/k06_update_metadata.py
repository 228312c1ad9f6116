"""UpdateMetadata (key 6), between controller and broker only; version 7 of KIP-516, by topic id."""

from __future__ import annotations

from pybroker.metadata.control_messages import UpdateMetadataRequest, UpdateMetadataResponse
from pybroker.replicas.metadata_updates import MetadataUpdates

API_KEY = 6


def handle(metadata: MetadataUpdates, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
    """Answers when clients of this broker see the change."""
    return metadata.update(request)
