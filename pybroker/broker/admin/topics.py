"""What clients may do to topics: create, delete, grow. Checks what can be checked without the cluster, makes one
event for the controller, and answers when the result is in force. Knows no protocol version.
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
from pybroker.broker.cluster.port import ControllerPort
from pybroker.broker.cluster.view import ClusterView
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
"""In a request: take the broker's default."""

AUTO_CREATE_TIMEOUT_MS = 30_000
"""Bound of a creation that no client gave a timeout for."""

HELD_BACK_MAX = 1_000
CLIENT_ID_SHOWN_MAX = 64

Entitled = tuple[str, str] | None
"""Whose rights count: principal and address; None: this broker's own."""


class TopicSpec(msgspec.Struct, frozen=True):
    """A topic that a client asks for."""

    name: str
    num_partitions: int = DEFAULT_COUNT
    replication_factor: int = DEFAULT_COUNT
    assignments: Sequence[tuple[int, tuple[int, ...]]] = ()
    configs: Mapping[str, str | None] = {}


class GrowSpec(msgspec.Struct, frozen=True):
    """More partitions that a client asks for."""

    name: str
    total: int
    assignments: tuple[tuple[int, ...], ...] | None
    topic_id: Uuid | None = None
    """Of the incarnation that is meant; None: the one that has the name."""


R = TypeVar("R")


class Results(msgspec.Struct, Generic[R], frozen=True):
    """What became of what a client asked for."""

    each: Sequence[R]
    """In the order of the request."""
    throttle_time_ms: int = 0
    """How long the client has to wait, as it is over its `controller_mutation_rate`."""


