"""Create and delete topics and add partitions. Validates requests, submits one event to the controller, and answers
when the result is in effect. Independent of protocol versions.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

import msgspec

from pybroker.broker.admin.config_changes import check_stored_size
from pybroker.broker.admin.topic_log import log_created, log_deleted
from pybroker.broker.admin.topic_names import check_new_name
from pybroker.broker.clock import Clock
from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.events import (
    BY_BROKER,
    CreatedTopic,
    CreatePartitions,
    CreateTopics,
    DeletedTopic,
    DeleteTopics,
    DropDeleteOrders,
    NewPartitions,
    NewTopic,
)
from pybroker.broker.cluster.lookup import death, last_deletion, unknown_id, unknown_topic
from pybroker.broker.metadata.deletion_records import FOUND
from pybroker.config import BrokerConfig, ConfigError, check_resolved, resolve_topic_configs, validate_topic_configs
from pybroker.errors import KafkaError
from pybroker.native import INTERNAL_TOPICS, Uuid
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode

log = logging.getLogger(__name__)

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_STATE = "__share_group_state"

DEFAULT_COUNT = -1
"""Number in a request for the broker's default."""

AUTO_CREATE_TIMEOUT_MS = 30_000
"""Time limit in milliseconds of a creation for which no client gives a timeout."""

HELD_BACK_MAX = 1_000
CLIENT_ID_SHOWN_MAX = 64

Entitled = tuple[str, str] | None
"""Principal and address of the client whose permissions apply; None for the broker itself."""


class TopicSpec(msgspec.Struct, frozen=True):
    """A topic to create."""

    name: str
    num_partitions: int = DEFAULT_COUNT
    replication_factor: int = DEFAULT_COUNT
    assignments: Sequence[tuple[int, tuple[int, ...]]] = ()
    configs: Mapping[str, str | None] = {}


class GrowSpec(msgspec.Struct, frozen=True):
    """A request to increase an existing topic to a number of partitions."""

    name: str
    total: int
    assignments: tuple[tuple[int, ...], ...] | None
    topic_id: Uuid | None = None
    """None: the request names the topic by name."""


R = TypeVar("R")


class Results(msgspec.Struct, Generic[R], frozen=True):
    """The results of a request."""

    each: Sequence[R]
    """In the order of the request."""
    throttle_time_ms: int = 0
    """Milliseconds that the client must wait because it exceeded its `controller_mutation_rate`."""


