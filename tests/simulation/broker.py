"""One broker's process: the real control plane over a simulated log, network and disk.

The data of partitions is faked: a replica is a name on a disk, and a follower is in sync when its broker runs.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from pybroker.broker.api import k07_controlled_shutdown, k56_alter_partition, k58_envelope
from pybroker.broker.cluster.cluster_view import ControllerLeadership
from pybroker.broker.cluster.events import AlterIsr, CloseDeletions, IsrChange
from pybroker.broker.controller.controller import Controller
from pybroker.broker.controller.local_channel import LocalChannel
from pybroker.broker.controller.local_controller_client import LocalControllerClient
from pybroker.broker.controller.quorum_election import QuorumElection
from pybroker.broker.controller.quorum_terms import QuorumTerms
from pybroker.broker.interbroker.channels import BrokerChannels
from pybroker.broker.interbroker.cluster_controller_client import ClusterControllerClient
from pybroker.broker.interbroker.control_wire import request_from_wire, response_to_wire
from pybroker.broker.interbroker.remote_channel import RemoteChannel
from pybroker.broker.metadata.control_messages import (
    LEADER_DURING_DELETE,
    CloseTopics,
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrType,
    PartitionError,
    ReopenTopics,
    RestoreReplicasRequest,
    RestoreReplicasResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    TopicPartitionErrors,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    refusal,
)
from pybroker.broker.metadata.deletion_records import DELETING, REMOVED, STAGED
from pybroker.broker.metadata.image import BrokerImage
from pybroker.broker.metadata.znodes import Endpoint, StagedNode
from pybroker.broker.quorum.fetch_reports import FetchReports
from pybroker.broker.quorum.loader import MetadataLoader
from pybroker.broker.replicas.controller_fence import ControllerFence
from pybroker.broker.replicas.fenced_topics import TopicClosing
from pybroker.broker.replicas.known_cluster import KnownCluster
from pybroker.broker.replicas.metadata_publisher import BrokerMetadataPublisher
from pybroker.broker.replicas.order_results import ReplicaReports
from pybroker.broker.replicas.partition_visibility import PartitionVisibility
from pybroker.broker.replicas.quorum_registration import QuorumRegistration
from pybroker.broker.replicas.staged_marks import LoggedMarks
from pybroker.client.client_errors import BrokerConnectionError, KafkaTimeoutError
from pybroker.errors import FatalError, KafkaError
from pybroker.native import Uuid
from pybroker.protocol import interbroker as wire
from pybroker.protocol.error_codes import ErrorCode
from tests.simulation.loop import Process

if TYPE_CHECKING:
    from tests.simulation.cluster import SimulatedCluster

SESSION_S = 3.0
HEARTBEAT_S = 0.5
CATCH_UP_MS = 5_000
DELAY_MS = 4_000
"""How long deleted data stays."""
SETTINGS = {
    "topic.history.max.incarnations": 10_000,
    "auto.leader.rebalance.enable": True,
    "leader.imbalance.check.interval.seconds": 5.0,
    "leader.imbalance.per.broker.percentage": 0,
}
LIVE, PUT_ASIDE, BACK = "live", "staged", "restored"


class Disk:
    """What outlives a broker's process."""

    def __init__(self) -> None:
        self.replicas: dict[tuple[Uuid, int], str] = {}
        """The place of each replica's data."""


class NoQuotas:
    """`MutationUsage`."""

    def has_quota(self, caller: object) -> bool:
        return False


class NoGroups:
    """`fenced_topics.Groups`."""

    async def hold_commits(self, topic_id: Uuid) -> None:
        await asyncio.sleep(0)

    def release_commits(self, topic_id: Uuid) -> None:
        pass

    def committed_for(self, topic_id: Uuid) -> tuple[Any, ...]:
        return ()


