"""`python -m benches.cluster.simulated`: load of a controller by a cluster that is too large for this machine.

The controller and ZooKeeper are real. A broker is only a channel, which encodes each message as for the network and
responds at once. Times run from the event until every affected broker has responded. `turn_ms` is the longest CPU time
of one step of the event loop.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import uvloop

from benches.cluster.rest import WatchedClient, until_at_rest
from benches.compare.peers import cpu_seconds, resident_mib
from benches.readme import shown
from pybroker.broker.clock import SystemClock
from pybroker.broker.cluster.channel import Channel
from pybroker.broker.cluster.events import CreateTopics, DeleteTopics, NewTopic
from pybroker.broker.controller.controller import Controller
from pybroker.broker.controller.local_channel import LocalChannel
from pybroker.broker.controller.terms import StoreTerms
from pybroker.broker.interbroker.control_wire import sendable
from pybroker.broker.interbroker.interbroker_connection import InterBrokerConnection
from pybroker.broker.lifecycle.startup.store_opening import prepare_store
from pybroker.broker.metadata import znodes
from pybroker.broker.metadata.control_messages import (
    CloseTopics,
    CloseTopicsResponse,
    ControlRequest,
    ControlResponse,
    PartitionError,
    StopReplicaRequest,
    StopReplicaResponse,
    TopicPartitionErrors,
    refusal,
)
from pybroker.broker.metadata.image import BrokerImage
from pybroker.broker.metadata.metadata_store import Create, Delete
from pybroker.broker.metadata.znodes import BrokerNode, Endpoint
from pybroker.broker.metadata.zookeeper_store import ZooKeeperSettings, ZooKeeperStore
from pybroker.native import Uuid, encode
from pybroker.protocol.caller import Caller
from tests.support.zookeeper import ZooKeeperServer

BEAT_S = 0.002
QUIET_S = 3.0
"""Time between a controller's write and the store's notification about it."""
REPLICAS = 3
PARTITIONS = 1_000
"""Partitions of each topic."""


def _done(request: ControlRequest) -> ControlResponse:
    if isinstance(request, StopReplicaRequest):
        topics = [
            TopicPartitionErrors(
                topic.topic_id, [PartitionError(state.partition_index, 0) for state in topic.partition_states]
            )
            for topic in request.topic_states
        ]
        return StopReplicaResponse(0, topics)
    if isinstance(request, CloseTopics):
        return CloseTopicsResponse()
    return refusal(request, 0)


class AnsweringChannels:
    """`cluster.channel.Channels` to simulated brokers: encodes messages and answers that they succeeded."""

    def __init__(self) -> None:
        self.counts = {"messages": 0, "bytes": 0}
        self.moved = time.perf_counter()
        self._channels: dict[int, LocalChannel] = {}
        self._turn = asyncio.Lock()

    def to(self, broker: BrokerImage) -> Channel | None:
        """Return a queue for each broker, as in a cluster."""
        return self._channels.setdefault(broker.broker_id, LocalChannel(self._answer, lambda epoch: None))

    async def _answer(self, request: ControlRequest) -> ControlResponse:
        async with self._turn:  # Send one message at a time, as `RemoteChannel` does.
            wire = await sendable(request)
            self.counts["messages"] += 1
            self.counts["bytes"] += len(encode(wire, InterBrokerConnection.schema_of(type(wire)).highest))
            await asyncio.sleep(0)
        self.moved = time.perf_counter()
        return _done(request)

    def follow(self, brokers: Mapping[int, BrokerImage]) -> None:
        """Do nothing: there are no real connections."""

    async def close(self) -> None:
        """Close after all messages have a response."""
        await self.drain()

    async def drain(self) -> None:
        """Wait until all messages have a response."""
        for channel in list(self._channels.values()):
            await channel.drain()


class Turns:
    """Measures the longest step of the event loop, in CPU time of its thread: other processes share the machine."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self._task = asyncio.create_task(self._beat())

    async def _beat(self) -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(BEAT_S)
            self.longest_s = max(self.longest_s, time.thread_time() - before)


class Unbounded:
    """Implements `controller.mutation_quota.MutationUsage` for clients without a quota."""

    def has_quota(self, caller: Caller) -> bool:
        del caller
        return False

    def charge(self, caller: Caller, partitions: int) -> tuple[bool, int]:
        raise AssertionError((caller, partitions))


