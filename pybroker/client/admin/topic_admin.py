"""AdminClient's calls about topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from pybroker.client.admin.admin_base import AdminBase
from pybroker.client.admin.admin_results import (
    CreateTopicsResult,
    DeleteTopicsResult,
    DescribeTopicsResult,
    Futures,
    KeyedResult,
    TopicMetadataAndConfig,
    settle,
    start,
)
from pybroker.client.admin.config_types import ConfigEntry
from pybroker.client.admin.topic_types import (
    ListTopicsResult,
    NewPartitions,
    NewTopic,
    TopicCollection,
    TopicDescription,
    TopicIdCollection,
    TopicListing,
    TopicPage,
    TopicPartitionInfo,
    topic_collection,
)
from pybroker.client.client_errors import broker_error
from pybroker.client.cluster_metadata import Node
from pybroker.client.connection.broker_connection import BrokerConnection
from pybroker.client.connection.request_schema import request_schema
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode

_NOT_SAID = -(1 << 31)
_METADATA_BY_ID = 12
"""Do not use versions 10 and 11 for ids: Apache Kafka refuses ids there, because names are not nullable."""
_DELETE_BY_ID = 6

Named = TypeVar("Named", bound=str | Uuid)
"""A topic by name or by id."""


class TopicsAdmin(AdminBase):
    """Calls that create, delete, describe and list topics, and add partitions."""

    def create_topics(
        self,
        new_topics: Iterable[NewTopic],
        *,
        validate_only: bool = False,
        timeout_s: float | None = None,
    ) -> CreateTopicsResult:
        """Create topics; each succeeds or fails independently. validate_only: only check whether creation would
        succeed. timeout_s: time limit for the broker, None = `request.timeout.ms`.
        """
        topics = {topic.name: topic for topic in new_topics}
        request = m.CreateTopicsRequest(
            topics=[_creatable(topic) for topic in topics.values()],
            timeout_ms=self._timeout_ms(timeout_s),
            validate_only=validate_only,
        )

        async def work(futures: Futures[str, TopicMetadataAndConfig]) -> None:
            answer = await self._controller(request, lambda response: response.topics)
            for row in answer.topics:
                if row.name in futures:
                    settle(futures[row.name], row.error_code, row.error_message, _created(row), f"topic {row.name}")

        return CreateTopicsResult(start(topics, work))

    def delete_topics(
        self, topics: TopicCollection | Iterable[str], *, timeout_s: float | None = None
    ) -> DeleteTopicsResult:
        """Delete topics. An id means exactly that incarnation (KIP-516); a name means the topic that has the name now.
        """
        requested = topic_collection(topics)
        keys: Iterable[Any]
        if isinstance(requested, TopicIdCollection):
            keys = requested.topic_ids()
            rows = [m.DeleteTopicsRequest_DeleteTopicState(topic_id=topic_id) for topic_id in keys if topic_id]
            names: list[str] = []
        else:
            keys = names = list(requested.topic_names())
            rows = [m.DeleteTopicsRequest_DeleteTopicState(name=name) for name in names]
        by_id = isinstance(requested, TopicIdCollection)
        request = m.DeleteTopicsRequest(topics=rows, topic_names=names, timeout_ms=self._timeout_ms(timeout_s))

        async def ask(connection: BrokerConnection) -> Any:
            if by_id:
                self._at_least(connection, m.DeleteTopicsRequest, _DELETE_BY_ID, "delete topics by id")
            answer = await connection.request(request)
            if any(row.error_code == ErrorCode.NOT_CONTROLLER for row in answer.responses):
                raise broker_error(ErrorCode.NOT_CONTROLLER)
            return answer

        async def work(futures: Futures[Any, None]) -> None:
            _refuse_zero(futures)
            if not rows:
                return
            answer = await self._network.attempt("controller", ask, about=request_schema(type(request)).name)
            for row in answer.responses:
                key = row.topic_id if by_id else row.name
                if key in futures:
                    settle(futures[key], row.error_code, row.error_message, None, f"topic {key}")

        futures: Futures[Any, None] = start(keys, work)
        return DeleteTopicsResult.of_topic_ids(futures) if by_id else DeleteTopicsResult.of_topic_names(futures)

    def describe_topics(
        self, topics: TopicCollection | Iterable[str], *, include_authorized_operations: bool = False
    ) -> DescribeTopicsResult:
        """Describe topics by id or by name. Never creates a topic."""
        requested = topic_collection(topics)
        keys: Iterable[Any]
        topic = m.MetadataRequest_MetadataRequestTopic
        if isinstance(requested, TopicIdCollection):
            keys = requested.topic_ids()
            rows = [topic(topic_id=topic_id, name=None) for topic_id in keys if topic_id]
        else:
            keys = requested.topic_names()
            rows = [topic(name=name) for name in keys]
        by_id = isinstance(requested, TopicIdCollection)
        request = m.MetadataRequest(
            topics=rows,
            allow_auto_topic_creation=False,
            include_topic_authorized_operations=include_authorized_operations,
        )

        async def ask(connection: BrokerConnection) -> Any:
            if by_id:
                self._at_least(connection, m.MetadataRequest, _METADATA_BY_ID, "describe topics by id")
            return await connection.request(request)

        async def work(futures: Futures[Any, TopicDescription]) -> None:
            _refuse_zero(futures)
            if not rows:
                return
            answer = await self._network.attempt("any", ask, about=request_schema(type(request)).name)
            nodes = {row.node_id: Node(row.node_id, row.host, row.port, row.rack) for row in answer.brokers}
            for row in answer.topics:
                key = row.topic_id if by_id else row.name
                if key in futures:
                    settle(futures[key], row.error_code, None, _description(row, nodes), f"topic {key}")

        futures: Futures[Any, TopicDescription] = start(keys, work)
        return DescribeTopicsResult.of_topic_ids(futures) if by_id else DescribeTopicsResult.of_topic_names(futures)

    async def list_topics_page(
        self, *, prefix: str = "", after: str | None = None, limit: int = 100, list_internal: bool = False
    ) -> TopicPage:
        """Return at most `limit` topics in the order of their names. The names start with `prefix` and come after
        `after`.

        With version 1 of ListTopics, a broker returns only the page. From other brokers the client fetches all names
        and selects the page.
        """

        async def ask(connection: BrokerConnection) -> TopicPage | None:
            if not connection.supports(m.ListTopicsRequest, 1):
                return None
            request = m.ListTopicsRequest(list_internal=list_internal, prefix=prefix, after=after, limit=limit)
            answer = await connection.request(request, 1)
            if answer.error_code:
                raise broker_error(answer.error_code, about="list of topics")
            listings = tuple(TopicListing(row.name, row.topic_id, row.internal) for row in answer.topic_listing)
            return TopicPage(listings, answer.next)

        page: TopicPage | None = await self._network.attempt("any", ask, about="list of topics")
        if page is not None:
            return page
        found = await self.list_topics(list_internal=list_internal)
        names = sorted(name for name in found if name.startswith(prefix) and (after is None or name > after))
        more = len(names) > limit
        return TopicPage(tuple(found[name] for name in names[:limit]), names[limit - 1] if more else None)

    async def list_topics(self, *, list_internal: bool = False) -> ListTopicsResult:
        """Return all topics that the caller may see. list_internal: include internal topics.

        Uses ListTopics (KIP-142) if the broker has it, else Metadata.
        """

        async def ask(connection: BrokerConnection) -> ListTopicsResult:
            if not connection.supports(m.ListTopicsRequest):
                answer = await connection.request(m.MetadataRequest(topics=None, allow_auto_topic_creation=False))
                return _listed(
                    TopicListing(row.name, row.topic_id, row.is_internal)
                    for row in answer.topics
                    if not row.error_code and (list_internal or not row.is_internal)
                )
            return await _list_topics(connection, list_internal)

        return await self._network.attempt("any", ask, about="list of topics")

    def create_partitions(
        self,
        new_partitions: Mapping[Named, NewPartitions | int],
        *,
        validate_only: bool = False,
        timeout_s: float | None = None,
    ) -> KeyedResult[Named, None]:
        """Add partitions: topic, by name or by id → new total number of partitions."""
        rows = []
        for topic, new in new_partitions.items():
            requested = NewPartitions(new) if isinstance(new, int) else new
            assignments = (
                None
                if requested.assignments is None
                else [
                    m.CreatePartitionsRequest_CreatePartitionsAssignment(broker_ids=list(brokers))
                    for brokers in requested.assignments
                ]
            )
            rows.append(
                m.CreatePartitionsRequest_CreatePartitionsTopic(
                    name=topic if isinstance(topic, str) else "",
                    topic_id=topic if isinstance(topic, Uuid) else Uuid.ZERO,
                    count=requested.total_count,
                    assignments=assignments,
                )
            )
        request = m.CreatePartitionsRequest(
            topics=rows, timeout_ms=self._timeout_ms(timeout_s), validate_only=validate_only
        )

        async def work(futures: Futures[Any, None]) -> None:
            _refuse_zero(futures)
            answer = await self._controller(
                request, lambda response: response.results, [row.topic_id for row in request.topics]
            )
            for row in answer.results:
                key = row.name or row.topic_id
                settle(futures[key], row.error_code, row.error_message, None, f"topic {key}")

        return KeyedResult(start(new_partitions, work))


def _refuse_zero(futures: Futures[Any, Any]) -> None:
    """Fail the futures of the zero id. No topic has this id, and in requests it means "no id"."""
    if Uuid.ZERO in futures:
        code = ErrorCode.INVALID_TOPIC_EXCEPTION
        settle(futures[Uuid.ZERO], code, f"{Uuid.ZERO} is not a topic id; pass the id of an existing topic", None, "")


async def _list_topics(connection: BrokerConnection, list_internal: bool) -> ListTopicsResult:
    """List topics with KIP-142's request. From version 1 on, the response is paged and has ids; in version 0, a single
    response has all topics, without ids."""
    paged = connection.supports(m.ListTopicsRequest, 1)
    found: list[TopicListing] = []
    after: str | None = None
    while True:
        request = m.ListTopicsRequest(list_internal=list_internal, after=after)
        answer = await connection.request(request, int(paged))
        if answer.error_code:
            raise broker_error(answer.error_code, about="list of topics")
        found += (TopicListing(row.name, row.topic_id, row.internal) for row in answer.topic_listing)
        after = answer.next
        if after is None:
            return _listed(found)


def _listed(listings: Iterable[TopicListing]) -> ListTopicsResult:
    return ListTopicsResult((each.name, each) for each in listings)


def _creatable(topic: NewTopic) -> Any:
    if topic.replica_assignments and (topic.num_partitions, topic.replication_factor) != (-1, -1):
        raise ValueError(f"topic {topic.name}: pass either replica_assignments or the numbers, not both")
    return m.CreateTopicsRequest_CreatableTopic(
        name=topic.name,
        num_partitions=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignments=[
            m.CreateTopicsRequest_CreatableReplicaAssignment(partition_index=index, broker_ids=list(brokers))
            for index, brokers in sorted(topic.replica_assignments.items())
        ],
        configs=[
            m.CreateTopicsRequest_CreatableTopicConfig(name=name, value=None if value is None else str(value))
            for name, value in topic.config.items()
        ],
    )


def _created(row: Any) -> TopicMetadataAndConfig:
    config = None
    if row.configs is not None and not row.topic_config_error_code and row.num_partitions >= 0:
        config = {
            each.name: ConfigEntry(each.name, each.value, each.config_source, each.read_only, each.is_sensitive)
            for each in row.configs
        }
    return TopicMetadataAndConfig(row.topic_id, row.num_partitions, row.replication_factor, config)


def _description(row: Any, nodes: Mapping[int, Node]) -> TopicDescription:
    def known(ids: Iterable[int]) -> tuple[Node, ...]:
        return tuple(nodes.get(each, Node(each, "", -1)) for each in ids)

    operations = row.topic_authorized_operations
    return TopicDescription(
        row.name or "",
        row.is_internal,
        tuple(
            TopicPartitionInfo(
                each.partition_index,
                nodes.get(each.leader_id),
                known(each.replica_nodes),
                known(each.isr_nodes),
                each.leader_epoch,
            )
            for each in sorted(row.partitions, key=lambda each: each.partition_index)
        ),
        None if operations == _NOT_SAID else frozenset(bit for bit in range(31) if operations >> bit & 1),
        row.topic_id,
    )