class TopicAdmin:
    """The requests that create, delete and grow topics."""

    def __init__(self, view: ClusterView, controller: ControllerClient, config: BrokerConfig, clock: Clock) -> None:
        self._view = view
        self._controller = controller
        self._config = config
        self._clock = clock
        self._held_back: dict[str, Uuid] = {}
        """Topic name → id of the deleted topic, for names that automatic creation has refused. Each refusal is logged
        only once."""
        self._creating: dict[tuple[str, Entitled], asyncio.Future[KafkaError | None]] = {}

    # --- create -------------------------------------------------------------------------------------------------------

    async def create(
        self,
        specs: Sequence[TopicSpec],
        timeout_ms: int,
        *,
        validate_only: bool = False,
        created_by: str = BY_BROKER,
        automatic: bool = False,
        caller: Caller | None = None,
    ) -> Results[CreatedTopic | KafkaError]:
        """Create topics and return one result per spec. On success the topic is durable and its leaders accept records.
        `created_by` and `automatic` go into the topics' history."""
        names = Counter(spec.name for spec in specs)
        results: list[CreatedTopic | KafkaError | None] = []
        topics: list[NewTopic] = []
        throttle_time_ms = 0
        for spec in specs:
            try:
                if names[spec.name] > 1:
                    raise KafkaError(
                        ErrorCode.INVALID_REQUEST, f"The request names topic '{spec.name}' more than once."
                    )
                topics.append(self._new_topic(spec))
                results.append(None)
            except KafkaError as error:
                results.append(error)
        if topics:
            event = CreateTopics(
                tuple(topics), validate_only, random.getrandbits(31), self._clock.wall_ms(), created_by, automatic
            )
            decided = await self._create(event, timeout_ms, caller)
            rest = iter(decided.each)
            results = [next(rest) if result is None else result for result in results]
            throttle_time_ms = decided.throttle_time_ms
        return Results([result for result in results if result is not None], throttle_time_ms)

    def _new_topic(self, spec: TopicSpec) -> NewTopic:
        check_new_name(spec.name)
        config = self._checked_config(spec.configs)
        assignments = None
        partitions, factor = spec.num_partitions, spec.replication_factor
        if spec.assignments:
            if partitions != DEFAULT_COUNT or factor != DEFAULT_COUNT:
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST,
                    "A manual assignment sets the number of partitions and the replication factor: both fields "
                    "must be -1.",
                )
            assignments = dict(spec.assignments)
            if len(assignments) != len(spec.assignments):
                raise KafkaError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "The manual assignment names a partition twice.")
        if partitions == DEFAULT_COUNT:
            partitions = self._config["num.partitions"]
        if factor == DEFAULT_COUNT:
            factor = self._config["default.replication.factor"]
        if partitions <= 0:
            raise KafkaError(
                ErrorCode.INVALID_PARTITIONS, f"The number of partitions must be above 0, but is {partitions}."
            )
        if factor <= 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor must be above 0, but is {factor}."
            )
        return NewTopic(spec.name, partitions, factor, assignments, config)

    def _checked_config(self, configs: Mapping[str, str | None]) -> dict[str, str]:
        if not configs:
            return {}
        try:
            config = validate_topic_configs(configs)
            check_resolved(resolve_topic_configs(config, self._config))
        except ConfigError as problem:
            raise KafkaError(ErrorCode.INVALID_CONFIG, str(problem)) from None
        check_stored_size(config)
        return config

    async def _create(
        self, event: CreateTopics, timeout_ms: int, caller: Caller | None
    ) -> Results[CreatedTopic | KafkaError]:
        answer = await self._controller.submit(event, timeout_ms, caller=caller)
        if not event.validate_only:
            log_created(event.created_by, [result for result in answer.reply if isinstance(result, CreatedTopic)])
        if answer.is_complete:
            return Results(answer.reply, answer.throttle_time_ms)
        late = KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, "The topic is created, but not yet in service after the timeout."
        )
        results = [late if isinstance(result, CreatedTopic) else result for result in answer.reply]
        return Results(results, answer.throttle_time_ms)

    # --- automatic creation -------------------------------------------------------------------------------------------

    @property
    def auto_create_enabled(self) -> bool:
        """Return `auto.create.topics.enable`."""
        enabled: bool = self._config["auto.create.topics.enable"]
        return enabled

    def creates_again(self, name: str) -> bool:
        """Return whether a topic may be created automatically. With `auto.create.deleted.topics.enable=false` it may
        not, as long as the last topic with this name can be undeleted."""
        if self._config["auto.create.deleted.topics.enable"]:
            return True
        last = last_deletion(self._view.image, name)
        if last is None or not last.undeletable:
            return True
        if self._held_back.get(name) != last.topic_id:
            self._held_back[name] = last.topic_id
            log.info(
                "automatic topic creation refused, because auto.create.deleted.topics.enable is false and the "
                "topic can be undeleted name=%s id=%s: %s",
                name,
                last.topic_id,
                death(last),
            )
            while len(self._held_back) > HELD_BACK_MAX:
                self._held_back.pop(next(iter(self._held_back)))
        return False

    async def auto_create(self, names: Sequence[str], caller: Caller | None = None) -> dict[str, KafkaError | None]:
        """Create topics that clients requested by name. Return for each name None if the topic now exists, or the
        error. Concurrent calls with the same permissions wait for the same creation.
        """
        entitled = None if caller is None else (caller.principal, caller.host)
        mine = [name for name in dict.fromkeys(names) if (name, entitled) not in self._creating]
        if mine:
            loop = asyncio.get_running_loop()
            for name in mine:
                self._creating[name, entitled] = loop.create_future()
            work = asyncio.ensure_future(self._auto_create(mine, caller, entitled))
            # The creation continues even if its first caller is cancelled, because other callers wait for it.
            work.add_done_callback(_retrieve)
        waits = {name: self._creating[name, entitled] for name in dict.fromkeys(names)}
        await asyncio.wait(waits.values())
        return {name: future.result() for name, future in waits.items()}

    async def _auto_create(self, names: Sequence[str], caller: Caller | None, entitled: Entitled) -> None:
        problems: dict[str, KafkaError | None] = {}
        try:
            specs = [self._automatic_spec(name) for name in names]
            results = await self.create(
                specs,
                AUTO_CREATE_TIMEOUT_MS,
                created_by=BY_BROKER if caller is None else _client(caller),
                automatic=caller is not None,
                caller=caller,
            )
            for name, result in zip(names, results.each, strict=True):
                failed = isinstance(result, KafkaError) and result.code != ErrorCode.TOPIC_ALREADY_EXISTS
                problems[name] = result if failed and isinstance(result, KafkaError) else None
        except KafkaError as error:
            problems = dict.fromkeys(names, error)
        finally:
            # Answer the waiting callers even after an unexpected error. The next request tries again.
            bug = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The topic could not be created. See the broker's log.")
            for name in names:
                self._creating.pop((name, entitled)).set_result(problems.get(name, bug))

    def _automatic_spec(self, name: str) -> TopicSpec:
        if name == CONSUMER_OFFSETS:
            return self._internal_spec(
                name,
                "offsets.topic",
                {
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(self._config["offsets.topic.segment.bytes"]),
                },
            )
        if name == TRANSACTION_STATE:
            return self._internal_spec(
                name,
                "transaction.state.log",
                {
                    "cleanup.policy": "compact",
                    "compression.type": "uncompressed",
                    "min.insync.replicas": str(
                        self._config["transaction.state.log.min.isr"] if self._config.in_cluster else 1
                    ),
                    "segment.bytes": str(self._config["transaction.state.log.segment.bytes"]),
                    "unclean.leader.election.enable": "false",
                },
            )
        if name == SHARE_STATE:
            prefix = "share.coordinator.state.topic"
            return self._internal_spec(
                name,
                prefix,
                {
                    "cleanup.policy": "delete",
                    "compression.type": "producer",
                    "min.insync.replicas": str(self._config[f"{prefix}.min.isr"] if self._config.in_cluster else 1),
                    # The share coordinator itself deletes obsolete records.
                    "retention.ms": "-1",
                    "retention.bytes": "-1",
                    "segment.bytes": str(self._config[f"{prefix}.segment.bytes"]),
                    "unclean.leader.election.enable": "false",
                },
            )
        return TopicSpec(name)

    def _internal_spec(self, name: str, prefix: str, configs: Mapping[str, str | None]) -> TopicSpec:
        # As in Kafka, refuse the creation while fewer brokers run than the replication factor. Otherwise the durability
        # of commits would depend on the order in which brokers start. On a single broker, always use one replica,
        # whatever the settings are.
        factor = self._config[f"{prefix}.replication.factor"] if self._config.in_cluster else 1
        return TopicSpec(name, self._config[f"{prefix}.num.partitions"], factor, (), configs)

    async def ensure_internal(self, name: str) -> None:
        """Create an internal topic with its settings unless it exists. Raises KafkaError."""
        if name not in INTERNAL_TOPICS:
            raise ValueError(f"{name} is not an internal topic")
        if name not in self._view.image.topics:
            error = (await self.auto_create([name]))[name]
            if error is not None:
                raise error

    async def know(self, which: Sequence[str | Uuid], timeout_ms: int) -> int:
        """Wait until this broker has applied all earlier decisions of the controller, and return the remaining time.
        Call this before a name or id is refused as unknown: another broker may have just created the topic."""
        image = self._view.image
        if all(asked in (image.topics if isinstance(asked, str) else image.names) for asked in which):
            return timeout_ms
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self._controller.catch_up(timeout_ms)
        return max(0, timeout_ms - int((loop.time() - began) * 1000))

    # --- delete -------------------------------------------------------------------------------------------------------

    async def delete(
        self, which: Sequence[str | Uuid], caller: Caller | None, timeout_ms: int
    ) -> Results[DeletedTopic | KafkaError]:
        """Delete topics and return one result each. On success the topic is gone on this broker, and its name is free.
        `caller` is None for deletions by the broker itself."""
        if not self._config["delete.topic.enable"]:
            disabled = KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false on this broker.")
            return Results([disabled] * len(which))
        timeout_ms = await self.know([asked for asked in which if isinstance(asked, str)], timeout_ms)
        image = self._view.image
        # Look up the topic ids now, so that a topic that is later created with the same name is not deleted.
        found = {
            asked: topic.topic_id for asked in which if isinstance(asked, str) and (topic := image.topics.get(asked))
        }
        unknown: dict[str | Uuid, KafkaError] = {
            asked: unknown_topic(image, asked) for asked in which if isinstance(asked, str) and asked not in found
        }
        ids = [asked if isinstance(asked, Uuid) else found[asked] for asked in which if asked not in unknown]
        if not ids:
            return Results([unknown[asked] for asked in which])
        deleted_by = BY_BROKER if caller is None else caller.principal
        event = DeleteTopics(
            tuple(ids), deleted_by, self._clock.wall_ms(), self._config["delete.topic.delay.ms"]
        )
        answer = await self._controller.submit(event, timeout_ms, caller=caller)
        replies = iter(answer.reply)
        decided = [unknown[asked] if asked in unknown else next(replies) for asked in which]
        deleted = [result for result in answer.reply if isinstance(result, DeletedTopic)]
        log_deleted(deleted_by, deleted, event.now_ms + event.delay_ms)
        results = [_as_asked(asked, result) for asked, result in zip(which, decided, strict=True)]
        if not answer.is_complete:
            late = KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, "The topic is deleted, but not all brokers have applied the change yet."
            )
            results = [late if isinstance(result, DeletedTopic) else result for result in results]
        return Results(results, answer.throttle_time_ms)

    def found(self, topic_id: Uuid) -> str | None:
        """Return the topic name in the log directories of a stray topic id with staged replicas; None for any other id.
        """
        image = self._view.image
        record = None if topic_id in image.names else image.deletions.get(topic_id)
        return record.topic if record is not None and record.state == FOUND else None

    def unknown(self, topic_id: Uuid, may_see: Callable[[str], bool]) -> KafkaError:
        """Return the error for an id that no live topic has. `may_see`: whether the client may see a topic's name."""
        return unknown_id(self._view.image, topic_id, may_see)

    @property
    def delete_orders(self) -> bool:
        """Return whether deletion requests in the old format (`/admin/delete_topics`) exist."""
        return bool(self._view.image.delete_orders)

    async def carry_out_delete_orders(self) -> None:
        """Execute deletion requests in the old format that an older controller has left. Call this before the broker
        serves clients, because they must not see topics whose deletion was acknowledged.

        With delete.topic.enable=false the broker removes the requests without executing them, as Kafka does. If a
        topic's metadata is damaged, its request stays. Raises KafkaError if the store fails.
        """
        image = self._view.image
        living = sorted(image.delete_orders & image.topics.keys())
        dropped = image.delete_orders - image.topics.keys() - image.damaged.keys()
        if living and self._config["delete.topic.enable"]:
            for result in (await self.delete(living, None, AUTO_CREATE_TIMEOUT_MS)).each:
                if isinstance(result, DeletedTopic):
                    log.warning(
                        "carried out a deletion that an earlier controller had ordered name=%s id=%s",
                        result.name,
                        result.topic_id,
                    )
                else:
                    log.error("cannot carry out a deletion that an earlier controller had ordered: %s", result)
        elif living:
            log.warning("dropped ordered deletions, because delete.topic.enable is false topics=%s", ", ".join(living))
            dropped |= frozenset(living)
        if dropped:
            await self._controller.submit(DropDeleteOrders(tuple(sorted(dropped))))

    # --- grow ---------------------------------------------------------------------------------------------------------

    async def create_partitions(
        self,
        specs: Sequence[GrowSpec],
        timeout_ms: int,
        *,
        validate_only: bool = False,
        caller: Caller | None = None,
    ) -> Results[KafkaError | None]:
        """Add partitions. Return for each topic None on success, when the new partitions accept records, or the error.
        """
        names = Counter(spec.name for spec in specs)
        results: list[KafkaError | None] = []
        changes: list[NewPartitions] = []
        slots: list[int] = []
        for index, spec in enumerate(specs):
            if names[spec.name] > 1:
                results.append(
                    KafkaError(ErrorCode.INVALID_REQUEST, f"The request names topic '{spec.name}' more than once.")
                )
                continue
            results.append(None)
            slots.append(index)
            changes.append(NewPartitions(spec.name, spec.total, spec.assignments, spec.topic_id))
        if not changes:
            return Results(results)
        timeout_ms = await self.know([change.name for change in changes], timeout_ms)
        topics = self._view.image.topics
        changes = [
            change
            if change.topic_id is not None or (topic := topics.get(change.name)) is None
            else msgspec.structs.replace(change, topic_id=topic.topic_id)
            for change in changes
        ]
        answer = await self._controller.submit(
            CreatePartitions(tuple(changes), validate_only, random.getrandbits(31)), timeout_ms, caller=caller
        )
        late = KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, "The partitions are created, but not yet in service after the timeout."
        )
        for index, error in zip(slots, answer.reply, strict=True):
            results[index] = late if error is None and not answer.is_complete else error
        return Results(results, answer.throttle_time_ms)


def _as_asked(one: str | Uuid, result: DeletedTopic | KafkaError) -> DeletedTopic | KafkaError:
    """If the client named the topic by name, replace an error code about ids by the error code about names."""
    if isinstance(one, str) and isinstance(result, KafkaError) and result.code == ErrorCode.UNKNOWN_TOPIC_ID:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, result.message)
    return result


def _client(caller: Caller) -> str:
    """Return the client as the topic history records it. The history includes the client id, because many clusters have
    only one principal."""
    shown = "".join(each if each.isprintable() else "?" for each in caller.client_id[:CLIENT_ID_SHOWN_MAX])
    return f"{caller.principal} (client {shown or '-'} at {caller.host})"


def _retrieve(work: asyncio.Future[None]) -> None:
    if not work.cancelled() and work.exception() is not None:
        log.error("automatic topic creation failed: this is a bug in pybroker", exc_info=work.exception())