class Connection:
    """One inter-broker connection (`InterBrokerConnection`)."""

    def __init__(self, source: SimulatedBroker, target: SimulatedBroker) -> None:
        self._source, self._target = source, target
        self.is_open = True
        self.in_flight = 0
        self._waiting: dict[asyncio.Future[Any], None] = {}
        self.address = f"broker-{target.broker_id}"
        self.last: dict[int, float] = {}
        """When the last message of each side arrives."""
        source.connections[self] = target.connections[self] = None

    def __hash__(self) -> int:
        return hash((self._source.broker_id, self._target.broker_id))

    def abort(self) -> None:
        self.is_open = False
        self._source.connections.pop(self, None)
        self._target.connections.pop(self, None)
        waiting, self._waiting = self._waiting, {}
        for answer in waiting:
            if not answer.done():
                answer.set_exception(BrokerConnectionError("the connection has broken"))
                answer.exception()  # Retrieve it: asyncio logs an exception that no caller retrieves.

    async def drain(self) -> None:
        await asyncio.sleep(0)

    def supports(self, kind: type, version: int) -> bool:
        del kind, version
        return True

    async def learn_versions(self) -> None:
        pass

    def start(self, message: Any, version: int | None = None) -> asyncio.Future[Any]:
        del version
        if not self.is_open:
            raise BrokerConnectionError("the connection is closed")
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting[answer] = None
        self.in_flight += 1
        self._source.cluster.carry(self._source, self._target, self, lambda: self._arrived(message, answer))
        return answer

    async def answer_to(self, message: Any, answer: asyncio.Future[Any], *, timeout_s: float = 30.0) -> Any:
        del message
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            self.abort()
            raise KafkaTimeoutError("no answer in time") from None
        finally:
            self._waiting.pop(answer, None)
            self.in_flight -= 1

    async def request(self, message: Any, *, timeout_s: float = 30.0) -> Any:
        return await self.answer_to(message, self.start(message), timeout_s=timeout_s)

    def _arrived(self, message: Any, answer: asyncio.Future[Any]) -> None:
        self._target.process.spawn(self._serve(message, answer))

    async def _serve(self, message: Any, answer: asyncio.Future[Any]) -> None:
        response = await self._target.serve(message)

        def back() -> None:
            if self.is_open and not answer.done():
                answer.set_result(response)

        self._target.cluster.carry(self._target, self._source, self, back)


