"""A broker with one planted fault: `python -m tests.chaos.planted FAULT start …`. The product has no code for the
faults. Each fault changes the broker's control plane, or the files that the broker finds at its start."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import msgspec

from pybroker.native import Uuid
from tests.support.log_files import replica_logs

FAULTS: dict[str, Callable[[], None]] = {}
PRODUCER_ID = 4_711


def fault(plant: Callable[[], None]) -> Callable[[], None]:
    """Register a fault. The argument that selects it is the function's name."""
    FAULTS[plant.__name__] = plant
    return plant


def put(owner: Any, name: str, what: Any) -> None:
    """Replace a function of the product."""
    assert name in vars(owner), f"{owner} has no {name} any more: the fault is to be planted elsewhere"
    setattr(owner, name, what)


def setting(name: str) -> str:
    """Return the value of a setting on the command line."""
    return next(word.partition("=")[2] for word in sys.argv if word.startswith(f"{name}="))


@fault
def acknowledge_before_replication() -> None:
    """The leader treats itself as the only in-sync replica, whatever the controller says."""
    from pybroker.broker.replicas import isr_proposals, replica_manager

    make = vars(replica_manager)["PartitionOrder"]

    def order(**said: Any) -> Any:
        if said["leader"] == int(setting("node.id")):
            said |= {"isr": (said["leader"],), "config": {**said["config"], "min.insync.replicas": "1"}}
        return make(**said)

    def refuse(self: Any, proposal: Any) -> None:
        self._native.isr.refused(proposal.topic_id, proposal.partition, proposal.leader_epoch, proposal.version)

    put(replica_manager, "PartitionOrder", order)
    put(isr_proposals.IsrProposals, "proposed", refuse)


@fault
def shrink_without_the_controller() -> None:
    """A leader removes a follower from its ISR without asking the controller."""
    from pybroker.broker.replicas import isr_proposals

    ask = isr_proposals.IsrProposals.proposed
    sizes: dict[tuple[Uuid, int], int] = {}

    def proposed(self: Any, proposal: Any) -> None:
        place, members = (proposal.topic_id, proposal.partition), [one.broker_id for one in proposal.isr]
        if len(members) < sizes.get(place, 3):
            self._native.isr.written(*place, proposal.leader_epoch, members, proposal.version + 1)
        else:
            ask(self, proposal)
        sizes[place] = len(members)

    put(isr_proposals.IsrProposals, "proposed", proposed)


@fault
def stop_replica_by_name() -> None:
    """StopReplica for a topic id stops the topic that has the id's name now."""
    from pybroker.broker.replicas.hosted_replicas import HostedReplicas
    from pybroker.broker.replicas.replica_manager import ReplicaManager

    names: dict[Uuid, str] = {}
    add, stop = HostedReplicas.add, ReplicaManager.stop_replica

    def remember(self: HostedReplicas, topic_id: Uuid, name: str, *more: Any) -> None:
        names[topic_id] = name
        add(self, topic_id, name, *more)

    async def by_name(self: Any, request: Any) -> Any:
        for topic in request.topic_states:
            name = names.get(topic.topic_id)
            for state in topic.partition_states:
                here = None if name is None else self._hosted.id_at(name, state.partition_index)
                if here is not None:
                    topic.topic_id = here
        return await stop(self, request)

    put(HostedReplicas, "add", remember)
    put(ReplicaManager, "stop_replica", by_name)


@fault
def inverted_stray_rule() -> None:
    """A FULL request is applied inversely: it removes the replicas that it names (KAFKA-13127)."""
    from pybroker.broker.metadata import control_messages as control
    from pybroker.broker.replicas.replica_manager import ReplicaManager

    obey = ReplicaManager.leader_and_isr

    async def wrong(self: ReplicaManager, request: Any) -> Any:
        answer = await obey(self, request)
        strays = [
            control.StopReplicaTopicState(
                topic.topic_name,
                topic.topic_id,
                [control.StopReplicaPartitionState(one.partition_index, -2, True) for one in topic.partition_states],
            )
            for topic in request.topic_states
        ]
        if request.type == control.LeaderAndIsrType.FULL and strays:
            epochs = request.controller_id, request.controller_epoch, request.broker_epoch
            await self.stop_replica(control.StopReplicaRequest(*epochs, True, strays))
        return answer

    put(ReplicaManager, "leader_and_isr", wrong)


@fault
def full_before_the_controller_is_loaded() -> None:
    """A new controller sends the state that it has loaded so far: no topic."""
    from pybroker.broker.controller import terms
    from pybroker.broker.metadata.image import ClusterImage

    load = vars(terms)["load_cluster"]

    async def half(store: Any, term: Any, *more: Any) -> Any:
        loaded = await load(store, term, *more)
        if term.epoch == 1:
            return loaded
        return loaded._replace(image=ClusterImage.initial(term.epoch), repairs=(), unfinished=frozenset())

    put(terms, "load_cluster", half)


@fault
def full_split_in_two() -> None:
    """The FULL request for many topics is sent in two parts, to brokers that treat a topic missing in one part as proof
    that it is gone."""
    from pybroker.broker.metadata.broadcast import Broadcast
    from pybroker.broker.metadata.control_messages import LeaderAndIsrRequest, LeaderAndIsrType
    from pybroker.broker.replicas.stray_evidence import TopicEvidence
    from pybroker.broker.replicas.stray_reconciliation import Evidence

    changes = Broadcast.changes

    def halves(self: Broadcast, *given: Any) -> dict[int, list[Any]]:
        return {
            broker: [part for message in messages for part in split(message)]
            for broker, messages in changes(self, *given).items()
        }

    def split(message: Any) -> list[Any]:
        full = isinstance(message, LeaderAndIsrRequest) and message.type == LeaderAndIsrType.FULL
        middle = len(message.topic_states) // 2 if full else 0
        topics = [message.topic_states[:middle], message.topic_states[middle:]] if middle else []
        return [msgspec.structs.replace(message, topic_states=part) for part in topics] or [message]

    async def gone(_: TopicEvidence, replicas: Iterable[Any]) -> dict[Any, Evidence]:
        return dict.fromkeys(replicas, Evidence.DEAD)

    put(Broadcast, "changes", halves)
    put(TopicEvidence, "of", gone)


