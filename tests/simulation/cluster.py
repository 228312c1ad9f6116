"""A simulated cluster: its brokers, network, clients and troubles."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from pybroker.broker.cluster.events import (
    AlterConfigs,
    ConfigChange,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ElectLeaders,
    Event,
    NewPartitions,
    NewTopic,
    UndeleteTopic,
)
from pybroker.broker.metadata.image import BrokerImage
from pybroker.errors import KafkaError
from pybroker.native import Uuid
from tests.simulation.broker import DELAY_MS, Connection, Disk, SimulatedBroker
from tests.simulation.checks import Checks
from tests.simulation.loop import Process, SimulatedLoop
from tests.simulation.quorum import SimulatedQuorum

BROKERS = (1, 2, 3)
NAMES = ("a", "b", "c.d", "c_d", "e")
HEALED_S = 75.0
"""Time for the cluster to come to rest. Repeated orders take half a minute."""


class LoopClock:
    """`Clock` of the loop's time."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + self.monotonic_ms()

    def monotonic_ms(self) -> int:
        return int(self._loop.time() * 1000)


class Call:
    """One client's request."""

    def __init__(self, number: int, broker_id: int, event: Event[Any], timeout_ms: int, began: float) -> None:
        self.number, self.broker_id, self.event, self.timeout_ms, self.began = (
            number,
            broker_id,
            event,
            timeout_ms,
            began,
        )
        self.ended = -1.0
        self.paused_s = 0.0
        self.done = False
        self.lost = False
        """Its broker died."""
        self.complete = False
        self.error: KafkaError | None = None
        self.results: Sequence[Any] = ()

    @property
    def last(self) -> float:
        """The last time at which it may have been decided."""
        return self.ended if self.done and not self.lost and self.error is None else float("inf")

    def __str__(self) -> str:
        return f"call {self.number} at broker {self.broker_id} ({self.event}, {self.timeout_ms} ms, t={self.began:.3f})"