class SimulatedBroker:
    """One process of one broker."""

    def __init__(self, cluster: SimulatedCluster, broker_id: int, process: Process, disk: Disk) -> None:
        self.cluster, self.broker_id, self.process, self.disk = cluster, broker_id, process, disk
        self.connections: dict[Connection, None] = {}
        self.led: dict[tuple[Uuid, int], int] = {}
        """Leader epoch of each partition that this broker leads."""
        self.fenced: dict[Uuid, None] = {}
        self.shown: dict[Uuid, dict[int, tuple[int, int]]] = {}
        """What clients see: leader and leader epoch."""
        self._spoken = -1, -1
        self._marked: dict[Uuid, StagedNode] = {}
        """The stored marks of staged data."""
        self._introduced = asyncio.Event()
        """The first LeaderAndIsr of type FULL has been applied."""
        self._removing: dict[Uuid, None] = {}
        self._timers: dict[Uuid, asyncio.Task[Any]] = {}
        self._incarnation = cluster.new_id()
        self.controllers: list[Controller] = []
        self.reports = FetchReports()
        """A leader that runs already sends offsets to a process that has not come to its first callback."""
        self.ready = False

    # --- the process --------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start, as `lifecycle.app` does."""
        here = self.broker_id
        self.local = LocalControllerClient(here)
        self.leadership = ControllerLeadership()
        self.view = KnownCluster([])
        self.visibility = PartitionVisibility(here, self.reports.offsets)
        connect: Any = self.connect
        self.client = ClusterControllerClient(
            broker_id=here,
            local=self.local,
            changes=lambda: self.election.changes,
            leadership=self.leadership,
            view=self.view,
            open_connection=connect,
            address_of=self.cluster.address_of,
            pulls=True,
            clients_see=self.visibility.shown,
        )
        self.fence = ControllerFence()
        partitions: Any = self
        self.closing = TopicClosing(partitions, NoGroups(), self.view)
        self.marks = LoggedMarks(self.client, self.view, here)
        self.loader = MetadataLoader(self._fatal)
        self.log = self.cluster.quorum.node(here, self.process)
        self.election = QuorumElection(
            log=self.log,
            loader=self.loader,
            broker_id=here,
            leadership=self.leadership,
            make_controller=self._controller,
            on_fatal=self._fatal,
        )
        self.registration = QuorumRegistration(
            self.client,
            here,
            "commit",
            self._fatal,
            incarnation=self._incarnation,
            reports=self.reports,
            heartbeat_s=HEARTBEAT_S,
        )
        self.registration.on_life(self.fence.registered)
        self.order_results = ReplicaReports(self.client, here)
        self.publisher = BrokerMetadataPublisher(
            broker_id=here,
            incarnation=self._incarnation,
            between="PLAINTEXT",
            loader=self.loader,
            view=self.view,
            visibility=self.visibility,
            execute=self.execute,
            expire_fences=self.closing.expire,
            results=self.order_results,
            listener=self.registration,
            on_fatal=self._fatal,
        )
        self.publisher.start()
        self.log.listen(self.loader)

        async def no_ids() -> dict[str, Uuid]:
            return {}

        find: Any = no_ids
        shows: Any = lambda *_: True  # noqa: E731
        await self.election.start(find, shows)
        caught_up = False
        while not caught_up:
            with contextlib.suppress(KafkaError):
                await self.client.catch_up(CATCH_UP_MS)
                caught_up = True
        loaded = await self.marks.load()
        self._marked |= loaded
        endpoints = (Endpoint("PLAINTEXT", f"broker-{here}", 9092, "PLAINTEXT"),)
        await self.registration.register(endpoints, None, (f"dir-{here}",), topic_ids=True)
        self.registration.stay(endpoints, None, f"dir-{here}", lambda epoch: None)
        self.ready = True
        self.process.spawn(self._propose_isrs(), "isr")
        self.process.spawn(self._look_for_data(loaded), "staged-data")

    def _fatal(self, problem: FatalError) -> None:
        self.cluster.broken(f"broker {self.broker_id} cannot go on: {problem}")

    def _controller(self, epoch: int) -> Controller:
        channel = LocalChannel(self.handle, self.fence.term_ended)
        turn = asyncio.Lock()

        def remote(broker: BrokerImage) -> RemoteChannel:
            connect: Any = self.connect
            return RemoteChannel(broker.broker_id, lambda: connect(broker), turn, lambda: True)

        quotas: Any = NoQuotas()
        controller = Controller(
            client=self.local,
            terms=QuorumTerms(
                self.log,
                self.loader,
                epoch,
                self.broker_id,
                SESSION_S,
                offsets=self.reports.offsets,
                answer_fetches=lambda: self.cluster.relay(self),
            ),
            clock=self.cluster.clock,
            broker_id=self.broker_id,
            channels=BrokerChannels(self.broker_id, channel, remote),
            between="PLAINTEXT",
            settings=SETTINGS,
            unclean_elections=False,
            on_fatal=self._fatal,
            mutations=quotas,
        )
        self.controllers.append(controller)
        return controller

    # --- the network --------------------------------------------------------------------------------------------------

    async def connect(self, broker: BrokerImage) -> Connection:
        """Open a connection."""
        await asyncio.sleep(self.cluster.way())
        target = self.cluster.brokers.get(broker.broker_id)
        if target is None or target.process.dead or not self.cluster.reaches(self.broker_id, broker.broker_id):
            raise BrokerConnectionError("nothing listens there")
        return Connection(self, target)

    async def serve(self, message: Any) -> Any:
        """Answer another broker."""
        controller: Any = self.local
        context: Any = None
        match message:
            case wire.EnvelopeRequest():
                view: Any = self.election
                return await k58_envelope.handle(controller, view, "cluster", context, message)
            case wire.AlterPartitionRequest():
                return await k56_alter_partition.handle(controller, context, message)
            case wire.ControlledShutdownRequest():
                return await k07_controlled_shutdown.handle(controller, context, message)
        return response_to_wire(await self.handle(request_from_wire(message)))

    # --- orders -------------------------------------------------------------------------------------------------------

    async def handle(self, request: ControlRequest) -> ControlResponse:
        """Execute a controller's message."""
        refused = await self.fence.admit(request.controller_epoch, request.broker_epoch)
        return refusal(request, refused) if refused else await self.execute(request)

    async def execute(self, order: ControlRequest) -> ControlResponse:
        """Execute an order, as `api.controller_messages` does."""
        match order:
            case LeaderAndIsrRequest():
                return await self._apply(order)
            case StopReplicaRequest():
                return await self._stop(order)
            case RestoreReplicasRequest():
                return await self._restore(order)
            case UpdateMetadataRequest():
                self._show(order)
                return UpdateMetadataResponse(0)
            case CloseTopics():
                return await self.closing.close(order)
            case ReopenTopics():
                return await self.closing.reopen(order)
        raise AssertionError(order)

    async def _apply(self, order: LeaderAndIsrRequest) -> ControlResponse:
        listed = set()
        for topic in order.topic_states:
            for state in topic.partition_states:
                # A broker opens partitions one after the other.
                await asyncio.sleep(self.cluster.work())
                slot = topic.topic_id, state.partition_index
                listed.add(slot)
                if self.disk.replicas.get(slot) == PUT_ASIDE:
                    self._drop_timer(topic.topic_id)
                self.disk.replicas[slot] = LIVE
                self.led.pop(slot, None)
                if state.leader == self.broker_id:
                    self.led[slot] = state.leader_epoch
                    self.cluster.checks.leads(self.broker_id, *slot, state.leader_epoch)
        for topic in order.topic_states:
            self._forget_if_back(topic.topic_id)
        if order.type == LeaderAndIsrType.FULL:
            for slot in [slot for slot in self.led if slot not in listed]:
                del self.led[slot]
            image = self.view.image
            strays = {
                slot
                for slot, place in self.disk.replicas.items()
                if place == LIVE and slot not in listed and image.is_deleted(slot[0])
            }
            await self._put_aside({topic_id: "" for topic_id, _ in strays}, strays)
            self._introduced.set()
        return LeaderAndIsrResponse(0)

    async def _stop(self, order: StopReplicaRequest) -> ControlResponse:
        slots = {
            (topic.topic_id, state.partition_index)
            for topic in order.topic_states
            for state in topic.partition_states
            if state.delete_partition
        }
        for topic in order.topic_states:
            for state in topic.partition_states:
                self.led.pop((topic.topic_id, state.partition_index), None)
            self.fenced.pop(topic.topic_id, None)
        here = {slot for slot in slots if self.disk.replicas.get(slot) in (LIVE, BACK)}
        names = {topic.topic_id: topic.topic_name for topic in order.topic_states}
        await self._put_aside({topic_id: names[topic_id] for topic_id, _ in here}, here)
        return StopReplicaResponse(0, [self._good(topic) for topic in order.topic_states])

    @staticmethod
    def _good(topic: Any) -> TopicPartitionErrors:
        return TopicPartitionErrors(
            topic.topic_id, [PartitionError(state.partition_index, 0) for state in topic.partition_states]
        )

    async def _put_aside(self, names: dict[Uuid, str], slots: set[tuple[Uuid, int]]) -> None:
        now = self.cluster.clock.wall_ms()
        ordered = sorted(names, key=str)
        marks = {topic_id: StagedNode(names[topic_id], now, now + DELAY_MS) for topic_id in ordered}
        await self.marks.write(marks, ())
        self._marked |= marks
        await asyncio.sleep(self.cluster.work())
        for slot in slots:
            self.disk.replicas[slot] = PUT_ASIDE
        for topic_id in ordered:
            self._count_down(topic_id)

    async def _look_for_data(self, loaded: Mapping[Uuid, StagedNode]) -> None:
        """Continue the delays of replicas that an earlier process has staged. `loaded`: the marks of that process."""
        await self._introduced.wait()
        for topic_id in sorted({slot[0] for slot, place in self.disk.replicas.items() if place == PUT_ASIDE}, key=str):
            self._count_down(topic_id)
        on_disk = {slot[0] for slot, place in self.disk.replicas.items() if place != LIVE}
        for topic_id, mark in loaded.items():
            # An order may have written the mark again.
            if topic_id not in on_disk and self._marked.get(topic_id) is mark:
                del self._marked[topic_id]
                await self.marks.forget(topic_id)

    def _count_down(self, topic_id: Uuid) -> None:
        self._drop_timer(topic_id)
        self._timers[topic_id] = self.process.spawn(self._remove(topic_id), f"remove-{topic_id}")

    def _drop_timer(self, topic_id: Uuid) -> None:
        timer = self._timers.pop(topic_id, None)
        if timer is not None:
            timer.cancel()

    async def _remove(self, topic_id: Uuid) -> None:
        await asyncio.sleep(DELAY_MS / 1000)
        while True:
            record = self.view.image.deletions.get(topic_id)
            if record is not None and (record.closed or record.state == REMOVED):
                break
            if record is not None and record.state in (DELETING, STAGED):
                with contextlib.suppress(KafkaError):
                    await self.client.submit(CloseDeletions((topic_id,)))
            await asyncio.sleep(0.5)
        self._removing[topic_id] = None
        self._timers.pop(topic_id, None)
        await asyncio.sleep(self.cluster.work())
        for slot in [slot for slot in self.disk.replicas if slot[0] == topic_id]:
            self.cluster.checks.removes(self.broker_id, *slot)
            del self.disk.replicas[slot]
        self._marked.pop(topic_id, None)
        await self.marks.forget(topic_id)

    async def _restore(self, order: RestoreReplicasRequest) -> ControlResponse:
        answers = []
        for topic in order.topic_states:
            await asyncio.sleep(self.cluster.work())
            codes = []
            for index in topic.partitions:
                slot = topic.topic_id, index
                if topic.topic_id in self._removing or slot not in self.disk.replicas:
                    codes.append(PartitionError(index, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
                    continue
                self.disk.replicas[slot] = BACK
                codes.append(PartitionError(index, 0))
            self._drop_timer(topic.topic_id)
            answers.append(TopicPartitionErrors(topic.topic_id, codes))
        return RestoreReplicasResponse(0, tuple(answers))

    def _forget_if_back(self, topic_id: Uuid) -> None:
        """Take the mark away when the topic is in service again."""
        places = {place for slot, place in self.disk.replicas.items() if slot[0] == topic_id}
        if topic_id in self._marked and places == {LIVE}:
            del self._marked[topic_id]
            self.process.spawn(self.marks.forget(topic_id))

    def _show(self, order: UpdateMetadataRequest) -> None:
        spoken, image = (order.controller_epoch, order.broker_epoch), self.view.image
        if spoken != self._spoken and image.controller_epoch == order.controller_epoch:
            # The first message names all topics (`replicas.metadata_updates`).
            for topic_id in [topic_id for topic_id in self.shown if topic_id not in image.names]:
                del self.shown[topic_id]
        self._spoken = spoken
        for topic in order.topic_states:
            if any(state.leader == LEADER_DURING_DELETE for state in topic.partition_states):
                self.shown.pop(topic.topic_id, None)
                continue
            known = self.shown.setdefault(topic.topic_id, {})
            for state in topic.partition_states:
                known[state.partition_index] = state.leader, state.leader_epoch

    # --- `fenced_topics.FencedPartitions` -----------------------------------------------------------------------------

    def set_fenced(self, topic_id: Uuid, fenced: bool) -> Sequence[Any]:
        """Fence a topic's partitions, or open them."""
        led = sorted(index for led_id, index in self.led if led_id == topic_id)
        if fenced and led:
            self.fenced[topic_id] = None
        elif not fenced:
            self.fenced.pop(topic_id, None)
        return [SimpleNamespace(partition=index, log_start_offset=0, log_end_offset=10) for index in led]

    # --- leaders ------------------------------------------------------------------------------------------------------

    async def _propose_isrs(self) -> None:
        """Propose as ISR the replicas whose brokers run."""
        while True:
            await asyncio.sleep(self.cluster.random.uniform(0.3, 1.2))
            image, changes = self.view.image, []
            for (topic_id, index), epoch in list(self.led.items()):
                topic = image.topic_by_id(topic_id)
                if topic is None or topic.partitions[index].leader_epoch != epoch:
                    continue
                partition = topic.partitions[index]
                wanted = tuple(
                    (replica, image.brokers[replica].epoch)
                    for replica in partition.replicas
                    if replica in image.brokers and self.cluster.follows(replica, topic_id, index)
                )
                if {replica for replica, _ in wanted} != set(partition.isr) and any(
                    replica == self.broker_id for replica, _ in wanted
                ):
                    changes.append(IsrChange(topic_id, index, epoch, wanted, partition.state_version))
            if changes:
                with contextlib.suppress(KafkaError):
                    await self.client.submit(AlterIsr(self.broker_id, self.registration.epoch, tuple(changes)), 2_000)
