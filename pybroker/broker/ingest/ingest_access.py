"""Common checks of all staged-ingest requests: cluster, existing topic, valid name, permission."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import msgspec

from pybroker.broker.metadata.ingest_records import NO_BATCH
from pybroker.broker.metadata.metadata_cache import CachedTopic, MetadataCache
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer, ResourceType
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode

INGEST_ID_BYTES_MAX = 249


class IngestAccess(msgspec.Struct, frozen=True):
    """The services that the checks need."""

    cache: MetadataCache
    authorizer: Authorizer
    unknown: Callable[[Uuid, Callable[[str], bool]], KafkaError]
    """Function that returns the error for an id that no live topic has. Its second argument is a function that returns
    whether the client may know a topic's name.
    """

    def check_cluster(self, cluster_id: str) -> None:
        """Raise INCONSISTENT_CLUSTER_ID if the request is for another cluster."""
        if cluster_id != self.cache.cluster_id:
            raise KafkaError(
                ErrorCode.INCONSISTENT_CLUSTER_ID,
                f"This broker belongs to cluster {self.cache.cluster_id}, not {cluster_id!r}.",
            )

    def topic(self, context: RequestContext, topic_id: Uuid, *operations: AclOperation) -> CachedTopic:
        """Return the topic if the client has the permission for one of `operations`.

        Raise UNKNOWN_TOPIC_ID if the topic does not exist, TOPIC_AUTHORIZATION_FAILED if the client has no permission.
        """
        topic = self.cache.topic_by_id(topic_id)
        if topic is None:
            raise self.unknown(topic_id, partial(self.lists, context))
        if not any(self.permits(context, operation, topic.name) for operation in operations):
            raise KafkaError(
                ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"{context.principal} is not allowed to do this with the topic."
            )
        return topic

    def permits(self, context: RequestContext, operation: AclOperation, topic: str) -> bool:
        return self.authorizer.permits(context, operation, ResourceType.TOPIC, topic)

    def lists(self, context: RequestContext, topic: str) -> bool:
        """Return whether a listing shows the topic's ingests. A denial is not logged."""
        return self.authorizer.lists(context, ResourceType.TOPIC, topic)


def check_name(ingest_id: str, batch_id: int) -> None:
    """Raise INVALID_REQUEST for an invalid ingest id or batch id."""
    if not 1 <= len(ingest_id.encode("utf-8", "surrogatepass")) <= INGEST_ID_BYTES_MAX:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"An ingest id must have 1 to {INGEST_ID_BYTES_MAX} bytes.")
    if batch_id < NO_BATCH:
        raise KafkaError(ErrorCode.INVALID_REQUEST, f"The batch id must be -1 or not negative, but is {batch_id}.")
