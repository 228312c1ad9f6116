"""The controller: the one writer of the cluster's metadata.

One loop takes events in order. Each is decided by a pure function, made durable by one multi that also checks the
controller epoch (KAFKA-6082), applied to the image, sent to brokers, and answered: in that order, so that nobody
hears of what a crash can undo. A write that is refused because the epoch moved on means another controller exists:
this one resigns.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from pybroker.clock import Clock
from pybroker.cluster.events import (
    AlterConfigs,
    AlterUsers,
    BeginIngest,
    CommitIngest,
    CreateAcls,
    CreatePartitions,
    CreateTopics,
    DeleteAcls,
    DeleteTopics,
    DropDeleteOrders,
    DropIngests,
    Event,
    FinishIngest,
    OffsetsRestored,
    RegisterBroker,
    TruncateTopics,
    UndeleteTopic,
)
from pybroker.controller.broadcast import Broadcast
from pybroker.controller.brokers import decide_offline, decide_register
from pybroker.controller.channel import LocalChannel
from pybroker.controller.configs import decide_alter_configs
from pybroker.controller.decision import Decision
from pybroker.controller.deletions import Deletions
from pybroker.controller.events import AdvanceDeletions, FinishMigrations, FinishUndelete, ReplicasOffline
from pybroker.controller.ingests import (
    decide_begin_ingest,
    decide_commit_ingest,
    decide_drop_ingests,
    decide_finish_ingest,
)
from pybroker.controller.migration import Migrations, decide_drop_orders, decide_finish
from pybroker.controller.security import (
    all_security,
    changed_security,
    decide_alter_users,
    decide_create_acls,
    decide_delete_acls,
)
from pybroker.controller.topic_deletion import TOMBSTONES_MAX, decide_advance
from pybroker.controller.topics import decide_create, decide_create_partitions, decide_delete
from pybroker.controller.truncate import decide_truncate
from pybroker.controller.undelete import decide_finish_undelete, decide_offsets_restored, decide_undelete
from pybroker.errors import FatalError, KafkaError
from pybroker.metadata import znodes
from pybroker.metadata.acls import ACLS, EXTENDED_ACLS
from pybroker.metadata.control_messages import (
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    RestoreReplicasRequest,
    RestoreReplicasResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    TopicConfigState,
    UpdateConfigs,
    UpdateMetadataRequest,
)
from pybroker.metadata.deletion_records import DELETING, REMOVED
from pybroker.metadata.image import ClusterImage, ConfigImage, ImageDelta
from pybroker.metadata.load import LocalIds, Nodes, broker_configs, lacks_ids, load_image
from pybroker.metadata.store import (
    Check,
    Create,
    MetadataStore,
    MultiError,
    NodeExistsError,
    Operation,
    Set,
    StoreClosedError,
    StoreError,
    ValueTooLargeError,
    get_or_none,
)
from pybroker.native import Uuid
from pybroker.protocol.error_codes import ErrorCode, error_name

log = logging.getLogger(__name__)

EVENTS_QUEUED_MAX = 10_000
"""Events that wait for their turn. Clients wait for their own answers, so this many means that something is wrong."""


async def _no_local_ids() -> LocalIds:
    return {}


class Outcome(NamedTuple):
    """The answer to an event. When it comes the decision is durable and in the controller's image."""

    reply: Any
    visible: asyncio.Future[list[ControlResponse]]
    """Done when this broker shows the change to its clients (R12)."""
    applied: asyncio.Future[list[ControlResponse]]
    """Done when every live broker has obeyed: leaders take records, data of deleted topics is staged."""


