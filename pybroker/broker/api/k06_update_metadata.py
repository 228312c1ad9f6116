"""UpdateMetadata (key 6), between controller and broker only.

Versions
- v7 is KIP-516's, with topic ids; v6 has none.
"""

from __future__ import annotations

import msgspec

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.metadata.control_messages import (
    LEADER_DURING_DELETE,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from pybroker.broker.replicas.metadata_updates import MetadataUpdates

API_KEY = 6


def handle(metadata: MetadataUpdates, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
    """Respond when clients of this broker see the change."""
    return metadata.update(request)


def handle_by_name(
    metadata: MetadataUpdates, view: ClusterView, request: UpdateMetadataRequest
) -> UpdateMetadataResponse:
    """Handle the version without ids. A deletion means the topic that clients see under the name. An update means the
    topic that has the name in the current image.
    """
    topics = []
    for topic in request.topic_states:
        if any(state.leader == LEADER_DURING_DELETE for state in topic.partition_states):
            topic_id = metadata.shown_as(topic.topic_name)
        else:
            known = view.image.topics.get(topic.topic_name)
            topic_id = None if known is None else known.topic_id
        if topic_id is not None:
            topics.append(msgspec.structs.replace(topic, topic_id=topic_id))
    return metadata.update(msgspec.structs.replace(request, topic_states=topics))
