"""`ReplicaManager`: what this broker hosts. Applies LeaderAndIsr, StopReplica and UpdateMetadata; gives orders to
native code.

Identity is compared here and in native code, nowhere else. Three rules decide every doubt:
- A request is obeyed only from the current controller and for this life of the broker (controller epoch, broker epoch).
- Deleting needs proof: a StopReplica for that very id, a deletion record, or a successor that begins above every local
  leader epoch (R10). What is merely unknown stays where it is, unserved, with a line for the operator.
- A request with thousands of partitions is one call to native code, off the loop (R7).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping, Sequence
from functools import partial

import msgspec

from pybroker.config import BrokerConfig, resolve_topic_configs
from pybroker.metadata.cache import MetadataCache
from pybroker.metadata.control_messages import (
    ControlRequest,
    ControlResponse,
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
    UpdateConfigs,
    UpdateConfigsResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from pybroker.native import LocalPartition, NativeBroker, NativeError, PartitionOrder, StopOrder, Uuid
from pybroker.protocol.error_codes import ErrorCode, error_name
from pybroker.replicas.staging import Staging
from pybroker.replicas.strays import Strays

log = logging.getLogger(__name__)


class _Hosted(msgspec.Struct):
    """One incarnation with partitions on this broker."""

    name: str
    epochs: dict[int, int]
    """Leader epoch by partition."""


class ReplicaManager:
    """Calls come one after another, from the controller's channel; state lives on the loop's thread."""

    def __init__(
        self,
        *,
        native: NativeBroker,
        cache: MetadataCache,
        config: BrokerConfig,
        staging: Staging,
        strays: Strays,
        broker_id: int,
    ) -> None:
        self._native = native
        self._cache = cache
        self._config = config
        self._staging = staging
        self._strays = strays
        self._broker_id = broker_id
        self.broker_epoch = -1
        """Of this life of the broker; requests for an earlier one are refused (KIP-380)."""
        self._controller_epoch = -1
        self._hosted: dict[Uuid, _Hosted] = {}
        self._ids: dict[tuple[str, int], Uuid] = {}
        self._overrides: dict[Uuid, Mapping[str, str]] = {}

    def found_on_disk(self, local: Sequence[LocalPartition]) -> None:
        """What the scan at start has found; before the first request."""
        self._strays.found(local)

    async def handle(self, request: ControlRequest) -> ControlResponse:
        """One message of the controller."""
        if isinstance(request, LeaderAndIsrRequest):
            return await self.leader_and_isr(request)
        if isinstance(request, StopReplicaRequest):
            return await self.stop_replica(request)
        if isinstance(request, RestoreReplicasRequest):
            return await self.restore_replicas(request)
        if isinstance(request, UpdateMetadataRequest):
            return self.update_metadata(request)
        assert isinstance(request, UpdateConfigs), "users and entries are not the replicas' business"
        return self.update_configs(request)

    # --- LeaderAndIsr -------------------------------------------------------------------------------------------------

    async def leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Becomes leader; a FULL request is also compared with what lies on disk."""
        refused = self._fence(request.controller_epoch, request.broker_epoch)
        if refused:
            return LeaderAndIsrResponse(refused)
        self._controller_epoch = request.controller_epoch
        if request.type == LeaderAndIsrType.FULL or self._strays.any:
            await self._strays.settle(request, self._staging, self._config["delete.topic.delay.ms"])
        errors: dict[Uuid, list[PartitionError]] = {}
        orders: list[PartitionOrder] = []
        slots: list[tuple[Uuid, int, str, int]] = []
        replaced: list[tuple[Uuid, int]] = []
        defaults = resolve_topic_configs({}, self._config)
        for topic in request.topic_states:
            topic_errors = errors.setdefault(topic.topic_id, [])
            # Topics without settings of their own share one dict, which native code then parses once.
            config = self.resolved_config(topic.topic_id) if self._overrides.get(topic.topic_id) else defaults
            for state in topic.partition_states:
                code = self._check(topic, state, replaced)
                if code is not None:
                    topic_errors.append(PartitionError(state.partition_index, code))
                    continue
                slots.append((topic.topic_id, state.partition_index, topic.topic_name, state.leader_epoch))
                orders.append(
                    PartitionOrder(
                        topic_id=topic.topic_id,
                        topic=topic.topic_name,
                        partition=state.partition_index,
                        leader=state.leader,
                        leader_epoch=state.leader_epoch,
                        isr=state.isr,
                        replicas=state.replicas,
                        is_new=state.is_new,
                        config=config,
                        start_offset=state.start_offset,
                    )
                )
        if replaced:
            stayed = await self._stage_replaced(replaced)
            kept: list[PartitionOrder] = []
            for (topic_id, partition, name, _), order in zip(slots, orders, strict=True):
                code = stayed.get((name, partition))
                if code is None:
                    kept.append(order)
                else:
                    errors[topic_id].append(PartitionError(partition, code))
            slots = [slot for slot in slots if (slot[2], slot[1]) not in stayed]
            orders = kept
        if orders:
            codes = await asyncio.get_running_loop().run_in_executor(None, self._native.partitions.apply, orders)
            for (topic_id, partition, name, epoch), code in zip(slots, codes, strict=True):
                errors[topic_id].append(PartitionError(partition, code))
                if code == ErrorCode.NONE:
                    self._host(topic_id, name, partition, epoch)
                else:
                    reason = error_name(code)
                    log.error("partition %s-%d (id %s) cannot be served: %s", name, partition, topic_id, reason)
            if any((name, partition) in self._strays.left_alone for _, partition, name, _ in slots):
                await self._staging.take_over(self._config["delete.topic.delay.ms"])
            await self._staging.returned({topic_id for topic_id, *_ in slots if topic_id in self._hosted})
        return LeaderAndIsrResponse(0, [TopicPartitionErrors(topic_id, found) for topic_id, found in errors.items()])

    def _fence(self, controller_epoch: int, broker_epoch: int) -> int:
        if controller_epoch < self._controller_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        if broker_epoch != -1 and broker_epoch < self.broker_epoch:
            return ErrorCode.STALE_BROKER_EPOCH
        return ErrorCode.NONE

    def _check(
        self,
        topic: LeaderAndIsrTopicState,
        state: LeaderAndIsrPartitionState,
        replaced: list[tuple[Uuid, int]],
    ) -> int | None:
        """The error of a partition that must not be applied; None for one that may. Notes what it takes the place
        of."""
        name, partition = topic.topic_name, state.partition_index
        if topic.topic_id == Uuid.ZERO:
            # Kafka sends it for topics from before the migration; here every topic has its id before LeaderAndIsr
            # (209).
            return ErrorCode.UNKNOWN_TOPIC_ID
        problem = self._strays.problem(name, partition)
        if problem is not None:
            log.error("partition %s-%d (id %s) is put aside: %s", name, partition, topic.topic_id, problem.text)
            return problem.code
        local_id = self._ids.get((name, partition))
        if local_id is None:
            return None
        local_epoch = self._hosted[local_id].epochs[partition]
        if local_id != topic.topic_id:
            if state.leader_epoch <= local_epoch:
                return ErrorCode.INCONSISTENT_TOPIC_ID
            replaced.append((local_id, partition))
            return None
        if state.leader_epoch < local_epoch:
            return ErrorCode.STALE_CONTROLLER_EPOCH
        return None

    async def _stage_replaced(self, replaced: list[tuple[Uuid, int]]) -> dict[tuple[str, int], int]:
        """The local incarnation gives way to its successor (R10, checklist 71, 72). Gives the errors of those that did
        not, by name and partition: they stay hosted, and their successors must not be opened over them."""
        names = {topic_id: self._hosted[topic_id].name for topic_id, _ in replaced}
        await self._staging.promise(names, self._config["delete.topic.delay.ms"])
        self._staging.warn("replaced by a new topic of the same name", replaced)
        codes = await self._stop([StopOrder(topic_id, partition, -1, True) for topic_id, partition in replaced])
        self._staging.staged(names)
        stayed: dict[tuple[str, int], int] = {}
        for (topic_id, partition), code in zip(replaced, codes, strict=True):
            if code == ErrorCode.NONE:
                self._unhost(topic_id, partition)
            else:
                name = names[topic_id]
                stayed[name, partition] = code
                log.error(
                    "partition %s-%d (id %s) cannot be put aside for its successor: %s",
                    name,
                    partition,
                    topic_id,
                    error_name(code),
                )
        return stayed

    async def _stop(self, orders: list[StopOrder]) -> list[int]:
        return await asyncio.get_running_loop().run_in_executor(None, self._native.partitions.stop, orders)

    def _host(self, topic_id: Uuid, name: str, partition: int, epoch: int) -> None:
        hosted = self._hosted.get(topic_id)
        if hosted is None:
            hosted = self._hosted[topic_id] = _Hosted(name, {})
        hosted.epochs[partition] = epoch
        self._ids[name, partition] = topic_id

    def _unhost(self, topic_id: Uuid, partition: int) -> None:
        hosted = self._hosted.get(topic_id)
        if hosted is None:
            # A creation that was undone before anything of it was opened has left its settings.
            self._overrides.pop(topic_id, None)
            return
        hosted.epochs.pop(partition, None)
        if self._ids.get((hosted.name, partition)) == topic_id:
            del self._ids[hosted.name, partition]
        if not hosted.epochs:
            del self._hosted[topic_id]
            self._overrides.pop(topic_id, None)

    # --- StopReplica --------------------------------------------------------------------------------------------------

    async def stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stops, and with `delete_partition` stages for removal. An id that is not here answers success: nothing is
        left to do, and a newer topic of the same name is not touched (checklist 86, A18). Only while a log directory is
        offline it does not, see `_hidden`."""
        refused = self._fence(request.controller_epoch, request.broker_epoch)
        if refused:
            return StopReplicaResponse(refused)
        self._controller_epoch = request.controller_epoch
        names: dict[Uuid, str] = {}
        orders: list[StopOrder] = []
        slots: list[tuple[Uuid, int]] = []
        doomed: list[tuple[Uuid, int]] = []
        unseen: set[tuple[Uuid, int]] = set()
        # X12: the partition's own flag decides; the one at the top counts only where no partition has one.
        none_set = not any(state.delete_partition for topic in request.topic_states for state in topic.partition_states)
        for topic in request.topic_states:
            hosted = self._hosted.get(topic.topic_id)
            name = hosted.name if hosted is not None else self._strays.name_of(topic.topic_id)
            for state in topic.partition_states:
                delete = state.delete_partition or (none_set and request.delete_partitions)
                orders.append(StopOrder(topic.topic_id, state.partition_index, state.leader_epoch, delete))
                slots.append((topic.topic_id, state.partition_index))
                if delete and (hosted is None or state.partition_index not in hosted.epochs):
                    unseen.add(slots[-1])
                if delete and name is not None:
                    names[topic.topic_id] = name
                    doomed.append((topic.topic_id, state.partition_index))
        if names:
            await self._staging.promise(names, self._config["delete.topic.delay.ms"])
            self._staging.warn("deleted", doomed)
        codes = await self._stop(orders) if orders else []
        self._staging.staged(names)
        hidden = await self._hidden(unseen) if unseen else frozenset()
        errors: dict[Uuid, list[PartitionError]] = {}
        for (topic_id, partition), stopped in zip(slots, codes, strict=True):
            code = stopped or (ErrorCode.KAFKA_STORAGE_ERROR if (topic_id, partition) in hidden else ErrorCode.NONE)
            errors.setdefault(topic_id, []).append(PartitionError(partition, code))
            if code == ErrorCode.NONE:
                self._unhost(topic_id, partition)
                self._strays.gone(topic_id, partition)
        return StopReplicaResponse(0, [TopicPartitionErrors(topic_id, found) for topic_id, found in errors.items()])

    async def _hidden(self, unseen: set[tuple[Uuid, int]]) -> Collection[tuple[Uuid, int]]:
        """Those of which a log directory that is offline may have the data: they are not hosted and do not wait for
        removal either. Nobody can say that they are put aside before the directory is back, or gone from `log.dirs`."""

        def look() -> Collection[tuple[Uuid, int]]:
            if not any(directory.error_code for directory in self._native.log_dirs.describe()):
                return ()
            return unseen - {(found.topic_id, found.partition) for found in self._native.log_dirs.staged()}

        try:
            return await asyncio.get_running_loop().run_in_executor(None, look)
        except NativeError as problem:
            log.error("what waits for removal cannot be listed: %s", problem)
            return unseen

    # --- RestoreReplicas ----------------------------------------------------------------------------------------------

    async def restore_replicas(self, request: RestoreReplicasRequest) -> RestoreReplicasResponse:
        """Moves data that waits for removal back to its place, unserved (undelete). What has begun to go is refused;
        what is back already is a success."""
        refused = self._fence(request.controller_epoch, request.broker_epoch)
        if refused:
            return RestoreReplicasResponse(refused)
        self._controller_epoch = request.controller_epoch
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
            what = "cannot be brought back" if any(codes) else "is brought back from deletion"
            log.info("topic %s (id %s) %s", topic.topic_name, topic.topic_id, what)
        return RestoreReplicasResponse(0, tuple(answers))

    # --- UpdateMetadata and configs -----------------------------------------------------------------------------------

    def update_metadata(self, request: UpdateMetadataRequest) -> UpdateMetadataResponse:
        """Shows the cluster to clients of this broker."""
        refused = self._fence(request.controller_epoch, request.broker_epoch)
        if not refused:
            self._controller_epoch = request.controller_epoch
            self._cache.update(request)
        return UpdateMetadataResponse(refused)

    def update_configs(self, request: UpdateConfigs) -> UpdateConfigsResponse:
        """Keeps what is set for topics, for the time they are opened. What is open gets changes from `admin.configs`,
        which also puts the broker's own dynamic settings in force."""
        for topic in request.topics:
            self._overrides[topic.topic_id] = topic.config
        return UpdateConfigsResponse()

    def resolved_config(self, topic_id: Uuid) -> dict[str, str]:
        """All settings of a topic on this broker now."""
        return resolve_topic_configs(self._overrides.get(topic_id, {}), self._config)
