"""AdminClient's calls about incarnations of topics: pybroker's own requests (docs/protocol.md, docs/topic-life.md)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from pybroker.client.admin.admin_base import AdminBase
from pybroker.client.admin.admin_results import Futures, KeyedResult, settle, start
from pybroker.client.admin.incarnation_types import (
    DeletedReplica,
    LogEnds,
    PurgedTopic,
    TopicDeletion,
    TopicEvent,
    TopicIncarnation,
    TruncatedTopic,
    UndeletedTopic,
)
from pybroker.client.admin.topic_types import TopicCollection, TopicIdCollection, topic_collection
from pybroker.client.client_errors import KafkaError, broker_error
from pybroker.client.cluster_metadata import TopicPartition
from pybroker.native import Uuid
from pybroker.protocol import messages as m


class IncarnationsAdmin(AdminBase):
    """Undelete, purge, truncate, history, deletions. They raise UnsupportedVersionError if a broker is not pybroker."""

    def undelete_topics(
        self, topics: Iterable[Uuid] | Mapping[Uuid, str | None], *, timeout_s: float | None = None
    ) -> KeyedResult[Uuid, UndeletedTopic]:
        """Bring deleted topics back with records, settings and committed offsets, while their replicas are still
        staged.

        topics: their ids, or id → new name (None = the old name).
        """
        names = topics if isinstance(topics, Mapping) else dict.fromkeys(topics)
        TopicCollection.of_topic_ids(names)  # Raises TypeError unless `names` are ids
        request = m.UndeleteTopicsRequest(
            topics=[
                m.UndeleteTopicsRequest_UndeletableTopic(topic_id=topic_id, new_name=name)
                for topic_id, name in names.items()
            ],
            timeout_ms=self._timeout_ms(timeout_s),
        )

        async def work(futures: Futures[Uuid, UndeletedTopic]) -> None:
            answer = await self._controller(request, lambda response: response.topics)
            for row in answer.topics:
                if row.topic_id in futures:
                    made = UndeletedTopic(row.name or "", row.topic_id)
                    settle(futures[row.topic_id], row.error_code, row.error_message, made, f"topic {row.topic_id}")

        return KeyedResult(start(names, work))

    def purge_topics(
        self, topics: Iterable[Uuid], *, delay_s: float = 0, timeout_s: float | None = None
    ) -> KeyedResult[Uuid, PurgedTopic]:
        """Remove the data of deleted topics now, permanently, on every broker. A broker that is down removes it when it
        returns.

        delay_s: if above 0, the data is not removed now. Instead, the delay of these deletions is shortened to delay_s,
        counted from the deletion; undelete is possible until the delay ends.
        """
        ids = TopicCollection.of_topic_ids(list(topics)).topic_ids()
        request = m.PurgeTopicsRequest(
            topics=[m.PurgeTopicsRequest_PurgeableTopic(topic_id=topic_id) for topic_id in ids],
            delay_ms=int(delay_s * 1000),
            timeout_ms=self._timeout_ms(timeout_s),
        )

        async def work(futures: Futures[Uuid, PurgedTopic]) -> None:
            answer = await self._controller(request, lambda response: response.topics)
            for row in answer.topics:
                if row.topic_id in futures:
                    made = PurgedTopic(row.name or "", row.topic_id, row.remove_after_ms)
                    settle(futures[row.topic_id], row.error_code, row.error_message, made, f"topic {row.topic_id}")

        return KeyedResult(start(ids, work))

    def truncate_topics(
        self,
        topics: TopicCollection | Iterable[str],
        *,
        keep_offsets: bool = False,
        timeout_s: float | None = None,
    ) -> KeyedResult[Any, TruncatedTopic]:
        """Remove all records of topics: each topic gets a new id and empty logs, and keeps its name and settings.

        The old incarnation becomes a deleted topic, which can be undeleted under another name.

        keep_offsets: new records continue at the old log end offsets, and groups keep their offsets. The result is by
        id or by name, as requested.
        """
        wanted = topic_collection(topics)
        by_id = isinstance(wanted, TopicIdCollection)
        keys: Iterable[Any] = wanted.topic_ids() if isinstance(wanted, TopicIdCollection) else wanted.topic_names()

        async def work(futures: Futures[Any, TruncatedTopic]) -> None:
            # Truncate by id. If the client sends the request twice, the second request then has no effect.
            ids = {each: each for each in futures} if by_id else await self._ids(futures)
            if not ids:
                return
            request = m.TruncateTopicsRequest(
                topics=[
                    m.TruncateTopicsRequest_TruncatableTopic(topic_id=topic_id, keep_offsets=keep_offsets)
                    for topic_id in ids
                ],
                timeout_ms=self._timeout_ms(timeout_s),
            )
            answer = await self._controller(request, lambda response: response.topics)
            for topic_id, row in zip(ids, answer.topics, strict=True):
                made = TruncatedTopic(row.name or "", row.topic_id, row.old_topic_id)
                settle(futures[ids[topic_id]], row.error_code, row.error_message, made, f"topic {ids[topic_id]}")

        return KeyedResult(start(keys, work))

    async def _ids(self, futures: Futures[str, TruncatedTopic]) -> dict[Uuid, str]:
        """Return the ids of the existing topics. Settle the futures of the other topics."""

        async def look(name: str) -> tuple[Uuid, str] | None:
            try:
                cluster = await self._network.existing([TopicPartition(name, 0)])
            except KafkaError as error:
                futures[name].set_exception(error)
                return None
            return cluster.topic_id(name), name

        return dict(found for found in await asyncio.gather(*map(look, futures)) if found is not None)

    def describe_topic_history(
        self, topics: TopicCollection | Iterable[str]
    ) -> KeyedResult[Any, tuple[TopicIncarnation, ...]]:
        """Return every incarnation of topics that the cluster remembers, including deleted ones. The result is by id or
        name, as requested.
        """
        wanted = topic_collection(topics)
        by_id = isinstance(wanted, TopicIdCollection)
        keys: Iterable[Any] = wanted.topic_ids() if isinstance(wanted, TopicIdCollection) else wanted.topic_names()
        topic = m.DescribeTopicHistoryRequest_HistoryTopic
        rows = [topic(topic_id=key) if by_id else topic(name=key) for key in keys]

        async def work(futures: Futures[Any, tuple[TopicIncarnation, ...]]) -> None:
            request = m.DescribeTopicHistoryRequest(topics=rows)
            answer = await self._controller(request, lambda response: response.topics)
            for key, row in zip(futures, answer.topics, strict=True):
                incarnations = tuple(_incarnation(each) for each in row.incarnations)
                settle(futures[key], row.error_code, row.error_message, incarnations, f"topic {key}")

        return KeyedResult(start(keys, work))

    async def describe_deletions(self, topics: TopicCollection | Iterable[str] | None = None) -> list[TopicDeletion]:
        """Return deleted topics. topics: None = all deleted topics whose data is not yet removed; otherwise these
        topics, even if their data is removed.
        """
        filters = None
        if topics is not None:
            wanted = topic_collection(topics)
            row = m.DescribeDeletionsRequest_DeletionFilter
            if isinstance(wanted, TopicIdCollection):
                filters = [row(topic_id=each) for each in wanted.topic_ids()]
            else:
                filters = [row(name=each) for each in wanted.topic_names()]
        answer = await self._controller(m.DescribeDeletionsRequest(topics=filters), lambda response: (response,))
        if answer.error_code:
            raise broker_error(answer.error_code, answer.error_message, about="deletions")
        return [_deletion(each) for each in answer.deletions]


def _known(number: int) -> int | None:
    return None if number < 0 else number


def _incarnation(row: Any) -> TopicIncarnation:
    return TopicIncarnation(
        row.name,
        row.topic_id,
        row.state,
        _known(row.created_ms),
        row.created_by,
        row.created_how,
        _known(row.deleted_ms),
        row.deleted_by,
        row.deleted_how,
        row.successor_id or None,
        tuple(TopicEvent(each.what, each.at_ms, each.by, each.name or None) for each in row.events),
        tuple(
            LogEnds(each.partition_index, _known(each.log_start_offset), _known(each.log_end_offset))
            for each in row.partitions
        ),
    )


def _deletion(row: Any) -> TopicDeletion:
    return TopicDeletion(
        row.name,
        row.topic_id,
        row.state,
        row.how,
        row.deleted_ms,
        row.deleted_by,
        _known(row.remaining_ms),
        _known(row.size_bytes),
        tuple(
            DeletedReplica(
                each.partition_index,
                each.broker_id,
                each.state,
                each.log_dir,
                _known(each.size_bytes),
                _known(each.remaining_ms),
            )
            for each in row.partitions
        ),
        _known(row.remove_after_ms),
        # Version 0 of the response does not have the field.
        row.undeletable or (row.remove_after_ms < 0 and row.state in ("deleting", "staged")),
    )