class TopicAdmin:
    """See the module."""

    def __init__(self, view: ClusterView, port: ControllerPort, config: BrokerConfig, clock: Clock) -> None:
        self._view = view
        self._port = port
        self._config = config
        self._clock = clock
        self._held_back: dict[str, Uuid] = {}
        """Names that were not made again, and the deleted topics that they belong to: one log line each."""
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
        """One result for each spec. Success means: durable, and its leaders take records. `created_by`, `automatic`:
        what the topics' history says."""
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
                    "A manual assignment excludes a number of partitions and a replication factor: both must be -1.",
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
                ErrorCode.INVALID_PARTITIONS, f"The number of partitions must be above 0, it is {partitions}."
            )
        if factor <= 0:
            raise KafkaError(
                ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor must be above 0, it is {factor}."
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
        answer = await self._port.submit(event, timeout_ms, caller=caller)
        if not event.validate_only:
            log_created(event.created_by, [one for one in answer.reply if isinstance(one, CreatedTopic)])
        if answer.in_force:
            return Results(answer.reply, answer.throttle_time_ms)
        late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The topic is created, but not in service within the timeout.")
        results = [late if isinstance(result, CreatedTopic) else result for result in answer.reply]
        return Results(results, answer.throttle_time_ms)

    # --- automatic creation -------------------------------------------------------------------------------------------

    @property
    def auto_create_enabled(self) -> bool:
        """`auto.create.topics.enable`."""
        enabled: bool = self._config["auto.create.topics.enable"]
        return enabled

    def creates_again(self, name: str) -> bool:
        """Whether a name may be made automatically: not with `auto.create.deleted.topics.enable=false` while the last
        topic that had it can still come back."""
        if self._config["auto.create.deleted.topics.enable"]:
            return True
        last = last_deletion(self._view.image, name)
        if last is None or not last.undeletable:
            return True
        if self._held_back.get(name) != last.topic_id:
            self._held_back[name] = last.topic_id
            log.info(
                "topic not created again name=%s id=%s reason=auto.create.deleted.topics.enable is false; %s",
                name,
                last.topic_id,
                death(last),
            )
            while len(self._held_back) > HELD_BACK_MAX:
                self._held_back.pop(next(iter(self._held_back)))
        return False

    async def auto_create(self, names: Sequence[str], caller: Caller | None = None) -> dict[str, KafkaError | None]:
        """Creates topics that somebody asked for by name; None for those that exist now. Concurrent calls share the
        work, as far as the rights of the same caller count."""
        entitled = None if caller is None else (caller.principal, caller.host)
        mine = [name for name in dict.fromkeys(names) if (name, entitled) not in self._creating]
        if mine:
            loop = asyncio.get_running_loop()
            for name in mine:
                self._creating[name, entitled] = loop.create_future()
            work = asyncio.ensure_future(self._auto_create(mine, caller, entitled))
            # Waiters may be cancelled; the creation and the notice to the others go on.
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
            # Whatever happened: who waits is answered, and the next request tries again.
            bug = KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "The topic could not be created, see the broker's log.")
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
                    # What is not needed is deleted when it is known what is.
                    "retention.ms": "-1",
                    "retention.bytes": "-1",
                    "segment.bytes": str(self._config[f"{prefix}.segment.bytes"]),
                    "unclean.leader.election.enable": "false",
                },
            )
        return TopicSpec(name)

    def _internal_spec(self, name: str, prefix: str, configs: Mapping[str, str | None]) -> TopicSpec:
        # With fewer brokers than the factor it is refused, as Kafka does: what groups have committed must not depend on
        # which broker of a cluster came up first. A single node must work without being told so.
        factor = self._config[f"{prefix}.replication.factor"] if self._config.in_cluster else 1
        return TopicSpec(name, self._config[f"{prefix}.num.partitions"], factor, (), configs)

    async def ensure_internal(self, name: str) -> None:
        """Creates an internal topic with its own settings unless it exists. Raises KafkaError if that fails."""
        if name not in INTERNAL_TOPICS:
            raise ValueError(f"{name} is no internal topic")
        if name not in self._view.image.topics:
            error = (await self.auto_create([name]))[name]
            if error is not None:
                raise error

    async def know(self, which: Sequence[str | Uuid], timeout_ms: int) -> int:
        """Before a name or an id is called unknown: another broker may have been asked for it a moment ago. Gives what
        is left of the time."""
        image = self._view.image
        if all(one in (image.topics if isinstance(one, str) else image.names) for one in which):
            return timeout_ms
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self._port.catch_up(timeout_ms)
        return max(0, timeout_ms - int((loop.time() - began) * 1000))

    # --- delete -------------------------------------------------------------------------------------------------------

    async def delete(
        self, which: Sequence[str | Uuid], caller: Caller | None, timeout_ms: int
    ) -> Results[DeletedTopic | KafkaError]:
        """One result for each. Success means: the topic is gone here, and its name is free. `caller`: the
        client that deletes them; None: this broker does."""
        if not self._config["delete.topic.enable"]:
            disabled = KafkaError(ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false on this broker.")
            return Results([disabled] * len(which))
        timeout_ms = await self.know([one for one in which if isinstance(one, str)], timeout_ms)
        image = self._view.image
        # By id from here on: whoever creates the name again meanwhile made another topic, which stays.
        found = {one: topic.topic_id for one in which if isinstance(one, str) and (topic := image.topics.get(one))}
        unknown: dict[str | Uuid, KafkaError] = {
            one: unknown_topic(image, one) for one in which if isinstance(one, str) and one not in found
        }
        ids = [one if isinstance(one, Uuid) else found[one] for one in which if one not in unknown]
        if not ids:
            return Results([unknown[one] for one in which])
        deleted_by = BY_BROKER if caller is None else caller.principal
        event = DeleteTopics(
            tuple(ids), deleted_by, self._clock.wall_ms(), self._config["delete.topic.delay.ms"]
        )
        answer = await self._port.submit(event, timeout_ms, caller=caller)
        replies = iter(answer.reply)
        decided = [unknown[one] if one in unknown else next(replies) for one in which]
        deleted = [one for one in answer.reply if isinstance(one, DeletedTopic)]
        log_deleted(deleted_by, deleted, event.now_ms + event.delay_ms)
        results = [_as_asked(one, result) for one, result in zip(which, decided, strict=True)]
        if not answer.in_force:
            late = KafkaError(ErrorCode.REQUEST_TIMED_OUT, "The topic is deleted; brokers learn of it later.")
            results = [late if isinstance(result, DeletedTopic) else result for result in results]
        return Results(results, answer.throttle_time_ms)

    def found(self, topic_id: Uuid) -> str | None:
        """The name in the directories of an id that nobody knows and brokers have put aside; None of any other."""
        image = self._view.image
        record = None if topic_id in image.names else image.deletions.get(topic_id)
        return record.topic if record is not None and record.state == FOUND else None

    def unknown(self, topic_id: Uuid, told: Callable[[str], bool]) -> KafkaError:
        """The error for an id without a living topic; `told` says whether the client may learn a name."""
        return unknown_id(self._view.image, topic_id, told)

    @property
    def delete_orders(self) -> bool:
        """Whether deletions ordered in the old format wait (`/admin/delete_topics`)."""
        return bool(self._view.image.delete_orders)

    async def carry_out_delete_orders(self) -> None:
        """Finishes deletions that an older controller was told to do (checklist 115, 120). Before clients are served,
        so that nobody meets a topic whose deletion was acknowledged.

        With delete.topic.enable=false the orders are dropped, as Apache Kafka does. A damaged topic keeps its order.
        Raises KafkaError: the store failed.
        """
        image = self._view.image
        living = sorted(image.delete_orders & image.topics.keys())
        dropped = image.delete_orders - image.topics.keys() - image.damaged.keys()
        if living and self._config["delete.topic.enable"]:
            for result in (await self.delete(living, None, AUTO_CREATE_TIMEOUT_MS)).each:
                if isinstance(result, DeletedTopic):
                    log.warning("topic %s (id %s) is deleted: it was ordered before", result.name, result.topic_id)
                else:
                    log.error("a deletion that was ordered before: %s", result)
        elif living:
            log.warning("delete.topic.enable is false: topics stay whose deletion was ordered: %s", ", ".join(living))
            dropped |= frozenset(living)
        if dropped:
            await self._port.submit(DropDeleteOrders(tuple(sorted(dropped))))

    # --- grow ---------------------------------------------------------------------------------------------------------

    async def create_partitions(
        self,
        specs: Sequence[GrowSpec],
        timeout_ms: int,
        *,
        validate_only: bool = False,
        caller: Caller | None = None,
    ) -> Results[KafkaError | None]:
        """None for each success. Success means: the new partitions take records."""
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
        timeout_ms = await self.know([one.name for one in changes], timeout_ms)
        topics = self._view.image.topics
        changes = [
            one
            if one.topic_id is not None or (topic := topics.get(one.name)) is None
            else msgspec.structs.replace(one, topic_id=topic.topic_id)
            for one in changes
        ]
        answer = await self._port.submit(
            CreatePartitions(tuple(changes), validate_only, random.getrandbits(31)), timeout_ms, caller=caller
        )
        late = KafkaError(
            ErrorCode.REQUEST_TIMED_OUT, "The partitions are created, but not in service within the timeout."
        )
        for index, error in zip(slots, answer.reply, strict=True):
            results[index] = late if error is None and not answer.in_force else error
        return Results(results, answer.throttle_time_ms)


def _as_asked(one: str | Uuid, result: DeletedTopic | KafkaError) -> DeletedTopic | KafkaError:
    """Who asked by name and came too late is told so by name."""
    if isinstance(one, str) and isinstance(result, KafkaError) and result.code == ErrorCode.UNKNOWN_TOPIC_ID:
        return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, result.message)
    return result


def _client(caller: Caller) -> str:
    """Who asked, for the history: many clusters know only one principal."""
    shown = "".join(each if each.isprintable() else "?" for each in caller.client_id[:CLIENT_ID_SHOWN_MAX])
    return f"{caller.principal} (client {shown or '-'} at {caller.host})"


def _retrieve(work: asyncio.Future[None]) -> None:
    if not work.cancelled() and work.exception() is not None:
        log.error("automatic creation failed", exc_info=work.exception())
