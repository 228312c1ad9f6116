"""Authorization in the controller: the permissions that a client needs for an event.

The broker that received the request has authorized it, but its ACLs may be out of date. The controller therefore
authorizes it again (KIP-590), with its own, current ACLs. If the permission was removed before the event arrived, the
controller refuses the event, even if the forwarding broker has authorized it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

import msgspec

from pybroker.broker.cluster import events as e
from pybroker.broker.cluster import quorum_events as q
from pybroker.broker.cluster.lookup import topic_or_deletion
from pybroker.broker.controller.local_controller_client import Submission
from pybroker.broker.log_limits import BY_CLIENT
from pybroker.broker.metadata.acl_nodes import CLUSTER_NAME
from pybroker.broker.metadata.deletion_records import FOUND, DeletionRecord
from pybroker.broker.metadata.image import ClusterImage, ImageDelta
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from pybroker.protocol.acl_codes import AclOperation, ResourceType
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)


class AclEvaluator(Protocol):
    """The current ACLs of this controller."""

    def follow(self, before: ClusterImage, change: ImageDelta | ClusterImage) -> None:
        """Apply a decision to the ACLs."""
        ...

    def permits(self, caller: Caller, operation: AclOperation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the ACLs allow the operation."""
        ...


class Permission(NamedTuple):
    """Permission for one operation on one resource."""

    operation: AclOperation
    resource_type: ResourceType
    name: str


Needs = tuple[tuple[Permission, ...], ...]
"""Groups of permissions: a client needs at least one permission of each group."""


class PermissionRule(NamedTuple):
    """The permissions that an event requires."""

    needs: Callable[[ClusterImage, Any], Needs]
    """Returns the permissions that the event, or one of its items, requires."""
    items: str | None = None
    """Name of the field whose items succeed or fail independently; the reply has one result for each item."""


class AuthorizedEvent(NamedTuple):
    """An event, reduced to the items that its client is authorized for."""

    event: e.Event[Any]
    refused: Mapping[int, KafkaError] = {}
    """Refused items, by their index in the original event."""
    refusal: KafkaError | None = None
    """The error if the whole event is refused."""

    def complete_reply(self, reply: Any) -> Any:
        """Return the reply to the original event: the given reply, with an error for each refused item."""
        if not self.refused:
            return reply
        rest = iter(reply)
        return [self.refused.get(place) or next(rest) for place in range(len(self.refused) + len(reply))]

    def remaining_indexes(self, items: str) -> list[int]:
        """Return the positions in the original event of the items that were not refused. `items`: the name of the field
        that contains the items."""
        count = len(getattr(self.event, items))
        return [place for place in range(len(self.refused) + count) if place not in self.refused]

    def without(self, items: str, refused: Mapping[int, KafkaError]) -> AuthorizedEvent:
        """Return the event without the refused items. `refused`: errors by the item's index in the original event."""
        if not refused:
            return self
        there = zip(self.remaining_indexes(items), getattr(self.event, items), strict=True)
        kept = tuple(item for place, item in there if place not in refused)
        event = msgspec.structs.replace(self.event, **{items: kept})
        return self._replace(event=event, refused={**refused, **self.refused})


def authorize_event(image: ClusterImage, submission: Submission, acls: AclEvaluator | None) -> AuthorizedEvent:
    """Authorize an event for the client that submitted it. Without an authorizer (`acls` is None), and for events of
    brokers, the event is always authorized."""
    event, caller = submission.event, submission.caller
    if acls is None or caller is None:
        return AuthorizedEvent(event)
    rule = RULES.get(type(event))
    if rule is None:
        return AuthorizedEvent(
            event, refusal=KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Only brokers may send this request.")
        )
    if rule.items is None:
        return AuthorizedEvent(event, refusal=_refusal(rule.needs(image, event), submission, caller, acls))
    kept: list[Any] = []
    refused: dict[int, KafkaError] = {}
    for place, item in enumerate(getattr(event, rule.items)):
        refusal = _refusal(rule.needs(image, item), submission, caller, acls)
        if refusal is None:
            kept.append(item)
        else:
            refused[place] = refusal
    return AuthorizedEvent(msgspec.structs.replace(event, **{rule.items: tuple(kept)}) if refused else event, refused)


def _refusal(needs: Needs, submission: Submission, caller: Caller, acls: AclEvaluator) -> KafkaError | None:
    for enough in needs:
        if not any(acls.permits(caller, *need) for need in enough):
            missing = enough[-1]
            log.info(
                "denied request principal=%r host=%s operation=%s resource=%s:%r request=%s forwarded_by=%d",
                caller.principal,
                caller.host,
                missing.operation.name,
                missing.resource_type.name,
                missing.name,
                type(submission.event).__name__,
                submission.asked_by,
                extra=BY_CLIENT,
            )
            if missing.resource_type == ResourceType.CLUSTER:
                return KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")
            if missing.resource_type == ResourceType.USER:
                return KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
            return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
    return None


def _cluster(operation: AclOperation) -> Permission:
    return Permission(operation, ResourceType.CLUSTER, CLUSTER_NAME)


