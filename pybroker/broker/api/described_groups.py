"""Code that ConsumerGroupDescribe (69), ShareGroupDescribe (77) and StreamsGroupDescribe (89) share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from pybroker.broker.admin.features import FeatureAdmin
from pybroker.broker.coordinators.group.coordinator import GroupCoordinator
from pybroker.broker.coordinators.shards.interfaces import Topics
from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import AclOperation, Authorizer, ResourceType
from pybroker.errors import KafkaError
from pybroker.protocol.error_codes import ErrorCode


class DescribedGroupSources(NamedTuple):
    """The dependencies of the handlers."""

    groups: GroupCoordinator
    topics: Topics
    features: FeatureAdmin


def described(
    request: Any,
    authorizer: Authorizer,
    context: RequestContext,
    require_served: Callable[[], None],
    *,
    describe: Callable[[str], Any],
    failed: Callable[..., Any],
    topics_of: Callable[[Any], set[str]] | None = None,
) -> list[Any]:
    """Return a description of each requested group. `require_served` raises KafkaError if this broker does not
    coordinate the group. `describe` builds a description or raises KafkaError; `failed` builds a description with only
    an error. `topics_of` returns the topics that a description names (default: the topics of its members). A group with
    a topic that the caller may not describe answers TOPIC_AUTHORIZATION_FAILED, without its members.
    """
    answers = []
    # Return each group only once. Otherwise each repetition of a name, a few bytes, would return all members of the
    # group again.
    for group_id in dict.fromkeys(request.group_ids):
        try:
            require_served()
            authorizer.require_group(context, AclOperation.DESCRIBE, group_id)
            if not group_id:
                raise KafkaError(ErrorCode.INVALID_GROUP_ID, "The group id is empty.")
            answer = describe(group_id)
            names = _topics_of_members(answer.members) if topics_of is None else topics_of(answer)
            _require_topics(names, authorizer, context)
        except KafkaError as error:
            answer = failed(group_id=group_id, error_code=error.code, error_message=error.message)
        else:
            if request.include_authorized_operations:
                answer.authorized_operations = authorizer.operations(context, ResourceType.GROUP, group_id)
        answers.append(answer)
    return answers


def _topics_of_members(members: Iterable[Any]) -> set[str]:
    names: set[str] = set()
    for member in members:
        names.update(member.subscribed_topic_names)
        # Members of share groups have no target assignment, so their class does not have this field.
        for assigned in (member.assignment, getattr(member, "target_assignment", None)):
            names.update(topic.topic_name for topic in (assigned.topic_partitions if assigned is not None else ()))
    return names


def _require_topics(names: Iterable[str], authorizer: Authorizer, context: RequestContext) -> None:
    if not all(authorizer.permits_topic(context, AclOperation.DESCRIBE, name) for name in names):
        raise KafkaError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            "Members of the group read topics that this client is not allowed to describe.",
        )
