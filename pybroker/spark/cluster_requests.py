"""Requests of the Spark driver about topics, offsets and groups. Tasks use the native core."""

from __future__ import annotations

import logging
import re
import socket
import time
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

from pybroker.client.admin.config_messages import describe_request, described
from pybroker.client.admin.config_types import ConfigResource
from pybroker.native import BlockingClient, NativeError, Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode, error_name
from pybroker.spark.source_errors import (
    NoSuchTopicIdError,
    OptionError,
    SparkSourceError,
    TopicGoneError,
    UnknownTopicError,
)
from pybroker.spark.token_source import with_token
from pybroker.spark.topic_selection import TopicSelection

EARLIEST, LATEST = -2, -1
METADATA, LIST_OFFSETS, OFFSET_COMMIT, FIND_COORDINATOR, DESCRIBE_CONFIGS = 3, 2, 8, 10, 32
METADATA_WITH_IDS = 10
LEADER_PATIENCE_S = 30.0
UNKNOWN_PATIENCE_S = 2.0
LOOKUP_PATIENCE_S = 5.0
PAUSE_S, PAUSE_MAX_S = 0.1, 1.0
MAX_MESSAGE_BYTES = "max.message.bytes"
AWAY = frozenset({ErrorCode.NETWORK_EXCEPTION, ErrorCode.BROKER_NOT_AVAILABLE})
_OTHER_TOPIC = (ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID)
_UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)
T = TypeVar("T")
Offsets: TypeAlias = dict[tuple[str, int], int]
"""(topic id, partition) → offset"""
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class SparkTopic:
    """An existing topic. leaders: broker ids by partition."""

    id: str
    name: str
    leaders: tuple[int, ...]

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return len(self.leaders)


class BrokerRefusalError(SparkSourceError):
    """A broker responded with an error code."""

    def __init__(self, code: int, what: str, message: str | None = None) -> None:
        self.code = code
        super().__init__(f"{what}: {error_name(code)}" + (f": {message}" if message else ""))


