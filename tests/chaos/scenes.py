"""Directed faults: one topic with one partition, whose replicas are 1 (the leader), 2 and 3, and one sequence of events
that reveals a certain fault of the product, and nothing in a product without the fault."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.chaos.checker import check
from tests.chaos.history import History, Place
from tests.support.cluster import BrokerCluster, running_cluster, until
from tests.support.cluster_state import ClusterState, not_there, state_of
from tests.support.disks import LoopDisk, can_mount
from tests.support.links import ZOOKEEPER, Links
from tests.support.log_files import replica_logs
from tests.support.partition_states import PartitionState, StateUnknownError
from tests.support.wire import answers_metadata
from tests.topic_ids.lives import Lives

TOPIC = "t"
ANSWER_S = 10.0
"""Time limit for the responses of brokers during faults."""
SETTINGS = {"replica.lag.time.max.ms": "1500", "offsets.topic.num.partitions": "1"}


class SceneSettings(NamedTuple):
    """Directory and planted fault of a scene. `later`: resources to close after the brokers have ended."""

    folder: Path
    fault: str | None
    later: ExitStack


class Scene:
    """A running cluster and its acknowledged operations."""

    def __init__(self, settings: SceneSettings, cluster: BrokerCluster, links: Links, state: ClusterState) -> None:
        self._settings = settings
        self.cluster = cluster
        self.links = links
        self.state = state
        self.history = History()
        self.anomalies: list[str] = []
        self.lives = {number: Lives(broker.port, ANSWER_S) for number, broker in cluster.brokers.items()}
        self._numbers = 0

    # --- clients ------------------------------------------------------------------------------------------------------

    def create(self, at: int = 1, insync: int = 2, *, whole: bool = True) -> Uuid:
        """Create the topic through a broker; `whole`: return once all replicas are in sync."""
        topic = m.CreateTopicsRequest_CreatableTopic(
            name=TOPIC,
            num_partitions=-1,
            replication_factor=-1,
            assignments=[
                m.CreateTopicsRequest_CreatableReplicaAssignment(partition_index=0, broker_ids=[1, 2, 3]),
            ],
            configs=[m.CreateTopicsRequest_CreatableTopicConfig(name="min.insync.replicas", value=str(insync))],
        )
        # The response waits for every replica's broker; during faults one may not have the topic.
        answer = self.lives[at].call(m.CreateTopicsRequest(topics=[topic], timeout_ms=2_000), 7).topics[0]
        assert answer.error_code in (0, ErrorCode.REQUEST_TIMED_OUT), answer
        if whole:
            until(lambda: self.partition().isr == {1, 2, 3})
        if answer.error_code != 0:
            until(lambda: self.lives[at].metadata(TOPIC).error_code == 0)
        topic_id: Uuid = answer.topic_id if answer.error_code == 0 else self.lives[at].metadata(TOPIC).topic_id
        self.history.lives[topic_id.hex] = TOPIC
        return topic_id

    def delete(self, at: int, topic_id: Uuid) -> int:
        """Delete the topic through a broker; return the error code."""
        code: int = self.lives[at].delete(topic_id).error_code
        if code == 0:
            self.history.deleted.add(topic_id.hex)
        return code

    def write(self, at: int, count: int, topic_id: Uuid) -> int:
        """Send records to a broker, one per request; return the number of acknowledged records."""
        done = 0
        for _ in range(count):
            value = f"{topic_id.hex}/{self._numbers}"
            self._numbers += 1
            sent_at = time.monotonic()
            try:
                answer = self.lives[at].produce(topic_id, value)
            except OSError:
                return done
            if answer.error_code:
                return done
            self.history.acknowledge(Place(topic_id.hex, 0), answer.base_offset, value, sent_at)
            done += 1
        return done

    def write_some(self, at: int, count: int, topic_id: Uuid) -> int:
        """Wait until the broker accepts a record, then write like `write`."""
        until(lambda: self.write(at, 1, topic_id))
        return 1 + self.write(at, count - 1, topic_id)

    def values(self, topic_id: Uuid) -> list[tuple[int, str]]:
        """Return offsets and values of the acknowledged records."""
        return [(one.offset, one.value) for one in self.history.acknowledged[Place(topic_id.hex, 0)]]

    def coordinator(self, group: str) -> int:
        """Return the broker that coordinates a group; wait until there is one."""
        found: list[int] = []

        def serves() -> bool:
            at = self.lives[1 + len(found) % 3]
            try:
                answer = at.call(m.FindCoordinatorRequest(key=group, key_type=0), 3)
                found.append(answer.node_id)
                return answer.error_code == 0 and self.lives[answer.node_id].committed(group, TOPIC) != "loading"
            except OSError:
                found.append(-1)
                return False

        until(serves)
        return found[-1]

    # --- the cluster --------------------------------------------------------------------------------------------------

    def partition(self) -> PartitionState:
        """Return the partition's state, as the controller last wrote it."""
        return self.state.partitions()[TOPIC, 0]

    def controller(self) -> int:
        """Return the controller's id; wait until there is one."""
        until(self.state.controller)
        return self.state.controller() or 0

    def controller_is_not(self, number: int) -> None:
        """Make another broker the controller."""
        if self.controller() == number:
            self.kill(number)
            until(lambda: self.state.controller() not in (None, number))
            self.run(number)

    def leader_is_not(self, number: int) -> None:
        """Wait until another broker leads."""
        until(lambda: self.partition().leader not in (number, -1))

    def kill(self, *numbers: int) -> None:
        """Kill these brokers at the same time."""
        for number in numbers:
            self.cluster.brokers[number].kill()
            self.links.refuse(number)

    def run(self, *numbers: int) -> None:
        """Start brokers and wait until they serve clients."""
        for number in numbers:
            self.links.accept(number)
            self.cluster.brokers[number].launch()
        for number in numbers:
            self.cluster.brokers[number].await_answers()

    def own_disk(self, number: int) -> Callable[[], None]:
        """Move a broker's data to its own disk; call the result to cut that disk's power while the broker is stopped.
        Without the right to mount, the result restores the files of the beginning, as for a broker that does not flush.
        """
        broker = self.cluster.brokers[number]
        broker.stop()
        self.links.refuse(number)
        flushed = self._settings.folder / f"flushed-{number}"
        if can_mount():
            disk = LoopDisk(flushed, 64)
            self._settings.later.callback(disk.close)
            shutil.copytree(broker.data_dir, disk.path / "data")
            broker.settings["log.dirs"] = str(disk.path / "data")
            os.sync()
        else:
            shutil.copytree(broker.data_dir, flushed)
        self.run(number)
        until(lambda: self.partition().isr == {1, 2, 3})

        def cut() -> None:
            if can_mount():
                disk.cut()
                disk.reboot()
            elif self._settings.fault is not None:
                shutil.rmtree(broker.data_dir)
                shutil.copytree(flushed, broker.data_dir)

        return cut

    def isolate(self, number: int) -> None:
        """Cut the broker off from brokers and ZooKeeper; clients can still reach it."""
        self.links.cut_off(number, ZOOKEEPER, *(one for one in self.cluster.brokers if one != number))

    def finish(self, patience_s: float) -> list[str]:
        """End all faults, stop the brokers, and return the faults of the product that were found."""
        self.links.heal()
        for number, broker in self.cluster.brokers.items():
            code = broker.ended()
            if code is not None:
                self.anomalies.append(f"broker {number} ended by itself with exit code {code}: {broker.log_tail(3)}")
            if not broker.running:
                self.links.accept(number)
                broker.launch()
        self._within(patience_s, self._whole, "replicas do not come back in sync")
        assigned = {Place(one.topic_id, index): one.replicas for (_, index), one in self.state.partitions().items()}
        for number, broker in self.cluster.brokers.items():
            try:
                broker.stop()
            except (RuntimeError, AssertionError) as problem:
                self.anomalies.append(f"broker {number} does not stop: {str(problem).splitlines()[0]}")
        disks = {
            number: replica_logs(broker.log_dir) for number, broker in self.cluster.brokers.items()
        }
        return self.anomalies + check(self.history, disks, assigned, frozenset({"__consumer_offsets"}))

    def _whole(self) -> bool:
        if not all(answers_metadata(broker.port) for broker in self.cluster.brokers.values()):
            return False
        wanted = {name for topic_id, name in self.history.lives.items() if topic_id not in self.history.deleted}
        found = self.state.partitions()
        in_sync = all(one.isr == one.replicas and one.leader in one.isr for one in found.values())
        return in_sync and wanted <= {name for name, _ in found} and not not_there(self.cluster, self.state)

    def _within(self, patience_s: float, condition: Callable[[], bool], what: str) -> None:
        give_up = time.monotonic() + patience_s
        while True:
            try:
                if condition():
                    return
            except StateUnknownError:
                pass
            if time.monotonic() > give_up:
                self.anomalies.append(what)
                return
            time.sleep(0.1)


@contextmanager
def scene(folder: Path, fault: str | None, settings: Mapping[str, str]) -> Iterator[Scene]:
    """Yield a running cluster whose brokers have the planted fault."""
    module = ("pybroker",) if fault is None else ("tests.chaos.planted", fault)
    links = Links()
    chosen = {**SETTINGS, **settings}
    with (
        ExitStack() as later,
        closing(links),
        running_cluster(folder, settings=chosen, links=links, module=module) as cluster,
        state_of(cluster) as state,
    ):
        yield Scene(SceneSettings(folder, fault, later), cluster, links, state)