class SimulatedCluster:
    """One run."""

    def __init__(self, seed: int, *, keep_trace: bool = False) -> None:
        self.random = Random(seed)
        self.loop = SimulatedLoop(self.random)
        self.clock = LoopClock(self.loop)
        self.lines: list[str] | None = [] if keep_trace else None
        self._hash = hashlib.sha256()
        self.problems: list[str] = []
        self.checks = Checks(self.broken, self.loop.time)
        self.quorum = SimulatedQuorum(self.loop, self.random, len(BROKERS), self.trace)
        self.quorum.on_commit = self.checks.committed
        self.disks = {broker_id: Disk() for broker_id in BROKERS}
        self.brokers: dict[int, SimulatedBroker] = {}
        self.calls: list[Call] = []
        self._stalled: list[tuple[SimulatedBroker, SimulatedBroker, Connection, Callable[[], None]]] = []
        self.breaks = 0.0
        """Probability that a message breaks its connection after its arrival."""
        self._calm_since = 0.0
        self.slow = 0.0
        """Probability that a message or an order takes long."""

    def trace(self, line: str) -> None:
        """Note what happens."""
        line = f"{self.loop.time():.6f} {line}"
        self._hash.update(line.encode())
        if self.lines is not None:
            self.lines.append(line)

    @property
    def digest(self) -> str:
        """The hash of everything noted, and of the number of callbacks."""
        return f"{self._hash.hexdigest()[:16]}-{self.loop.steps}"

    def broken(self, problem: str) -> None:
        """Note a broken invariant."""
        self.trace(f"BROKEN {problem}")
        self.problems.append(f"t={self.loop.time():.3f} {problem}")

    def new_id(self) -> Uuid:
        """Return an id that depends on the seed."""
        return Uuid(self.random.getrandbits(62), self.random.getrandbits(63))

    @property
    def calm_s(self) -> float:
        """How long nothing has disturbed the cluster."""
        disturbed = self.quorum.isolated or self.slow or self.breaks or self.quorum.slow_s
        paused = max((broker.process.paused_until for broker in self.brokers.values()), default=0.0)
        return 0.0 if disturbed else self.loop.time() - max(self._calm_since, paused)

    # --- the network --------------------------------------------------------------------------------------------------

    def way(self) -> float:
        """Return how long a message takes."""
        random = self.random
        return random.uniform(0.05, 1.5) if random.random() < self.slow else random.uniform(0.0001, 0.003)

    def work(self) -> float:
        """Return how long a piece of work on a disk takes."""
        random = self.random
        return random.uniform(0.05, 1.0) if random.random() < self.slow else random.uniform(0, 0.002)

    def reaches(self, source: int, target: int) -> bool:
        return source == target or not {source, target} & self.quorum.isolated

    def carry(
        self, source: SimulatedBroker, target: SimulatedBroker, line: Connection, call: Callable[[], None]
    ) -> None:
        """Carry a message over a connection, in the order of its direction."""
        at = line.last[source.broker_id] = max(self.loop.time() + self.way(), line.last.get(source.broker_id, 0.0))
        self.loop.call_at(at, self._arrive, source, target, line, call, context=self.outside)

    def _arrive(
        self, source: SimulatedBroker, target: SimulatedBroker, line: Connection, call: Callable[[], None]
    ) -> None:
        if not line.is_open:
            return
        if source.process.dead or target.process.dead:
            line.abort()
        elif not self.reaches(source.broker_id, target.broker_id):
            self._stalled.append((source, target, line, call))
        else:
            call()
            if self.breaks and self.random.random() < self.breaks:
                self.trace(f"the connection {source.broker_id}-{target.broker_id} breaks")
                line.abort()

    def relay(self, leader: SimulatedBroker) -> None:
        """Tell the others the applied offsets that the leader knows."""
        if self.quorum.leader != leader.broker_id:
            return
        offsets = leader.reports.offsets
        known, version = dict(offsets.offsets), offsets.version
        for broker_id, broker in self.brokers.items():
            if broker is not leader and self.reaches(leader.broker_id, broker_id):
                broker.process.later(self.way(), broker.reports.offsets.receive, version, known)

    def address_of(self, broker_id: int) -> BrokerImage | None:
        """Return where a broker listens."""
        return BrokerImage(broker_id, -1, (), None)

    def follows(self, broker_id: int, topic_id: Uuid, index: int) -> bool:
        """Return whether a replica copies its leader."""
        broker = self.brokers.get(broker_id)
        return (
            broker is not None
            and not broker.process.dead
            and broker_id not in self.quorum.isolated
            and self.disks[broker_id].replicas.get((topic_id, index)) == "live"
        )

    # --- processes ----------------------------------------------------------------------------------------------------

    def start_broker(self, broker_id: int) -> None:
        """Start a broker's process."""
        self.trace(f"broker {broker_id} starts")
        process = Process(self.loop, f"broker-{broker_id}")
        broker = self.brokers[broker_id] = SimulatedBroker(self, broker_id, process, self.disks[broker_id])
        process.spawn(broker.start(), "start")

    def kill_broker(self, broker_id: int) -> None:
        """Kill a broker's process."""
        broker = self.brokers[broker_id]
        if broker.process.dead:
            return
        self.trace(f"broker {broker_id} dies")
        self.loop.kill(broker.process)
        for line in list(broker.connections):
            self.loop.call_later(self.random.uniform(0, 0.01), line.abort)
        for call in self.calls:
            if call.broker_id == broker_id and not call.done:
                call.done = call.lost = True
                call.ended = self.loop.time()
        self.quorum.died(broker_id)

    def isolate(self, broker_id: int) -> None:
        self.trace(f"broker {broker_id} is cut off")
        self.quorum.isolated.add(broker_id)
        self.quorum.logs[broker_id].cut()
        self.quorum.wake()

    def reconnect(self) -> None:
        """Connect all brokers again. Old connections go on, or break."""
        self.trace("all brokers reach each other")
        self.quorum.isolated.clear()
        stalled, self._stalled = self._stalled, []
        for source, target, line, call in stalled:
            if self.random.random() < 0.5:
                line.abort()
            else:
                self.carry(source, target, line, call)
        self.quorum.wake()

    def pause(self, broker_id: int, seconds: float) -> None:
        """Stop a process for a while."""
        self.trace(f"broker {broker_id} stands still for {seconds:.3f} s")
        broker = self.brokers[broker_id]
        broker.process.paused_until = self.loop.time() + seconds
        for call in self.calls:
            if not call.done and call.broker_id == broker_id:
                call.paused_s += seconds

    # --- clients ------------------------------------------------------------------------------------------------------

    def call(self) -> None:
        """Let some client ask for something."""
        able = [broker for broker in self.brokers.values() if broker.ready and not broker.process.dead]
        if not able:
            return
        broker = self.random.choice(able)
        event = self._event(broker)
        if event is None:
            return
        timeout_ms = self.random.choice((0, 300, 1_000, 3_000, 15_000, 25_000))
        call = Call(len(self.calls), broker.broker_id, event, timeout_ms, self.loop.time())
        call.paused_s = max(0.0, broker.process.paused_until - call.began)
        self.calls.append(call)
        self.trace(str(call))
        broker.process.spawn(self._ask(broker, call), f"call-{call.number}")

    def _event(self, broker: SimulatedBroker) -> Event[Any] | None:
        random, image, now = self.random, broker.view.image, self.clock.wall_ms()
        number = len(self.calls)
        by, kind = f"User:{number}", random.random()
        topics = list(image.topics.values())
        if kind < 0.35 or not topics:
            name = random.choice(NAMES) if random.random() < 0.7 else f"topic-{number}"
            wanted = NewTopic(name, random.randint(1, 3), random.randint(1, 3), None, {})
            return CreateTopics((wanted,), False, number, now, by)
        topic = random.choice(topics)
        if kind < 0.55:
            return DeleteTopics((topic.topic_id,), by, now, DELAY_MS)
        if kind < 0.65:
            records = [record for record in image.deletions.values() if record.undeletable]
            if not records:
                return None
            record = random.choice(records)
            new_name = None if random.random() < 0.5 else f"again-{number}"
            return UndeleteTopic(record.topic_id, new_name, by, now)
        if kind < 0.75:
            total = len(topic.partitions) + random.randint(0, 2)
            return CreatePartitions((NewPartitions(topic.name, total, None, topic.topic_id),), False, number)
        if kind < 0.87:
            change = ConfigChange("topic", topic.name, {"retention.ms": str(number + 1)}, topic_id=topic.topic_id)
            return AlterConfigs((change,))
        return ElectLeaders(False, None)

    async def _ask(self, broker: SimulatedBroker, call: Call) -> None:
        try:
            answer = await broker.client.submit(call.event, call.timeout_ms)
        except KafkaError as error:
            call.error = error
        else:
            call.complete = answer.is_complete
            call.results = answer.reply if isinstance(answer.reply, list) else [answer.reply]
        call.ended, call.done = self.loop.time(), True
        self.trace(f"call {call.number} ended: {call.error or call.results} {call.complete}")
        self.checks.answered(call, self.calm_s)

    # --- the run ------------------------------------------------------------------------------------------------------

    async def _trouble(self) -> None:
        """One trouble."""
        self._calm_since = self.loop.time()
        random, quorum = self.random, self.quorum
        broker_id, kind = random.choice(BROKERS), random.random()
        dead = [each for each in BROKERS if self.brokers[each].process.dead]
        if dead and random.random() < 0.5:
            self.start_broker(random.choice(dead))
        elif kind < 0.3:
            quorum.depose(away=random.random() < 0.5)
        elif kind < 0.5:
            if len(dead) < 1 or random.random() < 0.2:
                self.kill_broker(broker_id)
        elif kind < 0.65:
            if quorum.isolated:
                self.reconnect()
            else:
                self.isolate(broker_id)
        elif kind < 0.75:
            self.pause(broker_id, random.choice((0.02, 0.3, 2.0, 4.0)))
        elif kind < 0.85:
            self.slow = random.choice((0.0, 0.02, 0.2))
        elif kind < 0.95:
            self.breaks = random.choice((0.0, 0.01, 0.1))
        else:
            quorum.slow_s = random.choice((0.0, 0.2, 3.0))

    async def _relays(self) -> None:
        while True:
            await asyncio.sleep(0.5)
            leader = self.brokers.get(-1 if self.quorum.leader is None else self.quorum.leader)
            if leader is not None:
                self.relay(leader)

    async def run(self, turns: int) -> None:
        """Let clients work and troubles happen, then heal everything and look at the rest."""
        from contextvars import copy_context

        self.outside = copy_context()
        relays = self.loop.create_task(self._relays())
        for broker_id in BROKERS:
            self.start_broker(broker_id)
        await asyncio.sleep(self.random.uniform(1, 4))
        busy = self.random.choice((0.1, 0.3, 0.6))
        for _ in range(turns):
            if self.random.random() < busy:
                await self._trouble()
            else:
                self.call()
            await asyncio.sleep(self.random.choice((0.0, 0.001, 0.01, 0.1, 0.5, 2.0)) * self.random.random())
        self.slow = self.breaks = quorum_slow = 0.0
        self.quorum.slow_s = quorum_slow
        self.reconnect()
        for broker_id in BROKERS:
            if self.brokers[broker_id].process.dead:
                self.start_broker(broker_id)
        self.trace("healed")
        self._calm_since = self.loop.time()
        await asyncio.sleep(HEALED_S)
        relays.cancel()
        self.checks.at_rest(self)
