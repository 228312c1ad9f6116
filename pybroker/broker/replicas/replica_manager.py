"""`ReplicaManager`: the replicas of this broker. It executes LeaderAndIsr, StopReplica and RestoreReplicas with native
code.

Only this module and native code compare topic ids. Two rules:
- Deleting needs proof: a StopReplica for this id, a deletion record, or a successor that begins above every local
  leader epoch. Unknown data stays where it is and is not served; a log line informs the operator.
- A request with thousands of partitions makes only one call to native code, on a thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

import msgspec

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.metadata.control_messages import (
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicState,
    LeaderAndIsrType,
    PartitionError,
    RestoreReplicasRequest,
    RestoreReplicasResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    TopicPartitionErrors,
)
from pybroker.broker.metadata.image import NO_LEADER, may_lack_logs
from pybroker.broker.replicas.hosted_replicas import HostedReplicas
from pybroker.broker.replicas.leader_following import LeaderFollowing
from pybroker.broker.replicas.log_end_reports import LogEndReports
from pybroker.broker.replicas.staging import Staging
from pybroker.broker.replicas.stray_reconciliation import succeeds
from pybroker.broker.replicas.strays import Strays
from pybroker.broker.requests.loop_sharing import ELEMENTS_A_SLICE, LoopShares
from pybroker.config import BrokerConfig, resolve_topic_configs
from pybroker.native import LocalPartition, NativeBroker, NativeError, PartitionOrder, StopOrder, Uuid
from pybroker.protocol.error_codes import ErrorCode, error_name

log = logging.getLogger(__name__)


class _ReplicaToOpen(msgspec.Struct, frozen=True):
    """A partition to open."""

    topic_id: Uuid
    name: str
    partition: int
    epoch: int
    order: PartitionOrder


class ServedReplica(msgspec.Struct, frozen=True):
    """The replica in service under a name and partition number."""

    topic_id: Uuid
    epoch: int


class _Outcome:
    """Errors by topic id and partition, in the order of the request's topics."""

    def __init__(self, topics: Iterable[Uuid] = ()) -> None:
        self._errors: dict[Uuid, list[PartitionError]] = {topic_id: [] for topic_id in topics}

    def note(self, topic_id: Uuid, partition: int, code: int) -> None:
        self._errors.setdefault(topic_id, []).append(PartitionError(partition, code))

    def answers(self) -> list[TopicPartitionErrors]:
        return [TopicPartitionErrors(topic_id, found) for topic_id, found in self._errors.items()]