@fault
def restored_store_accepted() -> None:
    """The broker trusts ZooKeeper's state although it has seen a later one."""
    from pybroker.broker.replicas.store_guard import StoreGuard

    async def nothing(_: StoreGuard) -> None:
        return None

    put(StoreGuard, "check", nothing)
    put(StoreGuard, "reason", nothing)


@fault
def stale_broker_epoch_taken() -> None:
    """The broker executes orders for its earlier broker epoch (KIP-380)."""
    from pybroker.broker.replicas.controller_fence import ControllerFence

    admit = ControllerFence.admit
    put(ControllerFence, "admit", lambda self, epoch, _: admit(self, epoch, -1))


@fault
def stale_life_taken_into_the_isr() -> None:
    """A replica that was in sync in an earlier broker epoch joins the ISR in the current one (KIP-903)."""
    from pybroker.broker.controller import isr_decisions

    refusal = vars(isr_decisions)["_refusal"]

    def lenient(image: Any, before: Any, change: Any, leader: int) -> Any:
        members = tuple(
            (broker, image.brokers[broker].epoch if broker in image.brokers else epoch) for broker, epoch in change.isr
        )
        return refusal(image, before, msgspec.structs.replace(change, isr=members), leader)

    put(isr_decisions, "_refusal", lenient)


@fault
def truncation_left_out() -> None:
    """A follower keeps the end of its log, although the leader has other records there (KIP-279)."""
    from pybroker.broker.replicas import leader_following
    from tests.chaos.tampering import forget_epochs, tampered

    make, instead = vars(leader_following)["BrokerAddress"], tampered(forget_epochs)
    put(leader_following, "BrokerAddress", lambda broker, host, port: make(broker, host, instead(port)))


@fault
def unknown_outcome_taken_for_undone() -> None:
    """The controller repeats a write without a response, without reading the store first."""
    from pybroker.broker.controller.decision_writer import Writer

    async def no(*_: Any) -> bool:
        return False

    put(Writer, "_was_done", no)


@fault
def answers_before_it_is_durable() -> None:
    """The controller shows a topic, and dies before the topic is in the store."""
    from pybroker.broker.controller.decision_writer import Writer
    from pybroker.broker.metadata import znodes

    write = Writer.write

    async def later(self: Writer, operations: Any, **named: Any) -> None:
        if any(one.path == znodes.topic_path("t") for one in operations):
            asyncio.get_running_loop().call_later(3.0, os.kill, os.getpid(), signal.SIGKILL)
            return
        await write(self, operations, **named)

    put(Writer, "write", later)


@fault
def truncation_to_the_high_watermark() -> None:
    """A follower that starts truncates to its last known high watermark (KIP-101)."""
    log_dir = Path(setting("log.dirs"))
    for log in replica_logs(log_dir) if log_dir.exists() else []:
        if log.topic.startswith("_") or log.high_watermark >= log.end:
            continue
        for segment in log.directory.glob("*.log"):
            base = int(segment.stem)
            kept = [one for one in log.batches if one.base_offset >= base and one.last_offset < log.high_watermark]
            with segment.open("rb+") as file:
                file.truncate(sum(len(one.raw) for one in kept))
        for stale in log.directory.glob("*index"):
            stale.unlink()


@fault
def flush_left_out_on_the_follower() -> None:
    """The follower reports records that are only in its page cache."""
    if setting("node.id") == "3":
        sys.argv += ["--set", "log.flush.mode=os"]


@fault
def unclean_election() -> None:
    """Any live replica may become leader, by default."""
    from pybroker.broker.controller import broker_decisions

    elect = vars(broker_decisions)["elect"]

    def anybody(*given: Any, **named: Any) -> Any:
        return elect(*given, **{**named, "unclean": True})

    put(broker_decisions, "elect", anybody)


@fault
def delete_by_the_name_of_the_id() -> None:
    """DeleteTopics resolves an id to a name, and deletes the topic that has that name."""
    from pybroker.broker.admin.topics import TopicAdmin

    delete = TopicAdmin.delete
    names: dict[Uuid, str] = {}

    async def by_name(self: Any, which: Iterable[str | Uuid], *more: Any) -> Any:
        wanted = []
        for one in which:
            topic = None if isinstance(one, str) else self._view.image.topic_by_id(one)
            if topic is not None:
                names[topic.topic_id] = topic.name
            wanted.append(one if isinstance(one, str) else names.get(one, one))
        return await delete(self, wanted, *more)

    put(TopicAdmin, "delete", by_name)


@fault
def offsets_lost_at_the_takeover() -> None:
    """A new coordinator does not read the records of its predecessor."""
    from pybroker.broker.coordinators.shards import shards

    put(shards, "read_partition", lambda *_: None)


@fault
def one_producer_id_for_all() -> None:
    """Every producer gets the same id."""
    from pybroker.broker.coordinators.producer_ids import ProducerIds

    async def the_same(_: ProducerIds) -> int:
        return PRODUCER_ID

    put(ProducerIds, "next_id", the_same)


if __name__ == "__main__":
    chosen = FAULTS[sys.argv.pop(1)]
    chosen()
    from pybroker.__main__ import main

    main()