def _topic(operation: AclOperation, name: str) -> Permission:
    return Permission(operation, ResourceType.TOPIC, name)


def _alter_cluster(_image: ClusterImage, _: Any) -> Needs:
    return ((_cluster(AclOperation.ALTER),),)


def _describe_cluster(_image: ClusterImage, _: Any) -> Needs:
    return ((_cluster(AclOperation.DESCRIBE),),)


def _living(image: ClusterImage, topic_id: Uuid, *operations: AclOperation) -> Needs:
    """Return the permission for one of these operations on a topic. Require none for a deleted topic, because the
    decision refuses the event anyway."""
    name = image.names.get(topic_id)
    return () if name is None else (tuple(_topic(operation, name) for operation in operations),)


def _create(_image: ClusterImage, topic: e.NewTopic) -> Needs:
    return ((_cluster(AclOperation.CREATE), _topic(AclOperation.CREATE, topic.name)),)


def _delete(image: ClusterImage, topic_id: Uuid) -> Needs:
    record = image.deletions.get(topic_id)
    if topic_id not in image.names and record is not None and record.state == FOUND:
        # Stray replicas have no topic in the metadata. Use the topic name from their directory names for the
        # authorization.
        return ((_topic(AclOperation.DELETE, record.topic),),)
    return _living(image, topic_id, AclOperation.DELETE)


def _purge(image: ClusterImage, topic_id: Uuid) -> Needs:
    former = topic_or_deletion(image, None, topic_id)
    if former is None:
        return ()
    name = former.topic if isinstance(former, DeletionRecord) else former.name
    return ((_topic(AclOperation.DELETE, name),),)


def _undelete(image: ClusterImage, event: e.UndeleteTopic) -> Needs:
    needs = _purge(image, event.topic_id)
    return needs if event.new_name is None or not needs else (*needs, (_topic(AclOperation.CREATE, event.new_name),))


def _alter_configs(_image: ClusterImage, change: e.ConfigChange) -> Needs:
    if change.resource == "topic":
        return ((_topic(AclOperation.ALTER_CONFIGS, change.name),),)
    if change.resource == "group":
        return ((Permission(AclOperation.ALTER_CONFIGS, ResourceType.GROUP, change.name),),)
    return ((_cluster(AclOperation.ALTER_CONFIGS),),)


def _create_token(_image: ClusterImage, event: e.CreateToken) -> Needs:
    owner, requester = event.token.owner, event.token.requester
    return () if owner == requester else ((Permission(AclOperation.CREATE_TOKENS, ResourceType.USER, owner),),)


def _ingest(image: ClusterImage, event: e.BeginIngest | e.CommitIngest) -> Needs:
    return _living(image, event.key[0], AclOperation.WRITE)


def _drop_ingests(image: ClusterImage, event: e.DropIngests) -> Needs:
    return tuple(
        needs for key, _ in event.open for needs in _living(image, key[0], AclOperation.WRITE, AclOperation.ALTER)
    )


RULES: Mapping[type[e.Event[Any]], PermissionRule] = {
    e.CreateTopics: PermissionRule(_create, "topics"),
    e.DeleteTopics: PermissionRule(_delete, "topics"),
    e.TruncateTopics: PermissionRule(lambda image, one: _living(image, one.topic_id, AclOperation.DELETE), "topics"),
    e.UndeleteTopic: PermissionRule(_undelete),
    e.PurgeTopics: PermissionRule(_purge, "topics"),
    e.CreatePartitions: PermissionRule(lambda _, one: ((_topic(AclOperation.ALTER, one.name),),), "topics"),
    e.AlterConfigs: PermissionRule(_alter_configs, "changes"),
    e.AlterClientQuotas: PermissionRule(lambda *_: ((_cluster(AclOperation.ALTER_CONFIGS),),), "changes"),
    # The decision function checks who owns the token.
    e.ChangeToken: PermissionRule(lambda *_: ()),
    e.CreateToken: PermissionRule(_create_token),
    e.CreateAcls: PermissionRule(_alter_cluster),
    e.DeleteAcls: PermissionRule(_alter_cluster),
    e.AlterUsers: PermissionRule(_alter_cluster, "changes"),
    e.ElectLeaders: PermissionRule(_alter_cluster),
    e.ReassignPartitions: PermissionRule(_alter_cluster),
    e.UnregisterBroker: PermissionRule(_alter_cluster),
    e.UpdateFeatures: PermissionRule(_alter_cluster),
    q.DescribeQuorum: PermissionRule(_describe_cluster),
    q.AddVoter: PermissionRule(_alter_cluster),
    q.RemoveVoter: PermissionRule(_alter_cluster),
    q.UnregisterController: PermissionRule(_alter_cluster),
    q.TransferQuorumLeader: PermissionRule(_alter_cluster),
    e.BeginIngest: PermissionRule(_ingest),
    e.CommitIngest: PermissionRule(_ingest),
    e.DropIngests: PermissionRule(_drop_ingests),
}
"""Events that clients may submit. Only brokers submit all other events."""