class ReplicaManager:
    """The replicas of one broker. The state belongs to the loop's thread. Orders run one at a time. They come from the
    channel of the controller (for a short time, of two controllers) and from `RoleReconciler`.
    """

    def __init__(
        self,
        *,
        native: NativeBroker,
        view: ClusterView,
        config: BrokerConfig,
        staging: Staging,
        strays: Strays,
        following: LeaderFollowing | None = None,
        log_ends: LogEndReports | None = None,
    ) -> None:
        """`following` and `log_ends` are None on a single broker, which follows no other broker."""
        self._native = native
        self._view = view
        self._config = config
        self._staging = staging
        self._strays = strays
        self._following = following
        self._log_ends = log_ends
        self._hosted = HostedReplicas()
        self._settled: dict[tuple[Uuid, int], int] = {}
        """Replicas that are not in service because an order was refused or has stopped them. The value is the leader
        epoch up to which this is valid."""
        self._turn = asyncio.Lock()
        self._shares = LoopShares()
        """A request may contain all partitions of this broker, so the loop serves clients in between."""

    def found_on_disk(self, local: Sequence[LocalPartition]) -> None:
        """Store the result of the scan of the log directories at start. Call it before the first request."""
        self._strays.found(local)

    async def stop(self) -> None:
        """Stop reporting to the controller."""
        if self._log_ends is not None:
            await self._log_ends.stop()

    def resolved_config(self, topic_id: Uuid) -> dict[str, str]:
        """Return all effective settings of a topic on this broker."""
        topic = self._view.image.topic_by_id(topic_id)
        return resolve_topic_configs({} if topic is None else topic.config, self._config)

    def served_at(self, name: str, partition: int) -> ServedReplica | None:
        """Return the incarnation in service under a name, and its leader epoch."""
        topic_id = self._hosted.id_at(name, partition)
        epoch = None if topic_id is None else self._hosted.epoch(topic_id, partition)
        return None if topic_id is None or epoch is None else ServedReplica(topic_id, epoch)

    def unclaimed_at(self, name: str, partition: int) -> list[Uuid]:
        """Return the incarnations that are on disk under a topic name and partition, but that no request has named yet.
        """
        return self._strays.ids_at(name, partition)

    def settled_epoch(self, topic_id: Uuid, partition: int) -> int:
        """Return the leader epoch up to which an order has put a replica out of service; -1 if no order has."""
        return self._settled.get((topic_id, partition), -1)

    def _refused(self, topic_id: Uuid, partition: int, leader_epoch: int) -> None:
        """Note that an order was refused, so the controller knows that the replica is not in service."""
        if self._hosted.epoch(topic_id, partition) is None:
            self._settled[topic_id, partition] = max(leader_epoch, self.settled_epoch(topic_id, partition))

    def _take_out(self, topic_id: Uuid, partition: int, leader_epoch: int = -1) -> None:
        """Note that a replica was stopped, in `leader_epoch` or, if it is negative, in all epochs known so far. Until
        UpdateMetadata arrives, the view still contains the replica."""
        served = self._hosted.epoch(topic_id, partition)
        topic = self._view.image.topic_by_id(topic_id)
        if leader_epoch < 0 and topic is not None and partition < len(topic.partitions):
            leader_epoch = topic.partitions[partition].leader_epoch
        self._settled[topic_id, partition] = max(leader_epoch, -1 if served is None else served)
        self._hosted.remove(topic_id, partition)

    @property
    def _delay_ms(self) -> int:
        delay_ms: int = self._config["delete.topic.delay.ms"]
        return delay_ms

    # --- LeaderAndIsr -------------------------------------------------------------------------------------------------

    async def leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Apply the roles of a LeaderAndIsr. If the request is FULL, also compare it with the directories on disk."""
        async with self._turn:
            return await self._leader_and_isr(request)

    async def apply_again(
        self, request: LeaderAndIsrRequest, still_due: Callable[[], bool]
    ) -> LeaderAndIsrResponse | None:
        """Execute a lost order again, as `leader_and_isr` does. When it is the order's turn, call `still_due`. If the
        result is False, do nothing and return None: StopReplica may have staged a replica in the meantime, and the
        replica must not come back."""
        async with self._turn:
            return await self._leader_and_isr(request) if still_due() else None

    async def _leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        if request.type == LeaderAndIsrType.FULL or self._strays.any:
            gone = await self._strays.settle(request, self._hosted, self._stop, self._staging, self._delay_ms)
            for slot in gone:
                self._take_out(*slot)
        outcome = _Outcome(topic.topic_id for topic in request.topic_states)
        to_open, replaced = await self._check_all(request, outcome)
        if replaced:
            to_open = await self._make_room(to_open, replaced, outcome)
        if to_open:
            await self._open(to_open, request, outcome)
        return LeaderAndIsrResponse(0, outcome.answers())

    async def _check_all(
        self, request: LeaderAndIsrRequest, outcome: _Outcome
    ) -> tuple[list[_ReplicaToOpen], list[tuple[Uuid, int]]]:
        """Return the orders that may be executed, and the partitions of other incarnations that these orders replace.
        """
        to_open: list[_ReplicaToOpen] = []
        replaced: list[tuple[Uuid, int]] = []
        defaults = resolve_topic_configs({}, self._config)
        topic_id, config = Uuid.ZERO, defaults
        async for topic, state in self._shares.each(request.partitions()):
            if topic.topic_id != topic_id:
                # Topics without settings of their own share one dict, which native code parses only once.
                known = self._view.image.topic_by_id(topic.topic_id)
                own = {} if known is None else known.config
                topic_id, config = topic.topic_id, resolve_topic_configs(own, self._config) if own else defaults
            code = self._check(topic, state)
            if code != ErrorCode.NONE:
                outcome.note(topic.topic_id, state.partition_index, code)
                self._refused(topic.topic_id, state.partition_index, state.leader_epoch)
                continue
            local_id = self._hosted.id_at(topic.topic_name, state.partition_index)
            if local_id not in (None, topic.topic_id):
                replaced.append((local_id, state.partition_index))
            to_open.append(
                _ReplicaToOpen(
                    topic.topic_id,
                    topic.topic_name,
                    state.partition_index,
                    state.leader_epoch,
                    PartitionOrder(
                        topic_id=topic.topic_id,
                        topic=topic.topic_name,
                        partition=state.partition_index,
                        leader=state.leader,
                        leader_epoch=state.leader_epoch,
                        isr=state.isr,
                        version=state.zk_version,
                        replicas=state.replicas,
                        is_new=state.is_new,
                        config=config,
                        start_offset=state.start_offset,
                    ),
                )
            )
        return to_open, replaced

    def _check(self, topic: LeaderAndIsrTopicState, state: LeaderAndIsrPartitionState) -> int:
        """Return NONE, or the error code with which the order is refused."""
        name, partition = topic.topic_name, state.partition_index
        if topic.topic_id == Uuid.ZERO:
            # Kafka sends ZERO for topics before their migration. In pybroker every topic gets its id before
            # LeaderAndIsr.
            return ErrorCode.UNKNOWN_TOPIC_ID
        problem = self._strays.problem(name, partition)
        if problem is not None:
            log.error("replica not served partition=%s-%d id=%s: %s", name, partition, topic.topic_id, problem.text)
            return problem.code
        local_id = self._hosted.id_at(name, partition)
        local_epoch = None if local_id is None else self._hosted.epoch(local_id, partition)
        if local_epoch is None:
            return ErrorCode.NONE
        if local_id != topic.topic_id:
            return ErrorCode.NONE if succeeds(state.leader_epoch, local_epoch) else ErrorCode.INCONSISTENT_TOPIC_ID
        return ErrorCode.NONE if state.leader_epoch >= local_epoch else ErrorCode.STALE_CONTROLLER_EPOCH

    async def _make_room(
        self, to_open: list[_ReplicaToOpen], replaced: list[tuple[Uuid, int]], outcome: _Outcome
    ) -> list[_ReplicaToOpen]:
        """Stage local incarnations to make room for their successors. If the staging of a partition fails, its old
        incarnation stays in service. Return the orders whose partitions can be opened."""
        names = {topic_id: self._hosted.name(topic_id) or "" for topic_id, _ in replaced}
        codes = await self._put_aside(
            [StopOrder(topic_id, partition, leader_epoch=-1, delete=True) for topic_id, partition in replaced], names
        )
        self._staging.say(logging.WARNING, "replaced by a new topic of the same name", replaced)
        stayed: dict[tuple[str, int], int] = {}
        for (topic_id, partition), code in zip(replaced, codes, strict=True):
            if code == ErrorCode.NONE:
                self._take_out(topic_id, partition)
                continue
            name, reason = names[topic_id], error_name(code)
            stayed[name, partition] = code
            log.error(
                "cannot stage a replica for deletion to make room for the new topic of the same name "
                "partition=%s-%d id=%s: %s",
                name,
                partition,
                topic_id,
                reason,
            )
        left = []
        for order in to_open:
            refused = stayed.get((order.name, order.partition))
            if refused is None:
                left.append(order)
            else:
                outcome.note(order.topic_id, order.partition, refused)
                self._refused(order.topic_id, order.partition, order.epoch)
        return left

    async def _open(self, to_open: list[_ReplicaToOpen], request: LeaderAndIsrRequest, outcome: _Outcome) -> None:
        orders = [replica.order for replica in to_open]
        codes = await asyncio.get_running_loop().run_in_executor(None, self._native.partitions.apply, orders)
        async for replica, code in self._shares.each(zip(to_open, codes, strict=True)):
            outcome.note(replica.topic_id, replica.partition, code)
            if code == ErrorCode.NONE:
                self._hosted.add(replica.topic_id, replica.name, replica.partition, replica.epoch)
                self._settled.pop((replica.topic_id, replica.partition), None)
                continue
            self._refused(replica.topic_id, replica.partition, replica.epoch)
            if code == ErrorCode.LOG_DIR_NOT_FOUND:
                self._say_missing(replica)
            else:
                reason = error_name(code)
                log.error(
                    "replica not served partition=%s-%d id=%s: %s",
                    replica.name,
                    replica.partition,
                    replica.topic_id,
                    reason,
                )
        if self._following is not None:
            applied = [replica for replica, code in zip(to_open, codes, strict=True) if code == ErrorCode.NONE]
            for first in range(0, len(applied), ELEMENTS_A_SLICE):
                if first:
                    await self._shares.next()
                self._following.follow(
                    request.live_leaders,
                    (
                        (replica.topic_id, replica.partition, replica.order.leader, replica.epoch)
                        for replica in applied[first : first + ELEMENTS_A_SLICE]
                    ),
                )
            if self._log_ends is not None:
                self._log_ends.without_leader(
                    request.broker_epoch,
                    ((replica.topic_id, replica.partition) for replica in applied if replica.order.leader == NO_LEADER),
                )
        if any((replica.name, replica.partition) in self._strays.left_alone for replica in to_open):
            await self._staging.take_over(self._delay_ms)
        await self._staging.returned({replica.topic_id for replica in to_open if replica.topic_id in self._hosted})

    def _say_missing(self, replica: _ReplicaToOpen) -> None:
        topic = self._view.image.topic_by_id(replica.topic_id)
        known = () if topic is None else topic.partitions
        where = f"{replica.name}-{replica.partition} id={replica.topic_id}"
        if replica.partition < len(known) and may_lack_logs(known[replica.partition]):
            log.info(
                "replica has no log on this broker; the partition begins empty if no other replica has a log "
                "partition=%s",
                where,
            )
        else:
            log.error(
                "the data of a replica is gone from this broker; the broker copies it again if another replica "
                "has it partition=%s",
                where,
            )

    async def _put_aside(self, orders: list[StopOrder], names: Mapping[Uuid, str]) -> list[int]:
        """Stop replicas. Concurrently, store the delays of the deleted replicas. The name can be used again when both
        are done."""
        _, codes = await asyncio.gather(self._staging.promise(names, self._delay_ms), self._stop(orders))
        self._staging.staged(names)
        return codes

    async def _stop(self, orders: list[StopOrder]) -> list[int]:
        if self._following is not None:
            served = ((order, self._hosted.epoch(order.topic_id, order.partition)) for order in orders)
            self._following.leave(
                (order.topic_id, order.partition, epoch)
                for order, epoch in served
                # Native code refuses an order with an earlier leader epoch, and the replica continues to follow its
                # leader.
                if epoch is not None and not 0 <= order.leader_epoch < epoch
            )
        return await asyncio.get_running_loop().run_in_executor(None, self._native.partitions.stop, orders)

    # --- StopReplica --------------------------------------------------------------------------------------------------

    async def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stop replicas; stage them if `delete_partition` is set. The answer for an unknown id is success, because
        nothing is left to do; a newer topic with the same name is not affected. While a log directory is offline, the
        answer may be an error: see `_hidden`.
        """
        async with self._turn:
            return await self._stop_replica(request)

    async def _stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        names: dict[Uuid, str] = {}
        orders: list[StopOrder] = []
        slots: list[tuple[Uuid, int]] = []
        doomed: list[tuple[Uuid, int]] = []
        unseen: set[tuple[Uuid, int]] = set()
        # The flag of the partition decides. The flag of the request counts only if no partition has a flag.
        epochs: dict[tuple[Uuid, int], int] = {}
        image = self._view.image
        self._settled = {slot: epoch for slot, epoch in self._settled.items() if image.topic_by_id(slot[0]) is not None}
        none_set = not any(state.delete_partition for topic in request.topic_states for state in topic.partition_states)
        for topic in request.topic_states:
            name = self._hosted.name(topic.topic_id)
            if name is None:
                name = self._strays.name_of(topic.topic_id)
            if name is None:
                # An operator deletes found data, or an undelete has failed: the broker serves no replica of the topic.
                name = self._staging.unscheduled_name(topic.topic_id)
            for state in topic.partition_states:
                slot = (topic.topic_id, state.partition_index)
                delete = state.delete_partition or (none_set and request.delete_partitions)
                orders.append(StopOrder(*slot, state.leader_epoch, delete))
                slots.append(slot)
                epochs[slot] = state.leader_epoch
                if delete and self._hosted.epoch(*slot) is None:
                    unseen.add(slot)
                if delete and name is not None:
                    names[topic.topic_id] = name
                    doomed.append(slot)
        if unseen:
            # The broker may have been killed after it had moved the data, but before it had stored the delay.
            await self._staging.taken_over(self._delay_ms)
        codes = await self._put_aside(orders, names)
        self._staging.say(logging.DEBUG, "deleted", doomed)
        hidden = await self._hidden(unseen) if unseen else frozenset()
        outcome = _Outcome()
        for slot, stopped in zip(slots, codes, strict=True):
            code = stopped or (ErrorCode.KAFKA_STORAGE_ERROR if slot in hidden else ErrorCode.NONE)
            outcome.note(*slot, code)
            if code == ErrorCode.NONE:
                self._take_out(*slot, epochs[slot])
                self._strays.gone(*slot)
        return StopReplicaResponse(0, outcome.answers())

    async def _hidden(self, unseen: set[tuple[Uuid, int]]) -> Collection[tuple[Uuid, int]]:
        """Return the replicas whose data may be in an offline log directory, because they are neither in service nor
        staged. They count as not staged until the directory is online again or is removed from `log.dirs`."""

        def look() -> Collection[tuple[Uuid, int]]:
            if not any(directory.error_code for directory in self._native.log_dirs.describe()):
                return ()
            return unseen - {(found.topic_id, found.partition) for found in self._native.log_dirs.staged()}

        try:
            return await asyncio.get_running_loop().run_in_executor(None, look)
        except NativeError as problem:
            log.error("cannot list staged replicas: %s", problem)
            return unseen

    # --- RestoreReplicas ----------------------------------------------------------------------------------------------

    async def restore_replicas(self, request: RestoreReplicasRequest) -> RestoreReplicasResponse:
        """Move staged data back to its place for an undelete, without serving it. Refuse this for data whose removal
        has begun. Return success if the data is already back."""
        async with self._turn:
            return await self._restore_replicas(request)

    async def _restore_replicas(self, request: RestoreReplicasRequest) -> RestoreReplicasResponse:
        answers: list[TopicPartitionErrors] = []
        for topic in request.topic_states:
            if self._staging.hold(topic.topic_id):
                restore = partial(
                    self._native.partitions.restore, topic.topic_id, topic.topic_name, list(topic.partitions)
                )
                codes = await asyncio.get_running_loop().run_in_executor(None, restore)
            else:
                codes = [int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)] * len(topic.partitions)
            errors = [PartitionError(index, code) for index, code in zip(topic.partitions, codes, strict=True)]
            answers.append(TopicPartitionErrors(topic.topic_id, errors))
            what = "cannot undelete local replicas" if any(codes) else "undeleted local replicas"
            log.info("%s name=%s id=%s", what, topic.topic_name, topic.topic_id)
        return RestoreReplicasResponse(0, tuple(answers))