class Simulation:
    """A controller, its store, and the printed table of results."""

    def __init__(self, store: ZooKeeperStore) -> None:
        self._store = store
        self._turns = Turns()
        self.client = WatchedClient(1)
        self.channels = AnsweringChannels()
        self.controller = self._controller()
        self._before: Controller | None = None

    def _controller(self) -> Controller:
        self.client = WatchedClient(1)
        self.channels = AnsweringChannels()

        def fatal(problem: BaseException) -> None:
            raise problem

        clock = SystemClock()
        return Controller(
            client=self.client,
            terms=StoreTerms(self._store, clock, 1),
            clock=clock,
            broker_id=1,
            channels=self.channels,
            between="BETWEEN",
            settings={"topic.history.max.incarnations": 10_000, "auto.leader.rebalance.enable": False},
            unclean_elections=False,
            on_fatal=fatal,
            mutations=Unbounded(),
        )

    async def start(self) -> None:
        """Become the controller."""

        async def nothing_local() -> dict[str, Any]:
            return {}

        await self.controller.start(nothing_local, lambda stored, shown: True)

    async def start_anew(self) -> None:
        """Take over as another broker does when the controller has ended."""
        await self.controller.stop()
        await self._store.delete(znodes.CONTROLLER)
        # Keep the old controller: in reality it is in another process, and freeing its memory takes no time here.
        self._before = self.controller
        self.controller = self._controller()
        await self.start()

    async def measured(self, name: str, work: Callable[[], Awaitable[object]]) -> None:
        """Print one row of the table after all effects of the work have ended; the time that detects the end is not
        included."""
        self._turns.longest_s = 0.0
        self.channels.counts |= {"messages": 0, "bytes": 0}
        cpu, since = cpu_seconds(os.getpid()), time.perf_counter()
        await work()
        decided = time.perf_counter() - since
        took = max(decided, await until_at_rest(self.client, self.channels, QUIET_S) - since)
        counts = self.channels.counts
        cells = (decided, took, cpu_seconds(os.getpid()) - cpu, self._turns.longest_s * 1e3, counts["messages"],
                 counts["bytes"] / 1e6, resident_mib(os.getpid()))  # fmt: skip
        print(f"| {name} | " + " | ".join(shown(cell) for cell in cells) + " |", flush=True)


def _registration(broker_id: int) -> Create:
    endpoints = (Endpoint("PLAINTEXT", f"broker-{broker_id}", 9092, "PLAINTEXT"),
                 Endpoint("BETWEEN", f"broker-{broker_id}", 9093, "PLAINTEXT"))  # fmt: skip
    node = BrokerNode(endpoints, f"rack-{broker_id % 3}", 0, True, "")
    return Create(f"{znodes.BROKER_IDS}/{broker_id}", node.encode(), ephemeral=True)


async def simulate(address: str, brokers: int, topics: int) -> None:
    """Run all cases and print the table."""
    store = await ZooKeeperStore.open(ZooKeeperSettings(address, 60_000, 60_000))
    try:
        await prepare_store(store)
        await store.multi([_registration(broker_id) for broker_id in range(1, brokers + 1)])
        one = Simulation(store)
        heading = ("event", "answered s", "all told s", "CPU s", "turn_ms", "messages", "MB", "resident MiB")
        print(f"{brokers} brokers, {topics} topics of {PARTITIONS} partitions, {REPLICAS} replicas each\n")
        print(f"| {' | '.join(heading)} |\n|{'---|' * len(heading)}", flush=True)
        await one.measured("first controller, nothing there", one.start)

        made: list[Uuid] = []

        async def create(first: int, count: int) -> None:
            for number in range(first, first + count):
                topic = NewTopic(f"topic-{number}", PARTITIONS, REPLICAS, None, {})
                answer = await one.client.submit(CreateTopics((topic,), False, number * 7, 0))
                if isinstance(answer.reply[0], Exception):
                    raise answer.reply[0]
                made.append(answer.reply[0].topic_id)

        await one.measured(f"{topics - 1} topics made, one by one", lambda: create(0, topics - 1))
        await one.measured("one more topic", lambda: create(topics - 1, 1))
        await one.measured("another controller", one.start_anew)
        await one.measured("a broker is lost", lambda: store.multi([Delete(f"{znodes.BROKER_IDS}/{brokers}")]))
        await one.measured("it is back", lambda: store.multi([_registration(brokers)]))
        gone = DeleteTopics((made[0],), "bench", 0, 60_000)
        await one.measured("a topic is deleted", lambda: one.client.submit(gone))
        await one.controller.stop()
    finally:
        await store.close()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benches.cluster.simulated", description=__doc__)
    parser.add_argument("--brokers", type=int, default=100)
    parser.add_argument("--topics", type=int, default=200, help=f"of {PARTITIONS} partitions each")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pybroker-bench-") as folder:
        server = ZooKeeperServer(Path(folder))
        server.heap = "2g"
        try:
            server.start()
            uvloop.run(simulate(server.address, arguments.brokers, arguments.topics))
        finally:
            server.kill()


if __name__ == "__main__":
    main()