class Controller:
    """See the module. `start` makes this broker the controller; `submit` is how everything happens."""

    def __init__(
        self,
        store: MetadataStore,
        clock: Clock,
        broker_id: int,
        channels: dict[int, LocalChannel],
        on_fatal: Callable[[FatalError], None],
        *,
        local_ids: Callable[[], Awaitable[LocalIds]] = _no_local_ids,
        topic_ids: Callable[[Mapping[str, ConfigImage]], bool] = lambda stored: True,
    ) -> None:
        """`topic_ids`: whether the protocol version gives topics ids, under these stored settings of brokers."""
        self._store = store
        self._clock = clock
        self._broker_id = broker_id
        self._channels = channels
        self._on_fatal = on_fatal
        self._local_ids = local_ids
        self._topic_ids = topic_ids
        self._migrations = Migrations()
        self._broadcast = Broadcast(broker_id)
        self._events: asyncio.Queue[tuple[Event[Any], asyncio.Future[Outcome]]] = asyncio.Queue(EVENTS_QUEUED_MAX)
        self._task: asyncio.Task[None] | None = None
        self._epoch_version = -1
        self._image = ClusterImage.initial(0)
        self._active = False
        self._reports: set[asyncio.Future[None]] = set()
        self.tombstones_max: Callable[[], int] = lambda: TOMBSTONES_MAX
        """`topic.history.max.incarnations`; `app` sets it."""
        self._deletions = Deletions(store, self.submit, self._send_deletions_again, lambda: self.tombstones_max())  # noqa: PLW0108 - set later

    @property
    def image(self) -> ClusterImage:
        """The cluster as of the last durable decision. Immutable: keep it as long as you like."""
        return self._image

    @property
    def active(self) -> bool:
        """Whether this broker is the controller."""
        return self._active

    # --- becoming controller ------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Takes the office with a new epoch and loads everything; nothing is sent before it is complete (A12).

        Raises LoweredError: topics have ids already, and the protocol version does not know them.
        """
        epoch = await self._take_office()
        names = (znodes.BROKER_IDS, znodes.TOPICS, "/config", "/admin", ACLS, EXTENDED_ACLS, "/ingest")
        nodes = Nodes(*[await self._store.subtree(name) for name in names])
        # The scan of the directories goes on meanwhile; only topics without an id must wait for it.
        local_ids = await self._local_ids() if lacks_ids(nodes) else {}
        topic_ids = self._topic_ids(broker_configs(nodes.configs))
        loaded = load_image(epoch, nodes, local_ids, topic_ids=topic_ids)
        if loaded.repairs:
            await self._store.multi([self._epoch_check(), *loaded.repairs])
        # Brokers are announced by their registration, which also elects leaders for what they host.
        self._image = loaded.image.apply(ImageDelta(lost_brokers=tuple(loaded.image.brokers)))
        gone = self._migrations.start(self._image, loaded.unfinished)
        self._active = True
        self._task = asyncio.create_task(self._run(), name="controller")
        if gone:
            await self.submit(FinishMigrations(gone))
        log.info(
            "broker %d is controller with epoch %d: %d topics, %d deletions in progress",
            self._broker_id,
            epoch,
            len(self._image.topics),
            sum(record.state != REMOVED for record in self._image.deletions.values()),
        )

    async def _take_office(self) -> int:
        node = await get_or_none(self._store, znodes.CONTROLLER_EPOCH)
        epoch = 1 if node is None else znodes.decode_controller_epoch(node.data) + 1
        data = str(epoch).encode()
        office = Create(
            znodes.CONTROLLER, znodes.encode_controller(self._broker_id, self._clock.wall_ms()), ephemeral=True
        )
        number: Operation = (
            Create(znodes.CONTROLLER_EPOCH, data) if node is None else Set(znodes.CONTROLLER_EPOCH, data, node.version)
        )
        try:
            await self._store.multi([office, number])
        except MultiError as error:
            if isinstance(error.cause, NodeExistsError):
                raise FatalError("another broker is the controller of this metadata store") from error
            raise
        self._epoch_version = 0 if node is None else node.version + 1
        return epoch

    def _epoch_check(self) -> Operation:
        return Check(znodes.CONTROLLER_EPOCH, self._epoch_version)

    async def start_deletions(self) -> None:
        """After the first broadcast: goes on with the deletions that a former life has begun."""
        await self._deletions.start(self._image)

    async def stop(self) -> None:
        """Finishes the event at hand and answers the others with an error; then waits for the brokers' channels."""
        self._active = False
        await self._deletions.stop()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        while not self._events.empty():
            _, future = self._events.get_nowait()
            _fail(future, KafkaError(ErrorCode.NOT_CONTROLLER, "The broker is shutting down."))
        for channel in self._channels.values():
            await channel.drain()

    # --- events -------------------------------------------------------------------------------------------------------

    async def submit(self, event: Event[Any]) -> Outcome:
        """Puts an event in the queue and waits for its answer. Raises KafkaError: NOT_CONTROLLER, or the store
        failed."""
        if not self._active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "This broker is not the controller.")
        future: asyncio.Future[Outcome] = asyncio.get_running_loop().create_future()
        try:
            self._events.put_nowait((event, future))
        except asyncio.QueueFull:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT, f"{EVENTS_QUEUED_MAX} changes of the metadata wait already."
            ) from None
        return await future

    async def _run(self) -> None:
        while True:
            event, future = await self._events.get()
            # A decision that has begun is finished even when the loop is cancelled: half of it may be durable.
            work = asyncio.ensure_future(self._handle(event))
            try:
                outcome = await asyncio.shield(work)
            except asyncio.CancelledError:
                await asyncio.wait([work])
                if not work.cancelled() and work.exception() is None:
                    _answer(future, work.result())
                else:
                    _fail(future, KafkaError(ErrorCode.NOT_CONTROLLER, "The broker is shutting down."))
                raise
            except KafkaError as error:
                _fail(future, error)
            except Exception as problem:
                log.exception("%s failed in the controller: this is a bug in pybroker", type(event).__name__)
                _fail(future, KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"internal error: {type(problem).__name__}"))
            else:
                _answer(future, outcome)

    async def _handle(self, event: Event[Any]) -> Outcome:
        decision = self._decide(event)
        before = self._image
        if decision.operations:
            await self._write(decision.operations)
        self._image = before.apply(decision.delta)
        self._deletions.observe(self._image, decision.delta)
        if decision.delta.raised:
            log.warning("topics have ids now: the protocol version is 2.8 or later and cannot be lowered below again")
            self._report(FinishMigrations(self._migrations.settled(self._image)))
        return self._send(before, decision)

    def _decide(self, event: Event[Any]) -> Decision:
        match event:
            case CreateTopics():
                return decide_create(self._image, event)
            case DeleteTopics():
                return decide_delete(self._image, event)
            case TruncateTopics():
                return decide_truncate(self._image, event)
            case UndeleteTopic():
                return decide_undelete(self._image, event)
            case FinishUndelete():
                return decide_finish_undelete(self._image, event)
            case OffsetsRestored():
                return decide_offsets_restored(self._image, event)
            case CreatePartitions():
                return decide_create_partitions(self._image, event)
            case AlterConfigs():
                return decide_alter_configs(self._image, event)
            case CreateAcls():
                return decide_create_acls(self._image, event)
            case DeleteAcls():
                return decide_delete_acls(self._image, event)
            case AlterUsers():
                return decide_alter_users(self._image, event)
            case RegisterBroker():
                return decide_register(self._image, event)
            case ReplicasOffline():
                return decide_offline(self._image, event)
            case FinishMigrations():
                return decide_finish(event)
            case DropDeleteOrders():
                return decide_drop_orders(self._image, event)
            case AdvanceDeletions():
                return decide_advance(self._image, event)
            case BeginIngest():
                return decide_begin_ingest(self._image, event)
            case CommitIngest():
                return decide_commit_ingest(self._image, event)
            case FinishIngest():
                return decide_finish_ingest(self._image, event)
            case DropIngests():
                return decide_drop_ingests(self._image, event)
            case _:
                raise AssertionError(f"{type(event).__name__} has no decision")

    async def _write(self, operations: Sequence[Operation]) -> None:
        try:
            await self._store.multi([self._epoch_check(), *operations])
        except MultiError as error:
            if error.index == 0:
                self._active = False
                log.error("another controller has taken over: %s", error.cause)
                raise KafkaError(ErrorCode.NOT_CONTROLLER, "This broker is not the controller any more.") from error
            if isinstance(error.cause, ValueTooLargeError):
                # The request asked for too much, and nothing was changed.
                raise KafkaError(
                    ErrorCode.INVALID_REQUEST, f"The metadata store does not take that much in one value: {error.cause}"
                ) from error
            # The image says that this write fits, the store says it does not: somebody else writes to the store.
            fatal = FatalError(f"the metadata store was changed by somebody else: {error}")
            self._on_fatal(fatal)
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(fatal)) from error
        except StoreClosedError as error:
            raise KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error)) from error
        except StoreError as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, str(error)) from error

    # --- messages -----------------------------------------------------------------------------------------------------

    def _send(self, before: ClusterImage, decision: Decision) -> Outcome:
        delta = decision.delta
        sent: list[tuple[int, ControlRequest, asyncio.Future[ControlResponse]]] = []
        new = [broker.broker_id for broker in delta.brokers]
        for broker_id in new:
            sent += self._send_to(
                broker_id,
                [all_security(self._image), _all_configs(self._image), *self._broadcast.full(self._image, broker_id)],
            )
        # Configs go first: a replica that becomes leader takes them from there.
        configs = [*changed_security(before, delta), *_changed_configs(before, delta)]
        changes = self._broadcast.changes(before, self._image, delta)
        for broker_id in self._image.brokers:
            if broker_id not in new:
                sent += self._send_to(broker_id, [*configs, *changes.get(broker_id, [])])
        visible = [
            future
            for broker_id, message, future in sent
            if broker_id == self._broker_id and isinstance(message, UpdateMetadataRequest)
        ]
        return Outcome(decision.reply, asyncio.gather(*visible), asyncio.gather(*(future for _, _, future in sent)))

    def _send_to(
        self, broker_id: int, messages: Sequence[ControlRequest]
    ) -> list[tuple[int, ControlRequest, asyncio.Future[ControlResponse]]]:
        channel = self._channels.get(broker_id)
        if channel is None:
            return []
        sent = []
        for message in messages:
            future = channel.send(message)
            future.add_done_callback(partial(self._answered, broker_id, message))
            sent.append((broker_id, message, future))
        return sent

    def _answered(self, broker_id: int, request: ControlRequest, future: asyncio.Future[ControlResponse]) -> None:
        if future.cancelled():
            return
        response = future.result()
        if response.error_code:
            reason = error_name(response.error_code)
            log.error("broker %d answered %s with %s", broker_id, type(request).__name__, reason)
        if isinstance(response, LeaderAndIsrResponse):
            failed = tuple(
                (topic.topic_id, partition.partition_index)
                for topic in response.topics
                for partition in topic.partition_errors
                if partition.error_code
            )
            if failed and self._active:
                self._report(ReplicasOffline(broker_id, failed))
            if isinstance(request, LeaderAndIsrRequest):
                finished = self._migrations.confirmed(broker_id, request, response)
                # Without topic ids the records stay: they are all that knows the ids.
                if finished and self._active and self._image.topic_ids:
                    self._report(FinishMigrations(finished))
        elif isinstance(response, StopReplicaResponse) and isinstance(request, StopReplicaRequest):
            self._deletions.stopped(broker_id, request, response)
        elif isinstance(response, RestoreReplicasResponse) and isinstance(request, RestoreReplicasRequest):
            self._deletions.restored(broker_id, request, response)

    def _report(self, event: ReplicasOffline | FinishMigrations) -> None:
        report = asyncio.ensure_future(self._record(event))
        self._reports.add(report)
        report.add_done_callback(self._reports.discard)

    async def _record(self, event: ReplicasOffline | FinishMigrations) -> None:
        try:
            await self.submit(event)
        except KafkaError as error:
            log.error("what brokers answered could not be recorded (%s): %s", type(event).__name__, error)

    def undelete_finished(self, topic_id: Uuid) -> asyncio.Future[Any]:
        """Done, with the topic or a KafkaError, when an undeletion that `submit` has begun has ended."""
        return self._deletions.undelete_finished(topic_id)

    def name_freed(self, topic_id: Uuid) -> asyncio.Future[None] | None:
        """None when the name of a deleted topic is free; else done when it is."""
        record = self._image.deletions.get(topic_id)
        return self._deletions.name_freed(topic_id) if record is not None and record.by_order else None

    def _send_deletions_again(self, broker_id: int, ids: Sequence[Uuid]) -> None:
        if broker_id not in self._image.brokers:
            return
        records = [self._image.deletions[topic_id] for topic_id in ids if topic_id in self._image.deletions]
        stopping = [record for record in records if record.state == DELETING]
        if stopping:
            self._send_to(broker_id, [self._broadcast.stop_again(self._image, broker_id, stopping)])
        restore = self._broadcast.restore(self._image, broker_id, records)
        if restore is not None:
            self._send_to(broker_id, [restore])


def _all_configs(image: ClusterImage) -> UpdateConfigs:
    return UpdateConfigs(
        tuple(
            TopicConfigState(topic.topic_id, topic.name, topic.config)
            for topic in image.topics.values()
            if topic.config
        ),
        {name: config.config for name, config in image.broker_configs.items()},
    )


def _changed_configs(before: ClusterImage, delta: ImageDelta) -> list[ControlRequest]:
    topics = []
    for topic in delta.topics:
        known = before.topics.get(topic.name)
        same = known is not None and known.topic_id == topic.topic_id
        if (known.config if known is not None and same else {}) != topic.config:
            topics.append(TopicConfigState(topic.topic_id, topic.name, topic.config))
    brokers = {name: config.config for name, config in delta.broker_configs.items()}
    return [UpdateConfigs(tuple(topics), brokers)] if topics or brokers else []


def _answer(future: asyncio.Future[Outcome], outcome: Outcome) -> None:
    if not future.done():
        future.set_result(outcome)


def _fail(future: asyncio.Future[Outcome], error: KafkaError) -> None:
    if not future.done():
        future.set_exception(error)