class SparkCluster:
    """A cluster, and one blocking client for it. All its requests can be repeated safely.

    waits: whether to retry for `patience_s` seconds (Kafka's `delivery.timeout.ms`) while a broker is unreachable. The
    native client itself replaces connections that brokers have closed because they were idle.
    """

    def __init__(self, settings: Mapping[str, str], *, waits: bool = False) -> None:
        self._client = BlockingClient(with_token(settings))
        self._bootstrap_servers = settings.get("bootstrap.servers", "")
        self._reached = False
        # The user's time limit for delivery also applies to requests of the driver.
        self.patience_s = self._client.delivery_timeout_ms / 1000
        self._away_s = self.patience_s if waits else 0.0
        self._leaders_s = self.patience_s if waits else LEADER_PATIENCE_S
        self._repeating = False
        self._id: str | None = None

    @property
    def id(self) -> str:
        """The cluster's id. Raises NativeError."""
        if self._id is None:
            self._id = self._asked(self._client.cluster_id) or ""
        return self._id

    def patiently(self, step: Callable[[], T], passing: Container[int], patience_s: float) -> T:
        """Call `step`. While it fails with an error in `passing`, call it again, with growing pauses.

        Nested calls do not retry by themselves. Raises the error of the last attempt; OptionError if no broker has been
        reached yet and no host name could be resolved for 5 s.
        """
        if self._repeating:
            return step()
        began = time.monotonic()
        give_up = began + patience_s
        pause = PAUSE_S
        self._repeating = True
        try:
            while True:
                try:
                    result = step()
                    self._reached = True
                    return result
                except (NativeError, BrokerRefusalError) as error:
                    left = give_up - time.monotonic()
                    if error.code in AWAY and not self._reached and time.monotonic() - began >= LOOKUP_PATIENCE_S:
                        self._require_host_names()
                    if error.code not in passing or left <= 0:
                        raise
                    if pause == PAUSE_S:
                        log.warning("%s; retrying for %.0f s", error, left)
                    time.sleep(min(pause, left))
                    pause = min(2 * pause, PAUSE_MAX_S)
        finally:
            self._repeating = False

    def _require_host_names(self) -> None:
        """Raise OptionError if no host name of bootstrap.servers resolves."""
        problem = None
        for each in self._bootstrap_servers.split(","):
            host = each.strip().rpartition(":")[0].strip("[]")
            try:
                socket.getaddrinfo(host, None)
            except OSError as error:
                problem = f"{host}: {error.strerror}"
            else:
                return
        raise OptionError(
            f"kafka.bootstrap.servers={self._bootstrap_servers}: cannot resolve any host name: {problem}"
        ) from None

    def _asked(self, request: Callable[[], T]) -> T:
        return self.patiently(request, AWAY, self._away_s)

    def send(self, message: Any, api_key: int, low: int, high: int, node: int | None = None) -> Any:
        """Send a request in the highest version of low..high that the node serves (None: any node, −1: the controller).

        Raises NativeError, and BrokerRefusalError if there is no such version.
        """

        def once() -> Any:
            version = self._client.version(api_key, low, high, node)
            if version is None:
                name = type(message).__name__
                raise BrokerRefusalError(ErrorCode.UNSUPPORTED_VERSION, f"{name} in versions {low}-{high}")
            return self._client.request(message, version, node)

        return self._asked(once)

    def serves(self, api_key: int) -> bool:
        """Return whether the brokers know an API key."""
        return self._asked(lambda: self._client.version(api_key, 0, 32767)) is not None

    # ---- topics

    def _metadata(self, topics: list[Any] | None) -> list[Any]:
        request = m.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        found: list[Any] = self.send(request, METADATA, METADATA_WITH_IDS, 12).topics
        return found

    def _known(self, topics: list[Any] | None) -> list[Any]:
        """Return topics when all existing topics have leaders. Missing topics keep their error code."""
        give_up = time.monotonic() + self._leaders_s
        while True:
            found = self._metadata(topics)
            waiting = [each for each in found if each.error_code == ErrorCode.LEADER_NOT_AVAILABLE]
            leaderless = [
                each for each in found if not each.error_code and any(p.leader_id < 0 for p in each.partitions)
            ]
            if not waiting and not leaderless:
                return found
            if time.monotonic() > give_up:
                each = (waiting or leaderless)[0]
                raise BrokerRefusalError(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {each.name}")
            time.sleep(PAUSE_S)

    def _topic(self, found: Any) -> SparkTopic:
        if not found.topic_id:
            raise SparkSourceError("the brokers have no topic ids; use Apache Kafka 2.8 or newer, or pybroker")
        partitions = sorted(found.partitions, key=lambda each: each.partition_index)
        return SparkTopic(str(found.topic_id), found.name, tuple(each.leader_id for each in partitions))

    def topics_named(self, names: Iterable[str]) -> dict[str, SparkTopic]:
        """Return the existing topics of these names."""
        requested = [m.MetadataRequest_MetadataRequestTopic(name=name) for name in names]
        if not requested:
            return {}
        return {each.name: self._topic(each) for each in self._checked(self._known(requested))}

    def topics_with_ids(self, ids: Iterable[str]) -> dict[str, SparkTopic]:
        """Return the existing topics of these ids, by id."""
        requested = [m.MetadataRequest_MetadataRequestTopic(topic_id=_uuid(each), name=None) for each in ids]
        if not requested:
            return {}
        return {str(each.topic_id): self._topic(each) for each in self._checked(self._known(requested))}

    def _checked(self, found: list[Any]) -> list[Any]:
        for each in found:
            if each.error_code and each.error_code not in _UNKNOWN:
                raise BrokerRefusalError(each.error_code, f"topic {each.name or each.topic_id}")
        return [each for each in found if not each.error_code]

    def existing(self, subscription: TopicSelection) -> list[SparkTopic]:
        """Return those subscribed topics that exist."""
        if subscription.pattern is not None:
            pattern = re.compile(subscription.pattern)
            found = self._checked(self._known(None))
            return [self._topic(each) for each in found if not each.is_internal and pattern.fullmatch(each.name)]
        if subscription.ids:
            return list(self.topics_with_ids(subscription.ids).values())
        return list(self.topics_named(subscription.names or subscription.assigned).values())

    def subscribed(self, subscription: TopicSelection) -> list[SparkTopic]:
        """Return the subscribed topics. Raises UnknownTopicError or NoSuchTopicIdError if a topic does not exist,
        OptionError for an assigned partition that does not exist.
        """
        give_up = time.monotonic() + UNKNOWN_PATIENCE_S
        requested = subscription.ids or subscription.names or tuple(subscription.assigned)
        while True:
            found = self.existing(subscription)
            here = {name for each in found for name in (each.id, each.name)}
            missing = [each for each in requested if each not in here]
            if not missing:
                break
            # A new topic reaches the brokers shortly after the controller has created it.
            if time.monotonic() > give_up:
                raise NoSuchTopicIdError(missing, self.id) if subscription.ids else UnknownTopicError(missing, self.id)
            time.sleep(PAUSE_S)
        for each in found:
            beyond = [number for number in subscription.assigned.get(each.name, ()) if number >= each.partitions]
            if beyond:
                raise OptionError(
                    f"assign: {each.name} has {each.partitions} partitions; partition {beyond[0]} does not exist"
                )
        return found

    # ---- offsets

    def offsets(self, requested: Iterable[tuple[SparkTopic, int, int]]) -> Offsets:
        """Return offsets for (topic, partition, timestamp), by (topic id, partition); timestamps may be EARLIEST or
        LATEST.

        −1: all records are older. Raises TopicGoneError, BrokerRefusalError.
        """
        todo = list(requested)
        found: Offsets = {}
        give_up = time.monotonic() + self._leaders_s
        while todo:
            todo = self._some_offsets(todo, found, last=time.monotonic() > give_up)
            if todo:
                time.sleep(PAUSE_S)
                here = self.topics_with_ids({topic.id for topic, _, _ in todo})
                for topic, _, _ in todo:
                    _check_here(topic, here)
                todo = [(here[topic.id], number, at) for topic, number, at in todo]
        return found

    def _some_offsets(
        self, todo: list[tuple[SparkTopic, int, int]], found: Offsets, *, last: bool
    ) -> list[tuple[SparkTopic, int, int]]:
        again = []
        by_leader: dict[int, list[tuple[SparkTopic, int, int]]] = defaultdict(list)
        for each in todo:
            by_leader[each[0].leaders[each[1]]].append(each)
        for leader, places in by_leader.items():
            by_topic: dict[tuple[str, str], list[Any]] = defaultdict(list)
            for topic, number, timestamp in places:
                by_topic[topic.name, topic.id].append(
                    m.ListOffsetsRequest_ListOffsetsPartition(partition_index=number, timestamp=timestamp)
                )
            request = m.ListOffsetsRequest(
                replica_id=-1,
                isolation_level=int(self._client.read_committed),
                topics=[
                    # Apache Kafka ignores the topic id here, so `bounds` checks the ids afterwards.
                    m.ListOffsetsRequest_ListOffsetsTopic(name=name, topic_id=_uuid(topic_id), partitions=asked)
                    for (name, topic_id), asked in by_topic.items()
                ],
            )
            answer = self._from_leader(request, leader, last=last)
            if answer is None:
                again += places
                continue
            answers = {(t.name, p.partition_index): p for t in answer.topics for p in t.partitions}
            for each in places:
                topic, number, _ = each
                row = answers[topic.name, number]
                if not row.error_code:
                    found[topic.id, number] = row.offset
                    continue
                if row.error_code in _OTHER_TOPIC:
                    _check_here(topic, self.topics_with_ids([topic.id]))
                if last:
                    raise BrokerRefusalError(row.error_code, f"offsets of {topic.name} ({topic.id}) partition {number}")
                again.append(each)
        return again

    def _from_leader(self, request: Any, leader: int, *, last: bool) -> Any:
        """Return the leader's response. None if the leader is unreachable and another broker may become leader."""
        try:
            return self.patiently(lambda: self.send(request, LIST_OFFSETS, 2, 9, leader), AWAY, 0.0)
        except NativeError as error:
            if last or error.code not in AWAY or not self._away_s:
                raise
            return None

    def bounds(self, topics: Iterable[SparkTopic]) -> tuple[Offsets, Offsets]:
        """Return the log start and end offsets of all partitions. Verify the topic ids afterwards, because ListOffsets
        uses topic names.

        Raises TopicGoneError.
        """
        requested = list(topics)
        places = [(topic, number) for topic in requested for number in range(topic.partitions)]
        first = self.offsets((topic, number, EARLIEST) for topic, number in places)
        last = self.offsets((topic, number, LATEST) for topic, number in places)
        here = self.topics_with_ids([topic.id for topic in requested])
        for topic in requested:
            _check_here(topic, here)
        return first, last

    def existing_bounds(self, subscription: TopicSelection) -> tuple[list[SparkTopic], Offsets, Offsets]:
        """Return the subscribed topics that exist, and their `bounds`. Retry if a topic is deleted in between.

        Raises TopicGoneError if topics keep disappearing.
        """
        give_up = time.monotonic() + UNKNOWN_PATIENCE_S
        while True:
            topics = self.existing(subscription)
            try:
                return topics, *self.bounds(topics)
            except TopicGoneError:
                if time.monotonic() > give_up:
                    raise

    # ---- groups and configurations

    def commit_offsets(self, group_id: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Commit offsets, by topic name, for a group without members: tools can then show the query's lag.

        Raises BrokerRefusalError.
        """
        self._asked(lambda: self._commit_offsets(group_id, offsets))

    def _commit_offsets(self, group_id: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        request = m.FindCoordinatorRequest(key=group_id, key_type=0)
        coordinator = self.send(request, FIND_COORDINATOR, 0, 3)
        if coordinator.error_code:
            raise BrokerRefusalError(coordinator.error_code, f"coordinator of group {group_id}")
        commit = m.OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=-1,
            member_id="",
            topics=[
                m.OffsetCommitRequest_OffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        m.OffsetCommitRequest_OffsetCommitRequestPartition(partition_index=number, committed_offset=at)
                        for number, at in places.items()
                    ],
                )
                for name, places in offsets.items()
            ],
        )
        answer = self.send(commit, OFFSET_COMMIT, 2, 9, coordinator.node_id)
        for topic in answer.topics:
            for partition in topic.partitions:
                if partition.error_code:
                    place = f"{topic.name} partition {partition.partition_index}"
                    raise BrokerRefusalError(partition.error_code, f"commit of group {group_id} for {place}")

    def batch_bytes_max(self, topic: str) -> int:
        """Return `max.message.bytes` of a topic. If the user may not read the setting, return a very large number."""
        request = describe_request([ConfigResource.topic(topic)], [MAX_MESSAGE_BYTES])
        for each in described(self.send(request, DESCRIBE_CONFIGS, 0, 4)):
            value = each.entries[MAX_MESSAGE_BYTES].value if MAX_MESSAGE_BYTES in each.entries else None
            if value:
                return int(value)
        return 1 << 30


def _check_here(topic: SparkTopic, here: Container[str]) -> None:
    if topic.id not in here:
        raise TopicGoneError(f"topic {topic.name} ({topic.id}) was just deleted")


def _uuid(text: str) -> Uuid:
    try:
        return Uuid.parse(text)
    except ValueError as error:
        raise OptionError(f"{text} is not a topic id: {error}") from None


__all__ = ["EARLIEST", "LATEST", "BrokerRefusalError", "NativeError", "SparkCluster", "SparkTopic"]
